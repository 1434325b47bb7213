"""What was admitted and has not ended: since when, until when, and what an eviction would lose."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.scheduling.placer import Item, Placed
    from fleet.scheduling.quota.book import Ask

_LATE: Final = 1 / 10
"""How much later than expected a checkpoint may be known, as a part of the interval."""


@dataclass(slots=True)
class Run:
    item: Item
    placed: Placed
    asked: Ask
    weight: int
    """Size, as a part of its tree in the key that counts most; without a tree, in accelerators or
    pods."""
    started_s: float
    evictions: int = 0
    saved_s: float | None = None
    """Time of the newest checkpoint that is complete."""
    leaving_for: str = ""
    """Uid of the preemptor, once it was told to go."""

    whole: Item = field(init=False)
    """As it was submitted, whatever part of it was admitted or is left."""

    def __post_init__(self) -> None:
        self.whole = self.item

    @property
    def ends_s(self) -> float | None:
        run_time_s = self.item.run_time_s
        return None if run_time_s is None else self.started_s + run_time_s

    def lost_s(self, now: float) -> float:
        """How much time an eviction loses: what it worked since it saved, and what it takes until
        it is where it was."""
        since, most = self.started_s, self.item.saves_every_s
        if self.saved_s is not None:
            since = max(self.saved_s, since)
        elif most is not None:
            since = max(now - most, since)
        return max(0.0, now - since) + self.item.restart_s

    @property
    def saves_s(self) -> float | None:
        """By when its next checkpoint is known if it saves as its policy says; None where nobody
        says when the last one was."""
        every_s = self.item.saves_every_s
        if self.saved_s is None or every_s is None:
            return None
        return max(self.saved_s, self.started_s) + every_s * (1 + _LATE)

    def loses_s(self, at: float, now: float) -> float:
        """What an eviction then loses, if it saves until then as its policy says."""
        saves_s, every_s = self.saves_s, self.item.saves_every_s
        if saves_s is None or every_s is None or not now < saves_s <= at:
            return self.lost_s(at)
        return (at - saves_s) % every_s + every_s * _LATE + self.item.restart_s


@dataclass(slots=True)
class Runs:
    """All that run, by uid; those of a quota node together, those of a tree by when they end."""

    by_uid: dict[str, Run] = field(default_factory=dict)
    nodes: dict[str, dict[str, Run]] = field(default_factory=dict)
    _ends: dict[str, list[tuple[float, str]]] = field(default_factory=dict)

    def add(self, run: Run, root: str) -> None:
        uid = run.item.uid
        self.by_uid[uid] = run
        self.nodes.setdefault(run.item.quota, {})[uid] = run
        self._mark(run, root)

    def remove(self, uid: str, root: str) -> Run:
        run = self.by_uid.pop(uid)
        del self.nodes[run.item.quota][uid]
        self._unmark(run, root)
        return run

    def _mark(self, run: Run, root: str) -> None:
        if (ends_s := run.ends_s) is not None:
            insort(self._ends.setdefault(root, []), (ends_s, run.item.uid))

    def _unmark(self, run: Run, root: str) -> None:
        if (ends_s := run.ends_s) is not None:
            ends = self._ends[root]
            del ends[bisect_left(ends, (ends_s, run.item.uid))]

    def change(self, run: Run, item: Item, root: str) -> None:
        """Have a run be of the priority and for the time that `item` says, and lose as much."""
        self._unmark(run, root)
        for name in ("item", "whole"):
            changed = replace(
                getattr(run, name),
                priority=item.priority,
                run_time_s=item.run_time_s,
                saves_every_s=item.saves_every_s,
                restart_s=item.restart_s,
            )
            setattr(run, name, changed)
        self._mark(run, root)

    def ends(self, root: str) -> list[tuple[float, str]]:
        return self._ends.get(root, [])

    def all_ends(self) -> Iterator[tuple[float, str]]:
        """Of all trees, in order."""
        yield from sorted(end for ends in self._ends.values() for end in ends)
