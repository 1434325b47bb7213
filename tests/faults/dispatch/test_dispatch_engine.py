"""Quota and eviction carried out: the engine decides, gateways die in between, nothing is lost.

With the planner of the product over what the simulated members have.
"""

from __future__ import annotations

import pytest

from fleet.dispatch.planning import Evict, Question
from fleet.errors import StoreError
from fleet.gateway.placing import Placing
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.plan import Refusal
from fleet.scheduling.queue.rules import Rules
from policies import FLEET_QUOTA, PLACEMENT, PLACEMENT_POLICY
from policies.placement import RUN_TIME_ANNOTATION

EVENTS = builtin.resource(GroupVersionResource("", "v1", "events"))
EAGER = Rules(worth=None, patience_s=0, damping_s=0)
"""Evict whenever it is allowed."""


@pytest.fixture
def engines(fleet):
    """The planners of all lives of the gateway."""
    made = []

    def decides():
        made.append(
            Placing(
                fleet.store, fleet.books(labelled=True), now=fleet.clock.datetime,
                clock=lambda: 0.0, lease_s=15.0, rules=EAGER,
            )
        )  # fmt: skip
        return made[-1]

    fleet.decides = decides
    return made


@pytest.fixture
async def sizes(fleet, engines):
    """A fleet of one member with room for eight."""
    await fleet.join("east", room=8)
    await fleet.restart()
    return fleet


async def quota(fleet, name="team", pods=4, **spec):
    line = {"name": "pods", "guaranteed": str(pods)}
    obj = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "FleetQuota",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"namespaces": {}, "resources": [line], **spec},
    }
    present = fleet.store.get(FLEET_QUOTA.resource, "", name)
    if present is None:
        await fleet.store.create(FLEET_QUOTA.resource, obj)
    else:
        await fleet.store.update(FLEET_QUOTA.resource, obj, expected=present.revision)


def status(fleet, name="train"):
    return fleet.store.get(PLACEMENT.resource, "payments", f"job-{name}").parse()["status"]


def phase(fleet, name):
    return fleet.record(name).phase


def used(engines, node="team"):
    engines[-1].engine.verify()
    lines = [line for line in engines[-1].engine.report() if line.node == node]
    return sum(line.used - line.earmarked for line in lines)


async def run(fleet, name, ranks, *, priority=0, pod=None, **more):
    """A Job; the next is younger."""
    await fleet.run_job(name, ranks, pod={"priority": priority, **(pod or {})}, **more)
    await fleet.round()


async def test_quota_holds_a_second_job_back_until_the_first_has_ended(sizes, engines):
    fleet = sizes
    await quota(fleet, pods=4)
    await run(fleet, "first", 3, **{"run-for": 5})
    await fleet.until(lambda: phase(fleet, "first") == "Running")
    await run(fleet, "second", 3)
    await fleet.until(lambda: fleet.record("second").reason == "QuotaExceeded")
    told = status(fleet, "second")
    assert told["message"] == (
        "quota team: it asks for 3 pods, and of the 4 that it may use 3 are in use; "
        "it starts when 2 more are given back"
    )
    counted = {each["type"]: each["status"] for each in told["conditions"]}
    assert counted == {"Placed": "False", "QuotaReserved": "False"}
    await fleet.round()
    assert fleet.condition("fleet.dev/Placed", "second")["reason"] == "QuotaExceeded"
    assert used(engines) == 3
    await fleet.until(lambda: phase(fleet, "second") == "Running")
    assert phase(fleet, "first") == "Succeeded"
    assert status(fleet, "second")["quota"] == "team"
    assert used(engines) == 3


