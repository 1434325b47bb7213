"""`fleet simulate` over tables of nodes and pods: what it takes, what it prints, how it ends."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from fleet.cli.main import cli

if TYPE_CHECKING:
    from pathlib import Path

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,8000,64,2,T4\nb,8000,64,2,T4\n"
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
PODS = f"{HEAD}\nx,1000,1,1,500\ny,1000,1,1,500\nz,1000,1,1,1000\nwide,1000,1,2,1000\n"
TIMED = f"{HEAD},creation_time,deletion_time\nx,1000,1,2,1000,0,60\ny,1,1,2,1000,0,60\nz,1,1,2,1000,30,90\n"  # noqa: E501


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv.gz").write_bytes(gzip.compress(PODS.encode()))
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["simulate", *args], prog_name="fleet")


def told(*args: str) -> Any:
    done = run(*args, "-o", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_for_people(folder: Path) -> None:
    done = run("-f", str(folder))
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "4 pods on 2 nodes with 4 GPUs, by FGD: 4 GPUs asked for, 100.0% of them",
        "4 were placed; 0 have no place",
        "",
        "NODES OF   NODES   GPUS   ALLOCATED   STRANDED",
        "T4 × 2     2       4      100.00%     0.00%",
    ]


def test_by_times(folder: Path) -> None:
    (folder / "pods.csv.gz").unlink()
    (folder / "pods.csv").write_text(TIMED)
    shown = run("-f", str(folder)).stdout.splitlines()
    assert shown[0] == "3 pods on 2 nodes with 4 GPUs, by FGD: 6 GPUs asked for in 2m"
    assert shown[1] == "3 were placed, 1 of them after a wait, 30s at most; 0 have no place"
    assert shown[3].split() == ["NODES", "OF", "NODES", "GPUS", "MEAN", "PEAK", "AT", "END"]
    found = told("-f", str(folder), "--until", "45s")
    assert found["allocated"] == {"atEnd": 1.0, "mean": 1.0, "peak": 1.0}
    assert found["notPlaced"][0]["reason"] == "Full"


def test_policies_side_by_side(folder: Path) -> None:
    both = ("--node-policy", "fgd", "--node-policy", "LeastAllocated")
    shown = run("-f", str(folder), *both).stdout.splitlines()
    assert shown[0].split() == ["FGD", "LEASTALLOCATED", "CHANGE"]
    items = told("-f", str(folder), *both)["items"]
    assert [(each["name"], each["allocated"]["atEnd"]) for each in items] == [
        ("FGD", 1.0), ("LeastAllocated", 0.5),
    ]  # fmt: skip
    (lacking,) = items[1]["notPlaced"]
    assert (lacking["asks"], lacking["reason"], lacking["gpus"]) == ("2 GPUs", "InParts", 2.0)


def test_other_nodes_side_by_side(folder: Path) -> None:
    more = folder / "more"
    more.mkdir()
    (more / "bought.csv").write_text(NODES.replace("a,8000,64,2", "c,8000,64,4"))
    base = ("-f", str(folder / "nodes.csv"), "-f", str(folder / "pods.csv.gz"))
    items = told(*base, "--compare", str(more), "--node-policy", "BestFit")["items"]
    assert [(each["name"], each["gpus"]) for each in items] == [("as given", 4), ("more", 8)]
    twice = told(*base, "--compare", str(more), "--node-policy", "FGD", "--node-policy", "Random")
    assert [each["name"] for each in twice["items"]] == [
        "as given, FGD", "as given, Random", "more, FGD", "more, Random",
    ]  # fmt: skip


def test_filled_until_so_much_was_asked_for(folder: Path) -> None:
    found = told("-f", str(folder), "--fill", "200")
    assert found["gpusAskedFor"] >= 8
    assert found["pods"]["notPlaced"] > 0
    assert found == told("-f", str(folder), "--fill", "200", "--seed", "42")
    orders = {
        json.dumps(told("-f", str(folder), "--fill", "200", "--seed", str(seed)))
        for seed in range(8)
    }
    assert len(orders) > 1


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--fill", "100", "--until", "1h"), 2, "Nothing passes with --fill"),
        (("--remove-cluster", "a"), 2, "Tables of nodes and pods have no clusters"),
        (("--start", "2026-11-29T06:00:00Z"), 2, "Tables of nodes and pods have no clusters"),
        (("--node-policy", "Best"), 2, "'Best' is not one of 'fgd'"),
        (("-f", "{}/fleet.yaml"), 1, "fleet.yaml cannot be played with it"),
        (("-f", "{}/broken.csv.gz"), 1, "broken.csv.gz cannot be read"),
        (("-f", "{}/wrong.csv"), 1, "wrong.csv, line 2: column num_gpu"),
    ],
)
def test_what_cannot_be(folder: Path, more: tuple[str, ...], code: int, words: str) -> None:
    (folder / "fleet.yaml").write_text("apiVersion: fleet.dev/v1alpha1\nkind: Cluster\n")
    (folder / "broken.csv.gz").write_bytes(b"no gzip")
    (folder / "wrong.csv").write_text(f"{HEAD}\nx,1,1,two,1000\n")
    base = ("-f", str(folder / "nodes.csv"), "-f", str(folder / "pods.csv.gz"))
    done = run(*base, *(each.replace("{}", str(folder)) for each in more))
    assert done.exit_code == code
    assert words in done.stderr


def test_what_only_such_tables_have(folder: Path) -> None:
    (folder / "work.csv").write_text("name,runs,cpu\none,1h,1\n")
    done = run("-f", str(folder / "work.csv"), "--fill", "130")
    assert done.exit_code == 2
    assert "--node-policy, --fill and --seed are of tables of nodes and pods" in done.stderr


def test_nothing_to_fill_with(folder: Path) -> None:
    (folder / "cpu.csv").write_text(f"{HEAD}\nx,1,1,0,0\n")
    done = run("-f", str(folder / "nodes.csv"), "-f", str(folder / "cpu.csv"), "--fill", "130")
    assert done.exit_code == 1
    assert "no pod asks for a GPU" in done.stderr
