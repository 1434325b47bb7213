"""Port-forward over a WebSocket: two channels for each port, data and error.

Port number `i` of the request has channel 2i for data and 2i+1 for errors; each begins with the
port as two bytes, little-endian (k8s.io/kubelet pkg/cri/streaming/portforward). Every port is one
connection; a client that wants another opens another WebSocket.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from typing import TYPE_CHECKING, Final

from virtualnode.streams.websocket import Broken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from virtualnode.streams.websocket import WebSocket

PROTOCOLS: Final = ("v4.channel.k8s.io", "portforward.k8s.io")
_CHUNK: Final = 32 << 10


class Forwarding:
    """The connections of one port-forward."""

    def __init__(self, socket: WebSocket, *, address: str, ports: Sequence[int]) -> None:
        self._socket = socket
        self._address = address
        self._ports = ports

    async def run(self) -> None:
        """Carry bytes until the client goes, or every port has ended."""
        for number, port in enumerate(self._ports):
            for channel in (2 * number, 2 * number + 1):
                await self._socket.send(bytes([channel]) + struct.pack("<H", port))
        writers: dict[int, asyncio.StreamWriter] = {}
        try:
            async with asyncio.TaskGroup() as tasks:
                carriers = []
                for number, port in enumerate(self._ports):
                    reader, writer = await self._open(number, port)
                    if reader is not None and writer is not None:
                        writers[2 * number] = writer
                        carrier = self._carry(2 * number, reader)
                        carriers.append(tasks.create_task(carrier, name=f"port {port}"))
                receiving = tasks.create_task(self._receive(writers), name="client")
                running = set(carriers)
                while running and not receiving.done():
                    await asyncio.wait({receiving, *running}, return_when=asyncio.FIRST_COMPLETED)
                    running = {carrier for carrier in running if not carrier.done()}
                await self._socket.close()
                for task in (receiving, *carriers):
                    task.cancel()
        finally:
            for writer in writers.values():
                writer.close()

    async def _open(
        self, number: int, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | tuple[None, None]:
        try:
            return await asyncio.open_connection(self._address, port)
        except OSError as error:
            why = f"error forwarding port {port} to pod: {error}"
            await self._socket.send(bytes([2 * number + 1]) + why.encode())
            return None, None

    async def _carry(self, channel: int, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._socket.send(bytes([channel]) + data)

    async def _receive(self, writers: dict[int, asyncio.StreamWriter]) -> None:
        try:
            while (message := await self._socket.receive()) is not None:
                writer = writers.get(message[0]) if message else None
                if writer is not None and len(message) > 1:
                    writer.write(message[1:])
                    await writer.drain()
        except Broken as error:
            await self._socket.close(error.code, str(error))
        except OSError:
            pass
