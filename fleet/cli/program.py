"""How this program is called in the shell that it was called from.

Hints name it `fleet`. A shell may know it under no such name – a checkout's scripts put it on the
PATH of their own – or know another program by it; a hint must work when it is pasted all the same.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

CALLERS_PATH: Final = "FLEET_CALLERS_PATH"
"""The PATH of the shell, where a script has put something before it."""

_HINT: Final = re.compile(r"(?:(?<=`)|(?<= {2}))fleet(?= [a-z])")


def callers_path(environment: Mapping[str, str] = os.environ) -> str | None:
    """The PATH of the shell that called."""
    return environment.get(CALLERS_PATH) or environment.get("PATH")


def command(environment: Mapping[str, str] = os.environ, called_as: str | None = None) -> str:
    """`fleet`, or what has to be typed instead of it."""
    own = _own(Path(sys.argv[0] if called_as is None else called_as))
    known = shutil.which("fleet", path=callers_path(environment))
    if own is None:
        return "fleet" if known else f"{shlex.quote(sys.executable)} -m fleet.cli.main"
    if known and Path(known).samefile(own):
        return "fleet"
    return shlex.quote(str(own))


def _own(called_as: Path) -> Path | None:
    """The program `fleet` that belongs to this installation."""
    for folder in (called_as.absolute().parent, Path(sys.executable).parent):
        if (found := folder / "fleet").is_file():
            return found
    return None


def pasteable(text: str) -> str:
    """The text with every command in it – in backticks, or two spaces from what is before it – as
    it has to be typed here."""
    if not _HINT.search(text):
        return text
    typed = command()
    return _HINT.sub(lambda _: typed, text)
