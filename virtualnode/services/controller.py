"""The EndpointSlice controller: reads a Service, its pods and slices, asks `slices`, writes the
difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.errors import ApiError
from virtualnode import conditions
from virtualnode.objects import is_terminating, key_of
from virtualnode.reconciling import Queue
from virtualnode.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES
from virtualnode.services import slices

if TYPE_CHECKING:
    from virtualnode.objects import Change, Key, Objects

Object = dict[str, Any]
_ZONE: Final = "topology.kubernetes.io/zone"


class EndpointSliceController:
    """Keeps the slices of every Service that selects pods."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._queue = Queue("endpoint slices")
        self._slices = objects.index(ENDPOINT_SLICES, _service_of)
        objects.follow(SERVICES, lambda change: self._queue.add(key_of(change.present)))
        objects.follow(PODS, self._pod_changed)
        objects.follow(ENDPOINT_SLICES, self._slice_changed)
        objects.follow(NODES, self._node_changed)
        self._add_all()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._queue.run(self.reconcile)

    def _add_all(self) -> None:
        for service in self._objects.list(SERVICES):
            self._queue.add(key_of(service))

    def _pod_changed(self, change: Change) -> None:
        if change.old is not None and change.new is not None:
            if _looks(change.old) == _looks(change.new):
                return
        states = [each for each in (change.old, change.new) if each is not None]
        for service in self._objects.list(SERVICES, change.present["metadata"]["namespace"]):
            if any(_selects(service, pod) for pod in states):
                self._queue.add(key_of(service))

    def _slice_changed(self, change: Change) -> None:
        namespace = change.present["metadata"]["namespace"]
        for state in (change.old, change.new):
            if state is not None and slices.is_ours(state):
                name = (state["metadata"].get("labels") or {}).get(slices.SERVICE_NAME)
                if name:
                    self._queue.add((namespace, name))

    def _node_changed(self, change: Change) -> None:
        if change.old is None or change.new is None or _zone(change.old) != _zone(change.new):
            self._add_all()

    async def reconcile(self, key: Key) -> None:
        """Make one Service's slices say what its pods are."""
        service = self._objects.get(SERVICES, *key)
        if service is None or not slices.is_served(service):
            return
        pods = [p for p in self._objects.list(PODS, key[0]) if _selects(service, p)]
        found = (self._objects.get(ENDPOINT_SLICES, *each) for each in self._slices["/".join(key)])
        present = sorted((each for each in found if each is not None), key=key_of)
        difference = slices.decide(service, pods, present, zone_of=self._zone_of)
        for made in difference.create:
            try:
                await self._objects.create(ENDPOINT_SLICES, made)
            except ApiError as error:
                if is_terminating(error):
                    return
                raise
        for changed in difference.update:
            await self._update(changed)
        for gone in difference.delete:
            uid = gone["metadata"]["uid"]
            await self._objects.delete(ENDPOINT_SLICES, key_of(gone), uid=uid)

    async def _update(self, wanted: Object) -> None:
        """Write a slice unless it changed since; then the change brings its Service here again."""
        metadata = wanted["metadata"]

        def applied(fresh: Object) -> Object | None:
            if fresh["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
                return None
            generation = fresh["metadata"].get("generation", 0) + 1
            return {**wanted, "metadata": {**metadata, "generation": generation}}

        await self._objects.change(ENDPOINT_SLICES, key_of(wanted), applied, uid=metadata["uid"])

    def _zone_of(self, node: str) -> str | None:
        if not node:
            return ""
        found = self._objects.get(NODES, "", node)
        return None if found is None else _zone(found)


def _service_of(endpoint_slice: Object) -> list[str]:
    """The Service of a slice that is managed here, for the index."""
    name = (endpoint_slice["metadata"].get("labels") or {}).get(slices.SERVICE_NAME)
    if not name or not slices.is_ours(endpoint_slice):
        return []
    return [f"{endpoint_slice['metadata']['namespace']}/{name}"]


def _selects(service: Object, pod: Object) -> bool:
    selector = service["spec"].get("selector")
    labels = pod["metadata"].get("labels") or {}
    return bool(selector) and selector.items() <= labels.items()


def _looks(pod: Object) -> tuple[Any, ...]:
    """Whatever of a pod shows in an endpoint or in whose endpoint it is."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    return (
        metadata.get("labels"),
        bool(metadata.get("deletionTimestamp")),
        metadata.get("uid"),
        spec.get("nodeName"),
        status.get("phase") in ("Succeeded", "Failed"),
        status.get("podIP"),
        status.get("podIPs"),
        conditions.is_true(pod, "Ready"),
    )


def _zone(node: Object) -> str:
    return str((node["metadata"].get("labels") or {}).get(_ZONE, ""))
