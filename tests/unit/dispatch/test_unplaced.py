"""What is said of workloads that nobody carries out."""

from __future__ import annotations

from fleet.apiserver.outgoing import warning_values
from fleet.dispatch import marks, premises
from fleet.dispatch.unplaced import why


def test_the_way_into_a_member_begins_with_a_namespace() -> None:
    said = why("Deployment", "team")
    assert "kubectl create namespace team.MEMBER" in said
    assert f"kubectl label namespace team.MEMBER {marks.ACCEPT_LABEL}=true" in said


def test_the_label_that_is_named_lets_the_fleet_in() -> None:
    made = {"metadata": {"name": "team", "labels": {marks.ACCEPT_LABEL: "true"}}}
    assert premises.not_accepted("east", made) is None


def test_the_longest_is_said_whole() -> None:
    said = why("StatefulSet", "n" * 63)
    (value,) = warning_values([said])
    assert said in value
