"""The Job controller: reads a Job and its pods, does what `decision` says, writes the status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.errors import ApiError
from fleet.kube.selectors import LabelSelector
from virtualnode.jobs import pods as jobpods
from virtualnode.jobs.decision import decide, finished_since, is_finished, settle
from virtualnode.jobs.policies import Failures
from virtualnode.objects import controller_of, controller_reference, is_terminating, key_of
from virtualnode.reconciling import Queue
from virtualnode.resources import JOBS, PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from virtualnode.events import Recorder
    from virtualnode.jobs.decision import Plan
    from virtualnode.objects import Change, Key, Objects

Object = dict[str, Any]

COMPONENT: Final = "job-controller"
OWN_MANAGER: Final = "kubernetes.io/job-controller"


class JobController:
    """Works through the Jobs of one cluster."""

    def __init__(
        self,
        objects: Objects,
        recorder: Recorder,
        *,
        now: Callable[[], datetime],
        backoff_s: float,
    ) -> None:
        """`backoff_s` is the first delay before a failed pod is replaced."""
        self._objects = objects
        self._recorder = recorder
        self._now = now
        self._backoff_s = backoff_s
        self._queue = Queue("jobs")
        self._failures: dict[str, Failures] = {}
        self._owned = objects.index(PODS, _job_uids)
        objects.follow(JOBS, self._job_changed)
        objects.follow(PODS, self._pod_changed)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        for job in self._objects.list(JOBS):
            self._queue.add(key_of(job))
        await self._queue.run(self._reconcile)

    def _job_changed(self, change: Change) -> None:
        self._queue.add(key_of(change.present))
        if change.new is None:
            self._failures.pop(change.present["metadata"]["uid"], None)

    def _pod_changed(self, change: Change) -> None:
        pod = change.present
        owner = controller_of(pod)
        if owner is not None:
            if owner["kind"] == "Job":
                self._queue.add((pod["metadata"]["namespace"], owner["name"]))
        elif change.new is not None and not pod["metadata"].get("deletionTimestamp"):
            for job in self._objects.list(JOBS, pod["metadata"]["namespace"]):
                if _selects(job, pod):
                    self._queue.add(key_of(job))

    async def _reconcile(self, key: Key) -> float | None:
        job = self._objects.get(JOBS, *key)
        await self._release_strays(key, job)
        if job is None:
            return None
        uid = job["metadata"]["uid"]
        if job["spec"].get("managedBy", OWN_MANAGER) != OWN_MANAGER:
            return None
        if is_finished(job):
            self._failures.pop(uid, None)
            return await self._retire(key, job)
        pods = await self._claim(job)
        failures = self._failures.get(uid, Failures())
        plan = decide(job, pods, failures, now=self._now(), base_s=self._backoff_s)
        await self._delete(job, plan.delete)
        try:
            await self._create(job, plan.create)
        finally:
            # pods that could not be made are no reason not to count those that ended
            await self._write(key, job, plan)
        return plan.look_again_s

    # -- pods

    async def _claim(self, job: Object) -> list[Object]:
        """The Job's pods, orphans that its selector matches adopted first."""
        uid, namespace = job["metadata"]["uid"], job["metadata"]["namespace"]
        if not job["metadata"].get("deletionTimestamp"):
            for pod in self._objects.list(PODS, namespace):
                free = controller_of(pod) is None and not pod["metadata"].get("deletionTimestamp")
                if free and _selects(job, pod):
                    await self._adopt(job, pod)
        return self._pods_of(uid)

    async def _adopt(self, job: Object, pod: Object) -> None:
        def take(fresh: Object) -> Object | None:
            if controller_of(fresh) is not None:
                return None
            metadata = fresh["metadata"]
            owners = [*(metadata.get("ownerReferences") or ()), controller_reference(job)]
            finalizers = [*(metadata.get("finalizers") or ()), jobpods.FINALIZER]
            kept = list(dict.fromkeys(finalizers))
            return {
                **fresh,
                "metadata": {**metadata, "ownerReferences": owners, "finalizers": kept},
            }

        await self._objects.change(PODS, key_of(pod), take, uid=pod["metadata"]["uid"])

    def _pods_of(self, uid: str) -> list[Object]:
        found = (self._objects.get(PODS, *key) for key in self._owned[uid])
        return [pod for pod in found if pod is not None]

    async def _create(self, job: Object, indexes: Iterable[int | None]) -> None:
        for index in indexes:
            try:
                made = await self._objects.create(PODS, jobpods.pod_for(job, index))
            except ApiError as error:
                if is_terminating(error):
                    return
                self._tell(job, "FailedCreate", f"Error creating: {error}", warning=True)
                raise
            self._tell(job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")

    async def _delete(self, job: Object, pods: Iterable[Object]) -> None:
        for pod in pods:
            await self._objects.delete(PODS, key_of(pod), uid=pod["metadata"]["uid"])
            self._tell(job, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

    async def _release(self, pods: Iterable[Object]) -> None:
        """Take the tracking finalizer off."""

        def let_go(pod: Object) -> Object:
            metadata = dict(pod["metadata"])
            kept = [each for each in metadata.get("finalizers") or () if each != jobpods.FINALIZER]
            metadata.pop("finalizers", None)
            if kept:
                metadata["finalizers"] = kept
            return {**pod, "metadata": metadata}

        for pod in pods:
            await self._objects.change(PODS, key_of(pod), let_go, uid=pod["metadata"]["uid"])

    async def _release_strays(self, key: Key, job: Object | None) -> None:
        """Pods of a Job that is gone or finished have nobody left to count them."""
        ours = "" if job is None or is_finished(job) else job["metadata"]["uid"]
        strays = []
        for pod in self._objects.list(PODS, key[0]):
            owner = controller_of(pod)
            if owner is None or owner["kind"] != "Job" or owner["name"] != key[1]:
                continue
            if owner["uid"] != ours and jobpods.is_tracked(pod):
                strays.append(pod)
        await self._release(strays)

    # -- the status

    async def _write(self, key: Key, job: Object, plan: Plan) -> None:
        uid = job["metadata"]["uid"]
        for note in plan.notes:
            self._tell(job, note.reason, note.message, warning=note.warning)
        await self._put(key, uid, plan.status)
        self._failures[uid] = plan.failures
        await self._release(plan.release)
        held = {pod["metadata"]["uid"] for pod in self._pods_of(uid) if jobpods.is_tracked(pod)}
        terminating = sum(map(jobpods.is_terminating, self._pods_of(uid)))
        status, notes = settle(
            plan.status, held, finish=plan.finish, terminating=terminating, now=self._now()
        )
        if plan.finish is not None:
            status["terminating"] = terminating
        await self._put(key, uid, status)
        for note in notes:
            self._tell(job, note.reason, note.message, warning=note.warning)

    async def _put(self, key: Key, uid: str, status: Object) -> None:
        await self._objects.change(JOBS, key, lambda fresh: {**fresh, "status": status}, uid=uid)

    async def _retire(self, key: Key, job: Object) -> float | None:
        """Delete a finished Job whose time to live is over; seconds until then."""
        ttl_s = job["spec"].get("ttlSecondsAfterFinished")
        ended = finished_since(job)
        if ttl_s is None or ended is None or job["metadata"].get("deletionTimestamp"):
            return None
        left_s = ended + float(ttl_s) - self._now().timestamp()
        if left_s > 0:
            return left_s
        uid = job["metadata"]["uid"]
        await self._objects.delete(JOBS, key, uid=uid, propagation="Foreground")
        return None

    def _tell(self, job: Object, reason: str, message: str, *, warning: bool = False) -> None:
        self._recorder.record(job, reason, message, component=COMPONENT, warning=warning)


def _job_uids(pod: Object) -> list[str]:
    owner = controller_of(pod)
    return [owner["uid"]] if owner is not None and owner["kind"] == "Job" else []


def _selects(job: Object, pod: Object) -> bool:
    selector = job["spec"].get("selector")
    if not selector:
        return False
    return LabelSelector.from_object(selector).matches(pod["metadata"].get("labels") or {})
