"""Events: what happened to an object and why, for `kubectl describe` and `kubectl events`.

An event that repeats is counted in one object, as upstream's recorder does, and old ones go after
an hour. Recording never blocks and never fails the work it tells of: the queue is bounded, and
what does not fit is dropped and counted in the log.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import ApiError
from fleet.kube.event_objects import event_of
from virtualnode.conditions import seconds, stamp
from virtualnode.resources import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from virtualnode.objects import Key, Objects

Object = dict[str, Any]
log = logging.getLogger(__name__)

KEPT_S: Final = 3600.0
_QUEUE: Final = 4096


class Recorder:
    """Writes events. `record` may be called from anywhere in the cluster's event loop."""

    def __init__(self, objects: Objects, *, now: Callable[[], datetime], host: str) -> None:
        self._objects = objects
        self._now = now
        self._host = host
        self._pending: asyncio.Queue[Object] = asyncio.Queue(_QUEUE)
        self._known: dict[tuple[str, ...], Key] = {}
        self._serial = 0

    def record(
        self, about: Object, reason: str, message: str, *, component: str, warning: bool = False
    ) -> None:
        """Tell of `about` that `reason` happened."""
        event = self._event(about, reason, message, component=component, warning=warning)
        try:
            self._pending.put_nowait(event)
        except asyncio.QueueFull:
            log.warning("too many events: %s %s is not recorded", reason, message)

    async def run(self) -> None:
        """Write what was recorded, until cancelled."""
        while True:
            event = await self._pending.get()
            try:
                await self._write(event)
            except ApiError as error:  # its namespace is gone, most of the time
                log.debug("event %s is not recorded: %s", event["reason"], error)

    def _event(
        self, about: Object, reason: str, message: str, *, component: str, warning: bool
    ) -> Object:
        metadata = about["metadata"]
        namespace = metadata.get("namespace") or "default"
        moment = self._now()
        self._serial += 1
        serial = f"{int(moment.timestamp() * 1e6):x}{self._serial:x}"
        return event_of(
            {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "namespace": metadata.get("namespace", ""),
                "name": metadata["name"],
                "uid": metadata.get("uid", ""),
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
            metadata={"namespace": namespace, "name": f"{metadata['name'][:230]}.{serial}"},
            type="Warning" if warning else "Normal",
            reason=reason,
            message=message,
            at=stamp(moment),
            component=component,
            host=self._host,
        ) | {"eventTime": None}

    async def _write(self, event: Object) -> None:
        same = (
            event["involvedObject"]["uid"] or event["involvedObject"]["name"],
            event["reason"],
            event["message"],
            event["reportingComponent"],
        )
        known = self._known.get(same)
        if known is not None:

            def again(old: Object) -> Object:
                count = old.get("count", 1) + 1
                return {**old, "count": count, "lastTimestamp": event["lastTimestamp"]}

            if await self._objects.change(EVENTS, known, again) is not None:
                return
        await self._objects.create(EVENTS, event)
        self._known[same] = (event["metadata"]["namespace"], event["metadata"]["name"])
        await self._forget_old()

    async def _forget_old(self) -> None:
        """Delete what is older than an hour; looked at when something is added."""
        oldest = self._now().timestamp() - KEPT_S
        for same, key in list(self._known.items()):
            found = self._objects.get(EVENTS, *key)
            last = seconds(found.get("lastTimestamp")) if found is not None else None
            if last is not None and last >= oldest:
                return  # the rest is younger, or was seen again since
            del self._known[same]
            await self._objects.delete(EVENTS, key)
