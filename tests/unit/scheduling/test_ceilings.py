"""What budgets make of a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.scheduling.cost.ceilings import Ceilings, added_cost, afforded
from fleet.scheduling.cost.showback import Spending
from fleet.scheduling.placement import Plan, Refusal, place, replace_shards
from policies.parts import Budget

POLICY = "default/gang"


def budget(per_month, when_spent="Queue"):
    return Budget.model_validate({"perMonth": per_month, "whenSpent": when_spent})


def spent(micro, to_come=0):
    return Spending({"USD": micro}, {"USD": to_come})


@pytest.fixture
def plan(build):
    """4 an hour for an hour."""
    prices = build.prices({"cluster": "east", "per": "Accelerator", "perHour": "1"})
    demand = build.demand(4, {"objective": {"runTime": "1h"}})
    return place(demand, [build.cluster("east")], generation=1, now_s=0.0, prices=prices)


def judged(build, plan, ceilings, own=None):
    return afforded(plan, ceilings, policy=POLICY, budget=own, now=build.now)


@pytest.mark.parametrize(
    ("per_month", "when_spent", "action"),
    [
        ("4 USD", "Refuse", "Admit"),
        ("3.99 USD", "Queue", "Queue"),
        ("3.99 USD", "Refuse", "Refuse"),
        ("3.99 USD", "Warn", "Warn"),
        ("400 EUR", "Queue", "Queue"),
    ],
)
def test_the_budget_of_the_policy(build, plan, per_month, when_spent, action):
    decision = judged(build, plan, Ceilings(), budget(per_month, when_spent))
    match action:
        case "Admit":
            assert decision is plan
        case "Warn":
            assert isinstance(decision, Plan)
            assert "above the budget of policy default/gang" in decision.over_budget
        case _:
            assert isinstance(decision, Refusal)
            assert decision.final is (action == "Refuse")
            assert [each.verdict for each in decision.verdicts] == ["Unused"]


def test_the_budgets_of_the_quota_and_of_all_above(build, plan):
    parents = {"nlp": "research", "research": "root"}
    ceilings = Ceilings(
        by_quota={"nlp": spent(1_000_000), "vision": spent(0, 2_000_000)},
        budgets={"research": budget("7 USD")},
        parents={**parents, "vision": "research"},
        quota_of={"default": "nlp"},
    )
    assert judged(build, plan, ceilings) is plan
    more = replace(ceilings, by_quota={**ceilings.by_quota, "nlp": spent(1_000_001)})
    refusal = judged(build, plan, more)
    assert refusal.reason == "BudgetSpent"
    assert "quota research" in refusal.message
    assert refusal.retry_after_s
    assert judged(build, plan, replace(more, quota_of={})) is plan


def test_a_ring_of_quotas_ends(build, plan):
    ring = Ceilings(
        budgets={"a": budget("100 USD")}, parents={"a": "b", "b": "a"}, quota_of={"default": "a"}
    )
    assert judged(build, plan, ring) is plan


def test_what_was_accepted_a_moment_ago_counts(build, plan):
    own = budget("8 USD")
    one = Ceilings().after(plan, policy=POLICY, now=build.now)
    assert judged(build, plan, one, own) is plan
    two = one.after(plan, policy=POLICY, now=build.now)
    assert isinstance(judged(build, plan, two, own), Refusal)
    other = Ceilings().after(plan, policy="default/other", now=build.now)
    assert judged(build, plan, other, budget("4 USD")) is plan


def test_only_what_is_new_is_asked_for_and_it_is_never_refused_for_good(build):
    prices = build.prices(
        *({"cluster": name, "per": "Accelerator", "perHour": "1"} for name in "abc")
    )
    fleet = [build.cluster(name, 4) for name in "abc"]
    demand = build.demand(6, {"mode": "Split", "objective": {"runTime": "1h"}})
    before = place(demand, fleet, generation=1, now_s=0.0, prices=prices)
    anew = replace_shards(before, ["b"], fleet, generation=2, now_s=0.0, prices=prices)
    assert added_cost(anew, build.now) == 2_000_000
    assert judged(build, anew, Ceilings(), budget("2 USD")) is anew
    refusal = judged(build, anew, Ceilings(), budget("1 USD", "Refuse"))
    assert isinstance(refusal, Refusal)
    assert not refusal.final, "what runs of it goes on"


def test_what_is_not_known_is_too_much(build):
    demand = build.demand(4)
    plan = place(demand, [build.cluster("east")], generation=1, now_s=0.0)
    assert added_cost(plan, build.now) is None
    assert judged(build, plan, Ceilings(), budget("100 USD")).reason == "PriceUnknown"
