"""The testbed's own promises, on real control planes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING

import aiohttp
import pytest
import yaml

from fleet.errors import TestbedError
from fleet.testbed import admin, commands, kwok, layout, processes
from fleet.testbed.components import API_ONLY
from fleet.testbed.local import LocalCluster
from fleet.testbed.shape import NodeShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.controlplane

WAIT = "--timeout=60s"


@pytest.fixture
def run(kubectl, east) -> Callable[..., str]:
    """The newest kubectl on east; its output, and an error when it fails."""
    newest = kubectl()

    def call(*arguments: str, stdin: str = "") -> str:
        done = newest(east.kubeconfig, *arguments, stdin=stdin)
        assert done.code == 0, f"kubectl {' '.join(arguments)}: {done.err}"
        return done.out

    return call


@pytest.fixture
def space(run) -> Iterator[str]:
    """A namespace of this test's own, with its ServiceAccount."""
    name = f"t{os.urandom(4).hex()}"
    run("create", "namespace", name)
    yield name
    run("delete", "namespace", name, "--wait=false")


def job(name: str, *, pods: int = 2, annotations: dict | None = None, volumes: tuple = ()) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "completions": pods,
                "parallelism": pods,
                "backoffLimit": 0,
                "completionMode": "Indexed",
                "template": {
                    "metadata": {"annotations": annotations or {}},
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [
                            {
                                "name": "main",
                                "image": "any",
                                "resources": {"limits": {"nvidia.com/gpu": 1}},
                            }
                        ],
                        "volumes": list(volumes),
                    },
                },
            },
        }
    )


def config_map(name: str, **options: object) -> dict:
    return {"name": "gate", "configMap": {"name": name, **options}}


