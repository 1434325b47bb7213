"""Rounds that keep what they know decide as rounds that begin from scratch, whatever happened.

Two planners live through the same history of a small fleet, each over its own store. One is told to
forget everything before each round. What they answer, charge, hold and evict has to be the same.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fleet.dispatch.planning import Answered, Evict, OnLoan, Question, Refused, Retimed
from fleet.gateway.placing import Placing
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.capacity import PodKind, ShardKey
from fleet.scheduling.clusters import Cluster
from fleet.scheduling.ledger import Ledger, Reservation
from fleet.scheduling.queue.rules import Rules
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from policies import FLEET_QUOTA, LENDING_POLICY, PLACEMENT, PLACEMENT_POLICY
from policies.placement import name_of

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
START = datetime(2026, 11, 29, tzinfo=UTC)
JOBS = builtin.resource(GroupVersionResource("batch", "v1", "jobs"))
NAMESPACES = builtin.resource(GroupVersionResource("", "v1", "namespaces"))
TEAMS = ("a", "b")
NODES, DEVICES = 2, 4
RULES = Rules(patience_s=20, earmark_s=60, aging_s=300, damping_s=15)


def ready(name: str) -> Object:
    return {
        "metadata": {"name": name, "labels": {}},
        "status": {
            "allocatable": {GPU: str(DEVICES), "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


class Books:
    """What members have, as `fleet.gateway.books` keeps it."""

    def __init__(self) -> None:
        self.accounts = {name: NodeAccounts() for name in ("east", "north", "west")}
        for each in self.accounts.values():
            for number in range(NODES):
                each.upsert_node(ready(f"n{number}"))
        self.cordoned: set[str] = set()
        self.now_s = 0.0
        self.pods: dict[str, list[tuple[str, Object]]] = {}

    def clusters(self) -> list[Cluster]:
        return [
            Cluster(
                name, {"name": name}, each.capacity(self.now_s), parameter_plane="p",
                cordoned=name in self.cordoned,
            )
            for name, each in self.accounts.items()
        ]  # fmt: skip

    def taken_by(self, workload: str) -> Object:
        found = {name: each.taken_by(workload) for name, each in self.accounts.items()}
        return {name: taken for name, taken in found.items() if taken}

    def taken_by_others(self, namespace: str) -> Object:
        found = {name: each.taken_by_others(namespace) for name, each in self.accounts.items()}
        return {name: taken for name, taken in found.items() if taken}

    def saved_s(self, *, now: float) -> Object:
        found: dict[str, float] = {}
        for each in self.accounts.values():
            for uid, at in each.saved_s(now=now).items():
                found[uid] = max(at, found.get(uid, at))
        return found

    def others_on(self) -> Object:
        return {name: each.others_on() for name, each in self.accounts.items()}

    def put(self, uid: str, cluster: str, count: int, namespace: str, *, ours: bool = True) -> None:
        """On whichever nodes have room, as a member's scheduler would."""
        free = [each.free.get(GPU, 0) for each in self.accounts[cluster].capacity(0.0).nodes]
        for number in range(count):
            seat = max(range(NODES), key=lambda at: free[at])
            if free[seat] < 1:
                return
            free[seat] -= 1
            labels = {"fleet.dev/workload-uid": uid, "fleet.dev/generation": "1"} if ours else {}
            made = {
                "metadata": {
                    "name": f"{uid}-{cluster}-{number}", "namespace": namespace, "labels": labels,
                },
                "spec": {
                    "nodeName": f"n{seat}",
                    "containers": [{"name": "main", "resources": {"requests": {GPU: "1"}}}],
                },
                "status": {"phase": "Running"},
            }  # fmt: skip
            self.accounts[cluster].upsert_pod(made)
            self.pods.setdefault(uid, []).append((cluster, made))

    def take(self, uid: str) -> None:
        for cluster, made in self.pods.pop(uid, ()):
            self.accounts[cluster].remove_pod(made)


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class World:
    """One planner, its store, and as much of dispatch as it takes."""

    def __init__(self, store: ObjectStore, *, forgets: bool) -> None:
        self.store = store
        self.forgets = forgets
        self.books = Books()
        self.now = START
        self.planner = Placing(
            store, self.books, now=lambda: self.now, clock=lambda: self.books.now_s,
            lease_s=15.0, rules=RULES,
        )  # fmt: skip
        self.lost: dict[str, frozenset[str]] = {}
        self.names: list[tuple[str, str]] = []
        self._questions: dict[str, tuple[object, object, Question]] = {}

    async def begin(self) -> None:
        for team in TEAMS:
            await self.store.create(
                NAMESPACES,
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": team, "labels": {"team": team}, "uid": f"ns-{team}"},
                },
            )
        await self.put_rule(FLEET_QUOTA, quota("lab", 16, 16))
        for team in TEAMS:
            await self.put_rule(FLEET_QUOTA, quota(team, 8, 16))
            await self.put_rule(PLACEMENT_POLICY, policy(team, 2 * (team == "a")))

    async def put_rule(self, kind: Any, obj: Object) -> None:
        metadata = obj["metadata"]
        present = self.store.get(kind.resource, metadata.get("namespace", ""), metadata["name"])
        if present is None:
            await self.store.create(kind.resource, obj)
        else:
            await self.store.update(kind.resource, obj, expected=present.revision)

    async def drop(self, resource: Any, namespace: str, name: str) -> None:
        present = self.store.get(resource, namespace, name)
        if present is not None:
            await self.store.delete(
                resource, namespace=namespace, name=name, expected=present.revision
            )  # fmt: skip

    # -- workloads

    async def come(self, ranks: int, urgent: int, run_time: int) -> None:
        team = TEAMS[ranks % 2]
        name = f"job-{len(self.names):02}"
        self.names.append((team, name))
        requests = {"name": "main", "image": "x", "resources": {"requests": {GPU: "1"}}}
        run = {"annotations": {"fleet.dev/run-time": f"{run_time}s"}} if run_time else {}
        metadata = {
            "name": name, "namespace": team, "uid": f"uid-{name}",
            "creationTimestamp": stamp(self.now), **run,
        }  # fmt: skip
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {
                "completions": ranks, "parallelism": ranks, "completionMode": "Indexed",
                "template": {"spec": {"containers": [requests], "priority": urgent}},
            },
        }  # fmt: skip
        told = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}"}
        record = {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "Placement",
            "metadata": {"name": name_of("Job", name), "namespace": team, "uid": f"p-{name}"},
            "spec": {"workload": told},
            "status": {
                "phase": "Queued", "queuedAt": stamp(self.now), "arrival": len(self.names),
            },
        }  # fmt: skip
        await self.store.create(JOBS, job)
        await self.store.create(PLACEMENT.resource, record)

    def status(self, which: int) -> tuple[tuple[str, str], Object] | None:
        """Of one of those that are there."""
        if not self.names:
            return None
        team, name = self.names[which % len(self.names)]
        entry = self.store.get(PLACEMENT.resource, team, name_of("Job", name))
        return None if entry is None else ((team, name), entry.parse()["status"])

    async def change(self, which: tuple[str, str], **changes: Any) -> None:
        team, name = which

        def changed(obj: Object) -> Object:
            status = {**obj["status"], **changes}
            return {**obj, "status": {k: v for k, v in status.items() if v is not None}}

        await self.store.rewrite(
            PLACEMENT.resource, namespace=team, name=name_of("Job", name), change=changed
        )

    async def go(self, which: int) -> None:
        """It has ended or was deleted."""
        if (found := self.status(which)) is not None:
            (team, name), _ = found
            self.books.take(f"uid-{name}")
            self.lost.pop(f"uid-{name}", None)
            await self.drop(PLACEMENT.resource, team, name_of("Job", name))
            await self.drop(JOBS, team, name)

    async def step(self, which: int) -> None:
        """A workload goes on: what is held begins to run, what has to go is gone."""
        if (found := self.status(which)) is None:
            return
        (team, name), status = found
        uid = f"uid-{name}"
        if status.get("preemptedFor"):
            self.books.take(uid)
            self.lost.pop(uid, None)
            preemptions = int(status.get("preemptions") or 0) + 1
            await self.change(
                (team, name), phase="Queued", shards=None, loan=None, preemptions=preemptions
            )
        elif status["phase"] == "QuotaHeld":
            at = stamp(self.now)
            shards = [{**e, "state": "Running", "committedAt": at} for e in status["shards"]]
            for each in shards:
                self.books.put(uid, each["cluster"], each["roles"][0]["count"], team)
            await self.change((team, name), phase="Running", phaseSince=at, shards=shards)
        elif status["phase"] == "Running":
            shards = [{**e, "leasedUntil": stamp(self.now)} for e in status["shards"]]
            await self.change((team, name), shards=shards)

    async def lose(self, which: int) -> None:
        """A member is out of reach: first it is only that, then its part is to be placed anew."""
        found = self.status(which)
        if found is None or found[1]["phase"] != "Running" or found[1].get("preemptedFor"):
            return
        (team, name), status = found
        first, *others = status["shards"]
        if first.get("lostAt"):
            self.lost[f"uid-{name}"] = frozenset({first["cluster"]})
            first = {**first, "state": "Lost"}
        else:
            first = {**first, "lostAt": stamp(self.now)}
        await self.change((team, name), shards=[first, *others])

    async def retime(self, which: int, run_time: int) -> None:
        if (found := self.status(which)) is not None:
            (team, name), _ = found

            def changed(obj: Object) -> Object:
                obj["metadata"]["annotations"] = {"fleet.dev/run-time": f"{60 + run_time}s"}
                return obj

            await self.store.rewrite(JOBS, namespace=team, name=name, change=changed)

    # -- the round

    def questions(self) -> list[Question]:
        found = []
        for team, name in self.names:
            job = self.store.get(JOBS, team, name)
            record = self.store.get(PLACEMENT.resource, team, name_of("Job", name))
            if job is None or record is None:
                continue
            uid, status = f"uid-{name}", record.parse()["status"]
            lost = self.lost.get(uid, frozenset())
            if status["phase"] != "Queued" and not lost:
                continue
            known = self._questions.get(uid)
            if known is None or known[0] is not job or known[1] is not record:
                known = job, record, Question(job.parse(), record.parse(), lost)
                self._questions[uid] = known
            found.append(known[2])
        return found

    async def round(self, *, fails: int = 0) -> list[object]:
        """What was answered, as far as somebody would notice. `fails`: of how many answers one
        cannot be stored."""
        if self.forgets:
            self.planner.forget()
        told: list[object] = []
        number = 0
        async for step in self.planner.round(self.questions()):
            assert not isinstance(step, Refused), step
            number += 1
            told.append(seen(step))
            if not (fails and number % fails == 0):
                await self._store(step)
        return sorted(told, key=repr)

    async def _store(self, step: object) -> None:
        if isinstance(step, Answered):
            question, answer = step.question, step.answer
            uid = question.workload["metadata"]["uid"]
            record = question.placement
            changed = {**record, "spec": answer.spec, "status": answer.status}
            if changed == record:
                return
            if answer.placed:
                was = record["status"]["phase"]
                status = {**answer.status, "phase": "QuotaHeld" if was == "Queued" else was}
                changed["status"] = {k: v for k, v in status.items() if k != "preemptedFor"}
                self.lost.pop(uid, None)
            elif record["status"]["phase"] != "Queued":
                changed["status"] = {**answer.status, "phase": record["status"]["phase"]}
            metadata = record["metadata"]
            present = self.store.get(
                PLACEMENT.resource, metadata["namespace"], metadata["name"]
            )  # fmt: skip
            assert present is not None
            await self.store.update(PLACEMENT.resource, changed, expected=present.revision)
            return
        assert isinstance(step, Evict | OnLoan | Retimed)
        namespace, name = step.placement
        which = (namespace, name.removeprefix("job-"))
        if isinstance(step, Evict):
            await self.change(which, preemptedFor=step.other)
        elif isinstance(step, OnLoan):
            await self.change(which, loan=step.loan)
        else:
            await self.change(which, runTime=step.run_time)

    def standing(self) -> object:
        """What is charged, held and leaving."""
        engine = self.planner.engine
        engine.verify()
        return (
            engine.report(),
            {uid: (e.generation, e.amounts, e.earmark) for uid, e in engine.book.charges.items()},
            {uid: run.leaving_for for uid, run in engine.running().items()},
            {item.uid: why and why.reason for item, why in engine.waiting()},
            engine.earmarks().keys(),
            dict(self.planner.desk.loans),
        )


