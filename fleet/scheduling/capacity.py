"""What a member has free, by shape of node and block: whole pods that fit, never sums.

A `Capacity` is a picture of one member at one time. `rooms` answers for one kind of pod, with how
many fit and how many would if nothing ran. `accounts` takes the picture, `ledger` takes promised
pods off it, `fit` makes units and prices of the rooms. A picture with pods taken off shares the
blocks that were not touched. Unknown capacity is no `Capacity` at all; it is neither zero nor
endless.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fleet.scheduling.mixing import Mixing
from fleet.scheduling.stock import Block, PodKind, Room, Seats, Site, fitting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from fleet.scheduling.nodes import Node

__all__ = ["Capacity", "PodKind", "Room", "ShardKey", "Taken", "fitting"]


@dataclass(frozen=True, slots=True)
class ShardKey:
    """The pods of one generation of a workload in one member."""

    uid: str
    generation: int
    cluster: str


@dataclass(frozen=True, slots=True)
class Taken:
    """Pods of a kind on the nodes of one member: what `take` took, for `give`."""

    kind: PodKind
    seats: tuple[tuple[str, Seats], ...]
    """By block."""

    @property
    def pods(self) -> int:
        return sum(count for _, seats in self.seats for _, count in seats)


class Capacity:
    """One member's nodes at `as_of_s`, in seconds of the clock that placement is asked with.

    `seen` counts, by shard, the pods that are or were bound: what the ledger need not deduct.
    """

    __slots__ = ("_blocks", "_nodes", "_rooms", "as_of_s", "seen")

    def __init__(
        self,
        nodes: tuple[Node, ...],
        as_of_s: float,
        seen: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        self.as_of_s = as_of_s
        self.seen: Mapping[tuple[str, int], int] = {} if seen is None else seen
        self._nodes: tuple[Node, ...] | None = nodes
        self._blocks: dict[str, Block] | None = None
        self._rooms: dict[PodKind, tuple[Room, ...]] = {}

    @classmethod
    def of_blocks(
        cls,
        blocks: Iterable[Block],
        as_of_s: float,
        seen: Mapping[tuple[str, int], int] | None = None,
    ) -> Capacity:
        """A member made of blocks of different names, which may share their sites with others."""
        made = cls((), as_of_s, seen)
        made._nodes = None
        made._blocks = {block.name: block for block in sorted(blocks, key=lambda each: each.name)}
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Capacity):
            return NotImplemented
        mine = (self.as_of_s, self.seen, self.nodes)
        return mine == (other.as_of_s, other.seen, other.nodes)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Capacity of {len(self.nodes)} nodes as of {self.as_of_s}>"

    @property
    def nodes(self) -> tuple[Node, ...]:
        """In the order they were given; by block, where they were given so."""
        if self._nodes is None:
            self._nodes = tuple(
                node if node.free == block.free(position) else _with(node, block, position)
                for block in self.blocks.values()
                for position, node in enumerate(block.site.nodes)
            )
        return self._nodes

    @property
    def blocks(self) -> Mapping[str, Block]:
        """By name, sorted; "" for nodes of which no block is known."""
        if self._blocks is None:
            by_block: dict[str, list[Node]] = {}
            for node in self._nodes or ():
                by_block.setdefault(node.block, []).append(node)
            self._blocks = {name: Site(name, by_block[name]).block() for name in sorted(by_block)}
        return self._blocks

    def at(self, as_of_s: float) -> Capacity:
        """The same picture, found to be true at another time."""
        if as_of_s == self.as_of_s:
            return self
        again = Capacity((), as_of_s, self.seen)
        again._nodes, again._blocks, again._rooms = self._nodes, self._blocks, self._rooms
        return again

    def alike(self, other: Capacity) -> bool:
        """Whether it is known to hold the same, at whatever time; False may be said of equals."""
        mine, theirs = self.blocks, other.blocks
        return mine is theirs or (
            len(mine) == len(theirs)
            and all(
                block is there or (block.site is there.site and block.states == there.states)
                for block, there in zip(mine.values(), theirs.values(), strict=True)
            )
        )

    def rooms(self, kind: PodKind) -> tuple[Room, ...]:
        """Sorted by block and shape; remembered, since many ask for the same."""
        known = self._rooms.get(kind)
        if known is None:
            known = tuple(room for block in self.blocks.values() for room in block.rooms(kind))
            self._rooms[kind] = known
        return known

    def take(
        self, kind: PodKind, pods: int, *, blocks: Mapping[str, int] | None = None
    ) -> tuple[Capacity, Taken]:
        """The picture with `pods` more pods of a kind in it, first in the blocks meant for them.

        Pods that find no room in their blocks go to any; those that fit nowhere take nothing. The
        member may spread them otherwise; the hold tells.
        """
        wanted = dict(blocks or {})
        left = pods
        changed: dict[str, Block] = {}
        seats: dict[str, Seats] = {}
        for name in sorted(wanted):
            if name in self.blocks:
                left -= self._take(name, kind, min(left, wanted[name]), changed, seats)
        for name in self.blocks:
            if left > 0:
                left -= self._take(name, kind, left, changed, seats)
        return self._changed(changed), Taken(kind, tuple(seats.items()))

    def _take(
        self,
        name: str,
        kind: PodKind,
        pods: int,
        changed: dict[str, Block],
        seats: dict[str, Seats],
    ) -> int:
        changed[name], more = changed.get(name, self.blocks[name]).take(kind, pods)
        if more:
            seats[name] = (*seats.get(name, ()), *more)
        return sum(count for _, count in more)

    def take_together(
        self, wanted: Sequence[tuple[PodKind, Mapping[str, int]]]
    ) -> tuple[Capacity, tuple[Taken, ...]]:
        """The picture with pods of several kinds in it, by block.

        One kind after the other, as given; in a block that does not hold them so, dealt out to its
        nodes together, where that is known to be possible.
        """
        capacity, found = self, list[Taken]()
        for kind, blocks in wanted:
            capacity, taken = capacity.take(kind, sum(blocks.values()), blocks=blocks)
            found.append(taken)
        if all(
            {name: sum(n for _, n in seats) for name, seats in taken.seats}
            == {name: pods for name, pods in blocks.items() if pods}
            for taken, (_, blocks) in zip(found, wanted, strict=True)
        ):
            return capacity, tuple(found)
        return self._dealt(wanted)

    def _dealt(
        self, wanted: Sequence[tuple[PodKind, Mapping[str, int]]]
    ) -> tuple[Capacity, tuple[Taken, ...]]:
        kinds = [kind for kind, _ in wanted]
        capacity = self
        seats: list[dict[str, Seats]] = [{} for _ in wanted]
        for name in sorted({name for _, blocks in wanted for name in blocks}):
            counts = tuple(blocks.get(name, 0) for _, blocks in wanted)
            block = capacity.blocks.get(name)
            mixing = Mixing(block, kinds, counts) if block is not None else None
            there = mixing.seats(counts) if mixing is not None and mixing.known else None
            for at, kind in enumerate(kinds):
                if there is not None:
                    seats[at][name] = there[at]
                    capacity = capacity.retake(Taken(kind, ((name, there[at]),)))
                elif counts[at]:
                    capacity, taken = capacity.take(kind, counts[at], blocks={name: counts[at]})
                    for where, more in taken.seats:
                        seats[at][where] = (*seats[at].get(where, ()), *more)
        return capacity, tuple(
            Taken(kind, tuple((name, each) for name, each in by_block.items() if each))
            for kind, by_block in zip(kinds, seats, strict=True)
        )

    def without(
        self, kind: PodKind, pods: int, *, blocks: Mapping[str, int] | None = None
    ) -> Capacity:
        """The picture with `pods` more pods in it. See `take`."""
        return self.take(kind, pods, blocks=blocks)[0]

    def retake(self, taken: Taken) -> Capacity:
        """The picture with pods on the very nodes that they took in an earlier one."""
        return self._seated(taken, 1)

    def give(self, taken: Taken) -> Capacity:
        """The picture without pods that were taken off it before."""
        return self._seated(taken, -1)

    def _seated(self, taken: Taken, sign: int) -> Capacity:
        request, changed = taken.kind.request, {}
        for name, seats in taken.seats:
            block = self.blocks.get(name)
            if block is not None:
                nodes = len(block.site.nodes)
                there = [(at, sign * pods) for at, pods in seats if at < nodes]
                changed[name] = block.seated(request, there)
        return self._changed(changed)

    def on_nodes(self, kind: PodKind, pods: Mapping[str, int]) -> Taken:
        """Pods of a kind by name of their node, for `give` and `retake`."""
        seats = {
            name: tuple(
                (at, pods[node.name])
                for at, node in enumerate(block.site.nodes)
                if pods.get(node.name)
            )
            for name, block in self.blocks.items()
        }
        return Taken(kind, tuple((name, found) for name, found in seats.items() if found))

    def shut(self, names: Collection[str]) -> Capacity:
        """The picture with nothing free on some nodes, which hold as much as ever if empty."""
        changed = {}
        for name, block in self.blocks.items():
            states = list(block.states)
            for at, node in enumerate(block.site.nodes):
                if node.name in names:
                    left = {key: min(0, value) for key, value in block.free(at).items()}
                    states[at] = block.site.state_of(node, left)
            changed[name] = Block(block.site, tuple(states))
        return self._changed(changed)

    def names(self, taken: Taken) -> list[str]:
        """Of the nodes that were taken."""
        return [
            self.blocks[name].site.nodes[at].name
            for name, seats in taken.seats
            if name in self.blocks
            for at, _ in seats
        ]

    def released(self, kind: PodKind, pods: Mapping[str, int]) -> Capacity:
        """As if pods of a kind, by block, were gone, from whichever nodes they are on."""
        return self._changed(
            {
                name: self.blocks[name].released(kind, count)
                for name, count in sorted(pods.items())
                if name in self.blocks
            }
        )

    def _changed(self, changed: Mapping[str, Block]) -> Capacity:
        blocks = self.blocks
        changed = {
            name: block for name, block in changed.items() if block.states != blocks[name].states
        }
        if not changed:
            return self
        made = Capacity((), self.as_of_s, self.seen)
        made._nodes = None
        made._blocks = {name: changed.get(name, block) for name, block in blocks.items()}
        return made


def _with(node: Node, block: Block, position: int) -> Node:
    return replace(node, free=block.free(position))
