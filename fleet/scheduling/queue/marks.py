"""What is held for whom: the earmarks of one quota tree.

An earmark collects what becomes free, in its order, until the gang it is for can start; nobody
else can be charged for it (kueue#13662), and it counts as use of its node (volcano#4947). When
each of the first few will start is foreseen by the declared ends of what runs, so work that ends
before may run on what is held meanwhile. A preemptor's earmark gives way to nobody.

Holding is written into the book as an earmark. Next step: `fleet.scheduling.engine` starts a gang
whose earmark is full.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from itertools import takewhile
from typing import TYPE_CHECKING

from fleet.scheduling.quota.book import add, apply, blocked, room

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from fleet.scheduling.placer import Item, Placed
    from fleet.scheduling.quota.book import Ask, Book

InNode = tuple[bool, int, int, str]
"""Not yet aged, priority (highest first), sequence (less than any for what is late), uid."""
Order = tuple[int, bool, int, int, str]
"""The same, after the level of entitlement."""


class Mark:
    __slots__ = (
        "again_s", "asked", "collects", "expires_s", "foreseen", "full", "held", "item", "order",
        "placed", "saved_s", "saves", "since_s", "spared", "starts_s", "victims", "weighed",
    )  # fmt: skip

    def __init__(self, item: Item, asked: Ask, order: Order, since_s: float) -> None:
        self.item = item
        self.asked = asked
        self.order = order
        self.since_s = since_s
        self.held: list[int] = [0] * len(asked)
        self.full = not asked
        self.collects = True
        """Whether quota is held for it: not while it waits for members with no end in sight."""
        self.starts_s: float | None = None
        """When it would start by itself, as far as it is known."""
        self.foreseen = False
        """Whether that was looked for: only the first few are."""
        self.spared: tuple[str, float] | None = None
        """Who may be ended for it, though not yet, and from when."""
        self.saves: frozenset[str] = frozenset()
        """Uids of those that end for it once they have saved."""
        self.saved_s: float | None = None
        """By when they should have, as it was first told: it waits for nobody's any longer."""
        self.weighed = False
        """Whether somebody may be ended for it and it is not worth it, or makes no room."""
        self.victims: set[str] = set()
        """Those that were told to go for it and have not ended."""
        self.placed: Placed | None = None
        """Its place, which is taken already: a preemptor's, or where it is foreseen to start."""
        self.expires_s: float | None = None
        self.again_s: float | None = None
        """When it is looked at again, should it not have started as foreseen."""

    @property
    def preempts(self) -> bool:
        return self.expires_s is not None

    @property
    def holding(self) -> Ask:
        return tuple(
            (path, held) for (path, _), held in zip(self.asked, self.held, strict=True) if held
        )