async def test_within_a_second_work_starts_in_the_order_in_which_it_was_created(
    sizes, engines, monkeypatch
):
    fleet = sizes
    await quota(fleet, pods=0)
    uids = {"delta": "uid-5", "alpha": "uid-2", "charlie": "uid-9", "bravo": "uid-1"}
    names = (*uids,)
    for name, uid in uids.items():
        with monkeypatch.context() as patched:
            patched.setattr(fleet, "_uids", lambda uid=uid: uid)
            await fleet.run_job(name, 2, **{"run-for": 3})
    await fleet.until(lambda: all(fleet.record(name).reason == "QuotaTooSmall" for name in names))
    assert len({status(fleet, name)["queuedAt"] for name in names}) == 1
    await fleet.restart()
    await quota(fleet, pods=2)
    started = []

    def all_started():
        started.extend(
            name for name in names if name not in started and phase(fleet, name) != "Queued"
        )
        return len(started) == len(names)

    await fleet.until(all_started)
    assert started == [*names]


async def test_what_asks_for_more_than_there_ever_is_is_told_so_and_holds_up_nobody(sizes, engines):
    fleet = sizes
    await quota(fleet, pods=4)
    await run(fleet, "wide", 5)
    await run(fleet, "train", 4)
    await fleet.until(lambda: phase(fleet, "train") == "Running")
    assert fleet.record("wide").reason == "QuotaTooSmall"
    assert "raise the limit, or ask for less" in fleet.record("wide").message
    await quota(fleet, pods=9)
    await fleet.until(lambda: fleet.record("wide").reason == "NoRoom")
    assert used(engines) == 4


async def test_what_no_present_member_could_hold_is_told_so_at_once_and_waits(sizes, engines):
    """It is accepted, holds no quota and nobody up, and runs when a member comes that could."""
    fleet = sizes
    await quota(fleet, pods=20)
    await run(fleet, "wide", 9)
    await fleet.round()
    condition = fleet.condition("fleet.dev/Placed", "wide")
    assert (condition["status"], condition["reason"]) == ("False", "Impossible")
    assert condition["message"].startswith("east 8 free, needs 9 in one cluster")
    assert condition["message"].endswith("it would not fit even if nothing else ran")
    assert "Impossible" in fleet.events()
    assert used(engines) == 0
    await run(fleet, "train", 8)
    await fleet.until(lambda: phase(fleet, "train") == "Running")
    await fleet.join("west", room=9)
    await fleet.until(lambda: phase(fleet, "wide") == "Running")


async def test_a_network_that_nobody_has_is_told_at_once(sizes, engines):
    fleet = sizes
    policy = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "all", "namespace": "payments", "uid": "pp"},
        "spec": {"workloads": {}, "mode": "Split", "gang": {"plane": "roce-9"}},
    }
    await fleet.store.create(PLACEMENT_POLICY.resource, policy)
    await run(fleet, "train", 2)
    await fleet.round()
    condition = fleet.condition("fleet.dev/Placed")
    assert condition["reason"] == "Impossible"
    assert "not known to be on any plane" in condition["message"]
    assert fleet.left_over() == []


async def test_a_limit_below_what_is_in_use_ends_nothing_and_admits_nothing(sizes, engines):
    fleet = sizes
    await quota(fleet, pods=4)
    await run(fleet, "train", 4)
    await fleet.until(lambda: phase(fleet, "train") == "Running")
    await quota(fleet, pods=2)
    await run(fleet, "other", 1)
    await fleet.wait(10)
    assert phase(fleet, "train") == "Running"
    assert fleet.record("other").reason == "QuotaExceeded"
    (line,) = [each for each in engines[-1].engine.report() if each.node == "team"]
    assert (line.used - line.earmarked, line.overcommitted) == (4, 2)
    await fleet.delete_job()
    await fleet.until(lambda: phase(fleet, "other") == "Running")


@pytest.mark.parametrize("how", ["suspended", "deleted"])
async def test_quota_comes_back_when_work_is_suspended_or_deleted(sizes, engines, how):
    fleet = sizes
    await quota(fleet, pods=4)
    await run(fleet, "train", 4)
    await fleet.until(lambda: phase(fleet, "train") == "Running")
    await run(fleet, "other", 4)
    if how == "suspended":
        await fleet.change_job("train", lambda obj: obj["spec"].update(suspend=True))
    else:
        await fleet.delete_job()
    await fleet.until(lambda: phase(fleet, "other") == "Running")
    assert used(engines) == 4


