"""The clusters of a simulation, from Cluster objects, Node objects, and the pods that are there.

A Cluster's nodes are those of `status.capacity`, as `kubectl get clusters -o yaml` shows it and as
one can write it by hand: so many nodes of a shape in a block, nothing on them. Node objects say
more – labels, taints – and count instead where the Cluster does not stand in a later source;
`simulation.fleet.dev/count` makes several of one. A Cluster without a condition Ready is ready.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Invalid
from fleet.kube.quantity import InvalidQuantity
from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.capacity import Capacity
from fleet.scheduling.clusters import cluster_of
from fleet.scheduling.nodes import ACCELERATOR_LABELS, Node
from fleet.scheduling.requests import PODS, amount, is_accelerator
from fleet.scheduling.simulation.table import COUNT
from fleet.view.naming import CLUSTER_LABEL
from policies import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.quota.tree import Key
    from fleet.scheduling.requests import Vector
    from fleet.scheduling.simulation.documents import Document, Problems

Object = dict[str, Any]

_PODS_OF_A_NODE: Final = "110"
_MOST_NODES: Final = 100_000


@dataclass(frozen=True, slots=True)
class Inventory:
    clusters: tuple[Cluster, ...]
    """With what others run in them deducted, and what the fleet's own pods take as well."""
    accounts: Mapping[str, NodeAccounts] = field(default_factory=dict)
    """Of clusters whose Nodes are known one by one."""
    warnings: tuple[str, ...] = ()

    def taken_by(self, uid: str) -> dict[str, Mapping[Vector, Mapping[str, int]]]:
        """By cluster, what the pods of a workload take: see `NodeAccounts.taken_by`."""
        found = {name: each.taken_by(uid) for name, each in self.accounts.items()}
        return {name: taken for name, taken in found.items() if taken}

    def taken_by_others(self, namespace: str) -> dict[str, dict[tuple[str, str], int]]:
        """By cluster, what members run in that namespace that the fleet did not put there."""
        found = {
            name: each.taken_by_others(f"{namespace}.{name}")
            for name, each in self.accounts.items()
        }
        return {name: taken for name, taken in found.items() if taken}


def inventory_of(
    clusters: Sequence[Document],
    nodes: Sequence[Document],
    pods: Iterable[Document],
    problems: Problems,
) -> Inventory:
    """What is wrong goes into `problems`."""
    names = {each.name for each in clusters}
    by_cluster: dict[str, list[Document]] = {}
    for node in nodes:
        name = cluster_named(node.obj)
        if name in names:
            by_cluster.setdefault(name, []).append(node)
        else:
            problems.add(
                node,
                f"metadata.labels[{CLUSTER_LABEL}]: says no cluster that is there, nor does its "
                f"name, as NODE.CLUSTER (there is {', '.join(sorted(names)) or 'none'})",
            )
    found, accounts, warnings = [], dict[str, NodeAccounts](), list[str]()
    for cluster in sorted(clusters, key=lambda each: each.name):
        mine = by_cluster.get(cluster.name, [])
        capacity = (cluster.obj.get("status") or {}).get("capacity")
        if capacity and any(each.source < cluster.source for each in mine):
            mine = []  # what was said of it later counts
        try:
            typed = cluster_of(_ready(cluster.obj), None)
        except Invalid as error:
            problems.add(cluster, error)
            continue
        if mine:
            label = CLUSTER.parse(cluster.obj).spec.blocks.node_label
            accounts[cluster.name] = book = NodeAccounts(block_label=label)
            try:
                for node in mine:
                    for each in _repeated(node.obj):
                        book.upsert_node(each)
                found.append(replace(typed, capacity=book.capacity(0.0)))
            except (InvalidQuantity, ValueError) as error:
                problems.add(node, str(error))
            continue
        try:
            there = tuple(_nodes(cluster.name, capacity or ()))
        except ValueError as error:
            problems.add(cluster, str(error))
            continue
        if not there:
            warnings.append(
                f"nothing is known of the nodes of {cluster.name} (status.capacity of the Cluster, "
                "or Node objects): nothing is placed there"
            )
        found.append(replace(typed, capacity=Capacity(there, 0.0) if there else None))
    for pod in pods:
        where = cluster_named(pod.obj)
        if where in accounts:
            accounts[where].upsert_pod(pod.obj)
    with_pods = tuple(
        replace(each, capacity=accounts[each.name].capacity(0.0)) if each.name in accounts else each
        for each in found
    )
    return Inventory(with_pods, accounts, tuple(warnings))