class Marks:
    """Of one tree."""

    def __init__(self, outlook: int) -> None:
        self.by_uid: dict[str, Mark] = {}
        self._by_node: dict[str, dict[str, Mark]] = {}
        self._outlook = outlook
        self._order: list[Mark] | None = None
        self._stale = True

    def ordered(self) -> list[Mark]:
        """Preemptors first, then by level, priority and age."""
        if self._order is None:
            self._order = sorted(
                self.by_uid.values(), key=lambda mark: (not mark.preempts, mark.order)
            )
        return self._order

    def of_node(self, node: str) -> list[Mark]:
        return list(self._by_node.get(node, {}).values())

    def borrowers(self) -> list[Mark]:
        return [mark for mark in self.ordered() if mark.order[0] > 0]

    def holders(self) -> list[Mark]:
        return [mark for mark in self.ordered() if any(mark.held)]

    def preemptors(self) -> Iterator[Mark]:
        """They come first in the order."""
        return takewhile(lambda mark: mark.preempts, self.ordered())

    def put(self, mark: Mark) -> None:
        self.by_uid[mark.item.uid] = mark
        self._by_node.setdefault(mark.item.quota, {})[mark.item.uid] = mark
        self.changed()

    @property
    def stale(self) -> bool:
        """Whether starts are to be foreseen anew."""
        return self._stale

    def changed(self) -> None:
        """An earmark came, went, or became a preemptor's."""
        self._order = None
        self._stale = True

    def drop(self, uid: str, book: Book) -> Mark | None:
        mark = self.by_uid.pop(uid, None)
        if mark is not None:
            del self._by_node[mark.item.quota][uid]
            book.release(uid)
            self.changed()
        return mark

    def top_up(self, book: Book) -> None:
        """Put what is free where it is waited for, the first earmark first."""
        for mark in self.ordered():
            if mark.collects and not mark.full:
                self._hold(mark, [wanted for _, wanted in mark.asked], book)

    def hand_over(self, mark: Mark, left: Ask, book: Book) -> None:
        """What a victim has left is its preemptor's before it is anybody's."""
        amounts = {id(path[-1]): amount for path, amount in left}
        self._hold(mark, [amounts.get(id(path[-1]), 0) for path, _ in mark.asked], book)

    def _hold(self, mark: Mark, most: list[int], book: Book) -> None:
        more = [
            min(wanted - held, limit, room(path)) if wanted > held and limit else 0
            for (path, wanted), held, limit in zip(mark.asked, mark.held, most, strict=True)
        ]
        if any(more):
            for (path, _), amount in zip(mark.asked, more, strict=True):
                add(path, amount)
            mark.held = [held + amount for held, amount in zip(mark.held, more, strict=True)]
            mark.full = all(
                held == wanted for (_, wanted), held in zip(mark.asked, mark.held, strict=True)
            )
            book.note_earmark(mark.item, mark.holding)

    def let_go(self, marks: Iterable[Mark], book: Book) -> None:
        """Forget what they hold; the book's sums were lowered by it already."""
        for mark in marks:
            mark.held = [0] * len(mark.asked)
            mark.full = not mark.asked
            book.note_earmark(mark.item, ())

    def let_go_of(self, mark: Mark, book: Book) -> None:
        """What one holds, for all."""
        apply(mark.holding, -1)
        self.let_go([mark], book)

    def foresee(
        self,
        ends: Sequence[tuple[float, str]],
        book: Book,
        now: float,
        *,
        grace_s: float,
        elsewhere: Container[str] = (),
    ) -> None:
        """When the first earmarks will be full if everything ends as declared.

        What should have ended longer ago than `grace_s` may run for ever. Of those in `elsewhere`,
        which wait for members, more than quota says when they start.
        """
        marks = self.ordered()
        told = [mark for mark in marks if mark.item.uid not in elsewhere]
        if not self._stale and all(
            mark.starts_s is None or mark.starts_s > now for mark in told[: self._outlook]
        ):
            return
        self._stale = False
        for mark in told:
            mark.starts_s, mark.foreseen = None, False
        done: list[tuple[Ask, int]] = []

        def change(asked: Ask, sign: int) -> None:
            apply(asked, sign)
            done.append((asked, sign))

        for mark in marks:
            change(mark.holding, -1)
        waiting = [mark for mark in marks[: self._outlook] if mark.collects]
        own_ends: list[tuple[float, int, Ask]] = []
        at, index = now, bisect_left(ends, (now - grace_s, ""))
        while waiting:
            kept: list[Mark] = []
            partial: list[Ask] = []
            for mark in waiting:
                if blocked(mark.asked) is None:
                    change(mark.asked, 1)
                    if mark.item.uid not in elsewhere:
                        mark.starts_s = at
                    if mark.item.run_time_s is not None:
                        end = (at + mark.item.run_time_s, len(done), mark.asked)
                        heappush(own_ends, end)
                    continue
                kept.append(mark)
                part = tuple((path, min(wanted, room(path))) for path, wanted in mark.asked)
                apply(part)
                partial.append(part)
            for part in partial:
                apply(part, -1)
            waiting = kept
            if not waiting:
                break
            following = [ends[index][0]] if index < len(ends) else []
            following += [own_ends[0][0]] if own_ends else []
            if not following:
                break
            at = max(now, min(following))
            while index < len(ends) and ends[index][0] <= at:
                uid = ends[index][1]
                if uid in book.charges:
                    change(book.asked(uid), -1)
                index += 1
            while own_ends and own_ends[0][0] <= at:
                change(heappop(own_ends)[2], -1)
        for mark in marks[: self._outlook]:
            mark.foreseen = mark.foreseen or mark.item.uid not in elsewhere
        for asked, sign in reversed(done):
            apply(asked, -sign)
