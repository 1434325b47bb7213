"""The runtime of a virtual node whose containers are local processes."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from adapters.process.addresses import Addresses
from adapters.process.sandbox import Sandbox
from adapters.process.spawner import Spawner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random
    from types import TracebackType

ISOLATION: Final = (
    "none: containers are processes of the gateway's user on this machine, with its files, network "
    "and devices; images are names, resource limits and security contexts are not enforced"
)


class ProcessRuntime:
    """Makes sandboxes. Use as `async with`; at the end no process and no file of it is left."""

    name = "process://1"
    isolation = ISOLATION

    def __init__(
        self,
        *,
        network: str,
        rng: Random,
        root: Path | None = None,
        mount: bool = True,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`network` is the part of 127.0.0.0/8 for pods; `root` a folder for their files, a
        temporary one without it. With `mount` volumes are mounted if the kernel lets us."""
        self._addresses = Addresses(network, rng=rng)
        self._given_root = root
        self._mount = mount
        self._now = now
        self._tasks = asyncio.TaskGroup()
        self._stack = contextlib.AsyncExitStack()
        self._root = Path()
        self._spawner: Spawner | None = None

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            if self._given_root is None:
                self._root = Path(tempfile.mkdtemp(prefix="fleet-pods-"))
                stack.callback(shutil.rmtree, self._root, ignore_errors=True)
            else:
                self._root = self._given_root
                self._root.mkdir(parents=True, exist_ok=True)
            trials = self._root / "helper"
            trials.mkdir(exist_ok=True)
            await stack.enter_async_context(self._tasks)  # ends when the last output is read
            self._spawner = await stack.enter_async_context(Spawner(trials, mount=self._mount))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            await self._stack.__aexit__(kind, error, trace)
        else:
            await self._stack.aclose()  # what the body raised leaves as it is, in no group

    @property
    def volumes(self) -> str:
        """How volumes get to their mount paths: `mount`, `user`, or "" where paths in commands
        and variables are rewritten instead."""
        return self._running.mode

    @property
    def _running(self) -> Spawner:
        if self._spawner is None:
            raise RuntimeError("the runtime is not in use: async with")
        return self._spawner

    def refusal(self, container: Mapping[str, Any]) -> str:
        """Why a container cannot be run here, "" when it can."""
        if not container.get("command"):
            return (
                f'image "{container.get("image", "")}" is only a name here and brings no program: '
                "set the container's command"
            )
        return ""

    def sandbox(self, *, namespace: str, name: str, uid: str, hostname: str) -> Sandbox:
        """A place for a pod. Raises OSError when no address is left or the disk is full."""
        return Sandbox(
            self._root / "pods" / f"{namespace}_{name}_{uid}",
            spawner=self._running,
            addresses=self._addresses,
            tasks=self._tasks,
            hostname=hostname,
            mark=uid,
            now=self._now,
        )