def seen(step: object) -> object:
    if isinstance(step, Answered):
        answer = step.answer
        status = {
            name: value for name, value in answer.status.items() if name != "conditions"
        }  # fmt: skip
        conditions = [(e["type"], e["status"], e["reason"]) for e in answer.status["conditions"]]
        uid = step.question.workload["metadata"]["uid"]
        if "tried in" in status.get("message", ""):
            status["message"] = status["message"].partition("tried in")[0]
        return uid, answer.placed, answer.final, answer.spec, status, conditions
    return step


def quota(name: str, guaranteed: int, limit: int, reclaim: str = "Any") -> Object:
    line = {"name": GPU, "guaranteed": str(guaranteed), "limit": str(limit)}
    spec: Object = {"resources": [line]}
    if name in TEAMS:
        spec |= {"parent": "lab", "namespaces": {"matchLabels": {"team": name}}}
        spec["preemption"] = {"within": "LowerPriority", "reclaim": reclaim, "minRunTime": "30s"}
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "FleetQuota",
        "metadata": {"name": name, "uid": f"quota-{name}"},
        "spec": spec,
    }


def policy(team: str, form: int) -> Object:
    """In several clusters, in one, or in a tier after some time."""
    spec: Object = {"workloads": {}, "mode": "One" if form == 1 else "Split"}
    if form == 2:
        tiers = [
            {"selector": {"matchLabels": {"name": name}}, "after": after}
            for name, after in (("east", "0s"), ("west", "40s"), ("north", "2m"))
        ]
        spec["clusters"] = {"tiers": tiers}
    spec["objective"] = {"checkpoint": {"restart": "40s" if form == 1 else "5s"}}
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "all", "namespace": team, "uid": f"policy-{team}"},
        "spec": spec,
    }


