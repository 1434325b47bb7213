"""The planner that dispatch asks: policies, promises and capacity as they are in the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count, repeat
from typing import TYPE_CHECKING, Any

import pytest

from fleet.dispatch.planning import Answer, Answered, Evict, Question, Refused
from fleet.errors import Invalid
from fleet.gateway.bills import Bills
from fleet.gateway.placing import Placing
from fleet.gateway.quotas import Quotas
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.clusters import Cluster
from fleet.scheduling.engine import Engine
from fleet.scheduling.foretelling import ADVISED
from fleet.scheduling.quota.tree import Key
from policies import FLEET_QUOTA, LENDING_POLICY, PLACEMENT, PLACEMENT_POLICY, PRICE_BOOK
from policies.placement import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.store.objects import ObjectStore

NOW = datetime(2026, 11, 29, tzinfo=UTC)
GPU = "nvidia.com/gpu"
JOBS = builtin.resource(GroupVersionResource("batch", "v1", "jobs"))
CLASSES = builtin.resource(GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses"))


class Books:
    """Members with so many accelerators free."""

    labelled = False
    """Whether they have their name as a label."""

    def __init__(self, **free: int) -> None:
        self.free = free
        self.others: dict[str, dict[tuple[str, str], int]] = {}

    def clusters(self) -> list[Cluster]:
        return [self._cluster(name, free) for name, free in self.free.items()]

    def taken_by(self, workload: str) -> dict[str, Any]:
        return {}

    def saved_s(self, *, now: float) -> dict[str, float]:
        return {}

    def taken_by_others(self, namespace: str) -> dict[str, Any]:
        return {"east": self.others[namespace]} if namespace in self.others else {}

    def _cluster(self, name: str, free: int) -> Cluster:
        accounts = NodeAccounts()
        allocatable = {GPU: str(free), "cpu": "64", "memory": "64Gi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True"}]
        node = {
            "metadata": {"name": "n1"},
            "status": {"allocatable": allocatable, "conditions": ready},
        }
        accounts.upsert_node(node)
        labels = {"name": name} if self.labelled else {}
        return Cluster(name, labels, accounts.capacity(0.0), parameter_plane="roce-1")


def job(name: str = "train", ranks: int = 6, **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {GPU: "1"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "payments",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-11-29T00:00:00Z",
            **more.pop("metadata", {}),
        },
        "spec": {
            "completions": ranks,
            "parallelism": ranks,
            "completionMode": "Indexed",
            "template": {"spec": {"containers": [container], **more}},
        },
    }


def placement(workload: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    metadata = workload["metadata"]
    told = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "Placement",
        "metadata": {
            "name": name_of(workload["kind"], metadata["name"]),
            "namespace": metadata["namespace"],
            "uid": "p",
        },
        "spec": {"workload": told},
        "status": status or {},
    }


def policy(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "split", "namespace": "payments", "uid": "pp"},
        "spec": {"mode": "Split", "workloads": {}, **spec},
    }


class Asks:
    """One question at a time, as dispatch would ask it with nothing else waiting."""

    def __init__(self, planner: Placing) -> None:
        self._planner = planner

    async def plan(self, question: Question) -> Answer:
        async for step in self._planner.round([question]):
            if isinstance(step, Refused):
                raise step.error
            if isinstance(step, Answered) and step.question is question:
                return step.answer
        raise AssertionError("there was no answer")


def placing(store: ObjectStore, **free: int) -> Asks:
    return Asks(Placing(store, Books(**free), now=lambda: NOW, clock=lambda: 0.0, lease_s=15.0))


def shards(answer) -> dict[str, tuple[int, int]]:
    return {
        each["cluster"]: (each["roles"][0]["first"], each["roles"][0]["count"])
        for each in answer.status["shards"]
    }


async def test_a_gang_is_split_as_its_policy_says(store):
    await store.create(PLACEMENT_POLICY.resource, policy())
    answer = await placing(store, east=4, west=4).plan(Question(job(), placement(job())))
    assert answer.placed
    assert shards(answer) == {"east": (0, 4), "west": (4, 2)}
    assert answer.status["generation"] == 1
    assert answer.spec["policy"] == {"namespace": "payments", "name": "split"}
    PLACEMENT.parse({"spec": answer.spec, "status": answer.status})


async def test_without_a_policy_it_stays_in_one_cluster(store):
    answer = await placing(store, east=4, west=4).plan(Question(job(), placement(job())))
    assert not answer.placed
    answer = await placing(store, east=4, west=8).plan(Question(job(), placement(job())))
    assert shards(answer) == {"west": (0, 6)}


async def test_what_cannot_be_split_is_kept_whole_and_says_so(store):
    await store.create(PLACEMENT_POLICY.resource, policy())
    question = Question(job(), placement(job()), unsplittable="successPolicy counts over all")
    answer = await placing(store, east=4, west=4).plan(question)
    assert not answer.placed
    assert "kept in one cluster: successPolicy counts over all" in answer.status["message"]


async def test_a_barred_cluster_is_not_taken_and_says_why(store):
    question = Question(job(ranks=2), placement(job()), barred={"east": "has a Job of that name"})
    answer = await placing(store, east=4, west=4).plan(question)
    assert shards(answer) == {"west": (0, 2)}
    verdicts = {each["name"]: each for each in answer.status["clusters"]}
    assert verdicts["east"]["message"] == "has a Job of that name"


@pytest.mark.parametrize(("phase", "free"), [("Holding", 2), ("QuotaHeld", 2), ("Queued", 4)])
async def test_what_is_promised_to_plans_in_flight_is_not_given_twice(store, phase, free):
    other = job("other", ranks=2)
    plan = (await placing(store, east=4).plan(Question(other, placement(other)))).status
    await store.create(JOBS, other)
    await store.create(PLACEMENT.resource, placement(other, {**plan, "phase": phase}))
    answer = await placing(store, east=4).plan(Question(job(ranks=4), placement(job())))
    assert answer.placed is (free == 4)
    answer = await placing(store, east=4).plan(Question(job(ranks=free), placement(job())))
    assert answer.placed


async def in_flight(store: ObjectStore, other: dict[str, Any], **changes: Any) -> None:
    """A workload whose plan has four places of east promised."""
    plan = (await placing(store, east=4).plan(Question(other, placement(other)))).status
    await store.create(builtin.by_kind(other["apiVersion"], other["kind"]), other)
    await store.create(PLACEMENT.resource, placement(other, {**plan, **changes}))


@pytest.mark.parametrize(("state", "free"), [("Held", 2), ("Committed", 2), ("Running", 4)])
async def test_a_promise_lasts_until_its_shard_runs(store, state, free):
    other = job("other", ranks=2)
    plan = (await placing(store, east=4).plan(Question(other, placement(other)))).status
    shard = {**plan["shards"][0], "state": state}
    await in_flight(store, other, phase="Running", shards=[shard])
    for ranks in (free, free + 1):
        question = Question(job(ranks=ranks), placement(job()))
        assert (await placing(store, east=4).plan(question)).placed is (ranks == free)


async def test_a_pod_in_flight_has_its_promise_like_a_job(store):
    container = {"name": "main", "image": "x", "resources": {"requests": {GPU: "3"}}}
    metadata = {"name": "solo", "namespace": "payments", "uid": "uid-solo"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    await in_flight(store, pod | {"spec": {"containers": [container]}})
    asks = placing(store, east=4)
    assert not (await asks.plan(Question(job(ranks=2), placement(job())))).placed
    assert (await asks.plan(Question(job(ranks=1), placement(job())))).placed


async def test_promises_follow_the_placement_and_its_workload(store):
    """What was read once is read again when either changes, and is forgotten with them."""
    asks = placing(store, east=4)
    other = job("other", ranks=2)

    async def free() -> int:
        for ranks in (4, 3, 2, 1):
            if (await asks.plan(Question(job(ranks=ranks), placement(job())))).placed:
                return ranks
        return 0

    async def put(resource, obj: dict[str, Any]) -> None:
        entry = store.get(resource, "payments", obj["metadata"]["name"])
        await store.update(resource, {**entry.parse(), **obj}, expected=entry.revision)

    async def take(resource, name: str) -> None:
        entry = store.get(resource, "payments", name)
        await store.delete(resource, namespace="payments", name=name, expected=entry.revision)

    assert await free() == 4
    await in_flight(store, other)
    assert await free() == 2
    placed = placement(
        other, store.get(PLACEMENT.resource, "payments", "job-other").parse()["status"]
    )
    await put(PLACEMENT.resource, placed | {"status": placed["status"] | {"phase": "Succeeded"}})
    assert await free() == 4
    await put(PLACEMENT.resource, placed)
    assert await free() == 2
    wider = job("other", ranks=2)
    wider["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = {GPU: "2"}
    await put(JOBS, wider)
    assert await free() == 0
    await take(JOBS, "other")
    assert await free() == 4
    await store.create(JOBS, job("other", ranks=2, metadata={"uid": "another"}))
    assert await free() == 4
    await take(JOBS, "other")
    await store.create(JOBS, other)
    assert await free() == 2
    await take(PLACEMENT.resource, "job-other")
    assert await free() == 4


async def test_a_size_that_changed_is_refused_while_a_part_is_placed_anew(store):
    await store.create(PLACEMENT_POLICY.resource, policy())
    first = (await placing(store, east=4, west=2).plan(Question(job(), placement(job())))).status
    question = Question(job(ranks=4), placement(job(), first), lost=frozenset({"west"}))
    with pytest.raises(Invalid, match="4 ranks, 6 were placed"):
        await placing(store, east=4, west=4).plan(question)


async def test_it_goes_back_to_where_it_was_if_nothing_speaks_against_it(store):
    barred = {"east": "has a Job of that name"}
    question = Question(job(ranks=2), placement(job()), barred=barred)
    first = (await placing(store, east=4, west=4).plan(question)).status
    waiting = {name: value for name, value in first.items() if name != "shards"}
    question = Question(job(ranks=2), placement(job(), waiting))
    answer = await placing(store, east=4, west=4).plan(question)
    assert shards(answer) == {"west": (0, 2)}


async def test_a_lost_shard_alone_is_placed_anew(store):
    await store.create(PLACEMENT_POLICY.resource, policy())
    first = (await placing(store, east=4, west=2).plan(Question(job(), placement(job())))).status
    for shard in first["shards"]:
        shard["state"] = "Running" if shard["cluster"] == "east" else "Lost"
    question = Question(job(), placement(job(), first), lost=frozenset({"west"}))
    answer = await placing(store, east=0, north=4).plan(question)
    assert shards(answer) == {"east": (0, 4), "north": (4, 2)}
    generations = {each["cluster"]: each["generation"] for each in answer.status["shards"]}
    assert generations == {"east": 1, "north": 2}
    states = {each["cluster"]: each["state"] for each in answer.status["shards"]}
    assert states == {"east": "Running", "north": "Planned"}


@pytest.mark.parametrize(
    ("failover", "lease_s"), [({}, 15.0), ({"tolerate": "5m"}, 15.0), ({"tolerate": "40s"}, 40.0)]
)
async def test_the_lease_is_the_policys_or_the_gateways(store, failover, lease_s):
    await store.create(PLACEMENT_POLICY.resource, policy(failover=failover))
    answer = await placing(store, east=8).plan(Question(job(), placement(job())))
    assert (answer.lease_s, answer.fencing) == (lease_s, "Controller")


async def test_a_policy_that_does_not_exist_is_an_error(store):
    labelled = job(metadata={"labels": {"fleet.dev/policy": "nowhere"}})
    with pytest.raises(Invalid):
        await placing(store, east=8).plan(Question(labelled, placement(labelled)))


async def test_the_urgent_and_the_old_come_first(store):
    high = {"metadata": {"name": "high", "uid": "h"}, "value": 1000}
    await store.create(
        CLASSES, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **high}
    )
    urgent = job("c", 1, priorityClassName="high")
    queued = {"b": "2026-11-28T23:00:00Z", "z": "2026-11-28T23:30:00Z"}
    questions = []
    for each in (job("y", 1), job("a", 1), job("b", 1), job("z", 1), urgent):
        name = each["metadata"]["name"]
        waits = placement(each, {"queuedAt": queued.get(name, "2026-11-29T00:00:00Z")})
        await store.create(PLACEMENT.resource, waits)
        questions.append(Question(each, waits))
    planner = Placing(store, Books(east=4), now=lambda: NOW, clock=lambda: 0.0, lease_s=15.0)
    placed = [
        step.question.workload["metadata"]["name"]
        async for step in planner.round(questions)
        if step.answer.placed
    ]
    assert placed == ["c", "b", "z", "a"]


async def test_within_a_second_who_was_created_first_comes_first_after_a_restart_too(store):
    questions = []
    for name, arrival in (("c", 11), ("a", 12), ("b", 10)):
        waits = placement(job(name, 1), {"queuedAt": "2026-11-29T00:00:00Z", "arrival": arrival})
        await store.create(PLACEMENT.resource, waits)
        questions.append(Question(job(name, 1), waits))

    async def placed(asks: Placing, asked: list[Question]) -> list[str]:
        steps = [step async for step in asks.round(asked)]
        return [each.question.workload["metadata"]["name"] for each in steps if each.answer.placed]

    def life() -> Placing:
        return Placing(store, Books(east=2), now=lambda: NOW, clock=lambda: 0.0, lease_s=15.0)

    asks = life()
    assert await placed(asks, questions[:2]) == ["c", "a"]
    assert await placed(asks, questions) == ["b", "c"], "it was only heard of last"
    assert await placed(life(), questions) == ["b", "c"]


async def test_what_is_asked_about_comes_after_all_that_waits_and_in_its_order(store):
    status = {"queuedAt": "2026-11-29T00:00:00Z", "arrival": store.sequencer.current}
    waits = Question(job("z", 1), placement(job("z", 1), status))
    await store.create(PLACEMENT.resource, waits.placement)
    asks = Placing(store, Books(east=0), now=lambda: NOW, clock=lambda: 0.0, lease_s=15.0)
    _ = [step async for step in asks.round([waits])]
    asked = [Question(job(name, 1), None) for name in ("y", "b", "a")]
    told = asks.foretell(asked, ()).prospect.told
    sequences = {each.item.uid: each.item.sequence for each in told}
    waiting = {item.uid: item.sequence for item, _ in asks.engine.waiting()}
    found = {**waiting, **sequences}
    assert len({*found.values()}) == len(found)
    assert sorted(found, key=found.__getitem__) == [
        each.workload["metadata"]["uid"] for each in (waits, *asked)
    ]


# -- quotas


NAMESPACES = builtin.resource(GroupVersionResource("", "v1", "namespaces"))


@pytest.fixture
async def teams(store):
    """Of four accelerators two are each team's; every namespace is a team."""
    nodes = {
        "lab": ("4", {}),
        "payments": ("2", {"parent": "lab"}),
        "risk": ("2", {"parent": "lab"}),
    }
    for name, (amount, spec) in nodes.items():
        if "parent" in spec:
            metadata = {"name": name, "uid": f"ns-{name}", "labels": {"team": name}}
            await store.create(
                NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            )
            spec = {**spec, "namespaces": {"matchLabels": {"team": name}}}
        obj = {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "FleetQuota",
            "metadata": {"name": name, "uid": f"quota-{name}"},
            "spec": {**spec, "resources": [{"name": GPU, "guaranteed": amount}]},
        }
        await store.create(FLEET_QUOTA.resource, obj)
    return store


