"""A member that follows a script, and a sink that records."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import orjson
import pytest

from fleet.kube.resources import GroupVersionResource, Resource
from fleet.kube.wire import Request, Response
from fleet.members.reflector import Pace, Reflector

PODS = Resource(GroupVersionResource("", "v1", "pods"), "Pod", True, ("list", "watch"))
FAST = Pace(
    answer_s=5,
    initial_silence_s=5,
    silence_s=5,
    probe_s=5,
    first_wait_s=0.0001,
    longest_wait_s=0.0002,
)


def pod(name: str, revision: int, namespace: str = "default", **data: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "resourceVersion": str(revision)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **data}


def frame(kind: str, obj: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


def bookmark(revision: int, *, ends: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if ends:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return frame("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def refusal(code: int, reason: str = "", message: str = "") -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason,
            "message": message or f"refused with {code}"}  # fmt: skip


class Stream(AsyncIterator[bytes]):
    """A body under the test's control."""

    def __init__(self, *pieces: bytes) -> None:
        self._queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.closed = False
        self.send(*pieces)

    def send(self, *pieces: bytes) -> Stream:
        for piece in pieces:
            self._queue.put_nowait(piece)
        return self

    def end(self) -> Stream:
        self._queue.put_nowait(None)
        return self

    def fail(self, error: Exception) -> Stream:
        self._queue.put_nowait(error)
        return self

    async def __anext__(self) -> bytes:
        item = await self._queue.get()
        if item is None:
            raise StopAsyncIteration
        if isinstance(item, Exception):
            raise item
        return item

    async def aclose(self) -> None:
        self.closed = True


def ok(body: Any) -> Response:
    return Response(200, {"content-type": "application/json"},
                    body if isinstance(body, bytes | Stream) else orjson.dumps(body))  # fmt: skip


def failed(code: int, reason: str = "", message: str = "") -> Response:
    return Response(code, {}, orjson.dumps(refusal(code, reason, message)))


Act = Response | Exception | Callable[[Request], Response]


class Script:
    """A `Handler` that answers with its acts, one after the other, probes apart; then hangs."""

    def __init__(self) -> None:
        self.acts: list[Act] = []
        self.probe: Act | None = None
        self.requests: list[Request] = []
        self.probes: list[Request] = []
        self._asked = asyncio.Event()

    def then(self, *acts: Act) -> Script:
        self.acts.extend(acts)
        return self

    async def handle(self, request: Request) -> Response:
        if "metadata.name=-" in dict(request.query).get("fieldSelector", ""):
            self.probes.append(request)
            act = self.probe
        else:
            self.requests.append(request)
            act = self.acts.pop(0) if self.acts else None
        self._asked.set()
        if act is None:
            await asyncio.Event().wait()
        if isinstance(act, Exception):
            raise act
        assert act is not None
        return act(request) if callable(act) else act

    async def asked(self, times: int) -> Request:
        """The request number `times`, once it has come."""
        while len(self.requests) < times:
            self._asked.clear()
            await self._asked.wait()
        return self.requests[times - 1]

    def query(self, number: int) -> dict[str, str]:
        return dict(self.requests[number - 1].query)


class Recorder:
    """A `Sink` that makes the diff and notes every call."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, Any]] = []
        self._called = asyncio.Event()

    def _note(self, call: str, what: Any) -> None:
        self.calls.append((call, what))
        self._called.set()

    def replace(self, objects: Any, revision: int) -> Any:
        self.objects = {obj["metadata"]["name"]: obj for obj in objects}
        self._note("replace", (sorted(self.objects), revision))

    def upsert(self, obj: dict[str, Any]) -> None:
        self.objects[obj["metadata"]["name"]] = obj
        self._note("upsert", obj["metadata"]["name"])

    def remove(self, obj: dict[str, Any]) -> None:
        self.objects.pop(obj["metadata"]["name"], None)
        self._note("remove", obj["metadata"]["name"])

    def progress(self, revision: int) -> None:
        self._note("progress", revision)

    async def saw(self, call: str, what: Any) -> None:
        """Wait until a call was noted."""
        while (call, what) not in self.calls:
            self._called.clear()
            await self._called.wait()


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def sink() -> Recorder:
    return Recorder()


@pytest.fixture
async def reflect(script: Script, sink: Recorder) -> AsyncIterator[Callable[..., Reflector]]:
    """Starts reflectors of the script into the sink; stops them in the end."""
    async with contextlib.AsyncExitStack() as stack:

        def start(*, pace: Pace = FAST, into: Any = None, resource: Resource = PODS) -> Reflector:
            reflector = Reflector(
                member="east",
                handler=script,
                resource=resource,
                sink=into or sink,
                random=Random(1),
                pace=pace,
            )
            task = asyncio.create_task(reflector.run())

            async def stop() -> None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

            stack.push_async_callback(stop)
            return reflector

        yield start


class FakeCluster:
    """Enough of an API server to join: who it is, what it serves, empty lists."""

    def __init__(self, uid: str = "uid-east") -> None:
        self.uid = uid
        self.requests: list[Request] = []
        self.failure: Exception | Response | None = None
        self.routes: dict[str, Any] = {
            "/version": {"gitVersion": "v1.36.3", "major": "1", "minor": "36"},
            "/readyz": b"ok",
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/api/v1": resource_list("v1", ("pods", "Pod", True)),
            "/apis": {"kind": "APIGroupList", "groups": []},
            "/openapi/v3": {"paths": {}},
        }
        self.streams: list[Stream] = []
        self.transports: list[FakeTransport] = []
        self.transports_closed = asyncio.Event()

    def asked(self, path: str) -> int:
        return sum(request.path == path for request in self.requests)

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        if isinstance(self.failure, Exception):
            raise self.failure
        if self.failure is not None:
            return self.failure
        if request.path == "/api/v1/namespaces/kube-system" and request.path not in self.routes:
            return ok({"kind": "Namespace", "metadata": {"name": "kube-system", "uid": self.uid}})
        if request.param("watch") == "true":
            stream = Stream(bookmark(10, ends=True))
            if request.param("fieldSelector") is None:
                self.streams.append(stream)
            return ok(stream)
        if request.path in self.routes:
            answer = self.routes[request.path]
            return answer if isinstance(answer, Response) else ok(answer)
        return failed(404, "NotFound", "the server could not find the requested resource")

    def connect(self, kubeconfig: bytes = b"") -> FakeTransport:
        transport = FakeTransport(self, kubeconfig)
        self.transports.append(transport)
        return transport


class FakeTransport:
    """A transport to a `FakeCluster`."""

    def __init__(self, cluster: FakeCluster, kubeconfig: bytes = b"") -> None:
        self.cluster = cluster
        self.kubeconfig = kubeconfig
        self.credentials_expire_at = None
        self.closed = False

    async def handle(self, request: Request) -> Response:
        assert not self.closed
        return await self.cluster.handle(request)

    async def aclose(self) -> None:
        self.closed = True
        self.cluster.transports_closed.set()


def resource_list(group_version: str, *rows: tuple[str, str, bool]) -> dict[str, Any]:
    return {
        "kind": "APIResourceList",
        "groupVersion": group_version,
        "resources": [
            {"name": name, "kind": kind, "namespaced": namespaced, "singularName": "",
             "verbs": ["get", "list", "watch"]}
            for name, kind, namespaced in rows
        ],
    }  # fmt: skip


@pytest.fixture
def east() -> FakeCluster:
    return FakeCluster()