def lending(form: int) -> Object:
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "LendingPolicy",
        "metadata": {"name": "night", "uid": "lending"},
        "spec": {
            "from": {"quota": "b", "keepFloor": "None", "keepShare": f"{25 * form}%"},
            "to": [{"quota": "a"}],
            "term": {"max": "2m", "notice": "30s"},
        },
    }


async def happen(world: World, what: int, which: int, size: int) -> None:
    match what:
        case 0:
            if len(world.names) < 40:
                run_time = (0, 0, 60, 200)[which % 4]
                await world.come(1 + size % 9, 5 * (which % 3), run_time)
        case 1:
            await world.go(which)
        case 2:
            for each in range(1 + size):
                await world.step(which + each)
        case 3:
            await world.lose(which)
        case 4:
            await world.retime(which, 10 * size)
        case 5:
            team = TEAMS[which % 2]
            reclaim = ("Any", "Never")[size % 2]
            await world.put_rule(FLEET_QUOTA, quota(team, 4 + size % 5, 16 - size, reclaim))
        case 6:
            await world.put_rule(PLACEMENT_POLICY, policy(TEAMS[which % 2], size % 3))
        case 7:
            world.books.cordoned ^= {("east", "north", "west")[which % 3]}
        case 8:
            uid = f"other-{which % 3}"
            if uid in world.books.pods:
                world.books.take(uid)
            else:
                cluster = ("east", "north", "west")[size % 3]
                world.books.put(uid, cluster, 1 + size % 4, TEAMS[which % 2], ours=False)
        case 9:
            kind = PodKind(((GPU, 1), ("pods", 1)))
            ledger = Ledger({ShardKey("guest", 1, "east"): (Reservation(1 + size % 4, kind),)})
            if world.planner.guests.pop("guest", None) is None:
                world.planner.guests["guest"] = ledger
        case 10:
            if which % 2:
                await world.drop(LENDING_POLICY.resource, "", "night")
            else:
                await world.put_rule(LENDING_POLICY, lending(size % 4))


