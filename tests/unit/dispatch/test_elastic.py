"""What becomes of an elastic gang: what goes on without a part, who leads, what is cut and told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.dispatch import elastic
from fleet.dispatch import record as records
from fleet.dispatch.acts import Renew, Resize
from fleet.dispatch.budget import brought_on
from fleet.dispatch.decisions import decide
from fleet.dispatch.jobs.sight import JobView
from fleet.dispatch.record import Record, Shard
from fleet.dispatch.sight import PodView, Refused, Sight
from fleet.dispatch.situation import Ask, Situation, Timing

NOW = 1_800_000_000.0
ASK = Ask(name="train", completions=8, indexed=True, gang=True, nodes=8)


def shard(cluster, first, count, state="Running", generation=1, **more):
    index = 0 if first == 0 else 1
    planned = (("roles", [{"name": "worker", "first": first, "count": count}]),)
    given = {"started_at": NOW - 60, "committed_at": NOW - 60, "planned": planned} | more
    return Shard(cluster, index, generation, first, count, state, **given)


def gang(*shards, phase="Running", generation=1, least=2, **more):
    return Record(
        generation=generation, phase=phase, since=NOW, shards=shards, lease_s=15.0,
        least=least, most=8, unit=2, **more,
    )  # fmt: skip


EAST, WEST = shard("east", 0, 4), shard("west", 4, 4)


def pods(of, count=None, phase="Running"):
    ranks = range(of.first, of.first + (of.count if count is None else count))
    return tuple(
        PodView(f"p{r}", rank=r, bound=True, phase=phase, address=f"10.0.0.{r + 1}") for r in ranks
    )


def seen(of, *, size=None, left_s=15, running=None, **more):
    view = JobView(
        "uid", "7", started_at=NOW, deadline_s=left_s, size=of.count if size is None else size,
        **more,
    )  # fmt: skip
    return Sight(
        of.cluster, reached=True, clock=NOW, view=view, pods=pods(of, running),
        leased_until=NOW + left_s,
    )  # fmt: skip


def silent(cluster, until):
    return Sight(cluster, why="cut", leased_until=until)


def decided(before, *sights, now=NOW, ask=ASK):
    return decide(
        Situation(
            ask=ask,
            record=before,
            now=now,
            sights={each.cluster: each for each in sights},
            timing=Timing(hold_s=30, hold_limit_s=60, margin_s=5),
        )
    )


@pytest.mark.parametrize(("gone", "left"), [(EAST, WEST), (WEST, EAST)])
def test_a_part_whose_lease_is_over_is_dropped(gone, left):
    after = decided(gang(EAST, WEST), seen(left), silent(gone.cluster, NOW - 6)).record
    assert after.shards == (left,)
    assert (after.phase, after.reason, after.generation) == ("Running", "ShardDropped", 2)
    assert "goes on with 4 of 8 ranks" in after.message
    (debt,) = after.owed
    assert (debt.cluster, debt.count) == (gone.cluster, 4)
    assert after.budget.free == 8, "what dies with it is free"


def test_with_too_few_left_it_is_lost_and_keeps_what_it_has():
    before = gang(EAST, WEST, least=6)
    after = decided(before, seen(EAST), silent("west", NOW - 6)).record
    assert after.phase == "Lost"
    assert [each.state for each in after.shards] == ["Running", "Lost"]
    assert after.world == (EAST,)


def test_what_is_done_counts_where_the_rest_is_lost():
    done = replace(EAST, state="Succeeded")
    after = decided(gang(done, WEST), silent("west", NOW - 6)).record
    assert after.shards == (done,)
    assert decided(after).record.phase == "Succeeded"
    too_few = decided(gang(done, WEST, least=6), silent("west", NOW - 6)).record
    assert (too_few.phase, [each.state for each in too_few.shards]) == (
        "Lost",
        ["Succeeded", "Lost"],
    )


def test_a_part_that_breaks_before_all_have_begun_does_not_end_the_rest():
    before = gang(
        replace(EAST, state="Committed", started_at=None), replace(WEST, state="Committed"),
        phase="Committed",
    )  # fmt: skip
    gone = Sight("west", reached=True, clock=NOW)
    after = decided(before, seen(EAST, running=0), gone).record
    assert [each.cluster for each in after.shards] == ["east"]
    assert after.phase == "Committed"


def test_who_leads_is_who_was_there_first():
    new = shard("north", 0, 4, "Committed", generation=3)
    assert gang(EAST, WEST).lead == EAST
    assert gang(new, WEST, generation=3).lead == WEST
    rigid = replace(gang(new, WEST, generation=3), least=None)
    assert rigid.lead == new


def test_what_is_to_come_is_not_told():
    coming = shard("north", 0, 4, "Holding", generation=3)
    record = gang(coming, WEST, phase="Holding", generation=3, known=2)
    assert (record.world, record.ranks, record.told) == ((WEST,), 4, 2)
    committed = replace(record, shards=(replace(coming, state="Committed"), WEST))
    committed = elastic.told(record, committed)
    assert (committed.ranks, committed.told) == (8, 3)


@pytest.mark.parametrize(
    ("shards", "told"),
    [
        ((EAST, WEST), 2),
        ((EAST, WEST, shard("north", 8, 4, "Held", generation=5)), 2),
        ((replace(EAST, state="Succeeded"), WEST), 2),
        ((replace(EAST, state="Committed"), WEST), 2),
        ((EAST,), 5),
        ((EAST, replace(WEST, state="Lost")), 5),
        ((EAST, replace(WEST, count=2)), 5),
        ((EAST, replace(WEST, generation=5)), 5),
        ((), 2),
    ],
)
def test_a_generation_is_told_where_others_run_than_did(shards, told):
    before = gang(EAST, WEST, generation=4, known=2)
    after = elastic.told(before, gang(*shards, generation=5, known=2))
    assert after.told == told
    assert elastic.told(after, after) == after


def test_a_part_that_is_made_larger_and_one_that_comes_later_are_told_one_by_one():
    smaller = replace(EAST, count=2)
    coming = replace(WEST, state="Planned", generation=2)
    planned = elastic.told(gang(smaller), gang(EAST, coming, phase="QuotaHeld", generation=2))
    assert planned.told == 2
    committed = replace(planned, shards=(EAST, replace(coming, state="Committed")))
    assert elastic.told(planned, committed).told == 3


def test_what_is_all_or_none_is_told_of_its_plans():
    before = gang(EAST, WEST, least=None, generation=4, known=2)
    assert elastic.told(before, replace(before, shards=(EAST,))).told == 4


def test_a_hold_that_fails_leaves_what_runs_as_it_was():
    coming = shard("north", 0, 4, "Holding", generation=3)
    before = gang(coming, WEST, phase="Holding", generation=3)
    late = Sight("north", reached=True, clock=NOW, view=JobView("u", "1", size=4))
    after = decided(before, seen(WEST), late, now=NOW + 61).record
    assert (after.phase, after.shards) == ("Running", (WEST,))
    assert [debt.cluster for debt in after.owed] == ["north"]


def test_nobody_joins_a_gang_whose_ranks_are_done():
    coming = shard("north", 0, 4, "Held", generation=3)
    before = gang(coming, WEST, phase="Holding", generation=3)
    held = Sight(
        "north", reached=True, clock=NOW, view=JobView("u", "1", size=4), pods=pods(coming)
    )
    after = decided(before, seen(WEST, succeeded=1), held).record
    assert (after.phase, after.reason, after.shards) == ("Running", "Finishing", (WEST,))


# -- made larger where it is


LARGER = replace(EAST, count=8, state="Committed")


def test_a_shard_is_made_larger_after_its_lease_is_renewed():
    before = gang(LARGER, phase="Committed")
    acts = decided(before, seen(EAST, left_s=15)).acts
    assert [type(act) for act in acts if isinstance(act, Renew | Resize)] == [Resize]
    soon = decided(before, seen(EAST, left_s=5))
    assert [type(act) for act in soon.acts if isinstance(act, Renew | Resize)] == [Renew]
    assert soon.again_s == 0.0
    done = decided(before, replace(seen(LARGER), pods=pods(LARGER))).record
    assert (done.phase, done.shards[0].state) == ("Running", "Running")
    assert done.shards[0].started_at == EAST.started_at


@pytest.mark.parametrize(("running", "kept"), [(4, 4), (5, 4), (6, 6), (7, 6)])
def test_ranks_that_find_no_node_are_given_up_in_whole_units(running, kept):
    before = gang(LARGER, phase="Committed")
    sight = seen(LARGER, running=running)
    assert decided(before, sight, now=NOW + 30).record.ranks == 8
    decision = decided(before, sight, now=NOW + 61)
    assert decision.record.ranks == kept
    assert decision.record.generation == 2
    assert "east" in decision.barred
    (entry,) = records.write(decision.record, status())["shards"]
    assert entry["roles"] == [{"name": "worker", "first": 0, "count": kept}]


def test_ranks_that_never_came_are_not_enough_to_go_on_with():
    """A part is lost while another is being made larger, which comes to nothing."""
    larger = shard("east", 0, 8, "Committed")
    lost = shard("west", 8, 4)
    before = gang(larger, lost, phase="Committed", least=8, generation=2)
    after = decided(before, seen(larger, running=4), silent("west", NOW - 6)).record
    late = decided(after, seen(larger, running=4), now=NOW + 61).record
    assert (late.ranks, late.phase) == (4, "Lost")
    assert not elastic.goes_on(late)


@pytest.mark.parametrize("running", [4, 8])
def test_a_part_that_is_made_larger_while_another_cannot_be_held_comes_to_its_end(running):
    coming = shard("north", 8, 4, "Holding", generation=2, started_at=None, committed_at=None)
    before = gang(LARGER, coming, phase="Holding", generation=2)
    late = Sight("north", reached=True, clock=NOW, view=JobView("u", "1", size=4))
    sight = seen(LARGER, running=running)
    record = decided(before, sight, late, now=NOW + 61).record
    for at in (62, 130, 200):
        record = decided(record, sight, now=NOW + at).record
    assert (record.phase, record.ranks) == ("Running", running)
    assert [each.state for each in record.shards] == ["Running"]


def test_at_its_end_it_has_the_ranks_that_ran():
    complete = seen(EAST, outcome="Complete", succeeded=4)
    after = decided(gang(LARGER, phase="Committed"), complete).record
    assert (after.phase, after.ranks) == ("Succeeded", 4)


def test_a_refusal_to_become_larger_ends_nothing():
    no = Refused("Forbidden", "quota", since=NOW - 100)
    sight = replace(seen(EAST), refused=no)
    after = decided(gang(LARGER, phase="Committed"), sight, now=NOW + 61).record
    assert after.ranks == 4
    assert after.shards[0].live


def test_failures_while_ranks_join_are_free():
    before = gang(LARGER, phase="Committed")
    budget = brought_on(before, {"east": seen(EAST, failed=3)}, disturbed=False)
    assert budget.charged == 0


# -- its user resizes it


@pytest.mark.parametrize(
    ("nodes", "shards", "gone"),
    [
        (6, [("east", 0, 4), ("west", 4, 2)], []),
        (4, [("east", 0, 4)], ["west"]),
        (2, [("east", 0, 2)], ["west"]),
        (12, [("east", 0, 4), ("west", 4, 4)], []),
    ],
)
def test_the_last_ranks_go_first(nodes, shards, gone):
    after = decided(gang(EAST, WEST), seen(EAST), seen(WEST), ask=replace(ASK, nodes=nodes)).record
    assert [(e.cluster, e.first, e.count) for e in after.shards] == shards
    assert [debt.cluster for debt in after.owed] == gone
    assert (after.most, after.reason) == (nodes, "Resized")
    assert (after.generation == 1) is (nodes == 12), "who runs is the same"


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (5, "5 ranks are not in whole units of 2"),
        (0, "it runs with 2 ranks at least"),
        (6, ""),
    ],
)
def test_why_it_cannot_be_of_a_size(nodes, why):
    assert elastic.why_not(gang(EAST, WEST), nodes) == why


@pytest.mark.parametrize(
    ("nodes", "why"),
    [(5, "5 ranks are not in whole units of 2"), (0, "it runs with 2 ranks at least"), (6, "")],
)
def test_one_of_which_nothing_runs_yet_can_be_of_any_size(nodes, why):
    held = [replace(each, state="Holding", started_at=None) for each in (EAST, WEST)]
    assert elastic.why_not(gang(*held, phase="Holding"), nodes) == why


def test_one_that_lost_its_first_ranks_keeps_enough():
    record = gang(WEST)
    assert elastic.why_not(record, 4) == "of those that run 0 are among the first 4, and it needs 2"
    assert decided(record, seen(WEST), ask=replace(ASK, nodes=4)).record.shards == (WEST,)


def test_what_is_to_come_is_let_go_of_when_it_is_resized():
    coming = shard("north", 0, 4, "Holding", generation=3)
    before = gang(coming, WEST, phase="Holding", generation=3)
    held = Sight("north", reached=True, clock=NOW, view=JobView("u", "1", size=4))
    after = decided(before, seen(WEST), held, ask=replace(ASK, nodes=6)).record
    assert [(e.cluster, e.count) for e in after.shards] == [("west", 2)]
    assert after.phase == "Running"
    assert [debt.cluster for debt in after.owed] == ["north"]


# -- what is written


def status(**more):
    role = {"name": "worker", "pods": 8, "min": 2, "unit": 2}
    return {"roles": [role], "shards": [], **more}


def test_a_record_is_read_as_it_was_written():
    before = gang(EAST, WEST)
    written = records.write(before, status())
    assert (written["ranks"], written["usedClusters"]) == ("8 of 8", "east 4, west 4")
    assert records.write(records.read(written), written) == written
    left = elastic.without(records.read(written), records.read(written).shards[1:], NOW)
    after = records.write(left, written)
    assert (after["ranks"], after["usedClusters"]) == ("4 of 8", "east")


def test_what_it_costs_follows_what_runs():
    priced = [replace(each, planned=(*each.planned, ("perHour", "4"))) for each in (EAST, WEST)]
    cost = {"currency": "USD", "perHour": "8"}
    whole = records.write(gang(*priced), status(cost=cost))
    left = elastic.cut(records.read(whole), {"west": 1})
    after = records.write(replace(left, shards=left.shards), whole)
    assert after["shards"][1]["perHour"] == "1"
    gone = elastic.without(records.read(whole), records.read(whole).shards[1:], NOW)
    assert records.write(gone, whole)["cost"] == {"currency": "USD", "perHour": "4"}


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.integers(0, 20),
)
def test_sizes_leave_whole_units_and_nobodys_first_rank_moves(counts, there, nodes):
    shards, first = [], 0
    for number, (units, kept) in enumerate(zip(counts, there, strict=False)):
        if units and kept:
            shards.append(replace(shard(f"c{number}", first, units * 2), index=number))
        first += units * 2
    before = gang(*shards)
    if not shards or not elastic.is_resized(before, nodes):
        return
    after, gone = elastic.fitted(before, nodes, NOW)
    left = [each for each in after.shards if each not in gone]
    firsts = {each.cluster: each.first for each in before.shards}
    assert all(each.first == firsts[each.cluster] for each in left)
    assert all(each.count % 2 == 0 and each.count > 0 for each in left)
    assert all(each.first + each.count <= nodes for each in left)
    assert sum(each.count for each in left) >= before.least
