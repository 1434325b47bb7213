"""Join and leave as calls: what is refused, and how it is said."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from fleet.errors import (
    BadRequest,
    ConfigError,
    Conflict,
    InternalError,
    JoinError,
    MethodNotAllowed,
    StoreError,
)
from fleet.gateway.actions import Join, Leave
from fleet.kube.wire import Request

JOIN = {"name": "east", "kubeconfig": "to: east"}


class Members:
    """A roster that does what is asked, or raises."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.calls: list[tuple[Any, ...]] = []

    async def join(self, name: str, kubeconfig: bytes, *, replace: bool) -> Any:
        self.calls.append((name, kubeconfig, replace))
        if self.failure is not None:
            raise self.failure
        return SimpleNamespace(name=name, uid="uid", version="v1.36.3")

    async def leave(self, name: str) -> None:
        self.calls.append((name,))
        if self.failure is not None:
            raise self.failure


def post(path: str, body: Any) -> Request:
    return Request("POST", path, body=body if isinstance(body, bytes) else orjson.dumps(body))


async def test_a_join_and_a_leave_reach_the_roster() -> None:
    members: Any = Members()
    answer = await Join(members).handle(post("/fleet/join", JOIN))
    assert orjson.loads(answer.body) == {"name": "east", "uid": "uid", "version": "v1.36.3"}
    await Join(members).handle(post("/fleet/join", {**JOIN, "replace": True}))
    await Leave(members).handle(post("/fleet/leave", {"name": "east"}))
    told = b"to: east"
    assert members.calls == [("east", told, False), ("east", told, True), ("east",)]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "no JSON"),
        (b"", "no JSON"),
        ([], "no JSON object"),
        ({"kubeconfig": "x"}, "needs a name"),
        ({"name": 5, "kubeconfig": "x"}, "needs a name"),
        ({"name": "east"}, "needs a name and a kubeconfig"),
        ({"name": "east", "kubeconfig": {}}, "needs a name and a kubeconfig"),
    ],
)
async def test_a_body_that_says_too_little_reaches_nobody(body: Any, says: str) -> None:
    members: Any = Members()
    with pytest.raises(BadRequest, match=says):
        await Join(members).handle(post("/fleet/join", body))
    assert members.calls == []


@pytest.mark.parametrize("action", [Join, Leave])
async def test_only_a_post_is_a_call(action: Any) -> None:
    members: Any = Members()
    with pytest.raises(MethodNotAllowed, match="only POST"):
        await action(members).handle(Request("GET", "/fleet/join", body=orjson.dumps(JOIN)))
    assert members.calls == []


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (JoinError("east is idc-a under another address"), Conflict),
        (ConfigError("the kubeconfig is not YAML"), BadRequest),
        (StoreError("members/east.kubeconfig: cannot be written: no space"), InternalError),
    ],
)
async def test_a_refusal_is_said_in_its_own_words(failure: Exception, error: type) -> None:
    members: Any = Members(failure)
    with pytest.raises(error, match=str(failure)):
        await Join(members).handle(post("/fleet/join", JOIN))
    if not isinstance(failure, ConfigError):
        with pytest.raises(error, match=str(failure)):
            await Leave(members).handle(post("/fleet/leave", {"name": "east"}))