EVENTS = (0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10)
"""What happens, the frequent more often."""


def pass_time(world: World, seconds: int) -> None:
    world.now += timedelta(seconds=seconds)
    world.books.now_s += seconds


async def live(seed: int, *, events: int = 60) -> None:
    """Raises AssertionError where the two are not of one mind."""
    choose = random.Random(seed)
    async with (
        ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as kept,
        ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as read,
    ):
        worlds = World(kept, forgets=False), World(read, forgets=True)
        for world in worlds:
            await world.begin()
        for _ in range(events):
            event = choose.choice(EVENTS), choose.randrange(16), choose.randrange(9)
            fails = choose.choice((0, 0, 0, 0, 2))
            for world in worlds:
                await happen(world, *event)
            for _ in range(choose.choice((0, 1, 1, 2, 6))):
                mine, theirs = [await world.round(fails=fails) for world in worlds]
                assert mine == theirs
                mine, theirs = [world.standing() for world in worlds]
                assert mine == theirs
                seconds = choose.choice((0, 1, 1, 3, 9, 20, 45))
                for world in worlds:
                    pass_time(world, seconds)


@given(st.integers(0, 2**32))
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@pytest.mark.timeout(600)
async def test_what_is_kept_between_rounds_changes_no_decision(seed):
    await live(seed)


