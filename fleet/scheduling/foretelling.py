"""What would be decided, without deciding it: `fleet plan`.

The desk and its engine are forked over a picture of the fleet, what is asked about is submitted to
the fork, and one step is taken. What would wait is asked about once more: by a second fork without
the others as the most urgent work of all, to say what would have to end for it; and by the first,
as one that has waited until a later tier is tried. Both answer for all (`queue.asking`). Nothing of
that reaches those that act. Next step: `fleet.gateway.plans` writes the answer down.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from fleet.scheduling.decisions import OF_A_PLACE, Admit, Preempt
from fleet.scheduling.lending.loans import Lend, Recall, Settle
from fleet.scheduling.lending.spare import Spare
from fleet.scheduling.placement import Plan
from fleet.scheduling.quota.book import Book
from fleet.scheduling.rooms import Rooms
from fleet.scheduling.together import Gang, Together, is_plain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.decisions import Decision, Why
    from fleet.scheduling.engine import Engine
    from fleet.scheduling.lending.desk import Account, Desk
    from fleet.scheduling.lending.loans import Loan, LoanDecision
    from fleet.scheduling.lending.terms import Terms
    from fleet.scheduling.placement import Refusal
    from fleet.scheduling.placer import Item
    from fleet.scheduling.planner import Asked
    from fleet.scheduling.quota.tree import Key, Tree
    from fleet.scheduling.rooms import Picture
    from fleet.scheduling.standing import Wish

_A_BIT_S: Final = 0.001
_OF_A_BUDGET: Final = frozenset({"BudgetSpent", "PriceUnknown", "OtherCurrency"})
ADVISED: Final = 20
"""Of how many that would wait more is said: each may cost a search for victims among all that runs,
which is a tenth of a second where 2,000 do."""

Verdict = Literal["Starts", "Evicts", "Waits", "Refused", "Runs"]


class Wanted(NamedTuple):
    """A workload that is asked about."""

    asked: Asked
    wish: Wish
    item: Item


@dataclass(frozen=True, slots=True)
class Foretold:
    """What would become of one: it starts at once, on `loan` where its own quota does not cover it,
    once `victims` have ended, or it waits, `why`, or its policy or a budget refuses it for good.

    `victims` of what waits are those that would have to end if it were the most urgent.
    """

    uid: str
    verdict: Verdict
    plan: Plan | None = None
    refusal: Refusal | None = None
    why: Why | None = None
    victims: tuple[str, ...] = ()
    item: Item | None = None
    loan: Loan | None = None
    among: tuple[Cluster, ...] = ()
    """The clusters it had the choice of, with all others as they would be."""
    after_s: float | None = None
    """Of what waits for a later tier: when that, or the next of them, gives it a place, if nothing
    else changes; `later` is what becomes of it then."""
    later: Foretold | None = None


class Waiting(NamedTuple):
    """Why something waits."""

    item: Item
    why: Why
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class Prospect:
    """All of it, and the accounts as they would be: `over` is what would be above a limit then and
    is not now. `starts` are others that wait and would start, `evictions` what would be ended for
    such; `loans` what would be lent to others, called back, and covered; `donors` what each would
    keep and could lend."""

    told: tuple[Foretold, ...]
    over: tuple[tuple[str, Key, int], ...]
    book: Book
    starts: tuple[Admit, ...] = ()
    evictions: tuple[Preempt, ...] = ()
    loans: tuple[Lend | Recall | Settle, ...] = ()
    donors: tuple[Account, ...] = ()
    waits: Mapping[str, Waiting] = field(default_factory=dict)
    """Others that wait, and would go on waiting."""
    foreseen: Mapping[str, float] = field(default_factory=dict)
    """When those for whom something is held start, where that is known."""
    together: Together | None = None
    """Whether more of what is asked about would start if it were placed at once; None where nobody
    else could."""


def foretell(
    desk: Desk,
    picture: Picture,
    waiting: Mapping[str, tuple[Asked, Wish]],
    wanted: Mapping[str, Wanted],
    *,
    tree: Tree,
    terms: Sequence[Terms],
    kept: Mapping[str, Plan] = MappingProxyType({}),
) -> Prospect:
    """What would become of `wanted`, submitted in that order beside all that runs and waits, under
    the quotas of `tree` and with loans by `terms`. `kept` is room that is kept for others, by uid.

    Of the first `ADVISED` that would wait, also what would let them start; leases are not renewed
    meanwhile.
    """
    engine, now_s = desk.engine, picture.now.timestamp()

    def fork() -> tuple[Desk, Rooms]:
        rooms = Rooms()
        asked = {**waiting, **{uid: (each.asked, each.wish) for uid, each in wanted.items()}}
        rooms.begin(picture, asked)
        forked = engine.fork(rooms)
        rooms.begin(picture, asked)  # what runs is told by the picture already
        for uid, plan in kept.items():
            rooms.reserve(uid, plan)
        spare = Spare(rooms, lambda donor: other.keys_of(donor), work_of=lambda q: other.work_of(q))
        other = desk.fork(forked, rooms, members=spare)
        other.change(tree, terms)
        return other, rooms

    other, rooms = fork()
    forked = other.engine
    over = tuple(
        (node, key, by)
        for (node, key), by in sorted(forked.book.overcommitted().items())
        if by > engine.book.overcommitted().get((node, key), 0)
    )
    for each in wanted.values():
        forked.submit(each.item, now_s)
    step = list(other.step(now_s))
    decisions = {each.uid: each for each in step if isinstance(each, Admit | Preempt | Lend)}
    waits = dict(_reasons(forked))
    told, advised, calm = [], 0, None
    for uid, each in wanted.items():
        if uid in engine.running():
            told.append(Foretold(uid, "Runs", item=each.item))
            continue
        found = _found(uid, decisions.get(uid))
        if found is None:
            refusal, best, why = rooms.refusals.get(uid), None, waits.get(uid)
            if _final(refusal, why):
                found = Foretold(uid, "Refused", refusal=refusal, why=why)
                told.append(replace(found, item=each.item, among=_among(rooms, uid, found, waits)))
                continue
            found = Foretold(uid, "Waits", refusal=refusal, why=why)
            advised += 1
            if advised <= ADVISED:
                if refusal is None or not refusal.impossible:
                    if calm is None:
                        calm, _ = fork()
                        calm.step(now_s)
                    best = calm.engine.ask(_most_urgent(each.item, engine), now_s)
                    victims = best.victims if isinstance(best, Preempt) else ()
                    found = replace(found, victims=victims)
                found = _later(found, each, forked, rooms, now_s)
        among = _among(rooms, uid, found, waits)
        told.append(replace(found, item=each.item, among=among))
    loans = tuple(each for each in step if isinstance(each, Lend | Recall | Settle))
    return Prospect(
        tuple(told),
        over,
        forked.book,
        starts=tuple(e for e in step if isinstance(e, Admit) and e.uid not in wanted),
        evictions=tuple(e for e in step if isinstance(e, Preempt) and e.uid not in wanted),
        loans=tuple(each for each in loans if each.uid not in wanted),
        donors=tuple(other.accounts()),
        waits={
            item.uid: Waiting(item, why, rooms.refusals.get(item.uid))
            for item, why in forked.waiting()
            if why is not None and item.uid not in wanted
        },
        foreseen=forked.foreseen(),
        together=_together(told, wanted, rooms, picture, forked.book),
    )


def _later(found: Foretold, each: Wanted, engine: Engine, rooms: Rooms, now_s: float) -> Foretold:
    """With what becomes of it once a later tier is tried: it is asked about as one that has waited
    for that. For a budget nobody has waited before its month is over."""
    uid, refusal, after_s = found.uid, found.refusal, 0.0
    if found.why is None or found.why.reason not in OF_A_PLACE:
        return found
    for _ in each.asked.policy.spec.clusters.tiers:
        if refusal is None or refusal.retry_after_s is None or refusal.reason in _OF_A_BUDGET:
            break
        after_s += refusal.retry_after_s
        queued_at = each.asked.queued_at - timedelta(seconds=after_s + _A_BIT_S)
        with rooms.as_if(uid, replace(each.asked, queued_at=queued_at)):
            later = _found(uid, engine.ask(each.item, now_s))
            refusal = rooms.refusals.get(uid)
        if later is None and refusal is not None and refusal.final:
            later = Foretold(uid, "Refused", refusal=refusal)
        if later is not None:
            return replace(found, after_s=after_s, later=later)
    return found


def _together(
    told: Sequence[Foretold],
    wanted: Mapping[str, Wanted],
    rooms: Rooms,
    picture: Picture,
    book: Book,
) -> Together | None:
    """Of those that only want for room, and of those that have it."""
    gangs = []
    for each in told:
        asked, item = wanted[each.uid].asked, wanted[each.uid].item
        starts = each.verdict == "Starts" and each.loan is None
        waits = (
            each.verdict == "Waits"
            and each.why is not None
            and each.why.reason == "Capacity"
            and (each.refusal is None or not each.refusal.reason)
        )
        budget = asked.policy.spec.objective.budget
        namespace = asked.demand.workload.namespace
        over = picture.ceilings.over(policy=asked.policy_name, budget=budget, namespace=namespace)
        plain = is_plain(asked) and not picture.occupancy.work_of(each.uid) and not any(over)
        if plain and (starts or waits):
            gangs.append(Gang(item, asked.demand, starts))
    if len({each.starts for each in gangs}) < 2:
        return None
    alone = Book.over(book.tree, book)
    for gang in gangs:
        if not gang.starts:
            alone.release(gang.item.uid)  # what is held for it until it starts
    gone = {gang.item.uid for gang in gangs}
    clusters = rooms.clusters(without=gone)
    return Together(tuple(gangs), tuple(clusters.values()), picture.prices, alone, picture.now_s)


def _among(rooms: Rooms, uid: str, found: Foretold, waits: Collection[str]) -> tuple[Cluster, ...]:
    """What it had the choice of. Who ends in time may be given room that is kept for others."""
    gone = {uid, *(found.victims if found.verdict == "Evicts" else ())}
    there = rooms.clusters(without=gone)
    if found.plan is not None and not _holds(there, found.plan):
        there = rooms.clusters(without={*gone, *waits})
    return tuple(there.values())


def _holds(clusters: Mapping[str, Cluster], plan: Plan) -> bool:
    kinds = {role.name: role.kind for role in plan.demand.roles}
    for shard in plan.shards:
        capacity = clusters[shard.cluster].capacity
        roles = shard.by_role or ((shard.intervals[0].role, shard.blocks),)
        wanted = [(kinds[role], dict(blocks)) for role, blocks in roles]
        if capacity is None:
            return False
        _, taken = capacity.take_together(wanted)
        if sum(each.pods for each in taken) < shard.pods:
            return False
    return True


def _reasons(engine: Engine) -> Iterator[tuple[str, Why | None]]:
    return ((item.uid, why) for item, why in engine.waiting())


def _final(refusal: Refusal | None, why: Why | None) -> bool:
    """Whether it ends as refused: what waits for its turn or for quota is not asked that yet."""
    return refusal is not None and refusal.final and why is not None and why.reason in OF_A_PLACE


def _found(uid: str, decision: Decision | LoanDecision | None) -> Foretold | None:
    if isinstance(decision, Admit | Lend):
        plan = decision.placed.plan
        loan = decision.loan if isinstance(decision, Lend) else None
        return Foretold(uid, "Starts", plan=plan if isinstance(plan, Plan) else None, loan=loan)
    if isinstance(decision, Preempt):
        plan = decision.placed.plan
        kept = plan if isinstance(plan, Plan) else None
        return Foretold(uid, "Evicts", plan=kept, victims=decision.victims)
    return None


def _most_urgent(item: Item, engine: Engine) -> Item:
    priorities = [run.item.priority for run in engine.running().values()]
    priorities += [each.priority for each, _ in engine.waiting()]
    return replace(item, priority=max([item.priority, *priorities]) + 1, preempts=True)
