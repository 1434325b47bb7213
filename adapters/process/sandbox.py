"""One pod on this machine: its folder, its address, its volumes, its processes.

Everything of the pod lies below one folder and goes with it. Files of a volume are replaced by
renaming, so a process never reads half a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from adapters.process.helper import MARK
from adapters.process.logs import Log
from adapters.process.pipes import Streams
from adapters.process.rewriting import rewriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from adapters.process.addresses import Addresses
    from adapters.process.mounts import Space
    from adapters.process.pipes import ReadEnd, WriteEnd
    from adapters.process.spawner import Exit, Spawned, Spawner

    Files = Mapping[str, tuple[bytes, int]]

Mount = tuple[str, str, str, bool]
"""(volume, mount path, path within the volume, read-only)"""

logger = logging.getLogger(__name__)

_DRAIN_S: Final = 2.0
_MESSAGE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Job:
    """How a container's processes are started: what an exec in it uses again."""

    env: Mapping[str, str]
    cwd: str
    space: Space
    rewrite: Callable[[str], str]


class Execution:
    """A process with its streams in the hands of the caller: an exec."""

    def __init__(self, spawned: Spawned, streams: Streams) -> None:
        self._spawned = spawned
        self._streams = streams

    @property
    def stdin(self) -> WriteEnd | None:
        return self._streams.stdin

    @property
    def stdout(self) -> ReadEnd:
        return self._streams.stdout

    @property
    def stderr(self) -> ReadEnd | None:
        return self._streams.stderr

    async def wait(self) -> tuple[int, int]:
        """Exit code and signal."""
        how = await self._spawned.wait()
        return how.code, how.signal

    async def kill(self) -> None:
        await self._spawned.signal(signal.SIGKILL)

    def close(self) -> None:
        self._streams.close()


class Running:
    """One run of a container, its output going to its log."""

    def __init__(self, spawned: Spawned, streams: Streams, log: Log) -> None:
        self._spawned = spawned
        self._streams = streams
        self._drained = asyncio.Event()
        self.log = log

    @property
    def stdin(self) -> WriteEnd | None:
        return self._streams.stdin

    async def wait(self) -> tuple[int, int]:
        """Exit code and signal, once it has ended and its output is in the log."""
        how: Exit = await self._spawned.wait()
        await self._drained.wait()
        return how.code, how.signal

    async def signal(self, number: int) -> None:
        """Signal the process group."""
        await self._spawned.signal(number)

    async def pump(self) -> None:
        """Carry output to the log until the process has ended and all of it is there."""
        ends = {"stdout": self._streams.stdout, "stderr": self._streams.stderr}
        try:
            async with asyncio.TaskGroup() as group:
                carriers = [
                    group.create_task(self._carry(stream, end), name=stream)
                    for stream, end in ends.items()
                    if end is not None
                ]
                await self._spawned.wait()
                # Whoever still holds the streams after that is none of the container's.
                await asyncio.wait(carriers, timeout=_DRAIN_S)
                for carrier in carriers:
                    carrier.cancel()
        finally:
            self._streams.close()
            self.log.close()
            self._drained.set()

    async def _carry(self, stream: str, end: ReadEnd) -> None:
        """What cannot be written is lost, not held: a full disk must not stop the process."""
        lost = 0
        with contextlib.suppress(OSError):
            while data := await end.read():
                try:
                    self.log.write(stream, data)
                except OSError as error:
                    lost += len(data)
                    logger.warning("%s bytes of a log are lost: %s", lost, error)


