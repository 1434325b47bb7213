"""What is asked of a connection whose other end has gone, by the event loop that is shipped."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from multidict import CIMultiDict

from fleet.apiserver import upgrade
from fleet.apiserver.incoming import Limits, open_transport, read_body


async def closed() -> asyncio.Transport:
    """A transport after its connection was closed and before anybody has looked."""
    loop = asyncio.get_running_loop()
    here: asyncio.Future[asyncio.Transport] = loop.create_future()

    class Peer(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            here.set_result(transport)

    server = await loop.create_server(Peer, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    transport = await here
    gone = loop.create_future()
    transport.set_protocol(_Gone(gone))
    transport.abort()
    await gone
    writer.close()
    server.close()
    return transport


class _Gone(asyncio.Protocol):
    def __init__(self, gone: asyncio.Future[None]) -> None:
        self._gone = gone

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set_result(None)


class _NoBody:
    async def readany(self) -> bytes:
        return b""


async def everything() -> None:
    transport = await closed()
    with pytest.raises(RuntimeError, match="handler is closed"):
        transport.set_write_buffer_limits(high=1)  # what the edge must not run into

    raw: Any = SimpleNamespace(
        transport=transport, body_exists=True, content_length=0, content=_NoBody()
    )
    assert open_transport(raw) is None
    upgrade.hold(raw)
    upgrade.release(raw)
    assert await read_body(raw, {"expect": "100-continue"}, Limits()) == b""
    with pytest.raises(ConnectionResetError):
        await upgrade.take_over(raw, CIMultiDict(), raw, draining=raw)


def test_a_connection_that_was_closed_meanwhile_is_no_fault() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(everything())
