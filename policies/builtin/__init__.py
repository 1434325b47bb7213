"""The policies that every fleet has from its first start, as files; the gateway stores them once.

What a user changes in them afterwards stays changed.
"""

from __future__ import annotations

import copy
from functools import cache
from importlib import resources
from typing import Any

import yaml

Object = dict[str, Any]


@cache
def _read() -> tuple[Object, ...]:
    files = resources.files(__package__).iterdir()
    names = sorted(each.name for each in files if each.name.endswith(".yaml"))
    return tuple(
        yaml.safe_load(resources.files(__package__).joinpath(name).read_text()) for name in names
    )


def objects() -> tuple[Object, ...]:
    """Fresh copies, as a user would have written them: defaults not filled in."""
    return copy.deepcopy(_read())