class Sandbox:
    """A pod's place. Made by `ProcessRuntime.sandbox`."""

    def __init__(
        self,
        root: Path,
        *,
        spawner: Spawner,
        addresses: Addresses,
        tasks: asyncio.TaskGroup,
        hostname: str,
        mark: str,
        now: Callable[[], datetime],
    ) -> None:
        self._root = root
        self._spawner = spawner
        self._addresses = addresses
        self._tasks = tasks
        self._hostname = hostname
        self._mark = mark
        self._now = now
        self._jobs: dict[str, Job] = {}
        self._logs: dict[tuple[str, int], Log] = {}
        self._running: set[Running] = set()
        self._hosts: str | None = None
        self.address = addresses.take()
        for folder in ("volumes", "containers", "root"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        self.name_hosts("")

    # -- files

    def publish(self, volume: str, files: Files) -> None:
        """Make the content of a volume exactly `files`: path to (content, mode)."""
        folder = self._volume(volume)
        wanted = {PurePosixPath(path): content for path, content in files.items()}
        for path, (content, mode) in wanted.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.is_file() and place.read_bytes() == content:
                place.chmod(mode)
                continue
            partial = place.with_name(f"..{place.name}.partial")
            partial.write_bytes(content)
            partial.chmod(mode)
            partial.replace(place)
        for found in sorted(folder.rglob("*"), reverse=True):
            if found.is_dir():
                if not any(found.iterdir()):
                    found.rmdir()
            elif PurePosixPath(found.relative_to(folder)) not in wanted:
                found.unlink()

    def empty(self, volume: str) -> None:
        """A volume that starts empty and is the pod's own."""
        self._volume(volume).chmod(0o777)

    def name_hosts(self, text: str) -> None:
        """What the pod's processes see as /etc/hosts, where that can be shown to them.

        Written in place: the file itself is what they have before them.
        """
        if text != self._hosts:
            (self._root / "hosts").write_text(text)
            self._hosts = text

    def termination_message(self, container: str) -> str:
        """What the container left at its termination message path; at most 4 KiB."""
        try:
            with (self._container(container) / "termination-log").open("rb") as file:
                return file.read(_MESSAGE_BYTES).decode(errors="replace")
        except OSError:
            return ""

    def log(self, container: str, attempt: int) -> Log | None:
        """The log of one run."""
        return self._logs.get((container, attempt))

    def _volume(self, name: str) -> Path:
        folder = self._root / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _container(self, name: str) -> Path:
        folder = self._root / "containers" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    # -- processes

    async def start(
        self,
        container: str,
        *,
        attempt: int,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        mounts: Sequence[Mount],
        message_path: str,
        stdin: bool = False,
        tty: bool = False,
    ) -> Running:
        """Start a container. Raises OSError with what a person can act on."""
        log = self._logs[(container, attempt)] = Log(
            self._root / "logs" / container / f"{attempt}.log", now=self._now
        )
        old = self._logs.pop((container, attempt - 2), None)
        if old is not None:
            old.remove()
        message = self._container(container) / "termination-log"
        message.write_bytes(b"")
        message.chmod(0o666)
        try:
            job = self._jobs[container] = self._job(
                container, env=env, cwd=cwd, mounts=mounts, message=(message_path, message)
            )
            spawned, streams = await self._spawn(job, argv, stdin=stdin, tty=tty, executed=False)
        except BaseException:
            log.close()
            raise
        running = Running(spawned, streams, log)
        self._running.add(running)
        self._tasks.create_task(self._follow(running), name=f"output of {container}")
        return running

    async def execute(
        self, container: str, argv: Sequence[str], *, stdin: bool, tty: bool
    ) -> Execution:
        """Run something more in a container's surroundings. Raises OSError."""
        job = self._jobs.get(container)
        if job is None:
            raise OSError(f"container {container} has not been started")
        spawned, streams = await self._spawn(job, argv, stdin=stdin, tty=tty, executed=True)
        return Execution(spawned, streams)

    async def close(self) -> None:
        """End what runs and forget everything of the pod."""
        for running in tuple(self._running):
            await running.signal(signal.SIGKILL)
        for running in tuple(self._running):
            await running.wait()
        self._addresses.give_back(self.address)
        for log in self._logs.values():
            log.close()
        await asyncio.to_thread(shutil.rmtree, self._root, ignore_errors=True)

    async def _follow(self, running: Running) -> None:
        try:
            await running.pump()
        finally:
            self._running.discard(running)

    async def _spawn(
        self, job: Job, argv: Sequence[str], *, stdin: bool, tty: bool, executed: bool
    ) -> tuple[Spawned, Streams]:
        streams = Streams(stdin=stdin, tty=tty)
        try:
            spawned = await self._spawner.start(
                [job.rewrite(part) for part in argv],
                env={**job.env, "TERM": "xterm"} if tty else job.env,
                cwd=job.cwd,
                space=job.space,
                streams=streams.theirs,
                tty=tty,
                executed=executed,
            )
        except BaseException:
            streams.close()
            raise
        finally:
            streams.started()
        return spawned, streams

    def _job(
        self,
        container: str,
        *,
        env: Mapping[str, str],
        cwd: str,
        mounts: Sequence[Mount],
        message: tuple[str, Path],
    ) -> Job:
        message_path, message_file = message
        places = {path: self._source(volume, sub) for volume, path, sub, _ in mounts}
        places[message_path] = message_file
        work = self._container(container) / "work"
        work.mkdir(exist_ok=True)
        mode = self._spawner.mode
        mark = f"{self._mark}/{container}"
        told = {**env, MARK: mark, "FLEET_POD_IP": self.address}
        told.setdefault("HOME", str(work))
        told.setdefault("HOSTNAME", self._hostname)
        told.setdefault("PATH", os.environ.get("PATH", os.defpath))
        if not mode:
            rewrite = rewriter({path: str(place) for path, place in places.items()})
            told = {name: rewrite(value) for name, value in told.items()}
            nowhere: Space = {"mode": "", "root": "", "hostname": "", "binds": []}
            return Job(told, rewrite(cwd) or str(work), nowhere, rewrite)
        locked = {path for _, path, _, read_only in mounts if read_only}
        binds = [(str(place), path, path in locked) for path, place in places.items()]
        binds.append((str(self._root / "hosts"), "/etc/hosts", False))
        space: Space = {
            "mode": mode,
            "root": str(self._root / "root"),
            "hostname": self._hostname,
            "binds": binds,
        }
        return Job(told, cwd or str(work), space, _unchanged)

    def _source(self, volume: str, sub_path: str) -> Path:
        """The folder or file of a volume that is mounted. Raises OSError for a path that leaves it
        or, in a volume that holds files of ours, is not there."""
        folder = self._volume(volume)
        place = folder / sub_path
        if sub_path and not place.resolve().is_relative_to(folder.resolve()):
            raise OSError(f"subPath {sub_path} leaves the volume {volume}")
        if not place.exists():
            place.mkdir(parents=True)
        return place


def _unchanged(text: str) -> str:
    return text
