"""`python -m fleet.testbed.gatekeeper ROOT`: lets a pod start when all that it mounts is there.

A kubelet leaves a pod in ContainerCreating while a ConfigMap or Secret volume is missing. kwok's
stages see the pod alone, so this process compares pods with ConfigMaps and Secrets, says of one
that waits what it waits for, in a kubelet's words, and annotates a pod whose volumes are complete;
`stages.yaml` waits for the annotation. Level-triggered: after any interruption it lists again and
does what is left to do.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp

from fleet.errors import TestbedError
from fleet.testbed import admin, kwok, layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_RETRY_S = 0.2
_PARALLEL_PATCHES = 16

log = logging.getLogger(__name__)


class Ref(NamedTuple):
    """A namespaced object: `Ref("configmaps", "default", "train-gate")`."""

    resource: str
    namespace: str
    name: str


def wanted(pod: Mapping[str, Any]) -> dict[Ref, str]:
    """The ConfigMaps and Secrets without which a kubelet does not start this pod, and the name of a
    volume that each is for."""
    namespace = pod["metadata"]["namespace"]
    return {
        Ref(resource, namespace, name): str(volume.get("name", ""))
        for volume in pod["spec"].get("volumes", ())
        for resource, name in _mounted(volume)
    }


def _mounted(volume: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A secret volume names its object `secretName`, a projected secret `name`."""
    for source in (volume, *volume.get("projected", {}).get("sources", ())):
        for kind, resource in (("configMap", "configmaps"), ("secret", "secrets")):
            chosen = source.get(kind)
            if chosen is not None and not chosen.get("optional"):
                yield resource, chosen.get("secretName") or chosen["name"]


class Waiting(NamedTuple):
    """A bound pod that is not annotated yet."""

    uid: str
    wants: Mapping[Ref, str]


@dataclass(slots=True)
class World:
    """What is known of the member. `told` has the UIDs of pods of which is said what they lack."""

    present: set[Ref] = field(default_factory=set)
    waiting: dict[Ref, Waiting] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def complete(self) -> list[Ref]:
        """The pods that may start."""
        return [pod for pod, each in self.waiting.items() if each.wants.keys() <= self.present]

    def untold(self) -> list[tuple[Ref, str, str]]:
        """Pods that wait, with their UIDs, and what a kubelet says of the first that they lack."""
        found = []
        for pod, each in self.waiting.items():
            lacks = [ref for ref in each.wants if ref not in self.present]
            if lacks and each.uid not in self.told:
                ref = lacks[0]
                what = f'{ref.resource.removesuffix("s")} "{ref.name}" not found'
                volume = f'MountVolume.SetUp failed for volume "{each.wants[ref]}"'
                found.append((pod, each.uid, f"{volume} : {what}"))
        return found

    def replace(self, resource: str, objects: Iterable[Mapping[str, Any]]) -> None:
        """A list of `resource`: what is not in it does not exist."""
        self.present = {ref for ref in self.present if ref.resource != resource}
        if resource == "pods":
            self.waiting.clear()
        for found in objects:
            self.put(resource, found)

    def put(self, resource: str, found: Mapping[str, Any]) -> None:
        ref = _ref(resource, found)
        if resource != "pods":
            self.present.add(ref)
            return
        wants = wanted(found)
        annotations = found["metadata"].get("annotations", {})
        if wants and annotations.get(kwok.MOUNTS_READY) != "true":
            self.waiting[ref] = Waiting(str(found["metadata"].get("uid", "")), wants)
        else:
            self.waiting.pop(ref, None)

    def opened(self, pod: Ref, uid: str) -> None:
        """The pod with this UID was annotated, or is gone."""
        each = self.waiting.get(pod)
        if each is not None and each.uid == uid:
            del self.waiting[pod]

    def drop(self, resource: str, found: Mapping[str, Any]) -> None:
        ref = _ref(resource, found)
        self.present.discard(ref)
        self.waiting.pop(ref, None)
        self.told.discard(str(found["metadata"].get("uid", "")))


def _ref(resource: str, found: Mapping[str, Any]) -> Ref:
    return Ref(resource, found["metadata"]["namespace"], found["metadata"]["name"])


