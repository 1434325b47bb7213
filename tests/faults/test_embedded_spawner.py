"""The runtime's processes when their starter is interrupted, or the helper cannot work."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import pytest

from adapters.process.helper import MARK
from adapters.process.pipes import Streams
from adapters.process.spawner import Spawner

NOWHERE = {"mode": "", "root": "", "hostname": "", "binds": []}


@pytest.fixture
async def spawner(tmp_path):
    async with Spawner(tmp_path, mount=False) as made:
        yield made


async def start(spawner, *argv, mark="u/c", **how):
    streams = Streams(stdin=False, tty=False)
    try:
        return await spawner.start(
            argv, env={MARK: mark, "PATH": os.environ["PATH"]}, cwd="/", space=NOWHERE,
            streams=streams.theirs, **how,
        ), streams  # fmt: skip
    except BaseException:
        streams.close()
        raise
    finally:
        streams.started()


async def output(streams) -> bytes:
    found = b""
    while data := await streams.stdout.read():
        found += data
    streams.close()
    return found


async def test_many_start_at_once_and_each_end_is_told(spawner):
    async with asyncio.TaskGroup() as tasks:
        starting = [
            tasks.create_task(start(spawner, "sh", "-c", f"echo {n}; exit {n}", mark=f"u{n}/c"))
            for n in range(50)
        ]
    for number, task in enumerate(starting):
        spawned, streams = task.result()
        assert await output(streams) == f"{number}\n".encode()
        assert (await spawned.wait()).code == number


async def test_a_large_environment_passes(spawner):
    script = f"printf %s {'x' * 100_000} | wc -c"
    spawned, streams = await start(spawner, "sh", "-c", script)
    assert await output(streams) == b"100000\n"
    assert (await spawned.wait()).code == 0


async def test_a_start_that_is_given_up_leaves_nothing_running(spawner):
    """Cancelled at any moment of its start, a process does not live on."""
    for turns in range(8):
        task = asyncio.ensure_future(start(spawner, "sleep", "1000", mark=f"given-up-{turns}/c"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            spawned, streams = await task
            await spawned.signal(signal.SIGKILL)
            streams.close()
    last, streams = await start(spawner, "true")  # the helper has seen all that was asked before
    await last.wait()
    streams.close()
    async with asyncio.timeout(10):
        while spawner.running:  # noqa: ASYNC110, nobody tells of an end that nobody waits for
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("argv", "word"),
    [(("no-such-program",), "not found in $PATH"), (("/etc",), "permission denied")],
)
async def test_what_cannot_be_started_says_why(spawner, argv, word):
    with pytest.raises(OSError, match="exec") as error:
        await start(spawner, *argv)
    assert word in str(error.value)
    assert not spawner.running


async def test_a_helper_that_cannot_be_started_is_an_error_and_no_hang(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(OSError, match="ended at once"):
        async with Spawner(tmp_path, mount=False):
            pass


async def test_signals_reach_the_whole_group_and_those_that_ended_are_left_alone(spawner):
    script = "trap 'exit 7' TERM; sleep 1000 & echo up; wait"
    spawned, streams = await start(spawner, "sh", "-c", script)
    assert await streams.stdout.read() == b"up\n"
    await spawned.signal(signal.SIGTERM)
    assert await spawned.wait() == type(await spawned.wait())(7, 0)
    await spawned.signal(signal.SIGTERM)
    streams.close()
