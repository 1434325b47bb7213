"""The planner of `fleet.dispatch`: gathers what there is and has the engine decide.

Each round begins with the present state: policies and prices (`givens`), quotas (`quota_rules`),
workloads and Placements (`placements`) are read from the store, capacity from `books`, and the
engine is brought in line with that.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.dispatch.planning import Refused, Retimed
from fleet.errors import Invalid
from fleet.gateway import lending
from fleet.gateway import queue_metrics as metrics
from fleet.gateway.answers import Answers, with_loan
from fleet.gateway.givens import Givens
from fleet.gateway.placements import Placements
from fleet.gateway.questions import Asking, Round, rulings
from fleet.gateway.quota_rules import NO_QUOTAS, QuotaRules
from fleet.gateway.returning import Returning
from fleet.gateway.rulebook import Rulebook
from fleet.scheduling import standing
from fleet.scheduling.checkpoints import newest_s
from fleet.scheduling.cost.ceilings import NO_CEILINGS
from fleet.scheduling.counted import total
from fleet.scheduling.decisions import OF_A_PLACE, Admit, Preempt, Wait
from fleet.scheduling.engine import Engine
from fleet.scheduling.exact.verdict import comparison_of
from fleet.scheduling.extension import NONE
from fleet.scheduling.foretelling import Waiting, Wanted, foretell
from fleet.scheduling.growing import Growing
from fleet.scheduling.guests import seats
from fleet.scheduling.keeping import Holds, Waits, bring
from fleet.scheduling.lending.desk import Desk
from fleet.scheduling.lending.loans import Lend, Recall, Renew, Return, Settle
from fleet.scheduling.lending.spare import Spare
from fleet.scheduling.placement import Plan, Refusal
from fleet.scheduling.placer import Item
from fleet.scheduling.planner import Urgency, asked_of, counted_in, item_of
from fleet.scheduling.quota.tree import Key, Tree
from fleet.scheduling.reasons import because, reason_of, spared
from fleet.scheduling.record import Held
from fleet.scheduling.rooms import Picture, Rooms
from fleet.scheduling.selection import by_name
from policies import PLACEMENT_POLICY
from policies.scalars import duration_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from datetime import datetime

    from fleet.dispatch.planning import Barred, Question, Step
    from fleet.gateway.books import Books
    from fleet.gateway.placements import Reading
    from fleet.gateway.questions import Rulings
    from fleet.gateway.quota_rules import Quotas
    from fleet.scheduling.cost.ceilings import Ceilings
    from fleet.scheduling.decisions import Decision, Why
    from fleet.scheduling.exact.verdict import Comparison
    from fleet.scheduling.extension import Extensions
    from fleet.scheduling.foretelling import Prospect
    from fleet.scheduling.ledger import Ledger, Promises
    from fleet.scheduling.lending.loans import LoanDecision
    from fleet.scheduling.lending.terms import Terms
    from fleet.scheduling.planner import Fleet
    from fleet.scheduling.queue.rules import Rules
    from fleet.scheduling.quota.book import Book
    from fleet.scheduling.quota_objects import Wrong
    from fleet.scheduling.returning import Spell
    from fleet.scheduling.standing import Wish
    from fleet.store.objects import ObjectStore
    from policies.quota_tree import Claims

Object = dict[str, Any]

_AT_ONCE: Final = 32


class Placing:
    """Answers who starts and where. See `fleet.dispatch.planning.Planner`."""

    def __init__(
        self,
        store: ObjectStore,
        books: Books,
        *,
        now: Callable[[], datetime],
        clock: Callable[[], float],
        lease_s: float,
        rules: Rules | None = None,
        extensions: Extensions = NONE,
        ceilings: Callable[[Claims, Sequence[Object]], Ceilings] = lambda *given: NO_CEILINGS,
        rulebook: Rulebook | None = None,
    ) -> None:
        """`clock` is the one that the books date capacity with; `lease_s` is the lease of
        workloads whose policy says nothing else; `extensions` have a say in every decision;
        `ceilings` says what may be spent, by which quota counts which namespace, with rules
        as they would be; `rulebook` are the policies, shared with others who act on them."""
        self._store = store
        self._books = books
        self._now = now
        self._clock = clock
        self.rulebook = rulebook or Rulebook(store)
        self._givens = Givens(
            store,
            books,
            now=now,
            lease=timedelta(seconds=lease_s),
            extensions=extensions,
            rulebook=self.rulebook,
        )
        self._ceilings = ceilings
        self._placements = Placements(store)
        self._quotas = QuotaRules(store, self.rulebook, donor_of=self._donor_of)
        self._rooms = Rooms()
        self.engine = Engine(Tree(), self._rooms, rules=rules)
        spare = Spare(
            self._rooms,
            lambda donor: self.desk.keys_of(donor),
            work_of=lambda donor: self.desk.work_of(donor),
        )
        self.desk = Desk(self.engine, self._rooms, Tree(), (), members=spare)
        self._answers = Answers(self._placements, self._rooms, self.desk)
        self._asking: dict[str, Asking] = {}
        """What waited in the last round."""
        self._touched: set[str] | None = None
        """Of whom the engine may know something else than what is so; None: of anybody."""
        self._last = Round()
        self.guests: dict[str, Ledger] = {}
        """What is promised to work that somebody else carries out, by UID."""
        self._guests_promised: set[str] = set()
        self._retimed: list[tuple[str, float | None]] = []
        """What has a place and is expected to run for another time than its Placement says."""
        self._saved: dict[str, float] = {}
        """When last checkpoints were complete, as pods say."""
        self._to_come: set[str] = set()
        """What says so of a time that has not come."""
        self._listeners: list[Callable[[], None]] = []
        self._returning = Returning(
            self._placements,
            self.engine,
            self._rooms,
            admit=lambda workload: self._quotas.quotas.admit(workload),
        )

    @property
    def claims(self) -> Claims:
        """Which quota counts which namespace."""
        return self._quotas.quotas.claims

    @property
    def spells(self) -> Mapping[str, Spell]:
        """By uid, since when there is room in an earlier tier for what runs, and when it moves."""
        return self._returning.spells

    def wrong_with(self, quota: str) -> Wrong | None:
        """Why a FleetQuota is not what its object says."""
        return self._quotas.quotas.wrong(quota)

    def on_round(self, listener: Callable[[], None]) -> None:
        """Have `listener` told after each round: what is in use and what waits may have changed."""
        self._listeners.append(listener)

    async def round(
        self, questions: Sequence[Question], *, barred: Barred = lambda namespace, uid: {}
    ) -> AsyncIterator[Step]:
        """See `fleet.dispatch.planning.Planner`."""
        fleet, now = self._givens.fleet(), self._now()
        self._read_all()
        before = dict(self._placements.by_uid)
        asked: dict[str, Asking] = {}
        for at, question in enumerate(questions):
            if at % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)  # leases are renewed meanwhile
            try:
                found = self._asked(question, fleet, now, before=self._asking)
            except Invalid as error:
                if not question.grows:  # else it goes on as it is
                    yield Refused(question, error)
                continue
            if found is not None:
                asked[found.uid] = found
        last, self._asking = self._asking, asked
        started_s = self._clock()
        again = {uid: each for uid, each in asked.items() if each.asked.running is None}
        there = {
            **before,
            **self._placements.by_uid,
        }  # others may ask while what is told is being stored
        picture, rules = self._picture(fleet, now), rulings(fleet, self.claims, self.desk)
        of_last, self._last = self._last, Round()  # until all of this one was told
        among = self._among(of_last, again, last, rules)
        untold = self._bring(again, picture, fleet, now, among)
        for uid, each in asked.items():
            if each.asked.running is not None and not each.asked.grows:
                # It was admitted once: what it lost is no new admission and comes first.
                decision = self._rooms.choose(each.asked)
                if isinstance(decision, Plan):
                    self._rooms.reserve(uid, decision)
                yield each.answered(each.asked.decided(decision, fleet.prices, now=now))
        for uid, run_time_s in self._retimed:
            run_time = None if run_time_s is None else duration_text(timedelta(seconds=run_time_s))
            yield Retimed(there[uid].placement.key, uid, run_time)
        self._returning.keep_room(fleet, now, barred)
        stirred = self._is_stirred(of_last, asked, last, picture, fleet, rules)
        if stirred:
            self.engine.capacity_changed()
        decisions = self.desk.step(now.timestamp())
        due_s = self._due_s(asked, now) if stirred else of_last.due_s
        this = self._decided(decisions, untold, rules, due_s)
        back = self._returning.decide(fleet, now, barred)
        if back is not None:
            self._touch({back.uid})
        metrics.ROUND_S.observe(max(0.0, self._clock() - started_s))
        for decided in decisions:
            if isinstance(decided, Admit):
                plan = decided.placed.plan
                assert isinstance(plan, Plan)
                yield self._answers.answered(asked[decided.uid], plan, fleet, now)
            elif isinstance(decided, Lend):
                plan = decided.placed.plan
                assert isinstance(plan, Plan)
                yield self._answers.answered(
                    asked[decided.uid], plan, fleet, now, loan=decided.loan
                )
            elif isinstance(decided, Renew | Recall | Return | Settle):
                place = there[decided.uid].placement.key
                yield lending.told(decided, place, self._store)
            elif isinstance(decided, Preempt):
                untold += decided.victims
        for uid in dict.fromkeys(untold):
            yield self._answers.evict(uid, there)
        if back is not None:
            yield back
        anew = stirred or bool(decisions)
        for answered in self._answers.waiting(asked, fleet, now, anew=anew):
            yield answered
        in_line = [e for e in asked.values() if e.asked.grows and (anew or e.uid not in last)]
        growing = Growing(self.engine, self._rooms) if in_line else None
        for each in sorted(in_line, key=lambda each: (-each.item.priority, each.item.sequence)):
            more = growing.more(each.asked, each.wish) if growing is not None else None
            if more is not None:
                self._touch({each.uid})
                yield self._answers.answered(each, more, fleet, now)
        self._last = this
        for listener in self._listeners:
            listener()

    def forget(self) -> None:
        """Have the next round read, compare and try everything, as the first one does."""
        self._placements.forget()
        self._touched, self._last = None, Round()
        self._asking = {}
        self._answers.forget()

    def next_s(self) -> float | None:
        """See `fleet.dispatch.planning.Planner`."""
        again = (self.desk.next_s(), self._returning.next_s(), self._last.due_s)
        times = [at for at in again if at is not None]
        return max(0.0, min(times) - self._now().timestamp()) if times else None

    def lets_save(self) -> bool:
        """See `fleet.dispatch.planning.Planner`."""
        return self.engine.lets_save()

    def foretell(
        self, questions: Sequence[Question], rules: Sequence[Object], *, measured: bool = False
    ) -> Outlook:
        """What would be decided about workloads, in that order, if they were there, and `rules`
        (FleetQuotas, LendingPolicies, PlacementPolicies, PriceBooks, Namespaces) were as given.
        Nothing is changed by it. `measured`: with what each decision is to be compared with.
        """
        fleet, now = self._givens.fleet(rules), self._now()
        policies = any(each["kind"] == PLACEMENT_POLICY.name for each in rules)
        self._read_all()
        quotas = self._quotas.given(rules)
        wanted, unsound = {}, dict[str, Invalid]()
        for number, question in enumerate(questions, self._store.sequencer.current + 1):
            try:
                found = self._asked(question, fleet, now, number=number, quotas=quotas)
            except Invalid as error:
                unsound[str(question.workload["metadata"]["uid"])] = error
                continue
            if found is not None:
                wanted[found.uid] = Wanted(found.asked, found.wish, found.item)
        ceilings = self._ceilings(quotas.claims, rules)
        picture = replace(self._picture(fleet, now, wanted), ceilings=ceilings)
        waiting = [
            self._read_again(each, fleet, now) if policies else each
            for each in self._asking.values()
        ]
        prospect = foretell(
            self.desk,
            picture,
            {each.uid: (each.asked, each.wish) for each in waiting},
            wanted,
            tree=quotas.tree,
            terms=quotas.terms,
            kept=self._returning.kept,
        )
        placements, comparisons, later = {}, {}, {}
        for each in prospect.told:
            asked = wanted[each.uid].asked
            at_last = each.later.plan or each.later.refusal if each.later is not None else None
            if at_last is not None:
                then = asked.decided(at_last, fleet.prices, now=now)
                later[each.uid] = {"spec": then.spec, "status": then.status}
            decision = each.plan or each.refusal
            if decision is not None and measured:
                comparisons[each.uid] = comparison_of(
                    asked, decision, each.among, fleet.prices, now=now, now_s=self._clock()
                )
            told: Plan | Refusal | Held | None = decision
            if each.why is not None and isinstance(told, Refusal):
                told = replace(told, message=told.message + spared(each.why, self._answers.name))
            if each.why is not None and each.why.reason not in OF_A_PLACE:
                item, book = wanted[each.uid].item, prospect.book
                words = because(
                    each.why, item, book, name=self._answers.name, foreseen=prospect.foreseen,
                    terms=quotas.terms,
                )  # fmt: skip
                told = Held(asked.demand, reason_of(each.why, item, book), words)
            if told is not None:
                decided = asked.decided(told, fleet.prices, now=now)
                status = counted_in(decided, wanted[each.uid].item.quota, now)
                status = with_loan(status, each.loan)
                placements[each.uid] = {"spec": decided.spec, "status": status}
        waits = self._waits_otherwise(prospect, quotas.terms)
        return Outlook(prospect, placements, self._answers.name, comparisons, later, unsound, waits)

    def _waits_otherwise(
        self, prospect: Prospect, terms: Sequence[Terms]
    ) -> dict[str, tuple[Reason, Reason]]:
        """Why each waits that would wait for something else, before and then."""
        found = {}
        for item, why in self.engine.waiting():
            then = prospect.waits.get(item.uid)
            if why is None or then is None:
                continue
            refusal = self._rooms.refusals.get(item.uid)
            before = self._reason(
                Waiting(item, why, refusal),
                self.engine.book,
                self.desk.terms,
                self.engine.foreseen(),
            )
            after = self._reason(then, prospect.book, terms, prospect.foreseen)
            if before.word != after.word:
                found[item.uid] = before, after
        return found

    def _reason(
        self, waits: Waiting, book: Book, terms: Sequence[Terms], foreseen: Mapping[str, float]
    ) -> Reason:
        item, why, refusal = waits
        if why.reason in OF_A_PLACE and refusal is not None:
            return Reason(refusal.word, refusal.message)
        told = because(why, item, book, name=self._answers.name, foreseen=foreseen, terms=terms)
        return Reason(reason_of(why, item, book), told)

    def seats(self, questions: Sequence[Question]) -> dict[str, Plan | Refusal | Why | Invalid]:
        """By UID, where work goes that somebody else carries out, or why it goes nowhere now."""
        fleet, now = self._givens.fleet(), self._now()
        self._read_all()
        wanted: dict[str, Wanted] = {}
        found: dict[str, Plan | Refusal | Why | Invalid] = {}
        for number, question in enumerate(questions, self._store.sequencer.current + 1):
            uid = question.workload["metadata"]["uid"]
            try:
                asked = self._asked(question, fleet, now, number=number, quotas=NO_QUOTAS)
            except Invalid as error:
                found[uid] = error
                continue
            if asked is not None:
                item = replace(asked.item, preempts=False, least=None)
                wanted[uid] = Wanted(asked.asked, asked.wish, item)
        waiting = {uid: (each.asked, each.wish) for uid, each in self._asking.items()}
        picture, kept = self._picture(fleet, now), self._returning.kept
        return found | seats(self.engine, picture, waiting, wanted, kept)

    def path_of(self, uid: str) -> str:
        """A workload as `namespace/kind/name`; its uid where it is not known."""
        return self._answers.path_of(uid)

    # -- what there is

    def _bring(
        self,
        asked: Mapping[str, Asking],
        picture: Picture,
        fleet: Fleet,
        now: datetime,
        among: set[str] | None,
    ) -> list[str]:
        """Have the engine know what is so: of those `among` all."""
        now_s = now.timestamp()
        self._rooms.begin(picture, {uid: (each.asked, each.wish) for uid, each in asked.items()})
        saved, before = self._books.saved_s(now=now_s), self._saved
        self._saved = saved
        if among is not None:
            among |= {uid for uid, _ in saved.items() ^ before.items()}
        waiting = {
            uid: Waits(each.item, each.asked.queued_at.timestamp(), each.preempted)
            for uid, each in asked.items()
            if among is None or uid in among
        }
        holding = {}
        policies = by_name(fleet.policies)
        self._retimed.clear()
        self._to_come.clear()
        by_uid = self._placements.by_uid
        for uid in sorted(among & by_uid.keys()) if among is not None else by_uid:
            read = by_uid[uid]
            held = read.standing(now_s) if uid not in waiting else None
            if held is not None and read.wish is not None:
                run_time_s = before_s = held.run_time_s
                checkpoint, saved_s = None, saved.get(uid)
                if read.expectation is not None:
                    run_time_s = read.expectation.seconds(policies, before_s=before_s)
                    checkpoint = read.expectation.checkpoint(policies)
                    saved_s = newest_s([saved_s, read.expectation.saved_s], now=now_s)
                    if (read.expectation.saved_s or 0.0) > now_s:
                        self._to_come.add(uid)
                if run_time_s != before_s:
                    self._retimed.append((uid, run_time_s))
                item = self._item(uid, read, read.wish, fleet, run_time_s=run_time_s)
                if checkpoint is not None:
                    item = replace(
                        item,
                        saves_every_s=checkpoint.every.total_seconds(),
                        restart_s=checkpoint.restart.total_seconds(),
                    )
                holding[uid] = Holds(item, held, saved_s)
        self._count_others()
        untold = bring(self.engine, waiting, holding, now_s, among=among)
        self.desk.hold(
            loan for loan in self._placements.loans() if loan.uid in self.engine.running()
        )
        return untold

    def _among(
        self,
        before: Round,
        asked: Mapping[str, Asking],
        last: Mapping[str, Asking],
        rules: Rulings,
    ) -> set[str] | None:
        """Of whom something may have changed since the last round; None: of anybody."""
        touched, self._touched = self._touched, set()
        if touched is None or not before.under(rules):
            return None
        touched.update(self._placements.leaving())
        touched.update(last.keys() - asked.keys())
        touched.update(
            uid
            for uid, each in asked.items()
            if (known := last.get(uid)) is not each
            and (known is None or known.waits_as != each.waits_as)
        )
        return touched

    def _is_stirred(
        self,
        before: Round,
        asked: Mapping[str, Asking],
        last: Mapping[str, Asking],
        picture: Picture,
        fleet: Fleet,
        rules: Rulings,
    ) -> bool:
        """Whether anybody who waits may be answered otherwise than in the round before. What
        depends on sums that change with time, or on what extensions think, always may."""
        now_s, until_s, due_s = picture.now.timestamp(), self.engine.settled_s, before.due_s
        return (
            not before.at_rest
            or not before.under(rules)
            or before.changes != self._rooms.changes
            or until_s is None
            or now_s >= until_s
            or (due_s is not None and now_s >= due_s)
            or picture.ceilings is not NO_CEILINGS
            or bool(picture.occupancy)
            or bool(fleet.extensions.decide)
            or any(e.asked.running is not None and not e.asked.grows for e in asked.values())
            or any(
                not each.asked.asks_the_same(known.asked)
                for uid, each in asked.items()
                if (known := last.get(uid)) is not None
            )
        )

    def _decided(
        self,
        decisions: Sequence[Decision | LoanDecision],
        untold: Sequence[str],
        rules: Rulings,
        due_s: float | None,
    ) -> Round:
        """What the next round is to be held against."""
        self._touch({*untold, *self._to_come, *(uid for uid, _ in self._retimed)})
        for each in decisions:
            self._touch({each.uid, *(each.victims if isinstance(each, Preempt) else ())})
        return Round(
            at_rest=all(isinstance(each, Wait) for each in decisions) and not untold,
            rules=rules,
            changes=self._rooms.changes,
            due_s=due_s,
        )

    def _due_s(self, asked: Mapping[str, Asking], now: datetime) -> float | None:
        """When the first of those that wait may be answered otherwise by time alone."""
        due = (each.asked.next_s(now.timestamp()) for each in asked.values())
        return min((at for at in due if at is not None), default=None)

    def _touch(self, uids: set[str] | None) -> None:
        """Of whom something may have changed; None: of anybody."""
        self._touched = None if uids is None or self._touched is None else self._touched | uids

    def _count_others(self) -> None:
        """What members run that the fleet did not give them counts at their namespaces' quotas."""
        use: dict[tuple[str, str], list[Mapping[Key, int]]] = {}
        for namespace, quota in self.claims.quota.items():
            if quota in self.engine.book.tree.nodes:
                for member, taken in self._books.taken_by_others(namespace).items():
                    amounts = {Key(*key): amount for key, amount in taken.items()}
                    use.setdefault((quota, member), []).append(amounts)
        for node, member in {*use, *self.engine.book.unmanaged}:
            self.engine.set_unmanaged(node, member, total(use.get((node, member), ())))

    def _picture(
        self, fleet: Fleet, now: datetime, wanted: Mapping[str, Wanted] | None = None
    ) -> Picture:
        """`wanted` are those that are asked about and not there."""
        there: dict[str, tuple[str, Object]] = {}
        if any(terms.exclusive for terms in self.desk.terms):
            read = self._placements.by_uid.items()
            there = {uid: (each.placement.namespace, each.status) for uid, each in read}
        for uid, each in (wanted or {}).items():
            there[uid] = each.asked.demand.workload.namespace, each.asked.before
        return Picture(
            fleet.clusters,
            self._promised(),
            fleet.prices,
            now,
            self._clock(),
            self._books.taken_by,
            self._ceilings(self.claims, ()),
            lending.occupancy(self.desk, self._books, self.claims, there),
        )

    def _promised(self) -> Promises:
        promises = self._placements.promises
        for uid in self._guests_promised - self.guests.keys():
            promises.put(uid)
        for uid, ledger in self.guests.items():
            promises.put(uid, ledger)
        self._guests_promised = set(self.guests)
        return promises

    def _read_again(self, each: Asking, fleet: Fleet, now: datetime) -> Asking:
        """What waits, under other policies; as it was read where they do not suit it."""
        try:
            return self._asked(each.question, fleet, now) or each
        except Invalid:
            return each

    def _asked(
        self,
        question: Question,
        fleet: Fleet,
        now: datetime,
        *,
        before: Mapping[str, Asking] = MappingProxyType({}),
        number: int = 0,
        quotas: Quotas | None = None,
    ) -> Asking | None:
        """None for what is not stored as it is asked about; `number` is the place in line, within
        its second, of what has none yet; `quotas` are those as they would be. Raises Invalid."""
        quotas = quotas or self._quotas.quotas
        known = before.get(str(question.workload["metadata"].get("uid", "")))
        if known is not None and known.holds(question, fleet, quotas.claims):
            return known if known.question is question else known._replace(question=question)
        if not (question.lost or question.stays):  # that was admitted once
            quotas.admit(question.workload)
        asked = asked_of(
            question.workload,
            question.placement,
            fleet,
            now=now,
            lost=question.lost,
            stays=question.stays,
            grows=question.grows,
            barred=question.barred,
            unsplittable=question.unsplittable,
        )
        wish = standing.wish_of(question.workload)
        if wish is None:
            return None
        item = item_of(
            asked,
            wish,
            quota=quotas.claims.quota.get(asked.demand.workload.namespace, ""),
            sequence=standing.sequence_of(
                asked.queued_at.timestamp(), asked.before.get("arrival") or number
            ),
            preempts=Urgency.of(question.workload).preempts(fleet),
        )
        preempted = bool(asked.before.get("preemptedFor"))
        return Asking(question, asked, wish, item, preempted, fleet, quotas.claims)

    def _item(
        self, uid: str, read: Reading, wish: Wish, fleet: Fleet, *, run_time_s: float | None
    ) -> Item:
        """Of what has a place. Policies have no say any more in what it asks for."""
        run = self.engine.running().get(uid)
        if read.urgency is None and run is not None:
            return replace(run.whole, run_time_s=run_time_s)
        return Item(
            uid=uid,
            quota=self.claims.quota.get(read.placement.namespace, ""),
            priority=read.urgency.value(fleet) if read.urgency is not None else 0,
            sequence=read.sequence,
            requests=read.whole,
            shape=uid,
            run_time_s=run_time_s,
            pods=sum(wish.pods.values()),
            preempts=read.urgency is not None and read.urgency.preempts(fleet),
        )

    def _read_all(self) -> None:
        """What is stored of all that has a place, and of the quotas that count it."""
        self._touch(self._placements.read())
        begins = self._quotas.unread
        if self._quotas.read():
            self.desk.change(self._quotas.quotas.tree, self._quotas.quotas.terms)
        if begins:
            for name, recent in self._quotas.taken_back():
                self.engine.took_back(name, recent)

    def _donor_of(self, policy: str) -> str:
        """Who lends by a LendingPolicy, as the work says that has a loan by it."""
        loans = self._placements.loans()
        return next((each.donor for each in loans if each.policy == policy), "")


class Reason(NamedTuple):
    """Why something waits, in a word and in a sentence."""

    word: str
    message: str


class Outlook(NamedTuple):
    """What would be decided, with the Placement that each would have, by uid; `name` gives what a
    uid stands for. `comparisons` of those that may be held against the optimum, where asked for;
    `later` has the Placements of those that wait for a later tier, as they would be then;
    `unsound` says why others are not placed: what they name is not there, or cannot be; `waits` why
    work that waits already does, before and then, where that would be something else."""

    prospect: Prospect
    placements: dict[str, Object]
    name: Callable[[str], str]
    comparisons: dict[str, Comparison]
    later: Mapping[str, Object] = MappingProxyType({})
    unsound: Mapping[str, Invalid] = MappingProxyType({})
    waits: Mapping[str, tuple[Reason, Reason]] = MappingProxyType({})
