"""What was decided, on its way to dispatch: Placements as they would be, and what they are told.

Of those that go on waiting each answer is kept: where nothing speaks against it, the very same is
given again, and nobody has to write it down twice. `placing` asks after each step; `fleet.dispatch`
stores what is answered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fleet.dispatch.planning import Evict, Said
from fleet.gateway import lending
from fleet.gateway import queue_metrics as metrics
from fleet.gateway.questions import Told
from fleet.scheduling.decisions import OF_A_PLACE
from fleet.scheduling.lending.classes import isolation_of
from fleet.scheduling.lending.record import written
from fleet.scheduling.planner import counted_in
from fleet.scheduling.reasons import because, reason_of, spared
from fleet.scheduling.record import Held

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from fleet.dispatch.planning import Answered
    from fleet.gateway.placements import Placements, Reading
    from fleet.gateway.questions import Asking
    from fleet.scheduling.decisions import Why
    from fleet.scheduling.lending.desk import Desk
    from fleet.scheduling.lending.loans import Loan
    from fleet.scheduling.placement import Plan, Refusal
    from fleet.scheduling.planner import Fleet
    from fleet.scheduling.rooms import Rooms

Object = dict[str, Any]


class Answers:
    """See the module."""

    def __init__(self, placements: Placements, rooms: Rooms, desk: Desk) -> None:
        self._placements = placements
        self._rooms = rooms
        self._desk = desk
        self._told: dict[str, Told] = {}
        """What was answered in the last round to what goes on waiting, in order."""

    def forget(self) -> None:
        """Answer all anew the next time."""
        self._told = {}

    def answered(
        self,
        each: Asking,
        decision: Plan | Refusal | Held,
        fleet: Fleet,
        now: datetime,
        *,
        loan: Loan | None = None,
    ) -> Answered:
        decided = each.asked.decided(decision, fleet.prices, now=now)
        status = with_loan(counted_in(decided, each.item.quota, now), loan)
        apart = isolation_of(each.item.quota, self._desk.tree, self._desk.terms, loan)
        status = lending.kept_apart(status, apart if decided.placed else None)
        said = lending.lent(loan) if loan is not None else None

        def admitted() -> None:
            metrics.ADMITTED.inc()
            if loan is not None:
                metrics.LOANS_MADE.inc()

        return each.answered(replace(decided, status=status), said=said, stored=admitted)

    def waiting(
        self, asked: Mapping[str, Asking], fleet: Fleet, now: datetime, *, anew: bool
    ) -> Iterator[Answered]:
        """What those are told that go on waiting: where nothing is otherwise for any of them, and
        it was asked about as before, the very same as in the last round."""
        if anew:
            reasons = [(asked[item.uid], why) for item, why in self._desk.engine.waiting()]
        else:
            reasons = [(asked[uid], told.why) for uid, told in self._told.items()]
        before, self._told = self._told, {}
        for each, why in reasons:
            if why is None:
                continue
            refusal = self._rooms.refusals.get(each.uid) if why.reason in OF_A_PLACE else None
            told = before.get(each.uid)
            if told is None or not told.stands(each, why, refusal, anew=anew):
                answered = self.answered(each, self._waits(each, why), fleet, now)
                if told is not None and told.says(answered):
                    answered = told.answered
                told = Told(each, why, refusal, answered)
            elif told.asking is not each:
                answered = replace(told.answered, question=each.question)
                told = Told(each, why, refusal, answered)
            self._told[each.uid] = told
            yield told.answered

    def _waits(self, each: Asking, why: Why) -> Refusal | Held:
        refusal = self._rooms.refusals.get(each.uid)
        if why.reason in OF_A_PLACE and refusal is not None:
            more = spared(why, self.name)
            return replace(refusal, message=refusal.message + more) if more else refusal
        victims = []
        if why.reason == "Evicting":
            running = self._desk.engine.running().items()
            victims = [uid for uid, run in running if run.leaving_for == each.uid]
        book, foreseen = self._desk.engine.book, self._desk.engine.foreseen()
        message = because(
            why, each.item, book, name=self.name, victims=victims, foreseen=foreseen,
            terms=self._desk.terms,
        )  # fmt: skip
        return Held(each.asked.demand, reason_of(why, each.item, book), message)

    def path_of(self, uid: str) -> str:
        """A workload as `namespace/kind/name`; its uid where it is not known."""
        read = self._placements.by_uid.get(uid)
        if read is None:
            return uid
        return f"{read.placement.namespace}/{read.told['kind']}/{read.told['name']}"

    def name(self, uid: str) -> str:
        """What a workload is called in a sentence."""
        read = self._placements.by_uid.get(uid)
        if read is None:
            return uid
        told = read.told
        return f"{told['kind'].lower()} {read.placement.namespace}/{told['name']}"

    def evict(self, uid: str, there: Mapping[str, Reading]) -> Evict:
        """It was told to go for another; `there` are both."""
        read = there[uid]
        run = self._desk.engine.running()[uid]
        other = there[run.leaving_for]
        told: Object = {
            "kind": other.told["kind"],
            "namespace": other.placement.namespace,
            "name": other.told["name"],
            "uid": run.leaving_for,
        }
        said = Said("Warning", "Preempted", f"has to end for {self.name(run.leaving_for)}")
        return Evict(read.placement.key, uid, told, said, metrics.PREEMPTED.inc)


def with_loan(status: Object, loan: Loan | None) -> Object:
    """The status of work that gets a place, or none: what it had on loan before is over."""
    left = {name: value for name, value in status.items() if name != "loan"}
    return left if loan is None else {**left, "loan": written(loan)}
