"""Events at the gateway: what happens to a workload, for `kubectl describe`.

One Event for each thing that happened; a repetition counts it up, in whatever life of the gateway:
the end of its name is made of what happened. The beginning rises with time, since clients show what
happened within one second in the order of names. An Event that cannot be written is let go: the
record says the same.
"""

from __future__ import annotations

import logging
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.elastic import DROPPED
from fleet.dispatch.record import text_of
from fleet.errors import AlreadyExists, ApiError, StoreError
from fleet.kube.event_objects import event_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fleet.dispatch.record import Record
    from fleet.dispatch.shape import Workload
    from fleet.kube.resources import Resource
    from fleet.store.objects import ObjectStore

log = logging.getLogger(__name__)

Object = dict[str, Any]

_SOURCE: Final = "fleet-dispatch"
_TIME: Final = 14
"""Digits of a time in microseconds: enough for two thousand years."""
_DIGEST: Final = 10
LEFT: Final = "MemberLeft"
_TROUBLE: Final = frozenset({"Lost", "Failed", "Evicted"})


class Chronicle:
    def __init__(
        self,
        store: ObjectStore,
        events: Resource,
        *,
        uid: Callable[[], str],
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._events = events
        self._uid = uid
        self._now = now
        self._last = 0
        self._writing: dict[tuple[str, str, str], str] = {}
        """Names of Events that are being written, by what they are about."""

    async def note(self, workload: Workload, before: Record, after: Record) -> None:
        """Write down what changed from one record to the next."""
        for kind, reason, message in happenings(before, after, what=workload.kind.name):
            await self.tell(workload.obj, kind, reason, message)

    async def tell(self, about: Object, kind: str, reason: str, message: str) -> None:
        """One Event about an object of the fleet."""
        metadata = about["metadata"]
        namespace, uid = metadata["namespace"], metadata["uid"]
        digest = sha256(f"{uid}/{reason}/{message}".encode()).hexdigest()[:_DIGEST]
        known = namespace, metadata["name"], digest
        name = self._writing.get(known) or self._written(*known) or self._next(*known[1:])
        now = text_of(self._now())
        event = event_of(
            {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "namespace": namespace,
                "name": metadata["name"],
                "uid": uid,
            },
            metadata={
                "name": name,
                "namespace": namespace,
                "uid": self._uid(),
                "creationTimestamp": now,
            },
            type=kind,
            reason=reason,
            message=message,
            at=now,
            component=_SOURCE,
        )

        def again(obj: Object) -> Object:
            obj["count"] = int(obj.get("count") or 1) + 1
            obj["lastTimestamp"] = now
            return obj

        self._writing[known] = name
        try:
            try:
                await self._store.create(self._events, event)
            except AlreadyExists:
                await self._store.rewrite(
                    self._events, namespace=namespace, name=name, change=again
                )
        except (ApiError, StoreError) as error:
            log.info("event %s of %s was not written: %s", reason, metadata["name"], error)
        finally:
            self._writing.pop(known, None)

    def _written(self, namespace: str, about: str, digest: str) -> str:
        """The name of the Event that says so already, "" where there is none."""
        named = (namespace, f"{about}."), (namespace, f"{about}/")
        there = self._store.collection(self._events).snapshot().span(start=named[0], end=named[1])
        ending = re.compile(rf"{re.escape(about)}\.[0-9a-f]{{{_TIME}}}{digest}")
        return next((each.name for each in there.entries() if ending.fullmatch(each.name)), "")

    def _next(self, about: str, digest: str) -> str:
        """A name after all that were given before, in the order of texts."""
        self._last = max(self._last + 1, int(self._now() * 1e6))
        return f"{about}.{self._last:0{_TIME}x}{digest}"


def happenings(
    before: Record, after: Record, *, what: str = "Job"
) -> Iterator[tuple[str, str, str]]:
    """(type, reason, message) of what happened between two records. What a part says and the whole
    says again is told once: of the whole where it has ended with that, else of the part."""
    parts = list(_of_parts(before, after))
    whole = list(_of_whole(before, after, what=what))
    if after.phase == "Failed":
        parts = [each for each in parts if not any(each[2] in told for *_, told in whole)]
    said = {message for *_, message in parts}
    yield from parts
    yield from _of_size(before, after)
    yield from (each for each in whole if each[2] not in said)


def _of_parts(before: Record, after: Record) -> Iterator[tuple[str, str, str]]:
    earlier = {(each.cluster, each.generation): each for each in before.shards}
    for shard in after.shards:
        was = earlier.get((shard.cluster, shard.generation))
        if (was is None or shard.state != was.state) and shard.state in _TROUBLE and shard.message:
            yield "Warning", f"Shard{shard.state}", shard.message
        elif shard.reason == LEFT and (was is None or was.reason != LEFT):
            yield "Warning", LEFT, shard.message
        elif shard.live and shard.lost_at is None and shard.reason:
            if was is None or shard.reason != was.reason:
                yield "Warning", shard.reason, shard.message


def _of_size(before: Record, after: Record) -> Iterator[tuple[str, str, str]]:
    """An elastic workload goes on without a part, or with more than before."""
    if after.reason == DROPPED and after.generation != before.generation:
        yield "Warning", DROPPED, after.message
    grown = before.phase == "Committed" and after.phase == "Running" and before.elastic
    if grown and len({each.generation for each in after.shards}) > 1:
        yield "Normal", "Grown", f"{after.ranks} of {after.most} ranks run"


def _of_whole(before: Record, after: Record, *, what: str) -> Iterator[tuple[str, str, str]]:
    if before.phase == after.phase:
        return
    where = ", ".join(f"{shard.count} in {shard.cluster}" for shard in after.shards)
    match after.phase:
        case "Holding":
            yield "Normal", "Holding", f"holding {where}"
        case "Committed":
            yield "Normal", "Committed", f"all parts are held and may start: {where}"
        case "Running":
            yield "Normal", "Running", f"all pods have started: {where}"
        case "Succeeded":
            yield "Normal", "Completed", f"{what} completed"
        case "Failed":
            yield "Warning", after.reason or "Failed", after.message
        case "Queued" | "Lost" if after.message:
            yield (
                "Warning" if after.reason != "Suspended" else "Normal",
                after.reason,
                after.message,
            )
        case _:
            return
