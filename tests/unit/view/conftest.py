"""A merged world over members that say and answer what the test tells them to."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from fleet.apiserver.documents import Documents
from fleet.errors import NotFound
from fleet.gateway.roots import MergedRoot
from fleet.kube import builtin, discovery
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.kube.wire import Request, Response, UserInfo
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from fleet.view.forward import Forwarder
from fleet.view.merged import Freshness
from fleet.view.reads import Reads
from fleet.view.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

Object = dict[str, Any]
JANE = UserInfo("jane", ("dev",))


def row(plural: str) -> Resource:
    """`pods`, `apps/v1/deployments`."""
    gvr = plural.split("/") if "/" in plural else ("", "v1", plural)
    found = builtin.resource(GroupVersionResource(*gvr))
    assert found is not None
    return found


class Watching:
    """A watch that is `live` or not, once its `proof` may be had."""

    def __init__(self, sink: Any, clock: Callable[[], float]) -> None:
        self.sink = sink
        self.synced = asyncio.Event()
        self.synced.set()
        self.failure = ""
        self.last_contact_s = clock()
        self.asked = 0
        self.waits = asyncio.Event()
        self.proof = asyncio.Event()
        self.proof.set()
        self.live = True

    async def confirm(self, deadline_s: float, *, within_s: float) -> bool:
        self.asked += 1
        self.waits.set()
        await self.proof.wait()
        return self.live

    async def stop(self) -> None:
        """It has nothing to end."""


@dataclass
class Member:
    """Serves `kinds`; answers what `answers` has for a method and path, else 404."""

    name: str
    kinds: tuple[Resource, ...]
    clock: Callable[[], float]
    watches: dict[str, Watching] = field(default_factory=dict)
    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    asked: list[Request] = field(default_factory=list)
    conditions: dict[str, Any] = field(default_factory=dict)
    hangs: bool = False
    """It takes what is asked, and never answers."""

    @property
    def catalogue(self) -> discovery.Catalogue:
        return discovery.catalogue(self.kinds)

    @property
    def handler(self) -> Member:
        return self

    def watch(self, resource: Resource, sink: Any) -> Watching:
        made = self.watches[resource.gvr.resource] = Watching(sink, self.clock)
        return made

    def answer(self, method: str, path: str, value: Any, status: int = 200) -> None:
        """From here on. An exception is raised, bytes are given as they are."""
        self.answers[method, path] = (status, value)

    async def handle(self, request: Request) -> Response:
        self.asked.append(request)
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        missing = 404, refusal(404, "NotFound", f"{request.path} not found")
        code, value = self.answers.get((request.method, request.path), missing)
        if isinstance(value, Exception):
            raise value
        raw = value if isinstance(value, bytes) else orjson.dumps(value)
        return Response(code, {"content-type": "application/json"}, raw)

    def object(self, plural: str, name: str, *, revision: int = 5, **more: Any) -> Object:
        """An object as it is there."""
        kind = next(each for each in self.kinds if each.gvr.resource == plural)
        metadata: Object = {"name": name, "uid": f"{self.name}-{name}"}
        if kind.namespaced:
            metadata["namespace"] = "payments"
        metadata |= {"resourceVersion": str(revision), **more.pop("metadata", {})}
        return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata, **more}

    def holds(self, plural: str, name: str, **more: Any) -> Object:
        """Its watch tells of an object, which is returned as it is there."""
        obj = self.object(plural, name, **more)
        self.watches[plural].sink.upsert(orjson.loads(orjson.dumps(obj)))
        return obj


def refusal(code: int, reason: str, message: str, **details: Any) -> Object:
    """A Status as a member answers it."""
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": details, "code": code,
    }  # fmt: skip


class Own:
    """The fleet's own kernel: what is asked of it is noted, and nothing but creation works."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    async def handle(self, request: Request) -> Response:
        self.asked.append(request)
        if request.method != "POST":
            raise NotFound(f"the fleet has no {request.path}")
        return Response(201, {}, request.body)


