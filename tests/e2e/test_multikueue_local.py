"""A real Kueue in a manager and two workers: MultiKueue moves the work, the fleet says where to.

The objects are those of `examples/multikueue`. East and west have one node of four accelerators
each, and east comes first by the namespace's policy. Each test leaves no work behind.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from fleet.testbed import kueue
from fleet.testbed.components import API_ONLY, CONTROLLER_MANAGER
from fleet.testbed.local import LocalCluster
from fleet.testbed.shape import ACCELERATOR, NodeShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(400)]

EXAMPLES = Path(__file__).parents[2] / "examples" / "multikueue"
NAMESPACE = "payments"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{KUEUE}/namespaces/{NAMESPACE}/workloads"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
WORKERS = {"east": "east", "worker-2": "west"}


class Stage:
    def __init__(self, gateway: Any, doors: dict[str, Any]) -> None:
        self.gateway = gateway
        self.doors = doors
        self.hub = doors["hub"]

    # -- at the manager

    def submit(self, *, pods: int = 3, run_for: str = "forever") -> str:
        job = copy.deepcopy(yaml.safe_load((EXAMPLES / "job.yaml").read_text()))
        job["spec"] |= {"parallelism": pods, "completions": pods}
        job["spec"]["template"]["metadata"] = {
            "annotations": {"testbed.fleet.dev/run-for": run_for}
        }
        return str(self.hub.post(JOBS, job)["metadata"]["name"])

    def job(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.hub.get(f"{JOBS}/{name}")
        return found

    def workload(self, job: str) -> dict[str, Any]:
        for each in self.hub.get(WORKLOADS)["items"]:
            if [owner["name"] for owner in each["metadata"]["ownerReferences"]] == [job]:
                return {"status": {}, **each}
        return {"status": {}}

    def cluster(self, job: str) -> str:
        """The MultiKueueCluster that has it."""
        return str(self.workload(job)["status"].get("clusterName", ""))

    def nominated(self, job: str) -> list[str]:
        return list(self.workload(job)["status"].get("nominatedClusterNames") or ())

    def events(self, job: str, reason: str) -> list[str]:
        uid = self.workload(job)["metadata"]["uid"]
        path = f"/api/v1/namespaces/{NAMESPACE}/events"
        return [
            each["message"]
            for each in self.hub.get(path)["items"]
            if each["involvedObject"].get("uid") == uid and each["reason"] == reason
        ]

    # -- in a worker

    def running(self, member: str) -> dict[str, int]:
        """Pods on nodes, by Job."""
        found: dict[str, int] = {}
        for pod in self.doors[member].get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]:
            if pod["status"].get("phase") == "Running":
                name = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
                found[name] = found.get(name, 0) + 1
        return found

    def queue(self, member: str, **spec: Any) -> None:
        """Change a worker's ClusterQueue."""
        self.doors[member].patch(f"{KUEUE}/clusterqueues/payments", {"spec": spec})

    def until(self, condition: Callable[[], Any], *, within_s: float = 120) -> Any:
        deadline = time.monotonic() + within_s
        while not (found := condition()):
            assert time.monotonic() < deadline, [
                (each["metadata"]["name"], each["status"].get("clusterName"), each["status"])
                for each in self.hub.get(WORKLOADS)["items"]
            ]
            time.sleep(0.1)
        return found

    def clear(self) -> None:
        for job in self.hub.get(JOBS)["items"]:
            path = f"{JOBS}/{job['metadata']['name']}?propagationPolicy=Background"
            assert self.hub.request("DELETE", path).status in (200, 404)
        for door in self.doors.values():
            self.until(lambda door=door: not door.get(WORKLOADS)["items"])
        for member in WORKERS.values():
            pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
            self.until(lambda door=self.doors[member], pods=pods: not door.get(pods)["items"])


async def _start(members: dict[str, LocalCluster]) -> None:
    async with asyncio.TaskGroup() as group:
        for member in members.values():
            group.create_task(member.start())
    async with asyncio.TaskGroup() as group:
        for name, member in members.items():
            dispatcher = "fleet.dev/dispatcher" if name == "hub" else ""
            group.create_task(kueue.start(member, dispatcher=dispatcher))


