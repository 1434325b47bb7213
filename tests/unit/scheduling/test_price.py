"""Prices: joint per offer, owned is 0, missing and outdated are unknown, amounts exact."""

from __future__ import annotations

from datetime import timedelta

import pytest
from asking import capacity_of

from fleet.errors import Invalid
from fleet.scheduling.capacity import Room
from fleet.scheduling.price import prices_of

REQUEST = (("cpu", 8000), ("nvidia.com/gpu", 1), ("pods", 1))


def room(**more):
    shape = (("cpu", 192_000), ("nvidia.com/gpu", 8), ("pods", 110))
    return Room(
        **{
            "block": "", "accelerator": "h200", "instance_type": "p5", "billing": "",
            "shape": shape, "pods": 8, "pods_if_empty": 8, **more,
        }
    )  # fmt: skip


def offer(per_hour=None, **more):
    made = {"cluster": "east", **more}
    return made if per_hour is None else made | {"perHour": per_hour}


@pytest.mark.parametrize(
    ("offers", "spot", "micro", "billing"),
    [
        pytest.param([offer(billing="Owned")], "Never", 0, "Owned", id="owned is free and says so"),
        pytest.param([], "Never", None, "", id="no offer is not free"),
        pytest.param([offer("98.32")], "Never", 12_290_000, "OnDemand", id="a share of the node"),
        pytest.param([offer("1.90", per="Accelerator")], "Never", 1_900_000, "OnDemand",
                     id="per accelerator"),
        pytest.param([offer("0.000001")], "Never", 1, "OnDemand", id="rounded up"),
        pytest.param([offer("80"), offer("40", billing="Reserved")], "Never", 5_000_000,
                     "Reserved", id="the cheapest"),
        pytest.param([offer("8", accelerator="h100")], "Never", None, "", id="another accelerator"),
        pytest.param([offer("8", instanceType="p4")], "Never", None, "", id="another type of node"),
        pytest.param([offer("8", cluster="west")], "Never", None, "", id="another cluster"),
        pytest.param([offer("80"), offer("40", billing="Spot")], "Never", 10_000_000, "OnDemand",
                     id="spot is not allowed"),
        pytest.param([offer("80"), offer("40", billing="Spot")], "Allowed", 5_000_000, "Spot",
                     id="spot is cheaper"),
        pytest.param([offer("40"), offer("40", billing="Spot")], "Allowed", 5_000_000, "OnDemand",
                     id="spot at the same price is not taken"),
        pytest.param([offer("40"), offer("40", billing="Spot")], "Preferred", 5_000_000, "Spot",
                     id="unless it is preferred"),
        pytest.param([offer("40"), offer("41", billing="Spot")], "Preferred", 5_000_000, "OnDemand",
                     id="spot above on-demand is never preferred"),
    ],
)  # fmt: skip
def test_the_price_of_a_pod(build, offers, spot, micro, billing):
    price = build.prices(*offers).of_pod("east", room(), REQUEST, spot=spot)
    assert (price.micro, price.billing) == (micro, billing)
    assert price.usable
    assert bool(price.why) is (micro is None)


def test_a_price_is_joint_never_the_sum_of_the_cheapest_parts(build):
    """skypilot#10199: a cheap machine of one offer and a cheap accelerator of another are nobody's
    offer together."""
    prices = build.prices(offer("10", accelerator="a100"), offer("16", accelerator="h200"))
    assert prices.of_pod("east", room(), REQUEST, spot="Never").micro == 2_000_000


def test_without_accelerators_the_dominant_share_counts(build):
    request = (("cpu", 48_000), ("memory", 1 << 30), ("pods", 1))
    shape = (("cpu", 192_000), ("memory", 8 << 30), ("pods", 110))
    price = build.prices(offer("8")).of_pod("east", room(shape=shape), request, spot="Never")
    assert price.micro == 2_000_000


def test_a_pod_that_asks_for_nothing_pays_for_its_place_among_the_nodes_pods(build):
    shape = (("pods", 110),)
    price = build.prices(offer("11")).of_pod(
        "east", room(shape=shape), (("pods", 1),), spot="Never"
    )
    assert price.micro == 100_000


def test_what_is_paid_by_the_accelerator_is_dearer_than_what_is_owned_even_without_any(build):
    """Else the name would decide whether a pod without accelerators goes to the cloud."""
    request, shape = (("cpu", 1000), ("pods", 1)), (("cpu", 192_000), ("pods", 110))
    for one, micro in (
        (offer("1.90", per="Accelerator"), 1),
        (offer(billing="Owned", per="Accelerator"), 0),
    ):
        prices = build.prices(one)
        assert prices.of_pod("east", room(shape=shape), request, spot="Never").micro == micro


