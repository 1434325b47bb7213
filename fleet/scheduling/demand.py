"""What a workload asks for: its roles, how many pods each has, what a pod needs, what links them.

A demand is a vector per role, never one number: a workload whose pods cannot be counted is an
error, not one that asks for none (karmada#7550). Attributes of a gang are judged once, on the gang
(armada#4625). `selection` finds the policy, `placement` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Cause, Invalid
from fleet.kube.quantity import InvalidQuantity
from fleet.kube.requirements import SelectorError
from fleet.scheduling.capacity import PodKind
from fleet.scheduling.nodes import node_selector_of, tolerations_of
from fleet.scheduling.requests import pod_request, vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.placement_policy import Network, PlacementPolicySpec

Object = dict[str, Any]

WORKER: Final = "worker"
KINDS: Final = (("batch/v1", "Job"), ("apps/v1", "Deployment"), ("v1", "Pod"))


@dataclass(frozen=True, slots=True)
class Workload:
    """Which object is placed."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """`job/train`."""
        return f"{self.kind.lower()}/{self.name}"


@dataclass(frozen=True, slots=True)
class Role:
    """Pods that are alike. `pods` is a multiple of `unit`; a unit stays in one block."""

    name: str
    pods: int
    unit: int
    kind: PodKind
    network: Network
    tiers: frozenset[str] = frozenset()
    """Names of the tiers it may use; empty means all."""

    @property
    def units(self) -> int:
        return self.pods // self.unit


@dataclass(frozen=True, slots=True)
class Demand:
    """What a workload asks for under its policy."""

    workload: Workload
    roles: tuple[Role, ...]
    policy: PlacementPolicySpec
    priority: int = 0
    priority_class: str = ""
    indexed: bool = False
    """Whether ranks mean something to the pods (Indexed Job)."""

    @property
    def role(self) -> Role:
        """The one role of a workload whose pods are all alike."""
        (role,) = self.roles
        return role


def demand_of(
    obj: Object, policy: PlacementPolicySpec, *, priorities: Mapping[str, int] | None = None
) -> Demand:
    """What a Job, Deployment or Pod asks for. `priorities` are the values of priority classes.

    Raises Invalid when that cannot be told or cannot hold: an unknown kind, no pods, a unit that
    does not divide them, a role that the workload does not have, an unknown priority class.
    """
    workload = workload_of(obj)
    spec: Object = obj.get("spec") or {}
    causes: list[Cause] = []
    match workload.kind:
        case "Job":
            pods, field = _job_pods(spec), "spec.parallelism"
        case "Deployment":
            pods, field = int(spec.get("replicas", 1)), "spec.replicas"
        case "Pod":
            pods, field = 1, "spec"
        case _:
            raise _invalid(workload, [Cause("FieldValueNotSupported", _cannot(workload), "kind")])
    if pods < 1:
        causes.append(Cause("FieldValueInvalid", "asks for no pods: nothing to place", field))
    template = template_of(obj)
    pod_spec: Object = template.get("spec") or {}
    kind = _pod_kind(template, causes)
    role = _role(policy, pods, kind, causes) if kind is not None else None
    class_name = pod_spec.get("priorityClassName") or ""
    priority = pod_spec.get("priority")
    if priority is None and class_name and priorities is not None:
        priority = priorities.get(class_name)
        if priority is None:
            causes.append(_unknown_priority(class_name, priorities))
    if causes or role is None:
        raise _invalid(workload, causes)
    return Demand(
        workload=workload,
        roles=(role,),
        policy=policy,
        priority=int(priority or 0),
        priority_class=class_name,
        indexed=spec.get("completionMode") == "Indexed",
    )


def workload_of(obj: Object) -> Workload:
    metadata: Object = obj.get("metadata") or {}
    return Workload(
        api_version=str(obj.get("apiVersion", "")),
        kind=str(obj.get("kind", "")),
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
    )


def template_of(obj: Object) -> Object:
    """What its pods are made of: an object with metadata and spec. A Pod is its own."""
    if obj.get("kind") == "Pod":
        return obj
    template: Object = (obj.get("spec") or {}).get("template") or {}
    return template


def pod_kind_of(obj: Object) -> PodKind:
    """What each of its pods asks for. Raises Invalid where that cannot be read."""
    causes: list[Cause] = []
    kind = _pod_kind(template_of(obj), causes)
    if kind is None:
        raise _invalid(workload_of(obj), causes)
    return kind


def _job_pods(spec: Object) -> int:
    """Pods that run at a time: an Indexed Job with fewer completions never starts more."""
    parallelism = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    return parallelism if completions is None else min(parallelism, int(completions))


def _pod_kind(template: Object, causes: list[Cause]) -> PodKind | None:
    pod_spec: Object = template.get("spec") or {}
    try:
        return PodKind(
            request=vector(pod_request(template)),
            tolerations=tolerations_of(pod_spec.get("tolerations")),
            selector=node_selector_of(pod_spec),
        )
    except InvalidQuantity as error:
        causes.append(Cause("FieldValueInvalid", str(error), "spec.template.spec.containers"))
    except SelectorError as error:
        where = "spec.template.spec.affinity.nodeAffinity"
        causes.append(Cause("FieldValueInvalid", str(error), where))
    return None


def _role(policy: PlacementPolicySpec, pods: int, kind: PodKind, causes: list[Cause]) -> Role:
    gang = policy.gang
    unit, network, tiers = gang.unit, policy.network, frozenset[str]()
    unit_field = "spec.gang.unit"
    for index, rule in enumerate(gang.roles):
        where = f"spec.gang.roles[{index}]"
        if rule.name != WORKER:
            why = f"the workload has no role {rule.name}, its role is {WORKER}"
            causes.append(Cause("FieldValueNotFound", why, f"{where}.name"))
            continue
        if rule.unit is not None:
            unit, unit_field = rule.unit, f"{where}.unit"
        network = rule.network or network
        tiers = frozenset(rule.tiers)
    if pods > 0 and pods % unit:
        why = f"{unit} does not divide {pods} ranks of role {WORKER}"
        causes.append(Cause("FieldValueInvalid", why, unit_field))
    return Role(WORKER, pods, unit, kind, network, tiers)


def _cannot(workload: Workload) -> str:
    known = ", ".join(f"{version} {kind}" for version, kind in KINDS)
    return f"{workload.api_version} {workload.kind} cannot be placed; {known} can"


def _unknown_priority(name: str, priorities: Mapping[str, int]) -> Cause:
    known = ", ".join(sorted(priorities)) or "none"
    why = f'no PriorityClass is called "{name}" (there is {known})'
    return Cause("FieldValueNotFound", why, "spec.template.spec.priorityClassName")


def _invalid(workload: Workload, causes: Sequence[Cause]) -> Invalid:
    group = workload.api_version.rpartition("/")[0]
    return Invalid.of(group=group, kind=workload.kind, name=workload.name, causes=causes)
