"""The README tells the story that the demo tells."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
STORY = ROOT / "fleet" / "testbed" / "demo"


def told() -> list[str]:
    readme = (ROOT / "README.md").read_text()
    block = readme.partition("<!-- story")[2].partition("<!-- end of story")[0]
    return re.findall(r"^▸ (.*?) +✓", block, re.MULTILINE)


def steps() -> list[str]:
    """The texts of all steps, in order; what is filled in at run time as a pattern."""
    found = []
    for name in ("stage.py", "story.py"):
        for node in ast.walk(ast.parse((STORY / name).read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "step":
                (text,) = node.args
                if isinstance(text, ast.Constant):
                    found.append((node.lineno, re.escape(str(text.value))))
                elif isinstance(text, ast.JoinedStr):
                    parts = [
                        re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+"
                        for part in text.values
                    ]
                    found.append((node.lineno, "".join(parts)))
    return [text for _, text in found]


def test_every_step_is_in_the_readme_and_none_besides() -> None:
    lines, patterns = told(), steps()
    assert lines
    for pattern in patterns:
        assert any(re.fullmatch(pattern, line) for line in lines), pattern
    for line in lines:
        assert any(re.fullmatch(pattern, line) for pattern in patterns), line