def test_nodes_are_ready_and_carry_their_shape(run):
    nodes = json.loads(run("get", "nodes", "-o", "json"))["items"]

    assert [node["metadata"]["name"] for node in nodes] == ["n1", "n2"]
    for node in nodes:
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
        ready = [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"]
        assert ready == ["True"]


def test_a_jobs_pods_complete(run, space):
    run("-n", space, "apply", "-f", "-", stdin=job("short"))

    run("-n", space, "wait", "job/short", "--for=condition=complete", WAIT)


def test_a_pod_told_to_fail_fails_its_job(run, space):
    text = job("bad", pods=1, annotations={kwok.EXIT_CODE: "3"})
    run("-n", space, "apply", "-f", "-", stdin=text)

    run("-n", space, "wait", "job/bad", "--for=condition=failed", WAIT)
    code = "{.items[0].status.containerStatuses[0].state.terminated.exitCode}"
    assert run("-n", space, "get", "pods", "-o", f"jsonpath={code}") == "3"


def test_a_pod_told_to_run_on_runs_on_until_it_is_deleted(run, space):
    text = job("long", annotations={kwok.RUN_FOR: kwok.FOREVER})
    run("-n", space, "apply", "-f", "-", stdin=text + "---\n" + job("short"))
    run("-n", space, "wait", "job/short", "--for=condition=complete", WAIT)

    run("-n", space, "wait", "pods", "-l", "job-name=long", "--for=condition=Ready", WAIT)
    assert phases(run, space, "long") == ["Running", "Running"]
    run("-n", space, "delete", "job/long", "--cascade=foreground", WAIT)
    assert phases(run, space, "long") == []


@pytest.mark.parametrize(
    ("volume", "creates"),
    [
        (config_map("g"), ("configmap", "g")),
        ({"name": "gate", "secret": {"secretName": "g"}}, ("secret", "generic", "g")),
        (
            {"name": "gate", "projected": {"sources": [{"configMap": {"name": "g"}}]}},
            ("configmap", "g"),
        ),
    ],
    ids=["configmap", "secret", "projected"],
)
def test_a_gated_pod_is_bound_and_waits_for_what_it_mounts(run, space, volume, creates):
    gated = job("gated", annotations={kwok.RUN_FOR: kwok.FOREVER}, volumes=(volume,))
    run("-n", space, "apply", "-f", "-", stdin=gated)
    run("-n", space, "wait", "job/gated", "--for=jsonpath={.status.active}=2", WAIT)
    waiting = "jsonpath={.status.containerStatuses[0].state.waiting.reason}=ContainerCreating"
    run("-n", space, "wait", "pods", "-l", "job-name=gated", f"--for={waiting}", WAIT)
    # Another Job from start to end: time enough for the gated pods to have started wrongly.
    run("-n", space, "apply", "-f", "-", stdin=job("other"))
    run("-n", space, "wait", "job/other", "--for=condition=complete", WAIT)

    for pod in pods(run, space, "gated"):
        assert pod["status"]["phase"] == "Pending"
        assert "podIP" not in pod["status"]
        assert pod["spec"]["nodeName"]

    run("-n", space, "create", *creates, "--from-literal=generation=1")
    run("-n", space, "wait", "pods", "-l", "job-name=gated", "--for=condition=Ready", WAIT)
    for pod in pods(run, space, "gated"):
        assert pod["status"]["podIP"].startswith("10.64.")


def test_a_held_gang_takes_capacity_and_gives_it_back(run, space):
    """Eight accelerators are there; a held job of six leaves no room for four more."""
    held = job("held", pods=6, volumes=(config_map("never"),))
    run("-n", space, "apply", "-f", "-", stdin=held)
    waiting = "jsonpath={.status.containerStatuses[0].state.waiting.reason}=ContainerCreating"
    run("-n", space, "wait", "job/held", "--for=jsonpath={.status.active}=6", WAIT)
    run("-n", space, "wait", "pods", "-l", "job-name=held", f"--for={waiting}", WAIT)
    late = job("late", pods=4, annotations={kwok.RUN_FOR: kwok.FOREVER})
    run("-n", space, "apply", "-f", "-", stdin=late)
    while sorted(phases(run, space, "late")) != ["Pending", "Pending", "Running", "Running"]:
        time.sleep(0.1)
    without = [pod for pod in pods(run, space, "late") if "nodeName" not in pod["spec"]]
    assert len(without) == 2

    run("-n", space, "patch", "job/held", "-p", '{"spec":{"activeDeadlineSeconds":1}}')
    run("-n", space, "wait", "job/held", "--for=condition=failed", WAIT)
    run("-n", space, "wait", "pods", "-l", "job-name=late", "--for=condition=Ready", WAIT)
    run("-n", space, "delete", "job/late", "--cascade=foreground", WAIT)


def test_a_pod_does_not_wait_for_what_is_optional(run, space):
    text = job("short", volumes=(config_map("missing", optional=True),))
    run("-n", space, "apply", "-f", "-", stdin=text)

    run("-n", space, "wait", "job/short", "--for=condition=complete", WAIT)


def test_a_pod_starts_also_where_that_it_waits_is_told_after_that_it_runs(run, space):
    run("-n", space, "run", "late", "--image=any")
    run("-n", space, "wait", "pod/late", "--for=condition=Ready", WAIT)
    address = run("-n", space, "get", "pod/late", "-o", "jsonpath={.status.podIP}")

    ready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
    waits = {"name": "late", "image": "any", "imageID": "", "ready": False, "restartCount": 0}
    waits["state"] = {"waiting": {"reason": "ContainerCreating"}, "running": None}
    late = {"phase": "Pending", "conditions": [ready], "containerStatuses": [waits]}
    patch = json.dumps({"status": late})
    run("-n", space, "patch", "pod/late", "--subresource=status", "-p", patch)

    run("-n", space, "wait", "pod/late", "--for=condition=Ready", WAIT)
    seen = "jsonpath={.status.phase} {.status.podIP}"
    assert run("-n", space, "get", "pod/late", "-o", seen) == f"Running {address}"


@pytest.fixture
def pod(run, space) -> str:
    run("-n", space, "run", "web", "--image=any")
    run("-n", space, "wait", "pod/web", "--for=condition=Ready", WAIT)
    return "web"


@pytest.mark.parametrize("version", ["1.32", "1.36"])
def test_streams_of_a_pod_tell_the_member(kubectl, east, space, pod, version, tmp_path):
    call = kubectl(version)
    there = ("-n", space)
    seen = call(east.kubeconfig, "version", "--client", "-o", "json")
    assert json.loads(seen.out)["clientVersion"]["gitVersion"].startswith(f"v{version}.")

    assert call(east.kubeconfig, *there, "logs", pod).out.startswith("member east\n")
    assert call(east.kubeconfig, *there, "logs", pod, "--tail=1").out == "ready\n"
    told = call(east.kubeconfig, *there, "exec", pod, "--", "printenv", "FLEET_MEMBER")
    assert told == (0, "east\n", "")
    echoed = call(east.kubeconfig, *there, "exec", "-i", pod, "--", "cat", stdin="to the pod")
    assert echoed == (0, "to the pod", "")


def test_cp_goes_both_ways(run, space, pod, tmp_path):
    there = f"/tmp/fleet-testbed-{space}"
    sent, received = tmp_path / "sent", tmp_path / "received"
    sent.write_text("round trip")

    run("-n", space, "cp", str(sent), f"{pod}:{there}")
    try:
        run("-n", space, "cp", f"{pod}:{there}", str(received))
    finally:
        run("-n", space, "exec", pod, "--", "rm", there)
    assert received.read_text() == "round trip"


async def test_port_forward_answers(kubectl, east, space, pod, binaries):
    (local,) = layout.free_ports(1)
    forwarder = await asyncio.create_subprocess_exec(
        binaries["kubectl-1.36.3"],
        *("--kubeconfig", east.kubeconfig, "-n", space),
        *("port-forward", f"pod/{pod}", f"{local}:80", "--address=127.0.0.1"),
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": os.defpath, "HOME": "/nonexistent"},
    )
    assert forwarder.stdout is not None
    try:
        assert b"Forwarding" in await forwarder.stdout.readline()
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{local}/") as response:
                assert await response.text() == "member east\n"
    finally:
        forwarder.terminate()
        await forwarder.wait()


def test_a_debug_container_runs(run, space, pod):
    run("-n", space, "debug", pod, "--image=any", "--container=look", "--profile=general")

    started = "{.status.ephemeralContainerStatuses[0].state.running.startedAt}"
    run("-n", space, "wait", f"pod/{pod}", f"--for=jsonpath={started}", WAIT)


def test_members_have_addresses_of_their_own(kubectl, run, west):
    def address(text: str) -> str:
        return json.loads(text)["spec"]["clusterIP"]

    question = ("get", "service", "kubernetes", "-o", "json")
    assert address(run(*question)) != address(kubectl()(west.kubeconfig, *question).out)


def test_other_users_are_known_by_certificate(kubectl, east, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(east.kubeconfig_for("jane", groups=["dev"]))

    who = kubectl()(path, "auth", "whoami", "-o", "json")
    info = json.loads(who.out)["status"]["userInfo"]
    assert info["username"] == "jane"
    assert set(info["groups"]) == {"dev", "system:authenticated"}
    assert "forbidden" in kubectl()(path, "get", "pods").err


async def test_the_api_server_pauses_stops_and_comes_back(binaries, tmp_path):
    async with LocalCluster("lone", root=tmp_path / "lone", components=API_ONLY) as member:
        async with member.client() as client:
            await client.create(
                "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "kept"}}
            )
        await member.pause_api()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5), aiohttp.ClientSession() as session:
                await session.get(f"{member.server}/readyz", ssl=member.ssl_context())
        await member.resume_api()

        await member.stop_api()
        assert not listening(member.layout.ports.api)
        with pytest.raises(TestbedError, match="kube-apiserver is not running"):
            await member.pause_api()
        await member.start_api()
        async with member.client() as client:
            assert await client.get("/api/v1/namespaces/default/configmaps/kept")


async def test_down_leaves_no_process_and_no_port(binaries, tmp_path):
    home = tmp_path / "home"
    said: list[str] = []
    up = await commands.up("local", names=["solo"], home=home, progress=said.append)
    assert [member.summary for member in up] == ["ready"]
    member = layout.load(home / "solo")
    assert member is not None
    before = processes.recorded(member.run)
    assert all(listening(port) for port in ports(member))
    assert pids_mentioning(home) >= {process.pid for process in before.values()}

    again = await commands.up("local", names=["solo"], home=home, progress=said.append)
    assert processes.recorded(member.run) == before
    assert again == up

    assert await commands.down("local", home=home, progress=said.append) == ["solo"]
    assert pids_mentioning(home) == set()
    assert not any(listening(port) for port in ports(member))
    assert await commands.status("local", home=home) == []
    assert await commands.down("local", home=home, progress=said.append) == []


async def test_up_restarts_what_died(binaries, tmp_path):
    home = tmp_path / "home"
    said: list[str] = []
    try:
        await commands.up("local", names=["solo"], home=home, progress=said.append)
        before = processes.recorded(home / "solo" / "run")
        before["kwok"].send(signal.SIGKILL)
        before["kube-scheduler"].send(signal.SIGSTOP)
        assert await before["kwok"].gone(timeout_s=60)
        (seen,) = await commands.status("local", home=home)
        assert seen.summary == "kube-scheduler paused, kwok gone"

        nodes = [NodeShape(count=9, capacity={"cpu": "4"})]
        (mended,) = await commands.up(
            "local", names=["solo"], nodes=nodes, home=home, progress=said.append
        )
        assert mended.summary == "ready"
        after = processes.recorded(home / "solo" / "run")
        assert {name for name in before if before[name] != after[name]} == {"kwok"}
        assert "solo: there already, with the nodes that it was made with" in said
        made = layout.load(home / "solo")
        tls = admin.ssl_context(ca=made.ca, cert=made.cert("admin"), key=made.key("admin"))
        async with admin.AdminClient.connect(made.server, tls) as client:
            assert len((await client.get("/api/v1/nodes"))["items"]) == 2
    finally:
        await commands.down("local", home=home, progress=said.append)


async def test_a_start_that_fails_leaves_nothing_running(binaries, tmp_path):
    root = tmp_path / "wrong"
    member = LocalCluster(
        "wrong",
        root=root,
        components=API_ONLY,
        extra_args={"kube-apiserver": ["--no-such-flag"]},
    )
    with pytest.raises(TestbedError, match="no-such-flag"):
        await member.start()
    assert pids_mentioning(root) == set()
    assert (root / "log" / "kube-apiserver.log").exists()


async def test_nothing_outlives_a_killed_owner(binaries, tmp_path):
    """The owner gets SIGKILL, so no code of its own can clean up."""
    root = tmp_path / "owned"
    program = (
        "import asyncio, sys, pathlib\n"
        "from fleet.testbed.local import API_ONLY, LocalCluster\n"
        "async def main():\n"
        "    root = pathlib.Path(sys.argv[1])\n"
        "    async with LocalCluster('owned', root=root, components=API_ONLY):\n"
        "        print('up', flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(root), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    assert await owner.stdout.readline() == b"up\n"
    running = processes.recorded(root / "run")
    assert set(running) == set(API_ONLY)
    owner.kill()
    await owner.wait()

    for process in running.values():
        assert await process.gone(timeout_s=60)


def pods(run: Callable[..., str], space: str, owner: str) -> list[dict]:
    found = run("-n", space, "get", "pods", "-l", f"job-name={owner}", "-o", "json")
    return json.loads(found)["items"]


def phases(run: Callable[..., str], space: str, owner: str) -> list[str]:
    return [pod["status"]["phase"] for pod in pods(run, space, owner)]


def ports(member: layout.Layout) -> list[int]:
    return [member.ports.etcd, member.ports.etcd_peer, member.ports.api, member.ports.kubelet]


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def pids_mentioning(path: Path) -> set[int]:
    """Processes whose command line names a file below `path`."""
    found = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"{entry.path}/cmdline", "rb") as file:
                    command = file.read()
            except OSError:
                continue
            if str(path).encode() in command:
                found.add(int(entry.name))
    return found
