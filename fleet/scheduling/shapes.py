"""A member's capacity as its Cluster object shows it: by shape of node and block.

For people and for the columns; decisions are made over `capacity` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.scheduling.requests import accelerators, is_accelerator, quantity_text

if TYPE_CHECKING:
    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.nodes import Node

Object = dict[str, Any]


def shapes_of(capacity: Capacity) -> list[Object]:
    """`status.capacity` of a Cluster, in a fixed order."""
    groups: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[Node]] = {}
    for node in capacity.nodes:
        groups.setdefault((node.block, node.accelerator, _shape(node)), []).append(node)
    found = []
    for (block, accelerator, shape), nodes in sorted(groups.items()):
        entry: Object = {"shape": dict(shape), "nodes": len(nodes), "free": _free(nodes)}
        if accelerator and any(accelerators(node.allocatable) for node in nodes):
            entry["accelerator"] = accelerator
        if block:
            entry["block"] = block
        found.append(entry)
    return found


def free_accelerators(capacity: Capacity) -> int:
    """Unused accelerators on nodes that take work."""
    return sum(_unused(node) for node in capacity.nodes)


def accelerator_kinds(capacity: Capacity) -> tuple[str, ...]:
    """The kinds of accelerator there are, sorted; `unnamed` where nodes do not say."""
    kinds = {n.accelerator or "unnamed" for n in capacity.nodes if accelerators(n.allocatable)}
    return tuple(sorted(kinds))


def _free(nodes: list[Node]) -> int:
    if any(accelerators(node.allocatable) for node in nodes):
        return sum(map(_unused, nodes))
    return sum(not node.unusable for node in nodes)


def _unused(node: Node) -> int:
    if node.unusable:
        return 0
    return sum(max(0, free) for name, free in node.free.items() if is_accelerator(name))


def _shape(node: Node) -> tuple[tuple[str, str], ...]:
    """Cores, memory and accelerators: what tells nodes apart."""
    told = (
        (name, quantity_text(name, value))
        for name, value in node.allocatable.items()
        if value and (name in ("cpu", "memory") or is_accelerator(name))
    )
    return tuple(sorted(told))
