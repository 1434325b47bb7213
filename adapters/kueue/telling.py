"""Events in a manager: why a Workload was sent where, or nowhere, for `kubectl describe workload`.

They are best effort and bounded: the same is said once, another reason of the same kind at most
once a minute, and what cannot be written is let go. One task sends them in order.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from adapters.kueue.objects import API_VERSION
from adapters.kueue.writing import AS
from fleet.errors import ApiError, FleetError
from fleet.kube.event_objects import event_of
from fleet.kube.paths import path_of
from fleet.kube.resources import GroupVersionResource
from fleet.kube.wire import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.kueue.fleet import Fleet
    from adapters.kueue.objects import Worker, Workload

log = logging.getLogger(__name__)

Object = dict[str, Any]

SOURCE: Final = "fleet-dispatcher"
AGAIN_S: Final = 60.0
_MOST_WAITING: Final = 1000
_EVENTS: Final = GroupVersionResource("", "v1", "events")
_THERE: Final = 409


class _Said(NamedTuple):
    reason: str
    message: str
    at_s: float


class Telling:
    """A full queue lets go of what comes last."""

    def __init__(
        self, fleet: Fleet, *, clock: Callable[[], float], now: Callable[[], float]
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._now = now
        self._said: dict[str, _Said] = {}
        self._unknown: set[tuple[str, str, str]] = set()
        self._queue: asyncio.Queue[tuple[str, Object]] = asyncio.Queue(_MOST_WAITING)

    def tell(self, manager: str, about: Workload, kind: str, reason: str, message: str) -> None:
        said = self._said.get(about.uid)
        if said is not None and said.reason == reason and (
            said.message == message or self._clock() < said.at_s + AGAIN_S
        ):  # fmt: skip
            return
        self._said[about.uid] = _Said(reason, message, self._clock())
        reference = {
            "apiVersion": API_VERSION,
            "kind": "Workload",
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        }
        self._put(manager, self._event(reference, about.namespace, kind, reason, message))

    def unknown(self, manager: str, worker: Worker) -> None:
        """Its cluster is no member of the fleet: said once."""
        key = (manager, worker.name, worker.member)
        if key in self._unknown:
            return
        self._unknown.add(key)
        message = (
            f"{worker.member} is no member of the fleet, or is another MultiKueueCluster already: "
            "nothing is sent there. Join it under that name, or say which member it is by the "
            "annotation fleet.dev/member"
        )
        log.warning("%s: MultiKueueCluster %s: %s", manager, worker.name, message)
        reference = {
            "apiVersion": API_VERSION,
            "kind": "MultiKueueCluster",
            "name": worker.name,
            "uid": worker.uid,
        }
        self._put(manager, self._event(reference, "default", "Warning", "NotAMember", message))

    def forget(self, uid: str) -> None:
        self._said.pop(uid, None)

    async def run(self) -> None:
        """Send what is told, until cancelled."""
        while True:
            manager, event = await self._queue.get()
            path = path_of(_EVENTS, namespace=event["metadata"]["namespace"])
            headers = AS | {"content-type": "application/json"}
            try:
                await self._fleet.call(
                    manager, Request("POST", path, headers=headers, body=orjson.dumps(event))
                )
            except ApiError as error:
                if error.http_code != _THERE:  # it was said before the gateway came back
                    log.info("%s: an event was not written: %s", manager, error)
            except FleetError as error:
                log.info("%s: an event was not written: %s", manager, error)
            except Exception:
                log.exception("%s: an event was not written", manager)

    def _put(self, manager: str, event: Object) -> None:
        try:
            self._queue.put_nowait((manager, event))
        except asyncio.QueueFull:
            log.info("%s: an event was let go: %s", manager, event["message"])

    def _event(self, about: Object, namespace: str, kind: str, reason: str, message: str) -> Object:
        text = f"{about['kind']}/{about['uid']}/{reason}/{message}"
        digest = sha256(text.encode()).hexdigest()[:16]
        now = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return event_of(
            about,
            metadata={"name": f"{about['name']}.{digest}", "namespace": namespace},
            type=kind,
            reason=reason,
            message=message,
            at=now,
            component=SOURCE,
        )