def planner(store: ObjectStore, *, times: Iterator[datetime] | None = None, **free: int) -> Placing:
    now = repeat(NOW) if times is None else times
    return Placing(store, Books(**free), now=lambda: next(now), clock=lambda: 0.0, lease_s=15.0)


async def submit(store: ObjectStore, obj: dict[str, Any]) -> Question:
    await store.create(JOBS, obj)
    made = placement(obj, {"queuedAt": "2026-11-29T00:00:00Z"})
    await store.create(PLACEMENT.resource, made)
    return Question(obj, made)


async def test_the_use_of_quotas_is_written_once_and_again_when_it_changes(teams):
    asks = planner(teams, east=8)
    quotas = Quotas(teams, asks, now=lambda: NOW)
    question = await submit(teams, job(ranks=3))
    (answered,) = [step async for step in asks.round([question])]
    assert answered.answer.placed
    assert answered.answer.status["quota"] == "payments"
    await quotas.write()

    def status(name: str) -> dict[str, Any]:
        return teams.get(FLEET_QUOTA.resource, "", name).parse()["status"]

    (use,) = status("payments")["resources"]
    assert (use["used"], use["borrowed"]) == ("3", "1")
    assert status("risk")["summary"]["lent"] == "1"
    assert (status("lab")["admitted"], status("risk")["admitted"]) == (1, 0)
    before, claims = teams.sequencer.current, asks.claims
    await quotas.write()
    assert teams.sequencer.current == before
    async for _ in asks.round([question]):
        pass
    assert asks.claims is claims, "no rule has changed by what is written to their statuses"
    # Nothing is charged that is not stored: the plan never came to be.
    (again,) = [step async for step in asks.round([])] or [None]
    assert again is None
    await quotas.write()
    assert status("payments")["resources"][0]["used"] == "0"


