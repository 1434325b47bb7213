"""Part of the utilisation bench: the load of a week, and the week in virtual time.

Serving follows the day: how many instances its users need is given every five minutes, and so many
it runs, at once. Training gangs arrive, wait, run, save checkpoints; what is ended by the platform
keeps its newest checkpoint and goes on from there. The engine and the desk decide everything; this
acts on what they say and keeps count.

What is counted, in accelerator-hours: `serving` by instances and `training` by gangs, running;
`lost` is that part of training whose result was thrown away; `overhead` that part which went into
starting again and into the last checkpoint. Time is in whole seconds.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import cos, pi
from typing import TYPE_CHECKING

from utilisation_machines import GPU, NODE, SERVING, TRAINING, Machines, Wish

from fleet.scheduling.decisions import Admit, Preempt
from fleet.scheduling.engine import Engine
from fleet.scheduling.lending.desk import Desk
from fleet.scheduling.lending.loans import Lend, Recall, Return, Settle
from fleet.scheduling.lending.terms import Terms
from fleet.scheduling.placer import Item
from fleet.scheduling.quota.tree import Node, Share, Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

HOUR_S = 3600
TICK_S = 300
INSTANCE = 4
GRACE_S = 60
SAVE_S = 120
RESTART_S = 180
CHECKPOINT_S = 1800
NOTICE_S = 300
TERM_S = 4 * HOUR_S
TEAMS = ("nlp", "robots", "vision")
LENDS = Terms("idle", SERVING, ("research",), term_s=TERM_S, notice_s=NOTICE_S, exclusive=True)


@dataclass(frozen=True, slots=True)
class Gang:
    uid: str
    team: str
    size: int
    work_s: int
    """How long it takes if nothing interrupts it."""
    declared_s: int
    """How long its owner says, which is never less."""
    at_s: int
    priority: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Load:
    """A fleet and what is asked of it: the same for every way of sharing."""

    clusters: Mapping[str, int]
    """Nodes of each: the first is serving's where clusters are static, then one for each team."""
    instances: Sequence[int]
    """How many serving needs, from tick to tick."""
    gangs: Sequence[Gang]

    @property
    def owned(self) -> int:
        return NODE * sum(self.clusters.values())

    @property
    def lasts_s(self) -> int:
        return len(self.instances) * TICK_S

    @property
    def serving_h(self) -> float:
        return sum(self.instances) * INSTANCE * TICK_S / HOUR_S

    @property
    def offered_h(self) -> float:
        return sum(gang.size * gang.work_s for gang in self.gangs) / HOUR_S


SIZES = {4: 20, 8: 30, 16: 22, 32: 17, 64: 8, 128: 3}
"""How often, in hundred."""
SHARES = {"nlp": 45, "robots": 30, "vision": 25}
DECLARED_H = (0.5, 1, 2, 3, 4, 6, 8, 12, 24, 36)


