"""What a member has free, by shape of node and block: whole pods that fit, never sums.

A `Capacity` is a picture of one member at one time. `rooms` answers for one kind of pod, with how
many fit and how many would if nothing ran. `accounts` takes the picture, `ledger` takes promised
pods off it, `fit` makes units and prices of the rooms. Unknown capacity is no `Capacity` at all; it
is neither zero nor endless.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fleet.scheduling.nodes import ANY_NODE, untolerated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.scheduling.nodes import Node, NodeSelector, Toleration
    from fleet.scheduling.requests import Amounts, Vector


@dataclass(frozen=True, slots=True)
class PodKind:
    """Pods that fit on the same nodes."""

    request: Vector
    tolerations: tuple[Toleration, ...] = ()
    selector: NodeSelector = ANY_NODE


@dataclass(frozen=True, slots=True)
class ShardKey:
    """The pods of one generation of a workload in one member."""

    uid: str
    generation: int
    cluster: str


@dataclass(frozen=True, slots=True)
class Room:
    """How many pods of a kind fit on the nodes of one shape in one block."""

    block: str
    accelerator: str
    instance_type: str
    billing: str
    shape: Vector
    pods: int
    pods_if_empty: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """One member's nodes at `as_of_s`, in seconds of the clock that placement is asked with.

    `seen` counts, by shard, the pods that are or were bound: what the ledger need not deduct.
    """

    nodes: tuple[Node, ...]
    as_of_s: float
    seen: Mapping[tuple[str, int], int] = field(default_factory=dict)
    _rooms: dict[PodKind, tuple[Room, ...]] = field(default_factory=dict, repr=False, compare=False)
    _alike: list[tuple[Node, int, tuple[Node, ...]]] = field(
        default_factory=list, repr=False, compare=False
    )

    def at(self, as_of_s: float) -> Capacity:
        """The same picture, found to be true at another time."""
        return self if as_of_s == self.as_of_s else replace(self, as_of_s=as_of_s)

    def rooms(self, kind: PodKind) -> tuple[Room, ...]:
        """Sorted by block and shape; remembered, since many ask for the same."""
        known = self._rooms.get(kind)
        if known is None:
            known = self._rooms[kind] = tuple(self._count(kind))
        return known

    def _count(self, kind: PodKind) -> Iterable[Room]:
        found: dict[tuple[str, str, str, str, Vector], list[int]] = {}
        judged: dict[tuple[object, ...], bool] = {}
        for node, count, members in self._groups():
            if node.unusable:
                continue
            tolerated = judged.get(node.taints)
            if tolerated is None:
                tolerated = untolerated(node.taints, kind.tolerations) is None
                judged[node.taints] = tolerated
            if not tolerated:
                continue
            if kind.selector:
                count = sum(1 for member in members if kind.selector.matches(member))
            if_empty = fitting(node.allocatable, kind.request) * count
            if not if_empty:
                continue
            key = (
                node.block, node.accelerator, node.instance_type, node.billing,
                _shape(node.allocatable, kind.request),
            )  # fmt: skip
            sums = found.setdefault(key, [0, 0])
            sums[0] += fitting(node.free, kind.request) * count
            sums[1] += if_empty
        return (Room(*key, *sums) for key, sums in sorted(found.items()))

    def _groups(self) -> list[tuple[Node, int, tuple[Node, ...]]]:
        """Nodes that differ in name and labels only, counted as one."""
        if not self._alike and self.nodes:
            groups: dict[tuple[object, ...], list[Node]] = {}
            for node in self.nodes:
                key = (
                    node.block, node.accelerator, node.instance_type, node.billing, node.taints,
                    node.unusable, *node.allocatable.items(), None, *node.free.items(),
                )  # fmt: skip
                groups.setdefault(key, []).append(node)
            self._alike.extend((each[0], len(each), tuple(each)) for each in groups.values())
        return self._alike

    def without(
        self, kind: PodKind, pods: int, *, blocks: Mapping[str, int] | None = None
    ) -> Capacity:
        """The picture with `pods` more pods of a kind in it, first in the blocks meant for them.

        They are packed node by node in order of name. The member may spread them otherwise; the
        hold tells. Pods that fit nowhere take nothing.
        """
        left = pods
        wanted = dict(blocks or {})
        nodes = sorted(self.nodes, key=lambda node: (node.block not in wanted, node.name))
        taken: dict[str, Node] = {}
        for node in nodes:
            if not left:
                break
            if node.unusable or untolerated(node.taints, kind.tolerations) is not None:
                continue
            if kind.selector and not kind.selector.matches(node):
                continue
            count = min(left, fitting(node.free, kind.request))
            if node.block in wanted:
                count = min(count, wanted[node.block])
                wanted[node.block] -= count
            if count:
                taken[node.name] = replace(node, free=_less(node.free, kind.request, count))
                left -= count
        if left and wanted:
            # The blocks meant for them do not hold them all: the rest goes anywhere.
            return self._with(taken).without(kind, left)
        return self._with(taken)

    def _with(self, changed: Mapping[str, Node]) -> Capacity:
        if not changed:
            return self
        nodes = tuple(changed.get(node.name, node) for node in self.nodes)
        return Capacity(nodes, self.as_of_s, self.seen)


def fitting(free: Mapping[str, int], request: Vector) -> int:
    """How many pods of a request fit into what is free."""
    return max(0, min((free.get(name, 0) // need for name, need in request), default=0))


def _less(free: Amounts, request: Vector, count: int) -> Amounts:
    result = dict(free)
    for name, need in request:
        result[name] = result.get(name, 0) - need * count
    return result


def _shape(allocatable: Amounts, request: Vector) -> Vector:
    """The part of a node's shape that a request is measured against."""
    return tuple((name, allocatable.get(name, 0)) for name, _ in request)
