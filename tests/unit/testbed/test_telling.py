"""Steps of a story as they are printed: what was found, or what kept it from being so."""

from __future__ import annotations

import asyncio
import io

import pytest

from fleet.testbed.demo.telling import Teller, Untrue


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (Untrue("five of six"), "five of six"),
        (asyncio.CancelledError(), "interrupted"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_a_step_that_ends_early_says_why(error: BaseException, why: str) -> None:
    out = io.StringIO()
    with pytest.raises(type(error)), Teller(out).step("all six ranks"):
        raise error
    assert out.getvalue().split("✗ ")[1] == f"{why}\n"


def test_commands_in_a_note_are_as_they_have_to_be_typed() -> None:
    out = io.StringIO()
    Teller(out, as_typed=lambda text: text.replace("fleet", "/v/fleet")).note("  fleet run")
    assert out.getvalue() == "  /v/fleet run\n"
