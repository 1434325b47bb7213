"""The controllers of Deployments, ReplicaSets and Services at work over a real store and API.

A stand-in for scheduler and kubelet binds every pod, makes it ready unless its image is `broken`,
and ends it when it is told to go.
"""

from __future__ import annotations

import asyncio
import ipaddress
import random
import uuid
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from fleet.apiserver.controllers import Controllers
from fleet.apiserver.kernel import Kernel
from fleet.apiserver.kinds import Kinds
from fleet.apiserver.writing import Writer
from fleet.kube.wire import Request, UserInfo
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from virtualnode import deployments, resources, services
from virtualnode.addresses import ServiceAddresses
from virtualnode.admission import ServiceAdmission
from virtualnode.conditions import find, is_true, stamp
from virtualnode.deployments import templates
from virtualnode.events import Recorder
from virtualnode.objects import Objects, controller_of, key_of
from virtualnode.openapi import ReleasedOpenApi
from virtualnode.reconciling import Queue
from virtualnode.resources import (
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    EVENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    SERVICES,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fleet.kube.resources import Resource
    from virtualnode.objects import Key

Object = dict[str, Any]
REVISION = "deployment.kubernetes.io/revision"
ALL = (DEPLOYMENTS, REPLICA_SETS, PODS, SERVICES, ENDPOINT_SLICES)


class Clock:
    def __init__(self) -> None:
        self.moment = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def pass_(self, **by: float) -> None:
        self.moment += timedelta(**by)


class Site:
    """A namespace `shop` in a store, and what one does there."""

    def __init__(self, store: ObjectStore) -> None:
        self.now = Clock()
        network = ipaddress.IPv4Network("127.128.0.0/24")
        addresses = ServiceAddresses(network, lambda: self.objects.list(SERVICES))
        writer = Writer(
            store,
            Kinds(),
            now=self.now,
            uid=lambda: str(uuid.uuid4()),
            random=random.Random(1),
            admission=(ServiceAdmission(addresses),),
            namespaces=NAMESPACES,
        )
        self.store = store
        self.objects = Objects(store, writer)
        self.recorder = Recorder(self.objects, now=self.now, host="test")
        self.kernel = Kernel(
            store,
            resources.ALL,
            kinds=Kinds(),
            writer=writer,
            openapi=ReleasedOpenApi(resources.ALL),
            wall_clock=lambda: self.now().timestamp(),
            rng=random.Random(1),
        )
        self.garbage = Controllers(store, lambda: resources.ALL, writer, now=self.now, root_ca="ca")
        self.kubelet = Queue("kubelet")
        self.changed = asyncio.Event()
        self.objects.follow(PODS, lambda change: self.kubelet.add(key_of(change.present)))
        for row in ALL:
            self.objects.follow(row, lambda _: self.changed.set())

    async def mind(self, key: Key) -> None:
        """What scheduler and kubelet do of a pod."""
        pod = self.objects.get(PODS, *key)
        if pod is None:
            return
        if pod["metadata"].get("deletionTimestamp"):
            await self.objects.delete(PODS, key, grace_s=0)
            return
        image = pod["spec"]["containers"][0]["image"]
        if is_true(pod, "Ready") or image == "broken":
            return
        number = int.from_bytes(pod["metadata"]["uid"].encode()[-3:], "big") % 250 + 1
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(self.now())}
        status = {
            "phase": "Running",
            "conditions": [ready],
            "podIPs": [{"ip": f"127.3.0.{number}"}],
        }
        await self.objects.change(
            PODS,
            key,
            lambda fresh: {
                **fresh,
                "spec": {**fresh["spec"], "nodeName": "n1"},
                "status": {**fresh["status"], **status},
            },
        )

    async def until(self, what: Callable[[], Any]) -> Any:
        """Wait until `what` is so; asked after every change."""
        async with asyncio.timeout(20):
            while not (found := what()):
                self.changed.clear()
                await self.changed.wait()
        return found

    async def quiet(self) -> None:
        """Wait until nobody has anything to do: no write for many turns of the loop."""
        still = 0
        revision = self.store.sequencer.current
        async with asyncio.timeout(20):
            while still < 60:
                await asyncio.sleep(0)
                still = still + 1 if revision == self.store.sequencer.current else 0
                revision = self.store.sequencer.current

    # -- the objects

    async def send(
        self, method: str, path: str, body: Object | None = None, kind: str = ""
    ) -> Object:
        content = kind or "application/json"
        request = Request(
            method,
            path,
            headers={"content-type": content, "accept": "application/json"},
            body=orjson.dumps(body) if body is not None else b"",
            user=UserInfo("admin", groups=("system:masters",)),
        )
        response = await self.kernel.handle(request)
        assert isinstance(response.body, bytes)
        found: Object = orjson.loads(response.body)
        return found

    async def make(self, name: str = "web", *, image: str = "one", **spec: Any) -> Object:
        labels = {"app": name}
        return await self.send("POST", "/apis/apps/v1/namespaces/shop/deployments", {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": image}]},
                },
                **spec,
            },
        })  # fmt: skip

    async def patch(self, spec: Object, name: str = "web") -> Object:
        path = f"/apis/apps/v1/namespaces/shop/deployments/{name}"
        return await self.send("PATCH", path, {"spec": spec}, "application/merge-patch+json")

    async def set_image(self, image: str) -> Object:
        return await self.patch(
            {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}
        )

    def deployment(self, name: str = "web") -> Object:
        found = self.objects.get(DEPLOYMENTS, "shop", name)
        assert found is not None
        return found

    def sets(self) -> dict[str, Object]:
        """ReplicaSets by image."""
        return {
            each["spec"]["template"]["spec"]["containers"][0]["image"]: each
            for each in self.objects.list(REPLICA_SETS, "shop")
        }

    def pods(self, row: Resource = PODS) -> list[Object]:
        return self.objects.list(row, "shop")

    def is_done(self, name: str = "web") -> bool:
        """As `kubectl rollout status` has it."""
        found = self.objects.get(DEPLOYMENTS, "shop", name)
        if found is None:
            return False
        status, wanted = found.get("status") or {}, found["spec"]["replicas"]
        return bool(
            status.get("observedGeneration", 0) >= found["metadata"]["generation"]
            and status.get("updatedReplicas", 0) == wanted
            and status.get("replicas", 0) == wanted
            and status.get("availableReplicas", 0) == wanted
        )

    def reason(self, kind: str = "Progressing") -> str:
        conditions = (self.deployment().get("status") or {}).get("conditions")
        found = find(conditions, kind)
        return "" if found is None else str(found["reason"])


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as store:
        it = Site(store)
        for name in ("shop",):
            await it.objects.create(
                NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        await it.objects.create(resources.NODES, node)
        parts = (
            *deployments.controllers(it.objects, it.recorder, now=it.now),
            *services.controllers(it.objects),
        )
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(part.run(), name=name) for name, part in parts]
            running.append(group.create_task(it.recorder.run(), name="events"))
            running.append(group.create_task(it.garbage.run(), name="garbage"))
            running.append(group.create_task(it.kubelet.run(it.mind), name="kubelet"))
            yield it
            for task in running:
                task.cancel()


