"""What the usual work can no longer use of a machine, in thousandths of devices.

A device is stranded for a kind of pod if the machine cannot take one more such pod at all, or if
too little is left of that device for it. Over the mix of work this is an expectation; it is kept as
an integer, multiplied by `Mix.weight`, so that sums and comparisons are exact.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.scheduling.nodelevel.machines import Request

TYPICAL: Final = 95
"""Per cent of the work that the most frequent kinds have to make up; rare ones do not count."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Pods that take the same of the devices. `cores` ascends; `pods[i]` of them need no more
    than the i lowest."""

    devices: int
    share: int
    cores: Sequence[int]
    pods: Sequence[int]


@dataclass(frozen=True, slots=True)
class Mix:
    """How often each kind of pod is asked for."""

    kinds: tuple[_Kind, ...]
    weight: int
    """What an expectation is multiplied by."""
    _known: dict[tuple[int, tuple[int, ...]], int] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def of(cls, requests: Iterable[Request], *, typical: int = TYPICAL) -> Mix:
        """The mix of requests seen so far, in any order."""
        counted = Counter((each.devices, each.share, each.cpu) for each in requests)
        total, kept = sum(counted.values()), 0
        chosen: dict[tuple[int, int], Counter[int]] = {}
        for (devices, share, cpu), count in sorted(
            counted.items(), key=lambda item: (-item[1], item[0])
        ):
            if kept * 100 >= typical * total:
                break
            kept += count
            chosen.setdefault((devices, share), Counter())[cpu] += count
        kinds = (_kind(devices, share, cores) for (devices, share), cores in sorted(chosen.items()))
        return cls(tuple(kinds), kept)

    def stranded(self, cpu: int, left: tuple[int, ...]) -> int:
        """Of a machine with so much left of its cores and its devices. Times `weight`."""
        ordered = tuple(sorted(left))
        known = self._known.get((cpu, ordered))
        if known is None:
            known = self._known[cpu, ordered] = self._count(cpu, ordered)
        return known

    def _count(self, cpu: int, left: tuple[int, ...]) -> int:
        everything, found = sum(left), 0
        if not everything:
            return 0
        for kind in self.kinds:
            pods = kind.pods[-1]
            too_small = bisect_left(left, kind.share)
            if not kind.devices or len(left) - too_small < kind.devices:
                found += pods * everything  # work without devices has no use for them either
                continue
            fitting = kind.pods[bisect_right(kind.cores, cpu)]
            found += fitting * sum(left[:too_small]) + (pods - fitting) * everything
        return found


def _kind(devices: int, share: int, cores: Counter[int]) -> _Kind:
    ascending = sorted(cores)
    pods = (0, *accumulate(cores[each] for each in ascending))
    return _Kind(devices, share, tuple(ascending), pods)
