"""Decisions: the stories, the constraints one by one, and all choices on small fleets."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import pytest
from asking import capacity_of
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.nodes import Taint
from fleet.scheduling.placement import Plan, Refusal, place, replace_shards

TIERS = {
    "tiers": [
        {"name": "own", "selector": {"matchLabels": {"fleet.dev/provider": "own"}}},
        {"name": "aws", "selector": {"matchLabels": {"fleet.dev/provider": "aws"}}},
    ]
}
SPLIT = {"mode": "Split", "clusters": TIERS}
ACCELERATORS = {"accelerator": "h200", "perHour": "1.90", "per": "Accelerator"}


def spread(plan):
    """{cluster: (first rank, ranks)}."""
    assert isinstance(plan, Plan), plan
    return {
        shard.cluster: (shard.intervals[0].first, shard.intervals[0].count) for shard in plan.shards
    }


def reasons(decision):
    return {each.cluster: each.reason for each in decision.verdicts}


@pytest.fixture
def fleet(build):
    return [
        build.cluster("idc-a", [2, 2]),
        build.cluster("idc-b", 2),
        build.cluster("cloud-c", [32, 32], plane="vpc-9", provider="aws"),
    ]


@pytest.fixture
def prices(build):
    return build.prices(
        {"cluster": "idc-a", "billing": "Owned"},
        {"cluster": "idc-b", "billing": "Owned"},
        {"cluster": "cloud-c", **ACCELERATORS},
    )


def ask(demand, fleet, **more):
    return place(demand, fleet, **{"generation": 1, "now_s": 0.0, **more})


# -- the stories


def test_a_gang_that_fits_in_no_single_member_is_split_on_one_plane(build, fleet, prices):
    plan = ask(build.demand(6, SPLIT), fleet, prices=prices)
    assert spread(plan) == {"idc-a": (0, 4), "idc-b": (4, 2)}
    assert plan.domain == "roce-1"
    assert plan.why_several == "no single member of roce-1 had 6 free (idc-a 4, idc-b 2)"
    assert plan.per_hour == 0
    assert plan.next_best is not None
    assert (plan.next_best.cluster, plan.next_best.per_hour) == ("cloud-c", 11_400_000)
    assert reasons(plan) == {"cloud-c": "LaterTier", "idc-a": "Used", "idc-b": "Used"}


def test_a_gang_that_fits_on_no_plane_is_refused_with_what_there_is(build, fleet):
    own = {"mode": "Split", "gang": {"plane": "roce-1"}}
    refusal = ask(build.demand(9, own), fleet)
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith("roce-1 has 6 free, needs 9 (cloud-c has 64, on vpc-9)")
    assert refusal.at_best == {"roce-1": 6}


def test_a_small_job_goes_to_the_first_tier(build, fleet, prices):
    plan = ask(build.demand(2, {"clusters": TIERS}), fleet, prices=prices)
    assert spread(plan) == {"idc-a": (0, 2)}
    assert plan.why_several == ""


def test_a_later_tier_is_used_when_the_earlier_do_not_suffice(build, fleet, prices):
    plan = ask(build.demand(9, SPLIT), fleet, prices=prices)
    assert spread(plan) == {"cloud-c": (0, 9)}
    assert plan.per_hour == 17_100_000
    verdict = next(each for each in plan.verdicts if each.cluster == "idc-a")
    assert verdict.message == "plane roce-1 has 6 free, 9 are needed"


def test_one_keeps_a_gang_in_one_cluster(build):
    fleet = [build.cluster("east", 4), build.cluster("west", 4)]
    refusal = ask(build.demand(6), fleet)
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith("east 4, west 4 free, needs 6 in one cluster")


def test_the_second_tier_waits_its_time_and_says_when(build, fleet):
    tiers = [TIERS["tiers"][0], {**TIERS["tiers"][1], "after": "10m"}]
    demand = build.demand(9, {"mode": "Split", "clusters": {"tiers": tiers}})
    refusal = ask(demand, fleet, waited_s=60.0)
    assert isinstance(refusal, Refusal)
    assert (refusal.retry_after_s, refusal.word) == (540.0, "TierNotYet")
    full = [build.cluster("idc-a", 4, provider="own")]
    assert ask(demand, full).word == "Impossible", "no tier has room"
    assert refusal.message == (
        "roce-1 has 6 free, needs 9 (cloud-c has 64, tier 2 is tried after 10m in the one before); "
        "the next tier is tried once this has waited for 10m"
    )
    assert not refusal.impossible
    assert spread(ask(demand, fleet, waited_s=600.0)) == {"cloud-c": (0, 9)}


def test_a_later_tier_is_tried_in_time_for_the_deadline(build, fleet):
    tiers = [TIERS["tiers"][0], {**TIERS["tiers"][1], "after": "10m"}]
    spec = {"mode": "Split", "clusters": {"tiers": tiers}, "objective": {"deadline": "1h"}}
    timed = {"objective": {**spec["objective"], "runTime": "55m"}}
    assert isinstance(ask(build.demand(9, spec), fleet, waited_s=300.0), Refusal), "who knows"
    demand = build.demand(9, {**spec, **timed})
    refusal = ask(demand, fleet, waited_s=299.0)
    assert refusal.retry_after_s == 1.0
    assert spread(ask(demand, fleet, waited_s=300.0)) == {"cloud-c": (0, 9)}


def test_waits_of_tiers_add_up(build):
    names = ("a", "b", "c")
    tiers = [
        {
            "selector": {"matchLabels": {"fleet.dev/provider": name}},
            **({"after": "1m"} if i else {}),
        }
        for i, name in enumerate(names)
    ]
    demand = build.demand(1, {"clusters": {"tiers": tiers}})
    fleet = [build.cluster("x", 1, provider="c")]
    assert isinstance(ask(demand, fleet, waited_s=119.0), Refusal)
    assert spread(ask(demand, fleet, waited_s=120.0)) == {"x": (0, 1)}


# -- hard constraints


def verdict_of(build, spec, **cluster):
    decision = ask(build.demand(1, spec), [build.cluster("east", **cluster)])
    (verdict,) = decision.verdicts
    return verdict.reason, verdict.message


@pytest.mark.parametrize(
    ("spec", "cluster", "reason", "words"),
    [
        ({"clusters": {"selector": {"matchLabels": {"a": "b"}}}}, {}, "NotSelected", "not select"),
        ({"clusters": TIERS}, {"provider": "gcp"}, "NoTier", "in no tier"),
        ({}, {"cordoned": True, "cordoned_because": "rack move"}, "Cordoned", ": rack move"),
        ({}, {"ready": False, "not_ready_because": "lost"}, "NotReady", "not ready: lost"),
        ({}, {"as_of_s": -41.0}, "CapacityStale", "was last confirmed more than 30 s ago"),
        ({"mode": "Split"}, {"plane": ""}, "NoNetwork", "not known to be on any plane"),
        (
            {"mode": "Split", "gang": {"plane": "roce-2"}}, {}, "OtherNetwork",
            "plane roce-1 is not roce-2",
        ),
        (
            {"gang": {"network": "DataPlane"}}, {"data_plane": ""}, "NoNetwork",
            "not known to be on any data plane",
        ),
        ({"objective": {"maxPrice": "5 USD/h"}}, {}, "NotPayable", "it has no price"),
        (
            {"clusters": TIERS, "gang": {"roles": [{"name": "worker", "tiers": ["aws"]}]}}, {},
            "OtherTier", "in tier 1, role worker wants aws",
        ),
    ],
)  # fmt: skip
def test_a_refused_cluster_says_which_constraint(build, spec, cluster, reason, words):
    found, message = verdict_of(build, spec, **cluster)
    assert found == reason
    assert words in message


def test_a_cluster_whose_free_nodes_may_not_be_used_is_full_and_not_hopeless(build):
    """What runs on the nodes that may be used will end, or may be ended for it."""
    spot = {"karpenter.sh/capacity-type": "spot"}
    nodes = [build.node("own", 4), build.node("spot", 4, labels=spot)]
    cluster = build.cluster("a", 4)
    demand = build.demand(4, {"objective": {"spot": "Never"}})
    capacity = capacity_of(nodes, [], as_of_s=0.0)
    runs = build.pod("runs", "own", requests={"nvidia.com/gpu": "4"})
    busy = capacity_of(nodes, [runs], as_of_s=0.0)
    for free, reason in ((capacity, "Used"), (busy, "Full")):
        decision = ask(demand, [replace(cluster, capacity=free)])
        assert reasons(decision) == {"a": reason}
    assert isinstance(decision, Refusal)
    assert not decision.impossible
    only_spot = capacity_of(nodes[1:], [], as_of_s=0.0)
    decision = ask(demand, [replace(cluster, capacity=only_spot)])
    assert (reasons(decision), decision.impossible) == ({"a": "NotPayable"}, True)


def test_cluster_taints_keep_work_away_unless_tolerated(build):
    taints = (Taint("spot", "", "NoSchedule"),)
    assert verdict_of(build, {}, taints=taints) == (
        "Tainted", "taint spot:NoSchedule is not tolerated",
    )  # fmt: skip
    tolerated = {"clusters": {"tolerations": [{"key": "spot", "operator": "Exists"}]}}
    assert verdict_of(build, tolerated, taints=taints)[0] == "Used"


def test_unknown_capacity_is_neither_none_nor_endless(build):
    unknown = replace(build.cluster("dark", 64), capacity=None)
    decision = ask(build.demand(2), [unknown, build.cluster("east", 1)])
    assert isinstance(decision, Refusal)
    assert reasons(decision)["dark"] == "CapacityUnknown"
    verdict = next(each for each in decision.verdicts if each.cluster == "dark")
    assert verdict.pods is None
    # What is not known might hold anything: nobody may say that it never will.
    assert not decision.impossible


def test_a_stale_member_does_not_hide_the_fresh_ones(build):
    fleet = [build.cluster("old", 64, as_of_s=-31.0), build.cluster("new", 1)]
    assert spread(ask(build.demand(1), fleet)) == {"new": (0, 1)}


def test_units_stay_whole_in_a_block(build):
    """Two blocks of 6 hold one unit of 4 each, not three."""
    fleet = [build.cluster("east", [6, 6], blocks=["r1", "r2"]), build.cluster("west", 4)]
    split = {"mode": "Split", "gang": {"unit": 4}}
    plan = ask(build.demand(12, split), fleet)
    assert spread(plan) == {"east": (0, 8), "west": (8, 4)}
    assert plan.shards[0].blocks == (("r1", 4), ("r2", 4))
    refusal = ask(build.demand(16, split), fleet)
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith("roce-1 has 12 free, needs 16 in units of 4")


def test_the_span_is_a_bound_and_the_refusal_says_so(build):
    fleet = [build.cluster(name, 4) for name in "abcd"]
    refusal = ask(build.demand(9, {"mode": "Split"}), fleet)
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith(
        "roce-1 has 16 free in 4 clusters, 8 in 2, needs 9 in at most 2"
    )
    wider = {"mode": "Split", "gang": {"maxClusters": 3}}
    assert len(ask(build.demand(9, wider), fleet).shards) == 3


def test_the_ceiling_is_a_bound_and_the_refusal_says_what_it_would_cost(build):
    prices = build.prices({"cluster": "east", **ACCELERATORS})
    fleet = [build.cluster("east", 8)]
    spec = {"objective": {"maxPrice": "10 USD/h"}}
    assert spread(ask(build.demand(5, spec), fleet, prices=prices)) == {"east": (0, 5)}
    refusal = ask(build.demand(6, spec), fleet, prices=prices)
    assert isinstance(refusal, Refusal)
    assert refusal.message == "would cost 11.4 USD/h at least, the policy allows 10 USD/h"
    assert (refusal.word, refusal.final) == ("TooDear", False)
    assert not refusal.impossible
    (verdict,) = refusal.verdicts
    assert (verdict.reason, verdict.message) == (
        "TooDear", "it would cost 11.4 USD/h there, above the ceiling of the policy"
    )  # fmt: skip


def test_what_finds_room_only_above_the_ceiling_is_refused_where_the_policy_says_so(build):
    prices = build.prices({"cluster": "east", **ACCELERATORS})
    fleet = [build.cluster("east", 8), build.cluster("late", 8, provider="aws")]
    spec = {"objective": {"maxPrice": "10 USD/h", "whenTooDear": "Refuse"}}
    for pods, final in ((6, True), (9, False)):
        refusal = ask(build.demand(pods, spec), fleet[:1], prices=prices)
        assert (refusal.final, refusal.reason) == (final, "TooDear" if final else "")
    tiers = [
        {"selector": {"matchLabels": {"fleet.dev/provider": "own"}}},
        {"selector": {}, "after": "1m"},
    ]
    waits = ask(build.demand(6, {**spec, "clusters": {"tiers": tiers}}), fleet, prices=prices)
    assert not waits.final, "the next tier may be within it"


def test_more_clusters_are_used_where_fewer_are_too_dear(build):
    prices = build.prices(
        {"cluster": "big", **ACCELERATORS},
        {"cluster": "a", "billing": "Owned"},
        {"cluster": "b", "billing": "Owned"},
    )
    fleet = [build.cluster("big", 8), build.cluster("a", 4), build.cluster("b", 4)]
    spec = {"mode": "Split", "objective": {"maxPrice": "1 USD/h"}}
    plan = ask(build.demand(8, spec), fleet, prices=prices)
    assert spread(plan) == {"a": (0, 4), "b": (4, 4)}
    assert plan.why_several == "no single member of roce-1 with 8 free is within the price"


def test_why_several_names_the_tier_that_comes_first_and_who_could_hold_it_alone(build, fleet):
    loose = {**SPLIT, "gang": {"network": "None"}}
    plan = ask(build.demand(6, loose), fleet)
    assert spread(plan) == {"idc-a": (0, 4), "idc-b": (4, 2)}
    assert plan.why_several == (
        "no single member in tier 1 had 6 free (idc-a 4, idc-b 2); cloud-c has 64, in tier 2"
    )
    first, second = TIERS["tiers"]
    late = {**loose, "clusters": {"tiers": [first, {**second, "after": "5m"}]}}
    plan = ask(build.demand(6, late), fleet)
    assert plan.why_several.endswith("; cloud-c has 64, in tier 2")


def test_why_several_names_a_member_that_would_do_if_it_were_in_order(build, fleet):
    down = build.cluster("idc-c", 8, ready=False)
    plan = ask(build.demand(6, SPLIT), [*fleet, down])
    assert plan.why_several == (
        "no single member of roce-1 had 6 free (idc-a 4, idc-b 2); idc-c has 8, not ready"
    )


def test_why_several_of_two_tiers_together(build):
    fleet = [build.cluster("a", 4), build.cluster("b", 2, provider="aws")]
    plan = ask(build.demand(6, SPLIT), fleet)
    assert plan.why_several == "no single member of roce-1 had 6 free (a 4, b 2)"


def test_prices_of_another_currency_than_the_ceiling_are_not_guessed(build):
    prices = build.prices({"cluster": "east", "billing": "Owned"}, currency="EUR")
    refusal = ask(
        build.demand(1, {"objective": {"maxPrice": "1 USD/h"}}),
        [build.cluster("east")],
        prices=prices,
    )
    assert isinstance(refusal, Refusal)
    assert refusal.message == (
        "the policy's ceiling is in USD, the prices are in EUR: they cannot be compared"
    )
    assert refusal.word == "OtherCurrency"
    assert reasons(refusal) == {"east": "OtherCurrency"}


# -- preference


def test_a_known_price_beats_an_unknown_one_and_a_low_one_a_high_one(build):
    fleet = [build.cluster(name, 4) for name in ("a-unknown", "b-dear", "c-cheap")]
    prices = build.prices(
        {"cluster": "b-dear", **ACCELERATORS},
        {"cluster": "c-cheap", **ACCELERATORS, "perHour": "1"},
    )
    plan = ask(build.demand(2), fleet, prices=prices)
    assert spread(plan) == {"c-cheap": (0, 2)}
    assert reasons(plan) == {"a-unknown": "PriceUnknown", "b-dear": "Dearer", "c-cheap": "Used"}
    assert spread(ask(build.demand(2), fleet[:1], prices=prices)) == {"a-unknown": (0, 2)}


def test_fewer_blocks_win_before_the_name(build):
    fleet = [
        build.cluster("a", [2, 2], blocks=["r1", "r2"]),
        build.cluster("b", [2, 2], blocks=["r1", "r1"]),
    ]
    plan = ask(build.demand(4), fleet)
    assert spread(plan) == {"b": (0, 4)}
    assert reasons(plan)["a"] == "MoreBlocks"


def test_where_it_ran_wins_a_tie(build):
    fleet = [build.cluster("a", 4), build.cluster("b", 4)]
    assert spread(ask(build.demand(4), fleet)) == {"a": (0, 4)}
    assert spread(ask(build.demand(4), fleet, incumbents={"b"})) == {"b": (0, 4)}


def test_the_own_rooms_come_first_then_clouds_in_the_order_listed_and_back(build):
    """Burst and shrink: what begins anew goes back as soon as there is room."""
    names = ("own", "aws", "gcp")
    tiers = [{"selector": {"matchLabels": {"fleet.dev/provider": name}}} for name in names]
    demand = build.demand(4, {"clusters": {"tiers": tiers}})

    def where(own, aws, gcp, **more):
        free = {"own": own, "aws": aws, "gcp": gcp}
        fleet = [build.cluster(f"z-{n}" if n == "own" else n, [8], provider=n) for n in names]
        there = [
            replace(c, capacity=c.capacity.without(demand.role.kind, 8 - free[n]))
            for c, n in zip(fleet, names, strict=True)
        ]
        prices = build.prices(
            {"cluster": "z-own", **ACCELERATORS, "perHour": "9"},
            {"cluster": "aws", **ACCELERATORS},
            {"cluster": "gcp", **ACCELERATORS, "perHour": "0.01"},
        )
        return list(spread(ask(demand, there, prices=prices, **more)))

    assert where(8, 8, 8) == ["z-own"], "whatever it costs"
    assert where(3, 8, 8) == ["aws"]
    assert where(3, 3, 8) == ["gcp"]
    for ran_in in ("aws", "gcp"):
        assert where(4, 8, 8, incumbents={ran_in}) == ["z-own"]


# -- nothing could ever fit


@pytest.mark.parametrize(
    ("busy", "pods", "impossible"),
    [
        pytest.param(0, 9, True, id="too large for the empty fleet"),
        pytest.param(3, 4, False, id="room only now is missing"),
        pytest.param(0, 4, None, id="fits"),
    ],
)
def test_what_no_member_could_hold_is_told_apart_from_what_must_wait(build, busy, pods, impossible):
    used = [build.pod(f"p{i}", "n0", requests={"nvidia.com/gpu": "1"}) for i in range(busy)]
    cluster = build.cluster("east", 4)
    capacity = capacity_of([build.node("n0", 4)], used, as_of_s=0.0)
    decision = ask(build.demand(pods), [replace(cluster, capacity=capacity)])
    if impossible is None:
        assert isinstance(decision, Plan)
        return
    assert isinstance(decision, Refusal)
    assert decision.impossible is impossible
    assert ("would not fit even if nothing else ran" in decision.message) is impossible


def test_an_empty_fleet_refuses(build):
    refusal = ask(build.demand(1), [])
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith("needs 1, no cluster comes into question: the fleet has none")


def test_no_usable_cluster_names_the_reasons(build):
    fleet = [build.cluster("a", cordoned=True), build.cluster("b", ready=False)]
    refusal = ask(build.demand(1), fleet)
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith(
        "needs 1, no cluster comes into question: a takes no new work; b not ready"
    )


# -- a lost shard


def test_a_lost_shard_is_placed_anew_and_the_others_keep_their_ranks(build, fleet):
    plan = ask(build.demand(6, SPLIT), fleet)
    later = [fleet[0], build.cluster("idc-d", 2)]
    again = replace_shards(plan, {"idc-b"}, later, generation=2, now_s=0.0)
    assert spread(again) == {"idc-a": (0, 4), "idc-d": (4, 2)}
    assert [(s.cluster, s.index, s.generation) for s in again.shards] == [
        ("idc-a", 0, 1), ("idc-d", 1, 2),
    ]  # fmt: skip
    assert again.note == "placed anew: ranks 4-5 in idc-d; all others stay"
    assert again.why_several == "ranks 0-3 stayed in idc-a when ranks 4-5 had to be placed anew"


def test_losing_shard_zero_gives_its_ranks_and_its_number_away(build, fleet):
    plan = ask(build.demand(6, SPLIT), fleet)
    later = [fleet[1], build.cluster("idc-d", 4)]
    again = replace_shards(plan, {"idc-a"}, later, generation=2, now_s=0.0)
    assert spread(again) == {"idc-d": (0, 4), "idc-b": (4, 2)}
    assert [(s.cluster, s.index) for s in again.shards] == [("idc-d", 0), ("idc-b", 1)]


def test_a_lost_shard_stays_on_the_plane_and_within_the_span(build, fleet):
    plan = ask(build.demand(6, SPLIT), fleet)
    elsewhere = replace_shards(plan, {"idc-b"}, fleet[::2], generation=2, now_s=0.0)
    assert isinstance(elsewhere, Refusal)
    assert reasons(elsewhere) == {"cloud-c": "OtherNetwork"}
    halves = [fleet[0], build.cluster("x", 1), build.cluster("y", 1)]
    assert isinstance(replace_shards(plan, {"idc-b"}, halves, generation=2, now_s=0.0), Refusal)


def test_several_lost_shards_fill_their_own_gaps(build):
    wide = {"mode": "Split", "gang": {"maxClusters": 3}}
    fleet = [build.cluster("a", 2), build.cluster("b", 2), build.cluster("c", 3)]
    plan = ask(build.demand(7, wide), fleet)
    again = replace_shards(
        plan, {"a", "c"}, [build.cluster("d", 3), build.cluster("e", 2)], generation=2, now_s=0.0
    )
    assert spread(again) == {"e": (0, 2), "b": (2, 2), "d": (4, 3)}
    assert [(s.cluster, s.index) for s in again.shards] == [("e", 0), ("b", 1), ("d", 2)]


def test_a_gang_that_lost_everything_may_go_to_another_plane(build, fleet):
    plan = ask(build.demand(6, SPLIT), fleet)
    again = replace_shards(plan, {"idc-a", "idc-b"}, fleet[2:], generation=2, now_s=0.0)
    assert spread(again) == {"cloud-c": (0, 6)}
    assert again.domain == "vpc-9"
    assert again.why_several == ""


def test_losing_nothing_changes_nothing(build, fleet):
    plan = ask(build.demand(6, SPLIT), fleet)
    assert replace_shards(plan, set(), fleet, generation=2, now_s=0.0) == plan


# -- properties

SIZES = st.lists(st.integers(0, 3), min_size=1, max_size=2)
MEMBERS = st.lists(
    st.tuples(
        SIZES,
        st.sampled_from(["roce-1", "vpc-9"]),
        st.sampled_from(["own", "aws"]),
        st.sampled_from([None, "0", "1", "2.5"]),
    ),
    min_size=1,
    max_size=4,
)


def small_fleet(build, members):
    fleet = [
        build.cluster(f"c{i}", sizes, plane=plane, provider=provider,
                      blocks=[f"r{j}" for j in range(len(sizes))])
        for i, (sizes, plane, provider, _) in enumerate(members)
    ]  # fmt: skip
    offers = [
        {"cluster": f"c{i}", "perHour": price, "per": "Accelerator"}
        for i, (*_, price) in enumerate(members)
        if price is not None
    ]
    return fleet, build.prices(*offers)


def exhaustive(members, pods, span, ceiling):
    """The best of all choices, and the least objective; None when there is none."""
    best = None
    for count in range(1, span + 1):
        for chosen in combinations(range(len(members)), count):
            if len({members[i][1] for i in chosen}) > 1:
                continue
            for shares in product(*(range(1, sum(members[i][0]) + 1) for i in chosen)):
                if sum(shares) != pods:
                    continue
                tier = max(1 if members[i][2] == "own" else 2 for i in chosen)
                unknown = money = blocks = 0
                for i, share in zip(chosen, shares, strict=True):
                    sizes, *_, price = members[i]
                    blocks += 1 if share <= max(sizes) else 2
                    unknown += share if price is None else 0
                    money += round(float(price or 0) * 1e6) * share
                if ceiling is not None and (unknown or money > ceiling):
                    continue
                path = tuple((i, -share) for i, share in zip(chosen, shares, strict=True))
                key = (tier, count, unknown, money, blocks, path)
                best = key if best is None else min(best, key)
    return best


@given(MEMBERS, st.integers(1, 8), st.integers(1, 3), st.sampled_from([None, 3]))
@settings(max_examples=300, deadline=None)
def test_the_decision_is_the_best_of_all(build, members, pods, span, ceiling):
    fleet, prices = small_fleet(build, members)
    spec = {"mode": "Split", "clusters": TIERS, "gang": {"maxClusters": span}}
    if ceiling is not None:
        spec["objective"] = {"maxPrice": f"{ceiling} USD/h"}
    decision = ask(build.demand(pods, spec), fleet, prices=prices)
    best = exhaustive(members, pods, span, None if ceiling is None else ceiling * 10**6)
    if best is None:
        assert isinstance(decision, Refusal)
        return
    assert isinstance(decision, Plan), decision.message
    path = tuple((int(s.cluster[1:]), -s.pods) for s in decision.shards)
    assert (max(s.tier for s in decision.shards), len(decision.shards)) == best[:2]
    assert sum(len(s.blocks) for s in decision.shards) == best[4]
    assert path == best[5]


@given(MEMBERS, st.integers(1, 8), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_the_order_of_the_clusters_changes_nothing(build, members, pods, random):
    fleet, prices = small_fleet(build, members)
    demand = build.demand(pods, SPLIT)
    shuffled = list(fleet)
    random.shuffle(shuffled)
    decision = ask(demand, fleet, prices=prices)
    assert ask(demand, shuffled, prices=prices) == decision


@given(MEMBERS, st.permutations(["k", "l", "m", "n"]), st.integers(1, 8))
@settings(max_examples=150, deadline=None)
def test_no_plan_is_partial_and_every_shard_has_room(build, members, names, pods):
    fleet, prices = small_fleet(build, members)
    fleet = [replace(c, name=name) for c, name in zip(fleet, names, strict=False)]
    decision = ask(build.demand(pods, SPLIT), fleet, prices=prices)
    assert {each.cluster for each in decision.verdicts} == {each.name for each in fleet}
    if isinstance(decision, Refusal):
        assert decision.message
        return
    room = {c.name: sum(sizes) for c, (sizes, *_) in zip(fleet, members, strict=True)}
    ranks = sorted(r for s in decision.shards for i in s.intervals for r in range(i.first, i.end))
    assert ranks == list(range(pods))
    assert all(0 < s.pods <= room[s.cluster] for s in decision.shards)
    assert [s.index for s in decision.shards] == list(range(len(decision.shards)))
    assert decision.shards[0].intervals[0].first == 0
    planes = {c.parameter_plane for c in fleet if decision.shard(c.name)}
    assert planes == {decision.domain}


@given(MEMBERS, st.integers(2, 8), st.data())
@settings(max_examples=150, deadline=None)
def test_survivors_keep_rank_number_and_generation(build, members, pods, data):
    fleet, prices = small_fleet(build, members)
    spec = {"mode": "Split", "clusters": TIERS, "gang": {"maxClusters": 4}}
    plan = ask(build.demand(pods, spec), fleet, prices=prices)
    if isinstance(plan, Refusal):
        return
    lost = data.draw(st.sets(st.sampled_from([s.cluster for s in plan.shards]), min_size=1))
    spare = [build.cluster(f"spare{i}", 3, plane=plan.domain) for i in range(3)]
    rest = [c for c in fleet if c.name not in lost]
    again = replace_shards(plan, lost, [*rest, *spare], generation=2, now_s=0.0, prices=prices)
    if isinstance(again, Refusal):
        return
    for shard in plan.shards:
        if shard.cluster not in lost:
            assert again.shard(shard.cluster) == shard
    ranks = sorted(r for s in again.shards for i in s.intervals for r in range(i.first, i.end))
    assert ranks == list(range(pods))
    assert {s.generation for s in again.shards if s.cluster.startswith("spare")} <= {2}
    assert len({s.index for s in again.shards}) == len(again.shards)
    assert again.shards[0].index == again.shards[0].intervals[0].first == 0


def messages(decision):
    return {each.cluster: each.message for each in decision.verdicts if each.verdict == "Unused"}


@pytest.mark.parametrize(
    ("sizes", "span", "told"),
    [
        (
            {"idc-a": 4, "idc-b": 2}, 2,
            "plane roce-1 would need 2 clusters (idc-a 4, idc-b 2); cloud-c alone suffices",
        ),
        ({"idc-a": 3, "idc-b": 2}, 2, "plane roce-1 has 5 free, 6 are needed"),
        ({"idc-a": 2, "idc-b": 2, "idc-d": 2}, 2, "plane roce-1 has 4 free, 6 are needed"),
        (
            {"idc-a": 2, "idc-b": 2, "idc-d": 2}, 3,
            "plane roce-1 would need 3 clusters (idc-a 2, idc-b 2, idc-d 2); "
            "cloud-c alone suffices",
        ),
    ],
)  # fmt: skip
def test_fewer_clusters_go_before_the_price_and_a_network_is_told_so(build, sizes, span, told):
    """Without tiers one cluster that costs goes before several that are free: that it is on another
    network is not why."""
    fleet = [build.cluster(name, size) for name, size in sizes.items()]
    fleet.append(build.cluster("cloud-c", 64, plane="vpc-9"))
    prices = build.prices(
        *({"cluster": name, "billing": "Owned"} for name in sizes),
        {"cluster": "cloud-c", **ACCELERATORS},
    )
    spec = {"mode": "Split", "gang": {"maxClusters": span}}
    plan = ask(build.demand(6, spec), fleet, prices=prices)
    assert spread(plan) == {"cloud-c": (0, 6)}
    assert messages(plan) == dict.fromkeys(sizes, told)


def test_of_networks_that_do_with_as_many_clusters_the_price_is_told(build):
    fleet = [build.cluster("idc-a", 8), build.cluster("cloud-c", 64, plane="vpc-9")]
    prices = build.prices(
        {"cluster": "idc-a", "billing": "Owned"}, {"cluster": "cloud-c", **ACCELERATORS}
    )
    plan = ask(build.demand(6, {"mode": "Split"}), fleet, prices=prices)
    assert spread(plan) == {"idc-a": (0, 6)}
    assert {each.cluster: each.reason for each in plan.verdicts} == {
        "idc-a": "Used", "cloud-c": "Dearer"
    }  # fmt: skip
    alike = ask(
        build.demand(6, {"mode": "Split"}), [fleet[0], build.cluster("idc-b", 8, plane="x")]
    )
    assert messages(alike) == {"idc-b": "idc-a will do"}


def test_a_network_that_needs_a_later_tier_is_told_by_what_it_has_in_this_one(build):
    fleet = [
        build.cluster("idc-a", 4),
        build.cluster("cloud-a", 4, provider="aws"),
        build.cluster("idc-b", 8, plane="roce-2"),
    ]
    plan = ask(build.demand(6, SPLIT), fleet)
    assert spread(plan) == {"idc-b": (0, 6)}
    assert messages(plan) == {
        "idc-a": "plane roce-1 has 4 free, 6 are needed", "cloud-a": "tier 2; tier 1 suffices"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("per_hour", "told"),
    [("0.01", "0.01"), ("0.000001", "less than 0.01"), ("1.9", "1.9"), ("0.1234", "0.1234")],
)
def test_a_difference_of_next_to_nothing_is_told_as_that(build, per_hour, told):
    fleet = [build.cluster("own", 1), build.cluster("let", 1)]
    prices = build.prices(
        {"cluster": "own", "billing": "Owned"}, {"cluster": "let", "perHour": per_hour}
    )
    plan = ask(build.demand(1, {}), fleet, prices=prices)
    assert messages(plan) == {"let": f"dearer: {told} per hour, own 0"}
