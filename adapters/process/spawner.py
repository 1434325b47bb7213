"""The runtime's side of `helper`: starts processes, signals them, and learns of their end.

The helper is started on first use and again if it is ever lost; with it go all its processes, and
they are reported as killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from adapters.process.helper import HEADER, MARK, kill_marked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from adapters.process.mounts import Space

log = logging.getLogger(__name__)

_STARTING_S: Final = 30.0
_PACKAGES: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: the code as a shell tells it (128 + signal), and the signal or 0."""

    code: int
    signal: int = 0


class Spawned:
    """One process that the helper started."""

    def __init__(self, key: str, mark: str, spawner: Spawner) -> None:
        self.mark = mark
        self._key = key
        self._spawner = spawner
        self._ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    async def wait(self) -> Exit:
        """How it ended, once it has."""
        return await asyncio.shield(self._ended)

    @property
    def ended(self) -> bool:
        return self._ended.done()

    async def signal(self, number: int) -> None:
        """Signal its process group; nothing happens when it has ended."""
        if not self.ended:
            await self._spawner.signal(self._key, number)

    def settle(self, how: Exit) -> None:
        if not self._ended.done():
            self._ended.set_result(how)


class Spawner:
    """Owns the helper. Use as `async with`; at the end everything that was started is gone."""

    def __init__(self, directory: Path, *, mount: bool) -> None:
        """`directory` is a folder of our own for the helper's trials; without `mount` it does not
        try to mount anything."""
        self._directory = directory
        self._mount = mount
        self._helper: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._tasks = asyncio.TaskGroup()
        self._turn = asyncio.Lock()
        self._mode = ""
        self._ready: asyncio.Future[None] | None = None
        self._starting: dict[str, asyncio.Future[None]] = {}
        self._running: dict[str, Spawned] = {}
        self._serial = 0

    async def __aenter__(self) -> Spawner:
        await self._tasks.__aenter__()
        try:
            await self._connected()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._disconnect()
        finally:
            await self._tasks.__aexit__(None, None, None)

    @property
    def mode(self) -> str:
        """How volumes are mounted here: `mount`, `user`, or "" for not at all."""
        return self._mode

    @property
    def running(self) -> int:
        """How many processes there are that have not ended."""
        return len(self._running)

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        space: Space,
        streams: Sequence[int],
        tty: bool = False,
        executed: bool = False,
    ) -> Spawned:
        """Start a process with the file descriptors `streams` as its standard streams.

        `env` holds `helper.MARK`. Raises OSError when it cannot be started; the descriptors stay
        the caller's to close.
        """
        self._serial += 1
        key = str(self._serial)
        spawned = Spawned(key, env[MARK], self)
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._starting[key] = started
        self._running[key] = spawned
        message = {
            "do": "start", "key": key, "argv": list(argv), "env": dict(env), "cwd": cwd,
            "space": space, "tty": tty, "executed": executed, "fds": len(streams),
        }  # fmt: skip
        try:
            await self._send(message, streams)
            await started
        except OSError:
            self._running.pop(key, None)
            raise
        finally:
            # one that nobody waits for any more is killed as soon as it has started
            self._starting.pop(key, None)
        return spawned

    async def signal(self, key: str, number: int) -> None:
        await self._send({"do": "signal", "key": key, "signal": int(number), "fds": 0}, ())

    # -- the helper

    async def _connected(self) -> socket.socket:
        """The channel to a running helper; one that starts waits for its greeting."""
        if self._channel is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            ours.setblocking(False)
            with theirs:
                self._helper = self._start_helper(theirs)
            self._channel = ours
            self._ready = asyncio.get_running_loop().create_future()
            self._tasks.create_task(self._read(ours), name="process helper")
        ready = self._ready
        assert ready is not None
        async with asyncio.timeout(_STARTING_S):
            await asyncio.shield(ready)
        if self._channel is None:
            raise OSError("the helper that starts processes ended at once; see the log")
        return self._channel

    def _start_helper(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                sys.executable, "-S", "-P", "-m", "adapters.process.helper",
                str(theirs.fileno()), str(self._directory), "mount" if self._mount else "plain",
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd="/",
            env={"PYTHONPATH": str(_PACKAGES), "PATH": os.environ.get("PATH", os.defpath)},
            start_new_session=True,
        )  # fmt: skip

    async def _send(self, message: dict[str, Any], fds: Sequence[int]) -> None:
        payload = json.dumps(message).encode()
        data = HEADER.pack(len(payload)) + payload
        loop = asyncio.get_running_loop()
        async with self._turn:  # a local socket: the helper reads all the time
            channel = await self._connected()
            sent = 0
            if fds:
                while True:
                    try:
                        sent = socket.send_fds(channel, [data], list(fds))
                        break
                    except BlockingIOError:
                        await _writable(channel)
            await loop.sock_sendall(channel, data[sent:])

    async def _read(self, channel: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        inbox = bytearray()
        with channel, contextlib.suppress(OSError):
            while data := await loop.sock_recv(channel, 1 << 16):
                inbox += data
                while len(inbox) >= HEADER.size:
                    (length,) = HEADER.unpack_from(inbox)
                    if len(inbox) < HEADER.size + length:
                        break
                    self._told(json.loads(inbox[HEADER.size : HEADER.size + length]))
                    del inbox[: HEADER.size + length]
        if self._channel is channel:
            log.error("the helper that owns this member's processes was lost, and they with it")
            marks = {spawned.mark for spawned in self._running.values()}
            await asyncio.to_thread(kill_marked, marks)
            await self._disconnect()

    def _told(self, message: dict[str, Any]) -> None:
        if "started" in message:
            key = message["started"]
            if key not in self._starting:
                self._tasks.create_task(self.signal(key, signal.SIGKILL), name=f"kill {key}")
            self._resolve(key, None)
        elif "failed" in message:
            self._running.pop(message["failed"], None)
            self._resolve(message["failed"], OSError(message["errno"], message["text"]))
        elif "ended" in message:
            spawned = self._running.pop(message["ended"], None)
            if spawned is not None:
                spawned.settle(Exit(message["code"], message["signal"]))
        elif "ready" in message and self._ready is not None and not self._ready.done():
            self._mode = message["ready"]
            self._ready.set_result(None)

    def _resolve(self, key: str, error: OSError | None) -> None:
        started = self._starting.get(key)
        if started is None or started.done():
            return
        if error is None:
            started.set_result(None)
        else:
            started.set_exception(error)

    async def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        helper, self._helper = self._helper, None
        if channel is not None:
            with contextlib.suppress(OSError):  # ends the helper, and our reader, which closes it
                channel.shutdown(socket.SHUT_RDWR)
        if helper is not None:
            await asyncio.to_thread(helper.wait)
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)
        for key in list(self._starting):
            self._resolve(key, OSError("the helper that starts processes was lost"))
        for spawned in self._running.values():
            spawned.settle(Exit(128 + signal.SIGKILL, signal.SIGKILL))
        self._running.clear()


async def _writable(channel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(channel, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(channel)