async def test_a_preemptor_starts_only_when_its_victims_are_gone(sizes, engines):
    fleet = sizes
    east = fleet.members["east"]
    await run(fleet, "crawl", 4)
    await run(fleet, "index", 4)
    await fleet.until(lambda: phase(fleet, "index") == "Running")
    await run(fleet, "train", 8, priority=100)
    east.cut = True
    await fleet.until(lambda: fleet.record("crawl").owed and fleet.record("index").owed)
    await fleet.wait(5)
    assert phase(fleet, "train") == "Queued", "nobody saw them end"
    assert fleet.record("train").message == (
        "waits for job payments/crawl, job payments/index to be gone"
    )
    assert fleet.record("crawl").reason == "Preempted"
    assert status(fleet, "crawl")["preemptedFor"]["name"] == "train"
    assert {"Preempted", "Preempting"} <= fleet.events()
    # Their places are promised: nobody else takes them while they leave.
    await run(fleet, "late", 2)
    east.cut = False
    await fleet.until(lambda: phase(fleet, "train") == "Running")
    assert phase(fleet, "crawl") == phase(fleet, "index") == "Queued"
    assert fleet.job("crawl")["status"].get("failed", 0) == 0
    # They wait again, before what came after them.
    await fleet.delete_job()
    await fleet.until(lambda: phase(fleet, "index") == "Running")
    assert phase(fleet, "crawl") == "Running"
    assert phase(fleet, "late") == "Queued"
    again = status(fleet, "crawl")
    assert again["preemptions"] == 1
    assert "preemptedFor" not in again


async def test_nothing_is_evicted_for_work_that_never_preempts(sizes):
    fleet = sizes
    await run(fleet, "crawl", 8)
    await fleet.until(lambda: phase(fleet, "crawl") == "Running")
    await run(fleet, "train", 6, priority=100, pod={"preemptionPolicy": "Never"})
    await fleet.wait(20)
    assert phase(fleet, "crawl") == "Running"
    assert fleet.record("train").reason == "NoRoom"


@pytest.mark.parametrize("operations", range(0, 60, 3))
async def test_a_gateway_that_dies_during_an_eviction_goes_on_with_it(
    sizes, engines, crash, operations
):
    fleet = sizes
    await quota(fleet, pods=8)
    await run(fleet, "crawl", 4)
    await run(fleet, "index", 4)
    await fleet.until(lambda: phase(fleet, "index") == "Running")
    fleet.crash_after = fleet.operations + operations
    try:
        await run(fleet, "train", 6, priority=100)
        for _ in range(30):
            await fleet.round()
    except crash:
        pass
    await fleet.restart()
    await fleet.until(lambda: phase(fleet, "train") == "Running")
    await fleet.wait(5)
    assert phase(fleet, "crawl") == phase(fleet, "index") == "Queued"
    assert len(fleet.running()) == 6
    assert used(engines) == 6
    assert status(fleet, "crawl")["preemptions"] == 1


async def test_a_gateway_that_comes_back_counts_what_runs(sizes, engines):
    fleet = sizes
    await quota(fleet, pods=6)
    await run(fleet, "train", 4)
    await fleet.until(lambda: phase(fleet, "train") == "Running")
    await fleet.restart()
    await run(fleet, "other", 4)
    await fleet.until(lambda: fleet.record("other").reason == "QuotaExceeded")
    assert used(engines) == 4


async def test_a_decision_that_cannot_be_stored_is_undone(sizes, engines, monkeypatch):
    fleet = sizes
    await quota(fleet, pods=4)
    write = type(fleet.waiting)._write
    lost = []

    async def refuse_once(self, *args, **more):
        if not lost:
            lost.append(args)
            from fleet.errors import Conflict

            raise Conflict("somebody else wrote")
        await write(self, *args, **more)

    monkeypatch.setattr(type(fleet.waiting), "_write", refuse_once)
    await run(fleet, "train", 4)
    assert lost
    assert used(engines) == 4, "the engine holds what it decided"
    await fleet.delete_job()
    await run(fleet, "other", 4)
    await fleet.until(lambda: phase(fleet, "other") == "Running")
    assert used(engines) == 4


