"""Upgraded connections: opaque bytes both ways, nothing lost, nothing left behind."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from typing import TYPE_CHECKING, Any

import pytest

from fleet.apiserver import upgrade
from fleet.errors import BadRequest, TransportError
from fleet.kube.wire import Request, Response

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

WEBSOCKET = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol: v5.channel.k8s.io",
)
SPDY = ("Connection: Upgrade", "Upgrade: SPDY/3.1", "Content-Length: 0")
FORMS = {"websocket": ("GET", WEBSOCKET), "spdy": ("POST", SPDY)}


class Tunnel:
    """A member's side of an upgraded connection, played by the test."""

    def __init__(self, *, room: int = 0) -> None:
        self.to_client: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self.from_client: asyncio.Queue[bytes] = asyncio.Queue(room)
        self.open = asyncio.Event()  # cleared: the member takes nothing
        self.open.set()
        self.closed = asyncio.Event()

    async def read(self) -> bytes:
        data = await self.to_client.get()
        if isinstance(data, Exception):
            raise data
        return data

    async def write(self, data: bytes) -> None:
        await self.open.wait()
        await self.from_client.put(data)

    async def write_eof(self) -> None:
        await self.from_client.put(b"")

    async def close(self) -> None:
        self.closed.set()
        self.to_client.put_nowait(b"")

    async def received(self, size: int) -> bytes:
        """The next `size` bytes from the client."""
        data = b""
        while len(data) < size:
            part = await self.from_client.get()
            assert part, f"the client ended after {data!r}"
            data += part
        assert len(data) == size, data
        return data


def accepting(tunnel: Tunnel) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        headers = {"Connection": "Upgrade", "Upgrade": request.headers["upgrade"]}
        if protocol := request.headers.get("sec-websocket-protocol"):
            headers["Sec-WebSocket-Protocol"] = protocol
        return Response(101, headers, tunnel=tunnel)

    return answer


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tls", [True, False])
async def test_bytes_pass_both_ways_unchanged(serving: Any, form: str, tls: bool) -> None:
    method, headers = FORMS[form]
    tunnel = Tunnel()
    noise = random.Random(7).randbytes(3 << 20)
    async with serving(accepting(tunnel), tls=tls) as edge:
        connection = await edge.connect()
        await connection.request(f"{method} /api/v1/namespaces/a/pods/b/exec?command=sh", *headers)
        status, answered = await connection.head()
        assert status == 101
        assert answered["connection"] == ["Upgrade"]
        assert answered["upgrade"] == [headers[1].partition(": ")[2]]
        assert "transfer-encoding" not in answered and "content-length" not in answered
        async with asyncio.TaskGroup() as group:
            up = group.create_task(tunnel.received(len(noise)))
            down = group.create_task(connection.reader.readexactly(len(noise)))
            for at in range(0, len(noise), 100_000):
                tunnel.to_client.put_nowait(noise[at : at + 100_000])
            await connection.send(noise)
        assert up.result() == noise and down.result() == noise
        # what looks like HTTP is nothing special any more
        await connection.send(b"GET / HTTP/1.1\r\n\r\n")
        assert await tunnel.received(18) == b"GET / HTTP/1.1\r\n\r\n"
        await connection.close()
        tunnel.to_client.put_nowait(b"")
        await tunnel.closed.wait()
        exchange = await edge.exchange()
    assert (exchange.status, exchange.long_running) == (101, True)
    assert len(edge.requests) == 1


async def test_the_member_is_reached_before_the_client_hears_101(serving: Any) -> None:
    tunnel, dialled = Tunnel(), asyncio.Event()
    accept = accepting(tunnel)

    async def answer(request: Request) -> Response:
        await dialled.wait()
        return await accept(request)

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.request("GET /exec", *WEBSOCKET)
        head = asyncio.ensure_future(connection.head())
        done, _ = await asyncio.wait({head}, timeout=0.05)
        assert not done
        dialled.set()
        assert (await head)[0] == 101
        await connection.close()


@pytest.mark.parametrize("form", FORMS)
async def test_bytes_sent_while_the_member_is_dialled_are_kept(serving: Any, form: str) -> None:
    method, headers = FORMS[form]
    tunnel, asked, dialled = Tunnel(), asyncio.Event(), asyncio.Event()
    accept = accepting(tunnel)

    async def answer(request: Request) -> Response:
        asked.set()
        await dialled.wait()
        return await accept(request)

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.request(f"{method} /exec", *headers)
        await asked.wait()
        await connection.send(b"early bird")
        dialled.set()
        assert (await connection.head())[0] == 101
        await connection.send(b", later")
        assert await tunnel.received(17) == b"early bird, later"
        await connection.close()


