"""The blocks that were chosen reach the member's scheduler, beside what the user asked for."""

from __future__ import annotations

import pytest

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def terms_of(pod_spec):
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    found = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    return [
        {each["key"]: each["values"] for each in term["matchExpressions"]} for term in found
    ]  # fmt: skip


async def held(fleet, **pod):
    await fleet.run_job(ranks=6, pod=pod)
    await fleet.until(lambda: fleet.record().phase == "Running")
    shards = {shard.cluster: shard for shard in fleet.record().shards}
    return {
        name: fleet.members[name].find("jobs", shard.name("train"))["spec"]["template"]["spec"]
        for name, shard in shards.items()
    }


@pytest.fixture
async def racks(fleet):
    """Two members; only the nodes of one say which rack they are in."""
    await fleet.join("east", room=4)
    await fleet.join("west", room=4)
    fleet.block_labels = {"east": "example.com/rack"}
    fleet.planner.blocks = {"east": ["r2", "r1"], "west": ["r9"]}
    return fleet


async def test_pods_are_bound_to_the_blocks_where_nodes_say_theirs(racks):
    specs = await held(racks)
    assert terms_of(specs["east"]) == [{"example.com/rack": ["r1", "r2"]}]
    assert terms_of(specs["west"]) == []


async def test_what_the_user_asks_of_nodes_stays(racks):
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    own = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    specs = await held(racks, affinity=own)
    assert terms_of(specs["east"]) == [{"zone": ["a"], "example.com/rack": ["r1", "r2"]}]
    assert terms_of(specs["west"]) == [{"zone": ["a"]}]
    user = racks.job()["spec"]["template"]["spec"]
    assert terms_of(user) == [{"zone": ["a"]}], "the fleet's own Job is as it was"


async def test_a_pod_that_names_its_node_is_bound_to_that_alone(racks):
    await racks.run_pod(nodeName="n1.east")
    await racks.until(lambda: racks.members["east"].all("pods"))
    (pod,) = racks.members["east"].all("pods")
    assert pod["spec"]["nodeName"] == "n1"
    assert terms_of(pod["spec"]) == []
