"""The scripts: linted, runnable, and POSIX where they say so."""

from __future__ import annotations

import os
import re
import shutil
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


@pytest.fixture
def ci(tmp_path):
    """`.ci/run` over scripts that do nothing but end as they are told."""
    scripts, programs = tmp_path / "scripts", tmp_path / "bin"
    for folder in (scripts, programs, tmp_path / ".ci"):
        folder.mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (programs / "python").symlink_to(sys.executable)
    (programs / "debootstrap").symlink_to("/bin/true")
    for name in ("bash", "cat", "dirname", "id", "mktemp", "rm", "sed", "sh", "tail", "tee"):
        (programs / name).symlink_to(shutil.which(name))
    (scripts / "environment").write_text(
        'ROOT=$(cd -- "$(dirname -- "$0")/.." && pwd)\n'
        f"prepare_environment() {{ PATH={programs}; export PATH; }}\n"
    )
    (scripts / "generate-reference").write_text("")
    (scripts / "generate-builtin").write_text("raise SystemExit('not with Go missing')\n")

    def run(ends: dict[str, int], **environment: str) -> tuple[int, list[str]]:
        for name in ("check", "test", "demo", "bare-root"):
            file = scripts / name
            file.write_text(
                f"#!/bin/sh\ncat\necho '=== 3 passed in 1s ==='\nexit {ends.get(name, 0)}\n"
            )
            file.chmod(0o755)
        done = subprocess.run(
            [tmp_path / ".ci" / "run"],
            input="nobody reads this",
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": str(programs), **environment},
        )
        assert "nobody reads this" not in done.stdout
        lines = done.stdout.splitlines()
        assert lines[-1] == "3 passed in 1s"
        outcomes = [line.partition(" s  ")[2] for line in lines[-6:-1]]
        return done.returncode, outcomes

    return run


def test_ci_runs_every_section_whatever_the_others_did(ci):
    code, outcomes = ci({"check": 1, "demo": 3}, CI="")
    assert code == 1
    assert outcomes == ["FAILED (1)", "skipped", "ok", "FAILED (3)", "ok"]


def test_ci_fails_where_generated_files_cannot_be_compared(ci):
    code, outcomes = ci({})
    assert (code, outcomes[1]) == (1, "FAILED (1)")


def test_what_a_machine_cannot_do_is_skipped_and_said(ci):
    code, outcomes = ci({"bare-root": 77}, CI="")
    assert (code, outcomes) == (0, ["ok", "skipped", "ok", "ok", "skipped"])


def test_ci_fails_when_tests_fail(ci):
    code, outcomes = ci({"test": 1}, CI="")
    assert (code, outcomes[2]) == (1, "FAILED (1)")


INTERPRETER = """#!/bin/sh
for last; do :; done
case "$*" in
    *"-m venv"*) mkdir -p "$last/bin" && cp "$0" "$last/bin/python" ;;
    *"-r "*) echo "packages of $(tr '\\n' ' ' <"$last")" >>"$TOLD" ;;
    *"-e "*) echo fleet >>"$TOLD" ;;
esac
"""


@pytest.fixture
def prepare(tmp_path):
    """`prepare_environment` with an argument, over an interpreter that says what it installs."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    shutil.copy(ROOT / "scripts" / "environment", scripts)
    (scripts / "any").write_text('. "$(dirname -- "$0")/environment"\nprepare_environment $1\n')
    (tmp_path / "requirements.lock").write_text("a\n# What its tests and checks need besides.\nb\n")
    (tmp_path / "pyproject.toml").touch()
    interpreter, told = tmp_path / "interpreter", tmp_path / "told"
    interpreter.write_text(INTERPRETER)
    interpreter.chmod(0o755)

    def prepare(part=""):
        told.write_text("")
        variables = {"PATH": os.environ["PATH"], "PYTHON": str(interpreter), "TOLD": str(told)}
        subprocess.run(["sh", scripts / "any", part], check=True, env=variables)
        return told.read_text().splitlines()

    prepare.root = tmp_path
    return prepare


RUN = ["packages of a ", "fleet"]
ALL = ["packages of a # What its tests and checks need besides. b ", "fleet"]


def test_the_demo_needs_less_than_the_tests_and_is_done_with_what_they_have(prepare):
    assert prepare("run") == RUN
    assert prepare("run") == []
    assert prepare() == ALL
    assert prepare() == prepare("run") == []


@pytest.mark.parametrize("change", ["requirements.lock", "pyproject.toml"])
def test_what_is_locked_anew_is_installed_anew(prepare, change):
    assert prepare() == ALL
    with (prepare.root / change).open("a") as file:
        file.write("\n")
    assert [each.strip() for each in prepare("run")] == ["packages of a", "fleet"]
    assert [each.strip() for each in prepare()] == [each.strip() for each in ALL]
    shutil.rmtree(prepare.root / ".venv")
    assert prepare("run") != []


def test_the_demo_and_the_testbed_ask_for_no_more_than_they_need():
    asks = {path.name: re.findall(r"^prepare_environment *(.*)$", path.read_text(), re.MULTILINE)
            for path in SCRIPTS if not path.name.endswith("environment")}  # fmt: skip
    assert {name for name, found in asks.items() if found == ["run"]} == {"demo", "testbed"}
    assert {name for name, found in asks.items() if found == [""]} >= {"check", "test", "run"}


def test_the_placement_bench_says_at_once_which_traces_are_not_there(tmp_path):
    bench = ROOT / "tests" / "bench" / "bench_placement.py"
    done = subprocess.run(
        [sys.executable, str(bench), "--quick"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "FLEET_TRACES": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert f"not in {tmp_path}; set FLEET_TRACES" in done.stderr
    assert "--part gangs" in done.stderr
    assert "--part nodes" not in done.stderr
