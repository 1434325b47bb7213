"""Waiting work, by quota node: equal work stands in one line and is tried once for all of it.

Equal means the same node, priority, shape, declared run time and last moment to start. Within a
node lines go by priority, then by the sequence of their first item. A line that could not be served
is parked with its reason until an event of its tree, of capacity or of time wakes it; each wakes
all lines of the tree (KAI#1217, skypilot#5494), which costs one comparison a line.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from fleet.scheduling.decisions import Why
    from fleet.scheduling.placer import Item
    from fleet.scheduling.quota.book import Ask

Kind = tuple[str, int, "Hashable", float | None, float | None, bool]


class Line:
    __slots__ = (
        "asked",
        "items",
        "kind",
        "node",
        "possible",
        "priority",
        "untold",
        "waiting",
        "why",
    )

    def __init__(self, kind: Kind, asked: Ask) -> None:
        self.kind = kind
        self.node, self.priority = kind[:2]
        self.asked = asked
        self.items: dict[str, Item] = {}
        self.waiting: list[tuple[int, str]] = []
        self.untold: list[str] = []
        """Uids of those that were told nothing yet."""
        self.possible = True
        """Whether its node's limits allow it at all."""
        self.why: Why | None = None
        """Why it is parked; None while it has not been tried."""

    @property
    def first(self) -> Item:
        while self.waiting[0][1] not in self.items:
            heappop(self.waiting)
        return self.items[self.waiting[0][1]]

    def __iter__(self) -> Iterator[Item]:
        return iter(sorted(self.items.values(), key=lambda item: (item.sequence, item.uid)))


class Lines:
    """All that wait, by uid and by node."""

    def __init__(self) -> None:
        self.of: dict[str, Line] = {}
        self.nodes: dict[str, dict[Kind, Line]] = {}

    def add(self, item: Item, asked: Ask) -> Line:
        kind = (
            item.quota, item.priority, item.shape, item.run_time_s, item.latest_s, item.queues,
        )  # fmt: skip
        lines = self.nodes.setdefault(item.quota, {})
        line = lines.get(kind)
        if line is None:
            line = lines[kind] = Line(kind, asked)
        line.items[item.uid] = item
        line.untold.append(item.uid)
        heappush(line.waiting, (item.sequence, item.uid))
        self.of[item.uid] = line
        return line

    def remove(self, uid: str) -> Item:
        line = self.of.pop(uid)
        item = line.items.pop(uid)
        if not line.items:
            lines = self.nodes[line.node]
            del lines[line.kind]
            if not lines:
                del self.nodes[line.node]
        elif len(line.waiting) > 2 * len(line.items) + 8:
            line.waiting = [(each.sequence, each.uid) for each in line.items.values()]
            heapify(line.waiting)
        return item
