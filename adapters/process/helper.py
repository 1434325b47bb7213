"""`python -m adapters.process.helper FD FOLDER MOUNTS`: owns every process of one runtime.

It speaks to the runtime over a socket: a message is four bytes of length and a JSON object; a
request to start something carries the file descriptors of its standard streams. It adopts whatever
its children leave behind (child subreaper), so that the end of a container is the end of all that
the container started, and the end of the socket – the runtime is gone – is the end of everything.

Which container something was left by is told by its environment, and that by /proc. Where /proc is
not mounted it cannot be told: what a container left behind in a process group of its own ends with
the last container that runs, instead of with its own.

Standard library alone, one thread: it forks, and a fork is safe in a small program of one thread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from adapters.process import mounts

if TYPE_CHECKING:
    from collections.abc import Collection

HEADER: Final = struct.Struct("!I")
MARK: Final = "FLEET_CONTAINER"
"""The variable by which what a container left behind is told from what others did."""
_MAX_FDS: Final = 8
_RECEIVE: Final = 1 << 16
_LEVELS: Final = 64  # of orphans' orphans
_PROC: Final = Path("/proc")
_PIDS: Final = 1 << 22  # the most that Linux counts to
_LOOK_AGAIN_S: Final = 0.2
_GIVE_UP_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Child:
    """The first process of a container, or one that was executed in it. `key` is the runtime's
    name for it, `mark` the container's."""

    pid: int
    key: str
    mark: str
    executed: bool


class Helper:
    """The loop: requests in, children started, ends reported."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._children: dict[int, Child] = {}
        self._by_key: dict[str, Child] = {}
        self._inbox = bytearray()
        self._fds: list[int] = []
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def greet(self, mode: str) -> None:
        """Tell the runtime how volumes can be mounted here (`mounts.MODES`, or "")."""
        self._send({"ready": mode})

    def run(self) -> None:
        """Serve until the runtime is gone."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        try:
            while True:
                for fd, _ in poll.poll():
                    if fd == self._wake_read:
                        with contextlib.suppress(BlockingIOError):
                            os.read(self._wake_read, 4096)
                        self._reap()
                    elif not self._receive():
                        return
        finally:
            self._end_all()

    # -- the socket

    def _receive(self) -> bool:
        """Take in what arrived; False when the runtime is gone."""
        try:
            data, fds, _, _ = socket.recv_fds(self._channel, _RECEIVE, _MAX_FDS)
        except OSError:
            return False
        if not data:
            return False
        for fd in fds:
            os.set_inheritable(fd, False)
        self._fds += fds
        self._inbox += data
        while len(self._inbox) >= HEADER.size:
            (length,) = HEADER.unpack_from(self._inbox)
            if len(self._inbox) < HEADER.size + length:
                break
            message = json.loads(self._inbox[HEADER.size : HEADER.size + length])
            del self._inbox[: HEADER.size + length]
            taken, self._fds = self._fds[: message["fds"]], self._fds[message["fds"] :]
            self._answer(message, taken)
        return True

    def _answer(self, message: dict[str, Any], fds: list[int]) -> None:
        try:
            if message["do"] == "start":
                self._start(message, fds)
            else:
                self._signal(message["key"], message["signal"])
        finally:
            for fd in fds:
                os.close(fd)

    def _send(self, message: dict[str, Any]) -> None:
        payload = json.dumps(message).encode()
        with contextlib.suppress(OSError):  # the end of the socket is noticed by reading
            self._channel.sendall(HEADER.pack(len(payload)) + payload)

    # -- children

    def _start(self, message: dict[str, Any], fds: list[int]) -> None:
        failed_read, failed_write = os.pipe2(os.O_CLOEXEC)
        owner = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(failed_read)
                _become(message, fds, owner)
            except BaseException as error:
                number = getattr(error, "errno", None) or 0
                why = getattr(error, "strerror", None) or str(error)
                text = json.dumps({"errno": number, "text": why})
                os.write(failed_write, text.encode()[:4096])
            os._exit(128)
        os.close(failed_write)
        with os.fdopen(failed_read, "rb") as pipe:
            failure = pipe.read()
        if failure:
            os.waitpid(pid, 0)
            self._send({"failed": message["key"], **json.loads(failure)})
            return
        child = Child(pid, message["key"], message["env"][MARK], message["executed"])
        self._children[pid] = self._by_key[child.key] = child
        self._send({"started": child.key, "pid": pid})

    def _signal(self, key: str, number: int) -> None:
        child = self._by_key.get(key)
        if child is not None:
            _kill_group(child.pid, number)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self._children.pop(pid, None)
            if child is None:
                continue  # something that a container left behind
            del self._by_key[child.key]
            if not child.executed:
                self._sweep(child)
            code = os.waitstatus_to_exitcode(status)
            signalled = -code if code < 0 else 0
            self._send({"ended": child.key, "code": 128 + signalled if signalled else code,
                        "signal": signalled})  # fmt: skip

    def _sweep(self, ended: Child) -> None:
        """Kill all that is left of a container: its group, what was executed in it, and what it
        left to us, level by level."""
        _kill_group(ended.pid, signal.SIGKILL)
        for child in self._children.values():
            if child.mark == ended.mark:
                _kill_group(child.pid, signal.SIGKILL)
        needle = f"{MARK}={ended.mark}\0".encode()
        told = _told_by_proc()
        if not told and any(not child.executed for child in self._children.values()):
            return  # it may be another's
        for _ in range(_LEVELS):
            strays = [
                pid
                for pid in _children_of_self()
                if pid not in self._children and (not told or needle in _environment(pid))
            ]
            if not strays:
                return
            for pid in strays:
                _kill(pid)
            for pid in strays:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def _end_all(self) -> None:
        """Kill everything there is below this process, and wait until it is gone.

        What does not end (a process of another user's, one the kernel holds) is not waited for
        longer than `_GIVE_UP_S`; its pids are told.
        """
        for pid in self._children:
            _kill_group(pid, signal.SIGKILL)
        give_up = time.monotonic() + _GIVE_UP_S
        found: list[int] = []
        missed = 0
        while time.monotonic() < give_up:
            found = _children_of_self(everywhere=missed > 1)
            missed = 0 if found else missed + 1
            for pid in found:
                _kill(pid)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            # Until another has ended; or until what was overlooked – a list of children is none of
            # one moment – can be looked for again.
            if select.select([self._wake_read], [], [], _LOOK_AGAIN_S)[0]:
                os.read(self._wake_read, 4096)
        left = ", ".join(map(str, found)) or "of unknown pids"
        sys.stderr.write(f"processes of containers do not end and are left: {left}\n")


