"""The list of the fleet's labels and annotations has them all, and none that is not in use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.gateway import keys
from fleet.gateway.keys import ANNOTATIONS, ELSEWHERE, LABELS, MADE

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
KEY = re.compile(r"""["'](fleet\.dev/[a-z][a-z-]*)["']""")
LIST = ROOT / "fleet" / "gateway" / "keys.py"

OTHERS = {
    "fleet.dev/dispatch": "a finalizer",
    "fleet.dev/caller": "an extra field of a user",
    "fleet.dev/lent-to": "a taint",
    "fleet.dev/managed": "an extension of kubeconfigs",
}


def in_use() -> Iterator[str]:
    for package in ("adapters", "fleet", "policies", "virtualnode"):
        for file in (ROOT / package).rglob("*.py"):
            if file != LIST:
                yield from KEY.findall(file.read_text())


def test_each_key_in_use_is_listed_once_and_each_that_is_listed_is_in_use() -> None:
    listed = [*LABELS, *ANNOTATIONS, *MADE, *ELSEWHERE, *OTHERS]
    assert len(listed) == len(set(listed))
    assert {*in_use()} == {*listed}


def test_they_are_all_of_one_domain() -> None:
    assert all(each.startswith(keys.DOMAIN) for each in {*LABELS, *ANNOTATIONS, *MADE, *ELSEWHERE})
