"""Which failures of a gang's pods count against its Job's restart budget."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.dispatch.budget import NOTHING, Budget, brought_on, judged
from fleet.dispatch.decisions import decide
from fleet.dispatch.jobs.sight import JobView
from fleet.dispatch.record import Record, Shard
from fleet.dispatch.sight import PodView, Sight, pod_view
from fleet.dispatch.situation import Ask, Situation

EAST = Shard("east", 0, 1, first=0, count=2, state="Running")
WEST = Shard("west", 1, 1, first=2, count=2, state="Running")
RUNNING = Record(generation=1, phase="Running", since=1.0, shards=(EAST, WEST))
ASK = Ask(name="train", completions=4, indexed=True, gang=True, backoff_limit=0)


def look(budget, failed, **how):
    given = {"nodes": 4, "broken": False, "whole": False} | how
    return judged(budget, failed=failed, **given)


def seen(shard, *phases, failed=0, **more):
    """A shard whose ranks are in these phases; "Going" is one that is being taken away."""
    pods = tuple(
        PodView(f"p{n}", rank=shard.first + n, bound=True, deleting=phase == "Going",
                phase="Running" if phase == "Going" else phase)
        for n, phase in enumerate(phases)
    )  # fmt: skip
    view = JobView(uid="j", revision="1", started_at=0.0, deadline_s=300, failed=failed)
    return Sight(shard.cluster, reached=True, view=view, pods=pods, leased_until=300.0, **more)


def decided(record, *sights, **more):
    return decide(
        Situation(
            ask=ASK,
            record=record,
            now=100.0,
            sights={each.cluster: each for each in sights},
            **more,
        )
    ).record


def test_what_fails_by_itself_counts():
    assert look(NOTHING, 1).charged == 1
    assert look(look(NOTHING, 1, whole=True), 3).charged == 3


def test_what_fails_while_a_part_is_gone_is_free_until_all_runs_again():
    broken = look(NOTHING, 2, broken=True)
    back = look(broken, 4)
    assert (broken.charged, back.charged) == (0, 0)
    whole = look(back, 4, whole=True)
    assert whole == Budget(counted=4)
    assert look(whole, 5).charged == 1


def test_what_broke_the_gang_may_be_seen_after_what_came_of_it():
    earlier = look(look(NOTHING, 1), 1, whole=True)  # the user's own, once
    first = look(earlier, 4)
    assert first.charged == 4
    assert look(first, 4, broken=True).charged == 1


@given(st.lists(st.integers(1, 3), min_size=9, max_size=30))
def test_a_program_that_always_fails_comes_to_an_end(failures):
    budget = look(NOTHING, 0, broken=True)
    failed = 0
    for more in failures:
        failed += more
        budget = look(budget, failed)
    assert budget.charged == failed - 4


@pytest.mark.parametrize(
    ("east", "west", "counts"),
    [
        (seen(EAST, "Running", "Failed", failed=1), seen(WEST, "Running", "Running"), True),
        (seen(EAST, "Running", "Failed", failed=1), seen(WEST, "Running", "Going"), False),
        (seen(EAST, "Going", "Failed", failed=1), seen(WEST, "Running", "Running"), False),
        (seen(EAST, "Running", "Failed", failed=1), Sight("west", why="timeout"), False),
    ],
)
def test_a_look_says_whether_something_was_taken_away(east, west, counts):
    sights = {"east": east, "west": west}
    before = brought_on(RUNNING, sights, disturbed=False)
    # a silent member may have more to tell: nothing is counted before
    after = brought_on(replace(RUNNING, budget=before), sights, disturbed=False)
    assert bool(after.charged) is counts
    assert not brought_on(RUNNING, sights, disturbed=True).charged


@pytest.mark.parametrize(
    "shard",
    [
        replace(WEST, state="Lost"),
        replace(WEST, state="Held", generation=2),
        replace(WEST, state="Committed", generation=2),
    ],
)
def test_what_waits_for_a_lost_part_fails_for_free(shard):
    record = replace(RUNNING, generation=2, shards=(EAST, shard))
    sights = {"east": seen(EAST, "Failed", "Failed", failed=2), "west": seen(WEST, "Pending")}
    assert brought_on(record, sights, disturbed=False).charged == 0


def test_a_gang_fails_only_by_what_was_looked_at_twice():
    failed = (seen(EAST, "Running", "Failed", failed=1), seen(WEST, "Running", "Running"))
    once = decided(RUNNING, *failed)
    assert (once.phase, once.budget.charged) == ("Running", 1)
    assert decided(once, *failed).phase == "Failed"
    # what had caused it is seen by then
    late = decided(once, failed[0], seen(WEST, "Running", "Going"))
    assert (late.phase, late.budget.charged) == ("Running", 0)
    assert decided(once, *failed, disturbed=True).budget.charged == 0


def test_restarts_in_place_count_as_failures():
    status = {"phase": "Running", "containerStatuses": [{"restartCount": 2}]}
    pod = pod_view({"metadata": {"name": "p"}, "spec": {}, "status": status})
    assert pod.restarts == 2
    sight = replace(seen(EAST, "Running", "Running", failed=1), pods=(pod, pod))
    assert sight.failures() == 5
