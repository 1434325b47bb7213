"""Whether something that runs should end for work that waits, and what follows.

Only where the wait would be long by itself and costs more than the work that is lost, where the
rates and protections of quota nodes allow it, and where nobody makes room in the same member; and
not before they have saved, where to wait for that costs less than what they would lose. What
the victims leave is held for the preemptor; if it has not started when that expires, it waits
longer before it may try again (kueue#13662, kueue#2821). `fleet.scheduling.preemption` chooses.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Final

from fleet.scheduling.decisions import Admit, Preempt
from fleet.scheduling.placer import Placed, Unplaced
from fleet.scheduling.preemption import NoVictims, Preemptor, Victims, choose
from fleet.scheduling.queue.marks import Mark
from fleet.scheduling.quota.book import apply
from fleet.scheduling.quota.tree import Preemption

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.scheduling.placer import Item
    from fleet.scheduling.queue.running import Run
    from fleet.scheduling.queue.state import Root, State
    from fleet.scheduling.quota.book import Ask

_ALONE: Final = Preemption(within="LowerPriority", reclaim="Never")
"""Of work that no quota counts: there is nothing to take back."""
_MOST_DAMPED: Final = 6
_AFTER: Final = 0.001


def preempt(state: State, root: Root, mark: Mark, why: str, now: float) -> Preempt | None:
    """Evict for the gang of an earmark whose start was foreseen, where that is right."""
    item, rules = mark.item, state.rules
    mark.spared, mark.weighed, mark.saves = None, False, frozenset()
    if mark.starts_s is not None and _may_ask(state, item, now):
        _look_again(state, mark, mark.starts_s + rules.patience_s + _AFTER)
    who = _preemptor(state, item, mark.asked, mark.starts_s, now, saved_s=mark.saved_s)
    if who is None:
        return None
    holding, kept = mark.holding, mark.placed
    apply(holding, -1)
    state.give_place(mark)
    found = choose(who, state.book, state.runs, state.placer)
    apply(holding)
    if isinstance(found, NoVictims):
        mark.weighed, mark.saves = found.anybody, found.saves
        if kept is not None:
            mark.placed = kept
            state.placer.take(item.uid, kept)
        if found.again_s is not None and found.again_s > now:
            state.wake_at(found.again_s, item.quota)
            if found.saved_s is not None:
                mark.saved_s = found.saved_s
            if found.spared and state.runs.by_uid[found.spared].started_s < now:
                mark.spared = found.spared, found.saved_s or found.again_s
        return None
    failed, _ = state.failed.get(item.uid, (0, 0.0))
    _evict(state, root, mark, found, now + rules.earmark_s * 2**failed)
    if found.reclaimed and who.policy.max_reclaim_per_minute is not None:
        state.reclaimed.setdefault(item.quota, deque()).append((now, found.reclaimed))
    return Preempt(item, found.uids, found.placed, why)


def for_one(
    state: State, item: Item, asked: Ask, starts_s: float | None, now: float
) -> Victims | None:
    """Who would be evicted for one that would start at `starts_s` by itself, where that is known.
    Nobody is told."""
    who = _preemptor(state, item, asked, starts_s, now)
    found = choose(who, state.book, state.runs, state.placer) if who is not None else None
    return found if isinstance(found, Victims) else None


def _may_ask(state: State, item: Item, now: float) -> bool:
    return item.preempts and now >= state.failed.get(item.uid, (0, 0.0))[1]


def _preemptor(
    state: State,
    item: Item,
    asked: Ask,
    starts_s: float | None,
    now: float,
    *,
    saved_s: float | None = None,
) -> Preemptor | None:
    """None for one that has nothing evicted, not yet, or hardly waits."""
    rules = state.rules
    if not _may_ask(state, item, now):
        return None
    weight, most_lost = state.weight(item, asked), None
    if starts_s is not None:
        wait_s = starts_s - now
        if wait_s <= rules.patience_s:
            return None
        if rules.worth is not None:
            most_lost = rules.worth * weight * wait_s
    node = state.node(item.quota)
    policy = node.preemption if node is not None else _ALONE
    return Preemptor(
        item,
        asked,
        weight,
        policy,
        now,
        lambda run: _protected_until(state, run, now),
        busy=_busy_members(state),
        may_reclaim=_may_reclaim(state, item.quota, policy, now),
        most_lost=most_lost,
        waits_until=_waits_until(item, starts_s, now, saved_s),
    )


def _waits_until(item: Item, starts_s: float | None, now: float, saved_s: float | None) -> float:
    """How long others are let save before they end for it: not while a service is refused, nor when
    it has to start, nor longer than it was first told, whatever they say meanwhile."""
    if not item.queues:
        return now
    late = item.latest_s is not None and item.latest_s <= now
    times = [starts_s, None if late else item.latest_s, saved_s]
    return min((at for at in times if at is not None), default=inf)


def start(state: State, root: Root, mark: Mark, now: float) -> Admit | None:
    """What was evicted for it is gone, its quota is held: it starts where there is room.

    Places that are kept for others until what is in them ends may be looked for anew after it.
    """
    item = state.lines.of[mark.item.uid].items[mark.item.uid]
    state.placer.give(item.uid)
    kept = [each for each in state.searched.values() if each.placed is not None]
    placed = state.placer.place(item, without=[each.item.uid for each in kept])
    if isinstance(placed, Unplaced):
        if mark.placed is not None:
            state.placer.take(item.uid, mark.placed)
        return None
    mark.placed = None
    for each in kept:
        state.give_place(each)
        each.foreseen = False
    apply(mark.holding, -1)
    charged = state.admit(root, item, placed, mark.asked, [mark], now)
    return Admit(charged, placed, charged.requests)


def expire(state: State, now: float) -> None:
    """What was freed for a preemptor that did not start is anybody's."""
    for root in state.roots.values():
        for mark in [*root.marks.preemptors()]:
            if mark.expires_s is not None and mark.expires_s <= now:
                uid = mark.item.uid
                failed = state.failed.get(uid, (0, 0.0))[0] + 1
                again_s = now + state.rules.earmark_s * 2**failed
                state.failed[uid] = (failed, again_s)
                state.wake_at(again_s, mark.item.quota)
                state.drop_mark(root, uid)
                root.stirred = True
                state.stir_capacity()


