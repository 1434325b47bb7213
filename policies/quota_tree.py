"""The tree that all FleetQuotas make together, as plain values, and which namespaces it counts.

Amounts have a key, a resource and a kind of accelerator; kind "" counts all kinds of the resource
together, so that work on an h200 is charged under two keys (`charged`). A node says something of
every key of its tree, whether an object names it or it follows from what stands around it, so that
`fleet.scheduling.quota`, which keeps the accounts, need not know of objects.
`policies.quota_relations` keeps unsound trees out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from policies.fleet_quota import FleetQuota, smallest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.fleet_quota import FleetQuotaSpec, Reclaim, Within
    from policies.parts import Budget

Object = dict[str, Any]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Amounts:
    """A line in the smallest unit of its resource; without a limit, only those above it hold."""

    guaranteed: int = 0
    limit: int | None = None
    lendable: int = 0


NOTHING: Final = Amounts(limit=0)
"""Of a kind that the node cannot use."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the tree; `parent` is "" for a root."""

    name: str
    parent: str = ""
    lines: Mapping[Key, Amounts] = field(default_factory=dict)
    failover_reserve_percent: int = 0
    within: Within = "LowerPriority"
    reclaim: Reclaim = "Any"
    min_run_time_s: float = 0.0
    max_reclaim_per_minute: int | None = None
    budget: Budget | None = None


def charged(resource: str, accelerator: str = "") -> tuple[Key, ...]:
    """The keys that an amount of a resource counts under."""
    return ((resource, accelerator), (resource, "")) if accelerator else ((resource, ""),)


def nodes_of(objects: Iterable[Object], *, keys: Iterable[Key] = ()) -> tuple[Node, ...]:
    """The nodes of all FleetQuotas, in any order; parents come before children, else by name.

    `keys` are those that the fleet has besides the ones that quotas name: a node that names kinds
    of a resource may use no others. An object that cannot be read, or that no root is above, makes
    no node.
    """
    specs = specs_of(objects)
    order = _downwards(specs)
    root = {name: _root_of(name, specs) for name in order}
    named: dict[str, set[Key]] = {}
    for name in order:
        own = lines_of(specs[name])
        named.setdefault(root[name], set(keys)).update(own)
        named[root[name]].update((resource, "") for resource, _ in own)
    lines: dict[str, dict[Key, Amounts]] = {}
    for name in reversed(order):  # children first: what is not named follows from theirs
        own, children = lines_of(specs[name]), children_of(name, specs)
        lines[name] = {
            key: own.get(key) or implied(own, key, [lines[child][key] for child in children])
            for key in sorted(named[root[name]])
        }
    return tuple(_node(name, specs[name], lines[name]) for name in order)


def lines_of(spec: FleetQuotaSpec) -> dict[Key, Amounts]:
    """The lines that an object names."""
    found: dict[Key, Amounts] = {}
    for line in spec.resources:
        guaranteed = smallest(line.name, line.guaranteed)
        found[line.name, line.accelerator] = Amounts(
            guaranteed=guaranteed,
            limit=None if line.limit is None else smallest(line.name, line.limit),
            lendable=guaranteed if line.lendable is None else smallest(line.name, line.lendable),
        )
    return found


def implied(own: Mapping[Key, Amounts], key: Key, children: Sequence[Amounts]) -> Amounts:
    """The line of a node for a key that is not among its `own`.

    All kinds together are what it names of single kinds. A kind that it does not name although it
    names others is nothing to it, unless it has a line for all. Else the node passes on what its
    children have.
    """
    resource, accelerator = key
    kinds = [line for (name, _), line in own.items() if name == resource]
    if kinds and not accelerator:
        children = kinds
    elif kinds and (resource, "") not in own:
        return NOTHING
    return Amounts(
        guaranteed=sum(each.guaranteed for each in children),
        lendable=sum(each.lendable for each in children),
    )


def specs_of(objects: Iterable[Object]) -> dict[str, FleetQuotaSpec]:
    """By name; one that cannot be read, so of an older form, is left out."""
    found = {}
    for obj in objects:
        try:
            spec = FleetQuota.model_validate({"spec": obj.get("spec") or {}}).spec
        except ValidationError:
            continue
        found[str(obj["metadata"]["name"])] = spec
    return found


def children_of(name: str, specs: Mapping[str, FleetQuotaSpec]) -> list[str]:
    """By name; of "" the roots."""
    return sorted(each for each, spec in specs.items() if spec.parent == name)


def _downwards(specs: Mapping[str, FleetQuotaSpec]) -> list[str]:
    order: list[str] = []
    todo = children_of("", specs)[::-1]
    while todo:
        order.append(todo.pop())
        todo += children_of(order[-1], specs)[::-1]
    return order


def _root_of(name: str, specs: Mapping[str, FleetQuotaSpec]) -> str:
    while specs[name].parent:
        name = specs[name].parent
    return name


def _node(name: str, spec: FleetQuotaSpec, lines: Mapping[Key, Amounts]) -> Node:
    preemption = spec.preemption
    return Node(
        name=name,
        parent=spec.parent,
        lines=lines,
        failover_reserve_percent=spec.failover_reserve,
        within=preemption.within,
        reclaim=preemption.reclaim,
        min_run_time_s=preemption.min_run_time.total_seconds(),
        max_reclaim_per_minute=preemption.max_reclaim_per_minute,
        budget=spec.budget,
    )


@dataclass(frozen=True, slots=True)
class Claims:
    """Which quota counts which namespace. A namespace without one is limited by none."""

    quota: Mapping[str, str]
    contested: Mapping[str, tuple[str, ...]]
    """By namespace, the quotas that claim it besides: its labels changed after they were made."""


def claims_of(objects: Iterable[Object], namespaces: Iterable[Object]) -> Claims:
    """`namespaces` are Namespace objects; of several quotas that claim one, the first by name has
    it, so that everybody who asks is told the same."""
    claiming = {
        name: spec.namespaces.compiled()
        for name, spec in sorted(specs_of(objects).items())
        if spec.namespaces is not None
    }
    quota: dict[str, str] = {}
    contested: dict[str, tuple[str, ...]] = {}
    for namespace in namespaces:
        metadata = namespace["metadata"]
        labels = metadata.get("labels") or {}
        found = [name for name, selector in claiming.items() if selector.matches(labels)]
        if found:
            quota[metadata["name"]] = found[0]
        if found[1:]:
            contested[metadata["name"]] = tuple(found[1:])
    return Claims(quota, contested)
