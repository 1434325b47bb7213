"""One node of a member as the scheduler sees it, and which pods it would take at all.

The rules are kube-scheduler's filters NodeUnschedulable, NodeName, TaintToleration, NodeAffinity
and NodeResourcesFit. What depends on other pods – affinity between pods, topology spread, volumes –
is left to the member: a hold there is real, so a wrong guess here costs a retry and no more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.kube.requirements import SelectorError, requirement
from fleet.scheduling.requests import amounts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.kube.requirements import Operator
    from fleet.scheduling.requests import Amounts

Object = dict[str, Any]

ACCELERATOR_LABELS: Final = ("fleet.dev/accelerator", "nvidia.com/gpu.product")
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
BILLING_LABEL: Final = "fleet.dev/billing"
_CAPACITY_TYPE_LABEL: Final = "karpenter.sh/capacity-type"
_CAPACITY_TYPES: Final = {"spot": "Spot", "on-demand": "OnDemand", "reserved": "Reserved"}
_REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})
_OPERATORS: Final[Mapping[str, Operator]] = {
    "In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": "gt", "Lt": "lt",
}  # fmt: skip


class Taint(NamedTuple):
    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "Exists":
                return True
            case "Gt" | "Lt":
                return _compares(taint.value, self.value, above=self.operator == "Gt")
        return self.value == taint.value


@dataclass(frozen=True, slots=True)
class Node:
    """A node. `free` is what no bound pod has asked for; it may be negative.

    `unusable` says why it takes no pods at all, "" where it does.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Amounts
    free: Amounts
    block: str
    accelerator: str
    instance_type: str
    billing: str
    unusable: str


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """`nodeSelector` and required node affinity; equal texts are equal selectors."""

    text: str = ""
    matches: Callable[[Node], bool] = field(default=lambda _: True, compare=False)
    said: str = field(default="", compare=False)
    """For people: `nodeName n1`, `nodeSelector zone=a`."""

    def __bool__(self) -> bool:
        return bool(self.text)


ANY_NODE: Final = NodeSelector()


def taints_of(objects: Any) -> tuple[Taint, ...]:
    """The taints that keep pods away; PreferNoSchedule does not."""
    return tuple(
        sorted(
            Taint(each.get("key", ""), each.get("value") or "", each.get("effect", ""))
            for each in objects or ()
            if each.get("effect") in _REPELLING
        )
    )


def tolerations_of(objects: Any) -> tuple[Toleration, ...]:
    return tuple(
        sorted(
            {
                Toleration(
                    each.get("key") or "",
                    each.get("operator") or "Equal",
                    each.get("value") or "",
                    each.get("effect") or "",
                )
                for each in objects or ()
            }
        )
    )


def untolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that nothing tolerates."""
    for taint in taints:
        if not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None


def node_of(obj: Object, *, block_label: str, used: Mapping[str, int]) -> Node:
    """The node that a Node object describes, `used` taken off."""
    metadata: Object = obj.get("metadata") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    spec: Object = obj.get("spec") or {}
    allocatable = amounts((obj.get("status") or {}).get("allocatable"))
    return Node(
        name=str(metadata.get("name", "")),
        labels=labels,
        taints=taints_of(spec.get("taints")),
        allocatable=allocatable,
        free={name: value - used.get(name, 0) for name, value in allocatable.items()},
        block=labels.get(block_label, "") if block_label else "",
        accelerator=next(filter(None, map(labels.get, ACCELERATOR_LABELS)), ""),
        instance_type=labels.get(INSTANCE_TYPE_LABEL, ""),
        billing=labels.get(BILLING_LABEL)
        or _CAPACITY_TYPES.get(labels.get(_CAPACITY_TYPE_LABEL, ""), ""),
        unusable=_unusable(obj),
    )


def _unusable(obj: Object) -> str:
    if (obj.get("metadata") or {}).get("deletionTimestamp"):
        return "being deleted"
    if (obj.get("spec") or {}).get("unschedulable"):
        return "cordoned"
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            return "" if condition.get("status") == "True" else "not ready"
    return "readiness unknown"


def node_selector_of(pod_spec: Object) -> NodeSelector:
    """Raises SelectorError for a term that no node could be judged by."""
    labels: Mapping[str, str] = pod_spec.get("nodeSelector") or {}
    affinity = ((pod_spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    name = pod_spec.get("nodeName")
    if not labels and affinity is None and not name:
        return ANY_NODE
    tests: list[Callable[[Node], bool]] = []
    said = []
    if name:
        said.append(f"nodeName {name}")
        tests.append(lambda node: node.name == name)
    if labels:
        wanted = tuple(sorted(labels.items()))
        said.append(f"nodeSelector {','.join(f'{k}={v}' for k, v in wanted)}")
        tests.append(lambda node: all(node.labels.get(k) == v for k, v in wanted))
    if affinity is not None:
        said.append("its node affinity")
        terms = [_term(term) for term in affinity.get("nodeSelectorTerms") or ()]
        tests.append(lambda node: any(term(node) for term in terms))
    text = repr((name, sorted(labels.items()), affinity))
    return NodeSelector(
        text, lambda node: all(test(node) for test in tests), said=" and ".join(said)
    )


def _term(term: Object) -> Callable[[Node], bool]:
    """One term of an affinity; an empty one matches nothing."""
    by_label = [_expression(each) for each in term.get("matchExpressions") or ()]
    by_field = [_expression(each) for each in term.get("matchFields") or ()]
    if not by_label and not by_field:
        return lambda _: False
    return lambda node: (
        all(test(node.labels) for test in by_label)
        and all(test({"metadata.name": node.name}) for test in by_field)
    )


def _expression(expression: Object) -> Callable[[Mapping[str, str]], bool]:
    operator = _OPERATORS.get(expression.get("operator", ""))
    if operator is None:
        raise SelectorError(f"{expression.get('operator')!r} is no operator of node affinity")
    return requirement(
        expression.get("key", ""), operator, expression.get("values") or []
    ).predicate()


def _compares(value: str, bound: str, *, above: bool) -> bool:
    try:
        return int(value) > int(bound) if above else int(value) < int(bound)
    except ValueError:
        return False
