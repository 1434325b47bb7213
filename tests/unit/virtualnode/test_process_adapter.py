"""Parts of the process adapter that need no process: logs, addresses, rewritten paths, pipes."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from adapters.process.addresses import Addresses
from adapters.process.logs import LINE_BYTES, Log
from adapters.process.pipes import ReadEnd, Streams, WriteEnd
from adapters.process.rewriting import rewriter

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def log(tmp_path, clock):
    made = Log(tmp_path / "log" / "0.log", now=clock)
    yield made
    made.close()


async def text(log, **wanted) -> str:
    return b"".join([piece async for piece in log.read(**wanted)]).decode()


async def test_the_file_is_in_the_format_of_container_runtimes(log, tmp_path):
    log.write("stdout", b"one\ntw")
    log.write("stderr", b"oops\n")
    log.write("stdout", b"o\n")
    stamp = "2026-01-01T00:00:00.000000000Z"
    assert (tmp_path / "log" / "0.log").read_text() == (
        f"{stamp} stdout F one\n{stamp} stderr F oops\n{stamp} stdout F two\n"
    )
    assert await text(log) == "one\noops\ntwo\n"
    assert await text(log, stream="stderr") == "oops\n"
    assert await text(log, timestamps=True, tail_lines=1) == f"{stamp} two\n"


async def test_what_was_begun_is_written_at_the_end(log):
    log.write("stdout", b"no line break")
    assert await text(log) == ""
    log.close()
    assert await text(log) == "no line break\n"


async def test_a_long_line_is_written_in_pieces_and_shown_as_one(log):
    line = b"x" * (2 * LINE_BYTES + 5)
    log.write("stdout", b"before\n" + line + b"\nafter\n")
    assert await text(log) == f"before\n{line.decode()}\nafter\n"
    assert await text(log, tail_lines=2) == f"{line.decode()}\nafter\n"
    shown = await text(log, tail_lines=2, timestamps=True)
    assert shown.count("2026-") == 2


@pytest.mark.parametrize("count", [0, 1, 3, 7, 99])
async def test_the_last_lines(log, count):
    lines = [f"{number}\n" for number in range(7)]
    log.write("stdout", "".join(lines).encode())
    assert await text(log, tail_lines=count) == "".join(
        lines[len(lines) - count :] if count < 7 else lines
    )


async def test_since_and_a_limit(log, clock):
    log.write("stdout", b"old\n")
    clock.now += timedelta(seconds=60)
    log.write("stdout", b"new\n")
    assert await text(log, since=(START + timedelta(seconds=30)).timestamp()) == "new\n"
    assert await text(log, limit_bytes=6) == "old\nne"


async def test_files_rotate_and_the_oldest_go(tmp_path, clock):
    log = Log(tmp_path / "0.log", now=clock, file_bytes=200, files=3)
    for number in range(40):
        log.write("stdout", f"line {number}\n".encode())
    assert len(list(tmp_path.iterdir())) == 3
    kept = (await text(log)).splitlines()
    assert kept[-1] == "line 39" and 5 < len(kept) < 40
    assert (await text(log, tail_lines=6)).splitlines() == [f"line {n}" for n in range(34, 40)]
    log.remove()
    assert list(tmp_path.iterdir()) == []


async def test_a_follower_sees_every_line_over_rotations_and_then_the_end(tmp_path, clock):
    log = Log(tmp_path / "0.log", now=clock, file_bytes=300, files=3)
    log.write("stdout", b"first\n")

    async def follow() -> list[str]:
        return (await text(log, follow=True)).splitlines()

    following = asyncio.ensure_future(follow())
    for number in range(30):
        log.write("stdout", f"{number}\n".encode())
        await asyncio.sleep(0)
    log.close()
    assert await following == ["first", *map(str, range(30))]


async def test_whoever_looks_live_gets_raw_bytes_and_never_holds_the_writer_back(log):
    async def look():
        return [chunk async for chunk in log.live()]

    looking = asyncio.ensure_future(look())
    await asyncio.sleep(0)
    log.write("stderr", b"raw")
    await asyncio.sleep(0)
    log.close()
    assert await looking == [("stderr", b"raw")]


async def test_who_looks_too_slowly_is_let_go(log):
    async def look():
        return [chunk async for chunk in log.live()]

    looking = asyncio.ensure_future(look())
    await asyncio.sleep(0)
    for number in range(1000):
        log.write("stdout", f"{number}\n".encode())
    assert 0 < len(await looking) < 1000


# -- addresses


def test_every_pod_has_an_address_of_its_own():
    addresses = Addresses("127.64.0.0/24", rng=Random(1))
    taken = {addresses.take() for _ in range(254)}
    assert len(taken) == 254 and all(each.startswith("127.64.0.") for each in taken)
    assert not taken & {"127.64.0.0", "127.64.0.255"}
    with pytest.raises(OSError, match="taken"):
        addresses.take()
    addresses.give_back("127.64.0.7")
    assert addresses.take() == "127.64.0.7"


def test_an_address_is_not_given_again_soon():
    addresses = Addresses("127.64.0.0/24", rng=Random(1))
    first = addresses.take()
    addresses.give_back(first)
    assert first not in {addresses.take() for _ in range(100)}


@pytest.mark.parametrize("network", ["10.0.0.0/8", "127.0.0.1/32", "128.0.0.0/16"])
def test_only_loopback_will_do(network):
    with pytest.raises(ValueError, match=network):
        Addresses(network, rng=Random(1))


# -- rewritten paths


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/etc/fleet/peers", "/pod/v/peers"),
        ("cat /etc/fleet /etc/fleet/a", "cat /pod/v /pod/v/a"),
        ("--file=/etc/fleet/a:/data", "--file=/pod/v/a:/pod/d"),
        ("/etc/fleetwide", "/etc/fleetwide"),
        ("/mnt/etc/fleet", "/mnt/etc/fleet"),
        ("/data.old", "/data.old"),
        ("/data-2", "/data-2"),
        ("'/data'", "'/pod/d'"),
        ("/data/deep/x", "/pod/deeper/x"),
        ("http://host/data", "http://host/data"),
    ],
)
def test_a_mount_path_is_rewritten_where_it_stands_as_a_path(before, after):
    places = {"/etc/fleet": "/pod/v", "/data": "/pod/d", "/data/deep/": "/pod/deeper"}
    assert rewriter(places)(before) == after


def test_without_mounts_nothing_is_rewritten():
    assert rewriter({})("/a") == "/a"


# -- pipes


async def test_a_reader_waits_for_what_is_written_and_for_the_end():
    out, into = os.pipe()
    reader, writer = ReadEnd(out), WriteEnd(into)
    reading = asyncio.ensure_future(reader.read())
    await asyncio.sleep(0)
    await writer.write(b"x")
    assert await reading == b"x"
    ending = asyncio.ensure_future(reader.read())
    await asyncio.sleep(0)
    writer.close()
    assert await ending == b""
    reader.close()
    assert await reader.read() == b""
    with pytest.raises(BrokenPipeError):
        await writer.write(b"y")


async def test_a_writer_goes_at_the_readers_pace():
    out, into = os.pipe()
    reader, writer = ReadEnd(out), WriteEnd(into)
    data = os.urandom(1 << 20)
    writing = asyncio.ensure_future(writer.write(data))
    got = b""
    while len(got) < len(data):
        got += await reader.read()
    await writing
    assert got == data
    reader.close()
    with pytest.raises(BrokenPipeError):
        await writer.write(data)
    writer.close()


async def test_closing_frees_whoever_waits():
    out, into = os.pipe()
    reader = ReadEnd(out)
    reading = asyncio.ensure_future(reader.read())
    await asyncio.sleep(0)
    reader.close()
    assert await reading == b""
    os.close(into)


async def test_a_terminal_has_one_output_and_a_size():
    streams = Streams(stdin=True, tty=True)
    assert streams.stderr is None and streams.stdin is not None
    streams.stdin.resize(rows=5, columns=7)
    size = os.get_terminal_size(streams.theirs[0])
    assert (size.lines, size.columns) == (5, 7)
    streams.started()
    assert await streams.stdout.read() == b"", "nobody has the terminal open"
    streams.close()
