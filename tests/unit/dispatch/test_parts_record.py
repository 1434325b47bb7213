"""The record of shards is made of Placements, whatever state they are in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.dispatch.parts import Parts
from fleet.store.collection import Collection
from fleet.store.entry import Entry
from fleet.store.sequencer import Sequencer
from policies import PLACEMENT

if TYPE_CHECKING:
    import pytest


def placement(name: str, status: dict[str, Any], sequencer: Sequencer) -> Entry:
    return Entry(
        {
            "kind": "Placement",
            "apiVersion": "fleet.dev/v1alpha1",
            "metadata": {"name": f"job-{name}", "namespace": "payments"},
            "spec": {
                "workload": {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": name,
                    "uid": f"uid-{name}",
                }
            },
            "status": status,
        },
        revision=sequencer.next(),
    )


def test_a_placement_that_cannot_be_read_keeps_no_other_from_being_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sequencer = Sequencer(epoch=1)
    placements = Collection(PLACEMENT.resource, sequencer)
    owed = {"cluster": "east", "shard": "b-g1-east", "generation": 1, "reason": "Moved"}
    placements.put(placement("a", {"shards": "none"}, sequencer))
    placements.put(placement("b", {"owed": [owed]}, sequencer))
    parts = Parts(fleet="fleet")
    parts.follow(placements)
    found = parts.of_shard("east", "Job", "payments", "b-g1-east")
    assert found is not None
    assert found.name == "b"
    assert "payments/job-a cannot be read" in caplog.text
