"""The examples are listed, and the README shows one as it lies there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
README = (ROOT / "README.md").read_text()


def test_the_gang_of_the_readme_is_the_example() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    example = "".join(
        line
        for line in (EXAMPLES / "gang.yaml").read_text().splitlines(keepends=True)
        if not line.startswith("#")
    )
    assert example in blocks


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.iterdir():
        if path.name not in ("README.md", "__pycache__"):
            assert f"[{path.name}](" in listed, path


def test_the_readme_names_them() -> None:
    assert "(examples/README.md)" in README
    assert "-f examples/gang.yaml" in README