async def test_pods_queue_like_jobs_and_go_when_they_are_preempted(sizes):
    fleet = sizes
    await quota(fleet, pods=4)
    await run(fleet, "crawl", 3)
    await fleet.run_pod("web")
    await fleet.run_pod("later")
    await fleet.until(lambda: fleet.record("pod-web").phase == "Running")
    waits = {c["type"]: c for c in fleet.pod("later")["status"]["conditions"]}
    assert "1 pods" in waits["PodScheduled"]["message"]
    await run(fleet, "train", 4, priority=100)
    await fleet.until(lambda: fleet.pod("web")["metadata"].get("deletionTimestamp"))
    await fleet.until(lambda: phase(fleet, "crawl") == "Queued")


async def test_how_long_work_is_expected_to_run_may_be_said_while_it_runs(sizes, engines):
    """The Placement follows, and so does whoever waits for it to end; it is kept through a
    restart, and what cannot be read changes nothing."""
    fleet = sizes

    def say(run_time):
        def change(job):
            annotations = {} if run_time is None else {RUN_TIME_ANNOTATION: run_time}
            job["metadata"]["annotations"] = annotations

        return fleet.change_job("train", change)

    await run(fleet, "train", 2)
    await fleet.until(lambda: phase(fleet, "train") == "Running")
    assert "runTime" not in status(fleet)
    (uid,) = engines[-1].engine.running()
    before = status(fleet)
    for said, written, seconds in (
        ("6h", "6h", 21600.0), ("90m", "1h30m", 5400.0), ("6parsecs", "1h30m", 5400.0),
        (None, None, None), ("0s", "0s", 0.0),
    ):  # fmt: skip
        await say(said)
        await fleet.settle()
        assert status(fleet).get("runTime") == written
        assert engines[-1].engine.running()[uid].item.run_time_s == seconds
        rest = {name: value for name, value in status(fleet).items() if name != "runTime"}
        assert rest == before
    await fleet.restart()
    await fleet.settle()
    assert engines[-1].engine.running()[uid].item.run_time_s == 0.0
    revision = fleet.store.sequencer.current
    await fleet.settle()
    assert fleet.store.sequencer.current == revision


@pytest.fixture
async def tiers(fleet, engines):
    """`own` has room for six and `cloud` for eight, tried in that order; work goes back when there
    was room for 20 s."""
    await fleet.join("own", room=6)
    await fleet.join("cloud", room=8)
    tiers = [{"name": each, "selector": {"matchLabels": {"name": each}}} for each in fleet.members]
    clusters = {"tiers": tiers, "returnAfter": "20s"}
    policy = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "all", "namespace": "payments", "uid": "pp"},
        "spec": {"workloads": {}, "clusters": clusters},
    }
    await fleet.store.create(PLACEMENT_POLICY.resource, policy)
    await fleet.restart()
    return fleet


def runs_in(fleet, name):
    record = fleet.record(name)
    return [each.cluster for each in record.shards] if record.phase == "Running" else []


async def burst(fleet):
    """`first` takes the own room, `train` goes to the cloud."""
    await run(fleet, "first", 4)
    await run(fleet, "train", 4)
    await fleet.until(lambda: runs_in(fleet, "train") == ["cloud"])
    assert runs_in(fleet, "first") == ["own"]


