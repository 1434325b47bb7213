"""Workloads that wait for a place, decided about together, and those that have to go for them.

One task asks the planner about all that wait and stores each answer before it takes the next, so
that no two plans are made of the same room (karmada#1385). It goes round when something changed
that could give a place – capacity, a member, a policy, another workload that let go – and never
only because time has passed, unless the planner or a bar named the time.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.dispatch import amiss, elastic
from fleet.dispatch import record as records
from fleet.dispatch.kinds import KINDS
from fleet.dispatch.planning import Evict, OnLoan, Question, Refused, Retimed
from fleet.errors import ApiError, Conflict, FleetError, NotFound
from policies import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from fleet.dispatch.bars import Bars
    from fleet.dispatch.billing import Bill
    from fleet.dispatch.chronicle import Chronicle
    from fleet.dispatch.openings import Openings
    from fleet.dispatch.planning import Answer, Answered, Planner, Said, Step
    from fleet.dispatch.reconciler import Key
    from fleet.dispatch.record import Record, Shard
    from fleet.dispatch.shape import Workload
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore
    from policies.placement import Fencing, Phase

log = logging.getLogger(__name__)

Object = dict[str, Any]

_SETTLE_S: Final = 0.1  # news comes in crowds
_OFTEN: Final = frozenset({"QuotaExceeded", "TierNotYet"})
"""Reasons whose message changes with whatever starts or ends, or with time: one Event is enough."""
_AFTER_TROUBLE_S: Final = 10.0
_AFTER_FAULT_S: Final = 60.0


class Waiting:
    def __init__(
        self,
        store: ObjectStore,
        *,
        planner: Planner,
        bars: Bars,
        barred: Callable[[str], Mapping[str, str]],
        openings: Openings,
        found: Callable[[Key], None],
        chronicle: Chronicle,
        bill: Bill,
        now: Callable[[], float],
    ) -> None:
        """`barred` says of a namespace which clusters do not take its work, and why; `found` is
        told of a workload that there is an opening for."""
        self._store = store
        self._planner = planner
        self._bars = bars
        self._barred = barred
        self._openings = openings
        self._found = found
        self._chronicle = chronicle
        self._bill = bill
        self._now = now
        self._keys: dict[Key, None] = {}
        self._known: dict[Key, _Waits] = {}
        """What was read of them, until one of its objects changes."""
        self._stands: dict[Key, Answered] = {}
        """Answers that their Placements say already."""
        self._news = asyncio.Event()

    def add(self, key: Key) -> None:
        """The workload wants a plan."""
        if key not in self._keys:
            self._keys[key] = None
            self._news.set()

    def discard(self, key: Key) -> None:
        """It wants none any more."""
        if key in self._keys:
            del self._keys[key]
            self._known.pop(key, None)
            self._stands.pop(key, None)
            self._news.set()

    def changed(self) -> None:
        """Something may have made room, or changed what is in use."""
        self._news.set()

    async def run(self) -> None:
        """Ask whenever there is news, until cancelled."""
        again_s: float | None = None
        while True:
            try:
                async with asyncio.timeout(again_s):
                    await self._news.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(_SETTLE_S)
            self._news.clear()
            try:
                again_s = await self.round()
            except Exception:
                log.exception("nothing could be planned")
                again_s = _AFTER_FAULT_S

    async def round(self) -> float | None:
        """Have decided about everything that waits. Returns when to ask again at the latest."""
        asked = {each.workload.uid: each for each in self._questions()}
        waits = [self._bars.next_s(uid) for uid in asked]
        questions = [each.question for each in asked.values()]
        async for step in self._planner.round(questions, barred=self._lasting_bars_of):
            try:
                waits.append(await self._store_step(asked, step))
            except (Conflict, NotFound):
                # Changed meanwhile: it is decided anew in the next round. Nothing else may tell of
                # what is written to work that runs.
                if isinstance(step, Evict | OnLoan):
                    waits.append(_AFTER_TROUBLE_S)
            except FleetError as error:
                log.warning("what was planned could not be stored: %s", error)
                waits.append(_AFTER_TROUBLE_S)
            except Exception:
                log.exception("what was planned could not be stored")
                waits.append(_AFTER_FAULT_S)
        waits.append(self._planner.next_s())
        return min((each for each in waits if each is not None), default=None)

    def _questions(self) -> list[_Waits]:
        found = []
        for key in list(self._keys):
            waits = self._read(key)
            if waits is None:
                self.discard(key)
            else:
                self._known[key] = waits
                found.append(waits)
        return found

    def _read(self, key: Key) -> _Waits | None:
        """None for what does not wait any more."""
        entry = self._store.get(key.resource, key.namespace, key.name)
        placement = self._store.get(PLACEMENT.resource, key.namespace, key.placement)
        if entry is None or placement is None:
            return None
        known = self._known.get(key)
        if known is not None and known.of(entry, placement):
            barred = self._barred_for(known.workload, known.before, known.stuck)
            if barred == known.question.barred:
                return known
            return known._replace(question=replace(known.question, barred=barred))
        workload = KINDS[key.kind].read(entry.parse())
        stored = placement.parse()
        before = records.read(stored.get("status") or {})
        ask = workload.ask()
        grows = elastic.grows(before, workload.obj, workload.nodes)
        stuck = amiss.leaving(before, self._now()) if ask.moves and not grows else ()
        if (
            stored["spec"]["workload"]["uid"] != workload.uid
            or not (before.waiting or grows or stuck)
            or before.unfenced(self._now())
            or ask.suspended
            or ask.deleting
        ):
            return None
        lost = frozenset(e.cluster for e in before.shards if e.state in ("Lost", "Evicted"))
        question = Question(
            workload=workload.obj,
            placement=stored,
            lost=lost | amiss.taken_along(before, stuck) if stuck else lost,
            barred=self._barred_for(workload, before, stuck),
            stays=grows or bool(stuck) or before.phase == "Lost",
            grows=grows,
            unsplittable=workload.unsplittable(),
        )
        return _Waits(key, entry, workload, placement, before, question, stuck)

    def _barred_for(
        self, workload: Workload, record: Record, stuck: Collection[Shard]
    ) -> dict[str, str]:
        """Why each cluster that it cannot have now is none to plan for."""
        closed, bars = self._barred(workload.namespace), self._bars.of(workload.uid)
        return {**closed, **bars, **amiss.barring(stuck), **record.unheard}

    def _lasting_bars_of(self, namespace: str, uid: str) -> Mapping[str, str]:
        """Of what runs: which clusters it is not ended for."""
        return {**self._barred(namespace), **self._bars.lasting(uid)}

    async def _store_step(self, asked: Mapping[str, _Waits], step: Step) -> float | None:
        """Returns when to ask again. Raises Conflict."""
        if isinstance(step, Evict | OnLoan | Retimed):
            await self._change(step)
            return None
        waits = asked[step.question.workload["metadata"]["uid"]]
        if waits.stuck:
            return self._note_opening(waits, step)
        if isinstance(step, Refused):
            await self._refuse(waits.workload, waits.placement, waits.before, step.error)
            return None
        answer = step.answer
        if self._stands.get(waits.key) is step:
            return answer.retry_after_s
        if not await self._store_answer(waits.workload, waits.placement, waits.before, answer):
            self._stands[waits.key] = step
        if answer.placed:
            answer.stored()
            self.discard(waits.key)
            if answer.said is not None:
                await self._tell(waits.workload.obj, answer.said)
            return None
        return answer.retry_after_s

    def _note_opening(self, waits: _Waits, step: Answered | Refused) -> float | None:
        """Of one that runs on as it is until there is another place for its pods without a node:
        nothing is stored, since what it has there has to end first."""
        if isinstance(step, Refused):
            return None
        told = records.read(step.answer.status)
        ranks = sum(each.count for each in told.shards)
        if step.answer.placed and amiss.is_better(waits.before, waits.stuck, ranks):
            self.discard(waits.key)
            clusters = frozenset(each.cluster for each in waits.stuck)
            self._openings.put(waits.workload.uid, clusters)
            self._found(waits.key)
        return step.answer.retry_after_s

    async def _change(self, step: Evict | OnLoan | Retimed) -> None:
        """Write down what it is told; the reconciler ends it, or gives it notice."""
        told: list[Object] = []

        def change(obj: Object) -> Object | None:
            told.clear()
            status = obj.get("status") or {}
            record = records.read(status)
            if obj["spec"]["workload"]["uid"] != step.uid or record.preempted_for or (
                record.ended or not record.shards
            ):  # fmt: skip
                return None
            if isinstance(step, Evict):
                changed = records.preempted(status, step.other)
            elif isinstance(step, OnLoan):
                changed = records.on_loan(status, step.loan)
            else:
                changed = records.retimed(status, step.run_time)
            if changed == status:
                return None
            told.append(obj["spec"]["workload"])
            return {**obj, "status": changed}

        namespace, name = step.placement
        await self._store.rewrite(PLACEMENT.resource, namespace=namespace, name=name, change=change)
        if isinstance(step, Retimed):
            return  # whoever said so knows it
        if told:
            step.stored()
        for reference in told:
            about = {**reference, "metadata": {**reference, "namespace": namespace}}
            await self._tell(about, step.said)

    async def _tell(self, about: Object, said: Said) -> None:
        await self._chronicle.tell(about, said.type, said.reason, said.message)

    async def _store_answer(
        self, workload: Workload, placement: Entry, before: Record, answer: Answer
    ) -> bool:
        """The answer with what is the record's own kept; whether anything of it is new. Raises
        Conflict."""
        now = self._now()
        told = records.read(answer.status)
        after = replace(
            told,
            phase=before.phase,
            since=before.since,
            owed=before.owed,
            failures=before.failures,
            budget=before.budget,
            known=before.known,
            lease_s=answer.lease_s if answer.placed else before.lease_s,
            fencing=_fencing(workload, answer) if answer.placed else before.fencing,
            offsets=answer.offsets if answer.placed else before.offsets,
            preempted_for="" if answer.placed else before.preempted_for,
        )
        if answer.placed:
            after = elastic.with_more(before, after)
            _check(workload, before, after)
            planned = any(each.to_come for each in after.shards)
            phase: Phase = "QuotaHeld" if planned else "Committed"
            after = elastic.told(before, after.with_phase(phase, now, message=told.message))
        else:
            reason = _placed_reason(answer.status) or "NoRoom"
            after = replace(after, reason=reason, message=told.message)
            if answer.final:
                after = after.with_phase("Failed", now, reason=reason, message=told.message)
        return await self._write(workload, placement, before, after, answer.spec, answer.status)

    async def _refuse(
        self, workload: Workload, placement: Entry, before: Record, error: ApiError
    ) -> None:
        after = replace(before, reason="Invalid", message=error.message)
        stored = placement.parse()
        await self._write(
            workload, placement, before, after, stored["spec"], stored.get("status") or {}
        )

    async def _write(
        self,
        workload: Workload,
        placement: Entry,
        before: Record,
        after: Record,
        spec: Object,
        status: Object,
    ) -> bool:
        stored = placement.parse()
        written = self._bill.carry(stored.get("status") or {}, records.write(after, status))
        changed = {**stored, "spec": spec, "status": written}
        if changed == stored:
            return False
        await self._store.update(PLACEMENT.resource, changed, expected=placement.revision)
        told = (before.reason, before.message if after.reason not in _OFTEN else after.message)
        if (after.waiting or after.ended) and (after.reason, after.message) != told:
            await self._chronicle.tell(workload.obj, "Warning", after.reason, after.message)
        return True


class _Waits(NamedTuple):
    """One that waits, and what its question was made of."""

    key: Key
    entry: Entry
    workload: Workload
    placement: Entry
    before: Record
    question: Question
    stuck: tuple[Shard, ...] = ()
    """Of one that runs: parts whose pods have had no node for too long."""

    def of(self, entry: Entry, placement: Entry) -> bool:
        """Whether it was read off these. What it waits for by itself is over then, for good."""
        return self.entry is entry and self.placement is placement


def _check(workload: Workload, before: Record, after: Record) -> None:
    """A plan must be of a later generation and give every rank to one shard, of an elastic workload
    enough of them; anything else is a fault of the planner's, and carrying it out would break the
    gang."""
    ranks = sorted((each.first, each.count) for each in after.shards)
    covered, end, disjoint = 0, 0, True
    for first, count in ranks:
        disjoint = disjoint and first >= end and count >= 1
        end = first + count
        covered += count
    least = workload.nodes if after.least is None else min(after.least, workload.nodes)
    enough = least <= covered and end <= workload.nodes
    if not (disjoint and enough) or after.generation <= before.generation:
        raise ValueError(
            f"no plan for {workload.nodes} ranks after generation {before.generation}: "
            f"generation {after.generation} with {ranks}"
        )


def _fencing(workload: Workload, answer: Answer) -> Fencing:
    """As the policy says, where members can keep a lease of it; else only what was seen gone is."""
    return answer.fencing if workload.kind.lapses else "Confirmed"


def _placed_reason(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Placed":
            return str(condition.get("reason") or "")
    return ""