def resources_of(capacity: Capacity | None) -> dict[tuple[str, str], int]:
    """What the nodes that take work have, by resource and kind of accelerator."""
    found: dict[tuple[str, str], int] = {}
    for node in capacity.nodes if capacity is not None else ():
        for name, value in node.allocatable.items():
            if not node.unusable:
                key = name, node.accelerator if is_accelerator(name) else ""
                found[key] = found.get(key, 0) + value
    return found


def counted_by_name(totals: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """The same without kinds."""
    found: dict[str, int] = {}
    for (name, _), value in totals.items():
        found[name] = found.get(name, 0) + value
    return found


def unmanaged(
    inventory: Inventory, quotas: Mapping[str, str], key: type[Key]
) -> dict[tuple[str, str], list[dict[Key, int]]]:
    """By quota and cluster, what others run that counts there; `quotas` by namespace."""
    found: dict[tuple[str, str], list[dict[Key, int]]] = {}
    for namespace, quota in quotas.items():
        for cluster, taken in inventory.taken_by_others(namespace).items():
            amounts = {key(*each): value for each, value in taken.items()}
            found.setdefault((quota, cluster), []).append(amounts)
    return found


def cluster_named(obj: Object) -> str:
    """The cluster that a Node, or a Pod on one, says that it is in."""
    labels = obj["metadata"].get("labels") or {}
    node = (obj.get("spec") or {}).get("nodeName") if obj["kind"] == "Pod" else ""
    name = str(node or obj["metadata"]["name"])
    return labels.get(CLUSTER_LABEL) or name.rpartition(".")[2]


def _ready(obj: Object) -> Object:
    """What a file says nothing of is well."""
    status: Object = obj.get("status") or {}
    conditions = status.get("conditions") or []
    if any(isinstance(each, dict) and each.get("type") == "Ready" for each in conditions):
        return obj
    ready = {"type": "Ready", "status": "True"}
    return {**obj, "status": {**status, "conditions": [*conditions, ready]}}


def _repeated(obj: Object) -> Iterable[Object]:
    """A Node as often as it says, ready where it does not say."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    if not status.get("conditions"):
        status = {**status, "conditions": [{"type": "Ready", "status": "True"}]}
    allocatable = {PODS: _PODS_OF_A_NODE, **(status.get("allocatable") or {})}
    obj = {**obj, "status": {**status, "allocatable": allocatable}}
    count = _count((metadata.get("annotations") or {}).get(COUNT))
    if count is None:
        return [obj]
    return (
        {**obj, "metadata": {**metadata, "name": f"{metadata['name']}-{at}"}} for at in range(count)
    )


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_NODES:
        raise ValueError(
            f'metadata.annotations[{COUNT}]: "{text}" is no number from 1 to {_MOST_NODES}'
        )
    return int(text)


def _nodes(cluster: str, groups: Sequence[Object]) -> Iterable[Node]:
    """Raises ValueError saying the field."""
    for at, group in enumerate(groups):
        where = f"status.capacity[{at}]"
        count = group.get("nodes", 0)
        if not 0 <= count <= _MOST_NODES:
            raise ValueError(f"{where}.nodes: {count} is no number from 0 to {_MOST_NODES}")
        shape = {PODS: amount(PODS, _PODS_OF_A_NODE)}
        for name, text in group["shape"].items():
            shape[name] = amount(name, str(text))
            if shape[name] < 0:
                raise ValueError(f'{where}.shape[{name}]: "{text}" may not be negative')
        kind, block = group.get("accelerator", ""), group.get("block", "")
        labels = {ACCELERATOR_LABELS[0]: kind} if kind else {}
        for number in range(count):
            yield Node(
                name=f"{cluster}-{at}-{number}", labels=labels, taints=(), allocatable=shape,
                free=shape, block=block, accelerator=kind, instance_type="", billing="",
                unusable="",
            )  # fmt: skip
