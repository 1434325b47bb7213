"""The testbed's folder beside the gateway's state."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from fleet.gateway.state import StateDirectory
from fleet.testbed.locking import locked

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_gateway_starts_on_a_home_where_the_testbed_was_first(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        lock = tmp_path / "state" / "fleet" / "testbed" / "lock"
        async with locked(lock, waiting="", tell=print):
            pass
    finally:
        os.umask(before)
    shared = tmp_path / "state" / "fleet"
    assert stat.S_IMODE(shared.stat().st_mode) == 0o700
    StateDirectory.open(shared).close()
