"""Who a request is from."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.apiserver.incoming import Peer
from fleet.errors import Unauthorized
from fleet.gateway.authentication import Authentication, user_of
from fleet.kube.wire import ANONYMOUS, UserInfo


def certificate(*names: tuple[str, str]) -> dict[str, Any]:
    return {"subject": tuple((name,) for name in names)}


ADMIN = certificate(("organizationName", "fleet:admins"), ("commonName", "fleet:admin"))


class Tokens:
    async def review(self, token: str) -> UserInfo | None:
        return UserInfo("system:serviceaccount:a:b", uid="7") if token == "good" else None


def peer(path: str = "/api", **parts: Any) -> Peer:
    return Peer("GET", path, **parts)


@pytest.mark.parametrize(
    ("names", "user"),
    [
        ([("commonName", "ann")], UserInfo("ann", ("system:authenticated",))),
        (
            [("organizationName", "b"), ("organizationName", "a"), ("commonName", "ann")],
            UserInfo("ann", ("b", "a", "system:authenticated")),
        ),
        ([("organizationName", "a")], None),
        ([("commonName", "")], None),
        ([], None),
    ],
)
def test_a_certificate_names_user_and_groups(
    names: list[tuple[str, str]], user: UserInfo | None
) -> None:
    assert user_of(certificate(*names)) == user


async def test_a_certificate_is_enough() -> None:
    user = await Authentication().authenticate(peer(certificate=ADMIN))
    assert user.groups == ("fleet:admins", "system:authenticated")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/version", "/livez/ping"])
async def test_nobody_may_ask_for_health(path: str) -> None:
    assert await Authentication().authenticate(peer(path)) == ANONYMOUS


@pytest.mark.parametrize(
    "path", ["/", "/api", "/metrics", "/livezz", "/fleet/version", "/clusters/east/livez"]
)
async def test_nobody_may_ask_for_anything_else(path: str) -> None:
    with pytest.raises(Unauthorized, match="fleet kubeconfig"):
        await Authentication().authenticate(peer(path))


@pytest.mark.parametrize("authorization", ["Bearer good", "bearer  good "])
async def test_a_known_token_names_its_user(authorization: str) -> None:
    user = await Authentication(tokens=Tokens()).authenticate(peer(authorization=authorization))
    assert (user.name, user.uid) == ("system:serviceaccount:a:b", "7")
    assert user.groups == ("system:authenticated",)


@pytest.mark.parametrize(
    "authorization", ["Bearer bad", "Bearer", "Bearer ", "Basic Z29vZA==", "good"]
)
@pytest.mark.parametrize("path", ["/api", "/livez"])
async def test_wrong_credentials_are_refused_even_where_none_are_needed(
    authorization: str, path: str
) -> None:
    with pytest.raises(Unauthorized):
        await Authentication(tokens=Tokens()).authenticate(peer(path, authorization=authorization))
    with pytest.raises(Unauthorized):
        await Authentication().authenticate(peer(path, authorization="Bearer good"))


async def test_a_certificate_without_a_name_is_not_enough() -> None:
    with pytest.raises(Unauthorized, match="names no user"):
        await Authentication().authenticate(peer(certificate=certificate()))
