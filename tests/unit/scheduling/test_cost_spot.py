"""Interruptions and moved data: what they add to a price, exactly."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduling.capacity import Room
from fleet.scheduling.cost.egress import spread, transfer
from fleet.scheduling.cost.spot import USUAL_LOSS, expected, lost_per_interruption
from fleet.scheduling.placement import Refusal, place
from fleet.scheduling.price import Work, prices_of
from fleet.scheduling.record import status_of
from policies.placement_policy import Checkpoint, DataSet
from policies.price_book import Offer

REQUEST = (("cpu", 8000), ("nvidia.com/gpu", 1), ("pods", 1))
ROOM = Room(
    block="", accelerator="h200", instance_type="p5", billing="",
    shape=(("cpu", 192_000), ("nvidia.com/gpu", 8), ("pods", 110)), pods=8, pods_if_empty=8,
)  # fmt: skip
HOUR = timedelta(hours=1)


def spot(per_hour="40", often="0.5", **more):
    return {
        "cluster": "east", "billing": "Spot", "perHour": per_hour, "interruptionsPerHour": often,
        **more,
    }  # fmt: skip


def on_demand(per_hour):
    return {"cluster": "east", "perHour": per_hour}


def model(offer):
    return Offer.model_validate(offer)


def test_an_interruption_costs_the_work_since_the_checkpoint_and_the_start():
    checkpoint = Checkpoint.model_validate({"every": "50m", "restart": "10m"})
    assert lost_per_interruption(checkpoint) == HOUR
    assert timedelta(minutes=35) == USUAL_LOSS


@pytest.mark.parametrize(
    ("offer", "lost", "micro"),
    [
        (spot(often="0.5"), HOUR, 60_000_000),
        (spot(often="0.5"), timedelta(minutes=30), 50_000_000),
        (spot(often="0"), HOUR, 40_000_000),
        (spot(often="0.000001"), timedelta(milliseconds=1), 40_000_001),
        ({**spot(), "interruptionsPerHour": None}, HOUR, 40_000_000),
        (on_demand("40"), HOUR, 40_000_000),
    ],
)
def test_what_an_hours_work_costs(offer, lost, micro):
    assert expected(40_000_000, model(offer), lost=lost) == micro


@given(
    st.integers(1, 10**12), st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**8),
    st.integers(0, 10**8),
)  # fmt: skip
def test_more_interruptions_or_more_loss_never_cost_less(micro, often, more, lost, longer):
    def cost(per_hour, ms):
        offer = model(spot()).model_copy(update={"interruptions_per_hour": per_hour})
        return expected(micro, offer, lost=timedelta(milliseconds=ms))

    assert micro <= cost(often, lost) <= cost(often + more, lost + longer)


@pytest.mark.parametrize("allowed", ["Allowed", "Preferred"])
@pytest.mark.parametrize(
    ("per_hour", "billing"), [("59.99", "OnDemand"), ("60.01", "Spot")], ids=["dearer", "cheaper"]
)
def test_spot_is_not_taken_where_what_it_loses_makes_it_dearer(build, allowed, per_hour, billing):
    """skypilot#1437, #4914. 40 an hour, interrupted every second hour for an hour: 60."""
    prices = replace(build.prices(on_demand(per_hour), spot()), work=Work(lost=HOUR))
    price = prices.of_pod("east", ROOM, REQUEST, spot=allowed)
    assert price.billing == billing


def test_what_is_paid_is_not_what_is_compared(build):
    prices = replace(build.prices(spot()), work=Work(lost=HOUR))
    price = prices.of_pod("east", ROOM, REQUEST, spot="Allowed")
    assert (price.micro, price.paid) == (7_500_000, 5_000_000)
    owned = build.prices({"cluster": "east", "billing": "Owned"})
    price = owned.of_pod("east", ROOM, REQUEST, spot="Never")
    assert (price.micro, price.paid) == (0, 0)


