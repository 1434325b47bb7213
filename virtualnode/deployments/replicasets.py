"""The ReplicaSet controller: reads a set and its pods, asks `replicas`, writes the difference."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fleet.apiserver.controllers.objects import together
from fleet.errors import ApiError
from virtualnode.deployments import claims, replicas
from virtualnode.objects import controller_of, controller_reference, is_terminating, key_of
from virtualnode.reconciling import Queue
from virtualnode.resources import PODS, REPLICA_SETS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from virtualnode.events import Recorder
    from virtualnode.objects import Change, Key, Objects

Object = dict[str, Any]
_NAME: Final = "replicaset-controller"


class ReplicaSetController:
    """Keeps each ReplicaSet's pods at the number it asks for."""

    def __init__(
        self, objects: Objects, recorder: Recorder, *, now: Callable[[], datetime]
    ) -> None:
        self._objects = objects
        self._recorder = recorder
        self._now = now
        self._queue = Queue("replica sets")
        self._pods = objects.index(PODS, claims.handles)
        self._sets = objects.index(REPLICA_SETS, claims.handles)
        objects.follow(REPLICA_SETS, lambda change: self._queue.add(key_of(change.present)))
        objects.follow(PODS, self._pod_changed)
        for replica_set in objects.list(REPLICA_SETS):
            self._queue.add(key_of(replica_set))

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._queue.run(self.reconcile)

    def _pod_changed(self, change: Change) -> None:
        for owner in claims.owners(self._objects, change, REPLICA_SETS):
            self._queue.add(key_of(owner))

    async def reconcile(self, key: Key) -> float | None:
        """Bring one set's pods and status to what they should be."""
        replica_set = self._objects.get(REPLICA_SETS, *key)
        if replica_set is None:
            return None
        active = [pod for pod in self._candidates(replica_set) if replicas.is_active(pod)]
        claim = claims.claim(replica_set, active)
        await claims.settle(self._objects, PODS, replica_set, claim)
        held = [pod for pod in self._held(replica_set) if replicas.is_active(pod)]
        decision = replicas.decide(replica_set, held, self._related(replica_set), now=self._now())
        failure = await self._create(replica_set, decision.create)
        failure = await self._delete(replica_set, decision.delete) or failure
        pods, now = self._held(replica_set), self._now()
        status = replicas.status(
            replica_set, pods, failure=str(failure) if failure is not None else "", now=now
        )
        await self._objects.change(
            REPLICA_SETS,
            key,
            lambda fresh: {**fresh, "status": status},
            uid=replica_set["metadata"]["uid"],
        )
        if failure is not None:
            raise failure
        return replicas.next_look(replica_set, pods, now=now)

    # -- the pods of a set

    def _candidates(self, replica_set: Object) -> list[Object]:
        return claims.candidates(self._objects, PODS, self._pods, replica_set)

    def _held(self, replica_set: Object) -> list[Object]:
        return list(claims.claim(replica_set, self._candidates(replica_set)).held)

    def _related(self, replica_set: Object) -> list[Object]:
        owner = controller_of(replica_set)
        if owner is None:
            return self._held(replica_set)
        found = (self._objects.get(REPLICA_SETS, *key) for key in self._sets[owner["uid"]])
        return [pod for each in found if each is not None for pod in self._held(each)]

    # -- writing

    async def _create(self, replica_set: Object, count: int) -> Exception | None:
        """Create pods, at first one, then twice as many at a time, until one is refused: what
        refuses the first would refuse them all."""
        batch = 1
        while count > 0:
            batch = min(batch, count)
            failures = await together([partial(self._create_one, replica_set)] * batch)
            if failures:
                if all(isinstance(f, ApiError) and is_terminating(f) for f in failures):
                    return None
                return failures[0]
            count -= batch
            batch *= 2
        return None

    async def _create_one(self, replica_set: Object) -> None:
        pod = replicas.pod_of(replica_set)
        pod["metadata"]["ownerReferences"] = [controller_reference(replica_set)]
        try:
            made = await self._objects.create(PODS, pod)
        except ApiError as error:
            if not is_terminating(error):
                self._record(replica_set, "FailedCreate", f"Error creating: {error}", warning=True)
            raise
        name = made["metadata"]["name"]
        self._record(replica_set, "SuccessfulCreate", f"Created pod: {name}")

    async def _delete(self, replica_set: Object, pods: tuple[Object, ...]) -> Exception | None:
        failures = await together([partial(self._delete_one, replica_set, pod) for pod in pods])
        return failures[0] if failures else None

    async def _delete_one(self, replica_set: Object, pod: Object) -> None:
        try:
            await self._objects.delete(PODS, key_of(pod), uid=pod["metadata"]["uid"])
        except ApiError as error:
            self._record(replica_set, "FailedDelete", f"Error deleting: {error}", warning=True)
            raise
        name = pod["metadata"]["name"]
        self._record(replica_set, "SuccessfulDelete", f"Deleted pod: {name}")

    def _record(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None:
        self._recorder.record(about, reason, message, component=_NAME, warning=warning)
