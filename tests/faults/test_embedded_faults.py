"""Embedded members under faults: what dies takes its processes along, what is cut goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from fleet.errors import TestbedError
from fleet.testbed import admin, embedded, layout, shape
from fleet.testbed.embedded import EmbeddedCluster
from fleet.testbed.shape import ACCELERATOR, NodeShape

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
SHAPES = (NodeShape(count=1, capacity={ACCELERATOR: "2"}),)
LEAVES_ORPHANS = "setsid sleep 1000 & (setsid sleep 1000 &); sleep 1000 & exec sleep 1000"


def job(name: str = "j", script: str = "exec sleep 1000", **spec):
    container = {
        "name": "main",
        "image": "any",
        "command": ["sh", "-c", script],
        "resources": {"limits": {ACCELERATOR: "2"}},
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "backoffLimit": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            **spec,
        },
    }


async def until(look, holds, *, what: str = ""):
    """Ask until `holds`: what goes on behind a cut API can be watched from nowhere."""
    last = None
    try:
        async with asyncio.timeout(20):
            while True:
                last = await look()
                if holds(last):
                    return last
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"it never came to be {what}: {last}") from None


async def until_running(client, count: int = 1):
    def running(found):
        return [p for p in found["items"] if p["status"]["phase"] == "Running"][count - 1 :]

    return (await until(lambda: client.get(PODS), running))["items"]


def marked(uid: str) -> set[int]:
    """The live processes of a pod, wherever they have gone: by the variable they all inherit."""
    if not Path("/proc/self").exists():
        pytest.skip("/proc is not mounted: nothing tells of processes here")
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"FLEET_CONTAINER={uid}".encode() in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


async def until_no_process(uid: str):
    async def look():
        return marked(uid)

    await until(look, lambda found: not found, what=f"no process of pod {uid}")


def said(found):
    return [(each["type"], each["reason"]) for each in found["status"].get("conditions", ())]


@asynccontextmanager
async def hosted(root: Path):
    """A member in a process of its own, as the command line has them, and a client of it."""
    files = layout.create("hosted", root=root, network=63, components=(embedded.COMPONENT,))
    shape.remember(root, SHAPES)
    process = subprocess.Popen(embedded.arguments(root), stderr=sys.stderr)  # noqa: ASYNC220
    tls = admin.ssl_context(ca=files.ca, cert=files.cert("admin"), key=files.key("admin"))
    try:
        async with admin.AdminClient.connect(files.server, tls) as client:
            await until(client.ready, lambda why: not why)
            yield process, client
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_when_the_host_dies_every_process_dies_with_it(tmp_path, how):
    async with hosted(tmp_path / "m") as (process, client):
        await client.create(JOBS, job(script=LEAVES_ORPHANS))
        (pod,) = await until_running(client)
        uid = pod["metadata"]["uid"]

        async def look():
            return marked(uid)

        await until(look, lambda found: len(found) >= 4)
        process.send_signal(how)
        await until_no_process(uid)


async def test_when_the_helper_dies_its_pods_fail_and_the_next_ones_run():
    async with EmbeddedCluster("m", nodes=SHAPES) as member, member.client() as client:
        await client.create(JOBS, job("first", script=LEAVES_ORPHANS))
        (pod,) = await until_running(client)
        parents = {int(_parent(pid)) for pid in marked(pod["metadata"]["uid"])}
        (helper,) = parents - marked(pod["metadata"]["uid"]) - {os.getpid()}
        os.kill(helper, signal.SIGKILL)
        lost = await until(lambda: client.get(f"{JOBS}/first"), lambda job: len(said(job)) == 2)
        assert said(lost)[-1] == ("Failed", "BackoffLimitExceeded")
        (pod,) = (await client.get(PODS))["items"]
        ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["signal"]) == (137, 9)
        await until_no_process(pod["metadata"]["uid"])

        await client.create(JOBS, job("second", script="true"))
        done = await until(lambda: client.get(f"{JOBS}/second"), lambda job: len(said(job)) == 2)
        assert said(done)[-1][0] == "Complete"


def _parent(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]


async def test_a_cut_api_leaves_pods_running_and_comes_back_as_it_was():
    async with EmbeddedCluster("m", nodes=SHAPES) as member:
        async with member.client() as client:
            await client.create(JOBS, job())
            (pod,) = await until_running(client)
        before = marked(pod["metadata"]["uid"])
        await member.stop_api()
        async with member.client() as client:
            with pytest.raises(aiohttp.ClientConnectionError):
                await client.get(PODS)
            assert before and marked(pod["metadata"]["uid"]) == before
            await member.start_api()
            (same,) = (await client.get(PODS))["items"]
        assert same == pod, "nothing was written meanwhile"


async def test_a_frozen_api_answers_nothing_and_then_everything():
    async with EmbeddedCluster("m", nodes=SHAPES) as member, member.client() as client:
        seen = []

        async def watch():
            params = {"resourceVersion": "0"}
            async for event in client.watch(PODS, accept="application/json", params=params):
                seen.append(event)
                return

        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watch())
            await client.get(PODS)
            await member.pause_api()
            asked = tasks.create_task(client.create(JOBS, job()))
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert not asked.done() and not watching.done()
            await member.resume_api()
        assert await asked and seen


async def test_a_hold_lapses_by_itself_while_nobody_can_reach_the_member():
    async with EmbeddedCluster("m", nodes=SHAPES) as member, member.client() as client:
        held = job(activeDeadlineSeconds=2)
        pod = held["spec"]["template"]["spec"]
        pod["containers"][0]["volumeMounts"] = [{"name": "gate", "mountPath": "/gate"}]
        pod["volumes"] = [{"name": "gate", "configMap": {"name": "j-gate"}}]
        await client.create(JOBS, held)
        await until(lambda: client.get(PODS), lambda found: found["items"])
        await member.stop_api()
        cluster = member.cluster
        from virtualnode import resources

        async def look():
            return cluster.objects.list(resources.PODS, "default")

        await until(look, lambda pods: not pods)
        await member.start_api()
        lapsed = await until(lambda: client.get(f"{JOBS}/j"), lambda job: len(said(job)) == 2)
        assert said(lapsed)[-1] == ("Failed", "DeadlineExceeded")
        await client.create(JOBS, job("next"))
        await until_running(client)


async def test_a_running_shard_whose_lease_is_not_renewed_is_ended():
    async with EmbeddedCluster("m", nodes=SHAPES) as member, member.client() as client:
        deaf = "trap '' TERM; while :; do sleep 0.05; done"
        shard = job(script=deaf, activeDeadlineSeconds=2)
        shard["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1
        await client.create(JOBS, shard)
        (pod,) = await until_running(client)
        await member.stop_api()
        assert marked(pod["metadata"]["uid"])
        await until_no_process(pod["metadata"]["uid"])
        await member.start_api()
        ended = await until(lambda: client.get(f"{JOBS}/j"), lambda job: len(said(job)) == 2)
        assert said(ended)[-1] == ("Failed", "DeadlineExceeded")
        assert (await client.get(PODS))["items"] == []


async def test_the_end_of_a_member_is_the_end_of_its_pods():
    async with EmbeddedCluster("m", nodes=SHAPES) as member:
        async with member.client() as client:
            await client.create(JOBS, job(script=LEAVES_ORPHANS))
            (pod,) = await until_running(client)
        root = member.layout.root
    assert marked(pod["metadata"]["uid"]) == set()
    assert not root.exists()
    with pytest.raises(TestbedError, match="has not been started"):
        _ = member.kubeconfig


async def test_what_goes_wrong_beside_a_member_is_raised_as_it_is():
    with pytest.raises(ValueError, match="mine"):
        async with EmbeddedCluster("m", nodes=SHAPES):
            raise ValueError("mine")


async def test_members_of_one_process_have_addresses_of_their_own():
    async with EmbeddedCluster("a", nodes=SHAPES) as a, EmbeddedCluster("b", nodes=SHAPES) as b:
        found = []
        for member in (a, b):
            async with member.client() as client:
                await client.create(JOBS, job())
                found += await until_running(client)
        first, second = (pod["status"]["podIP"].split(".")[:2] for pod in found)
        assert first != second
