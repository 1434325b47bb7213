"""The kernel answers as a kube-apiserver did: every request of requests.yaml and of
definitions.yaml, in order.

answers.json was recorded from a real server (tests/e2e/test_kernel_differential.py keeps it true).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType


async def compare(harness: ModuleType, api: Any, file: str) -> None:
    recorded = json.loads(harness.RECORDED.read_text())
    report: list[str] = []
    run = harness.Run(api.send)
    for name, steps in harness.groups(file).items():
        assert len(recorded[name]) == len(steps), "record the answers anew"
        for number, (step, theirs) in enumerate(zip(steps, recorded[name], strict=True)):
            ours = (await run.take(step))[1]
            if step.differs:
                ours, theirs = ({"fine": a["status"] < 400} for a in (ours, theirs))
            found = list(harness.differences(ours, theirs))
            if found:
                report += [f"{name} {number}: {step}", *(f"    {line}" for line in found)]
    if report:
        pytest.fail("\n".join(report), pytrace=False)


async def test_every_answer_is_that_of_a_real_server(harness: ModuleType) -> None:
    async with harness.serving() as api:
        await compare(harness, api, harness.PLAIN)


async def test_every_answer_about_a_defined_kind_is_that_of_a_real_server(
    harness: ModuleType,
) -> None:
    async with harness.serving() as api, harness.controlled(api):
        await compare(harness, api, harness.CONTROLLED)
