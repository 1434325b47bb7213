"""Log files of containers, in the format that container runtimes write (CRI logging).

One line a record: `2026-01-01T00:00:00.000000000Z stdout F text`, with `P` in place of `F` for a
piece of a line that goes on. Files rotate by size and the oldest go, so a chatty container fills no
disk. A reader that follows is woken by what is written; it never polls.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

FILE_BYTES: Final = 10 << 20
FILES: Final = 5
LINE_BYTES: Final = 16 << 10  # longer lines are written in pieces, as runtimes do
_READ_BYTES: Final = 64 << 10
_FOLLOWER_CHUNKS: Final = 256


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which records of a log, and in which form."""

    timestamps: bool
    since: float | None
    stream: str


@dataclass(slots=True)
class _File:
    path: Path
    start: int
    size: int = 0


class Log:
    """The log of one run of one container: one writer, any number of readers.

    Positions are absolute: they go on over rotations.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], datetime],
        file_bytes: int = FILE_BYTES,
        files: int = FILES,
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._now = now
        self._file_bytes = file_bytes
        self._most_files = files
        self._files: list[_File] = []
        self._out: BinaryIO | None = None
        self._partial: dict[str, bytes] = {}
        self._grown = asyncio.Event()
        self._followers: set[asyncio.Queue[tuple[str, bytes] | None]] = set()
        self.closed = False
        self._rotate()

    # -- writing

    def write(self, stream: str, data: bytes) -> None:
        """Append what a process wrote to `stream`."""
        self._tell((stream, data))
        lines = (self._partial.pop(stream, b"") + data).split(b"\n")
        rest = lines.pop()
        stamp = _stamp(self._now())
        records = [b"%b %b F %b\n" % (stamp, stream.encode(), line) for line in lines]
        while len(rest) >= LINE_BYTES:
            records.append(b"%b %b P %b\n" % (stamp, stream.encode(), rest[:LINE_BYTES]))
            rest = rest[LINE_BYTES:]
        if rest:
            self._partial[stream] = rest
        if records:
            self._append(b"".join(records))

    def close(self) -> None:
        """Nothing more will come. Readers end when they have read everything."""
        if self.closed:
            return
        stamp = _stamp(self._now())
        for stream, rest in self._partial.items():
            self._append(b"%b %b F %b\n" % (stamp, stream.encode(), rest))
        self._partial.clear()
        self.closed = True
        if self._out is not None:
            self._out.close()
        self._tell(None)
        self._wake()

    def remove(self) -> None:
        """Close it and delete its files."""
        self.close()
        for file in self._files:
            file.path.unlink(missing_ok=True)

    def _append(self, records: bytes) -> None:
        last = self._files[-1]
        if last.size and last.size + len(records) > self._file_bytes:
            self._rotate()
            last = self._files[-1]
        assert self._out is not None
        self._out.write(records)
        last.size += len(records)
        self._wake()

    def _rotate(self) -> None:
        if self._out is not None:
            self._out.close()
        start = self._files[-1].start + self._files[-1].size if self._files else 0
        path = self._path.with_name(f"{self._path.name}.{start}") if start else self._path
        self._files.append(_File(path, start))
        self._out = path.open("wb", buffering=0)
        while len(self._files) > self._most_files:
            self._files.pop(0).path.unlink(missing_ok=True)

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    def _tell(self, chunk: tuple[str, bytes] | None) -> None:
        for follower in tuple(self._followers):
            try:
                follower.put_nowait(chunk)
            except asyncio.QueueFull:
                self._followers.discard(follower)
                with contextlib.suppress(asyncio.QueueEmpty):
                    follower.get_nowait()
                follower.put_nowait(None)

    # -- reading

    async def live(self) -> AsyncIterator[tuple[str, bytes]]:
        """What is written from here on, raw, by stream. Ends with the log, and early for a reader
        too slow to keep up: a process is never held back by who looks at it."""
        queue: asyncio.Queue[tuple[str, bytes] | None] = asyncio.Queue(_FOLLOWER_CHUNKS)
        if self.closed:
            return
        self._followers.add(queue)
        try:
            while (chunk := await queue.get()) is not None:
                yield chunk
        finally:
            self._followers.discard(queue)

    async def read(
        self,
        *,
        follow: bool = False,
        timestamps: bool = False,
        tail_lines: int | None = None,
        since: float | None = None,
        limit_bytes: int | None = None,
        stream: str = "",
    ) -> AsyncIterator[bytes]:
        """The log as `kubectl logs` shows it (PodLogOptions). `since` is in epoch seconds;
        `stream` is `stdout`, `stderr` or "" for both."""
        wanted = _Wanted(timestamps, since, stream)
        room = limit_bytes
        position = self._tail(tail_lines) if tail_lines is not None else 0
        partial = False
        while True:
            grown, ended = self._grown, self.closed
            for lines, end in self._chunks(position):
                position = end
                out = []
                for line in lines:
                    text, partial = _shown(line, wanted, within_line=partial)
                    out.append(text)
                piece = b"".join(out)
                if room is not None:
                    piece = piece[:room]
                    room -= len(piece)
                if piece:
                    yield piece
                if room == 0:
                    return
            if ended or not follow:
                return
            await grown.wait()

    def _chunks(self, position: int) -> Iterator[tuple[list[bytes], int]]:
        """Whole lines from `position` to the present end, and where each batch ends."""
        for file in tuple(self._files):
            end = file.start + file.size
            if position >= end:
                continue
            position = max(position, file.start)  # what lay before is rotated away
            with contextlib.suppress(FileNotFoundError), file.path.open("rb") as source:
                source.seek(position - file.start)
                while position < end:
                    data = source.read(min(_READ_BYTES, end - position))
                    if not data.endswith(b"\n"):
                        data += source.readline()
                    position += len(data)
                    yield data.splitlines(keepends=True), position

    def _tail(self, count: int) -> int:
        """Where the last `count` lines begin; the pieces of one line belong together."""
        seen = 0
        for file in reversed(self._files):
            data = file.path.read_bytes()[: file.size] if file.size else b""
            end = len(data)
            while end:
                begin = data.rfind(b"\n", 0, end - 1) + 1
                if data[begin:end].split(b" ", 3)[2] == b"F":
                    if seen == count:
                        return file.start + end
                    seen += 1
                end = begin
        return self._files[0].start


def _shown(line: bytes, wanted: _Wanted, *, within_line: bool) -> tuple[bytes, bool]:
    """A record as it is shown, and whether it ends within a line of the container's."""
    stamp, stream, tag, text = line.split(b" ", 3)
    goes_on = tag == b"P"
    if wanted.stream and stream.decode() != wanted.stream:
        return b"", within_line
    if wanted.since is not None and _seconds(stamp) < wanted.since:
        return b"", goes_on
    if goes_on:
        text = text.removesuffix(b"\n")
    if wanted.timestamps and not within_line:
        text = stamp + b" " + text
    return text, goes_on


def _stamp(moment: datetime) -> bytes:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f000Z").encode()


def _seconds(stamp: bytes) -> float:
    return datetime.fromisoformat(stamp[:26].decode() + "+00:00").timestamp()
