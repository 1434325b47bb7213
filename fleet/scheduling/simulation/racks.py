"""A Placer for one cluster of equal nodes in racks: inside one rack, if possible, or balanced.

Pods are packed node by node; what a node has left counts by itself, so a pod is never split.
`Required` takes the fullest rack that holds the gang whole, `Preferred` the same and else the
fewest racks, `Balanced` the fewest racks with slices dealt out evenly. Ties go by name of rack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.scheduling.placer import Placed, Unplaced
from fleet.scheduling.quota.tree import Key

if TYPE_CHECKING:
    from collections.abc import Collection

    from fleet.scheduling.placer import Item

_CPU = Key("cpu")


@dataclass(frozen=True, slots=True)
class Pods:
    """What a gang asks of the racks."""

    count: int
    cpu_m: int
    topology: str
    """Required, Preferred or Balanced."""
    slice_size: int = 1
    """Pods that stay in one rack."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Pods by node."""

    cpu_m: int
    nodes: tuple[tuple[int, int], ...]


class Racks:
    def __init__(self, *, racks: int, nodes: int, cpu_m: int) -> None:
        """`nodes` in each rack, each with `cpu_m`."""
        self.cpu_m = cpu_m
        self.racks = [range(rack * nodes, (rack + 1) * nodes) for rack in range(racks)]
        self.free = [cpu_m] * (racks * nodes)
        self._room: list[dict[int, int]] = [{} for _ in self.racks]
        """Pods of a size that a rack still holds; counted once and kept until it changes."""
        self._taken: dict[str, Taken] = {}

    def place(self, item: Item, *, without: Collection[str] = ()) -> Placed | Unplaced:
        pods = item.demand
        assert isinstance(pods, Pods)
        gone = [self._taken[uid] for uid in without if uid in self._taken]
        for taken in gone:
            self._change(taken, 1)
        try:
            dealt = self._deal(pods)
            if dealt is None:
                racks = 1 if pods.topology == "Required" else len(self.racks)
                most = self.cpu_m // pods.cpu_m * len(self.racks[0]) // pods.slice_size
                ever = most * racks * pods.slice_size >= pods.count
                return Unplaced(f"no {pods.topology.lower()} racks for {pods.count} pods", ever)
            nodes = tuple(
                each for rack, count in dealt for each in self._pack(rack, count, pods.cpu_m)
            )
        finally:
            for taken in gone:
                self._change(taken, -1)
        amounts = {_CPU: pods.count * pods.cpu_m}
        return Placed(Taken(pods.cpu_m, nodes), {"cluster": amounts})

    def take(self, uid: str, placed: Placed) -> None:
        assert isinstance(placed.plan, Taken)
        self._taken[uid] = placed.plan
        self._change(placed.plan, -1)

    def give(self, uid: str) -> None:
        taken = self._taken.pop(uid, None)
        if taken is not None:
            self._change(taken, 1)

    def _change(self, taken: Taken, sign: int) -> None:
        width = len(self.racks[0])
        for node, pods in taken.nodes:
            before = self.free[node]
            after = self.free[node] = before + sign * pods * taken.cpu_m
            room = self._room[node // width]
            for cpu_m in room:
                room[cpu_m] += max(0, after) // cpu_m - max(0, before) // cpu_m

    def _holds(self, rack: int, cpu_m: int) -> int:
        room = self._room[rack]
        if cpu_m not in room:
            room[cpu_m] = sum(max(0, self.free[node]) // cpu_m for node in self.racks[rack])
        return room[cpu_m]

    def _deal(self, pods: Pods) -> list[tuple[int, int]] | None:
        """(rack, pods in it), or None."""
        holds = [(self._holds(rack, pods.cpu_m), rack) for rack in range(len(self.racks))]
        whole = [each for each in holds if each[0] >= pods.count]
        if whole:
            return [(min(whole)[1], pods.count)]
        if pods.topology == "Required":
            return None
        holds = [(count // pods.slice_size, rack) for count, rack in holds]
        holds.sort(key=lambda each: (-each[0], each[1]))
        slices = -(-pods.count // pods.slice_size)
        for fewest in range(2, len(holds) + 1):
            if sum(count for count, _ in holds[:fewest]) >= slices:
                return self._spread(holds[:fewest], pods, slices)
        return None

    @staticmethod
    def _spread(holds: list[tuple[int, int]], pods: Pods, slices: int) -> list[tuple[int, int]]:
        """Evenly where that is asked for, else the roomiest first."""
        dealt = dict.fromkeys((rack for _, rack in holds), 0)
        room = {rack: count for count, rack in holds}
        for _ in range(slices):
            open_racks = [rack for rack in dealt if dealt[rack] < room[rack]]
            if pods.topology == "Balanced":
                rack = min(open_racks, key=lambda each: (dealt[each], each))
            else:
                rack = open_racks[0]
            dealt[rack] += 1
        left, found = pods.count, []
        for rack, count in dealt.items():
            taken = min(left, count * pods.slice_size)
            left -= taken
            if taken:
                found.append((rack, taken))
        return found

    def _pack(self, rack: int, count: int, cpu_m: int) -> list[tuple[int, int]]:
        """The fullest nodes first, so that whole nodes stay free."""
        fits = [(self.free[n], n) for n in self.racks[rack] if self.free[n] >= cpu_m]
        fits.sort()
        found: list[tuple[int, int]] = []
        for free, node in fits:
            pods = min(count, free // cpu_m)
            found.append((node, pods))
            count -= pods
            if not count:
                break
        return found
