"""Ends of pipes and terminals for an event loop, with back-pressure both ways.

Descriptors are watched only while somebody waits for them, so a reader that does not read holds
its writer back. A terminal whose last process has gone reads as an end.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import struct
import termios
from typing import Final

_CHUNK: Final = 64 << 10


class _End:
    """A descriptor of ours; closed once."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._waiting: asyncio.Future[None] | None = None

    def close(self) -> None:
        """Give it up; whoever waits sees the end."""
        if self.fd >= 0:
            self._release()
            os.close(self.fd)
            self.fd = -1

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def _wait(self, *, writable: bool) -> None:
        loop = asyncio.get_running_loop()
        fd = self.fd
        self._waiting = loop.create_future()
        (loop.add_writer if writable else loop.add_reader)(fd, self._release)
        try:
            await self._waiting
        finally:
            (loop.remove_writer if writable else loop.remove_reader)(fd)


class ReadEnd(_End):
    """Where a process's output arrives. One reader at a time."""

    async def read(self) -> bytes:
        """The next bytes, b"" at the end."""
        while self.fd >= 0:
            try:
                return os.read(self.fd, _CHUNK)
            except BlockingIOError:
                await self._wait(writable=False)
            except OSError as error:
                if error.errno == errno.EIO:  # a terminal that nobody has open any more
                    return b""
                raise
        return b""


class WriteEnd(_End):
    """Where a process's input goes. One writer at a time."""

    async def write(self, data: bytes) -> None:
        """Write all of it. Raises BrokenPipeError when nobody reads any more."""
        view = memoryview(data)
        while view:
            if self.fd < 0:
                raise BrokenPipeError(errno.EPIPE, "the input is closed")
            try:
                view = view[os.write(self.fd, view) :]
            except BlockingIOError:
                await self._wait(writable=True)

    def resize(self, *, rows: int, columns: int) -> None:
        """Tell a terminal its size; anything else has none (tty_ioctl(4))."""
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                size = struct.pack("HHHH", rows & 0xFFFF, columns & 0xFFFF, 0, 0)
                fcntl.ioctl(self.fd, termios.TIOCSWINSZ, size)


class Streams:
    """The standard streams of one process: its ends, and ours.

    `theirs` are the descriptors for the process; `started` closes our copies of them. Without a
    terminal, standard error is apart; with one, everything comes out of `stdout`.
    """

    def __init__(self, *, stdin: bool, tty: bool) -> None:
        self.stderr: ReadEnd | None = None
        self.stdin: WriteEnd | None = None
        if tty:
            master, slave = os.openpty()
            self.stdout = ReadEnd(master)
            self.stdin = WriteEnd(os.dup(master))
            self.theirs = (slave, slave, slave)
            return
        out_read, out_write = os.pipe()
        error_read, error_write = os.pipe()
        self.stdout, self.stderr = ReadEnd(out_read), ReadEnd(error_read)
        if stdin:
            in_read, in_write = os.pipe()
            self.stdin = WriteEnd(in_write)
        else:
            in_read = os.open(os.devnull, os.O_RDONLY)
        self.theirs = (in_read, out_write, error_write)

    def started(self) -> None:
        """The process has its own copies now."""
        for fd in set(self.theirs):
            os.close(fd)

    def close(self) -> None:
        """Give up our ends."""
        for end in (self.stdin, self.stdout, self.stderr):
            if end is not None:
                end.close()
