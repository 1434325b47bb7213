"""Other places that there are for parts whose pods have no node, as the planner said a moment ago.

An opening is no promise: it says that to end the part is not for nothing. It is forgotten soon, and
asked for again as long as the part is stuck. `waiting` puts it, `decisions` acts on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cachetools import TTLCache

if TYPE_CHECKING:
    from collections.abc import Callable

_LASTS_S: Final = 10.0
_REMEMBERED: Final = 4096


class Openings:
    """By workload."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._clusters: TTLCache[str, frozenset[str]] = TTLCache(_REMEMBERED, _LASTS_S, timer=now)

    def put(self, uid: str, clusters: frozenset[str]) -> None:
        """What the workload has in `clusters` would find another place."""
        self._clusters[uid] = clusters

    def of(self, uid: str) -> frozenset[str]:
        """The clusters whose part of the workload would find another place."""
        return self._clusters.get(uid, frozenset())
