"""Child processes that may outlive the program that started them.

Invariant: a signal reaches only the process that was recorded. A record holds pid, start time and
boot id, and signals go through a pidfd that is checked against them, so a recycled pid is never
hit. `local` decides what runs; `leash` ends it when the program that wanted it is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_POLL_S = 0.001
_INHERITED_IGNORES = (signal.SIGINT, signal.SIGPIPE, signal.SIGHUP, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Process:
    """One process, told apart from any later one of the same pid."""

    name: str
    pid: int
    start_ticks: int
    boot: str

    @property
    def alive(self) -> bool:
        """Running, or stopped by a signal."""
        with self._handle() as fd:
            return fd is not None and not _ended(fd, within_s=0)

    @property
    def paused(self) -> bool:
        with self._handle() as fd:
            stat = _stat(self.pid)
            return fd is not None and stat is not None and stat[0] == "T"

    def send(self, number: int) -> bool:
        """Signal this process; False when it is gone."""
        with self._handle() as fd:
            if fd is None:
                return False
            try:
                signal.pidfd_send_signal(fd, number)
            except ProcessLookupError:
                return False
            return True

    async def gone(self, *, timeout_s: float) -> bool:
        """Wait for the end of this process; False when it is still there after `timeout_s`."""
        with self._handle() as fd:
            if fd is None:
                return True
            loop = asyncio.get_running_loop()
            ended = asyncio.Event()
            loop.add_reader(fd, ended.set)
            try:
                async with asyncio.timeout(timeout_s):
                    await ended.wait()
            except TimeoutError:
                return False
            finally:
                loop.remove_reader(fd)
            self._reap()
        return True

    def gone_now(self, *, timeout_s: float) -> bool:
        """`gone` for code without an event loop."""
        with self._handle() as fd:
            if fd is None:
                return True
            if not _ended(fd, within_s=timeout_s):
                return False
            self._reap()
        return True

    @contextlib.contextmanager
    def _handle(self) -> Iterator[int | None]:
        """A pidfd of exactly this process, or None: opened first, then checked against the record.

        It tells the end of the whole process. The letter Z of proc(5) does not: the first thread of
        a killed program may show it while others still hold its files and ports.
        """
        try:
            fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            stat = _stat(self.pid)
            same = stat is not None and stat[1] == self.start_ticks and _boot_id() == self.boot
            yield fd if same else None
        finally:
            os.close(fd)

    def _reap(self) -> None:
        """Collect the exit status if this was a child of ours; otherwise init does."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)


def spawn(
    name: str, argv: Sequence[str], *, run: Path, log: Path, env: Mapping[str, str]
) -> Process:
    """Start `argv` in a session of its own, output to `log`, and record it as `run/NAME.json`.

    Not a `subprocess.Popen`: that object wants to be waited for, while these processes may go on
    after this program.
    """
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        pid = os.posix_spawn(
            argv[0],
            list(argv),
            dict(env),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, out, 1),
                (os.POSIX_SPAWN_DUP2, out, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=_INHERITED_IGNORES,
        )
    except OSError as error:
        raise TestbedError(f"cannot start {name} ({argv[0]}): {error}") from error
    finally:
        os.close(out)
    seen = _stat(pid)
    if seen is None:
        raise TestbedError(f"{name} ended as it started; its output is in {log}")
    process = Process(name=name, pid=pid, start_ticks=seen[1], boot=_boot_id())
    record = run / f"{name}.json"
    partial = record.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(process)))
    partial.replace(record)
    return process


def recorded(run: Path) -> dict[str, Process]:
    """Every process recorded in `run`, by name, alive or not."""
    found: dict[str, Process] = {}
    for path in sorted(run.glob("*.json")):
        try:
            process = Process(**json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise TestbedError(
                f"{path} is not a process record ({error}); "
                "end the process it was for by hand, then delete the file"
            ) from error
        found[process.name] = process
    return found


def forget(run: Path, names: Collection[str]) -> None:
    for name in names:
        (run / f"{name}.json").unlink(missing_ok=True)


async def pause(process: Process) -> None:
    """Stop `process` by a signal and wait until it stands still; SIGCONT undoes it."""
    if not process.send(signal.SIGSTOP):
        raise TestbedError(f"{process.name} is not running and cannot be paused")
    while process.alive and not process.paused:  # noqa: ASYNC110, a stop is told to the parent only
        await asyncio.sleep(_POLL_S)


async def stop(processes: Collection[Process], *, grace_s: float, limit_s: float = 10) -> None:
    """End `processes` together: SIGTERM, then SIGKILL after `grace_s` (at once when it is 0).

    Raises TestbedError naming those still there `limit_s` after the kill.
    """
    if grace_s > 0:
        for process in processes:
            process.send(signal.SIGTERM)
            process.send(signal.SIGCONT)
        await _all_gone(processes, timeout_s=grace_s)
    for process in processes:
        process.send(signal.SIGKILL)
    left = await _all_gone(processes, timeout_s=limit_s)
    if left:
        raise TestbedError(
            "still running after SIGKILL: " + ", ".join(f"{p.name} (pid {p.pid})" for p in left)
        )


def kill_now(processes: Collection[Process], *, limit_s: float = 10) -> None:
    """`stop` without an event loop and without grace, for the leash."""
    for process in processes:
        process.send(signal.SIGKILL)
    deadline = time.monotonic() + limit_s
    for process in processes:
        process.gone_now(timeout_s=max(0, deadline - time.monotonic()))


async def _all_gone(processes: Collection[Process], *, timeout_s: float) -> list[Process]:
    """Those of `processes` still there after `timeout_s`."""
    async with asyncio.TaskGroup() as group:
        waits = {
            process: group.create_task(
                process.gone(timeout_s=timeout_s), name=f"end of {process.name}"
            )
            for process in processes
        }
    return [process for process, wait in waits.items() if not wait.result()]


def _ended(fd: int, *, within_s: float) -> bool:
    """Whether the process behind a pidfd ends within the time; pidfd_open(2)."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and start time (clock ticks after boot) from /proc, proc(5)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip()
