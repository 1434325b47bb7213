"""Answers on their way out: header lines, and bodies at the pace of the client.

A body in memory goes out in pieces of about `PIECE_BYTES`, a stream as it comes; either waits
whenever the connection's buffer is full, so a slow client costs one piece, never the whole.
`fleet.apiserver.http` decides what is sent, this module how.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web
from multidict import CIMultiDict

from fleet.apiserver.incoming import open_transport
from fleet.errors import ApiError, MemberStatus
from fleet.kube.status import encode, status_of
from fleet.kube.wire import Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

PIECE_BYTES = 256 << 10
"""Anything from 64 to 512 KiB is equally fast; smaller costs calls, larger costs memory."""

BUFFER_BYTES = 128 << 10
"""What a connection may hold that the client has not taken, beyond the piece being sent."""

YIELD_BYTES = 1 << 20
"""A client that takes everything at once still lets others in after this much."""

STALLED_S = 60.0
"""A client that takes nothing for so long is cut off."""

_JSON = "application/json"
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-length",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_WARNING_CHARS = 1024
_WARNINGS_CHARS = 4096


def error_response(error: ApiError) -> Response:
    """The Status of an error, with `Retry-After` where it says when to come back."""
    status = status_of(error)
    headers = {"Content-Type": _JSON}
    wait_s = (status.get("details") or {}).get("retryAfterSeconds")
    if isinstance(wait_s, int) and wait_s > 0:
        headers["Retry-After"] = str(wait_s)
    code = error.http_code
    if isinstance(error, MemberStatus) and not 400 <= code <= 599:
        code = 500  # a member may write anything into its Status; an error must stay one
    warnings = error.warnings if isinstance(error, MemberStatus) else ()
    return Response(code, headers, encode(status), warnings)


def header_lines(response: Response, *, audit_id: str) -> CIMultiDict[str]:
    """The answer's headers, without those that concern one connection only (RFC 9110 7.6.1)."""
    lines: CIMultiDict[str] = CIMultiDict()
    keep_connection = response.status == 101
    for name, value in response.headers.items():
        lower = name.lower()
        if lower in _HOP_BY_HOP and not (keep_connection and lower in ("connection", "upgrade")):
            continue
        lines[name] = value
    lines.setdefault("Cache-Control", "no-cache, private")
    lines["Audit-Id"] = audit_id
    lines.setdefault("Server", "fleet")
    for value in warning_values(response.warnings):
        lines.add("Warning", value)
    return lines


def warning_values(texts: Iterable[str]) -> Iterator[str]:
    """Values of `Warning` headers (RFC 7234 5.5), as kubectl prints them: each text once, long
    ones cut, and a count in place of those beyond what clients are sure to take."""
    room = _WARNINGS_CHARS
    left_out = 0
    for text in dict.fromkeys(texts):
        clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        if len(clean) > _WARNING_CHARS:
            clean = clean[: _WARNING_CHARS - 1] + "…"
        if len(clean) > room:
            left_out += 1
            continue
        room -= len(clean)
        escaped = clean.replace("\\", "\\\\").replace('"', '\\"')
        yield f'299 - "{escaped}"'
    if left_out:
        yield f'299 - "{left_out} more warnings are left out"'


class Draining:
    """Ends what would go on for ever – streams, tunnels – when the server stops."""

    def __init__(self) -> None:
        self._scopes: set[asyncio.Timeout] = set()
        self._stopping = False

    def __len__(self) -> int:
        """How many are open."""
        return len(self._scopes)

    @asynccontextmanager
    async def scope(self) -> AsyncIterator[None]:
        """Around the body of something endless; left quietly once `stop` is called."""
        scope = asyncio.timeout(0 if self._stopping else None)
        try:
            async with scope:
                self._scopes.add(scope)
                yield
        except TimeoutError:
            if not scope.expired():
                raise
        finally:
            self._scopes.discard(scope)

    def stop(self) -> None:
        self._stopping = True
        now_s = asyncio.get_running_loop().time()
        for scope in self._scopes:
            scope.reschedule(now_s)


