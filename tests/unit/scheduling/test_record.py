"""Decisions as Placement objects, and back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from fleet.dispatch import record as records
from fleet.scheduling.placement import Plan, place
from fleet.scheduling.record import plan_of, shards_of, spec_of, status_of, with_condition
from policies import PLACEMENT

SPLIT = {"mode": "Split"}


def decided(build, pods=6, sizes=(4, 2), **more):
    fleet = [build.cluster(f"c{i}", size, blocks=["r1"]) for i, size in enumerate(sizes)]
    return place(build.demand(pods, SPLIT), fleet, generation=1, now_s=0.0, **more)


def written(build, decision, **more):
    return status_of(decision, **{"now": build.now, "queued_at": build.now, **more})


def placement(build, demand, **more):
    return {"spec": spec_of(demand.workload, build.policy(SPLIT)), **more}


@pytest.mark.parametrize("sizes", [(4, 2), (9,), (1, 1), ()])
def test_a_status_is_one_of_the_kind_and_names_every_cluster(build, sizes):
    decision = decided(build, sizes=sizes)
    status = written(build, decision)
    obj = placement(build, decision.demand, status=status)
    PLACEMENT.parse(obj)
    assert [each["name"] for each in status["clusters"]] == [f"c{i}" for i in range(len(sizes))]
    assert status["phase"] == ("QuotaHeld" if isinstance(decision, Plan) else "Queued")


def test_what_is_written_is_read_back(build):
    prices = build.prices(
        {"cluster": "c0", "billing": "Owned"},
        {"cluster": "c1", "perHour": "1.90", "per": "Accelerator"},
    )
    plan = decided(build, prices=prices)
    status = written(build, plan)
    obj = placement(build, plan.demand, status=status)
    read = plan_of(obj, plan.demand)
    assert read is not None
    for mine, theirs in zip(read.shards, plan.shards, strict=True):
        assert (mine.cluster, mine.index, mine.generation, mine.intervals, mine.per_hour) == (
            theirs.cluster, theirs.index, theirs.generation, theirs.intervals, theirs.per_hour,
        )  # fmt: skip
    assert shards_of(obj) == read.shards
    assert (read.domain, read.generation) == (plan.domain, plan.generation)
    assert status["cost"]["perHour"] == "3.8"
    assert status["usedClusters"] == "c0 4, c1 2"


def test_nothing_placed_is_no_plan(build):
    refusal = decided(build, sizes=(1,))
    obj = placement(build, refusal.demand)
    assert plan_of(obj, refusal.demand) is None
    assert plan_of(obj | {"status": written(build, refusal)}, refusal.demand) is None
    assert shards_of(obj) == ()


def test_writing_the_same_again_changes_nothing(build):
    for sizes in ((4, 2), (1,)):
        decision = decided(build, sizes=sizes)
        first = written(build, decision)
        later = written(build, decision, now=build.now + timedelta(hours=1), before=first)
        assert later == first


def test_an_unknown_price_is_named_not_summed_up(build):
    prices = build.prices({"cluster": "c0", "billing": "Owned"})
    cost = written(build, decided(build, prices=prices))["cost"]
    assert cost == {"currency": "USD", "unknown": ["c1"]}


@pytest.mark.parametrize(
    ("sizes", "status", "reason"),
    [((4, 2), "True", "Placed"), ((4, 1), "False", "Impossible")],
)
def test_the_condition_says_whether_it_is_placed(build, sizes, status, reason):
    (condition,) = written(build, decided(build, sizes=sizes))["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "Placed", status, reason,
    )  # fmt: skip
    assert condition["message"]


def test_a_condition_keeps_its_time_while_its_status_stays(build):
    later = build.now + timedelta(minutes=5)
    first = with_condition([], type="A", status="False", reason="x", message="", now=build.now)
    same = with_condition(first, type="A", status="False", reason="y", message="", now=later)
    moved = with_condition(same, type="A", status="True", reason="y", message="", now=later)
    times = [each[0]["lastTransitionTime"] for each in (first, same, moved)]
    assert times == ["2026-11-29T12:00:00Z", "2026-11-29T12:00:00Z", "2026-11-29T12:05:00Z"]
    both = with_condition(moved, type="0", status="True", reason="", message="", now=later)
    assert [each["type"] for each in both] == ["0", "A"]


def test_a_budget_that_lets_it_run_with_a_warning_is_told_for_as_long_as_it_runs(build):
    """Not in the message, which speaks of the phase: it is another one in a moment."""
    decision = replace(decided(build), over_budget="above the budget of quota nlp")
    status = written(build, decision)
    assert status["overBudget"] == "above the budget of quota nlp"
    assert records.write(records.read(status), status)["overBudget"] == status["overBudget"]
    obj = placement(build, decision.demand, status=status)
    assert plan_of(obj, decision.demand).over_budget == decision.over_budget
    below = written(build, replace(decision, over_budget=""), before=status)
    assert "overBudget" not in below
