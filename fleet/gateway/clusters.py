"""Cluster objects: what the fleet knows of each member, as objects anybody can read.

A member has a Cluster object of its name from its join to its leave. Its spec is the operator's
(networks, taints, maintenance); its status is written here from the member's conditions and its
nodes, whenever news of the member comes and at a slow beat besides. An unchanged status is not
written again, so the beat makes no events.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from fleet.errors import AlreadyExists, ApiError, NotFound, StoreError
from fleet.kube.resources import GroupVersionResource
from fleet.kube.wire import Request, UserInfo

if TYPE_CHECKING:
    from fleet.apiserver.kernel import Kernel
    from fleet.kube.resources import Resource
    from fleet.members.member import Member
    from fleet.members.roster import Change, Members
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore
    from fleet.view.world import World

log = logging.getLogger(__name__)

CLUSTERS = GroupVersionResource("fleet.dev", "v1alpha1", "clusters")
BEAT_S = 10.0
_NODES = GroupVersionResource("", "v1", "nodes")
_SELF = UserInfo("fleet:clusters", ("fleet:admins",))
_PATH = "/apis/fleet.dev/v1alpha1/clusters"
_COUNTED = ("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "habana.ai/gaudi")
_ACCELERATOR_LABELS = ("fleet.dev/accelerator", "nvidia.com/gpu.product")


class Clusters:
    """Keeps one Cluster object for each member."""

    def __init__(
        self,
        *,
        kernel: Kernel,
        store: ObjectStore,
        resource: Resource,
        members: Members,
        world: World,
    ) -> None:
        self._kernel = kernel
        self._store = store
        self._resource = resource
        self._members = members
        self._world = world
        self._news = asyncio.Event()

    async def changed(self, change: Change) -> None:
        """News of a member (a listener of `Members`)."""
        if change.kind == "left":
            await self._remove(change.member.name)
        elif change.kind == "joined":
            await self._write(change.member)
        else:
            self._news.set()

    async def run(self) -> None:
        """Write what changed, until cancelled."""
        while True:
            self._news.clear()
            for member in self._members:
                try:
                    await self._write(member)
                except (ApiError, StoreError) as error:
                    log.warning("cluster %s: its status was not written: %s", member.name, error)
            try:
                async with asyncio.timeout(BEAT_S):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _write(self, member: Member) -> None:
        if self._store.get(self._resource, "", member.name) is None:
            await self._create(member.name)
        status = self._status(member)

        def change(obj: dict[str, Any]) -> dict[str, Any] | None:
            present = obj.get("status") or {}
            if all(present.get(key) == value for key, value in status.items()):
                return None
            obj["status"] = {**present, **status}
            return obj

        try:
            await self._store.rewrite(self._resource, namespace="", name=member.name, change=change)
        except NotFound:
            return  # deleted meanwhile: the next beat makes it again, if the member still is one

    async def _create(self, name: str) -> None:
        body = (
            b'{"apiVersion":"fleet.dev/v1alpha1","kind":"Cluster","metadata":{"name":"%b"}}'
            % name.encode()
        )
        request = Request(
            "POST", _PATH, headers={"content-type": "application/json"}, body=body, user=_SELF
        )
        try:
            await self._kernel.handle(request)
        except AlreadyExists:
            return

    async def _remove(self, name: str) -> None:
        try:
            await self._kernel.handle(Request("DELETE", f"{_PATH}/{name}", user=_SELF))
        except NotFound:
            return

    # -- what is known of a member

    def _status(self, member: Member) -> dict[str, Any]:
        conditions = {kind: each.as_dict() for kind, each in member.conditions.items()}
        reachable = conditions.get("Reachable", {}).get("status")
        sure = conditions.get("WatchFresh", {}).get("status") == "True"
        nodes = self._nodes(member.name)
        return {
            "conditions": list(conditions.values()),
            "version": member.version,
            "uid": member.uid,
            "localSchedulers": schedulers_of(member),
            "summary": {
                "api": _word(reachable, good="ok", bad="lost"),
                "data": _word(
                    conditions.get("DataPlaneHealthy", {}).get("status"), good="ok", bad="down"
                ),
                "fresh": _freshness(conditions.get("WatchFresh", {})),
                "nodes": len(nodes),
                "accelerators": ",".join(sorted(accelerators_of(nodes))),
                "free": self._free(member.name, nodes, sure=sure),
            },
        }

    def _nodes(self, member: str) -> list[dict[str, Any]]:
        return [entry.parse() for entry in self._entries(_NODES, member)]

    def _entries(self, gvr: GroupVersionResource, member: str) -> list[Entry]:
        merged = self._world.running(gvr)
        if merged is None:
            return []
        return [e for e in merged.collection.snapshot().entries() if e.member == member]

    def _free(self, member: str, nodes: list[dict[str, Any]], *, sure: bool) -> str:
        """Unused accelerators, as text; a question mark where the member's part is not fresh."""
        there = sum(_accelerators((n.get("status") or {}).get("allocatable")) for n in nodes)
        if not there:
            return ""
        used = 0
        for entry in self._entries(GroupVersionResource("", "v1", "pods"), member):
            if any(name.encode() in entry.raw for name in _COUNTED):
                used += _used(entry.parse())
        return f"{there - used}" if sure else f"{there - used}?"


def accelerators_of(nodes: list[dict[str, Any]]) -> set[str]:
    """The kinds of accelerator that nodes say they have."""
    kinds = set()
    for node in nodes:
        labels = (node.get("metadata") or {}).get("labels") or {}
        if _accelerators((node.get("status") or {}).get("allocatable")):
            kinds.add(next((labels[k] for k in _ACCELERATOR_LABELS if k in labels), "unnamed"))
    return kinds


def schedulers_of(member: Member) -> list[str]:
    """Which local schedulers a member has, by the APIs it serves."""
    groups = {row.gvr.group for row in member.discovery.resources.values()}
    found = ["kube-scheduler"]
    for group, name in (
        ("kueue.x-k8s.io", "kueue"),
        ("scheduling.volcano.sh", "volcano"),
        ("jobset.x-k8s.io", "jobset"),
    ):
        if group in groups:
            found.append(name)
    return found


def _used(pod: dict[str, Any]) -> int:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    spec = pod.get("spec") or {}
    if not spec.get("nodeName"):
        return 0
    return sum(
        _accelerators((container.get("resources") or {}).get("requests"))
        or _accelerators((container.get("resources") or {}).get("limits"))
        for container in spec.get("containers") or ()
    )


def _accelerators(amounts: Any) -> int:
    if not isinstance(amounts, dict):
        return 0
    return sum(int(v) for k, v in amounts.items() if k in _COUNTED and str(v).isdecimal())


def _freshness(condition: dict[str, Any]) -> str:
    """`live`, or since when it is not; an age would make a write of every second."""
    if condition.get("status") != "False":
        return _word(condition.get("status"), good="live", bad="")
    since = str(condition.get("lastTransitionTime", ""))
    return f"not since {since[11:19]}" if len(since) >= 19 else "not live"


def _word(status: str | None, *, good: str, bad: str) -> str:
    return {"True": good, "False": bad}.get(status or "", "")
