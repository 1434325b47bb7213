"""The page on removal names everything that the commands of `fleet leave` remove."""

from __future__ import annotations

from pathlib import Path

from fleet.dispatch import marks, ranks, remains, shape
from fleet.members import binding

PAGE = (Path(__file__).parents[3] / "docs" / "removal.md").read_text()


def test_every_place_on_a_machine_is_on_the_page() -> None:
    for place in (
        "~/.local/state/fleet", "~/.config/fleet", "~/.cache/fleet", "~/go/pkg/mod",
        "~/.cache/go-build", "`.venv`",
    ):  # fmt: skip
        assert place in PAGE, place


def test_every_kind_and_every_known_name_is_on_the_page() -> None:
    for removal in remains.REMOVALS:
        for resource in removal.resources:
            plural = resource.partition(".")[0]
            words = {plural, plural.removesuffix("s"), plural.removesuffix("es")}
            words.add(plural.replace("policies", "policy").removesuffix("s"))
            assert any(word in PAGE.lower() for word in words), resource
    for name in (
        binding.ADMINS,
        binding.DISPATCHER,
        binding.BOUND_ANNOTATION,
        ranks.NAME,
        shape.HOLD_CLASS,
        marks.ACCEPT_LABEL,
        remains.MARK,
    ):
        assert name in PAGE, name
