"""Embedded members with real processes, and one way to speak to members of any kind."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

import adapters.kubernetes
from fleet import app
from fleet.gateway.config import Config
from fleet.kube.wire import Request, UserInfo
from fleet.testbed.embedded import EmbeddedCluster
from fleet.testbed.shape import ACCELERATOR, NodeShape

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from fleet.app import Gateway
    from fleet.kube.wire import Handler, Response

Object = dict[str, Any]
PATIENCE_S = 50.0
ADMIN = UserInfo("admin", groups=("system:masters", "system:authenticated"))
PLACES = {
    "pods": "/api/v1/namespaces/{}/pods",
    "configmaps": "/api/v1/namespaces/{}/configmaps",
    "secrets": "/api/v1/namespaces/{}/secrets",
    "services": "/api/v1/namespaces/{}/services",
    "events": "/api/v1/namespaces/{}/events",
    "endpointslices": "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
    "jobs": "/apis/batch/v1/namespaces/{}/jobs",
    "deployments": "/apis/apps/v1/namespaces/{}/deployments",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Time for more than one wait."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(4 * PATIENCE_S))


class Api:
    """A member's API as its admin, over any handler; a refusal is an answer like any other."""

    def __init__(self, handler: Handler, *, namespace: str = "default") -> None:
        self.handler = handler
        self.namespace = namespace

    def place(self, kind: str) -> str:
        return PLACES[kind].format(self.namespace)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        sent = {"accept": "application/json", "content-type": "application/json"}
        return await self.handler.handle(
            Request(
                method,
                path,
                tuple((query or {}).items()),
                headers={**sent, **(headers or {})},
                body=b"" if body is None else orjson.dumps(body),
                user=ADMIN,
            )
        )

    async def call(self, method: str, path: str, body: Any = None, **how: Any) -> Object:
        """The answer as an object; a refusal raises LookupError with its message."""
        from fleet.errors import ApiError

        try:
            answer = await self.send(method, path, body, **how)
        except ApiError as error:
            raise LookupError(str(error)) from error
        found = orjson.loads(await read(answer))
        if answer.status >= 400:
            raise LookupError(found.get("message"))
        return found

    async def create(self, kind: str, obj: Object) -> Object:
        return await self.call("POST", self.place(kind), obj)

    async def get(self, kind: str, name: str) -> Object:
        return await self.call("GET", f"{self.place(kind)}/{name}")

    async def list(self, kind: str, **query: str) -> list[Object]:
        return (await self.call("GET", self.place(kind), query=query))["items"]

    async def patch(self, kind: str, name: str, change: Object) -> Object:
        headers = {"content-type": "application/merge-patch+json"}
        return await self.call("PATCH", f"{self.place(kind)}/{name}", change, headers=headers)

    async def delete(self, kind: str, name: str, **options: Any) -> Object:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        return await self.call("DELETE", f"{self.place(kind)}/{name}", body)

    async def logs(self, pod: str, **query: str) -> str:
        path = f"{self.place('pods')}/{pod}/log"
        return (await read(await self.send("GET", path, query=query))).decode()

    async def until(
        self, kind: str, holds: Callable[[list[Object]], Any], *, what: str = "", **query: str
    ) -> list[Object]:
        """Watch until `holds` is true of all objects of a kind; returns them."""
        last: list[Object] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                async for last in self._states(kind, query):
                    if holds(last):
                        return last
        except TimeoutError:
            pass
        raise AssertionError(f"it never came to be: {what or kind}: {last}")

    async def until_one(self, kind: str, name: str, holds: Callable[[Object], Any]) -> Object:
        found = await self.until(
            kind, lambda all_: all_ and holds(all_[0]), fieldSelector=f"metadata.name={name}"
        )
        return found[0]

    async def until_gone(self, kind: str, **query: str) -> None:
        await self.until(kind, lambda found: not found, what=f"no {kind}", **query)

    async def _states(self, kind: str, query: dict[str, str]) -> AsyncIterator[list[Object]]:
        place = self.place(kind)
        listed = await self.call("GET", place, query=query)
        known = {each["metadata"]["name"]: each for each in listed["items"]}
        yield list(known.values())
        watch = {
            **query, "watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"],
        }  # fmt: skip
        answer = await self.send("GET", place, query=watch)
        buffer = b""
        try:
            async for piece in answer.body:
                *lines, buffer = (buffer + piece).split(b"\n")
                for line in lines:
                    event = orjson.loads(line)
                    name = event["object"]["metadata"]["name"]
                    known.pop(name, None)
                    if event["type"] != "DELETED":
                        known[name] = event["object"]
                    yield list(known.values())  # states that came in one piece were states too
        finally:
            await answer.aclose()


async def read(answer: Response) -> bytes:
    """The whole body."""
    body = answer.body
    if isinstance(body, bytes):
        return body
    if hasattr(body, "__aiter__"):
        try:
            return b"".join([piece async for piece in body])
        finally:
            await answer.aclose()
    return b"".join(body)


@contextlib.asynccontextmanager
async def over_tls(kubeconfig: Path, **how: Any) -> AsyncIterator[Api]:
    """A member's API by its kubeconfig, as the gateway reaches it."""
    transport = adapters.kubernetes.connect(kubeconfig)
    try:
        yield Api(transport, **how)
    finally:
        await transport.aclose()


@pytest.fixture(name="over_tls")
def _over_tls():
    return over_tls


@pytest.fixture(params=["mounted", "rewritten"])
async def member(request) -> AsyncIterator[EmbeddedCluster]:
    """A member with two nodes of two accelerators; short backoffs. Once with volumes mounted, if
    this kernel lets us, and once with paths rewritten."""
    shape = NodeShape(count=2, capacity={"cpu": "4", ACCELERATOR: "2"})
    async with EmbeddedCluster(
        "m",
        nodes=[shape],
        mount=request.param == "mounted",
        container_backoff_s=0.05,
        pod_failure_backoff_s=0.05,
    ) as made:
        yield made


@pytest.fixture
def api(member) -> Api:
    return Api(member.handler)


def pod(name: str = "p", *argv: str, container: Object | None = None, **spec: Any) -> Object:
    """A pod of one container."""
    main = {"name": "main", "image": "any", "command": list(argv) or ["true"], **(container or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [main], "restartPolicy": "Never", **spec},
    }


@pytest.fixture(name="pod")
def _pod():
    return pod


@pytest.fixture
def gateway_over(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Gateway]]:
    """A gateway over these members, which it has joined; configured as is said besides."""

    @contextlib.asynccontextmanager
    async def serving(*members: EmbeddedCluster, **how: Any) -> AsyncIterator[Gateway]:
        config = Config(
            state_directory=tmp_path / "state", kubeconfig=tmp_path / "kubeconfig", port=0,
            log_level="error", **how,
        )  # fmt: skip
        ready: asyncio.Future[Gateway] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(app.serve(config, ready=ready.set_result))
        try:
            gateway = await ready
            for member in members:
                await gateway.members.join(member.name, member.kubeconfig.read_bytes())
            yield gateway
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    return serving


@pytest.fixture
async def gateway_of_four(
    gateway_over: Callable[..., AbstractAsyncContextManager[Gateway]],
) -> AsyncIterator[Gateway]:
    """A gateway over one member with four accelerators."""
    shape = NodeShape(count=2, capacity={"cpu": "4", ACCELERATOR: "2"})
    async with EmbeddedCluster("idc-a", nodes=[shape]) as member, gateway_over(member) as gateway:
        yield gateway
