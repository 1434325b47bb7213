"""Events of the fleet: in the order in which things happened, each once."""

from __future__ import annotations

from itertools import count

import pytest

from fleet.dispatch.chronicle import Chronicle, happenings
from fleet.dispatch.record import Record, Shard
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer

EVENTS = builtin.resource(GroupVersionResource("", "v1", "events"))
NOW = 1_795_910_400.25


def about(name="train", uid="uid-train"):
    metadata = {"name": name, "namespace": "payments", "uid": uid}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}


@pytest.fixture
async def store():
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as made:
        yield made


@pytest.fixture
def chronicle(store):
    """A new life of the gateway each time it is called, by a clock that stands still."""
    numbers = count()
    return lambda now=NOW: Chronicle(
        store, EVENTS, uid=lambda: f"uid-{next(numbers)}", now=lambda: now
    )


def written(store):
    """(reason, how often), as a list of Events shows them."""
    entries = store.collection(EVENTS).snapshot().entries()
    return [(each.parse()["reason"], each.parse()["count"]) for each in entries]


REASONS = ["Holding", "Committed", "Running", "Completed", "Another", "Zero", "A"]


async def test_what_happens_at_once_is_listed_as_it_happened(store, chronicle):
    first = chronicle()
    for reason in REASONS:
        await first.tell(about(), "Normal", reason, "so")
    assert written(store) == [(reason, 1) for reason in REASONS]
    await chronicle(NOW + 0.001).tell(about(), "Normal", "Before", "so")
    assert written(store)[-1] == ("Before", 1)


async def test_what_is_told_again_is_counted_up_in_every_life(store, chronicle):
    for life in (chronicle(), chronicle(NOW + 10), chronicle(NOW + 3600)):
        for reason in REASONS:
            await life.tell(about(), "Normal", reason, "so")
    assert written(store) == [(reason, 3) for reason in REASONS]
    last = store.collection(EVENTS).snapshot().entries()[0].parse()
    assert last["firstTimestamp"] < last["lastTimestamp"]


@pytest.mark.parametrize(
    "other",
    [
        about(uid="uid-later"),
        about("train.0123456789abcdef01234567"),
        about("trai"),
        about("train-2"),
    ],
    ids=["of the same name, later", "named like an event", "shorter", "longer"],
)
async def test_what_is_told_of_others_is_theirs(store, chronicle, other):
    told = chronicle()
    for each in (other, about(), other, about()):
        await told.tell(each, "Normal", "Running", "so")
    assert written(store) == [("Running", 2), ("Running", 2)]
    objects = {each.parse()["involvedObject"]["uid"] for each in
               store.collection(EVENTS).snapshot().entries()}  # fmt: skip
    assert objects == {other["metadata"]["uid"], "uid-train"}


def part(state="Running", **more):
    return Shard("east", 0, 1, 0, 2, state=state, **more)


def record(phase, *shards, **more):
    return Record(phase=phase, shards=shards, **more)


@pytest.mark.parametrize("state", ["Lost", "Evicted"])
def test_that_a_part_is_lost_is_told_once(state):
    before = record("Running", part())
    after = record("Lost", part(state, message="why"), reason="LeaseOver", message="why")
    assert list(happenings(before, after)) == [("Warning", f"Shard{state}", "why")]
    other = record("Lost", part(state, message="why"), reason="NotFenced", message="it waits")
    assert [each[1] for each in happenings(before, other)] == [f"Shard{state}", "NotFenced"]


def test_why_all_of_it_failed_is_told_once_and_of_all_of_it():
    before = record("Running", part())
    for message in ("why", "east: why"):
        after = record("Failed", part("Failed", message="why"), reason="Limit", message=message)
        assert list(happenings(before, after)) == [("Warning", "Limit", message)]