class Outlet:
    """The writing side of one exchange. `sent` counts the body's bytes.

    Every method raises ConnectionError when the client is gone or takes nothing for `stalled_s`;
    the connection is then of no more use.
    """

    def __init__(self, raw: web.BaseRequest, *, stalled_s: float = STALLED_S) -> None:
        self._raw = raw
        self._stalled_s = stalled_s
        self._unyielded = 0
        self.sent = 0

    async def whole(
        self, status: int, headers: CIMultiDict[str], body: bytes
    ) -> web.StreamResponse:
        """A body small enough to leave in one write with its headers."""
        reply = web.Response(status=status, headers=headers, body=body)
        await reply.prepare(self._raw)
        await self._end(reply)
        self.sent += len(body)
        return reply

    async def head_only(self, status: int, headers: CIMultiDict[str]) -> web.StreamResponse:
        """The answer to HEAD."""
        reply = web.StreamResponse(status=status, headers=headers)
        await reply.prepare(self._raw)
        await self._end(reply)
        return reply

    async def pieces(
        self, status: int, headers: CIMultiDict[str], body: Sequence[bytes]
    ) -> web.StreamResponse:
        """A body made of pieces, each asked for once and in order.

        `list` and `tuple` are counted and get a `Content-Length`; another sequence may make its
        pieces as it is read, so it is sent chunked, unless all of it fits into one write.
        """
        chunks = coalesced(body)
        first = next(chunks, b"")
        second = next(chunks, None)
        if second is None and len(first) <= PIECE_BYTES:
            return await self.whole(status, headers, bytes(first))
        if isinstance(body, list | tuple):
            headers["Content-Length"] = str(sum(map(len, body)))
        reply = await self._start(status, headers)
        await self._put(first, reply)
        while second is not None:
            await self._put(second, reply)
            second = next(chunks, None)
        await self._end(reply)
        return reply

    async def stream(
        self,
        status: int,
        headers: CIMultiDict[str],
        body: AsyncIterator[bytes],
        *,
        draining: Draining,
    ) -> web.StreamResponse:
        """A body as it comes: the headers leave at once, each piece as soon as it is there.

        It ends in order, terminator and all, with the iterator or when `draining` says so.
        """
        reply = await self._start(status, headers)
        async with draining.scope():
            async for data in body:
                if data:
                    await self._put(data, reply)
        await self._end(reply)
        return reply

    async def _start(self, status: int, headers: CIMultiDict[str]) -> web.StreamResponse:
        reply = web.StreamResponse(status=status, headers=headers)
        if "Content-Length" not in headers and self._raw.version < (1, 1):
            reply.force_close()  # HTTP/1.0 has no chunks: the end of the connection is the end
        await reply.prepare(self._raw)
        return reply

    async def _end(self, reply: web.StreamResponse) -> None:
        try:
            async with asyncio.timeout(self._stalled_s):
                await reply.write_eof()
        except TimeoutError:
            raise self._stalled() from None

    async def _put(self, data: bytes | memoryview, reply: web.StreamResponse) -> None:
        transport = open_transport(self._raw)
        if transport is None:
            raise ConnectionResetError("the client is gone")
        size = len(data)
        if "Transfer-Encoding" not in reply.headers:
            transport.write(data)
        elif size < PIECE_BYTES // 4 or transport.get_extra_info("sslcontext") is None:
            transport.write(b"".join((b"%x\r\n" % size, data, b"\r\n")))
        else:  # TLS copies what it encrypts; a large piece need not be copied before that too
            transport.writelines((b"%x\r\n" % size, data, b"\r\n"))
        self.sent += size
        self._unyielded += size
        if transport.get_write_buffer_size():
            try:
                async with asyncio.timeout(self._stalled_s):
                    await self._raw.writer.drain()
            except TimeoutError:
                raise self._stalled() from None
        elif self._unyielded >= YIELD_BYTES:
            self._unyielded = 0
            await asyncio.sleep(0)

    def _stalled(self) -> ConnectionAbortedError:
        return ConnectionAbortedError(
            f"{self._raw.remote} has taken nothing for {self._stalled_s:g} s"
        )


def coalesced(pieces: Iterable[bytes]) -> Iterator[bytes | memoryview]:
    """The same bytes in portions near `PIECE_BYTES`: small pieces joined, large ones passed on
    without a copy, huge ones cut."""
    batch: list[bytes] = []
    size = 0
    for piece in pieces:
        length = len(piece)
        if size + length < PIECE_BYTES:
            batch.append(piece)
            size += length
            continue
        if batch:
            yield b"".join(batch)
            batch, size = [], 0
        if length < PIECE_BYTES:
            batch.append(piece)
            size += length
        elif length <= 2 * PIECE_BYTES:
            yield piece
        else:
            view = memoryview(piece)
            for at in range(0, length, PIECE_BYTES):
                yield view[at : at + PIECE_BYTES]
    if batch:
        yield b"".join(batch)
