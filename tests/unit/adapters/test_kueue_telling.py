"""Events of the dispatcher: best effort, and no more than that."""

from __future__ import annotations

import asyncio
import logging

import orjson
import pytest

from adapters.kueue.objects import Workload
from adapters.kueue.telling import Telling
from fleet.errors import Forbidden, TransportError


class Fleet:
    """A manager that answers the first event with `error`, and takes all others."""

    def __init__(self, error: Exception) -> None:
        self._error: Exception | None = error
        self.written: asyncio.Queue[str] = asyncio.Queue()

    async def call(self, member, request):
        error, self._error = self._error, None
        if error is not None:
            raise error
        self.written.put_nowait(orjson.loads(request.body)["reason"])
        return {}


@pytest.mark.parametrize(
    ("error", "fault"),
    [(TransportError("away"), False), (Forbidden("no"), False), (RuntimeError("a fault"), True)],
    ids=["no-answer", "refused", "fault"],
)
async def test_an_event_that_cannot_be_written_is_let_go_and_the_next_is_written(
    error, fault, caplog
):
    fleet = Fleet(error)
    telling = Telling(fleet, clock=lambda: 0.0, now=lambda: 0.0)
    for uid, reason in (("a", "Lost"), ("b", "Kept")):
        told = Workload("payments", "train", uid, 1)
        telling.tell("manager", told, "Normal", reason, "because")
    task = asyncio.create_task(telling.run(), name="events")
    async with asyncio.timeout(30):
        assert await fleet.written.get() == "Kept"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert any(each.levelno == logging.ERROR for each in caplog.records) == fault
