"""An elastic gang of real processes over embedded members: smaller, short of a member, resized."""

from __future__ import annotations

import pytest

from fleet.testbed.embedded import EmbeddedCluster
from fleet.testbed.shape import ACCELERATOR, PRODUCT_LABEL, NodeShape

NAMESPACE = "work"
RANK = """
echo rank $FLEET_NODE_RANK of $FLEET_NODES, $PET_NNODES
until [ -e {folder}/done ]; do sleep 0.1; done
"""


def accelerators(count):
    return [NodeShape(capacity={ACCELERATOR: str(count)}, labels={PRODUCT_LABEL: "h200"})]


@pytest.fixture
async def members():
    async with (
        EmbeddedCluster("idc-a", nodes=accelerators(3)) as a,
        EmbeddedCluster("idc-b", nodes=accelerators(2)) as b,
    ):
        yield a, b


@pytest.fixture
async def fleet(gateway_over, over_tls, members):
    """The fleet's namespace `work` over both members, where Jobs run with two ranks at least."""
    async with (
        gateway_over(*members, lease_s=5.0) as gateway,
        over_tls(gateway.kubeconfig, namespace=NAMESPACE) as door,
    ):
        await door.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        policy = {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "PlacementPolicy",
            "metadata": {"name": "elastic"},
            "spec": {
                "workloads": {}, "mode": "Split", "gang": {"network": "None", "min": 2},
            },
        }  # fmt: skip
        path = f"/apis/fleet.dev/v1alpha1/namespaces/{NAMESPACE}/placementpolicies"
        await door.call("POST", path, policy)
        yield door


def gang(folder, ranks):
    container = {
        "name": "main", "image": "any",
        "command": ["sh", "-c", RANK.replace("{folder}", str(folder))],
        "resources": {"limits": {ACCELERATOR: "1"}},
    }  # fmt: skip
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "completions": ranks, "parallelism": ranks, "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }  # fmt: skip


def told(job):
    """What the Job says of how many of its ranks have a place."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((c["message"] for c in conditions if c["type"] == "fleet.dev/AllRanks"), "")


def ranks(pods):
    """Which ranks run, and their pods."""
    return {
        int(each["metadata"]["annotations"]["fleet.dev/global-index"]): each["metadata"]["uid"]
        for each in pods
        if each["status"].get("phase") == "Running"
        and not each["metadata"].get("deletionTimestamp")
    }


async def of(fleet, *wanted):
    """Until just these ranks run."""
    return ranks(await fleet.until("pods", lambda pods: sorted(ranks(pods)) == [*wanted]))


async def resize(fleet, count):
    await fleet.patch("jobs", "train", {"spec": {"parallelism": count, "completions": count}})


async def test_a_gang_is_as_large_as_there_is_room_and_as_its_user_wants(fleet, members, tmp_path):
    _, b = members
    await fleet.create("jobs", gang(tmp_path, 6))
    first = await of(fleet, 0, 1, 2, 3, 4)
    await fleet.until_one("jobs", "train", lambda job: told(job).startswith("5 of 6 ranks"))

    await b.stop_api()
    await fleet.until_one("jobs", "train", lambda job: told(job).startswith("3 of 6 ranks"))
    await b.start_api()
    await fleet.until_one("jobs", "train", lambda job: told(job).startswith("5 of 6 ranks"))
    again = await of(fleet, 0, 1, 2, 3, 4)
    assert {again[rank] for rank in range(3)} == {first[rank] for rank in range(3)}

    await resize(fleet, 2)
    two = await of(fleet, 0, 1)
    await resize(fleet, 3)
    three = await of(fleet, 0, 1, 2)
    assert (three[0], three[1]) == (two[0], two[1]) == (first[0], first[1])

    (tmp_path / "done").touch()
    job = await fleet.until_one("jobs", "train", lambda job: "completionTime" in job["status"])
    assert (job["status"]["succeeded"], job["status"]["completedIndexes"]) == (3, "0-2")
