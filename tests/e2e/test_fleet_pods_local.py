"""Pods of the fleet over two real control planes, while gateway and members fail."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fleet.testbed.local import LocalCluster

pytestmark = pytest.mark.controlplane

# No planner can know of it: the member's scheduler waits for a pod that never comes.
NEEDS_COMPANY = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "nobody"}},
             "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}  # fmt: skip


class Stage:
    """A gateway of its own over both members, and a namespace that is the test's."""

    def __init__(self, gateway: Any, namespace: str, members: dict[str, Any]) -> None:
        self.gateway = gateway
        self.namespace = namespace
        self.members = members
        self.door = gateway.door()

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def run(self, name: str = "web", **spec: Any) -> None:
        spec = {"containers": [{"name": "main", "image": "any"}], **spec}
        self.door.post(self.pods, {"metadata": {"name": name}, "spec": spec})

    def pod(self, name: str = "web") -> dict[str, Any]:
        answer = self.door.request("GET", f"{self.pods}/{name}")
        return answer.json if answer.status == 200 else {}

    def condition(self, kind: str) -> dict[str, Any]:
        conditions = (self.pod().get("status") or {}).get("conditions") or ()
        return next((each for each in conditions if each["type"] == kind), {})

    def running(self) -> bool:
        return bool(self.condition("Ready").get("status") == "True")

    @property
    def placement(self) -> dict[str, Any]:
        path = f"/apis/fleet.dev/v1alpha1/namespaces/{self.namespace}/placements/pod-web"
        answer = self.door.request("GET", path)
        return (answer.json.get("status") or {}) if answer.status == 200 else {}

    def shards(self) -> list[dict[str, Any]]:
        """The pods in members, past the gateway."""
        return [
            item for member in self.members.values() for item in member.get(self.pods)["items"]
        ]  # fmt: skip

    def killed(self) -> None:
        self.gateway._process.send(signal.SIGKILL)
        self.gateway.stop()

    def back(self) -> None:
        self.gateway.start()
        self.door = self.gateway.door()

    def until(self, condition: Callable[[], Any], *, within_s: float = 60) -> Any:
        deadline = time.monotonic() + within_s
        while not (found := condition()):
            assert time.monotonic() < deadline, (self.pod(), self.placement)
            time.sleep(0.05)
        return found


@pytest.fixture
def on_stage(
    fleet: Any, east: LocalCluster, west: LocalCluster, door_to: Any, tmp_path: Path
) -> Any:
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
        stage = Stage(gateway, f"pods-{time.time_ns():x}", doors)
        try:
            for name, member in clusters.items():
                gateway.join(name, member)
            stage.door.post("/api/v1/namespaces", {"metadata": {"name": stage.namespace}})
            yield stage
        finally:
            gateway.stop()
            for door in doors.values():
                for path in (
                    f"/api/v1/namespaces/{stage.namespace}",
                    "/apis/scheduling.k8s.io/v1/priorityclasses/fleet-hold",
                ):
                    assert door.request("DELETE", path).status in (200, 404)
        assert not gateway.faults()

    return staged


def test_a_gateway_killed_while_it_holds_leaves_nothing_held_once_it_is_back(on_stage: Any) -> None:
    with on_stage(holdSeconds=15) as stage:
        stage.run(affinity=NEEDS_COMPANY)
        stage.until(stage.shards)
        stage.killed()
        (held,) = stage.shards()  # nothing in the member ends it, and nothing of it has started
        assert held["status"]["phase"] == "Pending"
        stage.back()

        def let_go() -> bool:
            told = stage.condition("PodScheduled").get("message", "")
            return not stage.shards() and "match pod affinity rules" in told

        stage.until(let_go, within_s=120)  # the other member is tried as well
        stage.door.delete(f"{stage.pods}/web")
        stage.until(lambda: not stage.placement)


def test_a_gateway_that_comes_back_goes_on_where_it_was(on_stage: Any) -> None:
    with on_stage() as stage:
        stage.run()
        stage.until(stage.running)
        (before,) = stage.shards()
        stage.killed()
        stage.back()
        stage.until(stage.running)
        (after,) = stage.shards()
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        stage.door.delete(f"{stage.pods}/web")
        stage.until(lambda: not stage.pod())
        assert stage.shards() == []


def test_silence_of_its_member_moves_it_nowhere(
    on_stage: Any, east: LocalCluster, west: LocalCluster
) -> None:
    with on_stage(leaseSeconds=5) as stage:
        stage.run()
        stage.until(stage.running)
        cluster = stage.pod()["metadata"]["labels"]["fleet.dev/cluster"]
        (before,) = stage.shards()
        member = {"east": east, "west": west}[cluster]
        asyncio.run(member.pause_api())
        try:
            told = stage.until(lambda: stage.condition("fleet.dev/Reachable"))
            assert told["status"] == "False"
            assert stage.running()  # as it was last
            assert stage.placement["phase"] == "Running"
            assert stage.placement["fencing"] == "Confirmed"
        finally:
            asyncio.run(member.resume_api())
        stage.until(lambda: not stage.condition("fleet.dev/Reachable"))
        assert [each["metadata"]["uid"] for each in stage.shards()] == [before["metadata"]["uid"]]
