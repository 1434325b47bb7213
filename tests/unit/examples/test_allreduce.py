"""The example really sums over its processes, and fails when a sum is wrong."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "allreduce.py"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def ranks(world: int, *arguments: str) -> list[subprocess.CompletedProcess[str]]:
    environment = os.environ | {
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    started = [
        subprocess.Popen(
            [sys.executable, str(EXAMPLE), *arguments],
            env=environment | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in reversed(range(world))
    ]
    done = []
    for process in started:
        out, err = process.communicate(timeout=40)
        done.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    return done


def test_every_rank_ends_with_the_sum_of_all() -> None:
    for done in ranks(4, "--elements", "10", "--steps", "2"):
        assert done.returncode == 0, done.stderr
        assert "step 1: sum of ranks over 4 processes: 6" in done.stdout


def test_a_single_rank_needs_nobody() -> None:
    (done,) = ranks(1)
    assert done.returncode == 0
    assert "sum of ranks over 1 processes: 0" in done.stdout
