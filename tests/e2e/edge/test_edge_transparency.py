"""Behind `/clusters/NAME/` and behind a proxy, path and query are what the caller wrote."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from adapters.kubernetes import Kubeconfig, KubernetesTransport
from fleet.apiserver.http import Options, Server
from fleet.gateway.edge import Edge, Roots
from fleet.gateway.health import Health
from fleet.gateway.roots import MemberRoot
from fleet.kube import builtin
from fleet.kube.paths import parse_target
from fleet.kube.resources import GroupVersionResource
from fleet.kube.wire import Request, Response, UserInfo
from fleet.view.forward import Call, Forwarder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

ADMIN = UserInfo("fleet:admin", ("fleet:admins",))

PROXIED = (
    "/api/v1/namespaces/a/pods/p/proxy/a%2Fb",
    "/api/v1/namespaces/a/pods/p/proxy/a%2fb",
    "/api/v1/namespaces/a/services/https:s:8443/proxy/%7Euser/a%20b+c;d=%25?q=a+b&q=%20&e&f=%2F",
    "/api/v1/namespaces/a/pods/p/proxy/%25%32%46//x/?",
    "/api/v1/namespaces/a/pods/p/proxy/caf%C3%A9/'()*!?a[]=%5B",
)
PLAIN = (
    "/api/v1/nodes?labelSelector=a%3Db&fieldSelector=metadata.name%3Dx",
    "/apis/x.dev/v1/things/a%3Ab",
    "/",
    "/version?timeout=32s",
)


class Anybody:
    """Lets everybody in as the administrator."""

    async def authenticate(self, peer: Any) -> UserInfo:
        return ADMIN


class Pods:
    """The merged root, of which only calls to pods and services of `east` are wanted."""

    def __init__(self, member: Any) -> None:
        self._member = member

    async def handle(self, request: Request) -> Response:
        target = parse_target(request.method, request.path, request.query)
        assert target is not None
        row = builtin.resource(GroupVersionResource("", "v1", target.gvr.resource))
        assert row is not None
        call = Call(request, target, row, self._member, target.namespace, target.name)
        return await Forwarder(SimpleNamespace()).stream(call)  # type: ignore[arg-type]


@asynccontextmanager
async def listening(serve: Any) -> AsyncIterator[int]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


@pytest.fixture
async def ask() -> AsyncIterator[Callable[[str], Awaitable[str]]]:
    """Sends a request target to the gateway; gives the one that the member got."""
    got: list[str] = []

    async def member(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        got.append(head.split(b" ")[1].decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    async with listening(member) as port:
        transport = KubernetesTransport(Kubeconfig("test", f"http://127.0.0.1:{port}"))
        east = SimpleNamespace(name="east", handler=transport, conditions={})
        roots = Roots(
            merged=Pods(east),
            objects=Pods(east),
            members=MemberRoot({"east": east}.get),  # type: ignore[arg-type]
        )
        server = Server(Edge(roots, health=Health()), Options(authenticator=Anybody()))
        _, front = await server.start("127.0.0.1", 0)

        async def asked(target: str) -> str:
            reader, writer = await asyncio.open_connection("127.0.0.1", front)
            lines = f"GET {target} HTTP/1.1\r\nHost: fleet\r\nConnection: close\r\n\r\n"
            writer.write(lines.encode())
            answer = await reader.read()
            writer.close()
            assert answer.startswith(b"HTTP/1.1 200 "), answer
            return got.pop()

        yield asked
        await transport.aclose()
        await server.stop(grace_s=0)


@pytest.mark.parametrize("target", [*PROXIED, *PLAIN])
async def test_a_members_root_passes_the_target_on_to_the_letter(ask: Any, target: str) -> None:
    assert await ask(f"/clusters/east{target}") == target.removesuffix("?")


@pytest.mark.parametrize("prefix", ["/clusters/ea%73t", "//clusters/east", "/%63lusters/east"])
async def test_an_escaped_prefix_is_cut_off_all_the_same(ask: Any, prefix: str) -> None:
    assert await ask(f"{prefix}{PROXIED[0]}") == PROXIED[0]


@pytest.mark.parametrize("target", PROXIED)
async def test_so_does_a_proxy_in_the_merged_view(ask: Any, target: str) -> None:
    assert await ask(target) == target.removesuffix("?")


async def test_a_member_without_a_path_gets_its_root(ask: Any) -> None:
    assert await ask("/clusters/east") == "/"
