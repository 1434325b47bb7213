"""FleetQuota objects as plain values: the nodes of the tree, and which namespaces they count.

Amounts have a key, a resource and a kind of accelerator, and are whole numbers of the smallest
unit. A node has what its object says and no more; what follows from that for the others is the
business of `fleet.scheduling.quota`, which is made of these nodes and keeps the accounts.
`policies.quota_relations` keeps unsound trees out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from fleet.errors import BadRequest
from policies.fleet_quota import FleetQuota, smallest

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from policies.fleet_quota import FleetQuotaSpec, Reclaim, Within
    from policies.parts import Budget

Object = dict[str, Any]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a node has of one key. Without a limit only those above it hold; without `lendable` all
    that is guaranteed may be lent."""

    guaranteed: int = 0
    limit: int | None = None
    lendable: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the tree; `parent` is "" for a root. Of `reserve`, a part of what is guaranteed,
    nothing is used but by work whose cluster was lost."""

    name: str
    parent: str = ""
    lines: Mapping[Key, Amounts] = field(default_factory=dict)
    reserve: Mapping[Key, int] = field(default_factory=dict)
    within: Within = "LowerPriority"
    reclaim: Reclaim = "Any"
    min_run_time_s: float = 0.0
    max_reclaim_per_minute: int | None = None
    budget: Budget | None = None


def nodes_of(objects: Iterable[Object], *, strays: bool = False) -> tuple[Node, ...]:
    """The nodes of all FleetQuotas, in any order; parents come before children, else by name.

    An object that cannot be read makes no node, and one that no root is above only with `strays`.
    """
    specs = specs_of(objects)
    order: list[str] = []
    todo = children_of("", specs)[::-1]
    while todo:
        order.append(todo.pop())
        todo += children_of(order[-1], specs)[::-1]
    if strays:
        order += sorted(specs.keys() - {*order})
    return tuple(_node(name, specs[name]) for name in order)


def lines_of(spec: FleetQuotaSpec) -> dict[Key, Amounts]:
    """What an object says, by key, in the order of its lines."""
    return {
        (line.name, line.accelerator): Amounts(
            guaranteed=smallest(line.name, line.guaranteed),
            limit=None if line.limit is None else smallest(line.name, line.limit),
            lendable=None if line.lendable is None else smallest(line.name, line.lendable),
        )
        for line in spec.resources
    }


def specs_of(objects: Iterable[Object]) -> dict[str, FleetQuotaSpec]:
    """By name; one that cannot be read, so of an older form, is left out."""
    found = {}
    for obj in objects:
        try:
            spec = FleetQuota.model_validate({"spec": obj.get("spec") or {}}).spec
            if spec.namespaces is not None:
                spec.namespaces.compiled()
        except (ValidationError, BadRequest):
            continue
        found[str(obj["metadata"]["name"])] = spec
    return found


def children_of(name: str, specs: Mapping[str, FleetQuotaSpec]) -> list[str]:
    """By name; of "" the roots."""
    return sorted(each for each, spec in specs.items() if spec.parent == name)


def _node(name: str, spec: FleetQuotaSpec) -> Node:
    lines, percent = lines_of(spec), spec.failover_reserve
    # Rounded up: the share that was asked for is a floor.
    reserve = {key: -(-line.guaranteed * percent // 100) for key, line in lines.items()}
    return Node(
        name=name,
        parent=spec.parent,
        lines=lines,
        reserve={key: amount for key, amount in reserve.items() if amount},
        within=spec.preemption.within,
        reclaim=spec.preemption.reclaim,
        min_run_time_s=spec.preemption.min_run_time.total_seconds(),
        max_reclaim_per_minute=spec.preemption.max_reclaim_per_minute,
        budget=spec.budget,
    )


@dataclass(frozen=True, slots=True)
class Claims:
    """Which quota counts which namespace. A namespace without one is limited by none."""

    quota: Mapping[str, str]
    contested: Mapping[str, tuple[str, ...]]
    """By namespace, the quotas that claim it besides: its labels changed after they were made."""


def claims_of(
    objects: Iterable[Object], namespaces: Iterable[Object], *, last: Container[str] = ()
) -> Claims:
    """`namespaces` are Namespace objects; of several quotas that claim one, the first by name has
    it, so that everybody who asks is told the same. Those in `last` have what nobody else
    claims."""
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
        found = [name for name in found if name not in last] or found[:1]
        if found:
            quota[metadata["name"]] = found[0]
        if found[1:]:
            contested[metadata["name"]] = tuple(found[1:])
    return Claims(quota, contested)
