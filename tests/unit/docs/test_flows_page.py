"""docs/flows.md names modules that exist, each of a flow's steps once."""

from __future__ import annotations

import re
from collections import Counter

import pytest

MODULE = re.compile(r"\b(?:fleet|adapters|virtualnode|policies)/[\w/]*(?:\.py)?")
FLOWS = ("## Read", "## Write", "## Placement → hold → commit")


def test_every_module_that_is_named_exists(page, root):
    named = MODULE.findall(page("flows.md").text)
    assert len(named) > 30
    assert [name for name in named if not (root / name).exists()] == []


@pytest.mark.parametrize("flow", FLOWS)
def test_a_flow_is_a_picture_with_one_module_per_step_and_its_invariants(flow, page):
    _, picture, prose = page("flows.md").section(flow).split("```")
    steps = Counter(name for name in MODULE.findall(picture))
    assert len(steps) > 5
    assert [name for name, times in steps.items() if times > 1] == []
    assert prose.count("\n- ") >= 4
