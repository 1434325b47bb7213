"""The example really sums over its processes, and fails when a sum is wrong."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "allreduce.py"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def ranks(world: int, *arguments: str, **variables: str) -> list[subprocess.CompletedProcess[str]]:
    environment = os.environ | {
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        **variables,
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


def test_rank_0_is_found_by_the_file_of_peers_where_its_name_is_nobodys(tmp_path: Path) -> None:
    peers = [{"rank": rank, "host": f"train-{rank}", "address": ""} for rank in range(3)]
    peers[0]["address"] = "127.0.0.1"
    file = tmp_path / "peers.json"
    file.write_text(json.dumps({"job": "train", "ranks": peers}))
    for done in ranks(3, MASTER_ADDR="train-0.invalid", FLEET_PEERS_FILE=str(file)):
        assert done.returncode == 0, done.stderr
        assert "sum of ranks over 3 processes: 3" in done.stdout
