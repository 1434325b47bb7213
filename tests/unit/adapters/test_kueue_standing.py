"""Which clusters stay nominated, and who is asked next."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.kueue.nominations import MOST
from adapters.kueue.objects import Worker, Workload
from adapters.kueue.standing import Choice, barred, choice_of, nominated, standing_of, waits

MINE = Workload(
    "payments", "w", "u", 1, checks={"mk": "Pending"}, reserved=True, nominated=("east",)
)
COPY = Workload("payments", "w", "c", 1)
REFUSING = replace(COPY, refused="no quota")
HAVING = replace(COPY, reserved=True)
CHOICE = Choice("all", {"east": "east", "worker-2": "west"})


def standing(copies=None, *, workload=MINE, choice=CHOICE, mute=()):
    return standing_of(workload, choice, (copies or {}).get, mute=mute)


@pytest.mark.parametrize(
    ("change", "its_turn"),
    [
        ({}, True),
        ({"nominated": ()}, True),
        ({"reserved": False}, False),
        ({"cluster": "east"}, False),
        ({"evicted": True}, False),
        ({"over": True}, False),
        ({"checks": {"mk": "Ready"}}, False),
        ({"checks": {"mk": "Retry"}}, False),
        ({"checks": {}}, False),
        ({"checks": {"mk": "Pending", "nodes": "Ready"}}, True),
        ({"checks": {"mk": "Pending", "nodes": "Pending"}}, False),
    ],
)
def test_whose_turn_it_is(change, its_turn):
    assert waits(replace(MINE, **change), "mk") is its_turn


def test_clusters_that_are_no_members_are_told_apart():
    workers = {
        "east": Worker("east", "1", "east"),
        "worker-2": Worker("worker-2", "2", "west", inactive="no route"),
        "worker-3": Worker("worker-3", "3", "nowhere"),
        "again": Worker("again", "4", "east"),
    }
    listed = ("east", "worker-2", "worker-3", "again", "not-made-yet")
    choice = choice_of("all", listed, workers, {"east", "west", "north"})
    assert choice.members == {"east": "east", "worker-2": "west"}
    assert choice.inactive == {"worker-2": "no route"}
    assert choice.unknown == ("worker-3", "again")
    assert choice.cluster_of("west") == "worker-2"


@pytest.mark.parametrize(
    ("copies", "held", "still", "refused"),
    [
        ({}, (), ("east",), {}),
        ({"east": COPY}, (), ("east",), {}),
        ({"east": HAVING}, ("east",), (), {}),
        ({"east": REFUSING}, (), (), {"east": "its Kueue: no quota"}),
        ({"west": REFUSING}, (), ("east",), {}),
        ({"west": HAVING}, ("worker-2",), ("east",), {}),
        ({"east": replace(HAVING, evicted=True)}, (), ("east",), {}),
    ],
)
def test_what_copies_say(copies, held, still, refused):
    found = standing(copies)
    assert (found.held, found.open, found.refused) == (held, still, refused)
    assert found.settled is bool(held or still)


def test_one_that_says_nothing_for_long_or_is_not_reached_counts_as_refusing():
    assert not standing(mute=("east",)).settled
    assert standing({"east": HAVING}, mute=("east",)).settled
    found = standing(choice=replace(CHOICE, inactive={"east": "no route"}))
    assert found.refused == {"east": "the manager does not reach it: no route"}


def test_the_next_one_comes_first_and_those_that_refused_stay_in_line():
    stands = standing({"east": REFUSING})
    assert nominated(MINE, stands, CHOICE, more="worker-2") == ("worker-2", "east")
    assert nominated(MINE, stands, CHOICE) == ("east",)


def test_a_rule_takes_a_cluster_off_unless_it_has_the_workload_already():
    assert nominated(MINE, standing({"east": REFUSING}), CHOICE, shut={"east"}) == ()
    assert nominated(MINE, standing({"east": HAVING}), CHOICE, shut={"east"}) == ("east",)


def test_a_cluster_that_is_listed_no_more_goes():
    choice = Choice("all", {"worker-2": "west"})
    assert nominated(MINE, standing(choice=choice), choice) == ()


def test_one_that_has_it_is_named_although_nobody_nominated_it():
    """Else Kueue could never write down that it has it."""
    assert nominated(MINE, standing({"west": HAVING}), CHOICE) == ("east", "worker-2")


def test_members_outside_the_config_cannot_have_it_and_say_so():
    stands = standing({"east": REFUSING})
    found = barred(CHOICE, stands, ["east", "west", "north"], {"west": "put out", "south": "x"})
    assert found == {
        "north": "not among the clusters of MultiKueueConfig all",
        "east": "its Kueue: no quota",
        "west": "put out",
    }


NAMES = [f"c{n}" for n in range(14)]


@given(
    named=st.lists(st.sampled_from(NAMES), unique=True, min_size=8, max_size=MOST),
    having=st.sets(st.sampled_from(NAMES), max_size=3),
    refusing=st.sets(st.sampled_from(NAMES)),
    shut=st.sets(st.sampled_from(NAMES)),
)
def test_never_too_many_never_twice_and_never_without_one_that_has_it(
    named, having, refusing, shut
):
    choice = Choice("all", {name: name for name in NAMES})
    workload = replace(MINE, nominated=tuple(named))
    copies = dict.fromkeys(refusing, REFUSING) | dict.fromkeys(having, HAVING)
    stands = standing_of(workload, choice, copies.get)
    more = "" if stands.settled else next(name for name in NAMES if name not in named)
    found = nominated(workload, stands, choice, more=more, shut=shut)
    assert len(found) == len(set(found)) <= MOST
    assert having <= set(found)
    assert not more or found[0] == more
    assert nominated(replace(workload, nominated=found), stands, choice, shut=shut) == tuple(
        name for name in found if name != more
    )
