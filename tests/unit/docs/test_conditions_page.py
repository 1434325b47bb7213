"""docs/errors.md and the conditions of a member: every reason that observations can lead to."""

from __future__ import annotations

from itertools import product

import pytest

from fleet.members import health
from policies.cluster import ClusterStatus

NOW = 1e9
OBSERVATIONS = (
    health.Answered(),
    health.Answered(ready=False, message="etcd"),
    health.Unreached("timeout"),
    health.Foreign("another UID"),
    health.Refused("401"),
    health.NoCredential("no program"),
    health.CredentialEnds(NOW + 3600),
    health.CredentialEnds(None),
    health.Watched(fresh=True),
    health.Watched(fresh=False, message="pods"),
    health.Served(ok=True),
    health.Served(ok=False),
)


def key(state: health.Health):
    patience = health.Patience()
    return (
        tuple((each.status, each.reason) for each in state.conditions.values()),
        min(state.unreached, patience.lost_after),
        min(state.reached, patience.back_after),
        min(state.refused, patience.refused_after),
        state.api_ready,
        state.ends_at,
    )


@pytest.fixture(scope="module")
def seen():
    """(condition, status, reason) of every state that a member's health can come to."""
    start = health.Health()
    states = {key(start): start}
    fresh = [start]
    while fresh:
        following = {}
        for state, observation in product(fresh, OBSERVATIONS):
            after = health.observe(state, observation, now=NOW, patience=health.Patience())
            if key(after) not in states:
                following[key(after)] = after
        states |= following
        fresh = list(following.values())
    return {
        (each.type, each.status, each.reason)
        for state in states.values()
        for each in state.conditions.values()
    }


def test_every_condition_of_a_cluster_is_in_the_table(seen, page, code):
    documented = {
        (code(row["Condition"])[0], row["Status"], reason)
        for row in page("errors.md").rows("## Conditions of a Cluster")
        for reason in code(row["Reason"])
    }
    assert documented == seen


def test_every_observation_was_made():
    kinds = {type(each) for each in OBSERVATIONS}
    assert kinds == set(health.Observation.__args__)


def test_the_conditions_are_those_that_the_kind_names():
    told = ClusterStatus.model_fields["conditions"].description
    assert set(told.rstrip(".").split(", ")) == set(health.TRUTHS)
