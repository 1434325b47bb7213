"""Whole members: joining several, and streams of their pods."""

from __future__ import annotations

import asyncio
import base64
import os
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from adapters.kubernetes import KubernetesTransport, connect, flatten
from fleet.kube.resources import GroupVersionResource
from fleet.kube.wire import Request
from fleet.members.credentials import CredentialStore
from fleet.members.roster import Change, Members
from fleet.testbed import kwok

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from fleet.kube.wire import Duplex
    from fleet.testbed.local import LocalCluster

pytestmark = pytest.mark.controlplane

PODS = GroupVersionResource("", "v1", "pods")


@pytest.fixture
async def transport(east: LocalCluster) -> AsyncIterator[KubernetesTransport]:
    made = connect(east.kubeconfig)
    yield made
    await made.aclose()


async def call(
    transport: KubernetesTransport, method: str, path: str, body: Any = None
) -> dict[str, Any]:
    headers = {"accept": "application/json", "content-type": "application/json"}
    raw = orjson.dumps(body) if body is not None else b""
    response = await transport.handle(Request(method, path, headers=headers, body=raw))
    assert isinstance(response.body, bytes)
    assert response.status < 300, response.body
    answered: dict[str, Any] = orjson.loads(response.body)
    return answered


class Waiting:
    """A sink that waits for an object in some state."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self._changed = asyncio.Event()

    def replace(self, objects: Any, revision: int) -> None:
        self.objects = {obj["metadata"]["name"]: obj for obj in objects}
        self._changed.set()

    def upsert(self, obj: dict[str, Any]) -> None:
        self.objects[obj["metadata"]["name"]] = obj
        self._changed.set()

    def remove(self, obj: dict[str, Any]) -> None:
        self.objects.pop(obj["metadata"]["name"], None)
        self._changed.set()

    def progress(self, revision: int) -> None:
        """Nothing waits for it."""

    async def until(self, condition: Any) -> None:
        while not condition(self.objects):
            self._changed.clear()
            await self._changed.wait()


@pytest.fixture
async def pod(
    transport: KubernetesTransport, east: LocalCluster, tmp_path: Path
) -> AsyncIterator[str]:
    """The path of a running pod."""
    name = f"p{os.urandom(4).hex()}"
    async with members(tmp_path / "pod") as roster:
        member = await roster.join("east", flatten(east.kubeconfig))
        waiting = Waiting()
        watch = member.watch(member.discovery.resources[PODS], waiting)
        await watch.synced.wait()
        path = "/api/v1/namespaces/default/pods"
        body = {
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "any"}]},
        }
        await call(transport, "POST", path, body)
        await waiting.until(
            lambda pods: name in pods and pods[name]["status"].get("phase") == "Running"
        )
    yield f"{path}/{name}"
    await call(transport, "DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})


def members(directory: Path) -> Members:
    return Members(CredentialStore(directory / "credentials"), lambda raw: connect(raw))


async def test_two_members_join_are_ready_and_leave(east, west, tmp_path):
    async with members(tmp_path) as roster:
        came = asyncio.Event()

        async def heard(_: Change) -> None:
            came.set()

        roster.on_change(heard)
        joined = await asyncio.gather(
            roster.join("east", flatten(east.kubeconfig)),
            roster.join("west", flatten(west.kubeconfig)),
        )
        assert len({member.uid for member in joined}) == 2
        for member in joined:
            assert member.version.startswith("v1.")
            assert GroupVersionResource("apps", "v1", "deployments") in member.discovery.resources
            waiting = Waiting()
            resource = member.discovery.resources[GroupVersionResource("", "v1", "nodes")]
            await member.watch(resource, waiting).synced.wait()
            assert waiting.objects
        while not all(member.health.ready for member in joined):
            came.clear()
            await came.wait()
        documents = [await member.openapi.document("apis/apps/v1") for member in joined]
        assert documents[0] is not None
        assert documents[0] is documents[1]  # the same release: fetched once
        await roster.leave("west")
        assert [member.name for member in roster] == ["east"]


async def test_a_log_is_followed_line_by_line(transport, east, pod):
    query = (("container", "main"), ("follow", "true"))
    response = await transport.handle(Request("GET", f"{pod}/log", query))
    assert response.status == 200
    got = b""
    while b"ready\n" not in got:
        got += await anext(response.body)
    marker = os.urandom(4).hex()
    log = kwok.log_file(east.layout)
    before = log.read_bytes()  # every pod of the member has this one log: leave it as it was
    try:
        with log.open("a") as file:
            file.write(f"2026-01-01T00:00:09.000000000Z stdout F {marker}\n")
        while marker.encode() not in got:
            got += await anext(response.body)
    finally:
        log.write_bytes(before)
    assert got.startswith(b"member east\n")
    await response.aclose()


async def test_a_log_that_is_not_followed_is_whole(transport, pod):
    response = await transport.handle(Request("GET", f"{pod}/log", (("tailLines", "1"),)))
    assert response.status == 200
    assert isinstance(response.body, bytes)
    assert response.body.count(b"\n") == 1


def upgrade(path: str, *, container: str = "main") -> Request:
    return Request(
        "GET",
        path,
        (("container", container), ("command", "cat"), ("stdin", "true"), ("stdout", "true")),
        headers={
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-key": base64.b64encode(os.urandom(16)).decode(),
            "sec-websocket-version": "13",
            "sec-websocket-protocol": "v5.channel.k8s.io",
        },
    )


def framed(channel: int, data: bytes) -> bytes:
    """A masked binary WebSocket message (RFC 6455) on a channel, at most 125 bytes."""
    payload = bytes([channel]) + data
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return bytes([0x82, 0x80 | len(payload)]) + mask + masked


class Frames:
    """The WebSocket messages of a tunnel."""

    def __init__(self, tunnel: Duplex) -> None:
        self._tunnel = tunnel
        self._held = b""

    async def _exactly(self, size: int) -> bytes:
        while len(self._held) < size:
            piece = await self._tunnel.read()
            assert piece, "the tunnel ended"
            self._held += piece
        taken, self._held = self._held[:size], self._held[size:]
        return taken

    async def next(self) -> tuple[int, bytes]:
        """The next message's opcode and payload."""
        first, second = await self._exactly(2)
        size = second & 0x7F
        if size == 126:
            size = int.from_bytes(await self._exactly(2))
        return first & 0x0F, await self._exactly(size)


async def test_exec_in_a_pod_through_the_tunnel(transport, pod):
    response = await transport.handle(upgrade(f"{pod}/exec"))
    assert response.status == 101, response.body
    assert response.headers["sec-websocket-protocol"] == "v5.channel.k8s.io"
    tunnel = response.tunnel
    assert tunnel is not None
    frames = Frames(tunnel)
    await tunnel.write(framed(0, b"to the pod"))
    await tunnel.write(framed(255, b"\x00"))  # v5: no more of channel 0
    said = b""
    status = b""
    while not status:
        opcode, payload = await frames.next()
        if opcode == 2 and payload[0] == 1:
            said += payload[1:]
        if opcode == 2 and payload[0] == 3:
            status = payload[1:]
    assert said == b"to the pod"
    assert orjson.loads(status)["status"] == "Success"
    await tunnel.close()


async def test_a_refused_exec_is_an_ordinary_status(transport, pod):
    response = await transport.handle(upgrade(f"{pod}-none/exec"))
    assert response.status == 404
    assert orjson.loads(response.body)["reason"] == "NotFound"
    response = await transport.handle(upgrade(f"{pod}/exec", container="none"))
    assert response.status == 400
    assert orjson.loads(response.body)["kind"] == "Status"
