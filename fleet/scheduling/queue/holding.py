"""For whom room is held, and who may start on it meanwhile.

The first gang of a quota node that does not fit gets an earmark; of gangs that would borrow, the
first of the whole tree does. What becomes free is collected for it. Others may start on that only
if they come before it, or are due to end before it is foreseen to start (backfill); once it has
waited for the aging bound, nobody may whose turn it is not.

For the first few of the gangs that have quota and wait for capacity of members, the place they are
foreseen to get is taken already, while others are still in it. Next step: `evicting`, where the
time foreseen is too far away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fleet.scheduling.placer import Placed
from fleet.scheduling.queue.marks import Mark
from fleet.scheduling.quota.book import level
from fleet.scheduling.requests import is_accelerator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    if for_room and item.uid not in state.searched and not _turn_to_search(state, place):
        return None
    if own is None:
        own = Mark(item, line.asked, place, now)
        marks.put(own)
    elif own.order != place:
        own.order = place
        marks.changed()
    if for_room and item.uid not in state.searched:
        state.searched[item.uid] = own
        own.foreseen = False
    elif not for_room and state.searched.pop(item.uid, None) is not None:
        state.give_place(own)
        own.collects = True
        marks.changed()
    return own


def _turn_to_search(state: State, place: Order) -> bool:
    """Whether it is among the few for which places are kept; the last of those makes way."""
    if len(state.searched) < state.rules.searched:
        return True
    last = max(state.searched.values(), key=lambda mark: mark.order)
    if last.order < place:
        return False
    state.drop_mark(state.root(last.item.quota), last.item.uid)
    return True


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
        if line is not None and uid not in state.root(line.node).marks.by_uid:
            item = line.items[uid]
            young = not state.is_aged(line.items[uid], now)
            place = (level(line.asked), young, -item.priority, item.sequence, uid)
            state.root(line.node).marks.put(Mark(item, line.asked, place, since_s))


def gives_way(state: State, root: Root, mark: Mark, item: Item, place: Order, now: float) -> bool:
    """Whether `item` may start on what is held by a mark.

    Between two gangs the one that comes first never waits for the other, or both might for ever.
    """
    if mark.preempts:
        return False
    aged = state.is_aged(mark.item, now)
    order = (mark.order[0], False, *mark.order[2:]) if aged else mark.order
    if order > place:
        return True
    if aged:
        return False
    if item.run_time_s is None:
        return False
    foresee(state, root, mark, now)
    return mark.starts_s is not None and now + item.run_time_s <= mark.starts_s + _SOON


def open_to(
    state: State, item: Item, place: Order, now: float
) -> tuple[list[str], list[str]]:  # fmt: skip
    """Uids of those whose kept places `item` may be put into; and of those who have waited so long,
    with no end in sight, that nothing may pass them where they could be: nothing of their own node,
    whatever it borrows, and of others only what comes before them."""
    free: list[str] = []
    barriers: list[str] = []
    for uid, mark in state.searched.items():
        aged = state.is_aged(mark.item, now)
        own = item.quota == mark.item.quota and place[1:] > mark.order[1:]
        if aged and own and mark.starts_s is None:
            if _compete(item, mark.item):
                barriers.append(uid)
        elif uid == item.uid or place < mark.order:
            free.append(uid)
        elif mark.starts_s is None:
            if aged and _compete(item, mark.item):
                barriers.append(uid)
        elif (
            not aged
            and item.run_time_s is not None
            and now + item.run_time_s <= mark.starts_s + _SOON
        ):
            free.append(uid)
    return free, barriers


def bars(state: State, uid: str, placed: Placed) -> bool:
    """Whether one that has waited so long would start in one of the members that are to be taken,
    if all that runs were gone."""
    item = state.searched[uid].item
    best = state.placer.place(item, without=state.runs.by_uid.keys())
    if not isinstance(best, Placed):
        return False
    return not best.clusters or not best.clusters.keys().isdisjoint(placed.clusters)


def _compete(item: Item, other: Item) -> bool:
    """Whether both want what is scarce for the other: its accelerators, where it asks for any."""
    scarce = [key for key in other.requests if is_accelerator(key.resource)]
    return any(key in item.requests for key in scarce or other.requests)


def passed(state: State, uids: Iterable[str], place: Order) -> None:
    """Somebody who comes before them was put where their places may be: those are looked for anew.

    What only ends before they start leaves them theirs.
    """
    for uid in uids:
        mark = state.searched.get(uid)
        if mark is not None and place < mark.order:
            state.give_place(mark)
            mark.foreseen = False


def foresee(state: State, root: Root, mark: Mark, now: float) -> None:
    """Find out when it starts by itself, unless that is known and still to come."""
    if mark.item.uid not in state.searched:
        ends = state.runs.ends(state.root_name(mark.item.quota))
        root.marks.foresee(
            ends, state.book, now, grace_s=state.rules.patience_s, elsewhere=state.searched
        )
    elif not mark.foreseen or (mark.starts_s is not None and mark.starts_s <= now):
        _foresee_room(state, mark, now)


def _foresee_room(state: State, mark: Mark, now: float) -> None:
    """Its place, once it is known when, is kept."""
    state.give_place(mark)
    found = first_room(state, mark.item, now)
    mark.foreseen, mark.starts_s = True, None
    if found is not None:
        mark.starts_s, mark.placed = found
        state.placer.take(mark.item.uid, mark.placed)


def first_room(state: State, item: Item, now: float) -> tuple[float, Placed] | None:
    """When it finds a place, and which: by the fewest of those with a declared end, in order, that
    leave one."""
    late_s = now - state.rules.patience_s
    ends = [end for end in state.runs.all_ends() if end[0] >= late_s]

    def placed(count: int) -> Placed | None:
        without = [uid for _, uid in ends[:count]]
        found = state.placer.place(item, without=without)
        return found if isinstance(found, Placed) else None

    low, high = 1, len(ends)
    there = placed(high) if ends else None
    if there is None:
        return None
    while low < high:
        middle = (low + high) // 2
        if (sooner := placed(middle)) is not None:
            there, high = sooner, middle
        else:
            low = middle + 1
    return max(now, ends[high - 1][0]), there


def _want_the_same(mark: Mark, line: Line) -> bool:
    """Whether both want the same of anything; what nobody counts, everybody wants."""
    return not line.asked or any(
        mine[0] is theirs[0] for mine, _ in line.asked for theirs, _ in mark.asked
    )
