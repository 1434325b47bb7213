"""Commands in what is printed: they must do when they are pasted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from fleet.cli import program

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation that is on no PATH."""
    found = executable(tmp_path / "my venv" / "bin" / "fleet")
    monkeypatch.setattr(sys, "executable", str(found.parent / "python"))
    return found


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_on_the_path_it_is_fleet(installed: Path) -> None:
    environment = {"PATH": f"/none:{installed.parent}"}
    assert program.command(environment, str(installed)) == "fleet"
    assert program.command(environment, str(installed.parent / "kubectl-fleet")) == "fleet"


@pytest.mark.parametrize("called", ["fleet", "kubectl-fleet", "../lib/fleet/cli/main.py"])
def test_elsewhere_it_is_the_whole_path(installed: Path, called: str) -> None:
    typed = program.command({"PATH": "/none"}, str(installed.parent / called))
    assert typed == f"'{installed}'"


def test_a_script_that_put_it_on_its_own_path_is_not_the_shell(installed: Path) -> None:
    environment = {"PATH": str(installed.parent), program.CALLERS_PATH: "/usr/bin"}
    assert program.command(environment, str(installed)) == f"'{installed}'"


def test_another_program_of_that_name_is_not_ours(installed: Path, tmp_path: Path) -> None:
    other = executable(tmp_path / "usr" / "fleet")
    assert program.command({"PATH": str(other.parent)}, str(installed)) == f"'{installed}'"


def test_without_a_script_it_is_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    typed = program.command({"PATH": "/none"}, str(tmp_path / "main.py"))
    assert typed == f"{tmp_path / 'python'} -m fleet.cli.main"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("start one with `fleet run`, or", "start one with `/v/fleet run`, or"),
        ("  To see it:  fleet get cluster a", "  To see it:  /v/fleet get cluster a"),
        ("Try:  fleet a b      fleet c d", "Try:  /v/fleet a b      /v/fleet c d"),
        ("the fleet has none: fleet-objects", "the fleet has none: fleet-objects"),
        ("NAME   fleet   x", "NAME   fleet   x"),
        ("is no fleet gateway", "is no fleet gateway"),
    ],
)
def test_commands_in_a_text(monkeypatch: pytest.MonkeyPatch, text: str, shown: str) -> None:
    monkeypatch.setattr(program, "command", lambda: "/v/fleet")
    assert program.pasteable(text) == shown
