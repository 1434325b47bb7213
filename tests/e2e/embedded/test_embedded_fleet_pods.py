"""Pods of the fleet over embedded members: real processes behind `kubectl run` at the gateway."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.testbed.embedded import EmbeddedCluster

NAMESPACE = "work"


@pytest.fixture
async def fleet(gateway_over, over_tls, pod):
    """The fleet's namespace `work`, over two members that have never heard of it."""
    async with (
        EmbeddedCluster("idc-a") as a,
        EmbeddedCluster("idc-b") as b,
        gateway_over(a, b) as gateway,
    ):
        async with over_tls(gateway.kubeconfig, namespace=NAMESPACE) as door:
            await door.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            await place_one(door, pod)
            yield door


async def place_one(door, pod):
    """Until the members have been seen ready, and taken a pod."""
    await door.create("pods", pod("first", "true", restartPolicy="Never"))
    await door.until_one("pods", "first", lambda found: found["status"]["phase"] == "Succeeded")
    await door.delete("pods", "first")
    await door.until_gone("pods")


def runs(found):
    return found["status"]["phase"] == "Running"


def processes(seconds):
    """The processes that sleep for so long, anywhere on this machine."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                argv = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if argv[:2] == [b"sleep", seconds.encode()]:
                found.append(entry.name)
    return found


async def test_it_runs_is_followed_and_ends_with_its_object(fleet, pod):
    script = "echo in $FLEET_CLUSTER on $HOSTNAME; exec sleep 73125"
    await fleet.create("pods", pod("web", "sh", "-c", script))
    place = f"{fleet.place('pods')}/web/log"
    following = await fleet.send("GET", place, query={"follow": "true"})
    if following.status == 400:  # placed, but its container is on its way: as on one cluster
        assert b"is waiting to start" in following.body
        await fleet.until_one("pods", "web", runs)
        following = await fleet.send("GET", place, query={"follow": "true"})
    line = await anext(following.body)
    await following.aclose()
    found = await fleet.until_one("pods", "web", runs)
    cluster = found["metadata"]["labels"]["fleet.dev/cluster"]
    assert line == f"in {cluster} on web\n".encode()
    assert found["spec"]["nodeName"].endswith(f".{cluster}")
    assert found["status"]["containerStatuses"][0]["ready"]
    assert len(processes("73125")) == 1
    await fleet.delete("pods", "web", gracePeriodSeconds=1)
    await fleet.until_gone("pods")
    assert processes("73125") == []
    listed = await fleet.call("GET", "/api/v1/pods")
    assert listed["items"] == []


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (3, "Failed")])
async def test_its_end_and_exit_code_are_kept(fleet, pod, code, phase):
    await fleet.create("pods", pod("once", "sh", "-c", f"exit {code}", restartPolicy="Never"))
    found = await fleet.until_one("pods", "once", lambda each: each["status"]["phase"] == phase)
    (container,) = found["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == code
    cluster = found["metadata"]["labels"]["fleet.dev/cluster"]
    path = f"/clusters/{cluster}/api/v1/namespaces/{NAMESPACE}/pods/once-g1-{cluster}"
    await fleet.call("DELETE", path)
    assert (await fleet.get("pods", "once"))["status"] == found["status"]


async def test_one_that_exits_is_started_again_where_it_is(fleet, pod):
    await fleet.create("pods", pod("flaky", "sh", "-c", "exit 1", restartPolicy="Always"))

    def again(found):
        statuses = found["status"].get("containerStatuses") or [{}]
        return statuses[0].get("restartCount", 0) >= 1

    found = await fleet.until_one("pods", "flaky", again)
    assert found["status"]["phase"] == "Running"
    await fleet.delete("pods", "flaky", gracePeriodSeconds=0)
    await fleet.until_gone("pods")


async def test_what_its_member_deletes_goes(fleet, pod):
    await fleet.create("pods", pod("taken", "sleep", "1000"))
    found = await fleet.until_one("pods", "taken", runs)
    cluster = found["metadata"]["labels"]["fleet.dev/cluster"]
    path = f"/clusters/{cluster}/api/v1/namespaces/{NAMESPACE}/pods/taken-g1-{cluster}"
    await fleet.call("DELETE", path, {"kind": "DeleteOptions", "gracePeriodSeconds": 1})
    await fleet.until_gone("pods")