async def test_a_restart_forgets_neither_what_was_taken_back_nor_how_long_work_ran(teams):
    """maxReclaimPerMinute and minRunTime hold over a restart as without one."""
    clock = [NOW]

    def life() -> Placing:
        return Placing(
            teams, Books(east=8), now=lambda: clock[0], clock=lambda: 0.0, lease_s=15.0
        )  # fmt: skip

    for name, rules in (
        ("payments", {"maxReclaimPerMinute": 1}),
        ("risk", {"minRunTime": "20s"}),
    ):
        present = teams.get(FLEET_QUOTA.resource, "", name)
        obj = present.parse()
        obj["spec"]["preemption"] = rules
        await teams.update(FLEET_QUOTA.resource, obj, expected=present.revision)
    asks = life()
    for at in range(4):
        await start(teams, asks, job(f"r{at}", 1, metadata={"namespace": "risk"}))
    questions = [await submit(teams, job(f"p{at}", 1)) for at in range(2)]

    async def evicted(asks: Placing) -> list[Evict]:
        return [step async for step in asks.round(questions) if isinstance(step, Evict)]

    for seconds, lives in ((10, 2), (19, 1)):
        clock[0] = NOW + timedelta(seconds=seconds)
        for _ in range(lives):
            assert await evicted(life()) == [], "what runs for so short a time is let be"
    clock[0] = NOW + timedelta(seconds=30)
    asks = life()
    (told,) = await evicted(asks)
    await Quotas(teams, asks, now=lambda: clock[0]).write()
    for row, name in ((JOBS, "p0"), (PLACEMENT.resource, "job-p0")):
        entry = teams.get(row, "payments", name)
        await teams.delete(row, namespace="payments", name=name, expected=entry.revision)
    questions.pop(0)
    assert told.other["name"] == "p0"
    clock[0] = NOW + timedelta(seconds=80)
    assert await evicted(life()) == [], "a second one in this minute is one too many"
    clock[0] = NOW + timedelta(seconds=92)
    asks = life()
    assert len(await evicted(asks)) == 1
    await Quotas(teams, asks, now=lambda: clock[0]).write()
    status = teams.get(FLEET_QUOTA.resource, "", "payments").parse()["status"]
    assert status["takenBack"] == [{"at": "2026-11-29T00:01:32Z", "amount": 1}]


