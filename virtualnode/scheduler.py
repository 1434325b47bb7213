"""The scheduler: pods that want a node get one, by `scheduling.choose`, in order of priority.

One pass looks at every pending pod, and a pass runs whenever something changed that may matter: a
pod came, ended or went, a node changed. A pod with scheduling gates waits for its owner; one of
another scheduler is left alone.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Conflict
from virtualnode import conditions, scheduling
from virtualnode.neighbours import Neighbour
from virtualnode.objects import key_of
from virtualnode.resources import NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from virtualnode.events import Recorder
    from virtualnode.objects import Change, Key, Objects

Object = dict[str, Any]
NAME: Final = "default-scheduler"
_RETRY_S: Final = 0.5

log = logging.getLogger(__name__)


class Scheduler:
    """Binds pods to nodes."""

    def __init__(
        self, objects: Objects, recorder: Recorder, *, now: Callable[[], datetime]
    ) -> None:
        self._objects = objects
        self._recorder = recorder
        self._now = now
        self._dirty = asyncio.Event()
        self._pending: dict[Key, None] = {}
        self._bound = objects.index(PODS, lambda pod: [pod["spec"].get("nodeName") or ""])
        for pod in objects.list(PODS):
            self._sort(pod)
        objects.follow(PODS, self._pod_changed)
        objects.follow(NODES, lambda _: self._dirty.set())
        self._dirty.set()

    async def run(self) -> None:
        """Schedule until cancelled."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self._pass()
            except Exception:
                log.exception("a scheduling pass failed; again in %g s", _RETRY_S)
                asyncio.get_running_loop().call_later(_RETRY_S, self._dirty.set)

    def _pod_changed(self, change: Change) -> None:
        if change.new is None:
            self._pending.pop(key_of(change.present), None)
            self._dirty.set()
            return
        self._sort(change.new)
        old = change.old
        freed = (
            old is not None and scheduling.is_active(old) and not scheduling.is_active(change.new)
        )
        if old is None or freed or old["spec"] != change.new["spec"]:
            self._dirty.set()

    def _sort(self, pod: Object) -> None:
        if _wants_node(pod):
            self._pending[key_of(pod)] = None
        else:
            self._pending.pop(key_of(pod), None)

    async def _pass(self) -> None:
        if not self._pending:
            return
        nodes = {
            node["metadata"]["name"]: scheduling.view(node, self._pods_on(node["metadata"]["name"]))
            for node in self._objects.list(NODES)
        }
        waiting = [
            pod for key in self._pending if (pod := self._objects.get(PODS, *key)) is not None
        ]
        for pod in sorted(waiting, key=_turn):
            choice = scheduling.choose(pod, tuple(nodes.values()))
            if not choice.node:
                await self._unschedulable(pod, choice.message)
            elif await self._bind(pod, choice.node):
                nodes[choice.node] = _with(nodes[choice.node], pod)

    def _pods_on(self, node: str) -> list[Object]:
        found = (self._objects.get(PODS, *key) for key in self._bound[node])
        return [pod for pod in found if pod is not None]

    async def _bind(self, pod: Object, node: str) -> bool:
        uid = pod["metadata"]["uid"]
        try:
            if not await bind(self._objects, key_of(pod), node, uid=uid, now=self._now()):
                return False
        except Conflict:
            self._dirty.set()  # somebody else bound it, and what is free is to be counted again
            return False
        namespace, name = key_of(pod)
        message = f"Successfully assigned {namespace}/{name} to {node}"
        self._recorder.record(pod, "Scheduled", message, component=NAME)
        return True

    async def _unschedulable(self, pod: Object, message: str) -> None:
        condition: Object = {
            "type": "PodScheduled",
            "lastProbeTime": None,
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        known = conditions.find(pod["status"].get("conditions"), "PodScheduled")
        if known is not None and all(known.get(k) == v for k, v in condition.items()):
            return

        def tell(fresh: Object) -> Object | None:
            if not _wants_node(fresh):
                return None
            status = fresh["status"]
            told = conditions.settle(status.get("conditions"), condition, now=self._now())
            return {**fresh, "status": {**status, "conditions": told}}

        await self._objects.change(PODS, key_of(pod), tell, uid=pod["metadata"]["uid"])
        self._recorder.record(pod, "FailedScheduling", message, component=NAME, warning=True)


async def bind(objects: Objects, key: Key, node: str, *, uid: str, now: datetime) -> bool:
    """Give a pod its node; False when it is gone or in deletion.

    Raises Conflict when it has a node already (upstream's BindingREST.setPodNodeAndMetadata).
    """

    def assign(pod: Object) -> Object | None:
        if pod["metadata"].get("deletionTimestamp"):
            return None
        if pod["spec"].get("nodeName"):
            raise Conflict.of(
                group="",
                resource="pods/binding",
                name=key[1],
                why=f'pod {key[1]} is already assigned to node "{pod["spec"]["nodeName"]}"',
            )
        status = pod["status"]
        scheduled = conditions.settle(
            status.get("conditions"),
            {"type": "PodScheduled", "status": "True", "lastProbeTime": None},
            now=now,
        )
        for condition in scheduled:
            if condition["type"] == "PodScheduled":
                condition.pop("reason", None)
                condition.pop("message", None)
        return {
            **pod,
            "spec": {**pod["spec"], "nodeName": node},
            "status": {**status, "conditions": scheduled},
        }

    stored = await objects.change(PODS, key, assign, uid=uid)
    return stored is not None and stored["spec"].get("nodeName") == node


def _wants_node(pod: Object) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and spec.get("schedulerName", NAME) == NAME
        and not pod["metadata"].get("deletionTimestamp")
        and scheduling.is_active(pod)
    )


def _turn(pod: Object) -> tuple[int, str, Key]:
    """Higher priority first, then the older pod."""
    metadata = pod["metadata"]
    return -int(pod["spec"].get("priority") or 0), metadata["creationTimestamp"], key_of(pod)


def _with(node: scheduling.NodeView, pod: Object) -> scheduling.NodeView:
    used = dict(node.used)
    for name, amount in scheduling.demand(pod).items():
        used[name] = used.get(name, 0) + amount
    ports = node.host_ports | scheduling.host_ports(pod)
    pods = (*node.pods, Neighbour.of(pod))
    return replace(node, used=used, host_ports=ports, pods=pods)
