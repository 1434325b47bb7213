"""Whatever a member does to its lists and watches, what is shown of it converges.

A model of an API server – objects, a history that reaches back only so far – answers with every
fault that the wire and the server know, at random but by seed: broken connections in the middle of
a line, clean ends, 410 in both forms, garbage, refusals, servers without WatchList. Meanwhile its
objects change. In the end the faults stop, and the mirror has to be equal to the model.
"""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from fleet.errors import TransportError
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.kube.wire import Request, Response
from fleet.members.reflector import Pace, Reflector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PODS = Resource(GroupVersionResource("", "v1", "pods"), "Pod", True, ("list", "watch"))
PACE = Pace(
    page=3,
    answer_s=5,
    initial_silence_s=0.05,
    silence_s=0.05,
    first_wait_s=0.0001,
    longest_wait_s=0.0005,
)
HISTORY = 12
STEPS = 120


def status(code: int, reason: str = "") -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": f"fault {code}"}


class Model:
    """A server with one resource."""

    def __init__(self, random: Random, *, watch_list: bool) -> None:
        self.random = random
        self.watch_list = watch_list
        self.faulty = True
        self.revision = 1
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.snapshots: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        self.moved = asyncio.Event()

    def step(self) -> None:
        """One object is made, changed or deleted."""
        self.revision += self.random.choice((1, 1, 5))
        name = f"p{self.random.randrange(8)}"
        metadata = {"name": name, "namespace": "a", "resourceVersion": str(self.revision)}
        obj = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "x": "y" * 50}
        if name in self.objects and self.random.random() < 0.4:
            del self.objects[name]
            kind = "DELETED"
        else:
            kind = "MODIFIED" if name in self.objects else "ADDED"
            self.objects[name] = obj
        self.history.append((self.revision, kind, obj))
        self.moved.set()
        self.moved = asyncio.Event()

    def fault(self, chance: float) -> bool:
        return self.faulty and self.random.random() < chance

    async def handle(self, request: Request) -> Response:
        await asyncio.sleep(0)
        if self.fault(0.1):
            raise TransportError("refused", sent=False)
        if self.fault(0.05):
            code = self.random.choice((429, 500, 503))
            return Response(code, {}, orjson.dumps(status(code)))
        query = dict(request.query)
        if query.get("watch") != "true":
            return self.page(query)
        initial = query.get("sendInitialEvents") == "true"
        if initial and not self.watch_list:
            return Response(422, {}, orjson.dumps(status(422)))
        since = int(query.get("resourceVersion", "0"))
        if not initial and (self.forgotten(since) or self.fault(0.05)):
            return Response(410, {}, orjson.dumps(status(410, "Expired")))
        return Response(200, {}, self.cut(self.frames(since, initial=initial)))

    def forgotten(self, since: int) -> bool:
        kept = self.history[-HISTORY:]
        return len(self.history) > HISTORY and since < kept[0][0] - 1

    def page(self, query: dict[str, str]) -> Response:
        token = query.get("continue", "")
        if token:
            if self.fault(0.1) or token not in self.snapshots:
                return Response(410, {}, orjson.dumps(status(410, "Expired")))
            revision, items = self.snapshots.pop(token)
        else:
            revision, items = self.revision, [self.objects[name] for name in sorted(self.objects)]
        limit = int(query.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": str(revision)}
        if len(items) > limit:
            metadata["continue"] = f"t{len(self.snapshots)}-{self.random.random()}"
            self.snapshots[metadata["continue"]] = (revision, items[limit:])
        document = {"kind": "PodList", "metadata": metadata, "items": items[:limit]}
        raw = orjson.dumps(document)
        return Response(200, {}, raw[: len(raw) // 2] if self.fault(0.05) else raw)

    async def frames(self, since: int, *, initial: bool) -> AsyncIterator[bytes]:
        if initial:
            since = self.revision
            for _, obj in sorted(self.objects.items()):
                yield self.frame("ADDED", obj)
            ends = {"k8s.io/initial-events-end": "true"}
            yield self.frame("BOOKMARK", self.bookmark(since, annotations=ends))
        while True:
            if self.forgotten(since):
                yield self.frame("ERROR", status(410, "Gone"))
                return
            for revision, kind, obj in [entry for entry in self.history if entry[0] > since]:
                since = revision
                yield self.frame(kind, obj)
            if self.random.random() < 0.2:
                yield self.frame("BOOKMARK", self.bookmark(since))
            moved = self.moved
            if since == self.revision:
                await moved.wait()

    @staticmethod
    def frame(kind: str, obj: dict[str, Any]) -> bytes:
        return orjson.dumps({"type": kind, "object": obj}) + b"\n"

    @staticmethod
    def bookmark(revision: int, **metadata: Any) -> dict[str, Any]:
        return {"kind": "Pod", "metadata": {"resourceVersion": str(revision), **metadata}}

    async def cut(self, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same bytes in other pieces, until a fault ends them."""
        async for frame in frames:
            if self.fault(0.02):
                return
            if self.fault(0.02):
                yield frame[: self.random.randrange(len(frame))]
                raise TransportError("connection reset")
            if self.fault(0.02):
                yield frame[:-5]
                return
            if self.fault(0.01):
                yield b"}garbage{\n"
            if self.fault(0.01):
                yield self.frame("ERROR", status(self.random.choice((410, 500, 504))))
                return
            middle = self.random.randrange(len(frame))
            yield frame[:middle]
            yield frame[middle:]


class Mirror:
    """A sink that also checks the order in which it is told."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}

    def replace(self, objects: Any, revision: int) -> Any:
        found = {}
        for obj in objects:
            found[obj["metadata"]["name"]] = obj
            yield
        self.objects = found

    def upsert(self, obj: dict[str, Any]) -> None:
        before = self.objects.get(obj["metadata"]["name"])
        assert before is None or self._revision(before) < self._revision(obj)
        self.objects[obj["metadata"]["name"]] = obj

    def remove(self, obj: dict[str, Any]) -> None:
        before = self.objects.pop(obj["metadata"]["name"])
        assert self._revision(before) < self._revision(obj)

    def progress(self, revision: int) -> None:
        assert all(self._revision(obj) <= revision for obj in self.objects.values())

    @staticmethod
    def _revision(obj: dict[str, Any]) -> int:
        return int(obj["metadata"]["resourceVersion"])


@pytest.mark.parametrize("watch_list", [True, False], ids=["watchlist", "pages"])
@pytest.mark.parametrize("seed", range(25))
async def test_a_mirror_converges_through_every_fault(seed: int, watch_list: bool, caplog):
    random = Random(seed)
    model, mirror = Model(random, watch_list=watch_list), Mirror()
    reflector = Reflector(
        member="model", handler=model, resource=PODS, sink=mirror, random=Random(seed), pace=PACE
    )
    task = asyncio.create_task(reflector.run())
    for _ in range(STEPS):
        model.step()
        for _ in range(random.randrange(12)):
            await asyncio.sleep(0)
    model.faulty = False
    model.step()
    assert await reflector.reached(model.revision, time.monotonic() + 20)
    assert mirror.objects == model.objects
    task.cancel()
    await asyncio.wait({task})
    assert "cannot take in" not in caplog.text
