"""What would be decided, without deciding it: `fleet plan`.

The engine is forked over a picture of the fleet, what is asked about is submitted to the fork, and
one step is taken. What would wait is asked about once more as the most urgent work of all, to say
what would have to end for it. Nothing of that reaches the engine that acts. Next step:
`fleet.gateway.plans` writes the answer down.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from fleet.scheduling.decisions import Admit, Preempt
from fleet.scheduling.placement import Plan
from fleet.scheduling.rooms import Rooms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.scheduling.decisions import Decision, Why
    from fleet.scheduling.engine import Engine
    from fleet.scheduling.placement import Refusal
    from fleet.scheduling.placer import Item
    from fleet.scheduling.planner import Asked
    from fleet.scheduling.quota.book import Book
    from fleet.scheduling.quota.tree import Key, Tree
    from fleet.scheduling.rooms import Picture
    from fleet.scheduling.standing import Wish

Verdict = Literal["Starts", "Evicts", "Waits", "Runs"]


class Wanted(NamedTuple):
    """A workload that is asked about."""

    asked: Asked
    wish: Wish
    item: Item


@dataclass(frozen=True, slots=True)
class Foretold:
    """What would become of one: it starts at once, once `victims` have ended, or it waits, `why`.

    `victims` of what waits are those that would have to end if it were the most urgent.
    """

    uid: str
    verdict: Verdict
    plan: Plan | None = None
    refusal: Refusal | None = None
    why: Why | None = None
    victims: tuple[str, ...] = ()
    item: Item | None = None


@dataclass(frozen=True, slots=True)
class Prospect:
    """All of it, and the accounts as they would be: `over` is what would be above a limit then and
    is not now."""

    told: tuple[Foretold, ...]
    over: tuple[tuple[str, Key, int], ...]
    book: Book


def foretell(
    engine: Engine,
    picture: Picture,
    waiting: Mapping[str, tuple[Asked, Wish]],
    wanted: Mapping[str, Wanted],
    *,
    tree: Tree,
) -> Prospect:
    """What would become of `wanted`, submitted in that order beside all that runs and waits, under
    the quotas of `tree`."""
    now_s = picture.now.timestamp()

    def fork() -> tuple[Engine, Rooms]:
        rooms = Rooms()
        asked = {**waiting, **{uid: (each.asked, each.wish) for uid, each in wanted.items()}}
        rooms.begin(picture, asked)
        forked = engine.fork(rooms)
        rooms.begin(picture, asked)  # what runs is told by the picture already
        if tree != engine.book.tree:
            forked.quota_changed(tree)
        return forked, rooms

    forked, rooms = fork()
    over = tuple(
        (node, key, by)
        for (node, key), by in sorted(forked.book.overcommitted().items())
        if by > engine.book.overcommitted().get((node, key), 0)
    )
    for each in wanted.values():
        forked.submit(each.item, now_s)
    decisions = {each.uid: each for each in forked.step(now_s) if isinstance(each, Admit | Preempt)}
    waits = {item.uid: why for item, why in forked.waiting()}
    told = []
    for uid, each in wanted.items():
        if uid in engine.running():
            told.append(Foretold(uid, "Runs", item=each.item))
            continue
        found = _found(uid, decisions.get(uid))
        if found is None:
            urgent, _ = fork()
            urgent.submit(_most_urgent(each.item, engine), now_s)
            best = next((d for d in urgent.step(now_s) if d.uid == uid), None)
            found = Foretold(
                uid,
                "Waits",
                refusal=rooms.refusals.get(uid),
                why=waits.get(uid),
                victims=best.victims if isinstance(best, Preempt) else (),
            )
        told.append(replace(found, item=each.item))
    return Prospect(tuple(told), over, forked.book)


def _found(uid: str, decision: Decision | None) -> Foretold | None:
    if isinstance(decision, Admit):
        plan = decision.placed.plan
        return Foretold(uid, "Starts", plan=plan if isinstance(plan, Plan) else None)
    if isinstance(decision, Preempt):
        plan = decision.placed.plan
        kept = plan if isinstance(plan, Plan) else None
        return Foretold(uid, "Evicts", plan=kept, victims=decision.victims)
    return None


def _most_urgent(item: Item, engine: Engine) -> Item:
    priorities = [run.item.priority for run in engine.running().values()]
    priorities += [each.priority for each, _ in engine.waiting()]
    return replace(item, priority=max([item.priority, *priorities]) + 1, preempts=True)
