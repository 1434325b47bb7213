"""Deployments and Services of an embedded cluster against those of a real one.

One story is played in both: a Deployment comes up, is rolled over, gets stuck, is scaled while it
is, goes back, is paused, is re-created; Services follow. After each chapter what both say is
compared – statuses, reasons, revisions, sizes, endpoints – with names, times and addresses masked.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import orjson
import pytest

from fleet.kube.wire import Request, UserInfo
from virtualnode.cluster import Cluster, ClusterSpec
from virtualnode.nodes import NodeSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.controlplane

Object = dict[str, Any]
SPACE = "rollouts"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SPACE}/deployments"
SETS = f"/apis/apps/v1/namespaces/{SPACE}/replicasets"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
SERVICES = f"/api/v1/namespaces/{SPACE}/services"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{SPACE}/endpointslices"
REVISION = "deployment.kubernetes.io/revision"
_TIMES = ("lastUpdateTime", "lastTransitionTime")
_OUT_OF_SIGHT = ("endpoints.kubernetes.io/last-change-trigger-time",)


class Api(Protocol):
    async def __call__(
        self, method: str, path: str, body: Any = None, kind: str = ""
    ) -> Object: ...


# -- an embedded cluster whose containers run until they are stopped


class Idle:
    """A run of a container that does nothing."""

    stdin = None
    log = None

    def __init__(self) -> None:
        self._ended: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()

    async def wait(self) -> tuple[int, int]:
        return await asyncio.shield(self._ended)

    async def signal(self, number: int) -> None:
        if not self._ended.done():
            self._ended.set_result((0, 0))


class IdleSandbox:
    def __init__(self, address: str) -> None:
        self.address = address

    def publish(self, volume: str, files: Any) -> None: ...

    def empty(self, volume: str) -> None: ...

    def name_hosts(self, text: str) -> None: ...

    def termination_message(self, container: str) -> str:
        return ""

    def log(self, container: str, attempt: int) -> None: ...

    async def start(self, container: str, **how: Any) -> Idle:
        return Idle()

    async def execute(self, container: str, argv: Any, **how: Any) -> Any:
        raise OSError("nothing runs here")

    async def close(self) -> None: ...


class IdleRuntime:
    name = "idle://1"
    isolation = "nothing runs"

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def refusal(self, container: Any) -> str:
        return ""

    def sandbox(self, **whose: Any) -> IdleSandbox:
        high, low = divmod(next(self._numbers), 250)
        return IdleSandbox(f"127.64.{high}.{low + 1}")


@asynccontextmanager
async def embedded() -> AsyncIterator[Api]:
    zone = {"topology.kubernetes.io/zone": "east-a"}  # where the real one's nodes are
    spec = ClusterSpec("small", nodes=[NodeSpec(name, labels=zone) for name in ("n1", "n2")])
    async with Cluster(spec, IdleRuntime()) as cluster:

        async def send(method: str, path: str, body: Any = None, kind: str = "") -> Object:
            content = f"application/{kind}-patch+json" if kind else "application/json"
            response = await cluster.handle(
                Request(
                    method,
                    path,
                    headers={"content-type": content, "accept": "application/json"},
                    body=orjson.dumps(body) if body is not None else b"",
                    user=UserInfo("admin", groups=("system:masters",)),
                )
            )
            text = response.body
            if not isinstance(text, bytes):
                text = b"".join(text)
            found: Object = orjson.loads(text)
            return found

        yield send


def real(door: Any) -> Api:
    async def send(method: str, path: str, body: Any = None, kind: str = "") -> Object:
        content = f"application/{kind}-patch+json" if kind else "application/json"
        answer = await asyncio.to_thread(
            door.request, method, path, body, headers={"Content-Type": content}
        )
        assert answer.status < 300, (method, path, answer.body[:2000])
        found: Object = orjson.loads(answer.body)
        return found

    return send


# -- what is compared


async def view(api: Api) -> Object:
    """All that the two must agree on."""
    sets = (await api("GET", SETS))["items"]
    names = {each["metadata"]["name"]: f"<{image_of(each)}>" for each in sets}
    pods: dict[str, int] = {}
    for pod in (await api("GET", PODS))["items"]:
        image = pod["spec"]["containers"][0]["image"]
        pods[image] = pods.get(image, 0) + 1
    found = {
        "deployments": [
            seen(each, names)
            for each in (await api("GET", DEPLOYMENTS))["items"]
        ],
        "sets": sorted((seen(each, names) for each in sets), key=canonical),
        "pods": pods,
        "slices": sorted(
            (slice_seen(each) for each in (await api("GET", SLICES))["items"]), key=canonical
        ),
    }  # fmt: skip
    return found


def image_of(obj: Object) -> str:
    return str(obj["spec"]["template"]["spec"]["containers"][0]["image"])


def seen(obj: Object, names: dict[str, str]) -> Object:
    metadata = obj["metadata"]
    status = dict(obj["status"])
    said = status.pop("conditions", [])
    for each in said:
        each["message"] = re.sub(r'"(.+?)"', lambda m: names.get(m[1], m[1]), each["message"])
    labels = metadata.get("labels") or {}
    owners = [o["kind"] for o in metadata.get("ownerReferences", ())]
    return {
        # How many steps a set is resized in is a matter of who comes first.
        "generation": metadata["generation"] if not owners else None,
        "image": image_of(obj),
        "observed": status.pop("observedGeneration", 0) == metadata["generation"],
        "labels": {k: "*" if k == "pod-template-hash" else v for k, v in labels.items()},
        "annotations": metadata.get("annotations"),
        "owners": owners,
        "replicas": obj["spec"]["replicas"],
        "status": status,
        "conditions": sorted(
            ({k: v for k, v in c.items() if k not in _TIMES} for c in said), key=canonical
        ),
    }


def canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def slice_seen(obj: Object) -> Object:
    metadata = obj["metadata"]
    members = [
        {
            **each,
            "addresses": len(each["addresses"]),
            "targetRef": each["targetRef"]["kind"],
            "nodeName": bool(each.get("nodeName")),
        }
        for each in obj.get("endpoints") or ()
    ]
    annotations = metadata.get("annotations") or {}
    return {
        "labels": metadata["labels"],
        "annotations": {k: v for k, v in annotations.items() if k not in _OUT_OF_SIGHT},
        "named": re.sub(r"-[a-z0-9]{5}$", "-*", metadata["name"]),
        "owners": [(o["kind"], o["name"], o["controller"]) for o in metadata["ownerReferences"]],
        "type": obj["addressType"],
        "ports": sorted(obj.get("ports") or (), key=canonical),
        "endpoints": sorted(members, key=canonical),
    }


# -- the story


def deployment() -> Object:
    labels = {"app": "web"}
    container = {"name": "c", "image": "one", "ports": [{"name": "http", "containerPort": 8080}]}
    return {
        "metadata": {"name": "web", "labels": labels, "annotations": {"note": "kept"}},
        "spec": {
            "replicas": 4,
            "progressDeadlineSeconds": 5,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "hostname": "host",
                    "subdomain": "named",
                    "containers": [container],
                },
            },
        },
    }


def service(name: str, **spec: Any) -> Object:
    ports = [{"name": "web", "port": 80, "targetPort": "http"}]
    metadata = {"name": name, "labels": {"of": name}}
    return {"metadata": metadata, "spec": {"selector": {"app": "web"}, "ports": ports, **spec}}


def done(found: Object, image: str, replicas: int) -> bool:
    """Whether the rollout to an image is over, and everybody has said so."""
    (it,) = found["deployments"]
    new = next((s for s in found["sets"] if s["image"] == image), None)
    status = it["status"]
    return bool(
        reason(it) == "NewReplicaSetAvailable"
        and new is not None
        and status.get("updatedReplicas", 0)
        == new["status"].get("availableReplicas", 0)
        == replicas
        and status.get("replicas", 0) == status.get("availableReplicas", 0) == replicas
        and found["pods"] == ({image: replicas} if replicas else {})
        and not status["terminatingReplicas"]
        and it["annotations"].get(REVISION) == new["annotations"][REVISION]
        and it["observed"]
    )


def at_rest(found: Object) -> bool:
    """Whether a set has counted its pods since the last one came or went.

    The pass that observes a new size counts what was there before it acted.
    """
    status = found["status"]
    return found["observed"] and (status["replicas"], status.get("terminatingReplicas", 0)) == (
        found["replicas"],
        0,
    )


def reason(it: Object) -> str:
    return next((c["reason"] for c in it["conditions"] if c["type"] == "Progressing"), "")


def stuck(found: Object, old: int, new: int) -> bool:
    (it,) = found["deployments"]
    return (
        found["pods"] == {"two": old, "stuck": new}
        and reason(it) == "ProgressDeadlineExceeded"
        and it["status"]["replicas"] == old + new
        and it["observed"]
        and not it["status"]["terminatingReplicas"]
    )


async def story(api: Api) -> AsyncIterator[tuple[str, Object]]:
    """Play it; gives each chapter's name and what there is at its end."""
    web = f"{DEPLOYMENTS}/web"

    async def patch(spec: Object) -> None:
        await api("PATCH", web, {"spec": spec}, "merge")

    async def image(name: str, **spec: Any) -> None:
        one = {"name": "c", "image": name, "ports": [{"name": "http", "containerPort": 8080}]}
        await patch({"template": {"spec": {"containers": [one], **spec}}})

    async def undo(to: str) -> None:
        """What `kubectl rollout undo` sends."""
        for each in (await api("GET", SETS))["items"]:
            if image_of(each) == to:
                template = each["spec"]["template"]
                del template["metadata"]["labels"]["pod-template-hash"]
                change = {"op": "replace", "path": "/spec/template", "value": template}
                await api("PATCH", web, [change], "json")

    async def until(what: Callable[[Object], bool]) -> Object:
        # A view is several reads: it is of one moment where the next one is no different.
        before: Object = {}
        async with asyncio.timeout(90):
            while True:
                found = await view(api)
                if found == before and what(found) and all(at_rest(s) for s in found["sets"]):
                    return found
                before = found
                await asyncio.sleep(0.05)

    def served(found: Object, count: int) -> bool:
        """Whether every slice has come to rest with so many pods."""
        there = {}
        for each in found["slices"]:
            conditions = [e["conditions"] for e in each["endpoints"]]
            resting = all(c["serving"] and not c["terminating"] for c in conditions)
            there[each["labels"]["kubernetes.io/service-name"]] = len(conditions) if resting else -1
        return there == {"empty": 0, "web": count, "named": count}

    await api("POST", SERVICES, service("empty", selector={"app": "nobody"}))
    await api("POST", SERVICES, service("web"))
    await api("POST", SERVICES, service("named", clusterIP="None", publishNotReadyAddresses=True))
    await api("POST", SERVICES, service("unselected", selector=None))
    await api("POST", DEPLOYMENTS, deployment())
    yield (
        "created",
        await until(lambda v: done(v, "one", 4) and served(v, 4)),
    )
    await image("two")
    yield "rolled over", await until(lambda v: done(v, "two", 4) and served(v, 4))
    await image("stuck", volumes=[{"name": "v", "configMap": {"name": "missing"}}])
    yield "stuck", await until(lambda v: stuck(v, 3, 2))
    await patch({"replicas": 8})
    yield "scaled while stuck", await until(lambda v: stuck(v, 6, 4) and served(v, 6))
    await undo("two")
    yield "gone back", await until(lambda v: done(v, "two", 8) and served(v, 8))
    await patch({"paused": True})
    await image("three", volumes=None)
    await patch({"replicas": 3})
    yield (
        "paused and scaled",
        await until(
            lambda v: (
                v["pods"] == {"two": 3}
                and reason(v["deployments"][0]) == "DeploymentPaused"
                and v["deployments"][0]["status"].get("replicas") == 3
                and not v["deployments"][0]["status"]["terminatingReplicas"]
                and served(v, 3)
            )
        ),
    )
    await patch({"paused": False, "revisionHistoryLimit": 1})
    yield (
        "resumed, history cut",
        await until(lambda v: done(v, "three", 3) and len(v["sets"]) == 2 and served(v, 3)),
    )
    await patch({"strategy": {"type": "Recreate", "rollingUpdate": None}})
    await image("four")
    yield (
        "re-created",
        await until(lambda v: done(v, "four", 3) and len(v["sets"]) == 2 and served(v, 3)),
    )
    await patch({"replicas": 0})
    yield (
        "scaled to nothing",
        await until(lambda v: done(v, "four", 0) and served(v, 0)),
    )
    await api("DELETE", f"{SERVICES}/named")
    yield "a service deleted", await until(lambda v: len(v["slices"]) == 2)
    await api("DELETE", web)
    yield "deleted", await until(lambda v: not v["deployments"] and not v["sets"])