def day_and_night(
    days: int, *, trough: int, peak: int, draw: random.Random
) -> list[int]:  # fmt: skip
    """Lowest at four in the morning, highest at four in the afternoon; 20 % less on two days of
    seven; beside it up to 4 % more or less at random from tick to tick.
    """
    found = []
    for tick in range(days * 24 * HOUR_S // TICK_S):
        hour = tick * TICK_S / HOUR_S
        level = (1 - cos(2 * pi * (hour - 4) / 24)) / 2
        mean = trough + (peak - trough) * level
        if int(hour // 24) % 7 in (5, 6):
            mean = trough + (peak - trough) * level * 0.8
        found.append(max(1, min(peak, round(mean * draw.uniform(0.96, 1.04)))))
    return found


def gangs(
    amount_h: float, lasts_s: int, *, backlog_h: float, draw: random.Random,
    sizes: Mapping[int, int] = SIZES, median_h: float = 1.5,
) -> list[Gang]:  # fmt: skip
    """Accelerator-hours of them, arriving evenly; what is in the backlog is there at the start."""
    drawn: list[Gang] = []
    asked = 0.0
    while asked < amount_h:
        size = draw.choices(list(sizes), list(sizes.values()))[0]
        hours = min(24.0, max(0.25, draw.lognormvariate(0, 1) * median_h))
        work_s = round(hours * 60) * 60
        declared = min(h for h in DECLARED_H if h >= hours * draw.uniform(1, 1.3) or h == 36)
        drawn.append(
            Gang(
                uid=f"gang-{len(drawn)}",
                team=draw.choices(list(SHARES), list(SHARES.values()))[0],
                size=size,
                work_s=work_s,
                declared_s=round(declared * HOUR_S),
                at_s=0 if asked < backlog_h else round(draw.random() * lasts_s / 60) * 60,
                priority=10 if draw.random() < 0.1 else 0,
                sequence=0,
            )
        )
        asked += size * work_s / HOUR_S
    drawn.sort(key=lambda gang: (gang.at_s, int(gang.uid[5:])))
    return [replace(gang, sequence=n) for n, gang in enumerate(drawn)]


def week(*, days: int = 7, nodes: int = 32, seed: int = 1, more: float = 1.0) -> Load:
    """Four clusters. Serving needs a quarter of a quarter of them at night and four times as much
    at its peak; training is asked for by `more` than what serving leaves of the whole fleet.
    """
    draw = random.Random(seed)
    peak = nodes * NODE * 5 // 8 // INSTANCE
    instances = day_and_night(days, trough=peak // 4, peak=peak, draw=draw)
    clusters = dict.fromkeys(("a", "b", "c", "d"), nodes)
    load = Load(clusters, instances, ())
    free_h = load.owned * load.lasts_s / HOUR_S - load.serving_h
    hourly = free_h * HOUR_S / load.lasts_s
    asked = gangs(more * free_h, load.lasts_s, backlog_h=6 * hourly, draw=draw)
    return Load(clusters, instances, asked)


@dataclass(slots=True)
class Told:
    """What came of it. Accelerator-hours, but for what says otherwise."""

    owned: float
    lasts_h: float
    serving: float = 0
    training: float = 0
    lost: float = 0
    overhead: float = 0
    idle_queue_h: float = 0
    """Hours in which nothing waited."""
    too_few: int = 0
    """Moments at which serving had fewer instances than it needed."""
    unsafe_h: float = 0
    """Hours in which the loss of a cluster would have left serving with less than it had."""
    unsafe_longest_s: int = 0
    into_floor: int = 0
    """Moments at which what was on loan, and not called back, reached into the floor."""
    overdue: int = 0
    """Loans that went on when their notice was over, or past their term."""
    waits_s: dict[int, list[int]] = field(default_factory=dict)
    """From arrival to the first start, or to the end of the week, by size."""
    never: int = 0
    """Gangs that never started."""
    done: int = 0
    evictions: int = 0
    lent: int = 0
    renewed: int = 0
    recalled: int = 0
    settled: int = 0
    left_h: float = 0
    """What is still to be done of all that was asked for."""

    @property
    def busy(self) -> float:
        return (self.serving + self.training) / self.owned

    @property
    def util(self) -> float:
        """Every hour of work counts once, so what was thrown away does not count."""
        return (self.serving + self.training - self.lost) / self.owned

    @property
    def goodput(self) -> float:
        return (self.serving + self.training - self.lost - self.overhead) / self.owned

    @property
    def floor_breaks(self) -> int:
        return self.too_few + self.into_floor + self.overdue

    @property
    def longest_wait_h(self) -> float:
        return max((max(each) for each in self.waits_s.values()), default=0) / HOUR_S


def tree(load: Load, way: str) -> Tree:
    """`static`: a tree for each cluster. Else one, where teams lend each other what is idle."""
    shares = {
        name: {GPU: Share(NODE * nodes)}
        for name, nodes in zip((SERVING, *TEAMS), load.clusters.values(), strict=True)
    }
    if way == "static":
        return Tree.of(Node(name, "", each) for name, each in shares.items())
    own = shares[SERVING][GPU].guaranteed
    nodes = [
        Node("company", "", {GPU: Share(load.owned)}),
        Node("research", "company", {GPU: Share(load.owned - own)}),
        Node(SERVING, "company", {GPU: Share(own, own, None if way == "lending" else 0)}),
    ]
    return Tree.of([*nodes, *(Node(name, "research", shares[name]) for name in TEAMS)])


@dataclass(slots=True)
class _Job:
    gang: Gang
    saved_s: int = 0
    """Of its work, what is saved."""
    started_s: int | None = None
    first_s: int | None = None
    begins_s: int = 0
    """When it does work again after a start."""
    ends_s: int = 0
    generation: int = 1

    def item(self, wish: Wish) -> Item:
        gang = self.gang
        left_s = max(60, gang.declared_s - self.saved_s + (RESTART_S if self.saved_s else 0))
        # Owners declare round times; so do those who go on.
        declared_s = next((h * HOUR_S for h in DECLARED_H if h * HOUR_S >= left_s), left_s)
        return Item(
            uid=gang.uid, quota=gang.team, priority=gang.priority, sequence=gang.sequence,
            requests={GPU: gang.size}, shape=gang.size, run_time_s=float(declared_s), demand=wish,
            generation=self.generation, saves_every_s=float(CHECKPOINT_S),
            restart_s=float(RESTART_S),
        )  # fmt: skip


_LEAVES, _ENDS, _ARRIVES, _TICK, _LOOKS = range(5)


class Week:
    def __init__(self, load: Load, way: str, *, lends: Terms = LENDS) -> None:
        """`way`: static, fleet or lending."""
        self.load, self.way, self.lends = load, way, lends
        self.machines = Machines(load.clusters)
        made = tree(load, way)
        self.guaranteed = made.shares[SERVING, GPU].guaranteed
        self.engine = Engine(made, self.machines)
        self.desk = None
        if way == "lending":
            self.desk = Desk(
                self.engine, self.machines, made, [lends], members=self.machines
            )  # fmt: skip
        names = tuple(load.clusters)
        owners = (SERVING, *TEAMS)
        self.wishes = {
            owner: Wish(
                SERVING if owner == SERVING else TRAINING,
                (names[number],) if way == "static" else names,
                1 if owner == SERVING else 2,
            )
            for number, owner in enumerate(owners)
        }
        lasts_h = load.lasts_s / HOUR_S
        self.told = Told(load.owned * lasts_h, lasts_h)
        self.jobs = {gang.uid: _Job(gang) for gang in load.gangs}
        self.replicas: list[str] = []
        self.up: set[str] = set()
        self.made = 0
        self.waiting = 0
        self.running = 0
        self.now = 0
        self.unsafe_since: int | None = None
        self._events: list[tuple[int, int, int, str, int]] = []
        self._pushed = 0

    def play(self) -> Told:
        for gang in self.load.gangs:
            self._push(gang.at_s, _ARRIVES, gang.uid)
        for tick in range(len(self.load.instances)):
            self._push(tick * TICK_S, _TICK, "", tick)
        while self._events and self._events[0][0] < self.load.lasts_s:
            self._pass_to(self._events[0][0])
            while self._events and self._events[0][0] == self.now:
                _, what, _, uid, number = heappop(self._events)
                self._happen(what, uid, number)
            # What is ended at once is decided on again at the same time.
            while self._decide():
                pass
            self._look()
        self._pass_to(self.load.lasts_s)
        self._close()
        return self.told

    # What happens

    def _push(self, at_s: int, what: int, uid: str, number: int = 0) -> None:
        self._pushed += 1
        heappush(self._events, (at_s, what, self._pushed, uid, number))

    def _happen(self, what: int, uid: str, number: int) -> None:
        if what == _ARRIVES:
            gang = self.jobs[uid].gang
            self.engine.submit(self.jobs[uid].item(self.wishes[gang.team]), self.now)
            self.waiting += 1
        elif what == _TICK:
            self._scale(self.load.instances[number])
            self._save()
        elif what == _ENDS:
            job = self.jobs[uid]
            if job.generation == number and job.started_s is not None:
                self._stopped(job)
                job.saved_s = job.gang.work_s
                self.engine.finish(uid)
                self.told.done += 1
        elif what == _LEAVES:
            job = self.jobs[uid]
            if job.generation == number and job.started_s is not None:
                self._evict(job)

    def _scale(self, wanted: int) -> None:
        while len(self.replicas) < wanted:
            uid = f"serving-{self.made}"
            self.replicas.append(uid)
            item = Item(
                uid, SERVING, 100, -1_000_000 + self.made, {GPU: INSTANCE}, INSTANCE,
                demand=self.wishes[SERVING],
            )  # fmt: skip
            self.made += 1
            self.engine.submit(item, self.now)
        while len(self.replicas) > wanted:
            self._remove_replica()

    def _remove_replica(self) -> None:
        """One that is not up yet, else of the cluster with most, on the emptiest of its nodes."""

        def place(uid: str) -> tuple[int, int, int]:
            name, node, _ = self.machines.taken[uid][1][0]
            return -self.machines.serving[name], self.machines.used[name][node], -int(uid[8:])

        idle = [uid for uid in self.replicas if uid not in self.up]
        uid = idle[-1] if idle else min(self.replicas, key=place)
        self.replicas.remove(uid)
        if uid in self.up:
            self.up.remove(uid)
            self.engine.finish(uid)
        else:
            self.engine.withdraw(uid)

    def _save(self) -> None:
        """Every gang saves from time to time; the engine is told by the tick after."""
        for uid in self.engine.running():
            job = self.jobs.get(uid)
            if job is not None and job.started_s is not None:
                ran_s = self.now - job.begins_s
                if ran_s >= CHECKPOINT_S:
                    at_s = job.begins_s + ran_s // CHECKPOINT_S * CHECKPOINT_S
                    self.engine.saved(uid, float(at_s))

    def _stopped(self, job: _Job) -> None:
        assert job.started_s is not None
        self.told.overhead += job.gang.size * (job.begins_s - job.started_s) / HOUR_S
        self.running -= job.gang.size
        job.started_s = None

    def _evict(self, job: _Job) -> None:
        """It keeps what it saved: all, if its notice was long enough, else the last checkpoint."""
        loan = self.desk.loans.get(job.gang.uid) if self.desk is not None else None
        noticed = loan is not None and loan.recalled_s is not None
        worked_s = max(0, self.now - job.begins_s)
        if noticed and self.now - loan.recalled_s >= SAVE_S:  # type: ignore[union-attr, operator]
            kept_s = max(0, worked_s - SAVE_S)
            self.told.overhead += job.gang.size * min(worked_s, SAVE_S) / HOUR_S
        else:
            kept_s = worked_s // CHECKPOINT_S * CHECKPOINT_S
            self.told.lost += job.gang.size * (worked_s - kept_s) / HOUR_S
        job.begins_s = min(job.begins_s, self.now)
        self._stopped(job)
        job.saved_s += kept_s
        self.engine.evicted(job.gang.uid, self.now)
        job.generation += 1
        self.engine.submit(job.item(self.wishes[job.gang.team]), self.now)
        self.waiting += 1
        self.told.evictions += 1

    # What is decided

    def _decide(self) -> bool:
        """True if anything was ended at once."""
        asked: Desk | Engine = self.engine
        ended = False
        if self.desk is not None:
            asked = self.desk
            soon = {SERVING: {GPU: self._expected()}}
            decided: Sequence[object] = self.desk.step(float(self.now), expected=soon)
        else:
            decided = self.engine.step(float(self.now))
        for each in decided:
            if isinstance(each, Admit | Lend):
                self._start(each.uid)
                self.told.lent += isinstance(each, Lend)
            elif isinstance(each, Preempt):
                for uid in each.victims:
                    on_loan = self.desk is not None and uid in self.desk.loans
                    leaves_s = self.now + (NOTICE_S if on_loan else GRACE_S)
                    self._push(leaves_s, _LEAVES, uid, self.jobs[uid].generation)
            elif isinstance(each, Return):
                self._evict(self.jobs[each.uid])
                ended = True
            else:
                self.told.recalled += isinstance(each, Recall)
                self.told.settled += isinstance(each, Settle)
                self.told.renewed += type(each).__name__ == "Renew"
        again_s = asked.next_s()
        if again_s is not None and again_s > self.now:
            self._push(-int(-again_s // 1), _LOOKS, "")
        return ended

    def _start(self, uid: str) -> None:
        if uid.startswith(SERVING):
            self.up.add(uid)
            return
        job = self.jobs[uid]
        job.started_s = self.now
        if job.first_s is None:
            job.first_s = self.now
        job.begins_s = self.now + (RESTART_S if job.saved_s else 0)
        job.ends_s = job.begins_s + job.gang.work_s - job.saved_s
        self._push(job.ends_s, _ENDS, uid, job.generation)
        self.running += job.gang.size
        self.waiting -= 1

    def _expected(self) -> int:
        """What serving tells the desk it may need more, before a loan could be back: the most of
        the last half hour, and as much again as it grew in a third of that. Of the past alone.
        """
        tick = self.now // TICK_S
        past = self.load.instances[max(0, tick - 6) : tick + 1]
        growth = max(0, past[-1] - past[0])
        return INSTANCE * (max(past) + -(-growth // 3) - past[-1])

    # What is counted

    def _pass_to(self, at_s: int) -> None:
        hours = (at_s - self.now) / HOUR_S
        self.told.serving += len(self.up) * INSTANCE * hours
        self.told.training += self.running * hours
        if not self.waiting:
            self.told.idle_queue_h += hours
        if self.unsafe_since is not None:
            self.told.unsafe_h += hours
            lasted = at_s - self.unsafe_since
            self.told.unsafe_longest_s = max(self.told.unsafe_longest_s, lasted)
        self.now = at_s

    def _look(self) -> None:
        if self.running + len(self.up) * INSTANCE > self.load.owned:
            raise AssertionError("more runs than there is")
        self.told.too_few += len(self.up) < len(self.replicas)
        if self.desk is not None:
            loans = self.desk.loans.values()
            kept = self.guaranteed - sum(loan.amounts[GPU] for loan in loans if not loan.recalled)
            held = self.machines.serving
            self.told.into_floor += kept < sum(held.values()) + max(held.values())
            self.told.overdue += sum(
                self.now > loan.until_s or (loan.ends_s is not None and self.now > loan.ends_s)
                for loan in loans
            )
        if not self.machines.is_unsafe():
            self.unsafe_since = None
        elif self.unsafe_since is None:
            self.unsafe_since = self.now

    def _close(self) -> None:
        for job in self.jobs.values():
            gang = job.gang
            first_s = job.first_s if job.first_s is not None else self.load.lasts_s
            self.told.waits_s.setdefault(gang.size, []).append(first_s - gang.at_s)
            self.told.never += job.first_s is None
            done_s = job.saved_s
            if job.started_s is not None:
                begun_s = min(self.now, job.begins_s)
                self.told.overhead += gang.size * (begun_s - job.started_s) / HOUR_S
                done_s += self.now - begun_s
            self.told.left_h += gang.size * (gang.work_s - done_s) / HOUR_S


def play(load: Load, way: str, *, lends: Terms = LENDS) -> Told:
    return Week(load, way, lends=lends).play()


def by_size(gangs_: Iterable[Gang]) -> Counter[int]:
    return Counter(gang.size for gang in gangs_)
