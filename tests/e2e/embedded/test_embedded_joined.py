"""Embedded members in a fleet: joined by kubeconfig, worked with through the gateway."""

from __future__ import annotations

import pytest

from fleet.errors import JoinError
from fleet.testbed.embedded import EmbeddedCluster


@pytest.fixture
async def fleet_of_two(gateway_over):
    """(gateway, members)"""
    async with (
        EmbeddedCluster("idc-a") as a,
        EmbeddedCluster("idc-b") as b,
        gateway_over(a, b) as gateway,
    ):
        yield gateway, (a, b)


async def test_pods_of_both_are_seen_read_and_ended_through_the_gateway(
    fleet_of_two, over_tls, pod
):
    gateway, members = fleet_of_two
    for member in members:
        async with over_tls(gateway.kubeconfig, namespace=f"default.{member.name}") as there:
            script = f"echo from {member.name}; exec sleep 1000"
            await there.create("pods", pod("p", "sh", "-c", script))
            await there.until_one("pods", "p", lambda found: found["status"]["phase"] == "Running")
            following = await there.send(
                "GET", f"{there.place('pods')}/p/log", query={"follow": "true"}
            )
            assert await anext(following.body) == f"from {member.name}\n".encode()
            await following.aclose()
    async with over_tls(gateway.kubeconfig) as whole:
        listed = await whole.call("GET", "/api/v1/pods")
        assert [each["metadata"]["namespace"] for each in listed["items"]] == [
            "default.idc-a", "default.idc-b",
        ]  # fmt: skip
        nodes = await whole.call("GET", "/api/v1/nodes")
        assert len(nodes["items"]) == 4
    async with over_tls(gateway.kubeconfig, namespace="default.idc-a") as there:
        await there.delete("pods", "p", gracePeriodSeconds=1)
        await there.until_gone("pods")
    # the fleet itself reads there as well, whenever it likes
    [record] = [each for each in members[0].cluster.audit.records if each.method == "DELETE"]
    assert record.user == "fleet:admin"
    assert "fleet:admins" in record.groups


async def test_workloads_are_carried_out_by_the_dispatcher_of_their_namespace(
    fleet_of_two, over_tls
):
    gateway, members = fleet_of_two
    container = {"name": "main", "image": "any", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"metadata": {"name": "train"}, "spec": {"template": template}}
    async with over_tls(gateway.kubeconfig, namespace="research") as fleet:
        await fleet.call("POST", "/api/v1/namespaces", {"metadata": {"name": "research"}})
        await fleet.create("jobs", job)
        await fleet.until_one("jobs", "train", lambda found: found["status"].get("succeeded") == 1)
    records = [each for member in members for each in member.cluster.audit.records]
    inside = [each for each in records if "/namespaces/research/" in each.path]
    made = {(each.user, each.path.rpartition("/")[2]) for each in inside if each.method == "POST"}
    assert ("fleet:dispatcher:research", "jobs") in made
    assert {kind for user, kind in made if user == "admin"} <= {"rolebindings", "pods"}


async def test_a_name_that_already_ends_a_fleet_objects_name_is_no_members(fleet_of_two, over_tls):
    gateway, members = fleet_of_two
    gold = {"metadata": {"name": "gold.idc-c"}, "value": 1}
    async with over_tls(gateway.kubeconfig) as whole:
        await whole.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", gold)
    with pytest.raises(JoinError, match=r"idc-c cannot name a member: .* gold\.idc-c would be"):
        await gateway.members.join("idc-c", members[0].kubeconfig.read_bytes())
    assert "idc-c" not in gateway.members
