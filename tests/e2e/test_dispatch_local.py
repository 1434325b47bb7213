"""One gang over two real control planes: held in both, committed once, or not at all.

kwok honours the gate: a pod whose ConfigMap is missing is bound and does not start.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from fleet.testbed.local import LocalCluster

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(400)]

RANKS = 12  # eight fit in each member
PLACEMENTS = "/apis/fleet.dev/v1alpha1/namespaces/{}/placements/job-train"


class Stage:
    """A gateway of its own over both members, a namespace that is the test's, and a policy."""

    def __init__(self, gateway: Any, namespace: str, members: dict[str, Any]) -> None:
        self.gateway = gateway
        self.namespace = namespace
        self.members = members
        self.door = gateway.door()

    # -- at the gateway

    def submit(self, ranks: int = RANKS, **spec: Any) -> None:
        container = {
            "name": "main", "image": "any", "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }  # fmt: skip
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train"},
            "spec": {
                "completions": ranks,
                "parallelism": ranks,
                "completionMode": "Indexed",
                "template": {
                    "metadata": {"annotations": {"testbed.fleet.dev/run-for": "forever"}},
                    "spec": {"restartPolicy": "Never", "containers": [container]},
                },
                **spec,
            },
        }
        self.door.post(f"/apis/batch/v1/namespaces/{self.namespace}/jobs", job)

    @property
    def job(self) -> dict[str, Any]:
        found: dict[str, Any] = self.door.get(
            f"/apis/batch/v1/namespaces/{self.namespace}/jobs/train"
        )
        return found

    def condition(self, kind: str) -> dict[str, Any] | None:
        conditions = self.job["status"].get("conditions") or ()
        return next((c for c in conditions if c["type"] == kind), None)

    @property
    def placement(self) -> dict[str, Any]:
        answer = self.door.request("GET", PLACEMENTS.format(self.namespace))
        return (answer.json.get("status") or {}) if answer.status == 200 else {}

    @property
    def phase(self) -> str:
        return str(self.placement.get("phase", ""))

    def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.door.get(f"/api/v1/namespaces/{self.namespace}/pods")[
            "items"
        ]
        return found

    # -- in a member, past the gateway

    def bound(self, member: str) -> list[dict[str, Any]]:
        answer = self.members[member].get(f"/api/v1/namespaces/{self.namespace}/pods")
        return [pod for pod in answer["items"] if pod["spec"].get("nodeName")]

    def named(self, member: str) -> set[str]:
        """The host names that resolve in a member."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"
        slices = self.members[member].get(path)["items"]
        return {each["hostname"] for piece in slices for each in piece["endpoints"] or ()}

    def verdict(self, member: str) -> str:
        """Why a member is used or not."""
        verdicts = {each["name"]: each for each in self.placement.get("clusters") or ()}
        return str(verdicts.get(member, {}).get("message", ""))

    def limit(self, **hard: str) -> str:
        """A quota `tight` in west, which no planner can know; its path once it is in force."""
        west = self.members["west"]
        accept = {"name": self.namespace, "labels": {"fleet.dev/accept": "true"}}
        west.post("/api/v1/namespaces", {"metadata": accept})
        quotas = f"/api/v1/namespaces/{self.namespace}/resourcequotas"
        west.post(quotas, {"metadata": {"name": "tight"}, "spec": {"hard": hard}})
        path = f"{quotas}/tight"
        self.until(lambda: (west.get(path).get("status") or {}).get("hard") == hard)
        return path

    def finish(self) -> None:
        """Have every pod that runs come to its end: after whatever is to be seen before that."""
        soon = {"metadata": {"annotations": {"testbed.fleet.dev/run-for": "1s"}}}
        for name, member in self.members.items():
            for pod in self.bound(name):
                path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
                member.patch(path, soon)

    def started(self) -> list[str]:
        return [
            pod["metadata"]["name"]
            for member in self.members
            for pod in self.bound(member)
            if pod["status"].get("phase") != "Pending"
        ]

    # -- waiting

    def until(self, condition: Callable[[], Any], *, within_s: float = 60) -> Any:
        """What `condition` gives once it is true."""
        deadline = time.monotonic() + within_s
        while not (found := condition()):
            assert time.monotonic() < deadline, f"{self.placement}\n{self.occupied()}"
            time.sleep(0.05)
        return found

    def occupied(self) -> str:
        """What takes room in the members, that of other tests too."""
        lines = []
        for name, member in self.members.items():
            for pod in member.get("/api/v1/pods")["items"]:
                metadata, status = pod["metadata"], pod["status"]
                if status.get("phase") not in ("Succeeded", "Failed"):
                    going = metadata.get("deletionTimestamp", "stays")
                    where = pod["spec"].get("nodeName", "no node")
                    called = f"{metadata['namespace']}/{metadata['name']}"
                    lines.append(f"{name}: {called} {status.get('phase')} on {where}, {going}")
        return "\n".join(lines)


class OnStage(Protocol):
    def __call__(self, **config: float) -> AbstractContextManager[Stage]: ...


@pytest.fixture
def on_stage(
    fleet: Any, east: LocalCluster, west: LocalCluster, door_to: Any, tmp_path: Path
) -> OnStage:
    """`with on_stage(holdSeconds=3) as stage`: with these settings of the gateway."""
    clusters = {"east": east, "west": west}
    doors = {name: door_to(member) for name, member in clusters.items()}

    @contextmanager
    def staged(**config: float) -> Iterator[Stage]:
        gateway = type(fleet)(tmp_path)
        settings = tmp_path / ".config" / "fleet" / "config.yaml"
        settings.parent.mkdir(parents=True)
        settings.write_text("".join(f"{key}: {value}\n" for key, value in config.items()))
        gateway.start()
        stage = Stage(gateway, f"gang-{time.time_ns():x}", doors)
        try:
            for name, member in clusters.items():
                gateway.join(name, member)
                networks = {"spec": {"networks": {"parameterPlane": "roce-1"}}}
                stage.door.patch(f"/apis/fleet.dev/v1alpha1/clusters/{name}", networks)
            stage.door.post("/api/v1/namespaces", {"metadata": {"name": stage.namespace}})
            policy = {
                "apiVersion": "fleet.dev/v1alpha1",
                "kind": "PlacementPolicy",
                "metadata": {"name": "split"},
                "spec": {"mode": "Split", "workloads": {}},
            }
            path = f"/apis/fleet.dev/v1alpha1/namespaces/{stage.namespace}/placementpolicies"
            stage.door.post(path, policy)
            yield stage
        finally:
            gateway.stop()
            for door in doors.values():
                _forget(door, stage.namespace)
        faults = gateway.faults()
        assert not faults, faults

    return staged


def _forget(member: Any, namespace: str) -> None:
    """Leave the member as it was found."""
    policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmission"
    for path in (
        f"/api/v1/namespaces/{namespace}",
        "/apis/scheduling.k8s.io/v1/priorityclasses/fleet-hold",
        f"{policies}policybindings/fleet-global-index",
        f"{policies}policies/fleet-global-index",
    ):
        assert member.request("DELETE", path).status in (200, 404)
    # What ends yet takes room: the next gang would be placed around it.
    deadline = time.monotonic() + 120
    while left := member.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_a_gang_is_held_in_both_members_and_then_runs(on_stage, kubectl):
    with on_stage() as stage:
        # West takes one pod at first: the gang is not whole, so nothing of it may start.
        stage.limit(pods="1")
        stage.submit()
        stage.until(lambda: len(stage.bound("east")) == 8 and len(stage.bound("west")) == 1)
        assert stage.phase == "Holding"
        assert stage.started() == []
        # A kubelet's complaint of the gate is no fault, and shown in the member alone.
        events = f"/api/v1/namespaces/{stage.namespace}/events"
        gate = 'MountVolume.SetUp failed for volume "fleet-gate" : configmap "train-g1-east-gate"'
        stage.until(
            lambda: any(
                each["message"].startswith(gate)
                for each in stage.members["east"].get(events)["items"]
            )
        )

        stage.door.delete(f"/api/v1/namespaces/{stage.namespace}.west/resourcequotas/tight")
        stage.until(lambda: stage.phase == "Running")
        pods = stage.pods()
        ranks = {int(pod["metadata"]["annotations"]["fleet.dev/global-index"]) for pod in pods}
        assert ranks == set(range(RANKS))
        assert {pod["spec"]["hostname"] for pod in pods} == {f"train-{n}" for n in range(RANKS)}
        assert {pod["metadata"]["labels"]["fleet.dev/cluster"] for pod in pods} == {"east", "west"}
        shown = {each["reason"] for each in stage.door.get(events)["items"]}
        assert "Scheduled" in shown and "FailedMount" not in shown
        everybody = {f"train-{n}" for n in range(RANKS)}
        stage.until(lambda: stage.named("west") == everybody == stage.named("east"))

        run = kubectl()
        last = next(
            pod["metadata"]["name"] for pod in pods if pod["spec"]["hostname"] == "train-11"
        )
        code, out, err = run(stage.gateway.kubeconfig, "-n", stage.namespace, "logs", last)
        assert (code, err) == (0, "") and out
        code, out, err = run(stage.gateway.kubeconfig, "-n", stage.namespace, "logs", "job/train")
        assert code == 0, err

        stage.finish()
        stage.until(lambda: stage.condition("Complete"))
        assert stage.job["status"]["succeeded"] == RANKS
        assert stage.job["status"]["completedIndexes"] == f"0-{RANKS - 1}"
        code, out, err = run(
            stage.gateway.kubeconfig, "-n", stage.namespace, "delete", "job", "train", "--wait"
        )
        assert code == 0, err
        for member in stage.members:
            assert stage.bound(member) == []


def test_with_one_member_too_small_nothing_starts_and_all_is_released(on_stage):
    with on_stage(holdSeconds=20) as stage:
        stage.limit(pods="1")
        stage.submit()
        stage.until(lambda: len(stage.bound("east")) == 8)
        stage.until(lambda: stage.phase == "Queued")
        stage.until(lambda: not stage.bound("east") and not stage.bound("west"))
        assert stage.started() == []
        told = stage.until(lambda: stage.condition("fleet.dev/Placed"))
        assert told["status"] == "False"
        told = "put 1 of 4 pods on nodes in 20 s"
        stage.until(lambda: told in stage.verdict("west"))
        assert "exceeded quota" in stage.verdict("west")
        events = f"/api/v1/namespaces/{stage.namespace}/events"
        stage.until(
            lambda: any(
                "not all parts could be held" in event["message"]
                for event in stage.door.get(events)["items"]
            )
        )


def test_a_gang_that_fits_on_no_plane_touches_no_member(on_stage):
    with on_stage() as stage:
        stage.submit(ranks=20)
        told = "roce-1 has 16 free, needs 20"
        stage.until(lambda: told in (stage.condition("fleet.dev/Placed") or {}).get("message", ""))
        for member in stage.members.values():
            found = member.get("/api/v1/namespaces")["items"]
            assert stage.namespace not in [each["metadata"]["name"] for each in found]


def test_survivors_go_on_while_a_member_hangs_and_its_old_copy_goes_when_it_is_back(on_stage, west):
    with on_stage(leaseSeconds=20) as stage:
        stage.submit()
        stage.until(lambda: stage.phase == "Running")
        before = {pod["metadata"]["uid"] for pod in stage.bound("east")}
        asyncio.run(west.pause_api())
        try:
            stage.until(lambda: stage.phase == "Lost")
            assert {pod["metadata"]["uid"] for pod in stage.bound("east")} == before
            assert [debt["cluster"] for debt in stage.placement["owed"]] == ["west"]
        finally:
            asyncio.run(west.resume_api())
        stage.until(lambda: stage.phase == "Running" and stage.placement["generation"] == 2)
        assert {pod["metadata"]["uid"] for pod in stage.bound("east")} == before
        shards = {each["cluster"]: each["generation"] for each in stage.placement["shards"]}
        assert shards == {"east": 1, "west": 2}
        stage.until(lambda: "owed" not in stage.placement)
        names = {pod["metadata"]["labels"]["fleet.dev/shard"] for pod in stage.bound("west")}
        assert names == {"train-g2-west"}


def test_a_gateway_that_comes_back_goes_on_where_it_was(on_stage):
    with on_stage() as stage:
        stage.submit()
        stage.until(lambda: stage.phase == "Running")
        before = {pod["metadata"]["name"] for pod in stage.pods()}
        stage.gateway._process.send(signal.SIGKILL)
        stage.gateway.stop()
        stage.gateway.start()
        stage.door = stage.gateway.door()
        stage.until(lambda: {pod["metadata"]["name"] for pod in stage.pods()} == before)
        stage.finish()
        stage.until(lambda: stage.condition("Complete"))
        assert stage.placement["generation"] == 1
        assert stage.job["status"]["succeeded"] == RANKS


def test_a_gateway_killed_while_holding_leaves_nothing_held(on_stage):
    with on_stage(leaseSeconds=15) as stage:
        stage.limit(pods="1")
        stage.submit()
        stage.until(lambda: len(stage.bound("east")) == 8 and len(stage.bound("west")) == 1)
        stage.gateway._process.send(signal.SIGKILL)
        deadline = time.monotonic() + 60
        while stage.bound("east") or stage.bound("west"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert stage.started() == []


def test_what_is_orphaned_across_a_death_of_the_gateway_is_the_members_own(on_stage, kubectl):
    with on_stage() as stage:
        stage.submit()
        stage.until(lambda: stage.phase == "Running")
        before = {pod["metadata"]["uid"] for name in stage.members for pod in stage.bound(name)}
        jobs = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
        stage.door.delete(f"{jobs}/train?propagationPolicy=Orphan")
        stage.gateway._process.send(signal.SIGKILL)
        stage.gateway.stop()
        stage.gateway.start()
        stage.door = stage.gateway.door()
        stage.until(lambda: stage.door.request("GET", f"{jobs}/train").status == 404)
        for member in stage.members.values():
            (job,) = member.get(jobs)["items"]
            assert "activeDeadlineSeconds" not in job["spec"]
        after = {pod["metadata"]["uid"] for name in stage.members for pod in stage.bound(name)}
        assert after == before
        shown = f"/api/v1/namespaces/{stage.namespace}.east/pods"
        pods = stage.until(lambda: stage.door.get(shown)["items"])
        stage.until(lambda: not stage.pods())
        name = pods[0]["metadata"]["name"]
        code, out, err = kubectl()(
            stage.gateway.kubeconfig, "-n", f"{stage.namespace}.east", "logs", name
        )
        assert (code, err) == (0, "") and out


def test_a_gang_does_not_begin_where_a_quota_forbids_its_gate(on_stage):
    with on_stage() as stage:
        # None at all: how many there are is counted by a controller, and it may count late.
        tight = stage.limit(configmaps="0")
        west = stage.members["west"]
        probe = f"/api/v1/namespaces/{stage.namespace}/configmaps?dryRun=All"
        named = {"metadata": {"name": "probe"}}
        stage.until(lambda: west.request("POST", probe, named).status == 403)
        stage.submit()
        stage.until(lambda: "exceeded quota: tight" in stage.verdict("west"))
        stage.until(lambda: not stage.bound("east") and not stage.bound("west"))
        assert stage.started() == []
        west.delete(tight)
        stage.until(lambda: stage.phase == "Running", within_s=120)


def test_a_shard_that_somebody_suspends_in_its_member_is_placed_anew(on_stage):
    with on_stage() as stage:
        stage.submit()
        stage.until(lambda: stage.phase == "Running")
        before = {pod["metadata"]["uid"] for pod in stage.bound("east")}
        jobs = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
        stage.members["west"].patch(f"{jobs}/train-g1-west", {"spec": {"suspend": True}})
        stage.until(lambda: stage.phase == "Lost")
        stage.until(
            lambda: stage.phase == "Running" and stage.placement["generation"] == 2, within_s=120
        )
        assert {pod["metadata"]["uid"] for pod in stage.bound("east")} == before
        assert "owed" not in stage.placement


def test_an_elastic_gang_starts_smaller_goes_on_without_a_member_and_grows_again(on_stage, west):
    with on_stage(leaseSeconds=15) as stage:
        policies = f"/apis/fleet.dev/v1alpha1/namespaces/{stage.namespace}/placementpolicies"
        stage.door.patch(f"{policies}/split", {"spec": {"gang": {"min": 4, "unit": 2}}})

        def whole():
            return stage.phase == "Running" and stage.placement["ranks"] == "16 of 20"

        stage.submit(20)
        stage.until(whole)  # sixteen fit, whichever member is known first
        stage.until(lambda: len(stage.pods()) == 16)  # seen a moment later than it is known
        kept = {pod["metadata"]["uid"] for pod in stage.bound("east")}
        asyncio.run(west.pause_api())
        try:
            stage.until(lambda: stage.placement["ranks"] == "8 of 20", within_s=90)
            assert stage.phase == "Running"
            assert stage.condition("fleet.dev/AllRanks")["reason"] == "Smaller"
        finally:
            asyncio.run(west.resume_api())
        stage.until(whole, within_s=120)
        assert {pod["metadata"]["uid"] for pod in stage.bound("east")} == kept
        told = stage.members["west"].get(f"/api/v1/namespaces/{stage.namespace}/configmaps")
        (gate,) = [each["data"] for each in told["items"] if "FLEET_NODES" in each.get("data", {})]
        assert (gate["FLEET_NODES"], gate["PET_NNODES"]) == ("16", "4:20")
        assert stage.condition("Failed") is None


def test_what_is_drained_is_told_and_moves_once_there_is_another_place(on_stage, kubectl):
    with on_stage(leaseSeconds=20) as stage:
        stage.submit(ranks=8)
        stage.until(lambda: stage.phase == "Running")
        (shard,) = stage.placement["shards"]
        here = shard["cluster"]
        (there,) = stage.members.keys() - {here}
        path = "/api/v1/nodes"
        nodes = {
            name: [f"{each['metadata']['name']}.{name}" for each in door.get(path)["items"]]
            for name, door in stage.members.items()
        }

        def run(*args: str) -> str:
            code, out, err = kubectl()(stage.gateway.kubeconfig, *args)
            assert code == 0, err
            return str(out)

        def told() -> dict[str, Any]:
            (found,) = stage.placement.get("shards") or ({},)
            return dict(found)

        try:
            run("cordon", *nodes[there])
            # Other tests have pods of their own there, with disruption budgets.
            mine = "--pod-selector=batch.kubernetes.io/job-name=train"
            run("drain", *nodes[here], mine, "--timeout=50s")
            stage.until(lambda: told().get("amissPods") == 8)
            # Past its time, and there is no other place: it stays, and says so.
            stage.until(lambda: "as soon as there is another place" in told().get("message", ""))
            assert told()["amissPods"] == 8
            assert stage.phase == "Running"
            # A Job controller that lost many pods at once waits before it makes them again.
            stuck = ("NoNode", "NotMade")
            stage.until(lambda: (stage.condition("fleet.dev/Placed") or {}).get("reason") in stuck)
            events = run("-n", stage.namespace, "events", "--for", "job/train")
            assert any(reason in events for reason in stuck)
            run("uncordon", *nodes[there])
            stage.until(lambda: told().get("cluster") == there and stage.phase == "Running")
            assert len(stage.bound(there)) == 8
            assert stage.bound(here) == []
        finally:
            run("uncordon", *nodes[here], *nodes[there])
