"""What the kubelet needs of a back end that runs containers; an adapter provides it.

Only plain values cross: adapters know Kubernetes' objects but nothing of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from virtualnode.kubelet.volumes import Files, Mount


class Input(Protocol):
    """Where a process's input goes."""

    async def write(self, data: bytes) -> None:
        """Raises BrokenPipeError when nobody reads any more."""

    def resize(self, *, rows: int, columns: int) -> None:
        """Tell a terminal its size."""

    def close(self) -> None:
        """End of input."""


class Output(Protocol):
    """Where a process's output comes from."""

    async def read(self) -> bytes:
        """The next bytes, b"" at the end."""


class Log(Protocol):
    """What one run of a container wrote."""

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""

    def live(self) -> AsyncIterator[tuple[str, bytes]]:
        """What is written from here on, raw: (`stdout` or `stderr`, bytes)."""

    def read(
        self,
        *,
        follow: bool,
        timestamps: bool,
        tail_lines: int | None,
        since: float | None,
        limit_bytes: int | None,
        stream: str,
    ) -> AsyncIterator[bytes]:
        """The text as `kubectl logs` shows it; `since` in epoch seconds."""


class Running(Protocol):
    """One run of a container."""

    @property
    def log(self) -> Log: ...

    @property
    def stdin(self) -> Input | None: ...

    async def wait(self) -> tuple[int, int]:
        """Exit code and signal (0 without one), once it has ended and its log is complete."""

    async def signal(self, number: int) -> None:
        """Signal all its processes; nothing happens when it has ended."""


class Execution(Protocol):
    """A further process in a container; its streams are the caller's."""

    @property
    def stdin(self) -> Input | None: ...

    @property
    def stdout(self) -> Output: ...

    @property
    def stderr(self) -> Output | None:
        """None when everything comes out of `stdout`: with a terminal."""

    async def wait(self) -> tuple[int, int]:
        """Exit code and signal."""

    async def kill(self) -> None: ...

    def close(self) -> None:
        """Let go of the streams."""


class Sandbox(Protocol):
    """A pod's place in the back end."""

    @property
    def address(self) -> str: ...

    def publish(self, volume: str, files: Files) -> None:
        """Make the content of a volume exactly `files`."""

    def empty(self, volume: str) -> None:
        """A volume that starts empty."""

    def name_hosts(self, text: str) -> None:
        """What the pod's processes see as /etc/hosts, where that can be."""

    def termination_message(self, container: str) -> str: ...

    def log(self, container: str, attempt: int) -> Log | None: ...

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
        """Raises OSError when it cannot be started."""

    async def execute(
        self, container: str, argv: Sequence[str], *, stdin: bool, tty: bool
    ) -> Execution:
        """Raises OSError."""

    async def close(self) -> None:
        """End everything of the pod and forget it."""


class Runtime(Protocol):
    """A back end. `name` is `KIND://VERSION`; `isolation` says in words what it keeps apart."""

    @property
    def name(self) -> str: ...

    @property
    def isolation(self) -> str: ...

    def refusal(self, container: Mapping[str, Any]) -> str:
        """Why a container cannot be run here, "" when it can."""

    def sandbox(self, *, namespace: str, name: str, uid: str, hostname: str) -> Sandbox:
        """Raises OSError when there is no room."""
