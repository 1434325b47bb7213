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
FIRST, COMPARED, WITHOUT = (shlex.split(line)[1:] for line in re.findall(r"(?m)^fleet .*", README))


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def run(arguments: list[str], *more: str) -> str:
    done = CliRunner().invoke(cli, [*arguments, *more], prog_name="fleet")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    return done.stdout


def test_the_day_is_as_the_readme_tells_it() -> None:
    lines = run(FIRST).splitlines()
    assert lines[0].endswith(": 61 ended, 1 still wait")
    assert lines[1].startswith("makespan 21h45m; 1 eviction, ")
    assert lines[1].endswith("; cost 1382.40 USD")
    assert lines[-1].startswith("  job nlp/huge: QuotaTooSmall: ")
    assert "after 21h45m" in README
    assert re.sub(r"\s+", " ", README).count("costs 1382.40 USD") == 1


def test_more_nodes_save_what_the_readme_says_and_shorten_no_wait() -> None:
    rows = {}
    for line in run(COMPARED).splitlines()[1:]:
        name, values = line.split("   ", 1)
        rows[name] = values.split()
    before, after, _ = rows["cost, USD"]
    assert float(before) - float(after) == pytest.approx(384)
    assert rows["mean wait"][-1] == "="


def test_without_a_cluster_for_programs() -> None:
    told = json.loads(run(WITHOUT))
    assert [each["name"] for each in told["clusters"]] == ["cloud-c", "idc-a"]
    base = json.loads(run(FIRST, "-o", "json"))
    assert told["makespanSeconds"] >= base["makespanSeconds"]


def test_every_file_is_named() -> None:
    files = {path.name for path in (ROOT / "examples" / "simulate").iterdir()}
    assert files == {"README.md", *re.findall(r"\]\(([\w.-]+)\)", README)}