async def test_a_deployment_comes_up_and_rests() -> None:
    async with site() as it:
        await it.make()
        await it.until(it.is_done)
        await it.until(lambda: it.reason() == "NewReplicaSetAvailable")
        assert it.deployment()["metadata"]["annotations"][REVISION] == "1"
        assert it.deployment()["metadata"]["generation"] == 1
        (replica_set,) = it.sets().values()
        for pod in it.pods():
            assert (controller_of(pod) or {})["uid"] == replica_set["metadata"]["uid"]
            assert pod["metadata"]["name"].startswith(f"{replica_set['metadata']['name']}-")
        await it.quiet()
        revision = it.store.sequencer.current
        again = dict(deployments.controllers(it.objects, it.recorder, now=it.now))
        await again["deployments"].reconcile(key_of(it.deployment()))
        await again["replica sets"].reconcile(key_of(replica_set))
        assert it.store.sequencer.current == revision


async def test_rolling_over_and_back() -> None:
    async with site() as it:
        await it.make()
        await it.until(it.is_done)
        first = it.sets()["one"]["metadata"]["uid"]
        await it.set_image("two")
        await it.until(lambda: it.is_done() and it.reason() == "NewReplicaSetAvailable")
        assert {i: s["spec"]["replicas"] for i, s in it.sets().items()} == {"one": 0, "two": 3}
        assert it.deployment()["metadata"]["annotations"][REVISION] == "2"
        await it.set_image("one")
        await it.until(it.is_done)
        back = it.sets()["one"]
        assert back["metadata"]["uid"] == first
        assert back["metadata"]["annotations"][REVISION] == "3"
        assert back["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
        await it.until(lambda: it.deployment()["metadata"]["annotations"][REVISION] == "3")


async def test_a_broken_rollout_leaves_enough_and_is_said_to_be_late() -> None:
    async with site() as it:
        await it.make(progressDeadlineSeconds=30)
        await it.until(it.is_done)
        await it.set_image("broken")
        await it.until(lambda: it.sets().get("broken", {}).get("status", {}).get("replicas") == 1)
        await it.quiet()
        assert it.deployment()["status"]["availableReplicas"] == 3
        it.now.pass_(seconds=40)
        await it.patch({"revisionHistoryLimit": 9})  # anything that brings it there
        await it.until(lambda: it.reason() == "ProgressDeadlineExceeded")
        await it.set_image("one")
        await it.until(it.is_done)
        await it.until(lambda: it.reason() == "NewReplicaSetAvailable")


async def test_recreate_has_no_old_pod_beside_a_new_one() -> None:
    async with site() as it:
        together: list[set[str]] = []
        it.objects.follow(PODS, lambda _: together.append(
            {p["spec"]["containers"][0]["image"] for p in it.pods()}
        ))  # fmt: skip
        await it.make(strategy={"type": "Recreate"})
        await it.until(it.is_done)
        await it.set_image("two")
        await it.until(lambda: it.is_done() and set(it.sets()) == {"one", "two"})
        assert {"two"} in together
        assert {"one", "two"} not in together


async def test_paused_then_scaled_then_resumed() -> None:
    async with site() as it:
        await it.make()
        await it.until(it.is_done)
        await it.patch({"paused": True})
        await it.set_image("two")
        await it.patch({"replicas": 5})
        await it.until(lambda: len(it.pods()) == 5 and it.reason() == "DeploymentPaused")
        await it.quiet()
        assert set(it.sets()) == {"one"}
        assert it.sets()["one"]["spec"]["replicas"] == 5
        await it.patch({"paused": False})
        await it.until(it.is_done)
        assert it.sets()["two"]["spec"]["replicas"] == 5


async def test_scale_by_the_subresource() -> None:
    async with site() as it:
        await it.make()
        await it.until(it.is_done)
        path = "/apis/apps/v1/namespaces/shop/deployments/web/scale"
        body = {"spec": {"replicas": 1}}
        await it.send("PATCH", path, body, "application/merge-patch+json")
        await it.until(it.is_done)
        scale = await it.send("GET", path)
        assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (1, 1)


async def test_min_ready_seconds_hold_availability_back() -> None:
    async with site() as it:
        await it.make(minReadySeconds=60)
        await it.until(lambda: it.deployment().get("status", {}).get("readyReplicas") == 3)
        await it.quiet()
        assert "availableReplicas" not in it.deployment()["status"]
        it.now.pass_(seconds=61)
        await it.objects.delete(PODS, key_of(it.pods()[0]))
        await it.until(lambda: it.deployment()["status"].get("availableReplicas") == 2)


async def test_orphans_are_adopted_and_strays_released() -> None:
    async with site() as it:
        await it.make()
        await it.until(it.is_done)
        stray = it.pods()[0]
        await it.send(
            "PATCH",
            f"/api/v1/namespaces/shop/pods/{stray['metadata']['name']}",
            {"metadata": {"labels": {"app": "taken-out"}}},
            "application/merge-patch+json",
        )
        await it.until(lambda: len(it.pods()) == 4 and it.is_done())
        left = it.objects.get(PODS, *key_of(stray))
        assert left is not None
        await it.until(lambda: controller_of(it.objects.get(PODS, *key_of(stray)) or left) is None)
        await it.send(
            "DELETE",
            "/apis/apps/v1/namespaces/shop/deployments/web",
            {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"},
        )
        await it.until(lambda: not it.pods(DEPLOYMENTS))
        before = {p["metadata"]["uid"] for p in it.pods()}
        (kept,) = it.sets().values()
        await it.until(lambda: controller_of(it.sets()["one"]) is None)
        await it.make()
        await it.until(it.is_done)
        assert {p["metadata"]["uid"] for p in it.pods()} == before
        (adopted,) = it.sets().values()
        assert adopted["metadata"]["uid"] == kept["metadata"]["uid"]


async def test_deleting_a_deployment_takes_everything_along() -> None:
    async with site() as it:
        await it.make()
        await it.until(it.is_done)
        await it.send("DELETE", "/apis/apps/v1/namespaces/shop/deployments/web")
        await it.until(lambda: not it.pods() and not it.sets())


async def test_a_name_that_is_taken_is_got_round() -> None:
    async with site() as it:
        await it.make(paused=True)
        await it.until(lambda: it.reason() == "DeploymentPaused")
        wanted = templates.replica_set_of(it.deployment(), replicas=0, annotations={})
        name = wanted["metadata"]["name"]
        labels = {"app": "somebody-else"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
        }
        await it.send("POST", "/apis/apps/v1/namespaces/shop/replicasets", {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
        })  # fmt: skip
        await it.patch({"paused": False})
        await it.until(it.is_done)
        assert it.deployment()["status"]["collisionCount"] == 1


async def test_events_tell_what_was_done() -> None:
    async with site() as it:
        await it.make(replicas=1)
        await it.until(it.is_done)
        await it.quiet()
        told = [(e["reason"], e["message"]) for e in it.pods(EVENTS)]
        (replica_set,) = it.sets().values()
        (pod,) = it.pods()
        name = replica_set["metadata"]["name"]
        assert ("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 1") in told
        assert ("SuccessfulCreate", f"Created pod: {pod['metadata']['name']}") in told


async def test_a_namespace_that_goes_away_is_left_in_peace() -> None:
    async with site() as it:
        await it.make()
        await it.until(it.is_done)
        await it.send("DELETE", "/api/v1/namespaces/shop")
        await it.until(lambda: not it.pods() and not it.sets() and not it.pods(DEPLOYMENTS))
        assert not [e for e in it.pods(EVENTS) if e["reason"].startswith("Failed")]


async def test_slices_follow_the_pods_and_go_with_the_service() -> None:
    async with site() as it:
        await it.make()
        await it.send("POST", "/api/v1/namespaces/shop/services", {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        })  # fmt: skip
        await it.send("POST", "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "mine", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.1.2.3"]}],
            "ports": [{"port": 80}],
        })  # fmt: skip

        def listed() -> list[str]:
            return sorted(
                e["targetRef"]["name"]
                for s in it.pods(ENDPOINT_SLICES)
                if s["metadata"]["name"] != "mine"
                for e in s["endpoints"]
                if e["conditions"]["ready"]
            )

        def ready() -> list[str]:
            return sorted(p["metadata"]["name"] for p in it.pods() if is_true(p, "Ready"))

        await it.until(lambda: it.is_done() and len(listed()) == 3 and listed() == ready())
        await it.set_image("two")
        await it.until(lambda: it.is_done() and len(listed()) == 3 and listed() == ready())
        (ours,) = [s for s in it.pods(ENDPOINT_SLICES) if s["metadata"]["name"] != "mine"]
        await it.objects.delete(ENDPOINT_SLICES, key_of(ours))
        await it.until(lambda: listed() == ready() and len(listed()) == 3)
        await it.send("DELETE", "/api/v1/namespaces/shop/services/web")
        await it.until(
            lambda: [s["metadata"]["name"] for s in it.pods(ENDPOINT_SLICES)] == ["mine"]
        )
