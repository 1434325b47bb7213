"""What the gateway does by itself while it runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fleet import app

if TYPE_CHECKING:
    import pytest


async def test_a_renewal_that_fails_is_tried_again_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    renewed = asyncio.Event()
    failures = [OSError("the disk is full"), ValueError("no certificate")]

    async def renew() -> None:
        if failures:
            raise failures.pop()
        renewed.set()

    renewing = asyncio.create_task(app._renewing(renew, every_s=0))
    await asyncio.wait(
        {renewing, asyncio.create_task(renewed.wait())}, return_when="FIRST_COMPLETED"
    )
    assert not renewing.done()
    renewing.cancel()
    assert "the disk is full" in caplog.text
