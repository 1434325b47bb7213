"""What `fleet explain` says."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from fleet.scheduling.explain import ahead_of, explained
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.planner import Fleet, decide
from policies.placement import Placement

TRAIN = {
    "spec": {
        "workload": {"apiVersion": "batch/v1", "kind": "Job", "name": "train"},
        "policy": {"namespace": "research", "name": "gang"},
    },
    "status": {
        "generation": 3,
        "phase": "Running",
        "plane": "roce-1",
        "priority": "high",
        "roles": [{"name": "worker", "pods": 6, "unit": 1}],
        "shards": [
            {
                "cluster": "idc-a",
                "roles": [{"name": "worker", "first": 0, "count": 4}],
                "tier": 1,
                "billing": "Owned",
                "perHour": "0",
                "state": "Committed",
                "committedAt": "2026-03-01T14:02:11Z",
            },
            {
                "cluster": "idc-long",
                "index": 1,
                "roles": [{"name": "worker", "first": 4, "count": 2}],
                "tier": 2,
                "billing": "OnDemand",
                "perHour": "3.8",
                "blocks": ["r1", "r2"],
                "state": "Holding",
            },
        ],
        "clusters": [
            {"name": "idc-a", "verdict": "Used"},
            {"name": "idc-long", "verdict": "Used"},
            {"name": "cloud-c", "verdict": "Refused", "message": "plane vpc-9 is not roce-1"},
            {"name": "idc-d", "verdict": "Unused", "reason": "Dearer"},
        ],
        "whySeveral": "no single member of roce-1 had 6 free (idc-a 4, idc-long 2)",
        "cost": {
            "currency": "USD",
            "perHour": "3.8",
            "nextBest": "cloud-c",
            "nextBestPerHour": "11.4",
        },
    },
}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def of_status(**status):
    return explained({**TRAIN, "status": status})


def test_a_split_job():
    assert explained(TRAIN) == [
        "train  Running  generation 3  6 ranks, unit 1, plane roce-1, priority high, "
        "policy research/gang",
        "  idc-a      ranks 0-3    committed 2026-03-01 14:02:11   tier 1, own, 0 $/h",
        "  idc-long   ranks 4-5    holding                         tier 2, on demand, 3.80 $/h, "
        "blocks r1 r2",
        "  cloud-c    not used     when this was placed: plane vpc-9 is not roce-1",
        "  idc-d      not needed   when this was placed: Dearer",
        "  why two clusters: no single member of roce-1 had 6 free (idc-a 4, idc-long 2)",
        "  cost     3.80 $/h now; the next best single cluster would be cloud-c at 11.40 $/h",
    ]


def test_times_of_today_are_shown_without_the_day():
    now = datetime.now(UTC)
    lines = of_status(shards=[{"cluster": "a", "state": "Running", "startedAt": now.isoformat()}])
    assert f"running {now.astimezone():%H:%M:%S}   " in lines[1]
    assert "price not known" in lines[1]


def test_one_that_waits_says_for_what():
    lines = of_status(
        message="roce-1 has 6 free, needs 9",
        roles=[{"name": "worker", "pods": 8, "unit": 4}, {"name": "loader", "pods": 1}],
        clusters=[{"name": "idc-a", "verdict": "Refused", "message": "4 free, needs 9"}],
        cost={"currency": "CNY", "unknown": ["idc-a"]},
    )
    assert lines == [
        "train  Queued  generation 0  8 worker, unit 4, 1 loader, policy research/gang",
        "  roce-1 has 6 free, needs 9",
        "  idc-a   not used   4 free, needs 9",
        "  cost     price not known: idc-a",
    ]


def test_roles_keep_their_names_where_there_are_several():
    roles = [{"name": "worker", "first": 0, "count": 8}, {"name": "loader", "first": 2, "count": 1}]
    assert "worker 0-7, loader 2" in of_status(shards=[{"cluster": "a", "roles": roles}])[1]


def test_a_shard_says_what_is_the_matter_with_it():
    shard = {"cluster": "a", "state": "Lost", "lostAt": "nonsense", "message": "not heard of"}
    assert of_status(shards=[shard])[1].endswith(
        "lost nonsense   tier 1, price not known, not heard of"
    )


def test_a_shard_that_runs_in_part_is_not_told_as_running_alone():
    shard = {
        "cluster": "a", "state": "Running", "startedAt": "2026-03-01T01:57:00Z",
        "amissAt": "2026-03-01T02:01:00Z", "message": "4 of 8 pods have no node: no room",
    }  # fmt: skip
    (line,) = of_status(shards=[shard])[1:2]
    assert "running 2026-03-01 01:57:00, not whole since 2026-03-01 02:01:00   tier 1" in line
    assert line.endswith("4 of 8 pods have no node: no room")


def cluster(name, *, ready="True", cordoned=False, since="2026-03-01T15:00:00Z"):
    return {
        "metadata": {"name": name},
        "spec": {"maintenance": {"cordoned": cordoned}},
        "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]},
    }


def verdict(name, reason, message="m", verdict="Refused"):
    return {"name": name, "verdict": verdict, "reason": reason, "message": message}


def others(verdicts, clusters, *, placed):
    """The lines about clusters that are not used."""
    shards = [{"cluster": "a", "state": "Running"}] if placed else []
    placement = {**TRAIN, "status": {"clusters": verdicts, "shards": shards}}
    return [line.strip() for line in explained(placement, clusters)[1 + len(shards) :]]


@pytest.mark.parametrize("placed", [True, False])
def test_a_member_that_is_ready_again_is_not_said_to_be_down(placed):
    said = verdict("b", "NotReady", "not ready: cannot connect")
    again = ["b   not used   was not ready then; is ready since 2026-03-01 15:00:00"]
    assert others([said], [cluster("b")], placed=placed) == again
    still = others([said], [cluster("b", ready="False")], placed=placed)
    told = "when this was placed: " if placed else ""
    assert still == [f"b   not used   {told}not ready: cannot connect"]


def test_what_has_changed_since_a_decision_is_said():
    said = [verdict("b", "Cordoned"), verdict("c", "Full"), verdict("d", "Dearer", "e", "Unused")]
    now = [cluster("b"), cluster("d"), cluster("new")]
    assert others(said, now, placed=True) == [
        "b     not used     took no new work then; takes it again",
        "c     not used     has left the fleet",
        "d     not needed   when this was placed: e",
        "new   not asked    joined after this was placed",
    ]
    assert others(said[:1], [cluster("b", cordoned=True)], placed=True) == [
        "b   not used   when this was placed: m"
    ]


def test_of_what_was_not_asked_about_only_where_it_ran_is_told():
    ran = [verdict("b", "Used", verdict="Used")]
    assert others(ran, [cluster("b"), cluster("c")], placed=False) == [
        "b   was used   when it ran last"
    ]


@pytest.mark.parametrize("reason", ["NotSelected", "TooDear", "OtherNetwork", ""])
def test_a_policy_may_have_changed_since(reason):
    """What it says of a cluster that is used by now must not read as if it were so still."""
    said = verdict("b", reason, "the policy does not select it")
    (told,) = others([said], None, placed=True)
    assert told == "b   not used   when this was placed: the policy does not select it"
    (asked,) = others([said], None, placed=False)
    assert asked == "b   not used   the policy does not select it"


def test_a_budget_that_it_goes_above_is_told_while_it_runs():
    above = "4 USD more would go above the budget of quota nlp"
    shard = {"cluster": "a", "state": "Running", "startedAt": "2026-03-01T14:02:11Z"}
    assert f"  warning  {above}" in of_status(shards=[shard], overBudget=above)
    assert not any(
        above in line
        for line in of_status(shards=[shard | {"state": "Succeeded"}], overBudget=above)
    )


def test_a_word_of_the_moment_is_told_as_of_its_moment():
    dear = [verdict("d", "TooDear", verdict="Unused")]
    assert others(dear, None, placed=False) == ["d   too dear   m"]
    passing = [verdict("b", "Full"), verdict("c", "TooSmall", verdict="Unused")]
    assert others(passing, None, placed=True) == [
        "b   not used    when this was placed: m",
        "c   too small   when this was placed: m",
    ]
    assert others(passing, None, placed=False) == ["b   not used    m", "c   too small   m"]


def test_what_is_foretold_is_of_this_moment():
    passing = [verdict("b", "Full"), verdict("c", "TooSmall", verdict="Unused")]
    shards = [{"cluster": "a", "roles": [{"name": "w", "first": 0, "count": 1}]}]
    would_be = {**TRAIN, "status": {"clusters": passing, "shards": shards}}
    rows = [line.split() for line in explained(would_be, foretold=True)[-2:]]
    assert rows == [["b", "not", "used", "m"], ["c", "too", "small", "m"]]
    assert explained(would_be)[-1].endswith("when this was placed: m")


def test_one_rank_is_one():
    role = {"name": "worker", "pods": 1, "unit": 1}
    assert "1 rank, unit 1" in of_status(roles=[role])[0]


def test_what_it_reads_is_what_the_kind_has():
    Placement.model_validate(TRAIN)


def test_a_decision_as_it_comes_from_the_planner(build):
    split = {
        "mode": "Split",
        "workloads": {},
        "clusters": {
            "tiers": [
                {"selector": {"matchLabels": {"fleet.dev/provider": "own"}}},
                {"selector": {"matchLabels": {"fleet.dev/provider": "aws"}}},
            ]
        },
    }
    fleet = Fleet(
        (
            build.cluster("idc-a", [2, 2]),
            build.cluster("idc-b", 2),
            build.cluster("cloud-c", 64, plane="vpc-9", provider="aws"),
        ),
        policies=(build.policy(split),),
        prices=build.prices(
            {"cluster": "idc-a", "billing": "Owned"},
            {"cluster": "idc-b", "billing": "Owned"},
            {"cluster": "cloud-c", "perHour": "1.90", "per": "Accelerator"},
        ),
    )
    decided = decide(build.job(6), None, fleet, Ledger(), now=build.now, now_s=0.0)
    assert explained({"spec": decided.spec, "status": decided.status}) == [
        "train  QuotaHeld  generation 1  6 ranks, unit 1, plane roce-1, policy default/gang",
        "  idc-a     ranks 0-3    planned   tier 1, own, 0 $/h",
        "  idc-b     ranks 4-5    planned   tier 1, own, 0 $/h",
        "  cloud-c   not needed   when this was placed: tier 2; tier 1 suffices",
        "  why two clusters: no single member of roce-1 had 6 free (idc-a 4, idc-b 2)",
        "  cost     0 $/h now; the next best single cluster would be cloud-c at 11.40 $/h",
    ]


def cost_of(*shards, **more):
    cost = {"currency": "USD", "perHour": "3.8", "nextBest": "c", "nextBestPerHour": "9"}
    lines = of_status(shards=shards, cost=cost, **more)
    return next(line for line in lines if line.startswith("  cost"))


@pytest.mark.parametrize(
    "over",
    [{"state": state} for state in ("Succeeded", "Failed", "Evicted", "Lost")]
    + [{"state": "Running", "reason": "MemberLeft"}],
)
def test_what_is_over_costs_nothing_now(over):
    east, west = {"cluster": "east", **over}, {"cluster": "west", "state": "Running"}
    assert cost_of(east) == "  cost     nothing now; was 3.80 $/h"
    assert cost_of(east, west).startswith("  cost     3.80 $/h now")
    assert cost_of(owed=[{"cluster": "east", "shard": "train-g1-east"}]).startswith(
        "  cost     nothing now"
    )


def test_what_is_being_deleted_says_where_it_was_and_who_has_left():
    status = {
        "phase": "Running",
        "reason": "Deleted",
        "message": "is being deleted; not seen gone yet from east, west",
        "owed": [
            {"cluster": "east", "shard": "train-g1-east"},
            {"cluster": "west", "shard": "train-g1-west"},
        ],
        "clusters": [{"name": name, "verdict": "Used"} for name in ("east", "north", "west")],
    }
    present = [{"metadata": {"name": name}} for name in ("east", "north")]
    silent = {"type": "Reachable", "status": "False", "message": "no answer within 3 s"}
    silent["lastTransitionTime"] = "2026-03-01T14:02:11Z"
    unheard = {**present[0], "status": {"conditions": [silent]}}
    assert explained({**TRAIN, "status": status}, [unheard])[2] == (
        "  east    no rank any more   leaving   train-g1-east: not seen gone yet: the cluster does "
        "not answer since 2026-03-01 14:02:11 (no answer within 3 s); what is dead for good goes "
        "with: fleet leave east"
    )
    assert explained({**TRAIN, "status": status}, present)[1:] == [
        "  is being deleted; not seen gone yet from east, west",
        "  east    no rank any more   leaving   train-g1-east: not seen gone yet",
        "  west    no rank any more   leaving   train-g1-west: the cluster has left the fleet",
        "  north   was used           when it ran last",
    ]


@pytest.mark.parametrize(
    ("fenced", "phase", "what"),
    [
        ({"fencedAt": "2026-03-01T14:07:16Z"}, "Queued", "what is dead for good goes with: "),
        ({}, "Succeeded", "what is dead for good goes with: "),
        ({}, "Lost", "its fencing wants proof, so if that is dead for good: "),
    ],
)
def test_leaving_frees_what_is_fenced_by_a_lease_or_is_over(fenced, phase, what):
    owed = [{"cluster": "east", "shard": "train-g1-east", **fenced}]
    silent = {"type": "Reachable", "status": "False"}
    clusters = [{"metadata": {"name": "east"}, "status": {"conditions": [silent]}}]
    told = "\n".join(explained({**TRAIN, "status": {"phase": phase, "owed": owed}}, clusters))
    assert f"{what}fleet leave east" in told
    assert ("make the workload anew" in told) is ("proof" in what)


LOAN = {
    "policy": "night", "donor": "serving", "to": "nlp", "since": "2026-03-01T14:00:00Z",
    "resources": [{"name": "nvidia.com/gpu", "accelerator": "h200", "amount": "4"}],
    "until": "2026-03-01T18:00:00Z", "renewals": 2,
}  # fmt: skip
RECALL = {
    "recalledAt": "2026-03-01T15:00:00Z", "endsAt": "2026-03-01T15:05:00Z",
    "why": "serving needs it",
}  # fmt: skip


def test_what_runs_on_loan_says_whose_it_is_and_until_when():
    status = TRAIN["status"] | {"loan": LOAN}
    assert of_status(**status)[1] == (
        "  on loan  4 nvidia.com/gpu (h200) of serving until 2026-03-01 18:00:00, renewed two "
        "times, by LendingPolicy night"
    )
    told = of_status(**status | {"loan": LOAN | RECALL})
    assert told[2] == (
        "  called back at 2026-03-01 15:00:00, ends at 2026-03-01 15:05:00: serving needs it"
    )
    Placement.model_validate({**TRAIN, "status": status | {"loan": LOAN | RECALL}})


def test_what_gave_its_loan_back_says_by_which_policy_and_why():
    why = "the loan was called back: serving needs it; its notice is over"
    told = {"kind": "LendingPolicy", "namespace": "", "name": "night", "uid": "", "why": why}
    lines = of_status(phase="Queued", loan=LOAN, preemptedFor=told)
    assert lines[1:] == [f"  ended by LendingPolicy night: {why}; its restart budget is untouched"]


NOW = datetime(2026, 3, 1, 15, 0, tzinfo=UTC)


def waits(name, queued="14:59:00", arrival=0, policy="plain", **status):
    return {
        "metadata": {"name": f"job-{name}"},
        "spec": {
            "workload": {"uid": f"uid-{name}"},
            "policy": {"namespace": "research", "name": policy},
        },
        "status": {
            "phase": "Queued",
            "quota": "nlp",
            "queuedAt": f"2026-03-01T{queued}Z",
            "arrival": arrival,
            **status,
        },
    }


def line_up(*placements):
    """How many come before each."""
    due = {
        "metadata": {"namespace": "research", "name": "due"},
        "spec": {"objective": {"deadline": "1h"}},
    }
    return [ahead_of(each, placements, {"high": 1000}, [due], now=NOW) for each in placements]


def test_within_a_second_one_alone_is_first_of_its_quota():
    assert line_up(waits("a", arrival=12), waits("b", arrival=10), waits("c", arrival=11)) == [
        2, 0, 1,
    ]  # fmt: skip


def test_what_is_suspended_is_in_no_line():
    held = waits("a", "14:00:00", reason="Suspended")
    assert line_up(held, waits("b"), waits("c", phase="Running")) == [None, 0, None]


def test_the_line_is_the_engines_age_then_priority_then_deadlines():
    aged = waits("aged", "09:00:00")
    high = waits("high", "14:59:30", priority="high")
    due = waits("due", "14:59:30", policy="due", runTime="1h")
    in_time = waits("in-time", "14:59:20", policy="due", runTime="10m")
    assert line_up(waits("a"), in_time, due, high, aged) == [3, 4, 2, 1, 0]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("OtherCurrency", "not payable"),
        ("BudgetSpent", "over budget"),
        ("PriceUnknown", "no price"),
    ],
)
def test_what_was_refused_for_its_price_is_not_called_needless(reason, told):
    (line,) = others([verdict("d", reason, verdict="Unused")], None, placed=False)
    assert told in line