async def test_what_burst_to_a_later_tier_goes_back_once_there_was_room_for_so_long(tiers, engines):
    fleet = tiers
    await burst(fleet)
    await fleet.wait(30)
    assert runs_in(fleet, "train") == ["cloud"], "two are free, it needs four"
    assert engines[-1].spells == {}
    await fleet.delete_job("first")
    await fleet.wait(10)
    assert runs_in(fleet, "train") == ["cloud"]
    (spell,) = engines[-1].spells.values()
    assert (spell.tier, spell.tier_name, spell.clusters) == (1, "own", ("own",))
    assert spell.due_s == spell.since_s + 20
    await fleet.until(lambda: runs_in(fleet, "train") == ["own"])
    assert engines[-1].spells == {}
    assert {"MovesBack"} <= fleet.events()
    told = status(fleet)
    assert (told["generation"], told["preemptions"]) == (2, 1)
    assert "preemptedFor" not in told
    assert fleet.job()["status"].get("failed", 0) == 0
    await fleet.wait(60)
    assert (runs_in(fleet, "train"), status(fleet)["generation"]) == (["own"], 2)
    engines[-1].engine.verify()


async def test_what_waits_for_room_gets_it_before_anything_goes_back(tiers, engines):
    fleet = tiers
    await burst(fleet)
    await run(fleet, "wide", 6)
    await fleet.until(lambda: fleet.record("wide").reason == "NoRoom")
    await fleet.delete_job("first")
    await fleet.until(lambda: runs_in(fleet, "wide") == ["own"])
    await fleet.wait(60)
    assert runs_in(fleet, "train") == ["cloud"]


async def test_a_cluster_that_does_not_take_the_work_is_no_room_to_go_back_to(
    tiers, engines, monkeypatch
):
    fleet = tiers
    await burst(fleet)
    monkeypatch.setattr(fleet.waiting, "_barred", lambda namespace: {"own": "does not accept it"})
    await fleet.delete_job("first")
    await fleet.wait(60)
    assert runs_in(fleet, "train") == ["cloud"]


async def test_work_is_ended_once_for_a_cluster_that_then_turns_it_out(tiers, engines, monkeypatch):
    fleet = tiers
    await burst(fleet)
    await fleet.delete_job("first")
    await fleet.until(lambda: not runs_in(fleet, "first"))

    async def puts_none_on_nodes():
        pass

    monkeypatch.setattr(fleet.members["own"], "_schedule", puts_none_on_nodes)
    await fleet.until(lambda: runs_in(fleet, "train") == [])
    await fleet.until(lambda: runs_in(fleet, "train") == ["cloud"])
    await fleet.wait(300)
    assert runs_in(fleet, "train") == ["cloud"]
    assert status(fleet)["preemptions"] == 1


@pytest.mark.parametrize("operations", range(0, 30, 3))
async def test_a_gateway_that_dies_while_work_goes_back_goes_on_with_it(
    tiers, engines, crash, operations
):
    fleet = tiers
    await burst(fleet)
    await fleet.delete_job("first")
    try:
        await fleet.until(lambda: not runs_in(fleet, "first"))
        fleet.crash_after = fleet.operations + operations
        for _ in range(80):
            await fleet.round()
    except crash:
        pass
    await fleet.restart()
    await fleet.until(lambda: runs_in(fleet, "train") == ["own"])
    assert len(fleet.running()) == 4
    assert status(fleet)["preemptions"] == 1


async def test_a_wait_for_a_later_tier_is_told_once(fleet, engines):
    await fleet.join("own", room=2)
    await fleet.join("cloud", room=8)
    tiers = [{"name": each, "selector": {"matchLabels": {"name": each}}} for each in fleet.members]
    tiers[1]["after"] = "30s"
    policy = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "all", "namespace": "payments", "uid": "pp"},
        "spec": {"workloads": {}, "clusters": {"tiers": tiers}},
    }
    await fleet.store.create(PLACEMENT_POLICY.resource, policy)
    await fleet.restart()
    await run(fleet, "train", 4)
    await fleet.until(lambda: fleet.record("train").reason == "TierNotYet")
    for _ in range(5):
        await fleet.wait(3)
        fleet.waiting.changed()  # others come and go meanwhile
    await fleet.until(lambda: runs_in(fleet, "train") == ["cloud"])
    entries = fleet.store.collection(EVENTS).snapshot().entries()
    waits = [each["message"] for each in (e.parse() for e in entries) if each["type"] == "Warning"]
    (told,) = waits
    assert "tier 2 is tried after 30s" in told


