"""Which pods the nodes of a cluster run: a worker for each, woken by what concerns it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from virtualnode.kubelet.references import CONFIG_MAP, SECRET, Ref
from virtualnode.kubelet.worker import Worker
from virtualnode.objects import key_of
from virtualnode.resources import CONFIG_MAPS, ENDPOINT_SLICES, PODS, SECRETS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from virtualnode.kubelet.worker import Surroundings
    from virtualnode.objects import Change, Key

Object = dict[str, Any]
log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0


class Kubelet:
    """Runs what is bound to the cluster's nodes, all of which are its own."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._workers: dict[Key, Worker] = {}
        self._tasks: asyncio.TaskGroup | None = None
        objects = around.objects
        objects.follow(PODS, self._pod_changed)
        objects.follow(CONFIG_MAPS, lambda change: self._source_changed(CONFIG_MAP, change))
        objects.follow(SECRETS, lambda change: self._source_changed(SECRET, change))
        objects.follow(SERVICES, self._names_changed)
        objects.follow(ENDPOINT_SLICES, self._names_changed)

    def worker(self, key: Key) -> Worker | None:
        """Whoever runs the pod of that key, if it is bound and not gone."""
        return self._workers.get(key)

    async def run(self) -> None:
        """Run pods until cancelled; then nothing of them runs."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for pod in self._around.objects.list(PODS):
                self._consider(pod)
            await asyncio.Event().wait()

    def _pod_changed(self, change: Change) -> None:
        worker = self._workers.get(key_of(change.present))
        if worker is not None:
            worker.wake()
        if change.new is not None:
            self._consider(change.new)

    def _consider(self, pod: Object) -> None:
        key, uid = key_of(pod), pod["metadata"]["uid"]
        if self._tasks is None or not pod["spec"].get("nodeName"):
            return
        known = self._workers.get(key)
        if known is not None:
            return  # the same pod, or the next of its name: `_attend` sees to that
        worker = self._workers[key] = Worker(key, uid, self._around)
        self._tasks.create_task(self._attend(worker), name=f"pod {key[0]}/{key[1]}")

    async def _attend(self, worker: Worker) -> None:
        try:
            await worker.run()
        except Exception:
            log.exception("pod %s failed in the kubelet; begun anew", "/".join(worker.key))
            await asyncio.sleep(_RETRY_S)
        finally:
            del self._workers[worker.key]
        successor = self._around.objects.get(PODS, *worker.key)
        if successor is not None:
            self._consider(successor)

    def _source_changed(self, kind: str, change: Change) -> None:
        namespace, name = key_of(change.present)
        ref = Ref(kind, name)
        for worker in self._in(namespace):
            if ref in worker.wants:
                worker.wake()

    def _names_changed(self, change: Change) -> None:
        for worker in self._in(key_of(change.present)[0]):
            worker.wake()

    def _in(self, namespace: str) -> Iterator[Worker]:
        return (worker for worker in self._workers.values() if worker.key[0] == namespace)
