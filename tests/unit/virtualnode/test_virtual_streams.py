"""Connections inside the process, WebSockets on them, and the channels of remote commands."""

from __future__ import annotations

import asyncio
import os
import struct

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadRequest
from virtualnode.streams import channels, pipe
from virtualnode.streams.websocket import LARGEST_MESSAGE, Broken, WebSocket, accept


async def test_bytes_arrive_in_order_and_then_the_end():
    ours, theirs = pipe.connection()
    await ours.write(b"a")
    await ours.write(b"b")
    await ours.write_eof()
    assert [await theirs.read() for _ in range(3)] == [b"a", b"b", b""]
    await theirs.write(b"c")
    assert await ours.read() == b"c"


async def test_a_writer_waits_for_its_reader():
    ours, theirs = pipe.connection()
    await ours.write(b"x" * pipe.LIMIT_BYTES)
    waiting = asyncio.ensure_future(ours.write(b"y"))
    await asyncio.sleep(0)
    assert not waiting.done()
    await theirs.read()
    await waiting
    assert await theirs.read() == b"y"


async def test_a_side_that_has_closed_takes_nothing_more():
    ours, theirs = pipe.connection()
    await ours.write(b"last")
    await theirs.close()
    with pytest.raises(ConnectionResetError):
        await ours.write(b"x")
    assert await ours.read() == b""
    await theirs.close()


async def test_a_waiting_writer_is_told_of_the_close():
    ours, theirs = pipe.connection()
    await ours.write(b"x" * pipe.LIMIT_BYTES)
    waiting = asyncio.ensure_future(ours.write(b"y"))
    await asyncio.sleep(0)
    await theirs.close()
    with pytest.raises(ConnectionResetError):
        await waiting


# -- WebSocket


def frame(payload: bytes, *, code: int = 2, final: bool = True, masked: bool = True) -> bytes:
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", final << 7 | code, masked << 7 | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", final << 7 | code, masked << 7 | 126, size)
    else:
        head = struct.pack("!BBQ", final << 7 | code, masked << 7 | 127, size)
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


class Client:
    """The client's side: frames in, frames out."""

    def __init__(self) -> None:
        self.end, inner = pipe.connection()
        self.socket = WebSocket(inner)
        self._buffer = b""

    async def send(self, payload: bytes, **how) -> None:
        await self.end.write(frame(payload, **how))

    async def receive(self) -> tuple[int, bytes]:
        """(code, payload) of the next frame from the server."""
        while True:
            if len(self._buffer) >= 2:
                first, size = self._buffer[:2]
                assert not size & 0x80, "a server does not mask"
                start = 2
                if size > 125:
                    start += 2 if size == 126 else 8
                    size = int.from_bytes(self._buffer[2:start])
                if len(self._buffer) >= start + size:
                    payload = self._buffer[start : start + size]
                    self._buffer = self._buffer[start + size :]
                    return first & 0x0F, payload
            data = await self.end.read()
            assert data, "the server has closed"
            self._buffer += data


@given(st.binary(max_size=200), st.integers(0, 200))
def test_a_message_arrives_whole_however_it_is_cut(payload, cut):
    async def run():
        client = Client()
        await client.send(payload[:cut], final=False)
        await client.send(b"hi", code=9)
        await client.send(payload[cut:], code=0)
        assert await client.socket.receive() == payload
        assert await client.receive() == (10, b"hi"), "the ping in between is answered"

    asyncio.run(run())


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536])
async def test_every_length_both_ways(size):
    client = Client()
    payload = os.urandom(size)
    await client.send(payload)
    assert await client.socket.receive() == payload
    await client.socket.send(payload)
    assert await client.receive() == (2, payload)


async def test_a_closing_handshake_ends_it():
    client = Client()
    await client.send(struct.pack("!H", 1000), code=8)
    assert await client.socket.receive() is None
    assert (await client.receive())[0] == 8
    with pytest.raises(ConnectionResetError):
        await client.socket.send(b"x")