async def test_work_that_could_not_be_told_to_go_back_is_told_again(tiers, engines, monkeypatch):
    fleet = tiers
    await burst(fleet)
    change = type(fleet.waiting)._change
    refused = []

    async def refuse_once(self, step):
        if isinstance(step, Evict) and not refused:
            refused.append(step)
            raise StoreError("the disk is full")
        await change(self, step)

    monkeypatch.setattr(type(fleet.waiting), "_change", refuse_once)
    await fleet.delete_job("first")
    await fleet.until(lambda: refused)
    await fleet.until(lambda: runs_in(fleet, "train") == ["own"], rounds=200)


@pytest.mark.parametrize("urgent", [0, 10])
async def test_nothing_goes_back_whose_quota_would_go_to_others_that_wait(tiers, engines, urgent):
    fleet = tiers
    await burst(fleet)
    await quota(fleet, pods=4)
    await fleet.delete_job("first")
    never = {"preemptionPolicy": "Never"}
    await run(fleet, "urgent", 4, priority=urgent, pod=never)
    await fleet.until(lambda: fleet.record("urgent").reason == "QuotaExceeded")
    await fleet.wait(60)
    assert runs_in(fleet, "train") == (["cloud"] if urgent else ["own"])
    assert fleet.record("urgent").reason == "QuotaExceeded"


async def test_what_waits_as_before_is_neither_read_nor_written_again(sizes, engines, monkeypatch):
    """The very same question and the very same answer, until something about it changes."""
    fleet = sizes
    await quota(fleet, pods=2)
    await fleet.run_job("waits", 3)
    for _ in range(4):
        await fleet.round()
    asked, told, written = [], [], []
    planner = engines[-1]
    decide, update = planner.round, fleet.store.update

    async def spied(questions, *, barred):
        asked.append(list(questions))
        async for step in decide(questions, barred=barred):
            told.append(step)
            yield step

    async def counted(resource, obj, **more):
        written.append(obj["metadata"]["name"])
        return await update(resource, obj, **more)

    monkeypatch.setattr(planner, "round", spied)
    monkeypatch.setattr(fleet.store, "update", counted)
    await fleet.round()
    await fleet.round()
    (before,), (after,) = asked
    assert after is before
    assert told[1] is told[0]
    assert "job-waits" not in written
    await quota(fleet, pods=1)
    await fleet.round()
    assert told[2] is not told[0]
    assert "job-waits" in written


async def test_room_to_go_back_to_is_kept_until_it_is_there(tiers, engines):
    """What comes meanwhile does not take it, or it would have been ended for nothing."""
    fleet = tiers
    await burst(fleet)
    await fleet.delete_job("first")
    await fleet.until(lambda: "preemptedFor" in status(fleet))
    fleet.members["cloud"].cut = True
    metadata = {"name": "guest", "namespace": "payments", "uid": "guest"}
    guest = {**fleet.job(), "metadata": metadata, "status": {}}
    told = {"spec": {"workload": {"apiVersion": "batch/v1", "kind": "Job", **metadata}}}
    await fleet.round()
    found = engines[-1].seats([Question(guest, {**told, "metadata": metadata})])
    assert isinstance(found["guest"], Refusal), "nor is it given to others to fill"
    foretold = engines[-1].foretell([Question(guest, {**told, "metadata": metadata})], [])
    assert [each.verdict for each in foretold.prospect.told] == ["Waits"]
    await run(fleet, "late", 4)
    await fleet.until(lambda: runs_in(fleet, "train"), rounds=200)
    assert runs_in(fleet, "train") == ["own"]
    assert fleet.record("late").waiting
    fleet.members["cloud"].cut = False
    await fleet.until(lambda: runs_in(fleet, "late") == ["cloud"])
    engines[-1].engine.verify()