class NoPods:
    """The fleet has no pods of its own here."""

    async def answer(self, request: Any, target: Any, resource: Any) -> None:
        return None


class NoDocuments:
    """Nobody publishes OpenAPI here."""

    async def hashes(self) -> dict[str, str]:
        return {}

    async def document(self, path: str) -> bytes | None:
        return None


@dataclass
class Answer:
    code: int
    value: Any
    warnings: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """`payments.east/a` of a list, in its order."""
        metadata = [item["metadata"] for item in self.value["items"]]
        return [f"{each.get('namespace', '')}/{each['name']}" for each in metadata]


class Watch:
    """An open watch of the merged world."""

    def __init__(self, response: Response) -> None:
        self._body: Any = response.body
        self.warnings = response.warnings
        self._lines: list[bytes] = []

    async def next(self) -> tuple[str, str]:
        """Its next event: type, and namespace and name of the object."""
        while not self._lines:
            self._lines += (await anext(self._body)).splitlines()
        event = orjson.loads(self._lines.pop(0))
        metadata = event["object"]["metadata"]
        return event["type"], f"{metadata.get('namespace', '')}/{metadata['name']}"

    async def close(self) -> None:
        await self._body.aclose()


class Stage:
    """The world, the root that stands before it, and a clock that stands still."""

    def __init__(self, store: ObjectStore, sequencer: Sequencer) -> None:
        self.now_s = 1000.0
        self.store = store
        self.own_rows = [row(each) for each in ("configmaps", "secrets", "namespaces")]
        self.own = Own()
        self.world = World(
            sequencer=sequencer,
            store=store,
            own=lambda: discovery.catalogue(self.own_rows),
            clock=lambda: self.now_s,
        )
        self.forwarder = Forwarder(self.world)
        self.reads = Reads(
            self.world,
            freshness=Freshness(bound_s=1.0, probe_s=1.0),
            columns_of=lambda _: None,
            now=lambda: self.now_s,
            rng=random.Random(1),
        )
        self.root = MergedRoot(
            self.world,
            documents=Documents(self._catalogue, NoDocuments(), server_address="127.0.0.1"),
            reads=self.reads,
            forwarder=self.forwarder,
            own=self.own,
            pods=NoPods(),  # type: ignore[arg-type]
        )

    async def _catalogue(self) -> discovery.Catalogue:
        return self.world.catalogue()

    def member(self, name: str, *plurals: str) -> Member:
        """A member joins that serves these, and namespaces. All but Secrets are kept."""
        made = Member(name, tuple(map(row, ("namespaces", *plurals))), lambda: self.now_s)
        self.world.admit(made)
        for plural in plurals:
            if plural != "secrets":
                self.world.merged(row(plural).gvr)
        return made

    async def owns(self, plural: str, name: str, *, namespace: str = "payments") -> None:
        """The fleet itself has this object."""
        kind = row(plural)
        metadata = {"name": name, "namespace": namespace, "uid": f"fleet-{name}"}
        obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        await self.store.create(kind, obj)

    async def send(
        self, method: str, path: str, body: Any = None, *, user: UserInfo = JANE, **headers: str
    ) -> Response:
        """What the root answers, or raises; the path may have a query."""
        path, _, query = path.partition("?")
        pairs = [pair.partition("=") for pair in query.split("&") if pair]
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        raw = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        if raw:
            told.setdefault("content-type", "application/json")
        asked = tuple((name, value) for name, _, value in pairs)
        return await self.root.handle(Request(method, path, asked, told, raw, user=user))

    async def call(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        answer = await self.send(method, path, body, **more)
        raw = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)  # type: ignore[arg-type]
        return Answer(answer.status, orjson.loads(raw), answer.warnings)

    async def watch(self, path: str) -> Watch:
        return Watch(await self.send("GET", path))


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    sequencer = Sequencer(epoch=1)
    async with ObjectStore(MemoryBackend(), sequencer) as store:
        made = Stage(store, sequencer)
        yield made
        await made.world.close()


@pytest.fixture(name="refusal")
def _refusal() -> Callable[..., Object]:
    return refusal
