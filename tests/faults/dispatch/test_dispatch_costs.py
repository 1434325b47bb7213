"""What work costs is kept through everything: parts that are replaced, deletion, a gateway killed
between any two steps. Nothing is lost, nothing counts twice."""

from __future__ import annotations

import asyncio

import pytest

from fleet.errors import StoreError
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.cost import months
from fleet.scheduling.cost.intervals import spent_until
from policies import PLACEMENT

CONFIG_MAPS = builtin.resource(GroupVersionResource("", "v1", "configmaps"))
MONTH = "2026-11"
EAST, WEST = 3_600_000_000, 7_200_000_000  # an hour, in millionths: 1 and 2 a second
STRIDE = 5  # 1 takes minutes


async def two_members(fleet):
    await fleet.join("east", room=4)
    await fleet.join("west", room=4)
    fleet.planner.per_hour = {"east": "3600", "west": "7200"}


def status_of(fleet, name="train"):
    entry = fleet.store.get(PLACEMENT.resource, "payments", f"job-{name}")
    return entry.parse()["status"] if entry is not None else {}


def in_placement(fleet, name="train"):
    """By cluster, what the Placement says that it has cost."""
    spent = spent_until(status_of(fleet, name), fleet.clock.datetime())
    return {each.cluster: each.micro for each in spent}


def record(fleet, month=MONTH):
    entry = fleet.store.get(CONFIG_MAPS, months.NAMESPACE, months.record_name(month))
    return entry.parse() if entry is not None else None


def in_record(fleet):
    return {each.spent.cluster: each.spent.micro for each in months.read(record(fleet))}


async def gone(fleet, name="train"):
    await fleet.delete_job(name)
    await fleet.until(lambda: fleet.job(name) is None)


async def test_a_deleted_workload_is_in_the_record_of_its_month(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6, **{"run-for": 30})
    await fleet.until(lambda: fleet.condition("Complete"))
    cost = in_placement(fleet)
    shards = {each["cluster"]: each for each in status_of(fleet)["shards"]}
    assert cost.keys() == {"east", "west"}
    assert all(each["finishedAt"] > each["heldAt"] for each in shards.values())
    await fleet.wait(60)
    assert in_placement(fleet) == cost, "what is over costs no more"
    await gone(fleet)
    assert in_record(fleet) == cost
    (past, _) = months.read(record(fleet))
    assert (past.namespace, past.spent.currency) == ("payments", "USD")


async def test_work_that_is_deleted_while_it_runs_has_cost_something(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=4)
    await fleet.until(lambda: fleet.record().phase == "Running")
    await fleet.wait(30)
    cost = in_placement(fleet)["east"]
    assert cost >= 30 * EAST // 3600
    await gone(fleet)
    assert cost <= in_record(fleet)["east"] <= cost + 10 * EAST // 3600


async def test_what_a_lost_part_cost_stays_when_it_is_placed_anew(fleet):
    await two_members(fleet)
    fleet.planner.allowed = 1
    await fleet.run_job(ranks=4, **{"run-for": 500})
    await fleet.until(lambda: fleet.record().phase == "Running")
    (first,) = status_of(fleet)["shards"]
    await fleet.wait(20)
    fleet.members[first["cluster"]].cut = True
    await fleet.until(
        lambda: (
            fleet.record().phase == "Running"
            and fleet.record().shards[0].cluster != first["cluster"]
        ),
    )
    seen_s = 20
    kept = in_placement(fleet)[first["cluster"]]
    assert kept >= seen_s * EAST // 3600
    await fleet.wait(100)
    cost = in_placement(fleet)
    assert cost[first["cluster"]] == kept, "a cluster that is lost costs no more"
    assert cost["west"] >= 100 * WEST // 3600
    assert status_of(fleet)["spent"], "it stands in the status, with the month"


async def test_a_part_that_is_evicted_keeps_its_cost_beside_those_that_stay(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6, **{"run-for": 500})
    await fleet.until(lambda: fleet.record().phase == "Running")
    await fleet.wait(20)
    before = in_placement(fleet)
    (shard,) = (each for each in fleet.record().shards if each.cluster == "west")
    west = fleet.members["west"]
    await west.drop("jobs", west.find("jobs", shard.name("train")))
    await fleet.until(
        lambda: fleet.record().phase == "Running" and fleet.record().generation > shard.generation
    )
    await fleet.wait(5)
    after = in_placement(fleet)
    assert after["west"] > before["west"]
    assert after["east"] > before["east"]
    generations = {each["cluster"]: each["generation"] for each in status_of(fleet)["shards"]}
    assert generations["east"] < generations["west"]


async def test_a_suspended_workload_keeps_its_cost_and_adds_none(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=4)
    await fleet.until(lambda: fleet.record().phase == "Running")
    await fleet.wait(20)
    await fleet.change_job("train", lambda job: job["spec"].update(suspend=True))
    await fleet.until(lambda: not fleet.record().shards)
    cost = in_placement(fleet)
    assert cost["east"] >= 20 * EAST // 3600
    await fleet.wait(50)
    assert in_placement(fleet) == cost


