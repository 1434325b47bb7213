"""What a workload asks for: its roles, how many pods each has, what a pod needs, what links them.

A demand is a vector per role, never one number: a workload whose pods cannot be counted is an
error, not one that asks for none (karmada#7550). Attributes of a gang are judged once, on the gang
(armada#4625). `workloads` reads the kinds, `selection`
finds the policy, `placement` decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fleet.errors import Cause, Invalid
from fleet.kube.quantity import InvalidQuantity
from fleet.kube.requirements import SelectorError
from fleet.scheduling.capacity import PodKind
from fleet.scheduling.nodes import node_selector_of, tolerations_of
from fleet.scheduling.requests import pod_request, vector
from fleet.scheduling.workloads import kinds, read
from policies.placement import RUN_TIME_ANNOTATION
from policies.scalars import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.scheduling.workloads import Part
    from policies.placement_policy import Network, PlacementPolicySpec, RoleRule

Object = dict[str, Any]

"""On a workload: how long it is expected to run, as a duration."""


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
    least: int | None = None
    """Fewest pods to run with, where fewer than all will do; whole units."""

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
    run_time_s: float | None = None
    """How long it is expected to run; None where nobody said."""
    rigid: str = ""
    """Why it is all or none although its policy would have it run smaller."""

    @property
    def elastic(self) -> bool:
        """Whether fewer pods than it asks for will do."""
        return any(role.least is not None for role in self.roles)

    @property
    def pods(self) -> int:
        """Of all roles."""
        return sum(role.pods for role in self.roles)

    @property
    def slack_s(self) -> float | None:
        """How long it may wait and still be done by its deadline; None where that is not known."""
        deadline = self.policy.objective.deadline
        if deadline is None or self.run_time_s is None:
            return None
        return max(0.0, deadline.total_seconds() - self.run_time_s)

    @property
    def role(self) -> Role:
        """The one role of a workload whose pods are all alike."""
        (role,) = self.roles
        return role


def demand_of(
    obj: Object, policy: PlacementPolicySpec, *, priorities: Mapping[str, int] | None = None
) -> Demand:
    """What a workload of a known kind asks for. `priorities` are the values of priority classes.

    Raises Invalid when that cannot be told or cannot hold: an unknown kind, no pods, a unit that
    does not divide them, a role that the workload does not have, an unknown priority class, pods of
    different priority.
    """
    workload = workload_of(obj)
    causes: list[Cause] = []
    try:
        reading = read(obj)
    except ValueError as error:
        raise _invalid(workload, [Cause("FieldValueInvalid", str(error), "spec")]) from error
    if reading is None:
        raise _invalid(workload, [Cause("FieldValueNotSupported", _cannot(workload), "kind")])
    if reading.whole and policy.mode != "One":
        policy = policy.model_copy(update={"mode": "One"})
    if not reading.parts:
        causes.append(Cause("FieldValueInvalid", "asks for no pods: nothing to place", "spec"))
    rules = _rules(policy, [part.role for part in reading.parts], causes)
    roles = [_role(policy, part, rules.get(part.role), causes) for part in reading.parts]
    asks = any(role is not None and role.least is not None for role in roles)
    if reading.rigid:
        roles = [None if role is None else replace(role, least=None) for role in roles]
    priority, class_name = _priority(reading.parts, priorities, causes)
    if causes:
        raise _invalid(workload, causes)
    return Demand(
        workload=workload,
        roles=tuple(role for role in roles if role is not None),
        policy=policy,
        priority=priority,
        priority_class=class_name,
        indexed=reading.indexed,
        run_time_s=_run_time(obj, policy),
        rigid=reading.rigid if asks else "",
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


def pod_kinds_of(obj: Object) -> dict[str, PodKind]:
    """By role, what each of its pods asks for. Raises Invalid where that cannot be read."""
    workload, causes = workload_of(obj), list[Cause]()
    reading = read(obj)
    if reading is None:
        raise _invalid(workload, [Cause("FieldValueNotSupported", _cannot(workload), "kind")])
    found = {
        part.role: _pod_kind(part.template, part.template_field, causes) for part in reading.parts
    }
    if causes:
        raise _invalid(workload, causes)
    return {role: kind for role, kind in found.items() if kind is not None}


def _pod_kind(template: Object, field: str, causes: list[Cause]) -> PodKind | None:
    pod_spec: Object = template.get("spec") or {}
    try:
        return PodKind(
            request=vector(pod_request(template)),
            tolerations=tolerations_of(pod_spec.get("tolerations")),
            selector=node_selector_of(pod_spec),
        )
    except InvalidQuantity as error:
        where = ".".join(filter(None, (field, "spec.containers")))
        causes.append(Cause("FieldValueInvalid", str(error), where))
    except SelectorError as error:
        where = ".".join(filter(None, (field, "spec.affinity.nodeAffinity")))
        causes.append(Cause("FieldValueInvalid", str(error), where))
    return None


def _rules(
    policy: PlacementPolicySpec, names: Sequence[str], causes: list[Cause]
) -> dict[str, tuple[str, RoleRule]]:
    """The policy's rules by role, each with its field."""
    found = {}
    for index, rule in enumerate(policy.gang.roles):
        where = f"spec.gang.roles[{index}]"
        if rule.name in names:
            found[rule.name] = where, rule
            continue
        theirs = f"its role is {names[0]}" if len(names) == 1 else f"it has {', '.join(names)}"
        why = f"the workload has no role {rule.name}, {theirs}"
        causes.append(Cause("FieldValueNotFound", why, f"{where}.name"))
    return found


