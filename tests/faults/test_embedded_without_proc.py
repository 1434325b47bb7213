"""A machine where /proc is not mounted: containers end all the same, and nothing waits for ever.

Whether a process lives is told by its end of a pipe, since nothing else tells it there.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import adapters
from adapters.process.helper import MARK
from adapters.process.pipes import Streams
from adapters.process.spawner import Spawner

NOWHERE = {"mode": "", "root": "", "hostname": "", "binds": []}
STRAY = "setsid sh -c 'echo up; exec sleep 1000' &"  # it is up in a session of its own
LEAVES_ORPHANS = f"{STRAY} ({STRAY}) ; exec sleep 1000"
ANSWERS = (
    "exec 3<&0; (setsid sh -c 'read word <&3; echo still $word; sleep 1000' &) ; exec sleep 1000"
)
PACKAGES = str(Path(adapters.__file__).parents[1])


class Blind(Spawner):
    """With a helper that finds no /proc, and is changed by `also`."""

    also = "pass"

    def _start_helper(self, theirs):
        program = (
            "import pathlib; from adapters.process import helper;"
            f" helper._PROC = pathlib.Path('/nowhere'); {self.also}; helper.main()"
        )
        with (self._directory / "told").open("wb") as told:
            return subprocess.Popen(
                [sys.executable, "-S", "-P", "-c", program, str(theirs.fileno()), "/", "plain"],
                stdin=subprocess.DEVNULL, stderr=told, pass_fds=[theirs.fileno()], cwd="/",
                env={"PYTHONPATH": PACKAGES, "PATH": os.environ["PATH"]}, start_new_session=True,
            )  # fmt: skip


class Stubborn(Blind):
    """With a helper that ends nothing by its pid, like that of another user."""

    also = "helper._kill = lambda pid: None; helper._GIVE_UP_S = 1.0"


async def start(spawner, script, mark):
    streams = Streams(stdin=True, tty=False)
    spawned = await spawner.start(
        ("sh", "-c", script), env={MARK: mark, "PATH": os.environ["PATH"]}, cwd="/",
        space=NOWHERE, streams=streams.theirs,
    )  # fmt: skip
    streams.started()
    return spawned, streams


async def until_up(streams):
    said = b""
    while said != b"up\nup\n":
        said += await streams.stdout.read()


async def ended(*all_streams):
    """Until none of the containers' processes is left."""
    for streams in all_streams:
        while await streams.stdout.read():
            pass
        streams.close()


@pytest.mark.parametrize("kind", [Spawner, Blind], ids=["proc", "no proc"])
async def test_what_a_container_left_behind_ends_with_it(tmp_path, kind):
    async with kind(tmp_path, mount=False) as spawner:
        spawned, streams = await start(spawner, LEAVES_ORPHANS, "u/c")
        await until_up(streams)
        await spawned.signal(signal.SIGKILL)
        await ended(streams)
        assert (await spawned.wait()).signal == signal.SIGKILL


async def test_what_may_be_another_containers_is_left_until_that_ends(tmp_path):
    async with Blind(tmp_path, mount=False) as spawner:
        first, firsts = await start(spawner, LEAVES_ORPHANS, "u/first")
        await until_up(firsts)
        second, seconds = await start(spawner, ANSWERS, "u/second")
        await first.signal(signal.SIGKILL)
        await first.wait()
        await seconds.stdin.write(b"here\n")
        assert await seconds.stdout.read() == b"still here\n"
        await second.signal(signal.SIGKILL)
        await ended(firsts, seconds)


@pytest.mark.parametrize("kind", [Spawner, Blind], ids=["proc", "no proc"])
async def test_everything_ends_with_the_runtime(tmp_path, kind):
    async with kind(tmp_path, mount=False) as spawner:
        _, streams = await start(spawner, LEAVES_ORPHANS, "u/c")
        await until_up(streams)
    await ended(streams)


async def test_what_cannot_be_ended_is_told_and_not_waited_for(tmp_path):
    async with Stubborn(tmp_path, mount=False) as spawner:
        _, streams = await start(spawner, LEAVES_ORPHANS, "u/c")
        await until_up(streams)
    told = (tmp_path / "told").read_text()
    left = re.fullmatch(r"processes of containers do not end and are left: (.*)\n", told)
    pids = [int(pid) for pid in left[1].split(", ")]
    assert len(pids) == 2
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    await ended(streams)
