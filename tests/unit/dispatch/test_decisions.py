"""What follows from a record and what is seen, as tables.

Each test is one situation; what is not its subject is in order: members answer, holds have time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.dispatch.acts import Hold, Meet, Open, Remove, Renew, Stop
from fleet.dispatch.decisions import decide
from fleet.dispatch.jobs.sight import JobView
from fleet.dispatch.record import Debt, Record, Shard
from fleet.dispatch.sight import PodView, Refused, Sight
from fleet.dispatch.situation import Ask, Decision, Situation, Timing

NOW = 1_800_000_000.0
TIMING = Timing(hold_s=30, hold_limit_s=120, margin_s=5)
ASK = Ask(name="train", completions=6, indexed=True)
EAST = Shard("east", 0, 1, first=0, count=4)
WEST = Shard("west", 1, 1, first=4, count=2)


def job(**more: Any) -> JobView:
    return JobView(**{"uid": "j", "revision": "7", "started_at": NOW, "deadline_s": 30} | more)


def pods(shard: Shard, *, phase: str = "Pending", bound: bool = True) -> tuple[PodView, ...]:
    return tuple(
        PodView(
            f"p{rank}",
            rank=rank,
            bound=bound,
            phase=phase,
            address=f"10.0.0.{rank}" if phase == "Running" else "",
        )
        for rank in range(shard.first, shard.first + shard.count)
    )


def seen(shard: Shard, **more: Any) -> Sight:
    """A member that answers."""
    given = {"reached": True, "clock": NOW, "leased_until": NOW + 15} | more
    return Sight(shard.cluster, **given)


def in_state(state: str, *shards: Shard, **more: Any) -> tuple[Shard, ...]:
    return tuple(replace(each, state=state, **more) for each in shards or (EAST, WEST))


def record(phase: str, shards: tuple[Shard, ...] = (), **more: Any) -> Record:
    given = {"generation": 1, "since": NOW, "lease_s": 15.0} | more
    return Record(phase=phase, shards=shards, **given)


def decided(before: Record, *sights: Sight, ask: Ask = ASK, **more: Any) -> Decision:
    found = {sight.cluster: sight for sight in sights}
    given = {"now": NOW, "timing": TIMING} | more
    return decide(Situation(ask=ask, record=before, sights=found, **given))


def states(decision: Decision) -> dict[str, str]:
    return {shard.cluster: shard.state for shard in decision.record.shards}


def kinds(decision: Decision, *wanted: type) -> list[tuple[str, str]]:
    return [
        (type(act).__name__, act.cluster if isinstance(act, Remove) else act.shard.cluster)
        for act in decision.acts
        if not wanted or isinstance(act, wanted)
    ]


def settled(decision: Decision, before: Record) -> None:
    """The decision stands: nothing has to be stored before it may be acted on."""
    assert decision.record == before


# -- waiting


@pytest.mark.parametrize("phase", ["Queued", "Lost"])
def test_a_workload_that_waits_does_nothing(phase):
    before = record(phase)
    decision = decided(before)
    settled(decision, before)
    assert decision.acts == ()


def test_a_plan_begins_to_be_held():
    decision = decided(record("QuotaHeld", in_state("Planned")), seen(EAST), seen(WEST))
    assert decision.record.phase == "Holding"
    assert states(decision) == {"east": "Holding", "west": "Holding"}
    assert decision.acts == ()  # not before it is stored


@pytest.mark.parametrize(
    ("fenced_at", "cluster", "begins"),
    [
        (NOW - 1, "north", True),
        (NOW + 9, "north", False),  # it may still run
        (None, "north", False),  # only its absence counts
        (NOW - 1, "east", False),  # ended, but in the way
    ],
)
def test_a_plan_waits_until_what_was_before_cannot_run(fenced_at, cluster, begins):
    debt = Debt(cluster, f"train-g0-{cluster}", 0, "LeaseOver", fenced_at)
    before = record("QuotaHeld", in_state("Planned"), owed=(debt,))
    decision = decided(before, debts={(debt.cluster, debt.shard): Sight(cluster, why="silent")})
    assert (decision.record.phase == "Holding") is begins


def test_a_plan_that_cannot_begin_in_time_is_given_up():
    debt = Debt("north", "train-g0-north", 0, "LeaseOver", None)
    before = record("QuotaHeld", in_state("Planned"), owed=(debt,), since=NOW - 121)
    decision = decided(before, debts={("north", "train-g0-north"): Sight("north")})
    assert decision.record.phase == "Queued"
    assert decision.record.reason == "NotFenced"


def test_a_plan_where_the_fleet_may_not_look_is_given_up_at_once():
    """What is owed there cannot be seen gone before people let the fleet in again."""
    debt = Debt("east", "train-g0-east", 0, "NotBound", NOW - 1)
    before = record("QuotaHeld", in_state("Planned"), owed=(debt,))
    refused = Refused("NotBound", "its RoleBinding was removed; to let the fleet in: …")
    sight = Sight("east", why=refused.message, refused=refused)
    decision = decided(before, debts={("east", "train-g0-east"): sight})
    assert (decision.record.phase, decision.record.reason) == ("Queued", "NotBound")
    assert decision.barred == {"east": refused.message}
    assert decision.record.owed == (debt,)


# -- holding


def test_shards_are_created_side_by_side_with_a_deadline():
    before = record("Holding", in_state("Holding"))
    decision = decided(before, seen(EAST), seen(WEST))
    settled(decision, before)
    assert kinds(decision) == [("Hold", "east"), ("Hold", "west")]
    assert all(isinstance(act, Hold) and act.deadline_s == 15 for act in decision.acts)


def test_nothing_is_committed_while_a_pod_is_on_no_node():
    before = record("Holding", in_state("Holding"))
    one_short = pods(WEST)[:1] + pods(WEST, bound=False)[1:]
    decision = decided(
        before, seen(EAST, view=job(), pods=pods(EAST)), seen(WEST, view=job(), pods=one_short)
    )
    assert decision.record.phase == "Holding"
    assert states(decision) == {"east": "Held", "west": "Holding"}
    assert not kinds(decision, Open, Meet)


def test_a_hold_that_is_gone_again_is_no_hold():
    before = record("Holding", in_state("Held", EAST) + in_state("Holding", WEST))
    leaving = tuple(replace(pod, deleting=True) for pod in pods(EAST))
    decision = decided(
        before, seen(EAST, view=job(), pods=leaving), seen(WEST, view=job(), pods=pods(WEST))
    )
    assert states(decision) == {"east": "Holding", "west": "Held"}


def test_all_holds_standing_are_committed():
    before = record("Holding", in_state("Held"))
    decision = decided(
        before, seen(EAST, view=job(), pods=pods(EAST)), seen(WEST, view=job(), pods=pods(WEST))
    )
    assert decision.record.phase == "Committed"
    assert states(decision) == {"east": "Committed", "west": "Committed"}


def test_holds_that_are_about_to_lapse_are_renewed_and_not_committed():
    before = record("Holding", in_state("Held"))
    late = job(started_at=NOW - 26)
    decision = decided(
        before, seen(EAST, view=late, pods=pods(EAST)), seen(WEST, view=job(), pods=pods(WEST))
    )
    settled(decision, before)
    assert kinds(decision) == [("Renew", "east")]


def test_a_member_that_does_not_answer_is_waited_for():
    before = record("Holding", in_state("Holding"))
    decision = decided(before, seen(EAST, view=job(), pods=pods(EAST)), Sight("west", why="no way"))
    assert decision.record.phase == "Holding"
    assert decision.record.shards[1].message == "west does not answer: no way"
    assert not kinds(decision, Hold)


@pytest.mark.parametrize(
    ("sight", "reason", "told"),
    [
        (seen(WEST, refused=Refused("Forbidden", "exceeded quota")), "Forbidden", "exceeded quota"),
        (seen(WEST, foreign="has a Job of that name"), "NameTaken", "has a Job of that name"),
        (Sight("west", member=False), "MemberLeft", "no member"),
        (seen(WEST, view=job(outcome="Failed", reason="DeadlineExceeded")), "HoldLost", "lapsed"),
        (seen(WEST, view=job(deleting=True)), "HoldLost", "being deleted"),
    ],
)
def test_one_shard_that_cannot_be_held_releases_all(sight, reason, told):
    before = record("Holding", in_state("Held", EAST) + in_state("Holding", WEST))
    decision = decided(before, seen(EAST, view=job(), pods=pods(EAST)), sight)
    after = decision.record
    assert (after.phase, after.shards, after.reason) == ("Queued", (), reason)
    assert told in after.message
    assert {(debt.cluster, debt.fenced_at) for debt in after.owed} == {("east", NOW), ("west", NOW)}
    assert decision.barred.keys() == {"west"}


def test_why_a_hold_does_not_stand_yet_is_told_and_remembered():
    before = record("Holding", in_state("Holding"))
    waits = PodView("p4", 4, message='persistentvolumeclaim "data" not found')
    sights = seen(EAST, view=job(), pods=pods(EAST)), seen(WEST, view=job(), pods=(waits,))
    after = decided(before, *sights).record
    told = {shard.cluster: shard.message for shard in after.shards}
    why = 'not all of its pods have a node: persistentvolumeclaim "data" not found'
    assert told == {"east": "", "west": why}
    lapsed = seen(WEST, view=job(outcome="Failed", reason="DeadlineExceeded"))
    message = decided(after, sights[0], lapsed).record.message
    assert message.endswith(f"west lost its hold: it lapsed; {why}")


@pytest.mark.parametrize(
    ("sight", "told"),
    [
        (
            seen(WEST, view=job(), pods=(PodView("p4", 4, message="0/2 nodes are available"),)),
            "put 0 of 2 pods on nodes in 120 s: 0/2 nodes are available",
        ),
        (Sight("west", why="timeout"), "does not answer: timeout"),
    ],
)
def test_holds_that_take_too_long_are_released(sight, told):
    before = record("Holding", in_state("Holding"), since=NOW - 120)
    decision = decided(before, seen(EAST, view=job(), pods=pods(EAST)), sight)
    assert decision.record.phase == "Queued"
    assert decision.barred == {"west": told}


# -- committed


def test_the_lead_opens_first_and_the_others_when_it_can_be_found():
    before = record("Committed", in_state("Committed"))
    held = job(deadline_s=60)
    decision = decided(
        before, seen(EAST, view=held, pods=pods(EAST)), seen(WEST, view=held, pods=pods(WEST))
    )
    settled(decision, before)
    assert kinds(decision, Open) == [("Open", "east")]
    assert kinds(decision, Meet) == [("Meet", "east"), ("Meet", "west")]

    decision = decided(
        before,
        seen(EAST, view=held, pods=pods(EAST, phase="Running")),
        seen(WEST, view=held, pods=pods(WEST)),
    )
    assert kinds(replace(decision), Open) == [("Open", "east"), ("Open", "west")]


def test_pods_without_ranks_start_everywhere_at_once():
    ask = Ask(name="train", completions=6)
    before = record("Committed", in_state("Committed"))
    sights = [
        seen(each, view=job(), pods=tuple(replace(p, rank=None) for p in pods(each)))
        for each in (EAST, WEST)
    ]
    assert kinds(decided(before, *sights, ask=ask), Open) == [("Open", "east"), ("Open", "west")]


def test_it_runs_when_every_pod_has_started():
    before = record("Committed", in_state("Committed"))
    running = [seen(e, view=job(), pods=pods(e, phase="Running")) for e in (EAST, WEST)]
    assert decided(before, running[0], seen(WEST, view=job())).record.phase == "Committed"
    decision = decided(before, *running)
    assert decision.record.phase == "Running"
    assert states(decision) == {"east": "Running", "west": "Running"}


@pytest.mark.parametrize(
    "sight",
    [
        seen(WEST),
        seen(WEST, view=job(outcome="Failed", reason="DeadlineExceeded")),
        seen(WEST, view=job(deleting=True)),
    ],
    ids=["gone", "lapsed", "being deleted"],
)
@pytest.mark.parametrize("lead", ["Committed", "Running"])
def test_a_hold_missing_after_the_commit_aborts_the_gang(sight, lead):
    before = record("Committed", in_state(lead, EAST) + in_state("Committed", WEST))
    decision = decided(before, seen(EAST, view=job(), pods=pods(EAST)), sight)
    after = decision.record
    assert (after.phase, after.shards) == ("Queued", ())
    assert {debt.cluster for debt in after.owed} == {"east", "west"}
    assert all(debt.fenced_at == NOW + 20 for debt in after.owed)  # lease and margin


# -- running


def running(**more: Any) -> tuple[Record, list[Sight]]:
    long = job(deadline_s=15, **more)
    return record("Running", in_state("Running")), [
        seen(each, view=long, pods=pods(each, phase="Running")) for each in (EAST, WEST)
    ]


def test_a_lease_is_renewed_when_a_third_of_it_is_over():
    before, sights = running()
    assert not kinds(decided(before, *sights), Renew)
    later = [replace(each, clock=NOW + 6) for each in sights]
    decision = decided(before, *later)
    assert kinds(decision, Renew) == [("Renew", "east"), ("Renew", "west")]
    assert [act.seconds for act in decision.acts if isinstance(act, Renew)] == [15.0, 15.0]


def test_a_lease_that_somebody_took_off_is_put_back():
    before, sights = running()
    bare = replace(sights[0], view=job(deadline_s=None))
    assert kinds(decided(before, bare, sights[1]), Renew) == [("Renew", "east")]


def test_it_succeeds_when_every_shard_does():
    before, sights = running()
    done = [replace(each, view=job(outcome="Complete")) for each in sights]
    assert decided(before, done[0], sights[1]).record.phase == "Running"
    assert decided(before, *done).record.phase == "Succeeded"


def test_one_success_ends_a_work_queue():
    ask = Ask(name="train", completions=None)
    before, sights = running()
    done = replace(sights[0], view=job(outcome="Complete"))
    after = decided(before, done, sights[1], ask=ask).record
    assert after.phase == "Succeeded"
    assert kinds(decided(after, done, sights[1], ask=ask)) == [("Stop", "west")]


def test_one_failure_fails_the_workload_and_stops_the_rest():
    before, sights = running()
    failed = replace(
        sights[1], view=job(outcome="Failed", reason="BackoffLimitExceeded", message="too many")
    )
    after = decided(before, sights[0], failed).record
    assert (after.phase, after.reason) == ("Failed", "BackoffLimitExceeded")
    assert after.message == "west: too many"
    decision = decided(after, sights[0], failed)
    settled(decision, after)
    assert kinds(decision) == [("Stop", "east")]


def test_failures_count_over_all_shards():
    before, sights = running(failed=4)
    assert decided(before, *sights).record.phase == "Failed"  # 8 of 6
    assert decided(before, sights[0], replace(sights[1], view=job())).record.phase == "Running"
    with_gone = replace(before, failures=3)
    assert decided(with_gone, sights[0], replace(sights[1], view=job())).record.phase == "Failed"


def test_a_lapsed_lease_is_no_failure_of_the_users():
    before, sights = running()
    lapsed = replace(sights[1], view=job(outcome="Failed", reason="DeadlineExceeded", failed=2))
    after = decided(before, sights[0], lapsed).record
    assert (after.phase, after.reason) == ("Lost", "LeaseLapsed")
    assert states(decided(before, sights[0], lapsed)) == {"east": "Running", "west": "Evicted"}
    assert [debt.cluster for debt in after.owed] == ["west"]


def test_the_users_deadline_is_a_failure_of_the_users():
    ask = replace(ASK, deadline_s=60, started_at=NOW - 60)
    before, sights = running()
    assert decided(before, *sights, ask=ask).record.reason == "DeadlineExceeded"
    early = replace(ask, started_at=NOW - 59)
    decision = decided(before, *sights, ask=early)
    assert decision.record.phase == "Running"
    assert decision.again_s is not None and decision.again_s <= 1


# -- lost


def test_silence_is_noted_and_waited_out():
    before, sights = running()
    silent = Sight("west", why="timeout", leased_until=NOW + 12)
    decision = decided(before, sights[0], silent)
    west = decision.record.shards[1]
    assert (west.state, west.lost_at, west.reason) == ("Running", NOW, "Unreachable")
    assert decided(decision.record, sights[0], silent).again_s <= 17


@pytest.mark.parametrize(
    ("leased_until", "fencing", "lost"),
    [
        (NOW - 5, "Controller", True),
        (NOW - 4, "Controller", False),  # within the margin
        (NOW - 500, "Confirmed", False),
        (NOW - 500, "Pod", False),
    ],
)
def test_only_the_lost_shard_is_placed_anew_and_only_after_its_lease(leased_until, fencing, lost):
    before, sights = running()
    before = replace(before, fencing=fencing)
    silent = Sight("west", why="timeout", leased_until=leased_until)
    decision = decided(before, sights[0], silent)
    if not lost:
        assert decision.record.phase == "Running"
        return
    assert decision.record.phase == "Lost"
    assert states(decision) == {"east": "Running", "west": "Lost"}
    (debt,) = decision.record.owed
    assert (debt.cluster, debt.shard) == ("west", "train-g1-west")
    assert debt.fenced_at <= NOW


def test_a_gateway_that_starts_anew_waits_for_the_lease_that_was_known_and_no_other():
    before, sights = running()
    silent = Sight("west", why="timeout", leased_until=NOW + 12.4)
    noted = decided(before, sights[0], silent).record
    assert noted.shards[1].leased_until == NOW + 13
    for later in (NOW + 3, NOW + 300):  # what it has to assume without the record
        sight = Sight("west", why="timeout", leased_until=later)
        for now, lost in ((NOW + 17.9, False), (NOW + 18, True)):
            anew = decided(noted, sights[0], sight, now=now)
            assert (anew.record.phase == "Lost") is lost
    back = decided(noted, *sights).record.shards[1]
    assert (back.lost_at, back.leased_until) == (None, None)


def test_a_silent_member_that_is_made_to_leave_is_said_to_have_left():
    before, sights = running()
    silent = Sight("west", why="timeout", leased_until=NOW + 12)
    noted = decided(before, sights[0], silent).record
    left = Sight("west", member=False, leased_until=NOW + 300)
    after = decided(noted, sights[0], left).record
    west = after.shards[1]
    assert (west.reason, west.message) == ("MemberLeft", "west is no member of the fleet any more")
    assert (west.lost_at, west.leased_until) == (NOW, NOW + 12)
    assert decided(after, sights[0], left).record == after


def test_a_member_that_left_is_not_waited_for_by_a_deletion():
    before, sights = running()
    owing = decided(before, *sights, ask=replace(ASK, deleting=True)).record
    assert {debt.cluster for debt in owing.owed} == {"east", "west"}
    assert (owing.reason, owing.phase) == ("Deleted", "Running")
    assert "east, west" in owing.message
    debts = {
        ("east", "train-g1-east"): Sight("east", member=False),
        ("west", "train-g1-west"): Sight("west", why="timeout"),
    }
    left = decided(owing, ask=replace(ASK, deleting=True), debts=debts)
    assert [debt.cluster for debt in left.record.owed] == ["west"]
    assert not left.gone


def test_silence_that_ends_in_time_is_forgotten():
    before, sights = running()
    before = before.with_shards([replace(before.shards[1], lost_at=NOW - 9, reason="Unreachable")])
    assert decided(before, *sights).record.shards[1].lost_at is None


def test_survivors_are_renewed_while_a_replacement_is_held():
    new = Shard("north", 1, 2, first=4, count=2, state="Holding")
    before = record("Holding", (*in_state("Running", EAST), new), generation=2)
    late = seen(EAST, view=job(deadline_s=9), pods=pods(EAST, phase="Running"))
    decision = decided(before, late, seen(new))
    assert kinds(decision, Renew, Hold) == [("Renew", "east"), ("Hold", "north")]


def test_a_replacement_that_cannot_be_held_goes_and_survivors_stay():
    new = Shard("north", 1, 2, first=4, count=2, state="Holding")
    before = record("Holding", (*in_state("Running", EAST), new), generation=2)
    alive = seen(EAST, view=job(deadline_s=15), pods=pods(EAST, phase="Running"))
    after = decided(before, alive, seen(new, refused=Refused("Forbidden", "no"))).record
    assert after.phase == "Lost"
    assert [shard.cluster for shard in after.shards] == ["east"]


def test_a_replacement_aborted_after_the_commit_leaves_survivors_alone():
    new = Shard("north", 1, 2, first=4, count=2, state="Committed")
    before = record("Committed", (*in_state("Running", EAST), new), generation=2)
    alive = seen(EAST, view=job(deadline_s=15), pods=pods(EAST, phase="Running"))
    after = decided(before, alive, seen(new)).record
    assert after.phase == "Lost"
    assert states(decided(before, alive, seen(new))) == {"east": "Running", "north": "Evicted"}


@pytest.mark.parametrize("unfinished", [True, False])
def test_a_job_that_vanished_runs_again_only_if_it_is_known_not_to_have_finished(unfinished):
    before, sights = running()
    gone = seen(WEST, unfinished=unfinished)
    after = decided(before, sights[0], gone).record
    expected = ("Lost", "JobDeleted") if unfinished else ("Failed", "ResultUnknown")
    assert (after.phase, after.reason) == expected


# -- debts, deletion, suspension


@pytest.mark.parametrize(
    ("sight", "left", "acts"),
    [
        (seen(WEST), 0, []),
        (seen(WEST, view=job()), 1, [("Remove", "west")]),
        (seen(WEST, view=job(deleting=True)), 1, []),
        (seen(WEST, foreign="another"), 0, []),
        (Sight("west", why="timeout"), 1, []),
        (Sight("west", member=False), 0, []),
    ],
)
def test_what_is_owed_is_owed_until_it_is_seen_gone(sight, left, acts):
    debt = Debt("west", "train-g1-west", 1, "Deleting", NOW - 1)
    decision = decided(record("Queued", owed=(debt,)), debts={("west", "train-g1-west"): sight})
    assert len(decision.record.owed) == left
    assert kinds(decision) == acts


def test_old_copies_go_before_anything_else_is_done_about_a_member_that_returns():
    debt = Debt("west", "train-g1-west", 1, "LeaseOver", NOW - 1)
    new = Shard("west", 1, 2, first=4, count=2)
    before = record("QuotaHeld", (*in_state("Running", EAST), new), generation=2, owed=(debt,))
    alive = seen(EAST, view=job(deadline_s=15), pods=pods(EAST, phase="Running"))
    decision = decided(
        before, alive, seen(new), debts={("west", "train-g1-west"): seen(WEST, view=job())}
    )
    assert decision.record.phase == "QuotaHeld"
    assert kinds(decision, Remove, Hold) == [("Remove", "west")]


def test_while_it_is_held_a_shard_says_why_its_pods_are_not_made():
    before = record("Holding", in_state("Holding"))
    trouble = 'pods "train-0" is forbidden: violates PodSecurity "restricted:latest"'
    sights = seen(EAST, view=job(), trouble=trouble), seen(WEST, view=job(), pods=pods(WEST))
    after = decided(before, *sights).record
    assert [each.message for each in after.shards] == [f"its pods are not made: {trouble}", ""]
    sights = seen(EAST, view=job(), pods=pods(EAST)[:1]), sights[1]
    assert [each.message for each in decided(after, *sights).record.shards] == ["", ""]


@pytest.mark.parametrize("phase", ["Holding", "Committed", "Running", "Succeeded"])
def test_a_deleted_workload_owes_everything_and_is_gone_when_nothing_is_left(phase):
    ask = replace(ASK, deleting=True)
    after = decided(record(phase, in_state("Running")), ask=ask).record
    assert {debt.shard for debt in after.owed} == {"train-g1-east", "train-g1-west"}
    debts = {
        ("east", "train-g1-east"): seen(EAST),
        ("west", "train-g1-west"): seen(WEST, view=job()),
    }
    decision = decided(after, ask=ask, debts=debts)
    assert not decision.gone and len(decision.record.owed) == 1
    decision = decided(decision.record, ask=ask, debts={("west", "train-g1-west"): seen(WEST)})
    assert decision.gone


def test_suspending_takes_every_shard_away():
    ask = replace(ASK, suspended=True)
    after = decided(record("Running", in_state("Running")), ask=ask).record
    assert (after.phase, after.reason, after.shards) == ("Queued", "Suspended", ())
    assert len(after.owed) == 2


def test_a_workload_that_has_ended_comes_to_rest():
    before = record("Failed", in_state("Running"))
    decision = decided(before, seen(EAST, view=job()), Sight("west", why="timeout"))
    settled(decision, before)
    assert kinds(decision) == [("Stop", "east")]
    stopped = [seen(e, view=job(outcome="Failed", reason="DeadlineExceeded")) for e in (EAST, WEST)]
    after = decided(before, *stopped).record
    assert {shard.state for shard in after.shards} == {"Evicted"}
    assert decided(after, *stopped).acts == ()


def test_stopping_is_asked_of_running_jobs_only():
    before = record("Succeeded", in_state("Succeeded"))
    assert not [a for a in decided(before, seen(EAST, view=job())).acts if isinstance(a, Stop)]
