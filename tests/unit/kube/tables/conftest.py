"""One clock for all tables: objects say how long ago something was, cells are read at NOW_S."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from fleet.kube.tables import printer_for

if TYPE_CHECKING:
    from collections.abc import Callable

NOW_S = 1_800_000_000.5


@pytest.fixture
def now_s() -> float:
    return NOW_S


@pytest.fixture
def ago() -> Callable[[float], str]:
    """The RFC 3339 time so many seconds ago."""

    def at(seconds: float) -> str:
        return datetime.fromtimestamp(int(NOW_S) - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    return at


@pytest.fixture
def cells(now_s: float) -> Callable[..., list[Any]]:
    """The cells of `obj` as `resource` of `group` prints it."""

    def render(group: str, resource: str, obj: dict[str, Any]) -> list[Any]:
        row = printer_for(group=group, resource=resource).row(obj)
        decoded: list[Any] = orjson.loads(row.cells(now_s))
        return decoded

    return render