@pytest.mark.parametrize("quick", ["a", "b"])
async def test_who_starts_again_sooner_goes_as_the_policies_say_by_then(teams, quick):
    """Each loses what its own policy says, also where that changes while it runs."""
    clock = [NOW]
    asks = Placing(
        teams, Books(east=8), now=lambda: clock[0], clock=lambda: 0.0, lease_s=15.0
    )  # fmt: skip
    for name in ("a", "b"):
        spec = policy(workloads={"matchLabels": {"app": name}})
        spec["metadata"] |= {"name": name, "namespace": "risk", "uid": f"policy-{name}"}
        await teams.create(PLACEMENT_POLICY.resource, spec)
        metadata = {"namespace": "risk", "labels": {"app": name}}
        await start(teams, asks, job(name, 2, metadata=metadata))
    clock[0] += timedelta(hours=1)
    for _ in range(2):
        for name in ("a", "b"):
            present = teams.get(PLACEMENT_POLICY.resource, "risk", name)
            obj = present.parse()
            obj["spec"]["objective"] = {"checkpoint": {"restart": "1m" if name == quick else "9m"}}
            await teams.update(PLACEMENT_POLICY.resource, obj, expected=present.revision)
        async for _ in asks.round([]):
            pass
        outlook = asks.foretell([wanted(job("mine", ranks=2))], ())
        (told,) = outlook.prospect.told
        assert [outlook.name(uid) for uid in told.victims] == [f"job risk/{quick}"]
        quick = "b" if quick == "a" else "a"


# -- what would be


async def start(store: ObjectStore, asks: Placing, obj: dict[str, Any]) -> None:
    """Submit it and store what was decided."""
    question = await submit(store, obj)
    async for step in asks.round([question]):
        namespace = question.placement["metadata"]["namespace"]
        entry = store.get(PLACEMENT.resource, namespace, question.placement["metadata"]["name"])
        begun = {"phase": "QuotaHeld", "phaseSince": "2026-11-29T00:00:00Z"}
        status = {**step.answer.status, **begun}
        made = {**question.placement, "spec": step.answer.spec, "status": status}
        await store.update(PLACEMENT.resource, made, expected=entry.revision)
    async for _ in asks.round([]):
        pass


def wanted(obj: dict[str, Any]) -> Question:
    return Question(obj, placement(obj))


async def test_what_would_start_is_told_and_nothing_is_changed(teams):
    asks = planner(teams, east=8)
    await start(teams, asks, job("runs", ranks=1))
    before, running = teams.sequencer.current, dict(asks.engine.running())
    outlook = asks.foretell([wanted(job("a", ranks=3)), wanted(job("b", ranks=1))], ())
    told = {each.uid: each.verdict for each in outlook.prospect.told}
    assert told == {"uid-a": "Starts", "uid-b": "Waits"}
    assert outlook.placements["uid-a"]["status"]["usedClusters"] == "east"
    assert "1 nvidia.com/gpu" in outlook.placements["uid-b"]["status"]["message"]
    assert teams.sequencer.current == before
    assert dict(asks.engine.running()) == running
    assert not list(asks.engine.waiting())


async def test_what_would_wait_says_what_would_end_for_it_if_it_were_urgent(teams):
    moved = [NOW]
    asks = planner(teams, times=(moved[0] for _ in count()), east=8)
    await start(teams, asks, job("runs", ranks=4))
    moved[0] += timedelta(hours=1)
    outlook = asks.foretell([wanted(job("a", ranks=2))], ())
    (told,) = outlook.prospect.told
    assert (told.verdict, [outlook.name(uid) for uid in told.victims]) == (
        "Waits", ["job payments/runs"],
    )  # fmt: skip
    risk = job("a", ranks=2, metadata={"namespace": "risk", "uid": "uid-risk"})
    outlook = asks.foretell([wanted(risk)], ())
    (told,) = outlook.prospect.told
    assert (told.verdict, told.victims) == ("Evicts", ("uid-runs",))


