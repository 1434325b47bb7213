"""Names of the merged world: split, join, and what is said about a wrong one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadRequest, NotFound
from fleet.view import naming

MEMBERS = {"east": 1, "west": 2, "idc-a": 3}
labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,6}[a-z0-9])?", fullmatch=True)
subdomains = st.lists(labels, min_size=1, max_size=3).map(".".join)


@given(subdomains, st.sampled_from(sorted(MEMBERS)))
def test_a_name_in_a_member_splits_into_what_it_was_joined_of(name: str, member: str) -> None:
    assert naming.split_name(naming.join(name, member), MEMBERS) == (name, member)


@given(labels, st.sampled_from(sorted(MEMBERS)))
def test_a_namespace_in_a_member_splits_into_what_it_was_joined_of(name: str, member: str) -> None:
    assert naming.split_namespace(naming.join(name, member), MEMBERS) == (name, member)


@given(labels)
def test_a_plain_namespace_is_the_fleets(name: str) -> None:
    assert naming.split_namespace(name, MEMBERS) == (name, None)


@pytest.mark.parametrize(
    "name", ["n1", "foos.example.com", "n1.esat", ".east", "east", "v1.apps", "system:node", ""]
)
def test_a_name_whose_last_part_is_no_member_is_the_fleets(name: str) -> None:
    assert naming.split_name(name, MEMBERS) == (name, None)


def test_a_member_that_is_a_fleet_itself_has_namespaces_with_a_dot() -> None:
    assert naming.split_namespace("payments.inner.east", MEMBERS) == ("payments.inner", "east")


@pytest.mark.parametrize(
    ("namespace", "said"),
    [
        ("payments.esat", 'no member "esat"; did you mean "payments.east" or "payments.west"?'),
        ("payments.zz", 'no member "zz"; members: east, idc-a, west'),
    ],
)
def test_a_namespace_of_an_unknown_member_is_not_found(namespace: str, said: str) -> None:
    with pytest.raises(NotFound) as error:
        naming.split_namespace(namespace, MEMBERS)
    assert error.value.message == f'namespaces "{namespace}" not found ({said})'


def test_an_empty_fleet_says_how_to_get_a_member() -> None:
    with pytest.raises(NotFound, match="the fleet has none yet, see fleet join"):
        naming.split_namespace("payments.east", ())


def test_many_members_are_not_all_listed() -> None:
    members = [f"m{i:03}" for i in range(40)]
    with pytest.raises(NotFound, match="m009 and 30 more"):
        naming.split_namespace("payments.zzzzzz", members)


@pytest.mark.parametrize("namespace", [".east", "payments.", "."])
def test_a_namespace_with_an_empty_side_is_refused(namespace: str) -> None:
    with pytest.raises(BadRequest, match=r"write NAMESPACE or NAMESPACE\.MEMBER"):
        naming.split_namespace(namespace, MEMBERS)


def test_a_union_is_no_single_namespace() -> None:
    with pytest.raises(BadRequest, match="can be listed and watched"):
        naming.split_namespace("payments.*", MEMBERS)
    assert naming.union_of("payments.*") == "payments"
    assert naming.union_of("payments") is None
    assert naming.union_of("payments.east") is None


@pytest.mark.parametrize("namespace", ["*", "*.east", "pay*", "*.*", ".*"])
def test_a_star_anywhere_else_is_refused(namespace: str) -> None:
    with pytest.raises(BadRequest, match="a union is"):
        naming.union_of(namespace)


def test_a_cluster_scoped_name_that_nearly_names_a_member_gets_a_hint() -> None:
    assert naming.name_hint("n1.idca", MEMBERS) == '(no member "idca"; did you mean "n1.idc-a"?)'
    for name in ("n1", "n1.east", "foos.example.com", ".esat"):
        assert naming.name_hint(name, MEMBERS) == ""


def test_a_label_that_nearly_names_a_member_gets_a_warning() -> None:
    told = 'fleet.dev/cluster: no member "idca"; did you mean "idc-a"?'
    for text in ("fleet.dev/cluster=idca", "fleet.dev/cluster in (idca,idc-a),app=web"):
        assert naming.label_hint(text, MEMBERS) == (told,)
    for text in ("fleet.dev/cluster=idc-a", "fleet.dev/cluster!=idca", "app=idca", "a b", ""):
        assert naming.label_hint(text, MEMBERS) == ()
