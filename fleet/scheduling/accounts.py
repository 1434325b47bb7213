"""The books of one member's nodes: fed with its Node and Pod objects, read as a `Capacity`.

Each object costs its own change and nothing else, so that a member with thousands of pods is not
counted anew for every decision. It has the four methods by which a reflector feeds
(`fleet.members.sink.Sink`), one pair of them for nodes and one for pods, and keeps no objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.scheduling.capacity import Capacity
from fleet.scheduling.checkpoints import newest_s, saved_s
from fleet.scheduling.nodes import node_of
from fleet.scheduling.requests import is_accelerator, pod_request, vector
from fleet.view.naming import WORKLOAD_UID_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.scheduling.nodes import Node
    from fleet.scheduling.requests import Amounts, Vector

Object = dict[str, Any]

GENERATION_LABEL: Final = "fleet.dev/generation"
_OVER: Final = frozenset({"Succeeded", "Failed"})


class _Pod(NamedTuple):
    node: str
    namespace: str
    taken: Amounts
    """Empty once it is over: it keeps its place in the count of its shard, not on its node."""
    shard: tuple[str, int] | None
    saved_s: float | None = None
    """When the workload's last checkpoint was complete, as the pod says."""


def shard_of(labels: Mapping[str, str]) -> tuple[str, int] | None:
    """(UID of the workload, generation) of a pod that dispatch made; None for any other."""
    uid, generation = labels.get(WORKLOAD_UID_LABEL), labels.get(GENERATION_LABEL, "")
    return (uid, int(generation)) if uid and generation.isdecimal() else None


