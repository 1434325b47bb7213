"""A gang of real processes over embedded members: they die with each other, and start together."""

from __future__ import annotations

import pytest

from fleet.testbed.embedded import EmbeddedCluster

NAMESPACE = "work"
RANKS = 3
# Writes its process id, waits for its peers', and dies when one of them does. `$$$$` is `$$` in a
# pod's command.
RANK = """
alive() { for id in $1; do kill -0 $id 2>/dev/null || return 1; done; }
all() { [ "$(echo $1 | wc -w)" = {ranks} ] && alive "$1"; }
echo $$$$ >{folder}/$JOB_COMPLETION_INDEX
until peers=$(cat {folder}/[0-9]) && all "$peers"; do sleep 0.1; done
echo met
while alive "$peers"; do sleep 0.1; done
exit 7
"""


@pytest.fixture
async def fleet(gateway_over, over_tls):
    """The fleet's namespace `work` over two members."""
    async with (
        EmbeddedCluster("idc-a") as a,
        EmbeddedCluster("idc-b") as b,
        gateway_over(a, b) as gateway,
    ):
        async with over_tls(gateway.kubeconfig, namespace=NAMESPACE) as door:
            await door.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            yield door


def gang(folder):
    script = RANK.replace("{ranks}", str(RANKS)).replace("{folder}", str(folder))
    container = {"name": "main", "image": "any", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "completions": RANKS, "parallelism": RANKS, "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }  # fmt: skip


def running(pods, *, without=()):
    """Each rank's pod, if all of them run and none is one of `without`."""
    found = {
        each["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: each
        for each in pods
        if each["status"].get("phase") == "Running"
        and not each["metadata"].get("deletionTimestamp")
        and each["metadata"]["uid"] not in without
    }
    return found if len(found) == RANKS else {}


async def all_met(fleet, pods):
    """Until every rank has seen its peers."""
    for each in pods.values():
        path = f"{fleet.place('pods')}/{each['metadata']['name']}/log"
        following = await fleet.send("GET", path, query={"follow": "true"})
        assert await anext(following.body) == b"met\n"
        await following.aclose()


async def test_a_gang_of_which_a_pod_is_evicted_starts_again_and_does_not_fail(fleet, tmp_path):
    folder = tmp_path / "ranks"
    folder.mkdir()
    await fleet.create("jobs", gang(folder))
    first = running(await fleet.until("pods", running))
    await all_met(fleet, first)
    before = {each["metadata"]["uid"] for each in first.values()}
    name = first["0"]["metadata"]["name"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "deleteOptions": {"gracePeriodSeconds": 1},
    }
    await fleet.call("POST", f"{fleet.place('pods')}/{name}/eviction", eviction)

    def anew(pods):
        return running(pods, without=before)

    await all_met(fleet, running(await fleet.until("pods", anew), without=before))
    job = await fleet.get("jobs", "train")
    told = {each["type"] for each in job["status"].get("conditions") or ()}
    assert not told & {"Failed", "FailureTarget", "Complete"}
