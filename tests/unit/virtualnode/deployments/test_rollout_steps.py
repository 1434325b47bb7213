"""Single steps of a rollout and of scaling, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from virtualnode.deployments import rollout
from virtualnode.deployments.sizes import DESIRED, MOST, Bounds, Sets, Sized

Object = dict[str, Any]
NEW, OLD, OLDER = "2026-05-03T00:00:00Z", "2026-05-02T00:00:00Z", "2026-05-01T00:00:00Z"


def deployment(desired: int, *, surge: Any = 0, unavailable: Any = 0) -> Object:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return {"spec": {"replicas": desired, "strategy": strategy}}


def replica_set(
    name: str,
    replicas: int,
    created: str,
    *,
    available: int | None = None,
    actual: int | None = None,
    told: tuple[int, int] | None = None,
) -> Sized:
    """A set; its pods are there and available unless said otherwise."""
    annotations = {} if told is None else {DESIRED: str(told[0]), MOST: str(told[1])}
    return Sized.of({
        "metadata": {"name": name, "creationTimestamp": created, "annotations": annotations},
        "spec": {"replicas": replicas},
        "status": {
            "replicas": replicas if actual is None else actual,
            "availableReplicas": replicas if available is None else available,
        },
    })  # fmt: skip


def sizes(sets: Sets) -> list[int | None]:
    """New first, then the old ones, newest first."""
    old = [each.replicas for each in reversed(sets.old)]
    return [sets.new.replicas if sets.new is not None else None, *old]


@pytest.mark.parametrize(
    ("desired", "surge", "unavailable", "most", "least"),
    [
        (2, "0%", "1%", 2, 1),
        (1, "0%", "1%", 1, 0),
        (2, "1%", "25%", 3, 2),
        (1, "1%", "25%", 2, 1),
        (2, "1%", "0%", 3, 2),
        (10, "25%", "25%", 13, 8),
        (4, "25%", "25%", 5, 3),
        (10, 3, 2, 13, 8),
        (3, 0, 10, 3, 0),
        (0, "25%", "25%", 0, 0),
        (3, "100%", "100%", 6, 0),
    ],
)
def test_surge_rounds_up_and_unavailable_down(desired, surge, unavailable, most, least) -> None:
    bounds = Bounds.of(deployment(desired, surge=surge, unavailable=unavailable))
    assert (bounds.most, bounds.least) == (most, least)


def test_a_recreation_has_no_room_beside() -> None:
    bounds = Bounds.of({"spec": {"replicas": 3, "strategy": {"type": "Recreate"}}})
    assert (bounds.most, bounds.least) == (3, 3)


ROLLS = {
    "the new set grows by the surge": (
        Bounds(10, 3, 2), ("new", 0, {}), [("old", 10, {})], [3, 10]
    ),
    "no further than is wanted": (
        Bounds(3, 3, 0), ("new", 1, {}), [("old", 1, {})], [3, 1]
    ),
    "then old pods go as far as enough are available": (
        Bounds(10, 3, 2), ("new", 3, {"available": 0}), [("old", 10, {})], [3, 8]
    ),
    "pods that still end count against the surge": (
        Bounds(10, 0, 2), ("new", 0, {}), [("old", 8, {"actual": 10})], [0, 8]
    ),
    "and make room when they are gone": (
        Bounds(10, 0, 2), ("new", 0, {}), [("old", 8, {})], [2, 8]
    ),
    "old pods that are not available go first, though none else may": (
        Bounds(10, 3, 2), ("new", 8, {"available": 3}), [("old", 5, {"available": 2})], [8, 5]
    ),
    "back to a good set: the broken ones go at once": (
        Bounds(10, 3, 2), ("new", 8, {"available": 7}), [("broken", 5, {"available": 0})], [8, 1]
    ),
    "rolled over before it was done: all that is idle may go": (
        Bounds(10, 3, 2),
        ("new", 0, {}),
        [("broken", 5, {"available": 0}), ("old", 8, {"available": 8})],
        [0, 0, 8],
    ),
    "the oldest first": (
        Bounds(4, 0, 2), ("new", 0, {}), [("old", 3, {}), ("older", 1, {})], [0, 2, 0]
    ),
    "too many new ones are taken back before anything else": (
        Bounds(3, 1, 0), ("new", 5, {}), [("old", 2, {})], [3, 2]
    ),
    "a set that was told to shrink has no more available than it keeps": (
        Bounds(3, 0, 1), ("new", 1, {}), [("old", 2, {"actual": 3, "available": 3})], [1, 1]
    ),
    "done": (Bounds(3, 1, 1), ("new", 3, {}), [("old", 0, {})], [3, 0]),
}  # fmt: skip


@pytest.mark.parametrize("case", ROLLS)
def test_next_step_of_a_rolling_update(case: str) -> None:
    bounds, (name, size, state), old, expected = ROLLS[case]
    dates = [OLD, OLDER]
    others = [replica_set(n, s, date, **kw) for (n, s, kw), date in zip(old, dates, strict=False)]
    sets = Sets(replica_set(name, size, NEW, **state), tuple(reversed(others)))
    assert sizes(rollout.roll(sets, bounds)) == expected


# Sizes and outcomes of TestScale in upstream's pkg/controller/deployment/sync_test.go.
SCALES = [
    (10, 12, 0, 10, [], [12]),
    (10, 5, 0, 10, [], [5]),
    (5, 10, 0, 2, [3], [4, 6]),
    (5, 3, 0, 2, [3], [1, 2]),
    (9, 4, 0, 8, [1], [4, 0]),
    (7, 10, 0, 2, [3, 2], [3, 4, 3]),
    (13, 8, 0, 2, [8, 3], [1, 5, 2]),
    (3, 4, 0, 1, [1, 1], [2, 1, 1]),
    (3, 2, 0, 1, [1, 1], [1, 1, 0]),
    (4, 5, 0, None, [2, 2], [None, 3, 2]),
    (6, 0, 0, 3, [2, 1], [0, 0, 0]),
    (0, 6, 0, 0, [0, 0], [6, 0, 0]),
    (10, 20, 2, 6, [6], [11, 11]),
]


@pytest.mark.parametrize(("before", "desired", "surge", "new", "old", "expected"), SCALES)
def test_scaling_keeps_proportions(before, desired, surge, new, old, expected) -> None:
    was = Bounds(before, surge)
    told = (was.desired, was.most)
    made = tuple(
        replica_set(f"v{9 - at}", size, date, told=told)
        for at, (size, date) in enumerate(zip(old, [OLD, OLDER], strict=False))
    )
    head = None if new is None else replica_set("new", new, NEW, told=told)
    sets = Sets(head, tuple(reversed(made)))
    bounds = Bounds(desired, surge, 1)
    assert rollout.is_scaled(sets, bounds) == bool(sets.active)
    after = rollout.scale(sets, bounds, rolling=True, before=before)
    assert sizes(after) == expected
    assert not rollout.is_scaled(after, bounds)


def test_another_surge_counts_by_what_each_set_was_told() -> None:
    sets = Sets(
        replica_set("v2", 5, NEW, told=(10, 13)), (replica_set("v1", 8, OLD, told=(10, 13)),)
    )
    assert sizes(rollout.scale(sets, Bounds(50, 6), rolling=True, before=13)) == [22, 34]


def test_sets_that_say_nothing_are_taken_by_what_there_is() -> None:
    sets = Sets(replica_set("v2", 2, NEW), (replica_set("v1", 3, OLD),))
    assert sizes(rollout.scale(sets, Bounds(10), rolling=True, before=5)) == [4, 6]


def test_a_new_set_that_has_everything_ends_the_others() -> None:
    sets = Sets(replica_set("v2", 2, NEW, told=(2, 3)), (replica_set("v1", 1, OLD, told=(2, 3)),))
    assert sizes(rollout.scale(sets, Bounds(2, 1, 1), rolling=True, before=3)) == [2, 0]


def test_but_not_while_it_is_broken() -> None:
    broken = replica_set("v2", 2, NEW, available=0, told=(2, 3))
    sets = Sets(broken, (replica_set("v1", 1, OLD, told=(2, 3)),))
    assert sizes(rollout.scale(sets, Bounds(2, 1, 1), rolling=True, before=3)) == [2, 1]


def test_pods_that_still_end_count_when_more_are_asked_for() -> None:
    lagging = replica_set("v1", 0, OLD, actual=2, available=0)
    sets = Sets(replica_set("v2", 2, NEW, told=(2, 2)), (lagging,))
    assert sizes(rollout.scale(sets, Bounds(4, 0, 1), rolling=True, before=4)) == [2, 0]
    both = Sets(
        replica_set("v2", 2, NEW, told=(4, 4)),
        (replica_set("v1", 1, OLD, actual=3, told=(4, 4)),),
    )
    assert sizes(rollout.scale(both, Bounds(5, 0, 1), rolling=True, before=5)) == [2, 1]


def test_a_recreation_with_several_sets_is_told_and_left_to_itself() -> None:
    sets = Sets(replica_set("v2", 1, NEW, told=(3, 3)), (replica_set("v1", 1, OLD, told=(3, 3)),))
    after = rollout.scale(sets, Bounds(2), rolling=False, before=2)
    assert sizes(after) == [1, 1]
    assert not rollout.is_scaled(after, Bounds(2))