class NodeAccounts:
    """Free capacity of one member."""

    def __init__(
        self,
        *,
        block_label: str = "",
        shard: Callable[[Mapping[str, str]], tuple[str, int] | None] = shard_of,
    ) -> None:
        self._block_label = block_label
        self._shard = shard
        self._objects: dict[str, Object] = {}
        self._pods: dict[tuple[str, str], _Pod] = {}
        self._used: dict[str, Amounts] = {}
        self._nodes: dict[str, Node] = {}
        self._seen: dict[tuple[str, int], int] = {}
        self._of: dict[str, dict[tuple[str, str], None]] = {}
        """The pods of each workload."""
        self._taken_by: dict[str, dict[Vector, dict[str, int]]] = {}
        """What they take, of those that were asked about."""
        self._others: dict[str, dict[str, Amounts]] = {}
        """By namespace and node, what pods take that no shard has."""
        self._saved: dict[str, dict[tuple[str, str], float]] = {}
        """By workload, what its pods say of its last checkpoint."""
        self._picture: Capacity | None = None

    # -- nodes

    def upsert_node(self, obj: Object) -> None:
        name = _name(obj)
        slim = _slim(obj)
        if self._objects.get(name) != slim:
            self._objects[name] = slim
            self._forget(name)

    def remove_node(self, obj: Object) -> None:
        name = _name(obj)
        self._objects.pop(name, None)
        self._forget(name)

    # -- pods

    def upsert_pod(self, obj: Object) -> None:
        key, pod = _key(obj), self._read(obj)
        known = self._pods.get(key)
        if known == pod:
            return
        if known is not None and pod is not None and known == pod._replace(saved_s=known.saved_s):
            self._unsay(key, known)
            self._pods[key] = pod
            self._say(key, pod)
        else:
            self._leave(key)
            self._enter(key, pod)

    def remove_pod(self, obj: Object) -> None:
        self._leave(_key(obj))

    # -- reading

    @property
    def known(self) -> bool:
        """Whether any node was ever told of: a member without nodes is not one without room."""
        return bool(self._objects)

    @property
    def stale(self) -> bool:
        """Whether anything that counts has changed since the last picture."""
        return self._picture is None

    def capacity(self, as_of_s: float) -> Capacity:
        """The picture as of a time at which the feeding watches were known to be up to date."""
        picture = self._picture
        if picture is None:
            nodes = tuple(self._node(name) for name in sorted(self._objects))
            picture = Capacity(nodes, as_of_s, dict(self._seen))
        self._picture = picture.at(as_of_s)
        return self._picture

    def taken_by(self, workload: str) -> Mapping[Vector, Mapping[str, int]]:
        """Pods of a workload, by its UID, that take something of nodes: by what each takes, how
        many on which node."""
        found = self._taken_by.get(workload)
        if found is None:
            pods = self._of.get(workload)
            if pods is None:
                return {}
            found = self._taken_by[workload] = {}
            for key in pods:
                pod = self._pods[key]
                if pod is not None and pod.taken:
                    nodes = found.setdefault(vector(pod.taken), {})
                    nodes[pod.node] = nodes.get(pod.node, 0) + 1
        return found

    def taken_by_others(self, namespace: str) -> dict[tuple[str, str], int]:
        """What pods of a namespace take that the fleet did not put there: by resource and kind of
        accelerator, which is that of their nodes."""
        found: dict[tuple[str, str], int] = {}
        for name, taken in self._others.get(namespace, {}).items():
            kind = self._node(name).accelerator if name in self._objects else ""
            for resource, value in taken.items():
                key = resource, kind if is_accelerator(resource) else ""
                found[key] = found.get(key, 0) + value
        return found

    def saved_s(self, *, now: float) -> dict[str, float]:
        """By workload, when its last checkpoint was complete, as its pods say (`checkpoints`)."""
        found = {uid: newest_s(said.values(), now=now) for uid, said in self._saved.items()}
        return {uid: at for uid, at in found.items() if at is not None}

    def others_on(self) -> dict[str, set[str]]:
        """By node, the namespaces whose pods take accelerators there that no shard has."""
        found: dict[str, set[str]] = {}
        for namespace, nodes in self._others.items():
            for name, taken in nodes.items():
                if any(map(is_accelerator, taken)):
                    found.setdefault(name, set()).add(namespace)
        return found

    def _node(self, name: str) -> Node:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = node_of(
                self._objects[name],
                block_label=self._block_label,
                used=self._used.get(name, {}),
            )
        return node

    def _forget(self, node: str) -> None:
        self._nodes.pop(node, None)
        self._picture = None

    def _read(self, obj: Object) -> _Pod | None:
        """None for a pod that is on no node."""
        node = (obj.get("spec") or {}).get("nodeName")
        if not node:
            return None
        over = (obj.get("status") or {}).get("phase") in _OVER
        shard = self._shard((obj.get("metadata") or {}).get("labels") or {})
        taken = {} if over else _without_zeros(pod_request(obj))
        namespace = str(obj["metadata"].get("namespace", ""))
        return _Pod(node, namespace, taken, shard, saved_s(obj) if shard is not None else None)

    def _enter(self, key: tuple[str, str], pod: _Pod | None) -> None:
        if pod is None:
            return
        self._pods[key] = pod
        if pod.taken:
            used = self._used.get(pod.node)
            if used is None:
                used = self._used[pod.node] = {}
            for name, value in pod.taken.items():
                used[name] = used.get(name, 0) + value
            if pod.shard is None:
                there = self._others.setdefault(pod.namespace, {}).setdefault(pod.node, {})
                for name, value in pod.taken.items():
                    there[name] = there.get(name, 0) + value
        if pod.shard is not None:
            self._seen[pod.shard] = self._seen.get(pod.shard, 0) + 1
            self._of.setdefault(pod.shard[0], {})[key] = None
            self._taken_by.pop(pod.shard[0], None)
        self._say(key, pod)
        self._forget(pod.node)

    def _say(self, key: tuple[str, str], pod: _Pod) -> None:
        if pod.shard is not None and pod.saved_s is not None:
            self._saved.setdefault(pod.shard[0], {})[key] = pod.saved_s

    def _unsay(self, key: tuple[str, str], pod: _Pod) -> None:
        if pod.shard is not None and pod.saved_s is not None:
            said = self._saved[pod.shard[0]]
            del said[key]
            if not said:
                del self._saved[pod.shard[0]]

    def _leave(self, key: tuple[str, str]) -> None:
        pod = self._pods.pop(key, None)
        if pod is None:
            return
        self._unsay(key, pod)
        if pod.taken:
            used = self._used[pod.node]
            for name, value in pod.taken.items():
                used[name] -= value
                if not used[name]:
                    del used[name]
            if not used:
                del self._used[pod.node]
            if pod.shard is None:
                self._leave_others(pod)
        if pod.shard is not None:
            self._seen[pod.shard] -= 1
            if not self._seen[pod.shard]:
                del self._seen[pod.shard]
            self._taken_by.pop(pod.shard[0], None)
            pods = self._of[pod.shard[0]]
            del pods[key]
            if not pods:
                del self._of[pod.shard[0]]
        self._forget(pod.node)

    def _leave_others(self, pod: _Pod) -> None:
        nodes = self._others[pod.namespace]
        there = nodes[pod.node]
        for name, value in pod.taken.items():
            there[name] -= value
            if not there[name]:
                del there[name]
        if not there:
            del nodes[pod.node]
        if not nodes:
            del self._others[pod.namespace]


def _without_zeros(taken: Amounts) -> Amounts:
    return {name: value for name, value in taken.items() if value} if 0 in taken.values() else taken


def _name(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("name", ""))


def _key(obj: Object) -> tuple[str, str]:
    metadata = obj.get("metadata") or {}
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _slim(obj: Object) -> Object:
    """What of a node counts here; heartbeats change the rest every few seconds."""
    metadata, status = obj.get("metadata") or {}, obj.get("status") or {}
    return {
        "metadata": {
            k: metadata[k] for k in ("name", "labels", "deletionTimestamp") if k in metadata
        },
        "spec": {
            k: v for k, v in (obj.get("spec") or {}).items() if k in ("taints", "unschedulable")
        },
        "status": {
            "allocatable": status.get("allocatable"),
            "conditions": [
                {"type": "Ready", "status": each.get("status")}
                for each in status.get("conditions") or ()
                if each.get("type") == "Ready"
            ],
        },
    }
