"""The scripts: linted, runnable, and POSIX where they say so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted([*(ROOT / "scripts").iterdir(), ROOT / ".ci" / "run"])


def first_line(path: Path) -> str:
    return path.read_text("utf-8").partition("\n")[0]


def test_ruff_checks_every_python_script():
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--show-files"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    checked = set(map(Path, done.stdout.splitlines()))
    python = {path for path in SCRIPTS if "python" in first_line(path)}
    assert len(python) >= 6
    assert python <= checked


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_parses_and_may_be_run(script):
    shebang = first_line(script)
    if script.name == "environment":
        assert not shebang.startswith("#!"), "it is sourced"
        shell = ["sh", "-n"]
    else:
        assert os.access(script, os.X_OK)
        shell = {"#!/bin/sh": ["sh", "-n"], "#!/usr/bin/env bash": ["bash", "-n"]}.get(shebang, [])
    if shell:
        subprocess.run([*shell, script], check=True)
    else:
        assert shebang == "#!/usr/bin/env python3"
        compile(script.read_text("utf-8"), script.name, "exec")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_names_no_machine_or_index(script):
    text = script.read_text("utf-8")
    assert re.findall(r"https?://[\w.]+\.[a-z]+", text) == []
