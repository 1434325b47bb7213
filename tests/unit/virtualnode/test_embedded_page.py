"""docs/embedded-members.md names every resource that an embedded member serves, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from adapters.process.runtime import ISOLATION
from virtualnode.resources import ALL

PAGE = Path(__file__).parents[3].joinpath("docs/embedded-members.md").read_text("utf-8")


def test_the_table_is_what_is_served():
    table = PAGE.partition("## What it serves")[2].partition("## ")[0]
    named = {
        name
        for line in table.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([a-z0-9.]+)`", line.split("|")[1])
    }
    assert named == {row.gvr.group_resource for row in ALL}


def test_it_says_clearly_that_there_is_no_isolation():
    assert "**There is no isolation.**" in PAGE
    assert ISOLATION.startswith("none:")
