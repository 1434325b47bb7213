"""The four truths: each moves by its own observations only, and not by a single stumble."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.members import health
from fleet.members.health import (
    Answered,
    CredentialEnds,
    Foreign,
    Health,
    NoCredential,
    Patience,
    Refused,
    Served,
    Unreached,
    Watched,
)

PATIENCE = Patience(lost_after=3, back_after=2, refused_after=2, ends_soon_s=100)
NOW = 1_800_000_000.0


def after(*observations: health.Observation, start: Health | None = None) -> Health:
    state = start or Health()
    for step, observation in enumerate(observations):
        state = health.observe(state, observation, now=NOW + step, patience=PATIENCE)
    return state


GOOD = after(Answered(), Watched(True))


def statuses(state: Health) -> str:
    return "".join(state[truth].status[0] for truth in health.TRUTHS)


def test_nothing_is_known_in_the_beginning():
    assert statuses(Health()) == "UUUUU"


def test_what_was_never_measured_is_unknown_since_the_member_is_one():
    begun = Health.begun(NOW - 60)
    assert statuses(begun) == "UUUUU"
    assert {each.since for each in begun.conditions.values()} == {NOW - 60}
    later = after(Answered(), Watched(True), start=begun)
    assert later["DataPlaneHealthy"].since == NOW - 60
    assert later["Reachable"].since == NOW


@pytest.mark.parametrize(
    ("observations", "expected"),
    [
        ([Answered()], "TTUUU"),
        ([Answered(), Watched(True)], "TTTUT"),
        ([Answered(), Watched(False, "pods: cut")], "TTFUF"),
        ([Answered(ready=False, message="etcd"), Watched(True)], "TTTUF"),
        ([Unreached("refused")], "FUUUF"),
        ([Refused("401")], "TFUUF"),
        ([NoCredential("no plugin")], "UFUUU"),
        ([Foreign("uid")], "FUUUF"),
        ([Answered(), Watched(True), Served(False, "503")], "TTTFT"),
        ([Answered(), Watched(True), Served(True)], "TTTTT"),
    ],
)  # fmt: skip
def test_the_first_observation_decides(observations, expected):
    assert statuses(after(*observations)) == expected


def test_ready_gives_the_reason_of_the_first_truth_that_fails():
    state = after(Unreached("dial: refused"))
    assert (state["Ready"].reason, state["Ready"].message) == ("NoAnswer", "dial: refused")
    state = after(Answered(ready=False, message="etcd failed"), Watched(True))
    assert (state["Ready"].reason, state["Ready"].message) == ("APIServerNotReady", "etcd failed")
    assert after(Answered())["Ready"].reason == "WatchFreshUnknown"


def test_a_member_is_lost_after_several_silences_in_a_row():
    assert statuses(after(Unreached("x"), Unreached("x"), start=GOOD)) == "TTTUT"
    assert statuses(after(*[Unreached("x")] * 3, start=GOOD)) == "FTTUF"
    assert (
        statuses(after(Unreached("x"), Unreached("x"), Answered(), Unreached("x"), start=GOOD))
        == "TTTUT"
    )


def test_a_member_is_back_after_several_answers_in_a_row():
    lost = after(*[Unreached("x")] * 3, start=GOOD)
    assert after(Answered(), start=lost)["Reachable"].status == "False"
    assert after(Answered(), Unreached("x"), Answered(), start=lost)["Reachable"].status == "False"
    assert after(Answered(), Answered(), start=lost)["Reachable"].status == "True"


def test_another_cluster_is_not_a_matter_of_patience():
    state = after(Foreign("uid 7"), start=GOOD)
    assert statuses(state) == "FTTUF"
    assert state["Reachable"].reason == "AnotherCluster"


@given(st.lists(st.sampled_from([NoCredential("a"), Refused("b")]), max_size=20))
def test_a_fault_on_our_side_never_makes_a_member_unreachable(faults):
    assert after(*faults, start=GOOD)["Reachable"].status == "True"


def test_one_refusal_may_be_a_stumble_of_the_member():
    assert after(Refused("x"), start=GOOD)["CredentialsValid"].status == "True"
    assert (
        after(Refused("x"), Answered(), Refused("x"), start=GOOD)["CredentialsValid"].status
        == "True"
    )
    state = after(Refused("x"), NoCredential("gone"), start=GOOD)
    assert (state["CredentialsValid"].status, state["CredentialsValid"].reason) == (
        "False",
        "NoCredential",
    )
    assert after(Answered(), start=state)["CredentialsValid"].status == "True"


def test_an_end_that_is_near_is_announced_with_its_date():
    state = after(CredentialEnds(NOW + 50), start=GOOD)
    valid = state["CredentialsValid"]
    assert (valid.status, valid.reason) == ("True", "EndsSoon")
    assert "2027-01-15T08:00:50Z" in valid.message
    assert state.ready
    assert after(CredentialEnds(NOW + 500), start=state)["CredentialsValid"].reason == "Accepted"
    assert after(CredentialEnds(None), start=state)["CredentialsValid"].reason == "Accepted"
    assert after(Answered(), start=state)["CredentialsValid"].reason == "EndsSoon"


def test_a_transition_time_is_that_of_the_last_change_of_status():
    state = after(
        Watched(True), Watched(False, "a"), Watched(False, "b"), Watched(True), start=GOOD
    )
    assert state["WatchFresh"].since == NOW + 3
    state = after(Watched(False, "a"), Watched(False, "b"), start=GOOD)
    assert (state["WatchFresh"].since, state["WatchFresh"].message) == (NOW, "b")
    assert state["WatchFresh"].as_dict() == {
        "type": "WatchFresh",
        "status": "False",
        "reason": "NotProven",
        "message": "b",
        "lastTransitionTime": "2027-01-15T08:00:00Z",
    }


observations = st.sampled_from(
    [
        Answered(),
        Answered(ready=False),
        Unreached("u"),
        Refused("r"),
        NoCredential("n"),
        Foreign("f"),
        Watched(True),
        Watched(False),
        Served(True),
        Served(False),
        CredentialEnds(NOW + 5),
    ]
)


@given(st.lists(observations, max_size=30))
def test_ready_follows_from_the_other_truths_and_repeats_change_nothing(history):
    state = after(*history)
    needed = [state[truth].status for truth in ("Reachable", "CredentialsValid", "WatchFresh")]
    assert state.ready == (all(s == "True" for s in needed) and state.api_ready)
    settled = reduce(lambda s, o: after(o, start=s), history[-1:] * 5, state)
    for observation in history[-1:]:
        again = health.observe(settled, observation, now=NOW + 99, patience=PATIENCE)
        assert again.conditions == settled.conditions
