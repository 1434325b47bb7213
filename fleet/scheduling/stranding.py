"""What a choice of blocks leaves behind that the jobs to come could not use.

A block with 13 free is of little use to jobs in units of 8: 5 are stranded. `stranded` sums that
over the mix of units that is expected, in whole pods; the choice of blocks that adds least to it
wins among choices that cost the same and touch equally many. The idea of fragmentation gradient
descent (USENIX ATC '23), for blocks instead of nodes. `fit` asks.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Mix = tuple[tuple[int, int], ...]
"""(pods that have to sit in one block, weight), for the jobs that are expected."""

NO_MIX: Final[Mix] = ()
POWERS: Final[Mix] = tuple((1 << power, 1) for power in range(1, 8))
"""Units of 2, 4, … 128 pods, equally many of each: what to expect where nothing is known."""

_MOST_SUBSETS: Final = 400


class Place(NamedTuple):
    """A block as a choice: whole units it can take, and pods of the kind free in it."""

    block: str
    units: int
    pods: int


Choice = tuple[tuple[str, int], ...]
"""(block, units)."""


class Losses:
    """What is stranded of any number of pods, for one mix; each number is counted once."""

    __slots__ = ("_known", "_mix")

    def __init__(self, mix: Mix) -> None:
        self._mix = mix
        self._known: list[int] = []

    def __getitem__(self, pods: int) -> int:
        known = self._known
        while pods >= len(known):
            known.append(sum(len(known) % size * weight for size, weight in self._mix))
        return known[pods] if pods >= 0 else 0


@lru_cache(maxsize=64)
def losses(mix: Mix) -> Losses:
    return Losses(mix)


def stranded(pods: int, mix: Mix) -> int:
    return losses(mix)[pods]


def choose(places: Sequence[Place], units: int, *, unit: int, mix: Mix) -> tuple[int, Choice]:
    """What is stranded more afterwards, and which blocks to take: as few as possible.

    `places` come the largest first and together hold `units`. Since they are as few as possible,
    what is left over is less than the smallest of them, and leaving it in one block strands least:
    the choice is the best there is for units of one pod. It is a good one for larger units, and
    where there are more than a few hundred ways to choose so many blocks.
    """
    count, held = 0, 0
    while held < units:
        held += places[count].units
        count += 1
    if not mix:
        return 0, _filled(places[:count], units, count - 1)
    lost = losses(mix)
    before = [lost[place.pods] for place in places]
    rest = [lost[place.pods - place.units * unit] for place in places]
    even = all(place.pods == place.units * unit for place in places)
    best: tuple[int, tuple[int, ...], int] | None = None
    for chosen in _subsets([place.units for place in places], count, units):
        slack = sum(places[at].units for at in chosen) - units
        if slack < 0:
            continue
        added = sum(rest[at] - before[at] for at in chosen)
        if even or not slack:
            # Whichever block keeps what is left over, it is as much.
            added += lost[slack * unit]
            if best is None or added < best[0]:
                best = added, chosen, chosen[-1]
            continue
        for at in chosen:
            place = places[at]
            if place.units > slack:
                more = added - rest[at] + lost[place.pods - (place.units - slack) * unit]
                if best is None or more < best[0]:
                    best = more, chosen, at
    assert best is not None
    added, chosen, last = best
    return added, _filled([places[at] for at in chosen], units, chosen.index(last))


def _subsets(sizes: Sequence[int], count: int, units: int) -> Iterator[tuple[int, ...]]:
    """Positions of so many blocks."""
    if count == 1:
        yield from ((at,) for at, size in enumerate(sizes) if size >= units)
        return
    if comb(len(sizes), count) <= _MOST_SUBSETS:
        yield from combinations(range(len(sizes)), count)
        return
    # The largest but one of them, and any that holds the rest; runs of neighbours besides.
    head = tuple(range(count - 1))
    need = units - sum(sizes[at] for at in head)
    yield from ((*head, at) for at in range(count - 1, len(sizes)) if sizes[at] >= need)
    yield from (tuple(range(at, at + count)) for at in range(1, len(sizes) - count + 1))


def _filled(places: Iterable[Place], units: int, last: int) -> Choice:
    """Every block full but one, which has the rest."""
    chosen = list(places)
    rest = units - sum(place.units for at, place in enumerate(chosen) if at != last)
    return tuple(
        (place.block, rest if at == last else place.units) for at, place in enumerate(chosen)
    )
