"""Remote commands over a WebSocket: one channel for each stream (`v4.channel.k8s.io`, `v5`).

The first byte of a message is its channel: 0 stdin, 1 stdout, 2 stderr, 3 the outcome as a Status,
4 terminal sizes; in v5 255 closes the channel it names, which is how the end of stdin is told.
Source: k8s.io/kubelet pkg/cri/streaming/remotecommand, KEP-4006.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import orjson

from virtualnode.streams.websocket import Broken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from virtualnode.kubelet.runtime import Execution, Input, Output
    from virtualnode.streams.websocket import WebSocket

V5: Final = "v5.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
PROTOCOLS: Final = (V5, V4)

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_GONE_S: Final = 2.0


class Session:
    """One exec or attach on its WebSocket."""

    def __init__(self, socket: WebSocket, protocol: str) -> None:
        self._socket = socket
        self._v5 = protocol == V5

    async def execute(self, execution: Execution) -> None:
        """Carry an exec to its end, and tell how it ended. Closes the execution; kills it when the
        client goes first."""
        try:
            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(self._input(execution.stdin), name="stdin")
                carrying = [tasks.create_task(self._carry(_STDOUT, execution.stdout), name="out")]
                if execution.stderr is not None:
                    carrier = self._carry(_STDERR, execution.stderr)
                    carrying.append(tasks.create_task(carrier, name="err"))
                ending = tasks.create_task(execution.wait(), name="exit")
                await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
                if not ending.done() and reading.result():
                    await execution.kill()  # the client is gone
                code, _ = await ending
                await asyncio.wait(carrying, timeout=_GONE_S)
                for carrier_task in carrying:
                    carrier_task.cancel()
                await self._tell(_outcome(code))
                await self._socket.close()
                reading.cancel()
        finally:
            await execution.kill()
            execution.close()

    async def attach(
        self, stdin: Input | None, live: AsyncIterator[tuple[str, bytes]], *, once: bool
    ) -> None:
        """Show what a container writes from here on, and pass it input, until either ends. With
        `once` its input ends with this client's, else it stays open for others."""
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self._input(stdin, keep=not once), name="stdin")
            showing = tasks.create_task(self._show(live), name="output")
            await asyncio.wait({reading, showing}, return_when=asyncio.FIRST_COMPLETED)
            if stdin is not None and once:
                stdin.close()
            if showing.done():
                await self._tell(_SUCCESS)
            await self._socket.close()
            reading.cancel()
            showing.cancel()

    async def refuse(self, why: str) -> None:
        """Tell of a command that could not be run at all."""
        status = {
            "metadata": {},
            "status": "Failure",
            "message": why,
            "reason": "InternalError",
            "details": {"causes": [{"message": why}]},
            "code": 500,
        }
        await self._tell(status)
        await self._socket.close()

    async def _input(self, stdin: Input | None, *, keep: bool = False) -> bool:
        """Pass on what the client sends. Returns whether the client is gone: the end of its input
        alone is told by closing the channel (v5)."""
        open_input = stdin
        try:
            while (message := await self._socket.receive()) is not None:
                channel, payload = (message[0], message[1:]) if message else (-1, b"")
                if channel == _STDIN and open_input is not None and payload:
                    with contextlib.suppress(BrokenPipeError):
                        await open_input.write(payload)
                elif channel == _RESIZE and stdin is not None:
                    _resize(stdin, payload)
                elif channel == _CLOSE and self._v5 and payload[:1] == bytes([_STDIN]):
                    if open_input is not None and not keep:
                        open_input.close()
                    open_input = None
        except Broken as error:
            await self._socket.close(error.code, str(error))
        except ConnectionError:
            pass
        return True

    async def _carry(self, channel: int, output: Output) -> None:
        with contextlib.suppress(OSError):
            await self._socket.send(bytes([channel]))
            while data := await output.read():
                await self._socket.send(bytes([channel]) + data)

    async def _show(self, live: AsyncIterator[tuple[str, bytes]]) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send(bytes([_STDOUT]))
            async for stream, data in live:
                channel = _STDERR if stream == "stderr" else _STDOUT
                await self._socket.send(bytes([channel]) + data)

    async def _tell(self, status: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send(bytes([_ERROR]) + orjson.dumps(status))


_SUCCESS: Final[dict[str, Any]] = {"metadata": {}, "status": "Success"}


def _outcome(code: int) -> dict[str, Any]:
    if code == 0:
        return _SUCCESS
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _resize(terminal: Input, payload: bytes) -> None:
    try:
        size = orjson.loads(payload)
        terminal.resize(rows=int(size["Height"]), columns=int(size["Width"]))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return  # a size that cannot be read changes nothing