async def test_what_nothing_could_make_room_for_is_not_asked_about_as_if_it_were_urgent(
    store, monkeypatch
):
    """That costs as much as a round, and a plan may be of a hundred."""
    asks, forks = planner(store, east=8), []
    fork = Engine.fork

    def counted(self, placer):
        forks.append(placer)
        return fork(self, placer)

    monkeypatch.setattr(Engine, "fork", counted)
    questions = [wanted(job("wide", ranks=9)), wanted(job("wider", ranks=10))]
    outlook = asks.foretell(questions, ())
    assert [each.refusal.impossible for each in outlook.prospect.told] == [True, True]
    assert [each.victims for each in outlook.prospect.told] == [(), ()]
    assert len(forks) == 1


async def test_of_many_that_would_wait_only_the_first_are_asked_what_would_help_them(teams):
    """All of it is one turn of the loop, and leases wait for it."""
    moved = [NOW]
    asks = planner(teams, times=(moved[0] for _ in count()), east=8)
    await start(teams, asks, job("runs", ranks=4))
    moved[0] += timedelta(hours=1)
    names = [f"job-{number:03}" for number in range(ADVISED + 3)]
    outlook = asks.foretell([wanted(job(name, ranks=2)) for name in names], ())
    told = outlook.prospect.told
    assert {each.verdict for each in told} == {"Waits"} and all(each.why for each in told)
    assert [bool(each.victims) for each in told] == [True] * ADVISED + [False] * 3


async def test_a_question_while_a_round_is_being_stored_does_not_end_it(teams):
    """What is told to go may be deleted by then, and others see that before the round does."""
    moved = [NOW]
    asks = planner(teams, times=(moved[0] for _ in count()), east=8)
    names = [f"job-{at}" for at in range(4)]
    for name in names:
        await start(teams, asks, job(name, ranks=1))
    moved[0] += timedelta(hours=1)
    question = await submit(teams, job("urgent", ranks=2, metadata={"namespace": "risk"}))
    told = []
    async for step in asks.round([question]):
        told += [step.uid] if isinstance(step, Evict) else []
        for name in names:
            entry = teams.get(PLACEMENT.resource, "payments", name_of("Job", name))
            if entry is not None:
                await teams.delete(
                    PLACEMENT.resource, namespace="payments", name=entry.name,
                    expected=entry.revision,
                )  # fmt: skip
        asks.foretell([], ())
    assert len(told) == 2


async def test_what_a_question_reads_while_a_round_is_being_stored_is_not_lost(teams):
    """It is seen by whoever asks first, and has to be so to the next round too."""
    await teams.create(PLACEMENT_POLICY.resource, policy())
    asks = planner(teams, east=2, west=2)
    await start(teams, asks, job(ranks=3))
    await start(teams, asks, job("ends", ranks=1, metadata={"namespace": "risk"}))
    entry = teams.get(PLACEMENT.resource, "payments", name_of("Job", "train"))
    broken = entry.parse()
    kept, gone = broken["status"]["shards"]
    kept["state"], gone["state"] = "Running", "Lost"
    broken["status"]["phase"] = "Lost"
    entry = await teams.update(PLACEMENT.resource, broken, expected=entry.revision)
    assert asks.engine.running().keys() == {"uid-train", "uid-ends"}
    lost = frozenset({gone["cluster"]})
    question = Question(job(ranks=3), entry.parse(), lost=lost, stays=True)
    async for step in asks.round([question]):
        assert isinstance(step, Answered)
        for resource, name in ((JOBS, "ends"), (PLACEMENT.resource, name_of("Job", "ends"))):
            there = teams.get(resource, "risk", name)
            await teams.delete(
                resource, namespace="risk", name=name, expected=there.revision
            )  # fmt: skip
        asks.foretell([], ())
    async for _ in asks.round([]):
        pass
    assert asks.engine.running().keys() == {"uid-train"}


def tiers(*after: str) -> dict[str, Any]:
    """East first, then the others, each after so long."""
    names = ("east", "west", "north")
    found = [
        {"selector": {"matchLabels": {"name": name}}, "after": each}
        for name, each in zip(names, ("0s", *after), strict=False)
    ]
    return policy(clusters={"tiers": found}, mode="One")


@pytest.mark.parametrize(
    ("after", "free", "used", "after_s"),
    [
        (["5s"], {"east": 1, "west": 4}, "west", 5),
        (["5s", "10m"], {"east": 1, "west": 1, "north": 4}, "north", 605),
        (["5s", "10m"], {"east": 1, "west": 2, "north": 4}, "west", 5),
        (["5s"], {"east": 1, "west": 1}, "", None),
    ],
)
async def test_where_it_would_go_when_a_later_tier_is_tried(store, after, free, used, after_s):
    await store.create(PLACEMENT_POLICY.resource, tiers(*after))
    books = Books(**free)
    books.labelled = True
    asks = Placing(store, books, now=lambda: NOW, clock=lambda: 0.0, lease_s=15.0)
    before = store.sequencer.current
    outlook = asks.foretell([wanted(job("a", ranks=2)), wanted(job("b", ranks=1))], ())
    first, second = outlook.prospect.told
    assert (first.verdict, second.verdict) == ("Waits", "Starts")
    assert outlook.placements["uid-a"]["status"]["phase"] == "Queued"
    if after_s is None:
        assert (first.later, outlook.later) == (None, {})
    else:
        assert first.later.verdict == "Starts"
        assert first.after_s == pytest.approx(after_s, abs=0.1)
        assert outlook.later["uid-a"]["status"]["usedClusters"] == used
    assert store.sequencer.current == before
    assert not list(asks.engine.waiting())


