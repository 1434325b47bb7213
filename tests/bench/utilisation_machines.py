"""Part of the utilisation bench: clusters of equal nodes, as a Placer that keeps classes apart.

A node has eight accelerators and runs work of one class at a time, serving or training, as a
LendingPolicy with exclusive nodes wants it. Instances of serving are spread over clusters. A gang
takes whole nodes of one cluster, the emptiest, or of two where none has room, so that what is free
is in all of them; a gang smaller than a node takes the fullest node of its class that has room.
Ties go by name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.scheduling.placer import Placed, Unplaced
from fleet.scheduling.quota.tree import Key

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fleet.scheduling.placer import Item

GPU = Key("nvidia.com/gpu", "h200")
NODE = 8
SERVING, TRAINING = "serving", "training"
Taken = tuple[str, tuple[tuple[str, int, int], ...]]
"""Class, and (cluster, node, accelerators)."""


@dataclass(frozen=True, slots=True)
class Wish:
    work: str
    """Class of the work."""
    clusters: tuple[str, ...]
    span: int = 1
    """The most clusters it may be in."""


class Machines:
    def __init__(self, clusters: Mapping[str, int]) -> None:
        """`clusters`: how many nodes each has."""
        self.used = {name: [0] * nodes for name, nodes in sorted(clusters.items())}
        self.work = {name: [""] * nodes for name, nodes in sorted(clusters.items())}
        self.serving = dict.fromkeys(self.used, 0)
        self.empty = {name: len(nodes) for name, nodes in self.used.items()}
        self.taken: dict[str, Taken] = {}

    def place(
        self, item: Item, *, without: Collection[str] = (), quick: bool = False
    ) -> Placed | Unplaced:
        gone = [self.taken[uid] for uid in without if uid in self.taken]
        for each in gone:
            self._change(each, -1)
        try:
            wish = item.demand
            assert isinstance(wish, Wish)
            size = item.requests[GPU]
            if size < NODE:
                found = self._part(wish, size)
            else:
                found = self._whole(wish, -(-size // NODE))
        finally:
            for each in gone:
                self._change(each, 1)
        if found is None:
            most = sum(sorted(len(self.used[name]) for name in wish.clusters)[-wish.span :])
            return Unplaced("no cluster has so many nodes free", ever=size <= most * NODE)
        clusters: Counter[str] = Counter()
        for name, _, amount in found:
            clusters[name] += amount
        return Placed((wish.work, found), {name: {GPU: n} for name, n in clusters.items()})

    def take(self, uid: str, placed: Placed) -> None:
        self.taken[uid] = placed.plan  # type: ignore[assignment]
        self._change(self.taken[uid], 1)

    def give(self, uid: str) -> None:
        taken = self.taken.pop(uid, None)
        if taken is not None:
            self._change(taken, -1)

    def free(
        self, donor: str, *, without: Collection[str] = (), beside: Placed | None = None
    ) -> dict[str, dict[Key, int]]:
        """What serving could have, by cluster: on empty nodes and its own."""
        gone = [self.taken[uid] for uid in without if uid in self.taken]
        for each in gone:
            self._change(each, -1)
        if beside is not None:
            self._change(beside.plan, 1)  # type: ignore[arg-type]
        found = {name: {GPU: self._open(name)} for name in self.used}
        if beside is not None:
            self._change(beside.plan, -1)  # type: ignore[arg-type]
        for each in gone:
            self._change(each, 1)
        return found

    def unseated(self, donor: str, **more: object) -> int:
        """Pods of serving ask for whole nodes, and only such are open to it, or are its own."""
        return 0

    def _open(self, name: str) -> int:
        return sum(
            NODE - max(0, used)
            for used, work in zip(self.used[name], self.work[name], strict=True)
            if used < NODE and work in ("", SERVING)
        )

    def is_unsafe(self) -> bool:
        """Whether the loss of some cluster would leave serving with less than it has."""
        open_to = {name: self._open(name) for name in self.used}
        whole = sum(open_to.values())
        return any(held > whole - open_to[name] for name, held in self.serving.items())

    def _change(self, taken: Taken, sign: int) -> None:
        work, parts = taken
        for name, node, amount in parts:
            before = self.used[name][node]
            after = self.used[name][node] = before + sign * amount
            if before <= 0 < after:
                self.work[name][node] = work
                self.empty[name] -= 1
            elif after <= 0 < before:
                self.work[name][node] = ""
                self.empty[name] += 1
            if work == SERVING:
                self.serving[name] += sign * amount

    def _part(self, wish: Wish, size: int) -> tuple[tuple[str, int, int], ...] | None:
        begun = [
            (used, name, node)
            for name in wish.clusters
            for node, used in enumerate(self.used[name])
            if 0 < used <= NODE - size and self.work[name][node] == wish.work
        ]
        whole = [name for name in wish.clusters if self.empty[name] > 0]
        if wish.work == SERVING:
            clusters = {*whole, *(name for _, name, _ in begun)}
            for name in sorted(clusters, key=lambda each: (self.serving[each], each)):
                here = [each for each in begun if each[1] == name]
                if here:
                    return ((name, max(here)[2], size),)
                return ((name, self._first_empty(name, 1)[0], size),)
            return None
        if begun:
            _, name, node = max(begun, key=lambda each: (each[0], each[1], -each[2]))
            return ((name, node, size),)
        if whole:
            name = min(whole, key=lambda each: (self.empty[each], each))
            return ((name, self._first_empty(name, 1)[0], size),)
        return None

    def _whole(self, wish: Wish, nodes: int) -> tuple[tuple[str, int, int], ...] | None:
        fits = [name for name in wish.clusters if self.empty[name] >= nodes]
        if fits:
            dealt = [(min(fits, key=lambda each: (-self.empty[each], each)), nodes)]
        else:
            order = sorted(wish.clusters, key=lambda each: (-self.empty[each], each))[: wish.span]
            if sum(self.empty[name] for name in order) < nodes:
                return None
            dealt = []
            for name in order:
                part = min(nodes, self.empty[name])
                nodes -= part
                if part:
                    dealt.append((name, part))
        return tuple(
            (name, node, NODE) for name, count in dealt for node in self._first_empty(name, count)
        )

    def _first_empty(self, name: str, count: int) -> list[int]:
        found = []
        for node, used in enumerate(self.used[name]):
            if used <= 0:
                found.append(node)
                if len(found) == count:
                    break
        return found