@pytest.mark.parametrize("spot", ["Never", "Allowed"])
def test_spot_nodes_are_used_only_where_spot_is_allowed(build, spot):
    prices = build.prices(offer("8"), offer("4", billing="Spot"))
    price = prices.of_pod("east", room(billing="Spot"), REQUEST, spot=spot)
    assert price.usable is (spot == "Allowed")
    assert price.micro == (500_000 if spot == "Allowed" else None)


def test_a_cluster_with_only_spot_offers_is_not_used_where_spot_is_never(build):
    price = build.prices(offer("4", billing="Spot")).of_pod("east", room(), REQUEST, spot="Never")
    assert (price.usable, price.why) == (False, "only spot offers, and the policy says spot: Never")


@pytest.mark.parametrize(("age", "micro"), [(24, 1_000_000), (25, None)])
def test_a_price_older_than_its_bound_is_unknown(build, age, micro):
    as_of = (build.now - timedelta(hours=age)).isoformat()
    price = build.prices(offer("8", asOf=as_of)).of_pod("east", room(), REQUEST, spot="Never")
    assert price.micro == micro
    assert price.why == ("" if micro else "its price is outdated")


def book(name, currency, *offers):
    return {"metadata": {"name": name}, "spec": {"currency": currency, "offers": [*offers]}}


def test_several_books_count_together_other_currencies_are_named(build):
    books = [
        book("c", "EUR", offer("1")),
        book("b", "USD", offer("8", cluster="west")),
        book("a", "USD", offer("16")),
    ]
    prices = prices_of(books, now=build.now)
    assert prices.currency == "USD"
    assert prices.of_pod("east", room(), REQUEST, spot="Never").micro == 2_000_000
    assert prices.of_pod("west", room(), REQUEST, spot="Never").micro == 1_000_000
    assert prices.warnings == ("prices in a are in USD; not compared: c",)


def test_no_book_is_no_price_and_an_unsound_one_an_error(build):
    assert prices_of([], now=build.now).of_pod("e", room(), REQUEST, spot="Never").micro is None
    with pytest.raises(Invalid, match=r"spec\.offers\[0\]\.cluster"):
        prices_of([book("a", "USD", {"perHour": "1"})], now=build.now)


@pytest.mark.parametrize(
    ("offers", "micro"),
    [
        pytest.param([], None, id="no offer"),
        pytest.param([offer(billing="Owned")], 0, id="owned"),
        pytest.param([offer("16", instanceType="p5")], 2_000_000, id="a machine's share"),
        pytest.param([offer("16", instanceType="p6")], None, id="machines that are not there"),
        pytest.param([offer("2"), offer("16", instanceType="p6")], 250_000, id="any machine"),
        pytest.param([offer("3", per="Accelerator")], 3_000_000, id="by the accelerator"),
        pytest.param(
            [offer("16", instanceType="p5"), offer("1", instanceType="cpu")], 2_000_000,
            id="nodes without accelerators",
        ),
        pytest.param([offer("16"), offer("8", billing="Spot")], 1_000_000, id="spot"),
        pytest.param([offer("9", cluster="west")], None, id="another cluster"),
        pytest.param([offer("9", asOf="2020-01-01T00:00:00Z")], None, id="outdated"),
    ],
)  # fmt: skip
def test_what_an_accelerator_costs_is_what_a_pod_with_one_would_pay(build, offers, micro):
    label = "node.kubernetes.io/instance-type"
    nodes = [
        build.node("n1", labels={label: "p5"}),
        build.node("n2", gpus=0, labels={label: "cpu"}),
    ]
    capacity = capacity_of(nodes, [], as_of_s=0.0)
    prices = build.prices(*offers)
    assert prices.of_accelerator("east", capacity) == micro
    one = (("nvidia.com/gpu", 1),)
    there = [prices.of_pod("east", room(pods=n), one, spot="Allowed").paid for n in (0, 8)]
    assert there == [micro, micro]


def test_without_accelerators_there_is_no_price_of_one(build):
    capacity = capacity_of([build.node("n1", gpus=0)], [], as_of_s=0.0)
    assert build.prices(offer("9")).of_accelerator("east", capacity) is None