async def test_bytes_sent_in_the_same_breath_as_the_request_are_kept(serving: Any) -> None:
    tunnel = Tunnel()
    async with serving(accepting(tunnel)) as edge:
        connection = await edge.connect()
        await connection.request("GET /exec", *WEBSOCKET, body=b"\x82\x05hello")
        assert (await connection.head())[0] == 101
        assert await tunnel.received(7) == b"\x82\x05hello"
        await connection.close()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("error", [True, False])
async def test_a_refusal_leaves_the_connection_as_it_was(
    serving: Any, form: str, error: bool
) -> None:
    method, headers = FORMS[form]

    async def answer(request: Request) -> Response:
        if request.wants_upgrade and error:
            raise BadRequest("pod b is Pending: no container runs yet")
        return Response(200, {"Content-Type": "application/json"}, b"{}")

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.request(f"{method} /exec", *headers)
        status, _, body = await connection.answer()
        if error:
            assert (status, json.loads(body)["reason"]) == (400, "BadRequest")
        else:
            assert (status, body) == (200, b"{}")
        assert (await connection.get("/next"))[0] == 200
        await connection.close()


async def test_a_client_that_closes_closes_the_member_after_all_is_delivered(serving: Any) -> None:
    tunnel = Tunnel()
    tunnel.open.clear()
    async with serving(accepting(tunnel)) as edge:
        connection = await edge.connect()
        await connection.request("GET /exec", *WEBSOCKET)
        await connection.head()
        await connection.send(b"last words")
        await connection.close()
        tunnel.open.set()
        assert await tunnel.received(10) == b"last words"
        assert await tunnel.from_client.get() == b""
        await tunnel.closed.wait()
        await edge.exchange()
        assert edge.server.long_running == 0


@pytest.mark.parametrize("tls", [True, False])
async def test_what_a_client_sent_before_it_closed_reaches_a_slow_member(
    serving: Any, tls: bool
) -> None:
    """A Go client closes without waiting for the other side's goodbye."""
    tunnel = Tunnel(room=1)
    size = 8 << 20

    def send_and_close(port: int, context: ssl.SSLContext | None) -> None:
        with socket.create_connection(("127.0.0.1", port)) as plain:
            link = context.wrap_socket(plain, server_hostname="localhost") if context else plain
            link.sendall(
                "\r\n".join(("GET /exec HTTP/1.1", "Host: x", *WEBSOCKET, "", "")).encode()
            )
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += link.recv(1)
            link.sendall(b"x" * size)
            link.close()

    async with serving(accepting(tunnel), tls=tls) as edge, asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(send_and_close, edge.port, edge.tls))
        received = 0
        while data := await tunnel.from_client.get():
            received += len(data)
            await asyncio.sleep(0)
        assert received == size
        tunnel.to_client.put_nowait(b"")
        await tunnel.closed.wait()


async def test_a_member_that_closes_closes_the_client_after_all_is_delivered(serving: Any) -> None:
    tunnel = Tunnel()
    async with serving(accepting(tunnel)) as edge:
        connection = await edge.connect()
        await connection.request("GET /exec", *WEBSOCKET)
        await connection.head()
        for _ in range(20):
            tunnel.to_client.put_nowait(b"x" * 50_000)
        tunnel.to_client.put_nowait(b"")
        assert await connection.reader.read(-1) == b"x" * 1_000_000
        await connection.close()
        await tunnel.closed.wait()
        await edge.exchange()


async def test_half_closes_pass_where_the_transport_has_them(serving: Any) -> None:
    tunnel = Tunnel()
    async with serving(accepting(tunnel), tls=False) as edge:
        connection = await edge.connect()
        await connection.request("GET /exec", *WEBSOCKET)
        await connection.head()
        await connection.send(b"question")
        connection.writer.write_eof()
        assert await tunnel.received(8) == b"question"
        assert await tunnel.from_client.get() == b""
        assert not tunnel.closed.is_set()
        tunnel.to_client.put_nowait(b"answer")  # the other direction goes on
        tunnel.to_client.put_nowait(b"")
        assert await connection.reader.read(-1) == b"answer"
        await tunnel.closed.wait()
        await connection.close()


