"""The bill: nothing lost over changes, restarts and deletions; nothing counted twice; no currency
made into another."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduling.cost import months
from fleet.scheduling.cost.intervals import (
    Interval,
    Spent,
    carried,
    intervals_of,
    month_of,
    next_month,
    settled,
    spent_until,
)
from fleet.scheduling.cost.showback import account_of, below, bill, spending
from policies import PLACEMENT

START = datetime(2026, 11, 10, 12, tzinfo=UTC)


def hour(number):
    return START + timedelta(hours=number)


def text(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def shard(cluster="a", per_hour: str | None = "6", held: float | None = 0, **more):
    found = {"cluster": cluster, "generation": 1, "state": "Running", **more}
    if per_hour is not None:
        found["perHour"] = per_hour
    if held is not None:
        found["heldAt"] = text(hour(held))
    return found


def status(*shards, currency="USD", **more):
    return {"cost": {"currency": currency} if currency else {}, "shards": [*shards], **more}


def placement(name="train", namespace="nlp", uid="u", **of_status):
    obj = {
        "metadata": {"name": f"job-{name}", "namespace": namespace, "uid": uid},
        "spec": {
            "workload": {"apiVersion": "batch/v1", "kind": "Job", "name": name},
            "policy": {"namespace": namespace, "name": "big"},
        },
        "status": of_status,
    }
    PLACEMENT.parse(obj)
    return obj


def total(spent):
    return {(each.cluster, each.currency): each.micro for each in spent}


# -- intervals


@pytest.mark.parametrize(
    ("given_shard", "until", "micro"),
    [
        pytest.param(shard(), 2, 12_000_000, id="runs"),
        pytest.param(shard(), 0, None, id="just begun"),
        pytest.param(shard(held=5), 2, None, id="begins later"),
        pytest.param(shard(held=None), 2, None, id="has no nodes yet"),
        pytest.param(shard(held=None, committedAt=text(hour(1))), 2, 6_000_000, id="committed"),
        pytest.param(shard(state="Succeeded", finishedAt=text(hour(1))), 9, 6_000_000, id="ended"),
        pytest.param(shard(state="Lost", lostAt=text(hour(3))), 9, 18_000_000, id="lost"),
        pytest.param(
            shard(state="Running", reason="MemberLeft", lostAt=text(hour(3))),
            9,
            18_000_000,
            id="its member left",
        ),
        pytest.param(shard(pricedAt=text(hour(1))), 2, 6_000_000, id="at a new price"),
        pytest.param(shard(per_hour="0"), 2, None, id="owned"),
        pytest.param(shard(per_hour="0.000001"), 1, 1, id="a millionth"),
    ],
)
def test_what_a_shard_has_cost(given_shard, until, micro):
    found = total(spent_until(status(given_shard), hour(until)))
    assert found == ({} if micro is None else {("a", "USD"): micro})


@pytest.mark.parametrize("unknown", [status(shard(per_hour=None)), status(shard(), currency="")])
def test_time_without_a_known_price_is_counted_as_time(unknown):
    (found,) = spent_until(unknown, hour(2))
    assert (found.currency, found.micro, found.unpriced) == ("", 0, timedelta(hours=2))


def test_a_month_ends_when_it_ends():
    interval = Interval("a", datetime(2026, 11, 30, 23, tzinfo=UTC), None, 6_000_000, "USD")
    assert list(interval.spent(datetime(2026, 12, 1, 2, tzinfo=UTC))) == [
        Spent("2026-11", "a", "USD", 6_000_000), Spent("2026-12", "a", "USD", 12_000_000),
    ]  # fmt: skip
    assert next_month(datetime(2026, 12, 5, tzinfo=UTC)) == datetime(2027, 1, 1, tzinfo=UTC)
    zone = datetime.fromisoformat("2026-12-01T01:00:00+02:00")
    assert month_of(zone) == "2026-11"


@given(st.integers(1, 10**12), st.lists(st.integers(1, 10**7), min_size=1, max_size=6))
def test_cutting_time_into_pieces_costs_less_than_a_millionth_each(per_hour, seconds):
    start, whole = START, sum(seconds)

    def cost(begin, length):
        interval = Interval("a", begin, None, per_hour, "USD")
        return sum(each.micro for each in interval.spent(begin + timedelta(seconds=length)))

    pieces, at = 0, start
    for length in seconds:
        pieces += cost(at, length)
        at += timedelta(seconds=length)
    months_touched = whole // (28 * 86_400) + 2
    assert -(-per_hour * whole // 3600) <= cost(start, whole) <= pieces
    assert pieces - cost(start, whole) <= len(seconds) + months_touched


# -- what a change of the status would lose


def test_a_shard_that_goes_leaves_its_cost():
    before = status(shard("a"), shard("b", "1"))
    after = carried(before, status(shard("b", "1")), now=hour(2))
    assert settled(after) == (Spent("2026-11", "a", "USD", 12_000_000),)
    assert total(spent_until(after, hour(3))) == {
        ("a", "USD"): 12_000_000, ("b", "USD"): 3_000_000,
    }  # fmt: skip


def test_a_shard_that_goes_while_its_cluster_is_silent_cost_until_that_was_heard_of():
    before = status(shard("a", lostAt=text(hour(1))))
    after = carried(before, status(), now=hour(5))
    assert total(spent_until(after, hour(9))) == {("a", "USD"): 6_000_000}


def test_nodes_that_a_shard_lets_go_while_it_is_held_were_paid_for():
    before = status(shard("a", state="Held"))
    without = carried(before, status(shard("a", state="Holding", held=None)), now=hour(1))
    assert total(spent_until(without, hour(3))) == {("a", "USD"): 6_000_000}
    again = carried(without, status(shard("a", state="Held", held=3)), now=hour(3))
    assert total(spent_until(again, hour(4))) == {("a", "USD"): 12_000_000}


def test_a_shard_placed_anew_is_another_one():
    before = status(shard("a", generation=1))
    after = carried(before, status(shard("a", generation=2, held=2)), now=hour(2))
    assert total(spent_until(after, hour(3))) == {("a", "USD"): 18_000_000}


def test_a_new_price_begins_when_it_is_known():
    before = status(shard("a", "6"))
    after = carried(before, status(shard("a", "9")), now=hour(2))
    assert after["shards"][0]["pricedAt"] == text(hour(2))
    assert total(spent_until(after, hour(3))) == {("a", "USD"): 21_000_000}
    again = carried(after, status(shard("a", "9")), now=hour(3))
    assert again["shards"][0]["pricedAt"] == text(hour(2)), "kept by a writer that knows it not"
    assert total(spent_until(again, hour(4))) == {("a", "USD"): 30_000_000}


def test_another_currency_begins_a_sum_of_its_own():
    after = carried(status(shard()), status(shard(), currency="EUR"), now=hour(2))
    assert total(spent_until(after, hour(3))) == {
        ("a", "EUR"): 6_000_000, ("a", "USD"): 12_000_000,
    }  # fmt: skip


def test_back_to_the_queue_and_placed_again():
    before = status(shard())
    queued = carried(before, {"phase": "Queued"}, now=hour(1))
    assert "shards" not in queued
    placed = carried(queued, {**status(shard("b", held=5, generation=2))}, now=hour(5))
    assert total(spent_until(placed, hour(6))) == {("a", "USD"): 6_000_000, ("b", "USD"): 6_000_000}


def test_nothing_changes_where_nothing_happened():
    before = carried(status(shard("a"), shard("b")), status(shard("b", "7")), now=hour(2))
    assert carried(before, copy.deepcopy(before), now=hour(9)) == before
    plain = status(shard())
    assert carried(plain, plain, now=hour(3)) == plain


@st.composite
def histories(draw):
    """Statuses one after another, an hour apart: shards come, go, end, and change their price."""
    found, generation = [], 0
    for number in range(draw(st.integers(1, 8))):
        shards = []
        for cluster in draw(st.lists(st.sampled_from("ab"), unique=True)):
            old = (
                next((s for s in found[-1]["shards"] if s["cluster"] == cluster), None)
                if (found)
                else None
            )
            if old is None or draw(st.booleans()):
                generation += 1
                old = shard(cluster, generation=generation, held=number)
            shards.append({**old, "perHour": draw(st.sampled_from(["1", "2.5", "0.75"]))})
        found.append(status(*shards))
    return found


@given(histories())
def test_the_sum_never_goes_down_and_is_what_each_hour_cost(history):
    """Each status stands for an hour; its shards are paid at its prices."""
    present, due, before = {}, 0, 0
    for number, each in enumerate(history):
        present = carried(present, each, now=hour(number))
        due += sum(round(float(s["perHour"]) * 10**6) for s in each["shards"])
        sum_now = sum(spent.micro for spent in spent_until(present, hour(number + 1)))
        assert before <= sum_now
        before = sum_now
    assert before == due


# -- the bill


def test_the_bill_of_a_workload():
    obj = placement(**status(shard("a"), shard("b", "4")), runTime="10h")
    obj["status"]["shards"][0]["startedAt"] = text(hour(0))
    (row,) = bill([account_of(obj, now=hour(4))], by="workload", now=hour(4))
    assert (row.name, row.currency, row.per_hour) == ("nlp/job/train", "USD", 10_000_000)
    assert (row.so_far, row.forecast) == (40_000_000, 100_000_000)


def test_a_run_time_that_is_not_known_reaches_to_the_end_of_the_month():
    account = account_of(placement(**status(shard(per_hour="1"))), now=hour(4))
    (row,) = bill([account], by="workload", now=hour(4))
    assert row.forecast == (next_month(START) - START) // timedelta(hours=1) * 10**6


def test_one_that_runs_longer_than_expected_is_expected_to_end_now():
    obj = placement(**status(shard(startedAt=text(hour(0)))), runTime="2h")
    (row,) = bill([account_of(obj, now=hour(4))], by="workload", now=hour(4))
    assert row.so_far == row.forecast == 24_000_000


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("workload", {"nlp/job/x", "nlp/job/y", "cv/job/z"}),
        ("team", {"research", "(no quota)"}),
        ("policy", {"nlp/big", "cv/big"}),
        ("namespace", {"nlp", "cv"}),
        ("cluster", {"a", "b"}),
    ],
)
def test_sums(by, names):
    accounts = [
        account_of(obj, now=hour(1), quotas={"nlp": "research"})
        for obj in (
            placement("x", **status(shard("a"))),
            placement("y", **status(shard("a"), shard("b", "1"))),
            placement("z", "cv", **status(shard("b", "2"))),
        )
    ]
    rows = bill(accounts, by=by, now=hour(1))
    assert {row.name for row in rows} == names
    assert sum(row.so_far for row in rows) == 15_000_000, "each way adds up to the same"


def test_a_month_alone_and_what_is_gone():
    old = Spent("2026-10", "a", "USD", 5_000_000)
    past = [months.Past("nlp", "research", "", old)]
    account = account_of(placement(**status(shard())), now=hour(1))
    rows = bill([account], past, by="namespace", now=hour(1), month="2026-10")
    assert [(row.so_far, row.forecast, row.per_hour) for row in rows] == [(5_000_000, 5_000_000, 0)]
    (row,) = bill([account], past, by="namespace", now=hour(1))
    assert row.so_far == 11_000_000
    gone = bill([], past, by="workload", now=hour(1))
    assert [row.name for row in gone] == ["nlp/(deleted)"]


def test_currencies_stand_beside_each_other_and_the_unknown_is_told():
    accounts = [
        account_of(placement("x", **status(shard())), now=hour(1)),
        account_of(placement("y", **status(shard(), currency="EUR")), now=hour(1)),
    ]
    rows = bill(accounts, by="namespace", now=hour(1))
    assert sorted((row.currency, row.so_far) for row in rows) == [
        ("EUR", 6_000_000), ("USD", 6_000_000),
    ]  # fmt: skip
    mixed = account_of(placement(**status(shard("a"), shard("b", None))), now=hour(1))
    (row,) = bill([mixed], by="namespace", now=hour(1))
    assert (row.currency, row.so_far, row.unpriced) == ("USD", 6_000_000, timedelta(hours=1))


def test_spending_of_a_quota_is_that_of_all_below_it():
    accounts = [
        account_of(placement(name, **status(shard(per_hour=price)), quota=quota), now=hour(1))
        for name, quota, price in (("x", "nlp", "1"), ("y", "cv", "2"), ("z", "serving", "4"))
    ]
    own = spending(accounts, (), by="team", now=hour(1))
    parents = {"nlp": "research", "cv": "research", "research": "root", "serving": "root"}
    assert below("research", own, parents).spent == {"USD": 3_000_000}
    assert below("root", own, parents).spent == {"USD": 7_000_000}
    assert below("cv", own, parents).spent == {"USD": 2_000_000}
    hours_left = (next_month(START) - hour(1)) // timedelta(hours=1)
    assert below("cv", own, parents).to_come == {"USD": 2_000_000 * hours_left}
    assert below("nobody", own, parents).spent == {}


def test_spending_of_a_policy_counts_what_is_gone():
    gone = placement("gone", **status(shard(finishedAt=text(hour(1)))))
    records = months.absorbed({}, gone, quota="", now=hour(1))
    account = account_of(placement(**status(shard(per_hour="1"))), now=hour(1))
    past = months.read(records["2026-11"])
    found = spending([account], past, by="policy", now=hour(1))
    assert found["nlp/big"].spent == {"USD": 7_000_000}


# -- what is gone


def test_a_deleted_workload_is_taken_in_once():
    obj = placement(**status(shard(state="Succeeded", finishedAt=text(hour(1)))))
    first = months.absorbed({}, obj, quota="research", now=hour(2))
    assert list(first) == ["2026-11"]
    record = first["2026-11"]
    assert (record["metadata"]["namespace"], record["metadata"]["name"]) == (
        "fleet-system", "cost-2026-11",
    )  # fmt: skip
    assert months.absorbed(first, obj, quota="research", now=hour(3)) == {}, "after a crash"
    assert months.read(record) == (
        months.Past("nlp", "research", "nlp/big", Spent("2026-11", "a", "USD", 6_000_000)),
    )
    other = placement("other", uid="v", **status(shard(finishedAt=text(hour(1)))))
    second = months.absorbed(first, other, quota="research", now=hour(2))["2026-11"]
    assert [each.spent.micro for each in months.read(second)] == [12_000_000]
    assert months.by_month([second, {"metadata": {"name": "cost-x"}}]) == {"2026-11": second}


def test_one_that_ran_over_the_turn_of_a_month_is_in_both():
    long = placement(**status(shard(held=0)))
    end = datetime(2026, 12, 1, 1, tzinfo=UTC)
    found = months.absorbed({}, long, quota="", now=end)
    assert list(found) == ["2026-11", "2026-12"]
    half = {"2026-11": found["2026-11"]}
    assert list(months.absorbed(half, long, quota="", now=end)) == ["2026-12"], "after a crash"


def test_uids_are_forgotten_when_their_placements_are_gone():
    record = months.absorbed({}, placement(**status(shard())), quota="", now=hour(1))["2026-11"]
    assert months.forgotten(record, {"u"}) is None
    left = months.forgotten(record, set())
    assert months.read(left) == months.read(record)
    assert months.forgotten(left, set()) is None


def test_the_records_are_values_and_the_one_before_stays_as_it_was():
    record = months.absorbed({}, placement(**status(shard())), quota="", now=hour(1))["2026-11"]
    kept = copy.deepcopy(record)
    other = placement("b", uid="v", **status(shard()))
    months.absorbed({"2026-11": record}, other, quota="", now=hour(1))
    assert record == kept


def test_intervals_of_a_status_without_shards():
    assert intervals_of({}) == ()
