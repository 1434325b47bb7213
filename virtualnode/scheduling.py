"""Which node a pod goes to: filter and score, pure.

Filters and their words are those of kube-scheduler's default plugins, in their order; of the nodes
that pass, the one with the largest share free wins, then the first by name. What is not known here
(required pod affinity, hard topology spread, resource claims) makes a pod unschedulable with that
reason, since ignoring it would place the pod wrongly. There is no preemption.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fleet.kube.amounts import add, of_containers
from fleet.kube.quantity import Quantity
from virtualnode import neighbours
from virtualnode.neighbours import Neighbour

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Object = dict[str, Any]
Amounts = dict[str, int]  # billionths, by resource

PODS: Final = "pods"
_ONE: Final = 10**9
_UNSCHEDULABLE_TAINT: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_UNRESOLVABLE: Final = frozenset({
    "node(s) were unschedulable",
    "node(s) had untolerated taint(s)",
    "node(s) didn't match Pod's node affinity/selector",
})  # fmt: skip
"""Reasons that no eviction would mend."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node and what is taken of it: by pods bound to it that have not ended."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    used: Mapping[str, int] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    unschedulable: bool = False
    host_ports: frozenset[tuple[str, str, int]] = frozenset()
    lowest_priority: int | None = None
    pods: tuple[Neighbour, ...] = ()

    def free(self, resource: str) -> int:
        return self.allocatable.get(resource, 0) - self.used.get(resource, 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """The node, or "" and why there is none."""

    node: str
    message: str = ""


# -- what a pod needs


def demand(pod: Object) -> Amounts:
    """What a pod takes of its node (component-helpers `resource.PodRequests`), itself included."""
    spec = pod["spec"]
    total = of_containers(spec, _requests)
    total.update(_amounts((spec.get("resources") or {}).get("requests")))
    add(total, _amounts(spec.get("overhead")))
    total[PODS] = _ONE
    return total


def is_active(pod: Object) -> bool:
    """Whether a pod takes room on its node."""
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def host_ports(pod: Object) -> frozenset[tuple[str, str, int]]:
    """(protocol, address, port) that a pod wants of its node itself."""
    return frozenset(
        (port.get("protocol", "TCP"), port.get("hostIP") or "0.0.0.0", port["hostPort"])
        for container in pod["spec"].get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def view(node: Object, pods: Iterable[Object]) -> NodeView:
    """A node as the scheduler sees it; `pods` are those bound to it."""
    used: Amounts = {}
    ports: frozenset[tuple[str, str, int]] = frozenset()
    priorities = []
    there = []
    for pod in pods:
        if is_active(pod):
            there.append(Neighbour.of(pod))
            add(used, demand(pod))
            ports |= host_ports(pod)
            priorities.append(int(pod["spec"].get("priority") or 0))
    spec = node.get("spec") or {}
    return NodeView(
        name=node["metadata"]["name"],
        labels=node["metadata"].get("labels") or {},
        allocatable=_amounts((node.get("status") or {}).get("allocatable")),
        used=used,
        taints=spec.get("taints") or (),
        unschedulable=bool(spec.get("unschedulable")),
        host_ports=ports,
        lowest_priority=min(priorities, default=None),
        pods=tuple(there),
    )


def _requests(container: Object) -> Amounts:
    return _amounts((container.get("resources") or {}).get("requests"))


def _amounts(resources: Mapping[str, Any] | None) -> Amounts:
    return {name: Quantity.parse(str(text)).nano for name, text in (resources or {}).items()}


# -- the decision


def choose(pod: Object, nodes: Sequence[NodeView]) -> Choice:
    """The node for `pod`, or the message of its PodScheduled condition."""
    unknown = unsupported(pod)
    if unknown:
        return Choice("", f"0/{len(nodes)} nodes are available: {unknown}.")
    if not nodes:
        return Choice("", "no nodes available to schedule pods")
    needed = demand(pod)
    fitting: list[NodeView] = []
    reasons: dict[str, list[str]] = {}
    asking = Neighbour.of(pod)
    beside = [(node.labels, node.pods) for node in nodes if _matters(asking, node)]
    for node in nodes:
        against = why_not(pod, needed, node)
        if not against and (apart := neighbours.why_not(asking, node.labels, beside)):
            against = [apart]
        if against:
            reasons[node.name] = against
        else:
            fitting.append(node)
    if not fitting:
        return Choice("", _explain(pod, needed, nodes, reasons))
    best = min(fitting, key=lambda node: (*_score(pod, needed, node), node.name))
    return Choice(best.name)


def _matters(pod: Neighbour, node: NodeView) -> bool:
    """Whether pods of a node could keep this one away, or it them."""
    return bool(node.pods) and (bool(pod.terms) or any(each.terms for each in node.pods))


def why_not(pod: Object, needed: Amounts, node: NodeView) -> list[str]:
    """What speaks against a node: the reasons of the first filter that it does not pass."""
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or ()
    if node.unschedulable and not _tolerated(_UNSCHEDULABLE_TAINT, tolerations):
        return ["node(s) were unschedulable"]
    for taint in node.taints:
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not _tolerated(
            taint, tolerations
        ):
            return ["node(s) had untolerated taint(s)"]
    if not _selected(spec, node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    if _ports_clash(host_ports(pod), node.host_ports):
        return ["node(s) didn't have free ports for the requested pod ports"]
    against = []
    for name, amount in needed.items():
        if amount > node.free(name) and (amount > 0 or name == PODS):
            against.append("Too many pods" if name == PODS else f"Insufficient {name}")
    return against


def unsupported(pod: Object) -> str:
    """What a pod asks of a scheduler that this one does not know; "" when nothing."""
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    if (affinity.get("podAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
        return "this cluster's scheduler does not know required podAffinity; remove it"
    if unknown := neighbours.unsupported(pod):
        return f"this cluster's scheduler does not know {unknown}; remove it"
    for spread in spec.get("topologySpreadConstraints") or ():
        if spread.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule":
            return (
                "this cluster's scheduler does not know topologySpreadConstraints with "
                "DoNotSchedule; use ScheduleAnyway"
            )
    if spec.get("resourceClaims"):
        return "this cluster has no devices to claim (resourceClaims)"
    return ""


def _explain(
    pod: Object, needed: Amounts, nodes: Sequence[NodeView], reasons: Mapping[str, list[str]]
) -> str:
    """kube-scheduler's FitError, its preemption part included."""
    message = f"0/{len(nodes)} nodes are available: {_histogram(reasons.values())}."
    if pod["spec"].get("preemptionPolicy") == "Never":
        return f"{message} preemption: not eligible due to preemptionPolicy=Never."
    priority = int(pod["spec"].get("priority") or 0)
    verdicts = []
    for node in nodes:
        against = reasons[node.name]
        hopeless = not _UNRESOLVABLE.isdisjoint(against) or any(
            amount > node.allocatable.get(name, 0) for name, amount in needed.items()
        )
        if hopeless:
            verdicts.append("Preemption is not helpful for scheduling")
        elif node.lowest_priority is None or node.lowest_priority >= priority:
            verdicts.append("No preemption victims found for incoming pod")
        else:
            verdicts.append("This cluster's scheduler does not preempt")
    told = _histogram([verdict] for verdict in verdicts)
    return (
        f"{message} no new claims to deallocate, preemption: "
        f"0/{len(nodes)} nodes are available: {told}."
    )


def _histogram(reasons: Iterable[Iterable[str]]) -> str:
    counts = Counter(reason for each in reasons for reason in each)
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))


# -- filters


def _tolerated(taint: Mapping[str, str], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a toleration matches (api/core/v1 `Toleration.ToleratesTaint`)."""
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
            continue
        if toleration.get("key") and toleration["key"] != taint.get("key"):
            continue
        if (toleration.get("operator") or "Equal") == "Exists":
            return True
        if toleration.get("key") and (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def _selected(spec: Object, node: NodeView) -> bool:
    for key, value in (spec.get("nodeSelector") or {}).items():
        if node.labels.get(key) != value:
            return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not required:
        return True
    return any(_term_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def _term_matches(term: Object, node: NodeView) -> bool:
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False  # an empty term matches nothing
    return all(_matches(each, node.labels) for each in expressions) and all(
        _matches(each, {"metadata.name": node.name}) for each in fields
    )


def _matches(requirement: Object, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement["key"])
    values: Sequence[str] = requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            try:
                number, bound = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            return number > bound if operator == "Gt" else number < bound
    return False


def _ports_clash(
    wanted: frozenset[tuple[str, str, int]], taken: frozenset[tuple[str, str, int]]
) -> bool:
    anywhere = "0.0.0.0"
    return any(
        protocol == other and port == number and (address == there or anywhere in (address, there))
        for protocol, address, port in wanted
        for other, there, number in taken
    )


# -- score


def _score(pod: Object, needed: Amounts, node: NodeView) -> tuple[int, int, int]:
    """Smaller is better: soft taints not tolerated, soft affinity missed, share taken after."""
    spec = pod["spec"]
    tolerations = spec.get("tolerations") or ()
    soft = sum(
        taint.get("effect") == "PreferNoSchedule" and not _tolerated(taint, tolerations)
        for taint in node.taints
    )
    preferred = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "preferredDuringSchedulingIgnoredDuringExecution"
    )
    liked = sum(
        int(each.get("weight", 0))
        for each in preferred or ()
        if _term_matches(each.get("preference") or {}, node)
    )
    taken = 0
    for name in ("cpu", "memory"):
        whole = node.allocatable.get(name, 0)
        if whole:
            taken += 1000 * (node.used.get(name, 0) + needed.get(name, 0)) // whole
    return soft, -liked, taken
