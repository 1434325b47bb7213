"""The stories of `examples/` are true: their commands, run as they stand, over the demo's fleet.

In a block marked `console`, a line that begins with `$ ` is run by a shell in the project's root,
and what follows is what it prints: `…` stands for any text, alone on a line for any lines. What
only asks is asked again until the answer is as told.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from fleet.testbed.binaries import binary

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
STORIES = sorted(
    path for path in (ROOT / "examples").glob("*/README.md") if "```console" in path.read_text()
)
ASKS = re.compile(r"kubectl (-n \S+ )?(get|describe|logs|explain)|fleet (quota|cost|explain|plan)")
PATIENCE_S = 90


class Command(NamedTuple):
    line: str
    told: list[str]


def commands(page):
    for block in re.findall(r"^```console\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *told = part.rstrip("\n").split("\n")
            yield Command(line, told)


def pattern(told):
    """What the lines match; runs of blanks are as wide as they happen to be."""
    found = ""
    for line in told:
        if line == "…":
            found += r"(?:.*\n)*?"
        else:
            words = re.split(r" {2,}", line.rstrip())
            texts = [".*".join(map(re.escape, word.split("…"))) for word in words]
            found += r" {2,}".join(texts) + r" *\n"
    return re.compile(found)


class Shell:
    """Runs what a story says, as its reader would."""

    def __init__(self, home, kubeconfig):
        kubectl = binary("kubectl", version="1.36")
        path = f"{Path(sys.executable).parent}:{kubectl.parent}:{os.environ['PATH']}"
        self.environment = {"PATH": path, "HOME": str(home), "KUBECONFIG": str(kubeconfig)}

    def run(self, command):
        ran = subprocess.run(
            command.line, shell=True, cwd=ROOT, env=self.environment, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return ran.stdout

    def hold_true(self, command):
        deadline = time.monotonic() + PATIENCE_S
        told = pattern(command.told)
        while not told.fullmatch(said := self.run(command)):
            asks = ASKS.match(command.line) and time.monotonic() < deadline
            wanted = "\n".join(command.told)
            assert asks, f"$ {command.line}\n{said}\nis not as the story tells:\n{wanted}"
            time.sleep(0.3)


@pytest.fixture
def shell(tmp_path):
    fleet = subprocess.Popen(
        [Path(sys.executable).with_name("fleet"), "demo", "--no-story", "--directory", tmp_path],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={
            "HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"
        },
    )  # fmt: skip
    said = []
    try:
        assert fleet.stdout is not None
        for line in fleet.stdout:
            said.append(line)
            if "until you press" in line:
                break
        assert "until you press" in "".join(said[-1:]), said
        yield Shell(tmp_path, tmp_path / "fleet.kubeconfig")
    finally:
        fleet.send_signal(signal.SIGINT)
        fleet.communicate(timeout=60)


@pytest.mark.parametrize("page", [pytest.param(path, id=path.parent.name) for path in STORIES])
def test_a_story_is_true(shell, page):
    told = list(commands(page.read_text(encoding="utf-8")))
    assert told
    for command in told:
        shell.hold_true(command)


def test_there_are_the_stories_that_are_promised():
    assert {path.parent.name for path in STORIES} >= {"cost", "lending", "quota"}


def test_what_a_story_tells_is_compared():
    told = pattern(["NAME   AGE", "a      …s", "…", "end"])
    assert told.fullmatch("NAME     AGE\na   12s   \nmore\nend\n")
    assert told.fullmatch("NAME   AGE\na      3s\nend\n")
    assert not told.fullmatch("NAME   AGE\nb      3s\nend\n")
    assert not told.fullmatch("NAME   AGE\na      3s\nend\nmore\n")