@pytest.fixture(scope="module")
def whole(
    binaries: Any, start_gateway: Any, door_to: Any, kubectl: Any, tmp_path_factory: Any
) -> Iterator[Stage]:
    node = [NodeShape(capacity={ACCELERATOR: "4"})]
    options: dict[str, dict[str, Any]] = {
        "hub": {"components": (*API_ONLY, CONTROLLER_MANAGER), "network": 40},
        "east": {"nodes": node, "network": 41},
        "west": {"nodes": node, "network": 42},
    }
    members = {
        name: LocalCluster(name, root=tmp_path_factory.mktemp(name), **each)
        for name, each in options.items()
    }
    with ExitStack() as stack:
        for member in members.values():
            stack.callback(lambda member=member: asyncio.run(member.stop()))
        asyncio.run(_start(members))
        run = kubectl()

        def apply(kubeconfig: Path, name: str) -> None:
            code, _, err = run(kubeconfig, "apply", "-f", str(EXAMPLES / name))
            assert code == 0, err

        for name in WORKERS.values():
            apply(members[name].kubeconfig, "worker.yaml")
            text = base64.b64encode(members[name].kubeconfig.read_bytes()).decode()
            secret = {"metadata": {"name": name}, "data": {"kubeconfig": text}}
            door_to(members["hub"]).post("/api/v1/namespaces/kueue-system/secrets", secret)
        apply(members["hub"].kubeconfig, "rights.yaml")
        apply(members["hub"].kubeconfig, "manager.yaml")

        config = {"multiKueueManagers": ["hub"]}
        gateway = stack.enter_context(start_gateway(config=config, **members))
        door = gateway.door()
        for name in WORKERS.values():
            labels = {"site": "own"} if name == "east" else {}
            body = {
                "metadata": {"labels": labels},
                "spec": {"networks": {"parameterPlane": "roce-1"}},
            }
            door.patch(f"/apis/fleet.dev/v1alpha1/clusters/{name}", body)
        apply(gateway.kubeconfig, "fleet.yaml")
        yield Stage(gateway, {name: door_to(member) for name, member in members.items()})


@pytest.fixture
def stage(whole: Stage) -> Iterator[Stage]:
    yield whole
    whole.clear()


def test_a_job_runs_where_the_fleets_policy_prefers_and_its_end_is_told(stage):
    job = stage.submit(run_for="1s")
    stage.until(lambda: stage.cluster(job) == "east")
    stage.until(lambda: stage.job(job)["status"].get("succeeded") == 3)
    assert stage.events(job, "Nominated") == ["east has room for all of it (3 pods)"]
    assert stage.nominated(job) == []  # Kueue cleared them: they were its own to clear


def test_with_no_room_in_the_first_the_second_has_it_and_then_it_waits_for_the_first(stage):
    first = stage.submit()
    stage.until(lambda: stage.running("east") == {first: 3})
    second = stage.submit()
    stage.until(lambda: stage.running("west") == {second: 3})
    assert stage.cluster(second) == "worker-2"

    third = stage.submit()
    told = stage.until(lambda: stage.events(third, "NoRoom"))
    assert "needs 3" in told[0]
    assert (stage.nominated(third), stage.cluster(third)) == ([], "")

    stage.hub.delete(f"{JOBS}/{first}?propagationPolicy=Background")
    stage.until(lambda: stage.running("east") == {third: 3})
    assert stage.running("west") == {second: 3}


def test_jobs_that_come_together_do_not_get_the_same_room(stage):
    jobs = [stage.submit(pods=2) for _ in range(6)]
    stage.until(lambda: sum(bool(stage.cluster(job)) for job in jobs) == 4)
    stage.until(lambda: sum(stage.running("east").values()) == 4)
    stage.until(lambda: sum(stage.running("west").values()) == 4)
    waiting = [job for job in jobs if not stage.cluster(job)]
    for job in waiting:
        stage.until(lambda job=job: stage.events(job, "NoRoom"))
        assert stage.nominated(job) == []


def test_what_a_workers_own_kueue_refuses_goes_to_the_next(stage):
    """East's nodes have room, its queue has none: nobody but its Kueue knows."""
    resources = [{"name": "cpu", "nominalQuota": 128}, {"name": ACCELERATOR, "nominalQuota": 1}]
    group = {"coveredResources": ["cpu", ACCELERATOR]}
    before = stage.doors["east"].get(f"{KUEUE}/clusterqueues/payments")["spec"]["resourceGroups"]
    small = [{**group, "flavors": [{"name": "default", "resources": resources}]}]
    stage.queue("east", resourceGroups=small)
    try:
        job = stage.submit()
        stage.until(lambda: stage.running("west") == {job: 3})
        assert stage.events(job, "Nominated") != []
        stage.until(lambda: not stage.doors["east"].get(WORKLOADS)["items"])
    finally:
        stage.queue("east", resourceGroups=before)


def test_what_came_while_no_gateway_ran_is_nominated_by_the_next(stage):
    stage.gateway._process.send(signal.SIGKILL)
    stage.gateway.stop()
    job = stage.submit()
    stage.until(lambda: stage.workload(job)["status"].get("admissionChecks"))
    assert stage.nominated(job) == []
    stage.gateway.start()
    stage.until(lambda: stage.running("east") == {job: 3})
