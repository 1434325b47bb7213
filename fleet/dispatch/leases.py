"""How long each shard may run on without hearing from the fleet, by the fleet's own clock.

A member keeps the lease itself: the deadline of the shard. What is kept here is when that
deadline comes at the latest, given everything that was sent, answered or not. Nothing is stored: of
a shard that was not seen since the start, the one before may have renewed until that moment.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.dispatch.sight import ShardView

# Deadlines and a Job's start are whole seconds, and so is the time a member tells.
_ROUNDING_S = 2.0


class ShardKey(NamedTuple):
    """A shard's object in one member."""

    cluster: str
    kind: str
    namespace: str
    name: str


class Leases:
    """When shards end by themselves at the latest."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._born = now()
        self._until: dict[ShardKey, float] = {}

    def until(self, key: ShardKey, *, lease_s: float) -> float:
        """Seconds since the epoch. `lease_s` is what may have been given before this start."""
        return self._until.get(key, self._born + lease_s + _ROUNDING_S)

    def granted(self, key: ShardKey, seconds: float) -> None:
        """A deadline so far ahead is about to be sent."""
        self._raise(key, self.now() + seconds + _ROUNDING_S)

    def seen(self, key: ShardKey, left_s: float | None) -> None:
        """The member has a deadline so far ahead; None where it has not begun to count."""
        if left_s is not None:
            self._raise(key, self.now() + left_s + _ROUNDING_S)

    def forget(self, key: ShardKey) -> None:
        """The shard is gone."""
        self._until.pop(key, None)

    def _raise(self, key: ShardKey, until: float) -> None:
        self._until[key] = max(until, self._until.get(key, until))


def deadline_s(view: ShardView, *, clock: float, seconds: float) -> int:
    """The deadline that lets a shard run for `seconds` from now; it counts from the shard's start,
    and `clock` is what time the member has."""
    elapsed_s = 0.0 if view.started_at is None else max(clock - view.started_at, 0.0)
    return math.ceil(elapsed_s + seconds)
