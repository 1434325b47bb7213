"""What a gateway has now, as the first of the sources of a simulation.

Rules and clusters as they are, nodes and pods as the merged view has them, and of the fleet's own
work what runs or waits: what has ended, is suspended or is being deleted asks for nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from fleet.scheduling.simulation.documents import Source
from fleet.view.naming import CLUSTER_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.cli.client import Client

Object = dict[str, Any]

_RULES: Final = (
    "/fleet/apis/fleet.dev/v1alpha1/clusters",
    "/fleet/apis/fleet.dev/v1alpha1/placementpolicies",
    "/fleet/apis/fleet.dev/v1alpha1/fleetquotas",
    "/fleet/apis/fleet.dev/v1alpha1/lendingpolicies",
    "/fleet/apis/fleet.dev/v1alpha1/pricebooks",
    "/fleet/apis/scheduling.k8s.io/v1/priorityclasses",
    "/fleet/api/v1/namespaces",
    "/api/v1/nodes",
)
_WORKLOADS: Final = ("/fleet/apis/batch/v1/jobs", "/fleet/api/v1/pods")
_PLACEMENTS: Final = "/fleet/apis/fleet.dev/v1alpha1/placements"
_PODS: Final = "/api/v1/pods"
_PAGE: Final = 500
_OVER: Final = frozenset({"Succeeded", "Failed"})
_ENDED: Final = frozenset({"Complete", "Failed"})


def snapshot(client: Client) -> tuple[Source, datetime]:
    """With the time at which it was taken. Raises ApiError, ConfigError."""
    now = datetime.now(UTC)
    objects = [obj for path in _RULES for obj in _all(client, path)]
    own = [obj for path in _WORKLOADS for obj in _all(client, path)]
    works = {_key(obj): obj for obj in own if _asks(obj)}
    objects += works.values()
    for placement in _all(client, _PLACEMENTS):
        told = placement["spec"]["workload"]
        work = works.get((told["kind"], placement["metadata"]["namespace"], told["name"]))
        if work is not None and work["metadata"].get("uid") == told.get("uid"):
            objects.append(placement)
    known = {_key(obj) for obj in own}
    for pod in _all(client, _PODS):
        on_a_node = (pod.get("spec") or {}).get("nodeName")
        if on_a_node and CLUSTER_LABEL in _labels(pod) and _key(pod) not in known:
            objects.append(pod)
    body = {"apiVersion": "v1", "kind": "List", "items": objects}
    return Source("the gateway", orjson.dumps(body)), now


def _all(client: Client, path: str) -> Iterator[Object]:
    page, more = [("limit", str(_PAGE))], "more"
    while more:
        found = client.get(path, page)
        kind = str(found.get("kind", "")).removesuffix("List")
        for item in found.get("items") or ():
            yield {"apiVersion": found.get("apiVersion"), "kind": kind, **item}
        more = (found.get("metadata") or {}).get("continue") or ""
        page = [("limit", str(_PAGE)), ("continue", more)]


def _asks(obj: Object) -> bool:
    status = obj.get("status") or {}
    if obj["metadata"].get("deletionTimestamp") or (obj.get("spec") or {}).get("suspend"):
        return False
    if status.get("phase") in _OVER:
        return False
    return not any(
        each.get("type") in _ENDED and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )


def _key(obj: Object) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return obj["kind"], str(metadata.get("namespace", "")), metadata["name"]


def _labels(obj: Object) -> Object:
    labels: Object = obj["metadata"].get("labels") or {}
    return labels
