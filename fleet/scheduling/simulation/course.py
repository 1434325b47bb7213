"""The course of a scenario: work arrives, starts, is evicted, ends, in virtual milliseconds.

The engine and the placer that decide are the gateway's, asked as the gateway asks them; here is
only what members and users would do. What is admitted runs its time; what is evicted leaves when
its grace period is over, keeps what it had saved by its policy's `checkpoint`, and waits again. No
clock is read and nothing is drawn at random. Next step: `outcome` sums up what was noted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Invalid
from fleet.scheduling import standing
from fleet.scheduling.counted import total
from fleet.scheduling.decisions import Admit, Preempt, Refuse, Wait
from fleet.scheduling.engine import Engine
from fleet.scheduling.lending.classes import class_of
from fleet.scheduling.lending.desk import Desk
from fleet.scheduling.lending.loans import Lend, Return
from fleet.scheduling.lending.occupancy import User
from fleet.scheduling.lending.record import loan_of
from fleet.scheduling.lending.spare import Spare
from fleet.scheduling.placement import Plan
from fleet.scheduling.placer import Placed
from fleet.scheduling.planner import Urgency, asked_of, item_of
from fleet.scheduling.quota.tree import Key
from fleet.scheduling.reasons import because, reason_of
from fleet.scheduling.record import shards_of
from fleet.scheduling.returning import Returns, away_of
from fleet.scheduling.simulation.bills import Bills
from fleet.scheduling.simulation.inventory import unmanaged
from fleet.scheduling.simulation.members import Members
from fleet.scheduling.simulation.notes import History, Stopped, Use
from fleet.scheduling.simulation.works import at_ms
from policies.scalars import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from fleet.scheduling.capacity import PodKind
    from fleet.scheduling.decisions import Why
    from fleet.scheduling.lending.loans import Loan
    from fleet.scheduling.lending.occupancy import Users
    from fleet.scheduling.placement import Shard
    from fleet.scheduling.placer import Item
    from fleet.scheduling.planner import Asked
    from fleet.scheduling.queue.rules import Rules
    from fleet.scheduling.returning import Away
    from fleet.scheduling.simulation.scenario import Scenario
    from fleet.scheduling.simulation.works import Work
    from fleet.scheduling.standing import Standing, Wish

_ENDS, _LEAVES, _ARRIVES, _LOOKS = range(4)
_QUIET_MS: Final = 32 * 24 * 3_600_000
"""Nothing that is waited for is further away: a budget begins anew with the month."""
_LOOKS_IN_VAIN: Final = 10_000


@dataclass(slots=True)
class _Job:
    """A workload on its way."""

    work: Work
    wish: Wish
    sequence: int
    history: History
    asked: Asked
    generation: int = 0
    ran_in: tuple[str, ...] = ()
    tier: int = 1
    """The latest that it runs in."""
    left_ms: int | None = None
    """Of its run, what is not done and saved; None: it runs on."""
    restart_ms: int = 0
    """What it takes to go on from a checkpoint, if it has one."""
    started_ms: int | None = None
    leaving: bool = False
    token: int = 0
    """Of the run that an end belongs to."""


@dataclass(frozen=True, slots=True)
class Played:
    """All that was noted until `end_ms`."""

    scenario: Scenario
    end_ms: int
    histories: tuple[History, ...]
    use: Use
    bills: Bills


def play(
    scenario: Scenario,
    *,
    rules: Rules | None = None,
    until_ms: int | None = None,
    tell: Callable[[int], None] = lambda at_ms: None,
) -> Played:
    """Until all has ended or nothing more happens, or until a time. `tell` is told the time
    whenever it moves, for those who wait."""
    return _Course(scenario, rules).play(until_ms, tell)


class _Course:
    def __init__(self, scenario: Scenario, rules: Rules | None) -> None:
        self._scenario = scenario
        self._members = Members(
            scenario.clusters, scenario.fleet.prices, classes=_classes(scenario),
            others=_others(scenario),
        )  # fmt: skip
        self._engine = Engine(scenario.tree, self._members.placer, rules=rules)
        self._jobs: dict[str, _Job] = {}
        self._asking: dict[str, tuple[Asked, Wish]] = {}
        self._events: list[tuple[int, int, int, str, int]] = []
        self._pushed = 0
        self._real = 0
        """Events in the queue that are more than looks."""
        self._looks: set[int] = set()
        self._returns = Returns()
        self._now_ms = 0
        self._use = Use(scenario)
        self._bills = Bills(scenario)
        self._histories: list[History] = []
        self._loans: list[Loan] = []
        self._admit_present()
        placer = self._members.placer
        self._desk = Desk(
            self._engine, placer, scenario.tree, scenario.terms, loans=self._loans,
            members=Spare(
                placer, lambda donor: self._desk.keys_of(donor),
                work_of=lambda donor: self._desk.work_of(donor),
            ),
        )  # fmt: skip

    def play(self, until_ms: int | None, tell: Callable[[int], None]) -> Played:
        last_ms, in_vain = 0, 0
        while self._events and (until_ms is None or self._events[0][0] <= until_ms):
            at_ms = self._events[0][0]
            if not self._real and (at_ms - last_ms > _QUIET_MS or in_vain > _LOOKS_IN_VAIN):
                break
            self._use.pass_to(at_ms, self._members, self._engine)
            self._now_ms = at_ms
            tell(at_ms)
            had = self._real
            while self._events and self._events[0][0] == at_ms:
                _, what, _, uid, token = heappop(self._events)
                self._real -= what != _LOOKS
                self._happen(what, uid, token)
            moved = had != self._real
            moved = self._decide() or moved
            last_ms, in_vain = (at_ms, 0) if moved else (last_ms, in_vain + 1)
            self._look_again()
        end_ms = max(last_ms, until_ms or 0) if self._unfinished() else last_ms
        self._use.pass_to(end_ms, self._members, self._engine)
        self._now_ms = end_ms
        self._close()
        return Played(
            self._scenario, end_ms, tuple(self._histories), self._use, self._bills
        )  # fmt: skip

    # -- time

    @property
    def _now(self) -> datetime:
        return self._scenario.start + timedelta(milliseconds=self._now_ms)

    @property
    def _now_s(self) -> float:
        return self._scenario.start.timestamp() + self._now_ms / 1000

    def _push(self, at_ms: int, what: int, uid: str = "", token: int = 0) -> None:
        self._pushed += 1
        self._real += what != _LOOKS
        heappush(self._events, (at_ms, what, self._pushed, uid, token))

    def _look_at(self, at_s: float | None) -> None:
        """Ask again at a time, although nothing happens then."""
        if at_s is None:
            return
        at_ms = -int(-(at_s - self._scenario.start.timestamp()) * 1000 // 1)
        at_ms = max(self._now_ms + 1, at_ms)
        if at_ms not in self._looks:
            self._looks.add(at_ms)
            self._push(at_ms, _LOOKS)

    def _look_again(self) -> None:
        self._looks.discard(self._now_ms)
        self._look_at(self._desk.next_s())
        self._look_at(self._returns.next_s())
        for uid, refusal in list(self._members.placer.refusals.items()):
            if uid not in self._asking:
                continue
            if refusal.final:
                self._refuse(self._jobs[uid], refusal.reason, refusal.message)
            elif refusal.retry_after_s is not None:
                self._look_at(self._now_s + refusal.retry_after_s)

    # -- what happens

    def _happen(self, what: int, uid: str, token: int) -> None:
        if what == _LOOKS:
            return
        job = self._jobs[uid]
        if what == _ARRIVES:
            self._submit(job)
        elif what == _ENDS and job.token == token and not job.leaving:
            self._stop(job, Stopped.ENDED)
            self._gone(job)
            self._engine.finish(uid)
        elif what == _LEAVES and job.token == token:
            self._leave(job)

    def _submit(self, job: _Job) -> None:
        self._asking[job.work.uid] = (job.asked, job.wish)
        since_s = min(self._now_s, job.asked.queued_at.timestamp())
        self._engine.submit(self._item(job), since_s)

    def _leave(self, job: _Job) -> None:
        """It was evicted, and nothing of it runs any more: it waits in the place it had."""
        uid = job.work.uid
        self._gone(job)
        job.leaving = False
        job.asked = self._ask(job)
        self._asking[uid] = (job.asked, job.wish)
        self._engine.evicted(uid, self._now_s)

    def _gone(self, job: _Job) -> None:
        self._members.leave(job.work.uid)
        self._bills.end(job.work.uid, self._now)

    def _stop(self, job: _Job, how: Stopped) -> None:
        """It does no work any more."""
        assert job.started_ms is not None
        ran_ms, lost_ms = self._now_ms - job.started_ms, 0
        if how is not Stopped.ENDED and job.left_ms is not None:
            checkpoint = job.asked.policy.spec.objective.checkpoint
            every_ms = _in_ms(checkpoint.every) if how is Stopped.EVICTED else 1
            saved_ms = max(0, ran_ms - job.restart_ms) // max(1, every_ms) * max(1, every_ms)
            lost_ms = ran_ms - saved_ms
            job.left_ms -= saved_ms
            if saved_ms:
                job.restart_ms = _in_ms(checkpoint.restart)
        job.history.stop(self._now_ms, how, lost_ms=lost_ms)
        job.started_ms = None
        job.token += 1

    def _refuse(self, job: _Job, reason: str, message: str) -> None:
        uid = job.work.uid
        self._asking.pop(uid, None)
        self._engine.withdraw(uid)
        job.history.refused = True
        job.history.waits = (reason, message)

    # -- what is decided

    def _decide(self) -> bool:
        """Whether anything was."""
        self._members.look(
            self._asking, now=self._now, ceilings=self._bills.ceilings(self._now)
        )  # fmt: skip
        self._engine.capacity_changed()  # as at the beginning of the gateway's rounds
        decided = self._desk.step(self._now_s)
        for each in decided:
            match each:
                case Admit() | Lend():
                    self._start(self._jobs[each.uid], each.placed)
                    if isinstance(each, Lend):
                        self._jobs[each.uid].history.lent += 1
                case Preempt():
                    for uid in each.victims:
                        self._evict(self._jobs[uid])
                case Return():
                    self._evict(self._jobs[each.uid], noticed=True)
                case Refuse():
                    self._refuse(self._jobs[each.uid], reason_of(each.why), str(each.why))
        back = self._returns.due(
            self._away(), self._engine, self._members.placer, now_s=self._now_s
        )
        if back is not None:
            self._evict(self._jobs[back.uid])
            return True
        return any(not isinstance(each, Wait) for each in decided)

    def _away(self) -> Iterator[Away]:
        """What runs in a later tier and may go back."""
        for uid, run in self._engine.running().items():
            job = self._jobs[uid]
            movable = job.asked.policy.spec.clusters.return_after is not None
            if movable and job.tier > 1 and job.work.obj["kind"] == "Job":
                away = away_of(self._ask(job), run, job.tier, now_s=self._now_s)
                if away is not None:
                    yield away

    def _start(self, job: _Job, placed: Placed) -> None:
        plan = placed.plan
        assert isinstance(plan, Plan)
        uid = job.work.uid
        self._asking.pop(uid, None)
        self._members.seat(uid, plan)
        job.generation = plan.generation
        job.ran_in = tuple(shard.cluster for shard in plan.shards)
        job.tier = max(shard.tier for shard in plan.shards)
        job.started_ms = self._now_ms
        job.token += 1
        clusters = {shard.cluster: shard.pods for shard in plan.shards}
        job.history.start(self._now_ms, clusters)
        self._bills.begin(uid, job.history, plan, self._now)
        if job.left_ms is not None:
            self._push(self._now_ms + job.left_ms + job.restart_ms, _ENDS, uid, job.token)

    def _evict(self, job: _Job, *, noticed: bool = False) -> None:
        """`noticed`: its notice is over, so it had time to save."""
        if job.leaving or job.started_ms is None:
            return
        self._stop(job, Stopped.RETURNED if noticed else Stopped.EVICTED)
        job.leaving = True
        after_ms = 0 if noticed else job.work.grace_ms
        self._push(self._now_ms + after_ms, _LEAVES, job.work.uid, job.token)

    # -- what there is

    def _admit_present(self) -> None:
        """All work, and of it what runs already when it begins."""
        scenario = self._scenario
        order = sorted(
            scenario.works, key=lambda work: (self._queued(work), self._arrival(work), work.uid)
        )
        for sequence, work in enumerate(order):
            self._admit_one(work, sequence)
        for (quota, cluster), amounts in unmanaged(
            scenario.inventory, scenario.quota_of, Key
        ).items():
            if quota in scenario.tree.nodes:
                self._engine.set_unmanaged(quota, cluster, total(amounts))

    def _queued(self, work: Work) -> datetime:
        """Since when it waits, or will."""
        status = (self._scenario.placements.get(work.uid) or {}).get("status") or {}
        if said := status.get("queuedAt"):
            return parse_time(said)
        start = self._scenario.start
        return start + timedelta(milliseconds=at_ms(work.arrives, start))

    def _arrival(self, work: Work) -> int:
        """Its place within a second, where it is there already."""
        status = (self._scenario.placements.get(work.uid) or {}).get("status") or {}
        return int(status.get("arrival") or 0)

    def _admit_one(self, work: Work, sequence: int) -> None:
        scenario = self._scenario
        arrives_ms = at_ms(work.arrives, scenario.start)
        status = (scenario.placements.get(work.uid) or {}).get("status") or {}
        if status.get("phase") in ("Succeeded", "Failed"):
            return
        namespace = work.obj["metadata"]["namespace"]
        history = History(work, scenario.quota_of.get(namespace, ""), arrives_ms)
        self._histories.append(history)
        wish = standing.wish_of(work.obj)
        try:
            asked = self._asked_of(work, status)
        except Invalid as error:
            causes = error.details.causes if error.details is not None else ()
            told = "; ".join(f"{each.field}: {each.message}" for each in causes)
            history.refused = history.invalid = True
            history.waits = "Invalid", told or error.message
            return
        assert wish is not None
        history.pods = sum(wish.pods.values())
        history.amounts = wish.whole
        runs_ms = work.runs_ms
        if runs_ms is None and asked.demand.run_time_s is not None:
            runs_ms = round(asked.demand.run_time_s * 1000)
        job = _Job(work, wish, sequence, history, asked, left_ms=runs_ms)
        job.generation = int(status.get("generation", 0))
        self._jobs[work.uid] = job
        history.policy = asked.policy_name
        there = standing.standing_of(status, wish, now=scenario.start.timestamp())
        if there is not None and there.clusters.keys() <= self._members.clusters.keys():
            self._adopt(job, there)
            return
        if there is not None:  # it was in a cluster that there is no more
            self._free_present(job)
        self._push(arrives_ms if there is None else 0, _ARRIVES, work.uid)

    def _adopt(self, job: _Job, there: Standing) -> None:
        """It has a place; what is left of its run is what its declared time leaves."""
        uid = job.work.uid
        item = replace(self._item(job), run_time_s=there.run_time_s)
        self._engine.adopt(
            item,
            Placed(plan=None, clusters=there.clusters),
            there.started_s,
            requests=there.amounts,
            evictions=there.preemptions,
            leaving_for=there.leaving_for,
        )
        job.started_ms = 0
        job.token += 1
        job.ran_in = tuple(there.clusters)
        placement = self._scenario.placements[uid]
        status = placement.get("status") or {}
        if (status.get("isolation") or {}).get("node") != "Exclusive":
            self._members.unlabelled.add(uid)
        loan = loan_of(status, uid)
        self._loans += [loan] if loan is not None else []
        shards = shards_of(placement)
        job.tier = max((each.tier for each in shards), default=1)
        job.history.start(0, {each.cluster: each.pods for each in shards}, present=True)
        self._seat_present(job, shards)
        self._bills.adopt(uid, job.history, placement, self._now)
        begun_ms = round((self._scenario.start.timestamp() - there.started_s) * 1000)
        if job.left_ms is not None and job.left_ms > begun_ms:
            job.left_ms -= max(0, begun_ms)
            self._push(job.left_ms, _ENDS, uid, job.token)
        else:
            job.left_ms = None  # overdue, or nobody knows: it runs on

    def _seat_present(self, job: _Job, shards: Sequence[Shard]) -> None:
        """On the nodes that its pods are on; those that are not seen yet, anywhere."""
        uid, seen = job.work.uid, dict[str, int]()
        for cluster, kind, nodes in self._free_present(job):
            seated = self._members.put_on(uid, cluster, kind, nodes)
            seen[cluster] = seen.get(cluster, 0) + seated
        kinds = {role.name: role.kind for role in job.asked.demand.roles}
        (only, *others) = kinds
        for shard in shards:
            left = shard.pods - seen.get(shard.cluster, 0)
            for each in shard.intervals:
                pods = min(each.count, max(0, left))
                left -= pods
                role = each.role if others else only
                if pods and role in kinds:
                    self._members.put(uid, shard.cluster, [(kinds[role], {"": pods})])

    def _free_present(self, job: _Job) -> list[tuple[str, PodKind, Mapping[str, int]]]:
        """Its pods by cluster, kind and node, which do not count as those of others any more."""
        if not job.work.real_uid:
            return []
        kinds = {role.kind.request: role.kind for role in job.asked.demand.roles}
        found = []
        for cluster, taken in self._scenario.inventory.taken_by(job.work.real_uid).items():
            for request, nodes in taken.items():
                kind = kinds.get(request)
                if kind is not None and cluster in self._members.clusters:
                    self._members.release(cluster, kind, nodes)
                    found.append((cluster, kind, nodes))
        return found

    def _asked_of(self, work: Work, status: Mapping[str, Any]) -> Asked:
        """Raises Invalid."""
        queued = self._queued(work)
        before = {**status, "queuedAt": queued.isoformat()}
        return asked_of(
            work.obj,
            {"spec": {}, "status": before},
            self._scenario.fleet,
            now=queued,
            unsplittable=self._scenario.unsplittable(work.obj),
        )

    def _ask(self, job: _Job) -> Asked:
        """Again, after it ran."""
        clusters = [{"name": name, "verdict": "Used"} for name in job.ran_in]
        status = {"generation": job.generation, "clusters": clusters}
        return self._asked_of(job.work, status)

    def _item(self, job: _Job) -> Item:
        """Equal work stands in one line: it is tried once for all of it."""
        item = item_of(
            job.asked,
            job.wish,
            quota=job.history.quota,
            sequence=job.sequence,
            preempts=Urgency.of(job.work.obj).preempts(self._scenario.fleet),
        )
        return replace(item, shape=job.asked.likeness or item.uid, queues=job.work.queues)

    # -- the end

    def _unfinished(self) -> bool:
        return any(each.started_ms is not None or uid in self._asking
                   for uid, each in self._jobs.items())  # fmt: skip

    def _close(self) -> None:
        for item, why in self._engine.waiting():
            job = self._jobs[item.uid]
            if why is not None:
                job.history.waits = self._told(item, why)
        for job in self._jobs.values():
            if job.started_ms is not None:
                job.history.runs_on = True
            self._bills.end(job.work.uid, self._now)

    def _told(self, item: Item, why: Why) -> tuple[str, str]:
        refusal = self._members.placer.refusals.get(item.uid)
        if refusal is not None and why.reason in ("Capacity", "NoSuchCapacity"):
            return refusal.word, refusal.message
        book, foreseen = self._engine.book, self._engine.foreseen()
        message = because(
            why, item, book, name=self._name, foreseen=foreseen, terms=self._desk.terms
        )  # fmt: skip
        return reason_of(why, item, book), message

    def _name(self, uid: str) -> str:
        job = self._jobs.get(uid)
        return uid if job is None else job.work.name


def _in_ms(length: timedelta) -> int:
    return round(length.total_seconds() * 1000)


def _classes(scenario: Scenario) -> dict[str, str]:
    """By uid, the lending class of work that shares no node with others."""
    by_quota = {name: class_of(name, scenario.tree, scenario.terms) for name in scenario.tree.nodes}
    quotas = {
        work.uid: scenario.quota_of.get(work.obj["metadata"]["namespace"], "")
        for work in scenario.works
    }
    return {uid: by_quota[quota] for uid, quota in quotas.items() if by_quota.get(quota)}


def _others(scenario: Scenario) -> Users:
    """What takes accelerators of nodes and is not the fleet's: it keeps nobody away by itself."""
    found: Users = {}
    for cluster, book in scenario.inventory.accounts.items():
        for node, namespaces in book.others_on().items():
            for name in namespaces:
                quota = scenario.quota_of.get(name.removesuffix(f".{cluster}"), "")
                work = class_of(quota, scenario.tree, scenario.terms)
                there = found.setdefault(cluster, {}).setdefault(node, set())
                there.add(User("", work, labelled=False))
    return found
