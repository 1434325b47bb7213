"""Borrower and donor kept apart on the nodes and networks of a member.

A lending class is all work that may share nodes: that of one quota node, unless its policy says
`Shared`. On nodes, three things say so in the member's own language. A required anti-affinity keeps
pods from nodes where labelled pods of another class run, in either direction, since Kubernetes
holds it against whoever comes later. A requirement on host names keeps them from nodes that are
known to run work without the label. And a toleration lets them onto nodes that were set aside for
their class by a taint.

The NetworkPolicy that goes with the work lets its pods reach each other and DNS, and nothing else,
in or out. It holds on the pod network alone: the parameter plane of a second interface, or of
`hostNetwork`, is its fabric's to separate. Next step: `fleet.dispatch` puts both into a shard.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from fleet.view.naming import WORKLOAD_UID_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

Object = dict[str, Any]

CLASS_LABEL: Final = "fleet.dev/lending-class"
LENT_TAINT: Final = "fleet.dev/lent-to"
HOST_NAME: Final = "kubernetes.io/hostname"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_OVER: Final = frozenset({"Succeeded", "Failed"})
_DNS_PORTS: Final = ({"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53})
_NODE_LOCAL_DNS: Final = "169.254.20.10/32"


def class_label(pod: Object) -> str:
    """The class that a pod carries; empty for work that was never told any."""
    return str(((pod.get("metadata") or {}).get("labels") or {}).get(CLASS_LABEL, ""))


def classes_by_node(
    pods: Iterable[Object],
    *,
    counts: Callable[[Object], bool] = lambda pod: True,
    class_of: Callable[[Object], str] = class_label,
) -> dict[str, frozenset[str]]:
    """Which classes use which node of a member, by name.

    `counts` says which pods take anything that is lent: what runs on every node, as agents do, is
    no work of a class. Pods that are over, or on no node, are left out.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and (pod.get("status") or {}).get("phase") not in _OVER and counts(pod):
            found[str(node)].add(class_of(pod))
    return {name: frozenset(classes) for name, classes in sorted(found.items())}


def alone(template: Object, *, work: str, others: Collection[str] = ()) -> Object:
    """A pod template whose pods share nodes with their class alone; the one given is not changed.

    `work` is the class. `others` are host names of nodes in use by others; those whose pods carry a
    class need not be among them. Saying the same twice changes nothing.
    """
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    affinity: Object = spec.get("affinity") or {}
    spec = {
        **spec,
        "affinity": {
            **affinity,
            "podAntiAffinity": _apart(affinity.get("podAntiAffinity") or {}, work),
        },
        "tolerations": _with(
            spec.get("tolerations") or (),
            {"key": LENT_TAINT, "operator": "Equal", "value": work, "effect": "NoSchedule"},
        ),
    }
    if others:
        spec["affinity"]["nodeAffinity"] = _not_on(affinity.get("nodeAffinity") or {}, others)
    labels = {**(metadata.get("labels") or {}), CLASS_LABEL: work}
    return {**template, "metadata": {**metadata, "labels": labels}, "spec": spec}


def network_policy(
    *,
    namespace: str,
    workload: str,
    uid: str,
    work: str,
    elsewhere: Collection[str] = (),
) -> Object:
    """The NetworkPolicy of one workload in one member.

    `elsewhere` are the addresses (CIDR) of its pods in other members, which no pod selector sees.
    """
    own = {"podSelector": {"matchLabels": {WORKLOAD_UID_LABEL: uid}}}
    peers = [own, *({"ipBlock": {"cidr": cidr}} for cidr in sorted(set(elsewhere)))]
    system = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    dns = [system, {"ipBlock": {"cidr": _NODE_LOCAL_DNS}}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": f"{workload[:240]}-lent",
            "namespace": namespace,
            "labels": {WORKLOAD_UID_LABEL: uid, CLASS_LABEL: work},
        },
        "spec": {
            "podSelector": own["podSelector"],
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": peers}],
            "egress": [{"to": peers}, {"to": dns, "ports": [dict(port) for port in _DNS_PORTS]}],
        },
    }


def _apart(pod_affinity: Object, work: str) -> Object:
    term: Object = {
        "topologyKey": HOST_NAME,
        "namespaceSelector": {},
        "labelSelector": {
            "matchExpressions": [
                {"key": CLASS_LABEL, "operator": "Exists"},
                {"key": CLASS_LABEL, "operator": "NotIn", "values": [work]},
            ]
        },
    }
    return {**pod_affinity, _REQUIRED: _with(pod_affinity.get(_REQUIRED) or (), term)}


def _not_on(node_affinity: Object, others: Collection[str]) -> Object:
    """Terms are alternatives, so the requirement goes into each; an empty one matches nothing."""
    wanted = {"key": HOST_NAME, "operator": "NotIn", "values": sorted(set(others))}
    required: Object | None = node_affinity.get(_REQUIRED)
    terms: list[Object] = [{"matchExpressions": [wanted]}]
    if required is not None:
        terms = [
            {**term, "matchExpressions": _with(term.get("matchExpressions") or (), wanted)}
            if term.get("matchExpressions") or term.get("matchFields")
            else term
            for term in required.get("nodeSelectorTerms") or ()
        ]
    return {**node_affinity, _REQUIRED: {**(required or {}), "nodeSelectorTerms": terms}}


def _with(items: Iterable[Object], wanted: Object) -> list[Object]:
    found = list(items)
    return found if wanted in found else [*found, wanted]
