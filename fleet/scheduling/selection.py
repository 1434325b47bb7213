"""Which policy a workload is under: the one it names, else one that selects it, else the default.

A policy that is named and does not exist is an error, never a reason to take another one
(volcano#5189). Next step: `demand`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Cause, Invalid
from fleet.scheduling.demand import workload_of
from policies import PLACEMENT_POLICY, builtin

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.placement_policy import PlacementPolicySpec

Object = dict[str, Any]

POLICY_LABEL: Final = "fleet.dev/policy"
SHARED_NAMESPACE: Final = "fleet-system"
DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class Policy:
    """A PlacementPolicy by its name."""

    namespace: str
    name: str
    spec: PlacementPolicySpec
    unread: str = ""
    """Why nothing can be placed by it: its object cannot be read, `spec` is what is left of it."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The policy a workload is under, and what to warn its user of."""

    policy: Policy
    warnings: tuple[str, ...] = ()


def policy_of(obj: Object, *, unread: str = "") -> Policy:
    """Raises Invalid for an object that is no sound PlacementPolicy."""
    metadata: Object = obj.get("metadata") or {}
    spec = PLACEMENT_POLICY.parse({"metadata": metadata, "spec": obj.get("spec") or {}}).spec
    return Policy(str(metadata.get("namespace", "")), str(metadata.get("name", "")), spec, unread)


def by_name(policies: Iterable[Policy]) -> dict[tuple[str, str], PlacementPolicySpec]:
    """The specs of all policies by namespace and name, that of the default among them."""
    default = builtin_default()
    return {(each.namespace, each.name): each.spec for each in (default, *policies)}


@cache
def builtin_default() -> Policy:
    """The default policy as it is shipped."""
    return policy_of(
        next(each for each in builtin.objects() if each["metadata"]["name"] == DEFAULT)
    )


def select(obj: Object, policies: Iterable[Policy]) -> Selection:
    """The policy of a workload among all policies of the fleet, in whatever order they come.

    A name is looked up in the workload's namespace, then in `fleet-system`. Of several policies
    that select it, the one with the most requirements is taken, then the first by name, with a
    warning. Raises Invalid when the workload names a policy that does not exist, and when it is
    under one that cannot be read.
    """
    found = _selected(obj, policies)
    if found.policy.unread:
        raise _unread(obj, found.policy)
    return found


def _selected(obj: Object, policies: Iterable[Policy]) -> Selection:
    workload = workload_of(obj)
    labels: dict[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    known = {(policy.namespace, policy.name): policy for policy in policies}
    named = labels.get(POLICY_LABEL)
    if named:
        for namespace in (workload.namespace, SHARED_NAMESPACE):
            if (namespace, named) in known:
                return Selection(known[namespace, named])
        raise _missing(obj, named, sorted(known))
    matching = [
        policy
        for (namespace, _), policy in known.items()
        if namespace == workload.namespace
        and policy.spec.workloads is not None
        and policy.spec.workloads.matches(labels)
    ]
    if matching:
        first, *others = sorted(matching, key=_precision)
        return Selection(first, _ambiguous(first, others))
    default = known.get((SHARED_NAMESPACE, DEFAULT))
    return Selection(default or builtin_default())


def _precision(policy: Policy) -> tuple[int, str]:
    selector = policy.spec.workloads
    assert selector is not None
    return -len(selector.match_labels) - len(selector.match_expressions), policy.name


def _ambiguous(first: Policy, others: Sequence[Policy]) -> tuple[str, ...]:
    if not others:
        return ()
    names = ", ".join(sorted(policy.name for policy in others))
    return (
        f"several policies select this workload: {first.name} is applied, {names} "
        f"{'is' if len(others) == 1 else 'are'} not; name one by the label {POLICY_LABEL}",
    )


def _unread(obj: Object, policy: Policy) -> Invalid:
    workload = workload_of(obj)
    labels: dict[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    field = f"metadata.labels[{POLICY_LABEL}]" if labels.get(POLICY_LABEL) else "metadata.labels"
    return Invalid.of(
        group=workload.api_version.rpartition("/")[0],
        kind=workload.kind,
        name=workload.name,
        causes=[Cause("FieldValueInvalid", policy.unread, field)],
    )


def _missing(obj: Object, named: str, known: Sequence[tuple[str, str]]) -> Invalid:
    workload = workload_of(obj)
    places = dict.fromkeys((workload.namespace, SHARED_NAMESPACE))
    there = [f"{name} in {namespace}" for namespace, name in known if namespace in places]
    why = (
        f'no PlacementPolicy is called "{named}", neither in {" nor in ".join(places)}; '
        f"there is {', '.join(there) or 'none'}"
    )
    return Invalid.of(
        group=workload.api_version.rpartition("/")[0],
        kind=workload.kind,
        name=workload.name,
        causes=[Cause("FieldValueNotFound", why, f"metadata.labels[{POLICY_LABEL}]")],
    )
