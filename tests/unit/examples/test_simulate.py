"""The commands of the simulation example do what its README says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from fleet.cli.main import cli

ROOT = Path(__file__).parents[3]
README = (ROOT / "examples" / "simulate" / "README.md").read_text(encoding="utf-8")
FIRST, COMPARED, WITHOUT, NODES, FILLED = (
    shlex.split(line)[1:] for line in re.findall(r"(?m)^fleet .*", README)
)


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def run(arguments: list[str], *more: str) -> str:
    done = CliRunner().invoke(cli, [*arguments, *more], prog_name="fleet")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    return done.stdout


def rows(shown: str) -> dict[str, list[str]]:
    """By the first column."""
    split = [re.split(r" {3,}", line) for line in shown.splitlines()]
    return {name: values for name, *values in split}


def test_the_day_is_as_the_readme_tells_it() -> None:
    shown = run(FIRST)
    lines = shown.splitlines()
    assert lines[0].endswith(": 61 ended, 1 waiting")
    assert "; 1 eviction, " in lines[1]
    assert re.search(r"; cost [1-9][0-9.]* USD$", lines[1])
    assert lines[-1].startswith("  job nlp/huge: QuotaTooSmall: ")
    use = {name: rows(shown)[name][4] for name in ("idc-a", "idc-b")}
    assert all(float(each.rstrip("%")) < 100 for each in use.values())


def test_more_nodes_save_money_and_shorten_no_wait() -> None:
    told = rows(run(COMPARED))
    before, after, change = told["cost, USD"]
    assert 0 < float(after) < float(before)
    assert float(change.rstrip("%")) < -20
    assert told["mean wait"][-1] == told["longest wait"][-1] == "="


def test_without_a_cluster_for_programs() -> None:
    told = json.loads(run(WITHOUT))
    assert [each["name"] for each in told["clusters"]] == ["cloud-c", "idc-a"]
    base = json.loads(run(FIRST, "-o", "json"))
    assert told["makespanSeconds"] >= base["makespanSeconds"]


def test_pods_that_share_gpus_all_find_a_place() -> None:
    assert run(NODES).splitlines()[1] == "48 were placed; 0 have no place"


def test_a_fleet_that_is_filled_is_nearly_full_by_one_policy_and_not_by_the_other() -> None:
    told = rows(run(FILLED))
    least, spread, _ = (float(each.rstrip("%")) for each in told["allocated"])
    assert least > 95
    assert spread < 75


def test_every_file_is_named() -> None:
    files = {path.name for path in (ROOT / "examples" / "simulate").iterdir()}
    assert files == {"README.md", *re.findall(r"\]\(([\w.-]+)\)", README)}
