"""One workload through all steps, with nothing remembered between two questions."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleet.errors import Invalid
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.planner import Fleet, decide, promises_of
from policies import PLACEMENT

SPLIT = {"mode": "Split", "workloads": {}, "failover": {"tolerate": "15s", "fencing": "Confirmed"}}


@pytest.fixture
def fleet(build):
    clusters = (build.cluster("idc-a", [2, 2]), build.cluster("idc-b", 2))
    return Fleet(clusters, policies=(build.policy(SPLIT),), priorities={"high": 10})


def ask(build, workload, fleet, placement=None, promises=None, **more):
    return decide(
        workload, placement, fleet, promises or Ledger(), **{"now": build.now, "now_s": 0.0, **more}
    )


def stored(decided, **changes):
    """The Placement as it stands in the store after the decision."""
    return {"spec": decided.spec, "status": {**decided.status, **changes}}


def shards(decided):
    return {
        each["cluster"]: (each["roles"][0]["first"], each["roles"][0]["count"], each["generation"])
        for each in decided.status["shards"]
    }


def test_a_decision_is_a_whole_placement(build, fleet):
    decided = ask(build, build.job(6), fleet)
    assert decided.placed
    assert shards(decided) == {"idc-a": (0, 4, 1), "idc-b": (4, 2, 1)}
    assert (decided.status["lease"], decided.status["fencing"]) == ("15s", "Confirmed")
    assert decided.spec["policy"] == {"namespace": "default", "name": "gang"}
    PLACEMENT.parse(stored(decided))


def test_a_lost_shard_is_placed_anew_whether_or_not_it_is_in_the_record_still(build, fleet):
    first = ask(build, build.job(6), fleet)
    spare = Fleet((*fleet.clusters, build.cluster("idc-d", 2)), policies=fleet.policies)
    gone = [each for each in first.status["shards"] if each["cluster"] != "idc-b"]
    for placement in (stored(first), stored(first, shards=gone)):
        again = ask(
            build, build.job(6), spare, placement,
            lost={"idc-b"}, barred={"idc-b": "its lease runs"},
        )  # fmt: skip
        assert shards(again) == {"idc-a": (0, 4, 1), "idc-d": (4, 2, 2)}
        assert again.status["generation"] == 2
        assert again.status["message"] == "placed anew: ranks 4-5 in idc-d; all others stay"


def test_without_lost_shards_all_of_it_is_placed_anew_where_it_was(build, fleet):
    first = ask(build, build.job(2), fleet)
    assert shards(first) == {"idc-a": (0, 2, 1)}
    moved = [{**first.status["shards"][0], "cluster": "idc-b"}]
    again = ask(build, build.job(2), fleet, stored(first, shards=moved))
    assert shards(again) == {"idc-b": (0, 2, 2)}


def test_where_it_was_placed_last_wins_ties_after_dispatch_let_go_of_it(build, fleet):
    moved = ask(build, build.job(2), fleet, barred={"idc-a": "has a Job of that name"})
    assert shards(moved) == {"idc-b": (0, 2, 1)}
    waiting = stored(moved, phase="Queued")
    del waiting["status"]["shards"]
    assert shards(ask(build, build.job(2), fleet, waiting)) == {"idc-b": (0, 2, 2)}


def test_the_lease_is_the_policys_or_the_fleets(build, fleet):
    for tolerate, lease in ((None, "15s"), ("5m", "15s"), ("40s", "40s")):
        failover = {"tolerate": tolerate} if tolerate else {}
        policy = build.policy({"workloads": {}, "failover": failover})
        short = Fleet(fleet.clusters, policies=(policy,), lease=timedelta(seconds=15))
        assert ask(build, build.job(2), short).status["lease"] == lease


def test_what_dispatch_noted_stays_in_the_status(build, fleet):
    first = ask(build, build.job(6), fleet)
    noted = [{**each, "state": "Running", "startedAt": "2026-11-29T12:00:09Z"}
             for each in first.status["shards"]]  # fmt: skip
    owed = [{"cluster": "x", "shard": "train-g0-x"}]
    placement = stored(first, shards=noted, owed=owed, failures=2)
    again = ask(build, build.job(6), fleet, placement, lost={"idc-b"})
    assert again.status["owed"] == owed
    assert again.status["failures"] == 2
    kept, new = again.status["shards"]
    assert kept["startedAt"] == "2026-11-29T12:00:09Z"
    assert (new["cluster"], new["state"], new.get("startedAt")) == ("idc-b", "Planned", None)


def test_a_refusal_says_why_and_keeps_what_runs(build, fleet):
    first = ask(build, build.job(6), fleet)
    again = ask(build, build.job(6), fleet, stored(first), lost={"idc-b"},
                barred={"idc-b": "namespace default does not accept work"})  # fmt: skip
    assert not again.placed
    assert again.status["generation"] == 1
    assert again.status["shards"] == first.status["shards"]
    (verdict,) = [v for v in again.status["clusters"] if v["name"] == "idc-b"]
    assert (verdict["reason"], verdict["message"]) == (
        "Barred", "namespace default does not accept work",
    )  # fmt: skip
    PLACEMENT.parse(stored(again))


def test_asking_again_with_nothing_new_changes_nothing(build, fleet):
    refused = ask(build, build.job(9), fleet)
    later = ask(build, build.job(9), fleet, stored(refused), now=build.now + timedelta(seconds=5))
    assert later.status == refused.status


def test_what_must_not_be_split_stays_whole_and_says_so(build, fleet):
    decided = ask(build, build.job(6), fleet, unsplittable="completionMode is NonIndexed")
    assert not decided.placed
    reason = "kept in one cluster: completionMode is NonIndexed"
    assert decided.status["message"].endswith(reason)
    assert decided.warnings == (reason,)
    placed = ask(build, build.job(2), fleet, unsplittable="completionMode is NonIndexed")
    assert placed.placed
    assert placed.status["message"] == reason
    whole = Fleet(fleet.clusters, policies=(build.policy({"workloads": {}}),))
    assert ask(build, build.job(2), whole, unsplittable="it is a Pod").warnings == ()


def test_time_in_the_queue_opens_tiers(build):
    tiers = [
        {"selector": {"matchLabels": {"fleet.dev/provider": "none"}}},
        {"selector": {}, "after": "1m"},
    ]
    policy = build.policy({"workloads": {}, "clusters": {"tiers": tiers}})
    fleet = Fleet((build.cluster("east"),), policies=(policy,))
    waiting = ask(build, build.job(1), fleet)
    assert not waiting.placed
    assert waiting.retry_after_s == 60.0
    later = build.now + timedelta(seconds=60)
    assert ask(build, build.job(1), fleet, stored(waiting), now=later).placed


def test_a_deadline_that_cannot_be_met_any_more_is_said(build):
    objective = {"deadline": "1h", "runTime": "50m"}
    fleet = Fleet((), policies=(build.policy({"workloads": {}, "objective": objective}),))
    waiting = ask(build, build.job(1), fleet)
    later = build.now + timedelta(minutes=10)
    in_time = ask(build, build.job(1), fleet, stored(waiting), now=later)
    assert "deadline" not in in_time.status["message"]
    late = ask(build, build.job(1), fleet, stored(in_time), now=later + timedelta(seconds=1))
    assert late.status["message"].endswith(
        "its deadline, 2026-11-29T13:00:00Z, cannot be met any more: it is expected to run for 50m"
    )


def test_a_resize_under_way_is_refused_with_what_to_do(build, fleet):
    first = ask(build, build.job(6), fleet)
    with pytest.raises(Invalid, match="4 ranks, 6 were placed"):
        ask(build, build.job(4), fleet, stored(first), lost={"idc-b"})


# -- promises


@pytest.mark.parametrize(
    ("phase", "state", "promised"),
    [
        ("QuotaHeld", "Planned", 2), ("Holding", "Held", 2), ("Committed", "Committed", 2),
        ("Running", "Planned", 2), ("Running", "Running", 0), ("Queued", "Planned", 0),
        ("Lost", "Committed", 2), ("Lost", "Lost", 0),
        ("Succeeded", "Succeeded", 0), ("Failed", "Planned", 0),
    ],
)  # fmt: skip
def test_promises_are_read_off_the_placements_in_flight(build, fleet, phase, state, promised):
    decided = ask(build, build.job(6), fleet)
    noted = [{**each, "state": state} for each in decided.status["shards"]]
    ledger = promises_of(stored(decided, phase=phase, shards=noted), build.job(6))
    assert len(ledger.entries) == promised
    other = ask(build, build.job(6, name="other"), fleet, promises=ledger)
    assert other.placed is (promised == 0)


def test_a_workload_does_not_stand_in_its_own_way(build, fleet):
    decided = ask(build, build.job(6), fleet)
    ledger = promises_of(stored(decided), build.job(6))
    assert ask(build, build.job(6), fleet, stored(decided), ledger).placed


def test_what_was_decided_under_a_policy_that_is_gone_is_promised_none_the_less(build, fleet):
    decided = ask(build, build.job(6), fleet)
    orphan = build.job(6, labels={"fleet.dev/policy": "gone"})
    assert len(promises_of(stored(decided), orphan).entries) == 2


def test_what_cannot_be_read_promises_nothing(build, fleet):
    decided = ask(build, build.job(6), fleet)
    broken = build.job(6)
    broken["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "many"}}
    assert promises_of(stored(decided), broken) == Ledger()
    older = [{"state": "Planned", "ranks": 6}]
    assert promises_of(stored(decided, shards=older), build.job(6)) == Ledger()
