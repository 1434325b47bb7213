"""The Deployment controller: reads a Deployment and its sets, asks `decision`, writes the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.errors import AlreadyExists, ApiError
from virtualnode.deployments import claims, decision, progress, replicas, revisions
from virtualnode.deployments.sizes import is_rolling
from virtualnode.objects import controller_of, is_terminating, key_of
from virtualnode.reconciling import Queue
from virtualnode.resources import DEPLOYMENTS, PODS, REPLICA_SETS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from virtualnode.deployments.sizes import Sized
    from virtualnode.events import Recorder
    from virtualnode.objects import Change, Key, Objects

Object = dict[str, Any]
_NAME: Final = "deployment-controller"


class DeploymentController:
    """Rolls each Deployment's pods over to the template it asks for."""

    def __init__(
        self, objects: Objects, recorder: Recorder, *, now: Callable[[], datetime]
    ) -> None:
        self._objects = objects
        self._recorder = recorder
        self._now = now
        self._queue = Queue("deployments")
        self._sets = objects.index(REPLICA_SETS, claims.handles)
        self._pods = objects.index(PODS, claims.handles)
        objects.follow(DEPLOYMENTS, lambda change: self._queue.add(key_of(change.present)))
        objects.follow(REPLICA_SETS, self._set_changed)
        objects.follow(PODS, self._pod_changed)
        for deployment in objects.list(DEPLOYMENTS):
            self._queue.add(key_of(deployment))

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._queue.run(self.reconcile)

    def _set_changed(self, change: Change) -> None:
        for owner in claims.owners(self._objects, change, DEPLOYMENTS):
            self._queue.add(key_of(owner))

    def _pod_changed(self, change: Change) -> None:
        """A Recreate waits for the last pod of its old sets to end; a set says nothing of it."""
        if change.new is not None and not replicas.has_ended(change.new):
            return
        reference = controller_of(change.present)
        if reference is None or reference["kind"] != REPLICA_SETS.kind:
            return
        namespace = change.present["metadata"]["namespace"]
        replica_set = self._objects.get(REPLICA_SETS, namespace, reference["name"])
        owner = controller_of(replica_set) if replica_set is not None else None
        if owner is None:
            return
        deployment = self._objects.get(DEPLOYMENTS, namespace, owner["name"])
        if deployment is not None and not is_rolling(deployment):
            self._queue.add(key_of(deployment))

    async def reconcile(self, key: Key) -> float | None:
        """Take one Deployment's next step."""
        deployment = self._objects.get(DEPLOYMENTS, *key)
        if deployment is None:
            return None
        found = claims.candidates(self._objects, REPLICA_SETS, self._sets, deployment)
        claim = claims.claim(deployment, found)
        await claims.settle(self._objects, REPLICA_SETS, deployment, claim)
        # Read again: what is decided on here and what is written next must be the same state.
        deployment = self._objects.get(DEPLOYMENTS, *key)
        if deployment is None:
            return None
        found = claims.candidates(self._objects, REPLICA_SETS, self._sets, deployment)
        held = claims.claim(deployment, found).held
        step = decision.decide(deployment, held, self._pods_of(held), now=self._now())
        if step.make is not None and not await self._make(deployment, step.make):
            return None
        for each in step.change:
            await self._resize(deployment, each)
        for gone in step.delete:
            await self._objects.delete(REPLICA_SETS, key_of(gone), uid=gone["metadata"]["uid"])
        await self._tell(deployment, step.status, step.revision)
        return step.after_s

    def _pods_of(self, replica_sets: tuple[Object, ...]) -> dict[str, list[Object]]:
        pods: dict[str, list[Object]] = {}
        for each in replica_sets:
            uid = each["metadata"]["uid"]
            found = (self._objects.get(PODS, *key) for key in self._pods[uid])
            pods[uid] = [pod for pod in found if pod is not None]
        return pods

    # -- writing

    async def _make(self, deployment: Object, replica_set: Object) -> bool:
        """Create a set; False when it could not be and the Deployment comes here again."""
        name = replica_set["metadata"]["name"]
        try:
            await self._objects.create(REPLICA_SETS, replica_set)
        except AlreadyExists:
            # Another template has the same hash, or the name is somebody else's.
            status = dict(deployment.get("status") or {})
            status["collisionCount"] = int(status.get("collisionCount") or 0) + 1
            await self._tell(deployment, status)
            return False
        except ApiError as error:
            if is_terminating(error):
                return False
            message = f'Failed to create new replica set "{name}": {error}'
            self._record(deployment, "ReplicaSetCreateError", message, warning=True)
            known = progress.told_of_failure(deployment, message, now=self._now())
            status = {**(deployment.get("status") or {}), "conditions": list(known)}
            await self._tell(deployment, status)
            raise
        size = replica_set["spec"]["replicas"]
        if size:
            message = f"Scaled up replica set {name} from 0 to {size}"
            self._record(deployment, "ScalingReplicaSet", message)
        return True

    async def _resize(self, deployment: Object, sized: Sized) -> None:
        """Change a set, unless it changed since it was seen: then the step is to be decided on
        again, and the change has brought the Deployment back into the queue."""
        seen = sized.seen
        revision = seen["metadata"]["resourceVersion"]

        def applied(fresh: Object) -> Object | None:
            return sized.applied(fresh) if _revision_of(fresh) == revision else None

        stored = await self._objects.change(
            REPLICA_SETS, key_of(seen), applied, uid=seen["metadata"]["uid"], spec=True
        )
        before = seen["spec"].get("replicas", 1)
        if stored is None or stored["spec"]["replicas"] == before != sized.replicas:
            return
        if before != sized.replicas:
            way = "up" if sized.replicas > before else "down"
            message = f"Scaled {way} replica set {sized.name} from {before} to {sized.replicas}"
            self._record(deployment, "ScalingReplicaSet", message)

    async def _tell(self, deployment: Object, status: Object, revision: str = "") -> None:
        """Write the Deployment's status and revision, which are no new generation of it."""

        def told(fresh: Object) -> Object:
            if not revision:
                return {**fresh, "status": status}
            metadata = fresh["metadata"]
            annotations = {**(metadata.get("annotations") or {}), revisions.REVISION: revision}
            metadata = {**metadata, "annotations": annotations}
            return {**fresh, "metadata": metadata, "status": status}

        uid = deployment["metadata"]["uid"]
        await self._objects.change(DEPLOYMENTS, key_of(deployment), told, uid=uid)

    def _record(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None:
        self._recorder.record(about, reason, message, component=_NAME, warning=warning)


def _revision_of(obj: Object) -> str:
    return str(obj["metadata"]["resourceVersion"])
