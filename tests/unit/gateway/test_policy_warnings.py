"""Whoever writes a name that nothing in the fleet has is told with the answer."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest

import policies
from fleet.apiserver.kinds import CustomKind
from fleet.gateway import own
from fleet.gateway.policy_warnings import PolicyWarnings
from fleet.kube.wire import Request, UserInfo
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer

ADMIN = UserInfo("jane", ("fleet:admins",))
API = "/apis/fleet.dev/v1alpha1"
BOOK = {"offers": [{"cluster": "east", "accelerator": "H200", "billing": "Owned"}]}


@pytest.fixture
async def door() -> Any:
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as store:
        kernel = own.build(
            store,
            [
                CustomKind(kind.resource, kind.openapi, kind.columns, kind.status, kind.rules)
                for kind in policies.kinds()
            ],
            openapi=own.OwnOpenApi({}),
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
            uid=lambda: "uid",
            rng=random.Random(1),
            server_address="fleet",
        )
        yield PolicyWarnings(kernel, store)


async def write(
    door: Any, method: str, path: str, body: Any, *, accept: str = "application/json"
) -> tuple[str, ...]:
    kind = "merge-patch+json" if method == "PATCH" else "json"
    headers = {"content-type": f"application/{kind}", "accept": accept}
    body = json.dumps(body).encode()
    answer = await door.handle(Request(method, API + path, headers=headers, body=body, user=ADMIN))
    assert answer.status < 300
    return tuple(answer.warnings)


def obj(kind: str, name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": "fleet.dev/v1alpha1", "kind": kind, "metadata": metadata, **more}


async def test_each_write_of_a_book_is_judged_as_it_is_stored(door: Any) -> None:
    book = obj("PriceBook", "current", spec=BOOK)
    assert await write(door, "POST", "/pricebooks", book) == ()  # no member yet
    assert await write(door, "POST", "/clusters", obj("Cluster", "east")) == ()
    capacity = [{"accelerator": "h200", "nodes": 1, "free": 8, "shape": {"cpu": "4"}}]
    await write(door, "PATCH", "/clusters/east/status", {"status": {"capacity": capacity}})
    touched = {"metadata": {"labels": {"a": "b"}}}
    (said,) = await write(door, "PATCH", "/pricebooks/current", touched)
    assert "did you mean h200?" in said
    again = obj("PriceBook", "other", spec={"offers": [{"cluster": "eats", "billing": "Owned"}]})
    for accept in ("application/json", "application/yaml"):
        again["metadata"]["name"] += "-x"
        said_here = await write(door, "POST", "/pricebooks", again, accept=accept)
        assert all("did you mean east?" in each for each in said_here)
        assert len(said_here) == (accept == "application/json")