async def _costs_of_a_life(fleet, crash, number):
    """The cost at the end, and the operations it took; killed after `number` of these."""
    await two_members(fleet)
    fleet.crash_after = number
    await fleet.run_job(ranks=6, **{"run-for": 4})
    cost = {}
    for _ in range(200):
        if fleet.job() is None:
            break
        if fleet.condition("Complete") and not fleet.job()["metadata"].get("deletionTimestamp"):
            cost = in_placement(fleet)
            await fleet.delete_job()
        try:
            await fleet.round()
        except crash:
            await fleet.restart()
    assert fleet.job() is None
    return cost


@pytest.mark.timeout(300)
async def test_a_gateway_killed_between_any_two_operations_loses_no_cost_and_counts_none_twice(
    new_fleet, crash
):
    async with new_fleet() as fleet:
        await _costs_of_a_life(fleet, crash, None)
        total = fleet.operations
    for number in range(0, total, STRIDE):
        async with new_fleet() as fleet:
            cost = await _costs_of_a_life(fleet, crash, number)
            assert cost.keys() == {"east", "west"}
            assert in_record(fleet) == cost, number


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("after", ["the record was written", "the record was not written"])
async def test_a_gateway_killed_around_the_record_counts_once(fleet, monkeypatch, after):
    await two_members(fleet)
    await fleet.run_job(ranks=6, **{"run-for": 4})
    await fleet.until(lambda: fleet.condition("Complete"))
    cost = in_placement(fleet)
    settle = fleet.bills.settle

    async def die(placement):
        if after == "the record was written":
            await settle(placement)
        raise _Killed

    monkeypatch.setattr(fleet.bills, "settle", die)
    await fleet.delete_job()
    with pytest.raises(_Killed):
        await fleet.until(lambda: fleet.job() is None)
    assert in_placement(fleet) == cost, "the Placement is there as long as its cost is not kept"
    await fleet.restart()
    await fleet.until(lambda: fleet.job() is None)
    assert in_record(fleet) == cost


async def test_many_that_go_at_once_are_all_in_the_record(fleet):
    await two_members(fleet)
    names = [f"j{number}" for number in range(8)]
    for name in names:
        await fleet.run_job(name, ranks=1, **{"run-for": 4})
    await fleet.until(lambda: all(fleet.condition("Complete", name) for name in names))
    cost = sum(sum(in_placement(fleet, name).values()) for name in names)
    entries = list(fleet.store.collection(PLACEMENT.resource).snapshot().entries())
    await asyncio.gather(*(fleet.bills.settle(entry.parse()) for entry in entries))
    assert sum(in_record(fleet).values()) == cost
    for name in names:
        await fleet.delete_job(name)
    await fleet.until(lambda: not fleet.records())
    assert sum(in_record(fleet).values()) == cost


async def test_a_record_does_not_grow_with_what_was_deleted(fleet):
    placement = {
        "metadata": {"namespace": "payments", "name": "job-train"},
        "spec": {"workload": {"apiVersion": "batch/v1", "kind": "Job", "name": "train"}},
        "status": {
            "spent": [{"month": MONTH, "cluster": "east", "currency": "USD", "amount": "1"}],
        },
    }
    for number in range(200):
        metadata = {**placement["metadata"], "uid": f"u{number}"}
        await fleet.bills.settle({**placement, "metadata": metadata})
    assert in_record(fleet) == {"east": 200_000_000}
    assert str(record(fleet)["data"]).count('"u') < 64


async def test_a_record_that_cannot_be_read_is_named_and_nothing_goes(fleet):
    await two_members(fleet)
    await fleet.run_job(ranks=6, **{"run-for": 4})
    await fleet.until(lambda: fleet.condition("Complete"))
    name = months.record_name(MONTH)
    broken = {
        "metadata": {
            "namespace": months.NAMESPACE, "name": name, "uid": "c",
            "labels": {months.LABEL: MONTH},
        },
        "data": {"amounts": "{"},
    }  # fmt: skip
    await fleet.store.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **broken})
    (entry,) = fleet.store.collection(PLACEMENT.resource).snapshot().entries()
    with pytest.raises(StoreError, match=f"fleet-system/{name}.*mend it"):
        await fleet.bills.settle(entry.parse())
    await fleet.delete_job()
    await fleet.wait(10)
    assert fleet.records(), "its cost is not kept yet"
    stored = fleet.store.get(CONFIG_MAPS, months.NAMESPACE, name)
    await fleet.store.delete(
        CONFIG_MAPS, namespace=months.NAMESPACE, name=name, expected=stored.revision
    )
    await fleet.until(lambda: fleet.job() is None)
    assert in_record(fleet)


async def test_who_writes_the_record_meanwhile_loses_nothing(fleet, monkeypatch):
    await two_members(fleet)
    await fleet.run_job(ranks=6, **{"run-for": 4})
    await fleet.until(lambda: fleet.condition("Complete"))
    cost = in_placement(fleet)
    create, refused = fleet.store.create, []

    async def one_is_faster(resource, obj, **more):
        if resource is CONFIG_MAPS and not refused:
            refused.append(True)
            metadata = {**obj["metadata"], "labels": {**obj["metadata"]["labels"], "mine": "true"}}
            await create(resource, {**obj, "metadata": metadata, "data": {"other": "x"}}, **more)
        return await create(resource, obj, **more)

    monkeypatch.setattr(fleet.store, "create", one_is_faster)
    await gone(fleet)
    assert in_record(fleet) == cost
    assert record(fleet)["data"]["other"] == "x"
