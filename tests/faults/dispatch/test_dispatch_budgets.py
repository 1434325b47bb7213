"""Budgets carried out: work waits for the month, is refused, or runs with a warning; and what runs,
is promised or was deleted counts, whoever asks at the same time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fleet.gateway.placing import Placing
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from policies import FLEET_QUOTA, PLACEMENT, PLACEMENT_POLICY, PRICE_BOOK

NAMESPACES = builtin.resource(GroupVersionResource("", "v1", "namespaces"))


async def put(store, resource, name, spec, *, namespace="", **metadata):
    where = {"namespace": namespace} if namespace else {}
    obj = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "uid": f"uid-{name}", **where, **metadata},
        "spec": spec,
    }
    await store.create(resource, obj)


@pytest.fixture
async def shop(fleet):
    """A member with a node for eight pods that costs 4 an hour."""
    fleet.decides = lambda: Placing(
        fleet.store, fleet.books(), now=fleet.clock.datetime, clock=lambda: 0.0, lease_s=15.0,
        ceilings=lambda *given: fleet.bills.ceilings(*given),
    )  # fmt: skip
    await fleet.restart()
    await fleet.join("east", room=8)
    offers = [{"cluster": "east", "perHour": "4"}]
    await put(fleet.store, PRICE_BOOK.resource, "current", {"currency": "USD", "offers": offers})

    async def policy(per_month, when_spent="Queue"):
        objective = {"budget": {"perMonth": per_month, "whenSpent": when_spent}}
        spec = {"workloads": {}, "objective": objective}
        await put(fleet.store, PLACEMENT_POLICY.resource, "all", spec, namespace="payments")

    fleet.policy = policy
    return fleet


async def run(fleet, name, *, hours: float = 1, ranks=1, **more):
    """Each rank costs half a dollar an hour."""
    annotations = {"fleet.dev/run-time": f"{hours * 60:.0f}m"}
    await fleet.run_job(name, ranks=ranks, **more)
    await fleet.change_job(name, lambda job: job["metadata"].update(annotations=annotations))


def status_of(fleet, name):
    return fleet.store.get(PLACEMENT.resource, "payments", f"job-{name}").parse()["status"]


def placed(fleet, name):
    return next(each for each in status_of(fleet, name)["conditions"] if each["type"] == "Placed")


async def test_work_waits_for_the_next_month_and_then_runs(shop):
    await shop.policy("4 USD")
    await run(shop, "first", hours=8, ranks=1)  # 4 USD
    await shop.until(lambda: shop.record("first").phase == "Running")
    await run(shop, "second")
    await shop.settle()
    assert shop.record("second").phase == "Queued"
    condition = placed(shop, "second")
    assert (condition["status"], condition["reason"]) == ("False", "BudgetSpent")
    assert "above the budget of policy payments/all, 4 USD a month" in condition["message"]
    (verdict,) = status_of(shop, "second")["clusters"]
    assert (verdict["verdict"], verdict["reason"]) == ("Unused", "BudgetSpent")
    assert verdict["message"] == "it would go there at 0.5 per hour, if the budget let it"
    shop.clock.now = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    await shop.until(lambda: shop.record("second").phase == "Running")


async def test_it_is_asked_again_by_itself_when_the_month_begins(shop):
    await shop.policy("0.1 USD")
    await run(shop, "dear")
    await shop.settle()
    wait_s = await shop.waiting.round()
    december = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    assert shop.clock.now + wait_s == pytest.approx(december, abs=1)


async def test_work_is_refused_where_the_budget_says_so(shop):
    await shop.policy("0.4 USD", "Refuse")
    await run(shop, "dear")
    await shop.until(lambda: shop.condition("Failed", "dear"))
    condition = shop.condition("Failed", "dear")
    assert condition["reason"] == "BudgetSpent"
    assert "0.5 USD more would go above the budget" in condition["message"]
    assert shop.left_over() == []
    assert "BudgetSpent" in shop.events()
    await run(shop, "cheap", hours=0.5)
    await shop.until(lambda: shop.record("cheap").phase == "Running")
    assert shop.record("dear").phase == "Failed"


async def test_work_that_is_too_dear_is_refused_where_the_policy_says_so(shop):
    spec = {"workloads": {}, "objective": {"maxPrice": "0.7 USD/h", "whenTooDear": "Refuse"}}
    await put(shop.store, PLACEMENT_POLICY.resource, "all", spec, namespace="payments")
    await run(shop, "dear", ranks=2)
    await shop.until(lambda: shop.condition("Failed", "dear"))
    condition = shop.condition("Failed", "dear")
    assert condition["reason"] == "TooDear"
    assert condition["message"] == "would cost 1 USD/h at least, the policy allows 0.7 USD/h"
    assert shop.left_over() == []
    await run(shop, "cheap")
    await shop.until(lambda: shop.record("cheap").phase == "Running")


async def test_work_runs_with_a_warning_where_the_budget_says_so(shop):
    await shop.policy("0.4 USD", "Warn")
    await run(shop, "dear")
    await shop.until(lambda: shop.record("dear").shards)
    assert "above the budget of policy payments/all" in status_of(shop, "dear")["overBudget"]
    await shop.until(lambda: shop.record("dear").phase == "Running")


async def test_of_those_that_ask_at_once_only_as_many_start_as_can_be_paid(shop):
    await shop.policy("1 USD")
    for name in ("a", "b", "c"):
        await run(shop, name)
    await shop.settle()
    phases = {name: shop.record(name).phase for name in ("a", "b", "c")}
    assert sorted(phases.values()) == ["Queued", "Running", "Running"]


async def test_what_is_promised_counts_before_it_has_nodes(shop):
    """The member holds nothing yet: its plan is only written down."""
    await shop.policy("0.6 USD")
    shop.members["east"].alive = False
    await run(shop, "first")
    await shop.until(lambda: shop.record("first").shards)
    await run(shop, "second")
    await shop.gateway()
    await shop.gateway()
    assert shop.record("second").phase == "Queued"
    assert shop.record("second").reason == "BudgetSpent"


async def test_what_was_deleted_stays_spent(shop):
    await shop.policy("0.6 USD")
    await run(shop, "first", **{"run-for": 3600})
    await shop.until(lambda: shop.record("first").phase == "Running")
    shop.clock.now += 3000
    await shop.settle()
    await shop.delete_job("first")
    await shop.until(lambda: shop.job("first") is None)
    await run(shop, "second")
    await shop.settle()
    assert shop.record("second").reason == "BudgetSpent"


async def test_a_quota_answers_for_all_below_it_and_its_room_is_not_kept_for_what_cannot_pay(shop):
    label = {"matchLabels": {"team": "payments"}}
    await shop.store.rewrite(
        NAMESPACES, namespace="", name="payments",
        change=lambda obj: {**obj, "metadata": {**obj["metadata"], "labels": label["matchLabels"]}},
    )  # fmt: skip
    pods = [{"name": "pods", "guaranteed": "8"}]
    budget = {"perMonth": "60 USD"}  # until the month ends: 24 a rank
    await put(shop.store, FLEET_QUOTA.resource, "lab", {"resources": pods, "budget": budget})
    spec = {"parent": "lab", "resources": pods, "namespaces": label}
    await put(shop.store, FLEET_QUOTA.resource, "payments", spec)
    await shop.run_job("dear", ranks=8)
    await shop.settle()
    assert shop.record("dear").reason == "BudgetSpent"
    assert "budget of quota lab" in placed(shop, "dear")["message"]
    await shop.run_job("cheap", ranks=2)
    await shop.until(lambda: shop.record("cheap").phase == "Running")
    assert shop.record("dear").phase == "Queued"
