"""The fleet Job's status out of its shards: sums, global indexes, one end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.dispatch.jobs.fold import PLACED, fold, indexes_in, ranges
from fleet.dispatch.jobs.sight import JobView
from fleet.dispatch.record import Record, Shard
from fleet.dispatch.sight import Sight

NOW = 1_800_000_000.0
EAST = Shard("east", 0, 1, first=0, count=4, state="Running", committed_at=NOW - 60)
WEST = Shard("west", 1, 1, first=4, count=2, state="Running", committed_at=NOW - 60)
RUNNING = Record(generation=1, phase="Running", since=NOW, shards=(EAST, WEST))


def sights(east=None, west=None):
    return {
        "east": Sight("east", reached=True, view=JobView("a", "1", **(east or {}))),
        "west": Sight("west", reached=True, view=JobView("b", "1", **(west or {}))),
    }


def condition(status, kind):
    return next((c for c in status["conditions"] if c["type"] == kind), None)


def test_counts_are_sums_and_indexes_global(make_job):
    status = fold(
        make_job(),
        RUNNING,
        sights(
            {"active": 2, "ready": 1, "succeeded": 2, "completed": "0,3", "failed": 1},
            {"active": 1, "ready": 1, "succeeded": 1, "completed": "1", "failed_indexes": "0"},
        ),
        now=NOW,
    )
    assert (status["active"], status["ready"]) == (3, 2)
    assert (status["succeeded"], status["failed"]) == (3, 1)
    assert status["completedIndexes"] == "0,3,5"
    assert status["failedIndexes"] == "4"
    assert status["startTime"] == "2027-01-15T07:59:00Z"
    assert condition(status, PLACED)["status"] == "True"


def test_folding_again_changes_nothing(make_job):
    job = make_job()
    seen = sights({"active": 4}, {"active": 2})
    job.obj["status"] = fold(job, RUNNING, seen, now=NOW)
    assert fold(job, RUNNING, seen, now=NOW + 99) == job.obj["status"]


def test_silence_of_a_member_changes_no_count(make_job):
    job = make_job()
    job.obj["status"] = fold(job, RUNNING, sights({"active": 4}, {"active": 2}), now=NOW)
    silent = sights({"active": 3}) | {"west": Sight("west", why="timeout")}
    assert fold(job, RUNNING, silent, now=NOW) == job.obj["status"]


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_an_end_that_somebody_else_wrote_gives_way(make_job, kind):
    job = make_job()
    seen = sights({"active": 4}, {"active": 2})
    before = job.obj["status"] = fold(job, RUNNING, seen, now=NOW)
    ends = [{"type": each, "status": "True"} for each in ("SuccessCriteriaMet", kind)]
    told = before["conditions"]
    forged = {**before, "conditions": [*told, *ends], "succeeded": 6, "completionTime": "x"}
    job.obj["status"] = forged
    assert fold(job, RUNNING, seen, now=NOW + 1) == before


def test_success_is_told_once_and_outlives_the_members(make_job):
    job = make_job()
    done = Record(
        phase="Succeeded",
        since=NOW,
        shards=tuple(replace(each, state="Succeeded") for each in (EAST, WEST)),
    )
    job.obj["status"] = fold(job, done, {}, now=NOW)
    status = job.obj["status"]
    assert (status["succeeded"], status["completedIndexes"]) == (6, "0-5")
    assert status["completionTime"] == "2027-01-15T08:00:00Z"
    assert condition(status, "Complete")["status"] == "True"
    assert condition(status, "SuccessCriteriaMet")["status"] == "True"
    assert "active" not in status
    assert fold(job, replace(done, phase="Failed"), {}, now=NOW + 9) == status


def test_failure_says_why(make_job):
    failed = replace(RUNNING, phase="Failed", reason="BackoffLimitExceeded", message="west: why")
    status = fold(make_job(), failed, sights({"active": 4}, {"failed": 7}), now=NOW)
    assert condition(status, "Failed")["reason"] == "BackoffLimitExceeded"
    assert condition(status, "Failed")["message"] == "west: why"
    assert "completionTime" not in status
    assert "active" not in status
    assert status["failed"] == 7


@pytest.mark.parametrize(
    ("record", "status", "reason"),
    [
        (Record(), "False", "Waiting"),
        (Record(reason="NoRoom", message="roce-1 has 6 free, needs 9"), "False", "NoRoom"),
        (Record(phase="Holding", shards=(EAST,)), "False", "Holding"),
        (Record(phase="Lost", reason="LeaseOver", shards=(EAST,)), "False", "LeaseOver"),
    ],
)
def test_whether_it_has_a_place_is_a_condition(make_job, record, status, reason):
    told = condition(fold(make_job(), record, {}, now=NOW), PLACED)
    assert (told["status"], told["reason"], told["message"]) == (
        status,
        reason,
        record.message or told["message"],
    )


def test_one_that_was_ended_for_others_has_not_run_while_it_waits_again(make_job):
    job = make_job()
    job.obj["status"] = fold(job, RUNNING, sights({}, {}), now=NOW)
    assert "startTime" in job.obj["status"]
    leaving = replace(RUNNING, preempted_for="job cv/detect")
    assert "startTime" in fold(job, leaving, sights({}, {}), now=NOW)
    waits = Record(preempted_for="job cv/detect")
    assert "startTime" not in fold(job, waits, {}, now=NOW)
    lost = Record(reason="LeaseLapsed")  # its deadline goes on counting
    assert fold(job, lost, {}, now=NOW)["startTime"] == job.obj["status"]["startTime"]


def test_it_is_suspended_once_nothing_is_left(make_job):
    job = make_job(suspend=True)
    leaving = Record(reason="Suspended", shards=(EAST,))
    assert condition(fold(job, leaving, {}, now=NOW), "Suspended") is None
    job.obj["status"] = fold(job, Record(reason="Suspended"), {}, now=NOW)
    assert condition(job.obj["status"], "Suspended")["status"] == "True"
    job.spec["suspend"] = False
    assert condition(fold(job, Record(), {}, now=NOW), "Suspended")["status"] == "False"


def test_a_whole_job_counts_its_completions(make_job):
    whole = Shard("east", 0, 1, first=0, count=3, state="Succeeded")
    done = Record(phase="Succeeded", since=NOW, shards=(whole,))
    status = fold(make_job(completions=9, parallelism=3), done, {}, now=NOW)
    assert (status["succeeded"], status["completedIndexes"]) == (9, "0-8")


@given(st.sets(st.integers(0, 200)))
def test_ranges_are_read_as_they_are_written(indexes):
    text = ranges(sorted(indexes))
    assert indexes_in(text) == sorted(indexes)


@pytest.mark.parametrize(("indexes", "text"), [([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([], "")])
def test_ranges_are_written_as_a_job_controller_does(indexes, text):
    assert ranges(indexes) == text
