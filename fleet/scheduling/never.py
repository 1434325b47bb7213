"""Why no node of a member could ever hold what a role asks, even if nothing else ran there.

What rules nodes out comes first: a selector that matches none, then nodes that take no pods or none
without a toleration, then what is asked for and no node has, at last blocks too small for a unit.
Nothing is decided here: `clusters` asks when the rooms of a capacity have said that there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.scheduling.nodes import untolerated
from fleet.scheduling.requests import PODS, is_accelerator, quantity_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.demand import Role
    from fleet.scheduling.nodes import Node
    from fleet.scheduling.stock import PodKind


def why_never(role: Role, capacity: Capacity) -> str:
    """A sentence of what keeps the role from every node, in its numbers."""
    kind = role.kind
    if not any(block.states for block in capacity.blocks.values()):
        return "has no nodes"
    matching = [node for block in capacity.blocks.values() for node in block.alike(kind.selector)]
    if not matching:
        return f"none of its nodes matches {kind.selector.said}"
    which = f"that match {kind.selector.said} " if kind.selector else ""
    open_nodes = [node for node in matching if not _shut(node, kind)]
    if not open_nodes:
        reasons = dict.fromkeys(_shut(node, kind) for node in matching)
        return f"none of its nodes {which}takes it: {', '.join(reasons)}"
    rooms = capacity.rooms(kind)
    if rooms:
        by_block: dict[str, int] = {}
        for room in rooms:
            by_block[room.block] = by_block.get(room.block, 0) + room.pods_if_empty
        return (
            f"a unit is {role.unit} pods of one block, and none of its blocks could ever hold more "
            f"than {max(by_block.values())}"
        )
    return f"none of its nodes {which}could ever hold a pod of it: {_lack(kind, open_nodes)}"


def _shut(node: Node, kind: PodKind) -> str:
    """Why a node takes no pods, or none of this kind; "" where it does."""
    if node.unusable:
        return node.unusable
    taint = untolerated(node.taints, kind.tolerations)
    if taint is None:
        return ""
    value = f"={taint.value}" if taint.value else ""
    return f"taint {taint.key}{value}:{taint.effect} is not tolerated"


def _lack(kind: PodKind, nodes: Sequence[Node]) -> str:
    """`it asks 1000 nvidia.com/gpu, the best node has 8`."""
    short = []
    for name, need in kind.request:
        best = max(node.allocatable.get(name, 0) for node in nodes)
        if best < need:
            has = _text(name, best) if best else "none"
            short.append(f"it asks {_text(name, need)} {name}, the best node has {has}")
    if short:
        return "; ".join(short)
    return f"it asks {_asked(kind.request)}, and no node has all of that"


def _asked(request: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{_text(n, need)} {n}" for n, need in request if n != PODS)


def _text(name: str, value: int) -> str:
    """Accelerators are counted: `1000`, not `1k`."""
    return str(value) if is_accelerator(name) else quantity_text(name, value)