class Gatekeeper:
    """Follows pods, ConfigMaps and Secrets of one member until cancelled."""

    def __init__(self, client: admin.AdminClient) -> None:
        self._client = client
        self._world = World()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        bound = {"fieldSelector": "status.phase=Pending,spec.nodeName!="}
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow("pods", bound, whole=True), name="follow pods")
            for resource in ("configmaps", "secrets"):
                group.create_task(
                    self._follow(resource, {}, whole=False), name=f"follow {resource}"
                )
            group.create_task(self._open(), name="open gates")

    async def _follow(self, resource: str, params: dict[str, str], *, whole: bool) -> None:
        while True:
            try:
                await self._list_and_watch(resource, params, whole=whole)
            except (aiohttp.ClientError, TimeoutError, TestbedError) as error:
                log.info("%s: %s; listing again", resource, error)
            await asyncio.sleep(_RETRY_S)

    async def _list_and_watch(self, resource: str, params: dict[str, str], *, whole: bool) -> None:
        path = f"/api/v1/{resource}"
        listed = await self._client.get(
            path,
            params=params,
            accept="application/json" if whole else admin.METADATA_LIST,
        )
        assert listed is not None  # these lists exist in every API server
        self._world.replace(resource, listed["items"] or ())
        self._changed.set()
        async for event in self._client.watch(
            path,
            accept="application/json" if whole else admin.METADATA,
            params={**params, "resourceVersion": listed["metadata"]["resourceVersion"]},
        ):
            match event["type"]:
                case "ADDED" | "MODIFIED":
                    self._world.put(resource, event["object"])
                case "DELETED":
                    self._world.drop(resource, event["object"])
                case _:
                    raise TestbedError(f"watch of {resource} ended: {event['object']}")
            self._changed.set()

    async def _open(self) -> None:
        slots = asyncio.Semaphore(_PARALLEL_PATCHES)
        while True:
            await self._changed.wait()
            self._changed.clear()
            async with asyncio.TaskGroup() as group:
                for pod in self._world.complete():
                    uid = self._world.waiting[pod].uid
                    group.create_task(self._annotate(pod, uid, slots), name=f"open {pod.name}")
                for pod, uid, why in self._world.untold():
                    group.create_task(self._tell(pod, uid, why, slots), name=f"tell {pod.name}")

    async def _tell(self, pod: Ref, uid: str, why: str, slots: asyncio.Semaphore) -> None:
        self._world.told.add(uid)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        about = {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": uid}
        event = {
            "metadata": {"namespace": pod.namespace, "name": f"{pod.name}.{uid[:8]}.mount"},
            "involvedObject": {"apiVersion": "v1", **about},
            "type": "Warning",
            "reason": "FailedMount",
            "message": why,
            "source": {"component": "kubelet"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        async with slots:
            try:
                await self._client.create(f"/api/v1/namespaces/{pod.namespace}/events", event)
            except (aiohttp.ClientError, TimeoutError, TestbedError) as error:
                log.info("pod %s/%s: %s", pod.namespace, pod.name, error)

    async def _annotate(self, pod: Ref, uid: str, slots: asyncio.Semaphore) -> None:
        """That very pod: by now there may be another one of its name, which waits."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        body = {"metadata": {"uid": uid, "annotations": {kwok.MOUNTS_READY: "true"}}}
        async with slots:
            try:
                await self._client.merge_patch(path, body)
            except (aiohttp.ClientError, TimeoutError, TestbedError) as error:
                log.info("pod %s/%s: %s; trying again", pod.namespace, pod.name, error)
                await asyncio.sleep(_RETRY_S)
                self._changed.set()
            else:
                self._world.opened(pod, uid)


async def run(root: Path) -> None:
    member = layout.load(root)
    if member is None:
        raise TestbedError(f"there is no member in {root}")
    tls = admin.ssl_context(ca=member.ca, cert=member.cert("admin"), key=member.key("admin"))
    async with admin.AdminClient.connect(member.server, tls) as client:
        await Gatekeeper(client).run()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(run(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
