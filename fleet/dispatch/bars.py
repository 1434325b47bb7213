"""Clusters that did not hold what was planned, kept out of the next plan of the same workload.

The picture that plans are made of can be wrong for one workload – an affinity, a quota of the
member's own – and would be wrong again at once. A bar falls when something in the cluster changes,
or after a while that grows with each failure. Of what runs elsewhere more is asked: to end it for a
cluster that would turn it out again loses work for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_S: Final = 30.0
_LAST_S: Final = 600.0
_NEVER_AGAIN: Final = 2


@dataclass(frozen=True, slots=True)
class _Bar:
    why: str
    until: float
    failures: int
    up: bool = True


class Bars:
    """By workload and cluster."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._bars: dict[tuple[str, str], _Bar] = {}

    def put(self, uid: str, cluster: str, why: str) -> None:
        """The cluster did not hold a plan of the workload."""
        before = self._bars.get((uid, cluster))
        failures = before.failures + 1 if before else 1
        wait_s = min(_FIRST_S * 2 ** (failures - 1), _LAST_S)
        self._bars[uid, cluster] = _Bar(why, self._now() + wait_s, failures)

    def of(self, uid: str) -> dict[str, str]:
        """Why each cluster that is barred is barred."""
        now = self._now()
        return {
            cluster: bar.why
            for (workload, cluster), bar in self._bars.items()
            if workload == uid and bar.up and bar.until > now
        }

    def lasting(self, uid: str) -> dict[str, str]:
        """Why each cluster is none to end it for where it runs: nothing has changed there since it
        was turned out, or it was turned out again all the same."""
        return {
            cluster: bar.why
            for (workload, cluster), bar in self._bars.items()
            if workload == uid and (bar.up or bar.failures >= _NEVER_AGAIN)
        }

    def next_s(self, uid: str) -> float | None:
        """Seconds until the next bar of the workload falls; None without one."""
        now = self._now()
        left = [
            bar.until - now
            for (workload, _), bar in self._bars.items()
            if workload == uid and bar.up and bar.until > now
        ]
        return min(left, default=None)

    def changed(self, cluster: str, *, by: str = "") -> None:
        """There is room or other rules in the cluster: it may be tried again. What a workload
        (`by`, its UID) let go of itself is no news to it."""
        for key, bar in self._bars.items():
            if key[1] == cluster and key[0] != by and bar.up:
                self._bars[key] = _Bar(bar.why, bar.until, bar.failures, up=False)

    def forget(self, uid: str) -> None:
        """The workload is no more, or runs."""
        for key in [key for key in self._bars if key[0] == uid]:
            del self._bars[key]
