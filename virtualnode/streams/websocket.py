"""WebSocket, the server's side, over any byte connection (RFC 6455).

Just what channel protocols need: whole messages, fragments joined, pings answered, a closing
handshake. A client that breaks the rules is told so and disconnected.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import TYPE_CHECKING, Final

from fleet.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.kube.wire import Duplex

LARGEST_MESSAGE: Final = 4 << 20
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10


class Broken(Exception):
    """The client broke the protocol; `code` is the close code it is told."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


def is_asked(headers: Mapping[str, str]) -> bool:
    """Whether a request offers to become a WebSocket."""
    return headers.get("upgrade", "").lower() == "websocket"


def accept(headers: Mapping[str, str], known: Sequence[str]) -> tuple[dict[str, str], str]:
    """The headers that accept the upgrade, and the protocol chosen: the first offered one that is
    `known`, "" when none was offered.

    Raises BadRequest for an offer that cannot be accepted.
    """
    key = headers.get("sec-websocket-key", "")
    if not key or headers.get("sec-websocket-version", "13") != "13":
        raise BadRequest("this is no WebSocket of version 13")
    offered = [each.strip() for each in headers.get("sec-websocket-protocol", "").split(",")]
    offered = [each for each in offered if each]
    chosen = next((each for each in offered if each in known), "")
    if offered and not chosen:
        raise BadRequest(
            f"none of the protocols {', '.join(offered)} is spoken here; those are: "
            + ", ".join(known)
        )
    digest = hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()
    accepted = {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-accept": base64.b64encode(digest).decode(),
    }
    if chosen:
        accepted["sec-websocket-protocol"] = chosen
    return accepted, chosen


class WebSocket:
    """An accepted WebSocket. One task reads; writes may come from several, whole frames each."""

    def __init__(self, connection: Duplex) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self._closed = False

    async def receive(self) -> bytes | None:
        """The next message; None when the client has closed. Raises Broken."""
        message = bytearray()
        while True:
            frame = await self._frame()
            if frame is None:
                return None
            final, code, payload = frame
            if code == _CLOSE:
                await self.close()
                return None
            if code == _PING:
                await self._send(_PONG, payload)
                continue
            if code == _PONG:
                continue
            if code not in (_CONTINUATION, _TEXT, _BINARY):
                raise Broken(1002, f"unknown kind of frame: {code}")
            message += payload
            if len(message) > LARGEST_MESSAGE:
                raise Broken(1009, f"a message has at most {LARGEST_MESSAGE} bytes")
            if final:
                return bytes(message)

    async def send(self, message: bytes) -> None:
        """Send one binary message. Raises ConnectionResetError when the client is gone."""
        await self._send(_BINARY, message)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Say good-bye, once, and end the connection."""
        if self._closed:
            return
        self._closed = True
        try:
            payload = struct.pack("!H", code) + reason.encode()[:120]
            await self._write(_CLOSE, payload)
        except ConnectionError:
            pass
        await self._connection.write_eof()

    async def _send(self, code: int, payload: bytes) -> None:
        if self._closed:
            raise ConnectionResetError("the WebSocket is closed")
        await self._write(code, payload)

    async def _write(self, code: int, payload: bytes) -> None:
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", 0x80 | code, size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x80 | code, 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | code, 127, size)
        await self._connection.write(head + payload)

    async def _frame(self) -> tuple[bool, int, bytes] | None:
        head = await self._take(2)
        if head is None:
            return None
        first, second = head
        if not second & 0x80:
            raise Broken(1002, "a client masks its frames")
        if first & 0x70:
            raise Broken(1002, "no extension was agreed on")
        size = second & 0x7F
        if size > 125:
            width = 2 if size == 126 else 8
            longer = await self._take(width)
            if longer is None:
                return None
            size = int.from_bytes(longer)
        if size > LARGEST_MESSAGE:
            raise Broken(1009, f"a message has at most {LARGEST_MESSAGE} bytes")
        rest = await self._take(4 + size)
        if rest is None:
            return None
        return bool(first & 0x80), first & 0x0F, _unmasked(rest[4:], rest[:4])

    async def _take(self, count: int) -> bytes | None:
        """Exactly `count` bytes; None at the end."""
        while len(self._buffer) < count:
            data = await self._connection.read()
            if not data:
                return None
            self._buffer += data
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


def _unmasked(data: bytes, mask: bytes) -> bytes:
    """`data` xor the repeated mask, in one operation on large integers."""
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data) ^ int.from_bytes(key)).to_bytes(size)
