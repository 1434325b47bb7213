"""Upgraded connections to a member: exec, attach, port-forward, over WebSocket or SPDY.

The request is written by hand on a connection of its own, so that every header of the caller's
offer goes through and every byte after the answer is left alone. An answer other than 101 is an
ordinary response: clients fall back to another protocol on it. Source of the framing: RFC 9112.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import io
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from adapters.kubernetes import headers as header_rules
from adapters.kubernetes import sockets
from fleet.errors import TransportError
from fleet.kube.wire import Response

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_HEAD_BYTES = 64 << 10
_MAX_REFUSAL_BYTES = 1 << 20
_READ_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Destination:
    """Where and how to connect. `tls` None: plain http."""

    server: str
    tls: ssl.SSLContext | None
    server_name: str = ""
    proxy: str = ""


class Tunnel:
    """A `fleet.kube.wire.Duplex` over a connection whose upgrade the member accepted."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(_READ_BYTES)
        except (OSError, ssl.SSLError) as error:
            raise TransportError(f"the connection broke: {error}") from error

    async def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (OSError, ssl.SSLError, RuntimeError) as error:
            raise TransportError(f"the connection broke: {error}") from error

    async def write_eof(self) -> None:
        if self._writer.can_write_eof():  # TLS cannot
            try:
                self._writer.write_eof()
            except (OSError, RuntimeError) as error:
                raise TransportError(f"the connection broke: {error}") from error

    async def close(self) -> None:
        await _close(self._writer)


async def upgrade(
    destination: Destination,
    *,
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
    connect_s: float,
    answer_s: float,
) -> Response:
    """The member's answer: 101 with a tunnel, or whatever else it said.

    Raises TransportError.
    """
    reader, writer = await connect(destination, connect_s=connect_s)
    kept = False
    try:
        async with asyncio.timeout(answer_s):
            writer.write(_head(destination.server, method, target, headers, body))
            await writer.drain()
            status, answered = await _answer_head(reader)
            if status == 101:
                kept = True
                accepted = header_rules.offered_back(answered.items())
                return Response(101, accepted, tunnel=Tunnel(reader, writer))
            raw = await _refusal(reader, answered)
        plain, warnings = header_rules.from_member(answered.items())
        return Response(status, plain, raw, warnings)
    except TimeoutError as error:
        raise TransportError(f"{method} {target}: no answer within {answer_s:g} s") from error
    except (OSError, EOFError, asyncio.LimitOverrunError, http.client.HTTPException) as error:
        raise TransportError(
            f"{method} {target}: the connection broke before an answer: {error}"
        ) from error
    finally:
        if not kept:
            await _close(writer)


async def connect(
    destination: Destination, *, connect_s: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the server, TLS done. Raises TransportError with `sent=False`."""
    parts = urlsplit(destination.server)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    name = destination.server_name or host
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(connect_s):
            if destination.proxy:
                reader, writer = await _through_proxy(destination.proxy, host, port)
                if destination.tls is not None:
                    await writer.start_tls(destination.tls, server_hostname=name)
            else:
                reader, writer = await asyncio.open_connection(
                    host,
                    port,
                    ssl=destination.tls,
                    server_hostname=name if destination.tls is not None else None,
                    limit=_MAX_HEAD_BYTES,
                )
            if handle := writer.get_extra_info("socket"):
                sockets.watchful(handle)
            sockets.pause_whole(writer.transport)
            return reader, writer
    except (OSError, TimeoutError, EOFError, http.client.HTTPException) as error:
        if writer is not None:
            writer.transport.abort()
        why = str(error) or f"no connection within {connect_s:g} s"
        raise TransportError(
            f"cannot connect to {destination.server}: {why}", sent=False
        ) from error
    except BaseException:
        if writer is not None:
            writer.transport.abort()
        raise


async def _through_proxy(
    proxy: str, host: str, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(proxy)
    secure = parts.scheme == "https"
    reader, writer = await asyncio.open_connection(
        parts.hostname,
        parts.port or (443 if secure else 80),
        ssl=ssl.create_default_context() if secure else None,
        limit=_MAX_HEAD_BYTES,
    )
    try:
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        if parts.username:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}")
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        status, _ = await _answer_head(reader)
        if status != 200:
            raise ConnectionRefusedError(f"proxy {parts.hostname} answered {status} to CONNECT")
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


def _head(
    server: str, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes
) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {urlsplit(server).netloc.rpartition('@')[2]}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body or method not in ("GET", "HEAD"):
        lines.append(f"Content-Length: {len(body)}")
    if any("\r" in line or "\n" in line for line in lines):
        raise TransportError("a header holds a line break", sent=False)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape") + body


async def _answer_head(reader: asyncio.StreamReader) -> tuple[int, http.client.HTTPMessage]:
    """Status and headers of the next response that is not a `100 Continue`."""
    while True:
        raw = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = raw.partition(b"\r\n")
        version, _, tail = line.partition(b" ")
        code = tail[:3]
        if not version.startswith(b"HTTP/1.") or not code.isdigit():
            raise http.client.BadStatusLine(line[:64].decode(errors="replace"))
        if code != b"100":
            return int(code), http.client.parse_headers(io.BytesIO(rest))


async def _refusal(reader: asyncio.StreamReader, headers: http.client.HTTPMessage) -> bytes:
    """The body of an answer that is no upgrade."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _chunks(reader)
    length = headers.get("content-length")
    if length is None:
        return await _until_end(reader)
    if not length.isdigit() or int(length) > _MAX_REFUSAL_BYTES:
        raise http.client.HTTPException(f"unusable Content-Length {length[:32]}")
    return await reader.readexactly(int(length))


async def _until_end(reader: asyncio.StreamReader) -> bytes:
    raw = b""
    while piece := await reader.read(_READ_BYTES):
        raw += piece
        if len(raw) > _MAX_REFUSAL_BYTES:
            raise http.client.HTTPException("the answer is too large")
    return raw


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    raw = b""
    while True:
        size_text = (await reader.readuntil(b"\r\n")).partition(b";")[0].strip()
        try:
            size = int(size_text, 16)
        except ValueError as error:
            raise http.client.HTTPException("unreadable chunk size") from error
        if size == 0:
            return raw
        if len(raw) + size > _MAX_REFUSAL_BYTES:
            raise http.client.HTTPException("the answer is too large")
        raw += (await reader.readexactly(size + 2))[:-2]


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close without waiting for a peer that does not answer."""
    writer.close()
    try:
        async with asyncio.timeout(1.0):
            await writer.wait_closed()
    except (OSError, TimeoutError, ssl.SSLError):
        writer.transport.abort()
