"""The engine brought in line with what is stored: differences become its events.

Nothing depends on what a change was: what waits and what holds is compared with what the engine
knows of it, all of it or those of whom something may have changed since – in the store, or in the
engine by what it decided. So a decision that could not be stored is undone, a gateway that comes
back takes up what runs, and sums cannot drift. A second time with nothing new there is no event.
Next step: `Engine.step`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fleet.scheduling.placer import Item, Placed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fleet.scheduling.engine import Engine
    from fleet.scheduling.queue.running import Run
    from fleet.scheduling.quota.tree import Key
    from fleet.scheduling.standing import Standing


@dataclass(frozen=True, slots=True)
class Waits:
    item: Item
    since_s: float
    preempted: bool = False
    """Whether it was ended for other work, so that it is let be for a while the next time."""


@dataclass(frozen=True, slots=True)
class Holds:
    item: Item
    """As it was asked for; what it holds is in `standing`."""
    standing: Standing
    saved_s: float | None = None
    """When its last checkpoint was complete, where somebody says."""


def bring(
    engine: Engine,
    waiting: Mapping[str, Waits],
    holding: Mapping[str, Holds],
    now: float,
    *,
    among: Collection[str] | None = None,
) -> list[str]:
    """Returns the uids of those that the engine told to go and that do not know of it.

    `among`: all others are as they were, and the engine has left them alone, since they were
    brought in line the last time; then `waiting` and `holding` need not have them. None: all are
    compared.
    """
    if among is None:
        known = (item.uid for item, _ in engine.waiting())
        among = {*known, *engine.running(), *waiting, *holding}
    known_waiting = {uid: item for uid in among if (item := engine.waits(uid)) is not None}
    for uid in sorted(among):
        if uid not in waiting and uid not in holding:
            _forget(engine, uid)
    for uid in sorted(holding.keys() & among):
        _hold(engine, holding[uid], waits=uid in known_waiting)
    for uid in sorted(waiting.keys() & among):
        _wait(engine, waiting[uid], known_waiting.get(uid), now)
    running = engine.running()
    untold = [
        uid
        for uid in sorted(holding.keys() & among)
        if uid in running and running[uid].leaving_for and not holding[uid].standing.leaving_for
    ]
    for uid in untold:
        engine.spare(uid)
    return [uid for uid in untold if running[uid].leaving_for]


def _forget(engine: Engine, uid: str) -> None:
    engine.withdraw(uid)
    engine.finish(uid)
    for lost, shard in [each for each in engine.book.lost if each[0] == uid]:
        engine.fenced(lost, shard)


def _wait(engine: Engine, wish: Waits, known: Item | None, now: float) -> None:
    item = wish.item
    run = engine.running().get(item.uid)
    if run is not None and wish.preempted:
        known = run.whole
        engine.evicted(item.uid, now)
    elif run is not None:
        _forget(engine, item.uid)
    if known is None or replace(known, generation=item.generation) != item:
        engine.submit(item, wish.since_s)


def _hold(engine: Engine, held: Holds, *, waits: bool) -> None:
    item, standing = held.item, held.standing
    uid = item.uid
    if waits:
        engine.withdraw(uid)
    run = engine.running().get(uid)
    if run is not None:
        engine.submit(item, standing.started_s)  # its priority and its run time may be others
    for _, shard in [each for each in engine.book.lost if each[0] == uid]:
        if shard not in standing.lost:
            engine.fenced(uid, shard)
    wanted = _without(standing.amounts, engine, uid)
    if run is None or not _is(run, held, wanted):
        if run is None or not _resized(engine, run, held, wanted):
            _adopt(engine, held, wanted, run)
    engine.saved(uid, held.saved_s)
    run = engine.running()[uid]
    if dict(run.placed.clusters) != dict(standing.clusters):
        run.placed = _placed(standing)  # a part of it was placed anew
    for shard, amounts in sorted(standing.lost.items()):
        engine.lose(uid, shard, amounts)


def _without(amounts: Mapping[Key, int], engine: Engine, uid: str) -> dict[Key, int]:
    """What is charged besides what was lost."""
    left = dict(amounts)
    for (workload, _), charge in engine.book.lost.items():
        if workload == uid:
            for key, amount in charge.amounts:
                left[key] = max(0, left.get(key, 0) - amount)
    return {key: amount for key, amount in left.items() if amount}


def _is(run: Run, held: Holds, wanted: Mapping[Key, int]) -> bool:
    return (
        run.item.quota == held.item.quota
        and dict(run.item.requests) == wanted
        and (run.leaving_for == held.standing.leaving_for or not held.standing.leaving_for)
    )


def _resized(engine: Engine, run: Run, held: Holds, wanted: Mapping[Key, int]) -> bool:
    """Whether the change is one of amounts alone, and there is quota for it."""
    if run.item.quota != held.item.quota or (
        held.standing.leaving_for and run.leaving_for != held.standing.leaving_for
    ):
        return False
    return engine.resize(run.item.uid, run.item.generation + 1, wanted)


def _adopt(engine: Engine, held: Holds, wanted: Mapping[Key, int], run: Run | None) -> None:
    standing = held.standing
    evictions, started_s, leaving_for = standing.preemptions, standing.started_s, ""
    if run is not None:
        evictions, started_s = run.evictions, run.started_s
        leaving_for = run.leaving_for
        engine.finish(held.item.uid)
    engine.adopt(
        held.item,
        _placed(standing),
        started_s,
        requests=wanted,
        evictions=evictions,
        leaving_for=standing.leaving_for or leaving_for,
    )


def _placed(standing: Standing) -> Placed:
    return Placed(plan=None, clusters=standing.clusters, pods=standing.pods)