async def test_a_members_half_close_leaves_the_way_up_open(serving: Any) -> None:
    tunnel = Tunnel()
    async with serving(accepting(tunnel), tls=False) as edge:
        connection = await edge.connect()
        await connection.request("GET /exec", *WEBSOCKET)
        await connection.head()
        tunnel.to_client.put_nowait(b"all I had")
        tunnel.to_client.put_nowait(b"")
        assert await connection.reader.read(-1) == b"all I had"
        await connection.send(b"thanks")
        assert await tunnel.received(6) == b"thanks"
        assert not tunnel.closed.is_set()
        await connection.close()
        await tunnel.closed.wait()


async def test_a_member_that_breaks_off_closes_the_client(serving: Any) -> None:
    tunnel = Tunnel()
    async with serving(accepting(tunnel)) as edge:
        connection = await edge.connect()
        await connection.request("GET /exec", *WEBSOCKET)
        await connection.head()
        tunnel.to_client.put_nowait(b"half")
        tunnel.to_client.put_nowait(TransportError("reset", member="east"))
        assert await connection.reader.read(-1) == b"half"
        await tunnel.closed.wait()
        exchange = await edge.exchange()
        await connection.close()
    assert exchange.fault is None


async def test_a_client_that_is_cut_off_closes_the_member(serving: Any) -> None:
    tunnel = Tunnel()
    async with serving(accepting(tunnel)) as edge:
        connection = await edge.connect()
        await connection.request("GET /exec", *WEBSOCKET)
        await connection.head()
        connection.writer.transport.abort()
        await tunnel.closed.wait()
        await edge.exchange()


async def test_a_slow_member_holds_back_the_client(serving: Any) -> None:
    tunnel = Tunnel(room=1)
    sent, pieces = 0, 1000

    async with serving(accepting(tunnel)) as edge:
        connection = await edge.connect()
        await connection.request("GET /exec", *WEBSOCKET)
        await connection.head()

        async def send() -> None:
            nonlocal sent
            for _ in range(pieces):
                await connection.send(b"x" * 65536)
                sent += 65536

        async with asyncio.TaskGroup() as group:
            group.create_task(send())
            received = 0
            while received < pieces * 65536:
                received += len(await tunnel.from_client.get())
                # buffers of both ends and of the kernel lie between, not the whole
                assert sent - received < pieces * 65536 // 2
            assert received == pieces * 65536
        await connection.close()
        assert await tunnel.from_client.get() == b""
        await tunnel.closed.wait()


async def test_a_slow_client_holds_back_the_member(serving: Any) -> None:
    tunnel = Tunnel()
    pieces = 1000
    for _ in range(pieces):
        tunnel.to_client.put_nowait(b"x" * 65536)
    async with serving(accepting(tunnel)) as edge:
        connection = await edge.connect()
        await connection.request("GET /exec", *WEBSOCKET)
        await connection.head()
        for taken in range(pieces):
            await connection.reader.readexactly(65536)
            assert tunnel.to_client.qsize() > pieces // 2 - taken
        await connection.close()


async def test_a_client_that_only_seems_to_half_close_is_given_up(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade, "HALF_CLOSED_S", 0.05)
    tunnel = Tunnel()
    async with serving(accepting(tunnel), tls=False) as edge:
        connection = await edge.connect()
        await connection.request("GET /exec", *WEBSOCKET)
        await connection.head()
        await connection.close()  # over plain TCP a close is first seen as a half-close
        await tunnel.closed.wait()
        await edge.exchange()


async def test_tunnels_end_when_the_server_stops(serving: Any) -> None:
    tunnel = Tunnel()
    async with serving(accepting(tunnel)) as edge:
        connection = await edge.connect()
        await connection.request("GET /exec", *WEBSOCKET)
        await connection.head()
        assert edge.server.long_running == 1
        await edge.server.stop(grace_s=5)
        assert tunnel.closed.is_set()
        assert await connection.reader.read(-1) == b""
        await connection.close()


async def test_an_upgrade_without_a_tunnel_is_a_fault_not_a_101(
    serving: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(request: Request) -> Response:
        return Response(101, {"Connection": "Upgrade", "Upgrade": "websocket"})

    async with serving(answer) as edge:
        connection = await edge.connect()
        await connection.request("GET /exec", *WEBSOCKET)
        assert (await connection.answer())[0] == 500
        await connection.close()
