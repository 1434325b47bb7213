"""Where the demo keeps its state: a directory of its own, or a word on why not."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from fleet.errors import TestbedError
from fleet.testbed.demo.stage import play
from fleet.testbed.demo.telling import Teller

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_directory_of_an_earlier_demo_is_not_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with pytest.raises(TestbedError, match=r"an earlier demo.*another with --directory, or remove"):
        await play(Teller(io.StringIO()), directory=tmp_path)


async def test_what_is_no_directory_is_told_by_the_option_of_the_demo(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TestbedError, match=r"cannot be used: Not a directory; .*--directory"):
        await play(Teller(io.StringIO()), directory=tmp_path / "file" / "below")
