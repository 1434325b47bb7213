from __future__ import annotations

import dataclasses
import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from fleet.errors import TestbedError
from fleet.testbed import processes
from fleet.testbed.leash import Leash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLEEP = ("/bin/sh", "-c", "exec sleep 300")
STUBBORN = ("/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done")


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[..., processes.Process]]:
    run = tmp_path / "run"
    run.mkdir()

    def spawn(name: str, argv: tuple[str, ...] = SLEEP) -> processes.Process:
        return processes.spawn(
            name, argv, run=run, log=tmp_path / f"{name}.log", env={"PATH": os.defpath}
        )

    yield spawn
    processes.kill_now(processes.recorded(run).values())


async def test_a_process_is_recorded_told_alive_and_ended(start, tmp_path):
    process = start("one")

    assert processes.recorded(tmp_path / "run") == {"one": process}
    assert process.alive
    assert not process.paused
    await processes.stop([process], grace_s=5)
    assert not process.alive
    processes.forget(tmp_path / "run", ["one"])
    assert processes.recorded(tmp_path / "run") == {}


async def test_a_paused_process_is_alive_and_can_still_be_ended(start):
    process = start("one")
    await processes.pause(process)

    assert process.alive
    assert process.paused
    await processes.stop([process], grace_s=5)
    assert not process.alive


async def test_who_ignores_the_asking_is_killed(start, tmp_path):
    process = start("one", STUBBORN)
    while "ready" not in (tmp_path / "one.log").read_text():
        os.sched_yield()

    await processes.stop([process], grace_s=0.05)
    assert not process.alive


@pytest.mark.parametrize("change", [{"start_ticks": 1}, {"boot": "another"}])
async def test_another_process_with_the_same_pid_is_never_hit(start, change):
    real = start("one")
    recycled = dataclasses.replace(real, **change)

    assert not recycled.alive
    assert not recycled.send(signal.SIGKILL)
    await processes.stop([recycled], grace_s=0)
    processes.kill_now([recycled])
    assert await recycled.gone(timeout_s=0)
    assert real.alive


async def test_a_pid_that_nobody_has_is_gone(start):
    process = start("one")
    await processes.stop([process], grace_s=0)

    assert not process.send(signal.SIGTERM)
    assert await process.gone(timeout_s=0)
    assert process.gone_now(timeout_s=0)


async def test_who_is_gone_cannot_be_paused(start):
    process = start("one")
    await processes.stop([process], grace_s=0)

    with pytest.raises(TestbedError, match="one is not running"):
        await processes.pause(process)


async def test_waiting_for_one_that_stays_ends_in_time(start):
    process = start("one")

    assert not await process.gone(timeout_s=0.01)
    assert not process.gone_now(timeout_s=0.01)


def test_a_process_has_a_session_and_no_input_of_ours(start):
    process = start("one")

    assert os.getsid(process.pid) == process.pid
    assert os.readlink(f"/proc/{process.pid}/fd/0") == os.devnull


def test_output_goes_to_the_log_and_is_private(start, tmp_path):
    process = start("one", ("/bin/sh", "-c", "echo out; echo err >&2"))
    assert process.gone_now(timeout_s=10)

    log = tmp_path / "one.log"
    assert log.read_text() == "out\nerr\n"
    assert log.stat().st_mode & 0o077 == 0


def test_a_program_that_is_not_there_is_named(start):
    with pytest.raises(TestbedError, match=r"cannot start one \(/no/such\)"):
        start("one", ("/no/such",))


def test_a_damaged_record_is_named_and_nothing_is_guessed(tmp_path):
    (tmp_path / "one.json").write_text(json.dumps({"pid": 1}))

    with pytest.raises(TestbedError, match=r"one\.json is not a process record"):
        processes.recorded(tmp_path)


def test_the_leash_ends_what_its_owner_left(start, tmp_path):
    process = start("one")
    leash = Leash(tmp_path / "run")
    assert leash._watcher.stdin is not None
    leash._watcher.stdin.close()  # what the kernel does when the owner dies

    assert leash._watcher.wait() == 0
    assert not process.alive


def test_a_released_leash_lets_the_processes_live(start, tmp_path):
    process = start("one")
    leash = Leash(tmp_path / "run")

    leash.release()
    assert process.alive


def test_records_survive_a_reader_of_another_program(start, tmp_path):
    process = start("one")
    stored = json.loads((tmp_path / "run" / "one.json").read_text())

    assert stored == {
        "name": "one",
        "pid": process.pid,
        "start_ticks": process.start_ticks,
        "boot": process.boot,
    }