def test_a_stale_spot_price_does_not_beat_a_fresh_one(build):
    stale = spot("1", asOf=(build.now - timedelta(hours=25)).isoformat())
    prices = build.prices(stale, on_demand("80"))
    assert prices.of_pod("east", ROOM, REQUEST, spot="Preferred").billing == "OnDemand"


# -- data


def data(size="100Gi", *at, name="corpus"):
    return DataSet.model_validate({"name": name, "at": [*at], "size": size})


PER_GIB = {("dc-east", "aws"): 50_000, ("dc-west", "aws"): 90_000, ("dc-east", "free"): 0}


@pytest.mark.parametrize(
    ("sets", "cluster", "network", "micro", "moved"),
    [
        pytest.param([], "aws", "vpc", 0, 0, id="nothing"),
        pytest.param([data("100Gi", "dc-east")], "aws", "vpc", 5_000_000, 100, id="moved"),
        pytest.param([data("100Gi", "vpc", "dc-east")], "aws", "vpc", 0, 0, id="there"),
        pytest.param([data("100Gi", "dc-west", "dc-east")], "aws", "vpc", 5_000_000, 100,
                     id="the cheapest copy"),
        pytest.param([data("100Gi", "dc-mars", "dc-west")], "aws", "vpc", 9_000_000, 100,
                     id="a copy with a price"),
        pytest.param([data("100Gi", "dc-mars")], "aws", "vpc", None, 100, id="no price"),
        pytest.param([data("100Gi", "dc-east")], "aws", "", 5_000_000, 100, id="no network known"),
        pytest.param([data("100Gi", "dc-east")], "free", "vpc", 0, 100, id="said to be free"),
        pytest.param([data("1Gi", "dc-east"), data("2Gi", "dc-west")], "aws", "vpc", 230_000, 3,
                     id="several"),
    ],
)  # fmt: skip
def test_what_moving_data_costs(sets, cluster, network, micro, moved):
    found = transfer(sets, cluster=cluster, network=network, per_gib=PER_GIB)
    assert (found.micro, found.bytes) == (micro, moved << 30)
    assert bool(found.why) is (micro is None)


def test_a_part_of_a_gib_is_paid_for_and_rounded_up():
    found = transfer([data("1", "dc-east")], cluster="aws", network="", per_gib=PER_GIB)
    assert found.micro == 1


def test_prices_of_data_come_from_the_books(build):
    egress = [{"from": "dc-east", "to": "aws", "perGiB": "0.05"}]
    books = [
        {"metadata": {"name": "a"}, "spec": {"currency": "USD", "egress": egress}},
        {"metadata": {"name": "b"}, "spec": {"currency": "EUR", "egress": [
            {"from": "dc-west", "to": "aws", "perGiB": "0.01"}
        ]}},
    ]  # fmt: skip
    prices = prices_of(books, now=build.now)
    east = replace(prices, work=Work(data=(data("2Gi", "dc-east"),)))
    assert east.of_data(cluster="aws", network="").micro == 100_000
    west = replace(prices, work=Work(data=(data("2Gi", "dc-west"),)))
    assert west.of_data(cluster="aws", network="").micro is None
    assert prices.of_data(cluster="aws", network="").micro == 0


@pytest.mark.parametrize(
    ("run_time_s", "micro"), [(3600, 100), (36_000, 10), (1800, 200), (None, 100), (0, 360_000_000)]
)
def test_a_single_payment_is_spread_over_the_run(run_time_s, micro):
    assert spread(100, run_time_s) == micro


def test_spot_that_is_dry_for_long_is_no_failure(build):
    """kueue#15255. No spot node is free: the workload waits, however often that is found out."""
    cluster = build.cluster("east", 0)
    demand = build.demand(4, {"objective": {"spot": "Preferred"}})
    before = {"failures": 1}
    for _ in range(50):
        refusal = place(demand, [cluster], generation=1, now_s=0.0, prices=build.prices(spot()))
        assert isinstance(refusal, Refusal)
        before = status_of(refusal, now=build.now, queued_at=build.now, before=before)
    assert (before["phase"], before["failures"]) == ("Queued", 1)
