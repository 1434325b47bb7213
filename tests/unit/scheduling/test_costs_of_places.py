"""What a place costs a workload: compared with interruptions and moved data, billed without."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from asking import decided
from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduling.capacity import PodKind
from fleet.scheduling.cost.intervals import spent_until
from fleet.scheduling.demand import Demand, Role, Workload
from fleet.scheduling.fit import Curve, Pool
from fleet.scheduling.placement import Plan, Refusal, place, replace_shards
from fleet.scheduling.price import prices_of
from fleet.scheduling.record import plan_of, spec_of, status_of
from fleet.scheduling.requests import vector
from fleet.scheduling.views import Views
from policies import PLACEMENT

H200 = {"accelerator": "h200", "per": "Accelerator"}


def offer(cluster, per_hour, **more):
    return {"cluster": cluster, "perHour": per_hour, **H200, **more}


def spot(cluster, per_hour, often):
    return offer(cluster, per_hour, billing="Spot", interruptionsPerHour=often)


def book(build, *offers, egress=()):
    spec = {
        "currency": "USD", "offers": [*offers],
        "egress": [{"from": f, "to": to, "perGiB": price} for f, to, price in egress],
    }  # fmt: skip
    return prices_of([{"metadata": {"name": "current"}, "spec": spec}], now=build.now)


def ask(demand, fleet, **more):
    return place(demand, fleet, **{"generation": 1, "now_s": 0.0, **more})


def used(decision):
    assert isinstance(decision, Plan), decision.message
    return {shard.cluster: shard.pods for shard in decision.shards}


def written(build, plan, **before):
    return status_of(plan, now=build.now, queued_at=build.now, before=before or None)


# -- interruptions


def checkpoint(every, **more):
    return {"objective": {"spot": "Allowed", "checkpoint": {"every": every}, **more}}


@pytest.mark.parametrize(("every", "cluster"), [("5m", "cheap"), ("4h", "calm")])
def test_how_often_work_saves_its_state_says_whether_spot_is_worth_it(build, every, cluster):
    """1 an hour, taken away once an hour: 10 minutes lost cost 1/6, 4 hours cost 4 and more."""
    fleet = [build.cluster("cheap"), build.cluster("calm")]
    prices = build.prices(spot("cheap", "1", "1"), offer("calm", "1.5"))
    plan = ask(build.demand(4, checkpoint(every)), fleet, prices=prices)
    assert used(plan) == {cluster: 4}


def test_the_bill_is_what_is_paid_for_nodes_and_not_what_is_lost_with_them(build):
    prices = build.prices(spot("east", "1", "1"))
    plan = ask(build.demand(4, checkpoint("55m")), [build.cluster("east")], prices=prices)
    (shard,) = plan.shards
    assert (shard.billing, shard.per_hour, plan.cost.micro) == ("Spot", 4_000_000, 8_000_000)
    assert plan.per_hour == 4_000_000
    assert written(build, plan)["shards"][0]["perHour"] == "4"
    (verdict,) = plan.verdicts
    assert verdict.per_hour == 4_000_000


def test_a_ceiling_is_on_what_the_work_costs(build):
    fleet = [build.cluster("east")]
    prices = build.prices(spot("east", "1", "1"))
    policy = checkpoint("55m", maxPrice="7 USD/h")
    refusal = ask(build.demand(4, policy), fleet, prices=prices)
    assert isinstance(refusal, Refusal)
    policy = checkpoint("55m", maxPrice="8 USD/h")
    assert used(ask(build.demand(4, policy), fleet, prices=prices)) == {"east": 4}


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"), st.sampled_from([0, 2, 5]), st.integers(1, 3), st.integers(0, 2)
        ),
        max_size=5,
    ),
    st.data(),
)
def test_a_filling_is_billed_at_what_its_nodes_cost(given_pools, data):
    """No hazard can make the bill larger than what is compared, and without it they are equal."""
    pools = [
        Pool(block, micro, f"w{at}", units, max(0, micro - less))
        for at, (block, micro, units, less) in enumerate(given_pools)
    ]
    curve = Curve(pools)
    units = data.draw(st.integers(0, curve.units))
    filling = curve.fill(units)
    paid = curve.paid(dict(filling.blocks))
    assert filling.cost.micro - 2 * units <= paid <= filling.cost.micro
    plain = Curve([replace(pool, paid=None) for pool in pools])
    assert plain.paid(dict(filling.blocks)) == filling.cost.micro
    assert curve.paid({"a": curve.units + 1}) is None


def test_each_role_is_billed_for_the_nodes_it_got(build):
    """The first takes the cheap nodes of the block, what is left costs the other more."""
    gpu = PodKind(vector({"nvidia.com/gpu": 1, "pods": 1}))
    pair = PodKind(vector({"nvidia.com/gpu": 2, "pods": 1}))
    policy = build.policy({"objective": {"spot": "Allowed"}}).spec
    workload = Workload("batch/v1", "Job", "default", "train", "uid-train")
    roles = (Role("head", 2, 1, pair, "None"), Role("worker", 4, 1, gpu, "None"))
    demand = Demand(workload, roles, policy)
    prices = build.prices(spot("east", "1", "0.5"))
    plan = ask(demand, [build.cluster("east", [4, 4])], prices=prices)
    (shard,) = plan.shards
    assert shard.pods == 6
    assert shard.per_hour == 8_000_000
    assert plan.cost.micro > 8_000_000


# -- moved data


DATA = {"data": [{"name": "corpus", "at": ["dc"], "size": "100Gi"}]}


def on(build, name, network, gpus=8, **more):
    return build.cluster(name, gpus, data_plane=network, **more)


def test_data_makes_the_near_cluster_the_cheaper_one(build):
    """100 GiB at 0.05 is 5, once; over two hours 2.50 each."""
    fleet = [on(build, "far", "vpc"), on(build, "near", "dc")]
    prices = book(
        build, offer("far", "1"), offer("near", "1.5"), egress=[("dc", "far", "0.05")]
    )  # fmt: skip

    def decided(hours, data=DATA):
        return ask(
            build.demand(4, {**data, "objective": {"runTime": f"{hours}h"}}), fleet, prices=prices
        )

    assert used(decided(2, {})) == {"far": 4}
    assert used(decided(2)) == {"near": 4}
    plan = decided(10)
    assert used(plan) == {"far": 4}, "long enough to be worth it"
    (shard,) = plan.shards
    assert (shard.per_hour, shard.once) == (4_000_000, 5_000_000)
    (near,) = (each for each in decided(2).verdicts if each.cluster == "far")
    assert near.reason == "Dearer"
    assert near.per_hour == 4_000_000 + 2_500_000


def test_every_cluster_that_is_used_fetches_the_data(build):
    """Two are needed. The cheapest nodes are in the two clusters that would both have to fetch."""
    fleet = [on(build, "a", "vpc", 4), on(build, "b", "vpc", 4), on(build, "dc", "dc", 4)]
    routes = [("dc", "a", "0.05"), ("dc", "b", "0.05")]
    prices = book(
        build, offer("a", "1"), offer("b", "1"), offer("dc", "1.5"), egress=routes
    )  # fmt: skip
    policy = {"mode": "Split", "objective": {"runTime": "2h"}}
    assert used(ask(build.demand(6, policy), fleet, prices=prices)) == {"a": 4, "b": 2}
    plan = ask(build.demand(6, {**policy, **DATA}), fleet, prices=prices)
    assert used(plan) == {"a": 4, "dc": 2}
    assert {shard.cluster: shard.once for shard in plan.shards} == {"a": 5_000_000, "dc": 0}


def test_a_route_without_a_price_is_not_free(build):
    fleet = [on(build, "far", "vpc"), on(build, "near", "dc")]
    prices = book(build, offer("far", "1"), offer("near", "90"))
    assert used(ask(build.demand(4, DATA), fleet, prices=prices)) == {"near": 4}
    plan = ask(build.demand(4, DATA), fleet[:1], prices=prices)
    assert plan.shards[0].once is None
    assert written(build, plan)["cost"]["unknown"] == ["far"]
    capped = {**DATA, "objective": {"maxPrice": "400 USD/h"}}
    refusal = ask(build.demand(4, capped), fleet[:1], prices=prices)
    assert isinstance(refusal, Refusal)
    assert "no PriceBook says what it costs to move corpus from dc to far" in str(
        [each.message for each in refusal.verdicts] + [refusal.message]
    )


def test_all_who_place_see_the_same_costs(build):
    fleet = [on(build, "far", "vpc"), on(build, "near", "dc")]
    prices = book(
        build, offer("far", "1"), offer("near", "1.5"), egress=[("dc", "far", "0.05")]
    )  # fmt: skip
    demand = build.demand(4, {**DATA, "objective": {"runTime": "2h"}})
    assert used(decided(demand, fleet, [], prices=prices).placed.plan) == {"near": 4}
    views = Views(fleet, prices=prices)
    for hours, cluster in ((2, "near"), (10, "far"), (2, "near")):
        work = replace(demand, run_time_s=hours * 3600.0)
        seen = views.seen(work, work.roles[0], waited_s=0.0)
        costs = {name: each.curve.cost(4) + each.curve.once for name, each in seen.known.items()}
        assert min(costs, key=costs.__getitem__) == cluster


# -- what is written down


def test_what_is_expected_and_what_is_fetched_stand_in_the_placement(build):
    fleet = [on(build, "far", "vpc")]
    prices = book(build, offer("far", "1"), egress=[("dc", "far", "0.05")])
    demand = build.demand(4, {**DATA, "objective": {"runTime": "2h"}})
    plan = ask(demand, fleet, prices=prices)
    status = written(build, plan)
    assert (status["runTime"], status["shards"][0]["dataCost"]) == ("2h", "5")
    obj = {"spec": spec_of(demand.workload, build.policy(DATA)), "status": status}
    PLACEMENT.parse(obj)
    read = plan_of(obj, demand)
    assert read.shards[0].once == 5_000_000
    again = replace_shards(read, [], fleet, generation=2, now_s=0.0, prices=prices)
    assert again.shards[0].once == 5_000_000
    unsaid = replace(plan, demand=replace(demand, run_time_s=None))
    assert "runTime" not in status_of(unsaid, now=build.now, queued_at=build.now, before=status)


def test_data_is_billed_once_from_the_commit_on(build):
    at = build.now
    text = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    shard = {
        "cluster": "far", "generation": 1, "state": "Held", "perHour": "4", "dataCost": "5",
        "heldAt": text,
    }  # fmt: skip
    status = {"cost": {"currency": "USD"}, "shards": [shard]}
    (held,) = spent_until(status, at + timedelta(hours=1))
    assert held.micro == 4_000_000
    status["shards"] = [{**shard, "state": "Running", "committedAt": text}]
    (running,) = spent_until(status, at + timedelta(hours=2))
    assert running.micro == 13_000_000
