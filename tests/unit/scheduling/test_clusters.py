"""A member as its Cluster object describes it."""

from __future__ import annotations

import pytest

from fleet.errors import Invalid
from fleet.scheduling.clusters import cluster_of
from fleet.scheduling.nodes import Taint


def test_what_placement_knows_of_a_member(build):
    capacity = build.cluster("x").capacity
    obj = {
        "metadata": {"name": "idc-a", "labels": {"fleet.dev/provider": "own"}},
        "spec": {
            "networks": {"parameterPlane": "roce-1", "dataPlane": "dc-east"},
            "taints": [{"key": "a"}, {"key": "b", "effect": "PreferNoSchedule"}],
            "maintenance": {"cordoned": True, "reason": "rack move"},
            "capacityMaxAge": "1m30s",
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    cluster = cluster_of(obj, capacity)
    assert cluster.name == "idc-a"
    assert cluster.labels == {"fleet.dev/provider": "own"}
    assert (cluster.parameter_plane, cluster.data_plane) == ("roce-1", "dc-east")
    assert cluster.taints == (Taint("a", "", "NoSchedule"),)
    assert (cluster.ready, cluster.cordoned, cluster.cordoned_because) == (True, True, "rack move")
    assert cluster.max_age_s == 90.0
    assert cluster.capacity is capacity


@pytest.mark.parametrize(
    ("conditions", "ready", "why"),
    [
        ([], False, "its health is not known"),
        ([{"type": "Ready", "status": "Unknown", "reason": "WatchFreshUnknown"}], False,
         "WatchFreshUnknown"),
        ([{"type": "Ready", "status": "False", "reason": "x", "message": "no answer"}], False,
         "no answer"),
        ([{"type": "Ready", "status": "True", "reason": "Ready"}], True, "Ready"),
    ],
)  # fmt: skip
def test_a_member_of_unknown_health_is_not_ready(conditions, ready, why):
    obj = {"metadata": {"name": "a"}, "status": {"conditions": conditions}}
    cluster = cluster_of(obj, None)
    assert (cluster.ready, cluster.not_ready_because) == (ready, why)
    assert cluster.max_age_s == 30.0


def test_an_unsound_object_is_an_error():
    with pytest.raises(Invalid, match=r"spec\.networks\.plane: unknown field"):
        cluster_of({"metadata": {"name": "a"}, "spec": {"networks": {"plane": "x"}}}, None)
