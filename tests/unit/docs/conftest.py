"""Pages of the documentation, read as what a test can compare: tables by heading, words in code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown page."""

    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    def section(self, heading: str) -> str:
        """What stands below a heading, up to the next one of its rank or above."""
        level = heading.partition(" ")[0]
        pattern = rf"^{re.escape(heading)}$\n(.*?)(?=^#{{1,{len(level)}}} |\Z)"
        found = re.search(pattern, self.text, re.M | re.S)
        assert found, f"{self.path.name} has no heading {heading!r}"
        return found[1]

    def rows(self, heading: str = "") -> list[dict[str, str]]:
        """The rows of all tables in a section (or the page), by the names of their columns."""
        lines = (self.section(heading) if heading else self.text).splitlines()
        found: list[dict[str, str]] = []
        names: list[str] = []
        for before, line in zip(["", *lines], lines, strict=False):
            if not line.startswith("|"):
                names = []
            elif not names:
                names = _cells(line)
                assert not before.startswith("|"), line
            elif not re.fullmatch(r"[|\s:-]+", line):
                cells = _cells(line)
                assert len(cells) == len(names), f"{self.path.name}: {line}"
                found.append(dict(zip(names, cells, strict=True)))
        assert found, f"{self.path.name} has no table under {heading!r}"
        return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def code_in(text: str) -> list[str]:
    """The words set in code."""
    return _CODE.findall(text)


@pytest.fixture
def page():
    """`page("metrics.md")`: a page of docs/."""
    return lambda name: Page(ROOT / "docs" / name)


@pytest.fixture
def code():
    return code_in


@pytest.fixture
def root() -> Path:
    return ROOT
