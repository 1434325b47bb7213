"""Work that a deletion leaves without its PlacementPolicy, and policies that select the same work.

What runs goes on as it was placed; what waits, and what has to be placed anew, is under whichever
policy selects it then, or waits until the one it names is there again. `policy_warnings` tells
whoever wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.dispatch.record import ENDED
from fleet.scheduling.selection import SHARED_NAMESPACE
from policies import PLACEMENT, PLACEMENT_POLICY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fleet.store.objects import ObjectStore

Object = dict[str, Any]

_LISTED = 5


def named_in(store: ObjectStore, namespace: str) -> frozenset[str]:
    """The policies of a namespace."""
    policies = store.collection(PLACEMENT_POLICY.resource).snapshot()
    return frozenset(entry.name for entry in policies.namespace(namespace).entries())


def ruled_by(store: ObjectStore, namespace: str, names: Collection[str]) -> str:
    """The sentence about work under policies of a namespace that are deleted; "" where there is
    none."""
    found = sorted(_work(store, namespace, names)) if names else []
    if not found:
        return ""
    (name,) = names if len(names) == 1 else ("",)
    called = f"PlacementPolicy {name} has" if name else f"PlacementPolicies of {namespace} have"
    return (
        f"{called} work under {'it' if name else 'them'}: {_listed(found)}; what runs goes on as "
        "it was placed, what waits or is placed anew is under what selects it then, or waits for "
        "the policy it names"
    )


def _work(store: ObjectStore, namespace: str, names: Collection[str]) -> Iterator[str]:
    placements = store.collection(PLACEMENT.resource).snapshot()
    # Those of the shared namespace are for work of all.
    shared = namespace == SHARED_NAMESPACE
    entries = placements.entries() if shared else placements.namespace(namespace).entries()
    for entry in entries:
        placement = entry.parse()
        spec = placement.get("spec") or {}
        policy: Object = spec.get("policy") or {}
        if policy.get("namespace") != namespace or policy.get("name") not in names:
            continue
        if (placement.get("status") or {}).get("phase", "Queued") in ENDED:
            continue
        workload: Object = spec.get("workload") or {}
        called = f"{workload.get('kind', '').lower()}/{workload.get('name', '')}"
        yield f"{called} in {entry.namespace}" if shared else called


def selects_as(store: ObjectStore, policy: Object) -> str:
    """The sentence about another policy that has the same selector as `policy`, and of which one
    is never taken for it; "" where there is none."""
    metadata, selector = policy["metadata"], (policy.get("spec") or {}).get("workloads")
    if selector is None:
        return ""
    kind = PLACEMENT_POLICY.resource
    others = sorted(
        entry.name
        for entry in store.collection(kind).snapshot().namespace(metadata["namespace"]).entries()
        if entry.name != metadata["name"]
        and (entry.parse().get("spec") or {}).get("workloads") == selector
    )
    if not others:
        return ""
    first = min(metadata["name"], *others)
    select = "selects" if len(others) == 1 else "select"
    return (
        f"spec.workloads: PlacementPolicy {_listed(others)} {select} the same workloads: "
        f"{first} is applied to them, the first by name, unless they name another"
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
