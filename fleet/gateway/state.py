"""The state directory: what a gateway remembers from one start to the next.

    lock              held while a gateway runs on the directory
    epoch             the number of the latest start, see `fleet.kube.revision`
    pki/              the fleet's authority, server and admin certificates (`authority`)
    fleet.kubeconfig  how clients reach this gateway (`kubeconfig`)
    members/          what joining needs to reach each member again
    objects.db        the fleet's own objects

Invariant: only its owner can read it, one gateway at a time writes it, and an epoch is on disk
before the first revision of it is given out.
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from types import TracebackType

_LOCK = "lock"
_EPOCH = "epoch"
_OWNER_ONLY = 0o077


class StateDirectory:
    """An open state directory. Use `open`, and as a context manager or with `close`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, path: Path) -> StateDirectory:
        """Make the directory when there is none, and take it for this process.

        Raises ConfigError when it cannot be made or written, when another gateway has it, and
        when it holds other things and is open to other users.
        """
        try:
            _make_private(path)
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(
                f"state directory {path} cannot be used: {error.strerror}; "
                "give another with --state-directory"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
            os.close(lock)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise ConfigError(
                    f"state directory {path} cannot be locked: {error.strerror}"
                ) from error
            raise ConfigError(
                f"another gateway{f' (process {holder})' if holder else ''} runs on the state "
                f"directory {path}; stop it, or give another with --state-directory"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        return cls(path, lock)

    def close(self) -> None:
        """Let go of the directory; safe to call twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> StateDirectory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pki(self) -> Path:
        return self.path / "pki"

    @property
    def kubeconfig(self) -> Path:
        return self.path / "fleet.kubeconfig"

    @property
    def members(self) -> Path:
        return self.path / "members"

    @property
    def objects(self) -> Path:
        return self.path / "objects.db"

    def next_epoch(self) -> int:
        """Begin a new epoch: its number, on disk when this returns. The first is 1.

        Raises StoreError when the stored number cannot be read or written; a guess could repeat
        an epoch and with it revisions.
        """
        file = self.path / _EPOCH
        try:
            text = file.read_text(encoding="ascii").strip() if file.exists() else "0"
            if not text.isdecimal():
                raise StoreError(
                    f"{file} holds {text[:32]!r}, not a number: restore it, or write one there "
                    "that is higher than any epoch used before"
                )
            epoch = int(text) + 1
            write_private(file, f"{epoch}\n".encode())
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"{file} cannot be read or written: {error}") from error
        return epoch


def _make_private(path: Path) -> None:
    if not path.exists():
        path.mkdir(mode=0o700, parents=True)
        return
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "it is not a directory")
    if path.stat().st_mode & _OWNER_ONLY:
        if not (path / _LOCK).exists() and any(path.iterdir()):
            raise PermissionError(
                errno.EPERM,
                f"it holds other files and other users can read it (chmod 700 {path})",
            )
        path.chmod(0o700)


def write_private(file: Path, data: bytes) -> None:
    """Replace `file` in one step by one that only its owner can read; on disk on return."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
