"""The record of a dispatch goes into a Placement's status and comes back out of it."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from fleet.dispatch import record as records
from fleet.dispatch.budget import Budget
from fleet.dispatch.record import Debt, Record, Shard
from policies import PLACEMENT
from policies.placement import Fencing, Phase, ShardState

times = st.integers(1_700_000_000, 1_900_000_000).map(float)
maybe = st.none() | times
names = st.sampled_from(["east", "west", "north"])
words = st.sampled_from(["", "NoRoom", "LeaseOver"])

shards = st.builds(
    Shard,
    cluster=names,
    index=st.integers(0, 5),
    generation=st.integers(1, 9),
    first=st.just(0),
    count=st.just(0),
    state=st.sampled_from(get_args(ShardState)),
    reason=words,
    message=words,
    held_at=maybe,
    committed_at=maybe,
    started_at=maybe,
    finished_at=maybe,
    lost_at=maybe,
    leased_until=maybe,
    planned=st.tuples(
        st.just(("roles", [{"name": "worker", "first": 2, "count": 3}])), st.just(("tier", 1))
    ),
).map(lambda shard: records.replace(shard, first=2, count=3))
debts = st.builds(
    Debt,
    cluster=names,
    shard=st.sampled_from(["train-g1-east", "train-g2-west"]),
    generation=st.integers(1, 9),
    reason=words,
    fenced_at=maybe,
)
record_values = st.builds(
    Record,
    generation=st.integers(0, 9),
    phase=st.sampled_from(get_args(Phase)),
    since=times,
    reason=words,
    message=words,
    shards=st.lists(shards, max_size=3, unique_by=lambda e: e.cluster).map(
        lambda found: tuple(sorted(found, key=lambda e: e.index))
    ),
    owed=st.lists(debts, max_size=3, unique_by=lambda e: (e.cluster, e.shard)).map(tuple),
    lease_s=st.integers(1, 10_000).map(float),
    fencing=st.sampled_from(get_args(Fencing)),
    failures=st.integers(0, 5),
    budget=st.builds(Budget, *[st.integers(0, 9)] * 3, free=st.none() | st.integers(0, 9)),
    offsets=st.booleans(),
)


@given(record_values)
def test_what_is_written_is_read(record):
    assert records.read(records.write(record, {})) == record


@given(record_values)
def test_writing_again_changes_nothing(record):
    status = records.write(record, {"mode": "Split"})
    assert records.write(records.read(status), status) == status


@given(record_values)
def test_what_is_written_is_a_placement(record):
    workload = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
    obj = {"spec": {"workload": workload}, "status": records.write(record, {})}
    PLACEMENT.parse({"metadata": {"name": "job-train"}, **obj})


def test_explanations_of_the_planner_are_kept():
    status = {"clusters": [{"name": "east", "verdict": "Used"}], "cost": {"currency": "USD"}}
    written = records.write(Record(phase="Running", since=1.0), status)
    assert written["clusters"] == status["clusters"]
    assert written["cost"] == status["cost"]


def test_a_workload_that_waits_has_no_place_to_explain():
    status = {"usedClusters": "east", "plane": "roce-1", "cost": {"currency": "USD"}}
    written = records.write(Record(phase="Queued", since=1.0), status)
    assert not {"usedClusters", "plane", "cost"} & written.keys()


def test_nothing_is_the_first_record():
    assert records.read({}) == Record()
