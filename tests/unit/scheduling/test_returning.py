"""Which running work goes back to an earlier tier, and when."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from fleet.scheduling.decisions import Why
from fleet.scheduling.placement import Refusal
from fleet.scheduling.placer import Item, Placed
from fleet.scheduling.planner import Fleet, asked_of
from fleet.scheduling.queue.running import Run
from fleet.scheduling.quota.book import Ask
from fleet.scheduling.returning import Returns, Spell, away_of, tier_of
from fleet.scheduling.views import Views

TIERS = [
    {"name": "own", "selector": {"matchLabels": {"fleet.dev/provider": "own"}}},
    {"name": "cloud", "selector": {"matchLabels": {"fleet.dev/provider": "aws"}}},
]


@pytest.fixture
def away(build):
    def made(name="train", *, pods=4, runs_s=None, started_s=0.0, now_s=0.0, evictions=0, **more):
        clusters = {"tiers": TIERS, "returnAfter": "10m", **more}
        clusters = {key: value for key, value in clusters.items() if value is not None}
        policy = build.policy({"workloads": {}, "clusters": clusters})
        job = build.job(pods, name=name)
        if runs_s is not None:
            job["spec"]["activeDeadlineSeconds"] = runs_s
        asked = asked_of(job, None, Fleet((), (policy,)), now=build.now)
        item = Item(f"uid-{name}", "", 0, 0, {}, shape=name, run_time_s=runs_s)
        run = Run(item, Placed(None, {}), Ask(), 0, started_s, evictions)
        return away_of(asked, run, 2, now_s=now_s)

    return made


@pytest.fixture
def fleet(build):
    """`fleet(own=8)` answers where work would go with so many accelerators in the own room."""

    def made(own, refusals=()):
        views = Views((
            build.cluster("idc", own), build.cluster("aws", 64, provider="aws"),
        ), prices=build.prices(), now_s=0.0)  # fmt: skip
        none = Fleet(()).ceilings
        return SimpleNamespace(
            refusals=dict(refusals),
            choose=lambda asked, *, without: asked.choose(views, none, now=build.now),
        )

    return made


class Engine:
    """What runs, and why others wait."""

    def __init__(self, away, *, waiting=(), leaving_for=""):
        uids = [each.uid for each in away]
        self._running = {uid: SimpleNamespace(leaving_for="") for uid in uids}
        self._running["other"] = SimpleNamespace(leaving_for=leaving_for)
        self._waiting = [(SimpleNamespace(uid="waits"), why) for why in waiting]

    def running(self):
        return self._running

    def waiting(self):
        return self._waiting

    def gives_way(self, uid, now):
        return False


def due(returns, away, rooms, now_s, **engine):
    engine = Engine(away, **engine)
    found = returns.due(away, engine, rooms, now_s=now_s)
    leaves = {uid for uid, run in engine.running().items() if run.leaving_for} - {"other"}
    assert leaves == (set() if found is None else {found.uid})
    return None if found is None else found.uid


def test_it_goes_back_once_there_was_room_for_all_of_it_for_so_long(away, fleet):
    returns, work = Returns(), [away()]
    assert due(returns, work, fleet(8), 100.0) is None
    assert returns.next_s() == 700.0
    assert due(returns, work, fleet(8), 699.0) is None
    found = returns.due(work, Engine(work), fleet(8), now_s=700.0)
    assert found.uid == "uid-train"
    assert found.other["kind"] == "PlacementPolicy"
    assert found.other["why"] == "tier 1 (own) has had room for all of it for 10m, in idc"


def test_room_that_was_gone_meanwhile_counts_anew(away, fleet):
    returns, work = Returns(), [away()]
    due(returns, work, fleet(8), 0.0)
    assert returns.spells == {"uid-train": Spell(1, 0.0, 600.0, 1, "own", ("idc",))}
    assert due(returns, work, fleet(3), 300.0) is None
    assert returns.next_s() is None
    assert returns.spells == {}
    assert due(returns, work, fleet(8), 601.0) is None
    assert returns.spells["uid-train"].due_s == 1201.0
    assert due(returns, work, fleet(8), 1201.0) == "uid-train"


def test_no_part_of_it_goes_alone(away, fleet):
    returns = Returns()
    for now_s in (0.0, 10_000.0):
        assert due(returns, [away(pods=9)], fleet(8), now_s) is None


def test_it_stays_unless_its_policy_says_otherwise(away):
    assert away(returnAfter=None) is None


@pytest.mark.parametrize("reason", ["Capacity", "Behind", "Evicting"])
def test_what_waits_for_room_comes_first(away, fleet, reason):
    returns, work = Returns(), [away()]
    due(returns, work, fleet(8), 0.0)
    assert due(returns, work, fleet(8), 700.0, waiting=[Why(reason)]) is None
    assert due(returns, work, fleet(8), 700.0, waiting=[None]) is None
    assert due(returns, work, fleet(8), 800.0, waiting=[Why("Quota")]) is None, "counted anew"
    assert due(returns, work, fleet(8), 1400.0, waiting=[Why("Quota")]) == "uid-train"


@pytest.mark.parametrize(("awaits", "goes"), [("TooDear", True), ("TierNotYet", False)])
def test_what_waits_for_other_prices_holds_nobody_up(away, fleet, build, awaits, goes):
    returns, work = Returns(), [away()]
    rooms = fleet(8, {"waits": Refusal(build.demand(), "no", (), awaits=awaits)})
    for now_s in (0.0, 700.0):
        found = due(returns, work, rooms, now_s, waiting=[Why("Capacity")])
    assert (found is not None) == goes


def test_one_goes_after_the_other_those_first_that_run_longest(away, fleet):
    returns = Returns()
    work = [away("young", started_s=50.0), away("old", started_s=10.0)]
    due(returns, work, fleet(8), 100.0)
    assert due(returns, work, fleet(8), 700.0) == "uid-old"
    assert due(returns, work[:1], fleet(8), 701.0, leaving_for="PlacementPolicy") is None


@pytest.mark.parametrize(
    ("runs_s", "goes"),
    [(1_700, False), (4_000, True), (None, True)],
    ids=["nearly done", "long to go", "nobody knows"],
)
def test_what_is_done_sooner_where_it_is_stays(away, fleet, runs_s, goes):
    returns = Returns()
    for now_s in (100.0, 700.0):
        found = due(returns, [away(runs_s=runs_s, now_s=now_s)], fleet(8), now_s)
    assert (found is not None) == goes


def test_what_was_ended_often_waits_longer(away, fleet):
    returns, work = Returns(), [away(evictions=2)]
    due(returns, work, fleet(8), 0.0)
    assert due(returns, work, fleet(8), 2_399.0) is None
    assert due(returns, work, fleet(8), 2_400.0) == "uid-train"


def test_another_generation_begins_anew(away, fleet):
    returns, work = Returns(), away()
    due(returns, [work], fleet(8), 0.0)
    again = replace(work, asked=replace(work.asked, before={"generation": 3}))
    assert due(returns, [again], fleet(8), 700.0) is None


def test_what_finds_no_place_at_all_stays(away, build):
    refusal = Refusal(build.demand(), "no", ())
    returns = Returns()
    for now_s in (0.0, 700.0):
        rooms = SimpleNamespace(refusals={}, choose=lambda asked, *, without: refusal)
        assert due(returns, [away()], rooms, now_s) is None


RUNS = {"state": "Running", "tier": 2}


@pytest.mark.parametrize(
    ("status", "tier"),
    [
        ({"phase": "Running", "shards": [RUNS | {"tier": 1}, RUNS]}, 2),
        ({"phase": "Holding", "shards": [RUNS]}, 1),
        ({"phase": "Running", "shards": [RUNS], "preemptedFor": {"kind": "Job"}}, 1),
        ({"phase": "Running", "shards": [RUNS], "loan": {"policy": "night"}}, 1),
        ({"phase": "Running", "shards": [RUNS], "owed": [{}]}, 1),
        ({"phase": "Running", "shards": [RUNS | {"lostAt": "2026-11-29T00:00:00Z"}]}, 1),
        ({"phase": "Running", "shards": [RUNS, {"state": "Lost"}]}, 1),
        ({"phase": "Succeeded"}, 1),
    ],
)
def test_only_what_runs_undisturbed_is_asked_about(status, tier):
    assert tier_of(status) == tier
