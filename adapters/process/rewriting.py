"""Mount paths where nothing can be mounted: put the real folder in their place in texts.

A container that reads `/etc/fleet/peers` is given the path of its volume's folder instead, wherever
the mount path stands as a path in its command, arguments and variables. A path that a program has
built in cannot be reached this way; the documentation says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def rewriter(places: Mapping[str, str]) -> Callable[[str], str]:
    """A function that replaces each path of `places` (and what lies below it) by its real place.

    The longest path wins; a path counts only as a whole: `/data` is not in `/database`, nor in
    `/mnt/data`.
    """
    paths = sorted((path.rstrip("/") for path in places), key=len, reverse=True)
    if not any(paths):
        return lambda text: text
    real = {path.rstrip("/"): place for path, place in places.items()}
    pattern = re.compile(
        r"(?<![\w./~-])("
        + "|".join(re.escape(path) for path in paths if path)
        + r")(?=/|[^\w.-]|$)"
    )
    return lambda text: pattern.sub(lambda match: real[match[1]], text)