def resume(state: State, adopted: Mapping[str, Iterable[str]], now: float) -> dict[str, set[str]]:
    """Earmarks of those for whom something was leaving already when the state was made anew.

    Returns those, with what is leaving, whose time is still to come: they did not ask yet, or of
    the members that they go to nothing is known yet.
    """
    later = {}
    for uid, victims in sorted(adopted.items()):
        left = tuple(sorted({*victims} & state.runs.by_uid.keys()))
        line = state.lines.of.get(uid)
        if line is None:
            if left and uid not in state.runs.by_uid:
                later[uid] = {*left}
            continue
        present = state.root(line.node).marks.by_uid.get(uid)
        if present is not None and present.preempts:
            continue
        item = line.items[uid]
        placed = state.placer.place(item, without=left)
        if isinstance(placed, Placed):
            mark = Mark(item, line.asked, (0, *state.in_node(line, now)), now)
            root = state.root(line.node)
            state.drop_mark(root, uid)
            root.marks.put(mark)
            found = Victims(left, placed, 0, 0)
            _evict(state, root, mark, found, now + state.rules.earmark_s)
            state.stir(item.quota)
        elif left:
            later[uid] = {*left}
    return later


def _evict(state: State, root: Root, mark: Mark, found: Victims, expires_s: float) -> None:
    uid = mark.item.uid
    mark.collects = True
    mark.victims = set(found.uids)
    mark.placed = found.placed
    mark.expires_s = expires_s
    state.searched.pop(uid, None)
    root.marks.changed()
    root.marks.top_up(state.book)
    for victim in found.uids:
        state.runs.by_uid[victim].leaving_for = uid
    state.placer.take(uid, found.placed)


def _look_again(state: State, mark: Mark, at_s: float) -> None:
    """What it waits for may run longer than it declared, and is not waited for then."""
    if mark.again_s != at_s:
        mark.again_s = at_s
        state.wake_at(at_s, mark.item.quota)


def _protected_until(state: State, run: Run, now: float) -> float:
    """Longer after each eviction, so that no two gangs evict each other for ever."""
    if run.started_s >= now:
        return now + state.rules.damping_s
    node = state.node(run.item.quota)
    least_s = node.preemption.min_run_time_s if node is not None else 0
    if run.evictions:
        damped = 2 ** min(run.evictions - 1, _MOST_DAMPED)
        least_s = max(least_s, state.rules.damping_s) * damped
    return run.started_s + least_s


def _busy_members(state: State) -> set[str]:
    leaving = (
        state.runs.by_uid[victim]
        for root in state.roots.values()
        for mark in root.marks.preemptors()
        for victim in mark.victims
    )
    return {name for run in leaving for name in run.placed.clusters}


def _may_reclaim(state: State, node: str, policy: Preemption, now: float) -> int | None:
    """None: as much as it likes. A gang larger than the bound goes alone, or it never could."""
    recent = state.reclaimed.get(node)
    if policy.max_reclaim_per_minute is None or recent is None:
        return None
    while recent and recent[0][0] <= now - 60:
        recent.popleft()
    if not recent:
        return None
    return max(0, policy.max_reclaim_per_minute - sum(pieces for _, pieces in recent))
