"""What a member refuses or leaves unanswered, as the caller of the merged view is told of it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from fleet.apiserver.outgoing import error_response
from fleet.apiserver.reading import Scope
from fleet.errors import Forbidden, MemberStatus, TransportError, Unauthorized, Unavailable
from fleet.kube import builtin, discovery
from fleet.kube.paths import parse_target
from fleet.kube.resources import GroupVersionResource
from fleet.kube.wire import Request, Response, UserInfo
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from fleet.view.forward import Call, Forwarder
from fleet.view.merged import Freshness
from fleet.view.reads import Read, Reads
from fleet.view.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fleet.kube.discovery import Catalogue
    from fleet.kube.resources import Resource

JANE = UserInfo("jane", ("dev",))


def secrets() -> Resource:
    row = builtin.resource(GroupVersionResource("", "v1", "secrets"))
    assert row is not None
    return row


class Member:
    """A member that answers every request alike: with Secret `s`, an error, or not at all."""

    def __init__(self, name: str, answer: int | Exception) -> None:
        self.name = name
        self.answer = answer
        self.conditions: dict[str, Any] = {}

    @property
    def handler(self) -> Member:
        return self

    @property
    def catalogue(self) -> Catalogue:
        return discovery.catalogue([secrets()])

    def watch(self, resource: Any, sink: Any) -> Any:
        raise AssertionError("Secrets are read through")

    async def handle(self, request: Request) -> Response:
        if isinstance(self.answer, Exception):
            raise self.answer
        metadata = {"name": "s", "namespace": "payments", "resourceVersion": "7"}
        value: dict[str, Any] = {"kind": "SecretList", "items": [{"metadata": metadata}]}
        if self.answer >= 400:
            value = {"kind": "Status", "code": self.answer, "message": f"no: {self.answer}"}
        return Response(self.answer, {}, orjson.dumps(value))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    sequencer = Sequencer(epoch=1)
    own = discovery.catalogue([secrets()])
    async with ObjectStore(MemoryBackend(), sequencer) as store:
        yield World(sequencer=sequencer, store=store, own=lambda: own, clock=lambda: 0.0)


async def listed(
    world: World, *, namespace: str = "", query: tuple[tuple[str, str], ...] = ()
) -> tuple[list[str], tuple[str, ...]]:
    """Namespaces of the Secrets in the answer, and its warnings."""
    within = f"/namespaces/{namespace}" if namespace else ""
    request = Request("GET", f"/api/v1{within}/secrets", query, user=JANE)
    target = parse_target(request.method, request.path, query)
    assert target is not None
    scope = Scope((namespace,)) if namespace else Scope()
    members = (namespace.rpartition(".")[2],) if namespace else None
    reads = Reads(
        world,
        freshness=Freshness(),
        columns_of=lambda _: None,
        now=lambda: 0.0,
        rng=random.Random(1),
    )
    answer = await reads.list_objects(Read(request, target, secrets(), scope, members))
    items = orjson.loads(b"".join(answer.body))["items"]  # type: ignore[arg-type]
    return [item["metadata"]["namespace"] for item in items], answer.warnings


FAILURES = [
    TransportError("no route", sent=False),
    Unauthorized("the client certificate expired"),
    401,
    500,
    503,
]


@pytest.mark.parametrize("failure", FAILURES, ids=str)
async def test_a_member_that_fails_is_named_and_the_others_are_shown(
    world: World, failure: int | Exception
) -> None:
    world.admit(Member("east", 200))
    world.admit(Member("west", failure))
    namespaces, warnings = await listed(world)
    assert namespaces == ["payments.east"]
    [warning] = warnings
    assert warning.startswith("west: ")
    assert warning.endswith("its objects are missing")


@pytest.mark.parametrize("failure", FAILURES, ids=str)
async def test_what_has_to_be_whole_fails_rather_than_be_empty(
    world: World, failure: int | Exception
) -> None:
    world.admit(Member("east", 200))
    world.admit(Member("west", failure))
    with pytest.raises(Unavailable, match="member west"):
        await listed(world, query=(("freshness", "complete"),))
    with pytest.raises(Unavailable, match="member west"):
        await listed(world, namespace="payments.west")
    assert await listed(world, namespace="payments.east") == (["payments.east"], ())


async def test_a_member_that_shows_the_caller_nothing_is_left_out_and_all_of_them_is_forbidden(
    world: World,
) -> None:
    world.admit(Member("east", 200))
    world.admit(west := Member("west", 403))
    assert await listed(world) == (["payments.east"], ())
    await world.dismiss("east")
    with pytest.raises(MemberStatus) as refused:
        await listed(world)
    assert refused.value.http_code == Forbidden.code
    west.answer = 200
    assert await listed(world) == (["payments.west"], ())


async def test_a_member_that_does_not_know_the_gateway_does_not_refuse_the_caller(
    world: World,
) -> None:
    """A 401 would have clients throw away credentials that are good."""
    world.admit(Member("west", 401))
    body = orjson.dumps({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}})
    request = Request("POST", "/api/v1/namespaces/payments.west/secrets", body=body, user=JANE)
    target = parse_target(request.method, request.path)
    assert target is not None
    call = Call(request, target, secrets(), world.members["west"], "payments", "")
    with pytest.raises(Unavailable, match=r"west .* does not accept the fleet's"):
        await Forwarder(world).write(call)


async def test_a_streams_refusal_keeps_the_members_warnings(world: World) -> None:
    west = Member("west", 200)

    async def refuse(request: Request) -> Response:
        status = {"kind": "Status", "code": 400, "message": "container is waiting"}
        return Response(400, {}, orjson.dumps(status), warnings=("mind the gap",))

    west.handle = refuse  # type: ignore[method-assign]
    world.admit(west)
    request = Request("GET", "/api/v1/namespaces/payments.west/secrets/s/log", user=JANE)
    target = parse_target(request.method, request.path)
    assert target is not None
    call = Call(request, target, secrets(), west, "payments", "s")
    answer = await Forwarder(world).stream(call)
    assert (answer.status, answer.warnings) == (400, ("mind the gap",))


async def test_so_does_the_refusal_of_a_write(world: World) -> None:
    west = Member("west", 200)

    async def refuse(request: Request) -> Response:
        status = {"kind": "Status", "code": 422, "message": "no"}
        return Response(422, {}, orjson.dumps(status), warnings=("deprecated",))

    west.handle = refuse  # type: ignore[method-assign]
    world.admit(west)
    body = orjson.dumps({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}})
    request = Request("POST", "/api/v1/namespaces/payments.west/secrets", body=body, user=JANE)
    target = parse_target(request.method, request.path)
    assert target is not None
    with pytest.raises(MemberStatus) as caught:
        await Forwarder(world).write(Call(request, target, secrets(), west, "payments", ""))
    answer = error_response(caught.value)
    assert (answer.status, answer.warnings) == (422, ("deprecated",))
