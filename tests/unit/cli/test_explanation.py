"""What `fleet explain` says."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from fleet.cli.explanation import explained
from policies.placement import Placement

TRAIN = {
    "spec": {"workload": {"apiVersion": "batch/v1", "kind": "Job", "name": "train"}},
    "status": {
        "generation": 3,
        "phase": "Running",
        "plane": "roce-1",
        "priority": "high",
        "roles": [{"name": "main", "pods": 6, "unit": 1}],
        "shards": [
            {
                "cluster": "idc-a",
                "roles": [{"name": "main", "first": 0, "count": 4}],
                "tier": 1,
                "billing": "Owned",
                "perHour": "0",
                "state": "Committed",
                "committedAt": "2026-03-01T14:02:11Z",
            },
            {
                "cluster": "idc-long",
                "index": 1,
                "roles": [{"name": "main", "first": 4, "count": 2}],
                "tier": 2,
                "billing": "OnDemand",
                "perHour": "3.80",
                "state": "Holding",
            },
        ],
        "clusters": [
            {"name": "idc-a", "verdict": "Used"},
            {"name": "idc-long", "verdict": "Used"},
            {"name": "cloud-c", "verdict": "Refused", "message": "plane vpc-9 is not roce-1"},
            {"name": "idc-d", "verdict": "Unused", "reason": "Dearer"},
        ],
        "whySeveral": "no single member of roce-1 had 6 free (idc-a 4, idc-long 2)",
        "cost": {
            "currency": "USD",
            "perHour": "3.80",
            "nextBest": "cloud-c",
            "nextBestPerHour": "11.40",
        },
    },
}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_split_job() -> None:
    assert explained(TRAIN) == [
        "train  Running  generation 3  6 ranks, unit 1, plane roce-1, priority high",
        "  idc-a      ranks 0-3    committed 2026-03-01 14:02:11   tier 1, own, 0 $/h",
        "  idc-long   ranks 4-5    holding                         tier 2, on demand, 3.80 $/h",
        "  cloud-c    not used     plane vpc-9 is not roce-1",
        "  idc-d      not needed   Dearer",
        "  why two clusters: no single member of roce-1 had 6 free (idc-a 4, idc-long 2)",
        "  cost     3.80 $/h now; the next best single cluster would be cloud-c at 11.40 $/h",
    ]


def test_its_times_are_todays_without_the_day() -> None:
    now = datetime.now(UTC)
    shard = {"cluster": "a", "state": "Running", "startedAt": now.isoformat()}
    line = explained({**TRAIN, "status": {"shards": [shard]}})[1]
    assert f"running {now:%H:%M:%S}   " in line and "price not known" in line


def test_one_that_waits_says_for_what() -> None:
    status = {
        "message": "roce-1 has 6 free, needs 9",
        "roles": [{"name": "worker", "pods": 8, "unit": 4}, {"name": "loader", "pods": 1}],
        "clusters": [{"name": "idc-a", "verdict": "Refused", "message": "4 free, needs 9"}],
        "cost": {"currency": "CNY", "unknown": ["idc-a"], "perHour": "2"},
    }
    assert explained({**TRAIN, "status": status}) == [
        "train  Queued  generation 0  8 worker, unit 4, 1 loader",
        "  roce-1 has 6 free, needs 9",
        "  idc-a   not used   4 free, needs 9",
        "  cost     2 CNY/h now (price not known: idc-a)",
    ]


def test_roles_keep_their_names_where_there_are_several() -> None:
    roles = [{"name": "worker", "first": 0, "count": 8}, {"name": "loader", "first": 2, "count": 1}]
    lines = explained({**TRAIN, "status": {"shards": [{"cluster": "a", "roles": roles}]}})
    assert "worker 0-7, loader 2" in lines[1]


def test_what_it_reads_is_what_the_kind_has() -> None:
    Placement.model_validate(TRAIN)
