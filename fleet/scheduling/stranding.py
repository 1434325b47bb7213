"""What a choice of blocks leaves behind that the jobs to come could not use.

A block with 13 free is of little use to jobs in units of 8: 5 are stranded. `stranded` sums that
over the mix of units that is expected, in whole pods; the choice of blocks that adds least to it
wins among choices that cost the same and touch equally many. The idea of fragmentation gradient
descent (USENIX ATC '23), for blocks instead of nodes. `fit` asks.
"""

from __future__ import annotations

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


def stranded(pods: int, mix: Mix) -> int:
    return sum(pods % size * weight for size, weight in mix)


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
    best: tuple[int, Choice] | None = None
    for chosen in _subsets(places, count, units):
        slack = sum(place.units for place in chosen) - units
        if slack < 0:
            continue
        before = sum(stranded(place.pods, mix) for place in chosen)
        rest = [stranded(place.pods - place.units * unit, mix) for place in chosen]
        for last, place in enumerate(chosen):
            taken = place.units - slack
            after = sum(rest) - rest[last] + stranded(place.pods - taken * unit, mix)
            if taken > 0 and (best is None or after - before < best[0]):
                best = after - before, _filled(chosen, units, last)
            if not slack:
                break
    assert best is not None
    return best


def _subsets(places: Sequence[Place], count: int, units: int) -> Iterator[tuple[Place, ...]]:
    if comb(len(places), count) <= _MOST_SUBSETS:
        yield from combinations(places, count)
        return
    # The largest but one of them, and any that holds the rest; runs of neighbours besides.
    head = tuple(places[: count - 1])
    need = units - sum(place.units for place in head)
    yield from ((*head, place) for place in places[count - 1 :] if place.units >= need)
    yield from (tuple(places[at : at + count]) for at in range(1, len(places) - count + 1))


def _filled(places: Iterable[Place], units: int, last: int) -> Choice:
    """Every block full but one, which has the rest."""
    chosen = list(places)
    rest = units - sum(place.units for at, place in enumerate(chosen) if at != last)
    return tuple(
        (place.block, rest if at == last else place.units) for at, place in enumerate(chosen)
    )
