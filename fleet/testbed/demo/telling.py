"""Printing a story step by step, with what was found out."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from fleet.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WIDTH = 62


class Untrue(FleetError):
    """Something the story claims is not so."""


class Step:
    """A step under way: `say` adds what to print behind its mark, `check` what must be so."""

    def __init__(self) -> None:
        self.found = ""
        self.lines: list[str] = []

    def say(self, found: str) -> None:
        self.found = found

    def line(self, text: str) -> None:
        """A line of its own below the step."""
        self.lines.append(text)

    @staticmethod
    def check(is_so: object, otherwise: str) -> None:
        """Raises Untrue with `otherwise` unless `is_so`."""
        if not is_so:
            raise Untrue(otherwise)


class Teller:
    """Prints steps to `out`; on a terminal the step under way is shown."""

    def __init__(self, out: TextIO = sys.stdout, *, as_typed: Callable[[str], str] = str) -> None:
        """`as_typed` makes the commands in a note what has to be typed here."""
        self._out = out
        self._as_typed = as_typed
        self.finished = False
        """Whether all was told that there was to tell."""
        self._started_s = time.monotonic()

    @contextmanager
    def step(self, text: str) -> Iterator[Step]:
        """One step; ✓ when its block ends, ✗ and the reason when it raises."""
        told = Step()
        began_s = time.monotonic()
        if self._out.isatty():
            self._write(f"▸ {text} …\r")
        try:
            yield told
        except BaseException as error:
            interrupted = isinstance(error, asyncio.CancelledError)
            why = "interrupted" if interrupted else str(error) or type(error).__name__
            self._write(f"▸ {text:{WIDTH}} ✗ {why}\n")
            raise
        found = told.found or f"{time.monotonic() - began_s:.1f} s"
        self._write(f"▸ {text:{WIDTH}} ✓ {found}\n")
        for line in told.lines:
            self._write(f"    {line}\n")

    def note(self, text: str) -> None:
        self._write(f"{self._as_typed(text)}\n")

    def end(self) -> None:
        self.finished = True
        self._write(f"The end, after {time.monotonic() - self._started_s:.0f} s.\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