@pytest.mark.parametrize("tier", [0, 1])
@pytest.mark.parametrize(("when", "verdict"), [("Refuse", "Refused"), ("Queue", "Waits")])
async def test_what_its_policy_refuses_for_good_is_not_said_to_wait(store, tier, when, verdict):
    """At once, or as soon as the tier is tried that is too dear; as a round would answer."""
    offer = {"cluster": "west", "perHour": "4", "asOf": "2026-11-29T00:00:00Z"}
    book = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PriceBook",
        "metadata": {"name": "book", "uid": "b"},
        "spec": {"currency": "USD", "maxAge": "24h", "offers": [offer]},
    }
    await store.create(PRICE_BOOK.resource, book)
    rule = tiers("5s") if tier else policy(mode="One")
    rule["spec"]["objective"] = {"maxPrice": "1 USD/h", "whenTooDear": when}
    await store.create(PLACEMENT_POLICY.resource, rule)
    books = Books(west=4, **({"east": 1} if tier else {}))
    books.labelled = True
    moved = [NOW]
    asks = Placing(store, books, now=lambda: moved[0], clock=lambda: 0.0, lease_s=15.0)
    (told,) = asks.foretell([wanted(job("a", ranks=2))], ()).prospect.told
    if tier:
        assert told.verdict == "Waits"
        assert (told.later.verdict if told.later else "Waits") == verdict
        moved[0] += timedelta(seconds=6)
    else:
        assert told.verdict == verdict
    question = await submit(store, job("a", ranks=2))
    (answered,) = [step async for step in asks.round([question])]
    assert answered.answer.final is (verdict == "Refused")


async def test_a_changed_quota_is_tried_before_it_acts(teams):
    asks = planner(teams, east=8)
    await start(teams, asks, job("runs", ranks=3))
    lab = teams.get(FLEET_QUOTA.resource, "", "lab").parse()
    small = {**lab, "spec": {"resources": [{"name": GPU, "guaranteed": "4", "limit": "4"}]}}
    mine = teams.get(FLEET_QUOTA.resource, "", "payments").parse()
    line = {"name": GPU, "guaranteed": "2", "limit": "2"}
    mine = {**mine, "spec": {**mine["spec"], "resources": [line]}}
    outlook = asks.foretell([], [small, mine])
    ((node, key, by),) = outlook.prospect.over
    assert (node, key.resource, by) == ("payments", GPU, 1)
    assert asks.engine.book.overcommitted() == {}
    wide = {**lab, "spec": {"resources": [{"name": GPU, "guaranteed": "8"}]}}
    for rules, verdict in (((), "Waits"), ((wide,), "Starts")):
        (told,) = asks.foretell([wanted(job("a", ranks=4))], rules).prospect.told
        assert told.verdict == verdict


@pytest.mark.parametrize("owner", ["quota", "policy"])
async def test_a_raised_budget_says_what_would_start_that_waits(teams, owner):
    offer = {"cluster": "east", "perHour": "4", "asOf": "2026-11-29T00:00:00Z"}
    book = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PriceBook",
        "metadata": {"name": "book", "uid": "b"},
        "spec": {"currency": "USD", "maxAge": "24h", "offers": [offer]},
    }
    await teams.create(PRICE_BOOK.resource, book)
    bills = Bills(teams, now=lambda: NOW, uid=lambda: "u")

    def allowing(amount: str) -> dict[str, Any]:
        budget = {"perMonth": f"{amount} USD", "whenSpent": "Queue"}
        if owner == "policy":
            return policy(mode="One", objective={"budget": budget})
        obj = teams.get(FLEET_QUOTA.resource, "", "payments").parse()
        return {**obj, "spec": {**obj["spec"], "budget": budget}}

    if owner == "policy":
        await teams.create(PLACEMENT_POLICY.resource, allowing("1"))
    else:
        present = teams.get(FLEET_QUOTA.resource, "", "payments")
        obj = allowing("1")
        await teams.update(FLEET_QUOTA.resource, obj, expected=present.revision)
    asks = Placing(
        teams, Books(east=8), now=lambda: NOW, clock=lambda: 0.0, lease_s=15.0,
        ceilings=bills.ceilings,
    )  # fmt: skip
    (answered,) = [step async for step in asks.round([await submit(teams, job("a", ranks=2))])]
    assert "above the budget" in answered.answer.status["message"]
    assert asks.foretell([], []).prospect.starts == ()
    assert asks.foretell([], [allowing("2")]).prospect.starts == ()
    outlook = asks.foretell([], [allowing("900000")])
    assert [outlook.name(each.uid) for each in outlook.prospect.starts] == ["job payments/a"]
    assert [item.uid for item, _ in asks.engine.waiting()] == ["uid-a"]
    (told,) = asks.foretell([wanted(job("b", ranks=2))], [allowing("2")]).prospect.told
    assert told.verdict == "Waits"


async def test_a_changed_quota_says_what_it_would_end_for_work_that_waits(teams):
    """Of work that is not among what is asked about."""
    clock = [NOW]
    asks = Placing(teams, Books(east=8), now=lambda: clock[0], clock=lambda: 0.0, lease_s=15.0)
    for at in range(4):
        await start(teams, asks, job(f"r{at}", 1, metadata={"namespace": "risk"}))
    for name, rules in (("risk", "LowerPriority"), ("payments", "Never")):
        present = teams.get(FLEET_QUOTA.resource, "", name)
        obj = present.parse()
        obj["spec"]["preemption"] = {"reclaim": rules}
        await teams.update(FLEET_QUOTA.resource, obj, expected=present.revision)
    clock[0] = NOW + timedelta(minutes=5)
    question = await submit(teams, job("p", 2))
    assert not [step async for step in asks.round([question]) if isinstance(step, Evict)]
    mine = teams.get(FLEET_QUOTA.resource, "", "payments").parse()
    assert asks.foretell([], [mine]).prospect.evictions == ()
    reclaims = {**mine, "spec": {**mine["spec"], "preemption": {"reclaim": "Any"}}}
    (told,) = asks.foretell([], [reclaims]).prospect.evictions
    assert (told.uid, len(told.victims)) == ("uid-p", 2)
    assert {run.leaving_for for run in asks.engine.running().values()} == {""}


