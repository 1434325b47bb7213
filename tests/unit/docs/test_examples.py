"""The examples are listed, and the README shows one as it lies there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def quantities(node: object, field: str = "") -> Iterator[tuple[str, object]]:
    """What resources are asked for anywhere in an object."""
    if isinstance(node, list):
        for each in node:
            yield from quantities(each, field)
    elif isinstance(node, dict):
        for name, value in node.items():
            if field in ("limits", "requests", "allocatable", "shape"):
                yield name, value
            yield from quantities(value, name)


def test_quantities_are_texts_so_that_what_is_applied_again_is_unchanged() -> None:
    """kubectl compares what it sends with what it gets: `1` is not `"1"`, to any API server."""
    texts = [path.read_text() for path in EXAMPLES.rglob("*.yaml")]
    for page in (ROOT / "README.md", *EXAMPLES.rglob("*.md"), *(ROOT / "docs").rglob("*.md")):
        texts += re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    found = [
        each for text in texts for document in yaml.safe_load_all(text)
        for each in quantities(document)
    ]  # fmt: skip
    assert len(found) > 10
    assert [each for each in found if not isinstance(each[1], str)] == []


STORIES = sorted(
    path.parent for path in EXAMPLES.glob("*/README.md") if "```console" in path.read_text()
)


REFUSED = {"fleetquota/speech"}
"""What a story shows to be refused is not there to be taken away."""


def shared_names(story: Path) -> set[str]:
    """The objects of a story that are in no namespace: `fleetquota/nlp`."""
    found = {
        f"{each['kind'].lower()}/{each['metadata']['name']}"
        for path in story.glob("*.yaml")
        for each in yaml.safe_load_all(path.read_text())
        if "namespace" not in each["metadata"]
    }
    return found - REFUSED


def test_stories_can_be_played_one_after_the_other() -> None:
    seen: set[str] = set()
    for story in STORIES:
        names = shared_names(story)
        assert names
        assert not names & seen, story
        seen |= names


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.name)
def test_a_story_ends_with_one_command_that_takes_everything_away(story: Path) -> None:
    page = (story / "README.md").read_text()
    block = re.findall(r"```console\n(.*?)```", page, re.DOTALL)[-1]
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) == 1
    assert commands[0].startswith("$ kubectl delete ")
    assert set(commands[0].split()[3:]) == shared_names(story)
