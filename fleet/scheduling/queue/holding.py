"""For whom room is held, and who may start on it meanwhile.

The first gang of a quota node that does not fit gets an earmark; of gangs that would borrow, the
first of the whole tree does. What becomes free is collected for it. Others may start on that only
if they come before it, or are due to end before it is foreseen to start (backfill); once it has
waited for the aging bound, nobody may whose turn it is not.

A gang that has quota and waits for capacity of members cannot collect it; for a few of those it is
looked that what is admitted leaves a place at the time foreseen. Next step: `evicting`, where the
time foreseen is too far away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fleet.scheduling.placer import Placed, Unplaced
from fleet.scheduling.queue.marks import Mark
from fleet.scheduling.quota.book import level
from fleet.scheduling.requests import is_accelerator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.scheduling.placer import Item
    from fleet.scheduling.queue.lines import Line
    from fleet.scheduling.queue.marks import Order
    from fleet.scheduling.queue.state import Root, State

_SOON: Final = 1e-9
"""Sums of times as floats differ by less."""


def mark_for(
    state: State, root: Root, line: Line, place: Order, *, for_room: bool, now: float
) -> Mark | None:
    """Its earmark, if its turn has come; those of others that come later are dropped for it."""
    item = line.first
    marks = root.marks
    own = marks.by_uid.get(item.uid)
    rivals = [each for each in rivals_of(root, line, place[0]) if each is not own]
    if any(other.preempts or other.order < place for other in rivals):
        state.drop_mark(root, item.uid)
        return None
    for other in rivals:
        state.drop_mark(root, other.item.uid)
    if (
        for_room
        and item.uid not in state.searched
        and len(state.searched) >= state.rules.searched
    ):  # fmt: skip
        return None
    if own is None:
        own = Mark(item, line.asked, place, now)
        marks.put(own)
    elif own.order != place:
        own.order = place
        marks.changed()
    if for_room:
        state.searched[item.uid] = own
    else:
        state.searched.pop(item.uid, None)
    return own


def rivals_of(root: Root, line: Line, height: int) -> list[Mark]:
    """Of all that wait for the same, one has its turn: in a node, what is within its guaranteed
    amount has one, and what would borrow; and of all that would borrow in the tree, one.
    """
    found = [
        mark
        for mark in root.marks.of_node(line.node)
        if (mark.order[0] > 0) == (height > 0) and _want_the_same(mark, line)
    ]
    if height > 0:
        found += [mark for mark in root.marks.borrowers() if mark not in found]
    return found


def resume(state: State, earmarked: Mapping[str, float], now: float) -> None:
    """Earmarks from before the state was made anew; each is judged again when it is tried."""
    for uid, since_s in sorted(earmarked.items()):
        line = state.lines.of.get(uid)
        if line is not None:
            item = line.items[uid]
            young = now - state.since[uid] < state.rules.aging_s
            place = (level(line.asked), young, -item.priority, item.sequence, uid)
            state.root(line.node).marks.put(Mark(item, line.asked, place, since_s))


def gives_way(state: State, root: Root, mark: Mark, item: Item, place: Order, now: float) -> bool:
    """Whether `item` may start on what is held by a mark.

    Between two gangs the one that comes first never waits for the other, or both might for ever.
    """
    if mark.preempts:
        return False
    aged = now - mark.since_s >= state.rules.aging_s
    order = (mark.order[0], False, *mark.order[2:]) if aged else mark.order
    if order > place:
        return True
    if aged:
        return False
    if item.run_time_s is None:
        return False
    foresee(state, root, mark, now)
    return mark.starts_s is not None and now + item.run_time_s <= mark.starts_s + _SOON


def takes_room_of(
    state: State, item: Item, placed: Placed, place: Order, now: float
) -> str | None:  # fmt: skip
    """Uid of a gang that could not start when foreseen if `item` were placed there."""
    for uid, mark in state.searched.items():
        if uid == item.uid or place < mark.order:
            continue
        if mark.starts_s is None:
            aged = now - mark.since_s >= state.rules.aging_s
            if aged and _compete(item, mark.item) and _would_be_in(state, mark, placed):
                return uid
            continue
        if item.run_time_s is not None and now + item.run_time_s <= mark.starts_s + _SOON:
            continue
        state.placer.take(item.uid, placed)
        later = state.placer.place(mark.item, without=mark.gone & state.runs.by_uid.keys())
        state.placer.give(item.uid)
        if isinstance(later, Unplaced):
            return uid
    return None


def _compete(item: Item, other: Item) -> bool:
    """Whether both want what is scarce for the other: its accelerators, where it asks for any."""
    scarce = [key for key in other.requests if is_accelerator(key.resource)]
    return any(key in item.requests for key in scarce or other.requests)


def _would_be_in(state: State, mark: Mark, placed: Placed) -> bool:
    """Whether a gang with no end in sight would start in one of the members that are to be taken,
    if all that runs were gone."""
    best = state.placer.place(mark.item, without=state.runs.by_uid.keys())
    if isinstance(best, Unplaced):
        return False
    return not best.clusters or not best.clusters.keys().isdisjoint(placed.clusters)


def foresee(state: State, root: Root, mark: Mark, now: float) -> None:
    """Find out when it starts by itself, unless that is known and still to come."""
    if mark.item.uid not in state.searched:
        ends = state.runs.ends(state.root_name(mark.item.quota))
        root.marks.foresee(ends, state.book, now, grace_s=state.rules.patience_s)
    elif not mark.foreseen or (mark.starts_s is not None and mark.starts_s <= now):
        _foresee_room(state, mark, now)


def _foresee_room(state: State, mark: Mark, now: float) -> None:
    """By the fewest of those with a declared end, in order, that leave a place."""
    late_s = now - state.rules.patience_s
    ends = [end for end in state.runs.all_ends() if end[0] >= late_s]

    def fits(count: int) -> bool:
        without = [uid for _, uid in ends[:count]]
        return isinstance(state.placer.place(mark.item, without=without), Placed)

    mark.foreseen, mark.starts_s, mark.gone = True, None, frozenset()
    if not ends or not fits(len(ends)):
        return
    low, high = 1, len(ends)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    mark.starts_s = max(now, ends[high - 1][0])
    mark.gone = frozenset(uid for _, uid in ends[:high])


def _want_the_same(mark: Mark, line: Line) -> bool:
    """Whether both want the same of anything; what nobody counts, everybody wants."""
    return not line.asked or any(
        mine[0] is theirs[0] for mine, _ in line.asked for theirs, _ in mark.asked
    )