@pytest.fixture(scope="module")
def chapters(east: Any, door_to: Any) -> tuple[dict[str, Object], dict[str, Object]]:
    """What the real and the embedded cluster say at the end of each chapter."""

    async def play(api: Api) -> dict[str, Object]:
        await api("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
        return {name: found async for name, found in story(api)}

    async def small() -> dict[str, Object]:
        async with embedded() as api:
            return await play(api)

    door = door_to(east)
    expected = asyncio.run(play(real(door)))
    door.request("DELETE", f"/api/v1/namespaces/{SPACE}")
    return expected, asyncio.run(small())


CHAPTERS = (
    "created", "rolled over", "stuck", "scaled while stuck", "gone back", "paused and scaled",
    "resumed, history cut", "re-created", "scaled to nothing", "a service deleted", "deleted",
)  # fmt: skip


def listed(part: Any) -> list[Any]:
    return part if isinstance(part, list) else [part]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_both_clusters_tell_the_same(chapters: Any, chapter: str) -> None:
    expected, found = chapters
    for part, wanted in expected[chapter].items():
        for ours, theirs in itertools.zip_longest(listed(found[chapter][part]), listed(wanted)):
            assert ours == theirs, part


def test_the_story_is_whole(chapters: Any) -> None:
    assert tuple(chapters[0]) == tuple(chapters[1]) == CHAPTERS
