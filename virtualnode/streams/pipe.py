"""A connection inside the process: two ends, bytes in order both ways, bounded.

Each end is a `fleet.kube.wire.Duplex`. A writer waits while the other side has `LIMIT_BYTES`
unread; when a side has closed, the other reads what is left and then the end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

LIMIT_BYTES: Final = 256 << 10


class _Lane:
    """One direction."""

    def __init__(self) -> None:
        self.pieces: deque[bytes] = deque()
        self.held = 0
        self.ended = False
        self.broken = False
        self.changed = asyncio.Event()

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class End:
    """One end of a connection."""

    def __init__(self, inbound: _Lane, outbound: _Lane) -> None:
        self._in = inbound
        self._out = outbound

    async def read(self) -> bytes:
        """The next bytes, b"" at the end."""
        lane = self._in
        while not lane.pieces:
            if lane.ended or lane.broken:
                return b""
            await lane.changed.wait()
        piece = lane.pieces.popleft()
        lane.held -= len(piece)
        lane.notify()
        return piece

    async def write(self, data: bytes) -> None:
        """Raises ConnectionResetError when the other side is gone."""
        lane = self._out
        while lane.held >= LIMIT_BYTES and not lane.broken:
            await lane.changed.wait()
        if lane.broken or lane.ended:
            raise ConnectionResetError("the other side is gone")
        if data:
            lane.pieces.append(data)
            lane.held += len(data)
            lane.notify()

    async def write_eof(self) -> None:
        """No more will be written from here."""
        self._out.ended = True
        self._out.notify()

    async def close(self) -> None:
        """End both directions; what was written can still be read."""
        self._out.ended = True
        self._out.notify()
        self._in.broken = True
        self._in.notify()


def connection() -> tuple[End, End]:
    """Two ends of a new connection."""
    there, back = _Lane(), _Lane()
    return End(back, there), End(there, back)
