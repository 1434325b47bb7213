"""Lines out of a byte stream, without a limit on their length.

A watch sends one JSON document a line; an object may weigh megabytes, far beyond the line limits
of stream readers (aiohttp's is 128 KiB). Lines come in bursts – all those that one piece of
bytes completed – so that a consumer can work through a burst and then give the event loop a
turn. Next step: `fleet.members.events` reads a line.
"""

from __future__ import annotations


class LineSplitter:
    """Cuts pieces of bytes at `\\n`. Work is linear in the bytes fed, however they are cut."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that `piece` completes, without their ends; blank lines are left out."""
        first, *rest = piece.split(b"\n")
        if not rest:
            if piece:
                self._open.append(piece)
            return []
        if self._open:
            self._open.append(first)
            first = b"".join(self._open)
            self._open.clear()
        last = rest.pop()
        if last:
            self._open.append(last)
        return [line for line in (first, *rest) if line.strip()]

    def end(self) -> bytes:
        """What follows the last `\\n`: empty after a stream that ended properly."""
        rest = b"".join(self._open)
        self._open.clear()
        return rest
