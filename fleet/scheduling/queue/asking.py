"""What would be decided about one more workload, with all else left as it is.

Asked of a state in which everything that could start has started. It goes the way that `deciding`
goes with one whose turn has come: quota, with what gives way to it; a place; others that are to
end. Nothing is charged, held or told, so one state answers for many, one after the other. Next
step: `fleet.scheduling.foretelling` says it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleet.scheduling.decisions import Admit, Preempt
from fleet.scheduling.placer import Placed
from fleet.scheduling.queue import evicting, holding
from fleet.scheduling.queue.lines import Line
from fleet.scheduling.queue.marks import Mark, Marks
from fleet.scheduling.quota.book import apply, blocked, level, most_ever

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fleet.scheduling.placer import Item
    from fleet.scheduling.preemption import Victims
    from fleet.scheduling.queue.marks import Order
    from fleet.scheduling.queue.state import State
    from fleet.scheduling.quota.book import Book


def ask(state: State, item: Item, now: float) -> Admit | Preempt | None:
    """None for what would wait. Of an elastic one, whether all of it would start."""
    if item.quota and item.quota not in state.book.tree.nodes:
        return None
    asked, root = state.asked(item), state.root(item.quota)
    if any(amount > most_ever(path) for path, amount in asked):
        return None
    own = root.marks.by_uid.get(item.uid)
    place: Order = (level(asked), True, -item.priority, item.sequence, item.uid)
    lifted = [
        mark
        for mark in root.marks.ordered()
        if any(mark.held)
        and (mark is own or holding.gives_way(state, root, mark, item, place, now))
    ]
    with state.book.as_if(without=[mark.holding for mark in lifted]):
        for_room = blocked(asked) is None
        if for_room:
            free, _ = holding.open_to(state, item, place, now)
            found = state.placer.place(item, without=free)
            if isinstance(found, Placed):
                return Admit(item, found, item.requests)
            if not found.ever:
                return None
    victims = _victims(state, Mark(item, asked, place, now), for_room=for_room, now=now)
    return None if victims is None else Preempt(item, victims.uids, victims.placed, "")


def _victims(state: State, mark: Mark, *, for_room: bool, now: float) -> Victims | None:
    """Who would be evicted if room were held for it, in its turn, and no more for those after it.

    What others hold is put back as it was."""
    item, book, root = mark.item, state.book, state.root(mark.item.quota)
    line = Line((item.quota, item.priority, item.shape, None, None, item.queues), mark.asked)
    rivals = holding.rivals_of(root, line, mark.order[0])
    gone = [each for each in root.marks.ordered() if each.item.uid == item.uid or each in rivals]
    if any((e.preempts or e.order < mark.order) and e.item.uid != item.uid for e in gone):
        return None
    kept = [each.order for uid, each in state.searched.items() if uid != item.uid]
    if for_room and len(kept) >= state.rules.searched and max(kept) < mark.order:
        return None
    marks = Marks(state.rules.outlook)
    for each in (*(e for e in root.marks.ordered() if e not in gone), mark):
        marks.put(each)
    with _as_it_was(state, root.marks.ordered(), mark):
        for each in gone:
            root.marks.let_go_of(each, book)
        if for_room:
            first = holding.first_room(state, item, now)
            mark.starts_s = first[0] if first is not None else None
            mark.collects = mark.starts_s is not None
        else:
            ends = state.runs.ends(state.root_name(item.quota))
            grace_s = state.rules.patience_s
            marks.foresee(ends, book, now, grace_s=grace_s, elsewhere=state.searched)
            if not mark.foreseen:
                return None
        marks.top_up(book)
        with book.as_if(without=[mark.holding]):
            return evicting.for_one(state, item, mark.asked, mark.starts_s, now)


@contextmanager
def _as_it_was(state: State, marks: Sequence[Mark], more: Mark) -> Iterator[None]:
    """Afterwards earmarks hold what they did, and one that was not there holds nothing."""
    book = state.book
    before = [(each, [*each.held], each.full, each.starts_s, each.foreseen) for each in marks]
    noted = {each.item.uid for each in marks if each.item.uid in book.charges}
    try:
        yield
    finally:
        _hold(more, [0] * len(more.held), book)
        for mark, held, full, starts_s, foreseen in before:
            _hold(mark, held, book)
            mark.full, mark.starts_s, mark.foreseen = full, starts_s, foreseen
        for each in (*marks, more):
            if each.item.uid not in noted:
                book.release(each.item.uid)


def _hold(mark: Mark, held: list[int], book: Book) -> None:
    apply(mark.holding, -1)
    mark.held = held
    apply(mark.holding)
    book.note_earmark(mark.item, mark.holding)
