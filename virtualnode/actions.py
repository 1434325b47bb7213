"""Requests about pods that are neither objects nor streams: binding and eviction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.apiserver import bodies
from fleet.errors import BadRequest, NotFound
from fleet.kube.options import DeleteOptions
from fleet.kube.status import success
from virtualnode import conditions
from virtualnode.resources import NODES, PODS
from virtualnode.scheduler import bind

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from fleet.kube.paths import Target
    from fleet.kube.resources import Resource
    from fleet.kube.wire import Request, Response
    from virtualnode.objects import Objects

Object = dict[str, Any]

_ENDED: Final = ("Succeeded", "Failed")


class PodActions:
    """A `fleet.apiserver.kernel.Special` for `pods/binding` and `pods/eviction`."""

    def __init__(self, objects: Objects, *, now: Callable[[], datetime]) -> None:
        self._objects = objects
        self._now = now

    async def answer(self, request: Request, target: Target, resource: Resource) -> Response | None:
        """Raises NotFound, BadRequest, Conflict."""
        if resource.gvr != PODS.gvr or target.subresource not in ("binding", "eviction"):
            return None
        if self._objects.get(PODS, target.namespace, target.name) is None:
            raise NotFound.of(group="", resource="pods", name=target.name)
        if target.subresource == "binding":
            await self._bind(request, target)
        else:
            await self._evict(request, target)
        return bodies.json_response(201, success(group="", kind="", name="", uid=""))

    async def _bind(self, request: Request, target: Target) -> None:
        body = bodies.object_of(request, default=("v1", "Binding"))
        node = (body.get("target") or {}).get("name") or ""
        if not node:
            raise BadRequest("Binding: target.name is missing: which node?")
        if self._objects.get(NODES, "", node) is None:
            raise NotFound.of(group="", resource="nodes", name=node)
        uid = (body.get("metadata") or {}).get("uid") or ""
        key = (target.namespace, target.name)
        if not await bind(self._objects, key, node, uid=uid, now=self._now()):
            raise BadRequest(f"pod {target.name} is being deleted, cannot be assigned to a host")

    async def _evict(self, request: Request, target: Target) -> None:
        """There are no disruption budgets here, so that an eviction is a deletion, of which the
        pod says why (registry/core/pod/storage/eviction.go): Jobs may count it as no failure."""
        body = bodies.object_of(request, default=("policy/v1", "Eviction"))
        name = (body.get("metadata") or {}).get("name") or target.name
        if name != target.name:
            raise BadRequest("name in URL does not match name in Eviction object")
        options = DeleteOptions.parse(request, body.get("deleteOptions"))
        if options.dry_run:
            return
        key = (target.namespace, target.name)
        await self._objects.change(PODS, key, self._disrupted, uid=options.uid)
        await self._objects.delete(
            PODS,
            key,
            uid=options.uid,
            grace_s=options.grace_period_s,
            propagation=options.propagation,
        )

    def _disrupted(self, pod: Object) -> Object | None:
        status = pod.setdefault("status", {})
        if pod["metadata"].get("deletionTimestamp") or status.get("phase") in _ENDED:
            return None
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        status["conditions"] = conditions.settle(
            status.get("conditions"), condition, now=self._now()
        )
        return pod
