"""Upgraded connections: opaque bytes between a client and a tunnel.

The other side has been reached before the client hears `101`, since a client falls back to
another protocol only on a refusal, never after an accepted upgrade that then fails. From there on
nothing is interpreted: exec, attach and port-forward over WebSocket or SPDY all pass.

Invariant: bytes keep their order, none is lost that arrived early, and at most `BUFFER_BYTES` are
held either way. A client other than a WebSocket one has to wait for the `101` before it sends, as
SPDY clients do.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from aiohttp import web

from fleet.apiserver.incoming import open_transport
from fleet.errors import TransportError

if TYPE_CHECKING:
    from multidict import CIMultiDict

    from fleet.apiserver.outgoing import Draining
    from fleet.kube.wire import Duplex

logger = logging.getLogger(__name__)

BUFFER_BYTES = 256 << 10

LINGER_S = 5.0
"""How long the rest of what a vanished client sent may take to reach the other side."""

HALF_CLOSED_S = 30.0
"""How long one direction may outlive the other. A peer that has gone altogether looks the same as
one that only has no more to say, and no client of Kubernetes does the latter."""


def hold(raw: web.BaseRequest) -> None:
    """Leave what the client sends from here on in the socket, until `take_over` or `release`."""
    if (transport := open_transport(raw)) is not None:
        _pause_whole(transport)
        transport.pause_reading()


def release(raw: web.BaseRequest) -> None:
    """Go on with HTTP: the upgrade was declined."""
    if (transport := open_transport(raw)) is not None:
        transport.resume_reading()


async def take_over(
    raw: web.BaseRequest, headers: CIMultiDict[str], tunnel: Duplex, *, draining: Draining
) -> web.StreamResponse:
    """Answer 101 and carry bytes until both sides have ended, or either breaks.

    Closes the tunnel and the connection. Raises ConnectionError when the client is gone before
    it could be answered.
    """
    reply = web.StreamResponse(status=101, headers=headers)
    reply.force_close()
    transport = open_transport(raw)
    if transport is None:
        raise ConnectionResetError("the client is gone")
    http = raw.protocol
    await reply.prepare(raw)
    early = _Early()
    http.set_parser(early)  # type: ignore[arg-type]  # it feeds any object of this shape
    client = _Client(transport, early=bytes(early.data))
    transport.set_protocol(client)
    transport.resume_reading()
    try:
        async with draining.scope():
            await _carry(client, tunnel)
    finally:
        transport.close()
        # aiohttp's books of connections: not told before, since it cancels this task when it is.
        client.hand_back(http)
        await tunnel.close()
    return reply


def _pause_whole(transport: asyncio.Transport) -> None:
    """Have a pause of reading stop at the socket itself, not only at what TLS has decrypted.

    uvloop throws away what a paused TLS connection still holds when the peer's end arrives behind
    it; with nothing held there is nothing to lose.
    """
    limits = getattr(transport, "set_read_buffer_limits", None)  # transports of TLS have it
    if limits is not None:
        limits(high=1, low=0)


async def _carry(client: _Client, tunnel: Duplex) -> None:
    """Both directions, each at the pace of its slower side.

    A half-close is passed on where the transport knows it, and the other direction may go on for
    `HALF_CLOSED_S`; over TLS, as asyncio speaks it, the end of one is the end of both.
    """

    async def up() -> None:
        while data := await client.read():
            await tunnel.write(data)
        await tunnel.write_eof()

    async def down() -> None:
        while data := await tunnel.read():
            try:
                await client.write(data)
            except ConnectionError:
                return  # `gone` sees to the rest
        client.end()

    async def gone() -> None:
        """Once nobody is left to write to: what was received still goes up, then all is over."""
        await client.lost.wait()
        downwards.cancel()
        await asyncio.wait({upwards}, timeout=LINGER_S)
        upwards.cancel()

    try:
        async with asyncio.TaskGroup() as group:
            downwards = group.create_task(down(), name="tunnel to the client")
            upwards = group.create_task(up(), name="tunnel from the client")
            watcher = group.create_task(gone(), name="tunnel's client")
            both = {downwards, upwards}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(both, timeout=HALF_CLOSED_S)
            for task in (*both, watcher):
                task.cancel()
    except* (ConnectionError, TransportError) as errors:
        logger.debug("the far side of a tunnel broke off: %s", errors.exceptions[0])


class _Early:
    """Takes from aiohttp what it had read past the upgrade request."""

    def __init__(self) -> None:
        self.data = bytearray()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.data += data
        return False, b""

    def feed_eof(self) -> None:
        pass


class _Client(asyncio.Protocol):
    """The client's connection, once it is no longer HTTP."""

    def __init__(self, transport: asyncio.Transport, *, early: bytes) -> None:
        self._transport = transport
        self._tls = transport.get_extra_info("sslcontext") is not None
        self._received: deque[bytes] = deque([early] if early else [])
        self._held = len(early)
        self._eof = False
        self._paused = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._http: asyncio.Protocol | None = None
        self._loss: Exception | None = None
        self.lost = asyncio.Event()

    # -- what the transport calls

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        self._held += len(data)
        self._readable.set()
        if self._held >= BUFFER_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._eof = True
        self._readable.set()
        return not self._tls

    def connection_lost(self, exc: Exception | None) -> None:
        self._eof = True
        self._readable.set()
        self._writable.set()
        self._loss = exc
        self.lost.set()
        if self._http is not None:
            self._http.connection_lost(exc)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # -- what the pumps call

    async def read(self) -> bytes:
        """The next bytes, b"" when there will be no more."""
        while not self._received:
            if self._eof:
                return b""
            self._readable.clear()
            await self._readable.wait()
        data = self._received.popleft()
        self._held -= len(data)
        if self._paused and self._held <= BUFFER_BYTES // 2:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        if self.lost.is_set() or self._transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self._transport.write(data)
        await self._writable.wait()

    def end(self) -> None:
        """No more will be written: a half-close, or a close where there is none."""
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def hand_back(self, http: asyncio.Protocol) -> None:
        """Tell `http` of the connection's end when it comes, or soon if it has come."""
        if self.lost.is_set():
            asyncio.get_running_loop().call_soon(http.connection_lost, self._loss)
        else:
            self._http = http