def _role(
    policy: PlacementPolicySpec,
    part: Part,
    named: tuple[str, RoleRule] | None,
    causes: list[Cause],
) -> Role | None:
    gang = policy.gang
    where, rule = named or ("", None)
    unit, unit_field = gang.unit, "spec.gang.unit"
    if rule is not None and rule.unit is not None:
        unit, unit_field = rule.unit, f"{where}.unit"
    elif unit == 1:
        unit = part.whole
    if part.pods < 1:
        causes.append(Cause("FieldValueInvalid", "asks for no pods: nothing to place", part.field))
    elif part.pods % unit:
        why = f"{unit} does not divide {part.pods} ranks of role {part.role}"
        causes.append(Cause("FieldValueInvalid", why, unit_field))
    elif unit % part.whole and part.whole % unit:
        why = f"{unit} cuts through the {part.whole} pods of role {part.role} that stay together"
        causes.append(Cause("FieldValueInvalid", why, unit_field))
    kind = _pod_kind(part.template, part.template_field, causes)
    if kind is None:
        return None
    return Role(
        name=part.role,
        pods=part.pods,
        unit=unit,
        kind=kind,
        network=(rule.network if rule is not None else None) or policy.network,
        tiers=frozenset(rule.tiers) if rule is not None else frozenset(),
        least=_least(policy, rule, part, unit, where, causes),
    )


def _least(
    policy: PlacementPolicySpec,
    rule: RoleRule | None,
    part: Part,
    unit: int,
    where: str,
    causes: list[Cause],
) -> int | None:
    """Fewest pods of an elastic role; None where it is all or none."""
    least, field = policy.gang.min, "spec.gang.min"
    if rule is not None and rule.min is not None:
        least, field = rule.min, f"{where}.min"
    if least is None or least >= part.pods:
        return None
    if least % unit:
        why = f"{unit} does not divide the {least} ranks that role {part.role} needs at least"
        causes.append(Cause("FieldValueInvalid", why, field))
    return least


def _priority(
    parts: Sequence[Part], priorities: Mapping[str, int] | None, causes: list[Cause]
) -> tuple[int, str]:
    """One for the whole gang (armada#4625)."""
    found: list[tuple[int, str]] = []
    for part in parts:
        pod_spec: Object = part.template.get("spec") or {}
        name = pod_spec.get("priorityClassName") or ""
        priority = pod_spec.get("priority")
        field = ".".join(filter(None, (part.template_field, "spec.priorityClassName")))
        if priority is None and name and priorities is not None:
            priority = priorities.get(name)
            if priority is None:
                causes.append(_unknown_priority(name, priorities, field))
        found.append((int(priority or 0), name))
        if found[-1] != found[0]:
            why = (
                f"role {part.role} has priority {found[-1][0]}, role {parts[0].role} has "
                f"{found[0][0]}: a gang has one"
            )
            causes.append(Cause("FieldValueInvalid", why, field))
    return found[0] if found else (0, "")


def check_run_time(obj: Object) -> None:
    """Raises Invalid for a workload that says of its run time what is no duration."""
    try:
        _annotated_s(obj)
    except ValueError as error:
        field = f"metadata.annotations[{RUN_TIME_ANNOTATION}]"
        causes = [Cause("FieldValueInvalid", str(error), field)]
        raise _invalid(workload_of(obj), causes) from error


def run_time_of(obj: Object) -> float | None:
    """How long it runs as it says itself, in seconds: what it expects, else when it is ended.

    Raises ValueError for what is no duration, or no number.
    """
    said = _annotated_s(obj)
    reading = read(obj) if said is None else None
    if reading is None or reading.deadline_s is None:
        return said
    return float(reading.deadline_s)


def _annotated_s(obj: Object) -> float | None:
    annotations: Object = (obj.get("metadata") or {}).get("annotations") or {}
    said = annotations.get(RUN_TIME_ANNOTATION)
    return None if said is None else parse_duration(said).total_seconds()


def _run_time(obj: Object, policy: PlacementPolicySpec) -> float | None:
    """What is expected: as the workload says, else as its policy says."""
    check_run_time(obj)
    said = run_time_of(obj)
    if said is not None:
        return said
    told = policy.objective.run_time
    return None if told is None else told.total_seconds()


def _cannot(workload: Workload) -> str:
    return f"{workload.api_version} {workload.kind} cannot be placed; {', '.join(kinds())} can"


def _unknown_priority(name: str, priorities: Mapping[str, int], field: str) -> Cause:
    known = ", ".join(sorted(priorities)) or "none"
    why = f'no PriorityClass is called "{name}" (there is {known})'
    return Cause("FieldValueNotFound", why, field)


def _invalid(workload: Workload, causes: Sequence[Cause]) -> Invalid:
    group = workload.api_version.rpartition("/")[0]
    return Invalid.of(group=group, kind=workload.kind, name=workload.name, causes=causes)