def _become(message: dict[str, Any], fds: list[int], owner: int) -> None:
    """In the child: be the container's process. Raises what went wrong, returns never."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    if message["tty"]:
        fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
    for target, source in enumerate(fds[:3]):
        # a copy first: a descriptor may lie where another one has to go
        fds[target] = fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, 16)
    for target, source in enumerate(fds[:3]):
        os.dup2(source, target)
    mounts.enter(message["space"])
    mounts.die_with(owner)
    env: dict[str, str] = message["env"]
    os.chdir(message["cwd"])
    argv: list[str] = message["argv"]
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EACCES):
            where = "" if "/" in argv[0] else " in $PATH"
            why = (
                "executable file not found" if error.errno == errno.ENOENT else "permission denied"
            )
            raise OSError(error.errno, f'exec: "{argv[0]}": {why}{where}') from None
        raise


def _told_by_proc() -> bool:
    """Whether /proc tells of processes here."""
    return (_PROC / "self").exists()


def _children_of_self(*, everywhere: bool = False) -> list[int]:
    """The direct children of this process, ended ones left out (proc(5)).

    `everywhere` matters where /proc is not mounted only: to ask of every pid there can be, and not
    of those alone that were given out since this process began.
    """
    if not _told_by_proc():
        return _children_asked_for(everywhere=everywhere)
    own = os.getpid()
    try:
        text = (_PROC / f"{own}/task/{own}/children").read_text()
        return [int(pid) for pid in text.split()]
    except OSError:
        pass
    found = []
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == own and fields[0] != "Z":
                    found.append(int(entry.name))
    return found


def _children_asked_for(*, everywhere: bool) -> list[int]:
    """The same, by asking the kernel of one pid after the other whether it is a child of ours.

    Pids are counted upwards, and from the beginning again after the last.
    """
    own, newest = os.getpid(), _newest_pid()
    if everywhere or newest < own:
        return [pid for pid in range(1, _PIDS) if _is_child(pid)]
    return [pid for pid in range(own + 1, newest + 1) if _is_child(pid)]


def _newest_pid() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def _is_child(pid: int) -> bool:
    """Whether it is a child that runs (waitid(2)); nothing is taken from whoever waits for it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _environment(pid: int) -> bytes:
    try:
        return (_PROC / f"{pid}/environ").read_bytes()
    except OSError:
        return b""


def kill_marked(marks: Collection[str]) -> None:
    """Kill every process of this machine that belongs to one of the containers `marks`.

    None where /proc is not mounted: those that were started first end with the helper anyway, and
    what they left behind cannot be told from what is not ours.
    """
    if not _told_by_proc():
        return
    needles = [f"{MARK}={mark}\0".encode() for mark in marks]
    for _ in range(_LEVELS):
        found = [
            int(entry.name)
            for entry in os.scandir(_PROC)
            if entry.name.isdigit()
            and any(needle in _environment(int(entry.name)) for needle in needles)
        ]
        if not found:
            return
        for pid in found:
            _kill(pid)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _kill_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.setblocking(True)
    channel.set_inheritable(False)
    mounts.adopt_orphans()
    helper = Helper(channel)
    helper.greet(mounts.probe(sys.argv[2]) if sys.argv[3] == "mount" else "")
    helper.run()


if __name__ == "__main__":
    main()
