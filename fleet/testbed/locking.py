"""A lock between processes on this machine, held while one of them builds or changes members."""

from __future__ import annotations

import asyncio
import fcntl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fleet.errors import TestbedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

_POLL_S = 0.5


def make_private(directory: Path) -> None:
    """Make `directory`, and whatever is missing above it, for its owner alone.

    The testbed lives beside the gateway's state, which refuses a directory others can read.
    """
    for folder in (*reversed(directory.parents), directory):
        folder.mkdir(mode=0o700, exist_ok=True)


@asynccontextmanager
async def locked(path: Path, *, waiting: str, tell: Callable[[str], None]) -> AsyncIterator[None]:
    """Hold the lock file `path`; `waiting` is told once if another process holds it.

    Polled, so that a wait can be cancelled: the other process may be at it for minutes. Raises
    TestbedError where the file cannot be made.
    """
    try:
        make_private(path.parent)
        file = await asyncio.to_thread(path.open, "w")
    except OSError as error:
        raise TestbedError(f"{path.parent} cannot be used: {error.strerror}") from error
    with file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    tell(waiting)
                    told = True
                await asyncio.sleep(_POLL_S)
        yield