async def at_rest(world: World) -> None:
    """Nothing is decided any more."""
    for _ in range(4):
        await world.round()
    assert world.planner.engine.settled_s is not None


def placed(world: World, name: str) -> bool:
    team = next(team for team, each in world.names if each == name)
    record = world.store.get(PLACEMENT.resource, team, name_of("Job", name))
    return record.parse()["status"]["phase"] != "Queued"


@pytest.fixture
async def world():
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as store:
        made = World(store, forgets=False)
        await made.begin()
        yield made


async def test_a_later_tier_is_tried_at_its_time_though_nothing_else_happens(world):
    world.books.put("other-0", "east", 8, "elsewhere", ours=False)
    await world.come(4, 0, 0)
    await at_rest(world)
    assert world.planner.next_s() == pytest.approx(40)
    pass_time(world, 39)
    await world.round()
    assert not placed(world, "job-00")
    pass_time(world, 1)
    await world.round()
    assert placed(world, "job-00")


async def test_what_others_leave_is_taken_with_the_next_round(world):
    world.books.put("other-0", "east", 8, "elsewhere", ours=False)
    await world.come(4, 0, 0)
    await at_rest(world)
    world.books.take("other-0")
    await world.round()
    assert placed(world, "job-00")


async def test_whose_protection_is_over_goes_though_nothing_else_happens(world):
    """`b` has all that there is, of which half is guaranteed to `a`."""
    for number in range(3):
        await world.come(5, 0, 0)
        await world.round()
        await world.step(number)
    await world.round()
    await world.come(8, 0, 0)
    await at_rest(world)
    assert all(not run.leaving_for for run in world.planner.engine.running().values())
    pass_time(world, 29)
    await world.round()
    assert all(not run.leaving_for for run in world.planner.engine.running().values())
    pass_time(world, 1)
    await world.round()
    assert any(run.leaving_for for run in world.planner.engine.running().values())


async def test_a_lease_that_is_renewed_has_nobody_tried_again(world, monkeypatch):
    await world.come(3, 0, 0)
    await world.round()
    await world.step(0)
    world.books.put("other-0", "east", 8, "elsewhere", ours=False)
    await world.come(8, 0, 0)
    pass_time(world, 1)  # what has just begun may be ended from then on
    await at_rest(world)
    tried = []
    monkeypatch.setattr(world.planner.engine, "capacity_changed", lambda: tried.append(1))
    world.now += timedelta(seconds=1)
    await world.step(0)
    told = await world.round()
    assert [each[0] for each in told] == ["uid-job-01"], "it is told the same"
    assert not tried


async def test_for_what_has_waited_long_quota_is_held_though_nothing_else_happens(world):
    """What waits for members with no end in sight holds none before."""
    for number, name in enumerate(("east", "north", "west")):
        world.books.put(f"other-{number}", name, 8, "elsewhere", ours=False)
    await world.come(3, 0, 0)
    await at_rest(world)
    pass_time(world, 299)
    await world.round()
    book = world.planner.engine.book
    assert not any(charge.amounts for charge in book.charges.values())
    pass_time(world, 1)
    await world.round()
    assert dict(book.charges["uid-job-00"].amounts)
