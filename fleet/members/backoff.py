"""Growing, jittered waits between attempts; the randomness is passed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


class Backoff:
    """`base_s`, doubled for every attempt up to `cap_s`, times a random factor in [0.5, 1)."""

    __slots__ = ("_attempts", "_base_s", "_cap_s", "_random")

    def __init__(self, *, random: Random, base_s: float, cap_s: float) -> None:
        self._random = random
        self._base_s = base_s
        self._cap_s = cap_s
        self._attempts = 0

    def next_s(self) -> float:
        """How long to wait before the next attempt."""
        grown_s: float = min(self._base_s * 2 ** min(self._attempts, 32), self._cap_s)
        self._attempts += 1
        return grown_s * (0.5 + self._random.random() / 2)

    def reset(self) -> None:
        """An attempt succeeded: the next wait is short again."""
        self._attempts = 0
