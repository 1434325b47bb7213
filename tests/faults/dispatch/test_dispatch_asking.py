"""A workload that found no place is asked about again as soon as its user changes what it asks for.

Run with the controller itself, over a view without members.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from fleet.dispatch.controller import Dispatch
from fleet.dispatch.parts import Parts
from fleet.dispatch.planning import Answer, Answered

FLEET = "f1ee7000-0000-4000-8000-000000000000"
NOBODY = SimpleNamespace(
    members={}, merged=lambda gvr: None, running=lambda gvr: None, projector=lambda *_: None
)


class Refusing:
    """A planner that has room for nothing; `asked` gets each workload as it was asked about."""

    def __init__(self) -> None:
        self.asked = asyncio.Queue()
        self.saving = False

    async def round(self, questions, *, barred):
        for question in questions:
            self.asked.put_nowait(question.workload)
            status = {**(question.placement.get("status") or {}), "message": "no room"}
            yield Answered(question, Answer(question.placement["spec"], status, placed=False))

    def next_s(self):
        return None

    def lets_save(self):
        return self.saving


def shrink(job):
    job["spec"].update(parallelism=2, completions=2)


def name_a_policy(job):
    job["metadata"].setdefault("labels", {})["fleet.dev/policy"] = "wide"


@pytest.mark.parametrize("change", [shrink, name_a_policy])
async def test_what_its_user_changes_is_asked_about_anew(fleet, change):
    planner = Refusing()
    dispatch = Dispatch(
        fleet.store, NOBODY, parts=Parts(fleet=FLEET), planner=planner, bill=fleet.bills,
        neighbours=fleet,
        fleet=FLEET, uid=lambda: "u", now=fleet.clock,
    )  # fmt: skip
    await fleet.run_job(ranks=9)
    running = asyncio.create_task(dispatch.run())
    async with asyncio.timeout(60):
        first = await planner.asked.get()
        await fleet.change_job("train", change)
        changed = fleet.job()
        while (asked := await planner.asked.get())["spec"] == first["spec"] and (
            asked["metadata"].get("labels") == first["metadata"].get("labels")
        ):
            pass
    assert asked["spec"] == changed["spec"]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def save(job):
    job["metadata"].setdefault("annotations", {})["fleet.dev/checkpointed-at"] = (
        "2026-11-29T06:00:00Z"
    )


async def test_that_it_saved_is_news_where_others_wait_for_it(fleet):
    planner = Refusing()
    planner.saving = True
    dispatch = Dispatch(
        fleet.store, NOBODY, parts=Parts(fleet=FLEET), planner=planner, bill=fleet.bills,
        neighbours=fleet,
        fleet=FLEET, uid=lambda: "u", now=fleet.clock,
    )  # fmt: skip
    await fleet.run_job(ranks=9)
    running = asyncio.create_task(dispatch.run())
    async with asyncio.timeout(60):
        await planner.asked.get()
        await fleet.change_job("train", save)
        while "annotations" not in (await planner.asked.get())["metadata"]:
            pass
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