async def test_what_members_run_by_themselves_counts_and_is_a_line_of_its_own(teams):
    books = Books(east=8)
    asks = Placing(teams, books, now=lambda: NOW, clock=lambda: 0.0, lease_s=15.0)
    books.others["payments"] = {(GPU, "h200"): 3, ("cpu", ""): 500}
    books.others["nobodys"] = {(GPU, ""): 3}
    (answered,) = [step async for step in asks.round([await submit(teams, job(ranks=2))])]
    assert not answered.answer.placed

    def lines() -> dict[str, tuple[int, int]]:
        found = asks.engine.report()
        return {each.node: (each.used - each.earmarked, each.unmanaged) for each in found}

    assert lines() == {"lab": (3, 3), "payments": (3, 3), "risk": (0, 0)}
    books.others.clear()
    async for _ in asks.round([]):
        pass
    assert lines()["lab"] == (0, 0)


# -- loans


def lending(name: str = "night", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "LendingPolicy",
        "metadata": {"name": name, "uid": f"lending-{name}"},
        "spec": {
            "from": {"quota": "risk", "keepFloor": "None"}, "to": [{"quota": "payments"}], **spec,
        },
    }  # fmt: skip


async def test_a_lending_policy_is_tried_before_it_acts(teams):
    """Of four accelerators two are each team's; what risk leaves idle is lent by nobody yet."""
    asks = planner(teams, east=8)
    await start(teams, asks, job("runs", ranks=2))
    keeps = teams.get(FLEET_QUOTA.resource, "", "risk")
    line = {**keeps.parse()["spec"]["resources"][0], "lendable": "0"}
    shut = {**keeps.parse(), "spec": {**keeps.parse()["spec"], "resources": [line]}}
    await teams.update(FLEET_QUOTA.resource, shut, expected=keeps.revision)
    async for step in asks.round([await submit(teams, job("waits", ranks=2))]):
        assert not step.answer.placed
    before = teams.sequencer.current
    assert asks.foretell([], [lending()]).prospect.loans == (), "nothing is lendable"
    prospect = asks.foretell([], [keeps.parse(), lending()]).prospect
    (lent,) = prospect.loans
    assert (lent.uid, lent.loan.donor, dict(lent.loan.amounts)) == (
        "uid-waits", "risk", {Key(GPU, ""): 2},
    )  # fmt: skip
    (account,) = prospect.donors
    assert (account.floor, account.lendable, account.lent) == (0, 2, 2)
    assert teams.sequencer.current == before
    assert asks.desk.loans == {}


async def test_the_start_of_a_loan_is_foretold_with_its_end(teams):
    asks = planner(teams, east=8)
    await teams.create(LENDING_POLICY.resource, lending(term={"max": "1h"}))
    outlook = asks.foretell([wanted(job("a", ranks=4))], ())
    (told,) = outlook.prospect.told
    assert told.verdict == "Starts"
    loan = outlook.placements["uid-a"]["status"]["loan"]
    assert (loan["donor"], loan["until"]) == ("risk", "2026-11-29T01:00:00Z")
    assert loan["resources"] == [{"name": GPU, "amount": "2"}]


async def test_what_a_changed_policy_would_call_back_is_told_before(teams):
    asks = planner(teams, east=8)
    await teams.create(LENDING_POLICY.resource, lending())
    await start(teams, asks, job("guest", ranks=4))
    assert asks.desk.loans["uid-guest"].amounts == {Key(GPU, ""): 2}
    kept = {"quota": "risk", "keepFloor": "None", "keepShare": "50%"}
    (recalled,) = asks.foretell([], [lending(**{"from": kept})]).prospect.loans
    assert (recalled.uid, recalled.why) == ("uid-guest", "risk needs it")
    assert not asks.desk.loans["uid-guest"].recalled


async def test_what_a_donor_that_is_guaranteed_nothing_any_more_would_call_back_is_told_before(
    teams,
):
    """Risk lends two, the company has nothing besides: what is cut is nobody's."""
    asks = planner(teams, east=8)
    await teams.create(LENDING_POLICY.resource, lending())
    await start(teams, asks, job("guest", ranks=4))
    cut = []
    for name, amount in (("lab", "2"), ("risk", "0")):
        obj = teams.get(FLEET_QUOTA.resource, "", name).parse()
        (line,) = obj["spec"]["resources"]
        line = {"name": line["name"], "guaranteed": amount}
        cut.append({**obj, "spec": {**obj["spec"], "resources": [line]}})
    prospect = asks.foretell([], cut).prospect
    (recalled,) = prospect.loans
    assert (recalled.uid, recalled.why) == ("uid-guest", "risk needs it")
    (account,) = prospect.donors
    assert (account.guaranteed, account.lent) == (0, 2)
    assert not asks.desk.loans["uid-guest"].recalled


async def test_what_is_foretold_can_be_held_against_the_optimum_with_all_others_as_they_would_be(
    teams,
):
    asks = planner(teams, east=4, west=8)
    questions = [wanted(job("a", ranks=4)), wanted(job("b", ranks=4)), wanted(job("c", ranks=9))]
    assert asks.foretell(questions, ()).comparisons == {}
    outlook = asks.foretell(questions, (), measured=True)
    found = {uid: each.verdict() for uid, each in outlook.comparisons.items()}
    verdicts = {each.uid: each.verdict for each in outlook.prospect.told}
    assert verdicts == {"uid-a": "Starts", "uid-b": "Waits", "uid-c": "Waits"}
    assert found["uid-a"].word == "Optimal"
    assert "uid-b" not in found  # it waits for quota


async def test_exclusive_work_is_told_its_class_and_goes_where_no_other_is(teams):
    """risk lends to payments; the one node of east runs work of risk's, that of west nothing."""
    books = Books(east=4, west=8)
    runs = {((GPU, 1), ("pods", 1)): {"n1": 1}}
    books.taken_by = lambda uid: {"east": runs} if uid == "uid-web" else {}
    books.others_on = lambda: {}
    asks = Placing(teams, books, now=lambda: NOW, clock=lambda: 0.0, lease_s=15.0)
    apart = {"node": "Exclusive", "networkPolicy": True}
    await teams.create(LENDING_POLICY.resource, lending(isolation=apart))
    web = job("web", ranks=1, metadata={"namespace": "risk"})
    await teams.create(JOBS, web)
    shard = {"cluster": "east", "generation": 1, "state": "Running",
             "roles": [{"name": "worker", "first": 0, "count": 1}]}  # fmt: skip
    stands = {"phase": "Running", "shards": [shard], "isolation": {"class": "risk", **apart}}
    made = placement(web, stands)
    made["metadata"]["namespace"] = "risk"
    await teams.create(PLACEMENT.resource, made)
    (answered,) = [step async for step in asks.round([await submit(teams, job(ranks=3))])]
    assert shards(answered.answer) == {"west": (0, 3)}
    assert answered.answer.status["isolation"] == {"class": "payments", **apart}
    assert answered.answer.said.reason == "Lent"


