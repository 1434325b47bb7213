"""Connections on which the head of a request does not come to its end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from fleet.apiserver.http import Options, Server, _Connection
from fleet.kube.wire import Request, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WHOLE = b"GET /version HTTP/1.1\r\nHost: fleet\r\n\r\n"


class Fine:
    async def handle(self, request: Request) -> Response:
        return Response(200, {"content-type": "text/plain"}, b"fine")


@asynccontextmanager
async def connected(
    *, head_s: float
) -> AsyncIterator[tuple[Server, asyncio.StreamReader, asyncio.StreamWriter]]:
    server = Server(Fine(), Options(head_s=head_s))
    host, port = await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield server, reader, writer
    finally:
        writer.close()
        await server.stop(grace_s=0)


def overdue(server: Server) -> Any:
    assert server._manager is not None
    (connection,) = server._manager.connections
    return connection._overdue  # type: ignore[attr-defined]


@pytest.mark.parametrize("begun", [b"", b"GET /ver", WHOLE[:-2]])
async def test_a_head_that_does_not_end_ends_the_connection(begun: bytes) -> None:
    async with connected(head_s=0.01) as (_, reader, writer):
        writer.write(begun)
        assert await reader.read() == b""


async def test_between_requests_nothing_is_overdue_and_a_begun_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrived: asyncio.Queue[None] = asyncio.Queue()

    def take(self: Any, data: bytes) -> None:
        take_in(self, data)
        arrived.put_nowait(None)

    take_in = _Connection.data_received
    monkeypatch.setattr(_Connection, "data_received", take)
    async with connected(head_s=3600) as (server, reader, writer):
        for _ in range(2):
            writer.write(WHOLE)
            await reader.readuntil(b"fine")
            await arrived.get()
            assert overdue(server) is None
        writer.write(WHOLE[:9])
        await arrived.get()
        first = overdue(server)
        writer.write(WHOLE[9:-2])
        await arrived.get()
        assert overdue(server) is first  # more of a head gives it no more time
        writer.write(WHOLE[-2:])
        await reader.readuntil(b"fine")
        assert overdue(server) is None
        assert first.cancelled()


async def test_the_second_head_of_a_connection_is_overdue_as_the_first() -> None:
    async with connected(head_s=3600) as (server, reader, writer):
        writer.write(WHOLE)
        await reader.readuntil(b"fine")
        (connection,) = server._manager.connections  # type: ignore[union-attr]
        connection._head_s = 0.01  # type: ignore[attr-defined]
        writer.write(WHOLE[:9])
        assert await reader.read() == b""
