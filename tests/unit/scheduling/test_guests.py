"""Work that the fleet places and somebody else carries out."""

from __future__ import annotations

import pytest

from fleet.errors import Invalid
from fleet.scheduling.guests import promised


def gang(**counts: int):
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    template = {"spec": {"containers": [container]}}
    sets = [{"name": name, "count": count, "template": template} for name, count in counts.items()]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"namespace": "payments", "name": "w", "uid": "u"},
        "spec": {"podSets": sets},
    }


@pytest.mark.parametrize(
    ("seen", "left"), [(0, [1, 4]), (1, [4]), (3, [2]), (5, []), (9, [])]
)  # fmt: skip
def test_what_is_promised_is_what_is_not_seen_yet(seen, left):
    ledger = promised(gang(leader=1, workers=4), "east", seen=seen)
    assert [each.pods for entry in ledger.entries.values() for each in entry] == left
    assert {key.cluster for key in ledger.entries} == ({"east"} if left else set())


def test_one_that_cannot_be_read_is_refused():
    broken = gang(workers=1)
    container = broken["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
    container["resources"]["requests"]["nvidia.com/gpu"] = "many"
    with pytest.raises(Invalid, match=r"spec\.podSets\[0\]\.template"):
        promised(broken, "east")