async def test_a_client_that_just_leaves():
    client = Client()
    await client.end.write(frame(b"whole") + b"\x82")
    await client.end.close()
    assert await client.socket.receive() == b"whole"
    assert await client.socket.receive() is None


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (frame(b"x", masked=False), 1002),
        (frame(b"x", code=3), 1002),
        (b"\xc2" + frame(b"x")[1:], 1002),
        (struct.pack("!BBQ", 0x82, 0x80 | 127, LARGEST_MESSAGE + 1), 1009),
    ],
)
async def test_a_client_that_breaks_the_rules_is_told(raw, code):
    client = Client()
    await client.end.write(raw)
    with pytest.raises(Broken) as broken:
        await client.socket.receive()
    assert broken.value.code == code


def test_the_handshake_is_rfc_6455s_own_example():
    headers = {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", "sec-websocket-version": "13",
               "sec-websocket-protocol": "chat, v5.channel.k8s.io, v4.channel.k8s.io"}  # fmt: skip
    accepted, chosen = accept(headers, channels.PROTOCOLS)
    assert accepted["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert chosen == accepted["sec-websocket-protocol"] == "v5.channel.k8s.io"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-websocket-key": "x", "sec-websocket-version": "8"},
        {"sec-websocket-key": "x", "sec-websocket-protocol": "other"},
    ],
)
def test_an_offer_that_cannot_be_taken_is_refused(headers):
    with pytest.raises(BadRequest):
        accept(headers, channels.PROTOCOLS)


# -- channels


class FakeInput:
    def __init__(self) -> None:
        self.taken = b""
        self.size = (0, 0)
        self.closed = asyncio.Event()

    async def write(self, data: bytes) -> None:
        self.taken += data

    def resize(self, *, rows: int, columns: int) -> None:
        self.size = (rows, columns)

    def close(self) -> None:
        self.closed.set()


class FakeOutput:
    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


class FakeExecution:
    """Ends when its input is closed, or when it is killed."""

    def __init__(self, *, code: int = 0) -> None:
        self.stdin = FakeInput()
        self.stdout = FakeOutput(b"one", b"two")
        self.stderr = FakeOutput(b"bad")
        self.code = code
        self.killed = False
        self.released = False

    async def wait(self) -> tuple[int, int]:
        await self.stdin.closed.wait()
        return self.code, 0

    async def kill(self) -> None:
        self.killed = True
        self.stdin.closed.set()

    def close(self) -> None:
        self.released = True


async def everything(client: Client) -> dict[int, bytes]:
    """What the server sends until it closes, by channel."""
    found: dict[int, bytes] = {}
    while True:
        code, payload = await client.receive()
        if code == 8:
            return found
        found[payload[0]] = found.get(payload[0], b"") + payload[1:]


@pytest.mark.parametrize(("code", "status"), [(0, "Success"), (3, "Failure")])
async def test_an_exec_tells_its_output_and_how_it_ended(code, status):
    client, execution = Client(), FakeExecution(code=code)
    async with asyncio.TaskGroup() as tasks:
        session = channels.Session(client.socket, channels.V5)
        tasks.create_task(session.execute(execution))
        await client.send(b"\0in")
        await client.send(b'\4{"Width":80,"Height":24}')
        await client.send(b"\4nonsense")
        await client.send(b"\xff\0")
        found = await everything(client)
    assert execution.stdin.taken == b"in" and execution.stdin.size == (24, 80)
    assert (found[1], found[2]) == (b"onetwo", b"bad")
    told = orjson.loads(found[3])
    assert told["status"] == status
    if code:
        assert told["reason"] == "NonZeroExitCode"
        assert told["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert execution.released


async def test_a_client_that_leaves_takes_its_command_with_it():
    client, execution = Client(), FakeExecution()
    async with asyncio.TaskGroup() as tasks:
        session = channels.Session(client.socket, channels.V4)
        tasks.create_task(session.execute(execution))
        await client.end.close()
    assert execution.killed and execution.released


async def test_version_4_cannot_end_its_input():
    client, execution = Client(), FakeExecution()
    async with asyncio.TaskGroup() as tasks:
        session = channels.Session(client.socket, channels.V4)
        running = tasks.create_task(session.execute(execution))
        await client.send(b"\xff\0")
        await client.send(b"\0more")
        for _ in range(20):
            await asyncio.sleep(0)
        assert execution.stdin.taken == b"more" and not running.done()
        await client.end.close()


async def test_a_command_that_could_not_run_is_explained():
    client = Client()
    await channels.Session(client.socket, channels.V5).refuse("no such program")
    assert orjson.loads((await everything(client))[3])["message"] == "no such program"