async def test_a_question_is_read_again_only_when_what_it_is_read_from_has_changed(store):
    rule = await store.create(PLACEMENT_POLICY.resource, policy(mode="One"))
    asks = placing(store, east=4, west=4)
    workload = (await store.create(JOBS, job(ranks=6))).parse()
    status = {"phase": "Queued", "queuedAt": "2026-11-29T00:00:00Z"}
    record = await store.create(PLACEMENT.resource, placement(workload, status))
    question = Question(workload=workload, placement=record.parse())
    refused = await asks.plan(question)
    assert not refused.placed
    known = asks._planner._asking["uid-train"].asked
    await asks.plan(Question(workload=workload, placement=record.parse()))
    assert asks._planner._asking["uid-train"].asked is known
    barred = Question(workload=workload, placement=record.parse(), barred={"east": "is full"})
    told = {e["name"]: e["reason"] for e in (await asks.plan(barred)).status["clusters"]}
    assert told == {"east": "Barred", "west": "TooSmall"}
    assert not (await asks.plan(question)).placed
    changed = policy()
    changed["metadata"]["resourceVersion"] = str(rule.revision)
    await store.update(PLACEMENT_POLICY.resource, changed, expected=rule.revision)
    answer = await asks.plan(question)
    assert shards(answer) == {"east": (0, 4), "west": (4, 2)}


def book_of(per_hour: str, *, name: str = "book") -> dict[str, Any]:
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PriceBook",
        "metadata": {"name": name, "uid": name},
        "spec": {"offers": [{"cluster": "east", "perHour": per_hour}]},
    }


async def test_prices_are_tried_before_they_hold(store):
    """What would start, be too dear or go over its budget with them, asked for and waiting."""
    await store.create(PRICE_BOOK.resource, book_of("8"))
    rule = policy(mode="One", objective={"maxPrice": "4 USD/h"})
    await store.create(PLACEMENT_POLICY.resource, rule)
    asks = planner(store, east=4)
    async for _ in asks.round([await submit(store, job("dear", ranks=3))]):
        pass
    same = asks.foretell([wanted(job("a", ranks=1))], ())
    assert [each.verdict for each in same.prospect.told] == ["Starts"]
    assert not same.prospect.starts
    cheap = asks.foretell([], [book_of("4")])
    assert [each.uid for each in cheap.prospect.starts] == ["uid-dear"]
    dearer = asks.foretell([wanted(job("a", ranks=1))], [book_of("40")])
    (told,) = dearer.prospect.told
    assert (told.verdict, told.refusal.word) == ("Waits", "TooDear")
    assert not dearer.waits, "what is too dear already waits for nothing else"
    outlook = asks.foretell([], [book_of("4", name="another")])
    assert [each.uid for each in outlook.prospect.starts] == ["uid-dear"], "books count together"
    assert [uid for uid, _ in ((i.uid, w) for i, w in asks.engine.waiting())] == ["uid-dear"]


async def test_work_without_room_waits_for_that_whatever_the_prices(store):
    await store.create(PRICE_BOOK.resource, book_of("1"))
    rule = policy(mode="One", objective={"maxPrice": "4 USD/h"})
    await store.create(PLACEMENT_POLICY.resource, rule)
    asks = planner(store, east=4)
    await start(store, asks, job("runs", ranks=4))
    async for _ in asks.round([await submit(store, job("waits", ranks=2))]):
        pass
    assert not asks.foretell([], [book_of("80")]).waits, "without room prices are not asked for"


async def test_what_waits_says_what_else_it_would_wait_for_with_other_prices(store):
    await store.create(PRICE_BOOK.resource, book_of("8"))
    rule = policy(mode="One", objective={"maxPrice": "4 USD/h"})
    await store.create(PLACEMENT_POLICY.resource, rule)
    asks = planner(store, east=4)
    async for _ in asks.round([await submit(store, job("dear", ranks=3))]):
        pass
    euros = book_of("8")
    euros["spec"]["currency"] = "EUR"
    ((uid, (before, after)),) = asks.foretell([], [euros]).waits.items()
    assert (uid, before.word, after.word) == ("uid-dear", "TooDear", "OtherCurrency")
    assert "USD/h" in before.message
    assert "EUR" in after.message


@pytest.mark.parametrize(("per_hour", "verdict"), [("1", "Starts"), ("9000", "Waits")])
async def test_a_budget_is_asked_with_the_prices_given(store, per_hour, verdict):
    budget = {"perMonth": "100 USD", "whenSpent": "Queue"}
    await store.create(
        PLACEMENT_POLICY.resource, policy(mode="One", objective={"budget": budget, "runTime": "8h"})
    )
    bills = Bills(store, now=lambda: NOW, uid=lambda: "u")
    asks = Placing(
        store,
        Books(east=4),
        now=lambda: NOW,
        clock=lambda: 0.0,
        lease_s=15.0,
        ceilings=bills.ceilings,
    )
    (unpriced,) = asks.foretell([wanted(job("a", ranks=4))], ()).prospect.told
    assert unpriced.refusal.word == "PriceUnknown"
    (told,) = asks.foretell([wanted(job("a", ranks=4))], [book_of(per_hour)]).prospect.told
    assert told.verdict == verdict
    assert (told.refusal.word if told.refusal else "") == ("BudgetSpent" if told.refusal else "")
