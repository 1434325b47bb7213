"""Nobody becomes somebody in a member by having a name."""

from __future__ import annotations

import pytest

from fleet.errors import Forbidden
from fleet.kube.wire import UserInfo
from fleet.view.crossing import as_dispatcher, crossed, headers


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (("dev",), ("fleet:dev", "system:authenticated")),
        (("system:masters",), ("system:authenticated",)),
        (("system:serviceaccounts", "system:authenticated"), ("system:authenticated",)),
        (("fleet:admins",), ("fleet:admins", "system:authenticated")),
        ((), ("system:authenticated",)),
    ],
)
def test_groups_cross_under_the_prefix(groups: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert crossed(UserInfo("jane", groups)).groups == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jane", "fleet:jane"),
        ("system:serviceaccount:payments:ci", "fleet:system:serviceaccount:payments:ci"),
        ("system:admin", "fleet:system:admin"),
        ("fleet:admin", "fleet:admin"),
    ],
)
def test_names_cross_under_the_prefix(name: str, expected: str) -> None:
    assert crossed(UserInfo(name)).name == expected


def test_what_an_authenticator_added_stays_at_home() -> None:
    user = crossed(UserInfo("jane", uid="1", extra={"scopes": ("all",)}))
    assert (user.uid, user.extra) == ("", {})


@pytest.mark.parametrize(
    ("name", "groups"),
    [("jane\nImpersonate-Group: x", ()), ("jane", ("dev\nsystem:masters",)), ("jane", ("a\rb",))],
)
def test_a_line_break_does_not_make_two_groups_of_one(name: str, groups: tuple[str, ...]) -> None:
    with pytest.raises(Forbidden):
        headers(UserInfo(name, groups))
    with pytest.raises(Forbidden):
        as_dispatcher("payments", UserInfo(name + "\n", groups))


@pytest.mark.parametrize("name", ["dispatcher:payments", "fleet:dispatcher:payments"])
def test_nobody_crosses_under_a_dispatchers_name(name: str) -> None:
    with pytest.raises(Forbidden, match="a name of the fleet itself"):
        headers(UserInfo(name, ("fleet:admins",)))
    assert headers(UserInfo("dispatcher"))["impersonate-user"] == "fleet:dispatcher"


def test_a_dispatcher_says_for_whom_it_acts() -> None:
    assert as_dispatcher("payments", UserInfo("jane", ("system:masters",))) == {
        "impersonate-user": "fleet:dispatcher:payments",
        "impersonate-extra-fleet.dev%2fcaller": "jane",
    }
