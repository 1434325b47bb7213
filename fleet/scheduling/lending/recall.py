"""Who gives back, when a donor is short of what it keeps.

In the policy's order – what is past its first term, what loses least work, what has the lowest
priority – then the youngest. Of those taken in that order, each that turns out dispensable is
kept, the last first; so whole gangs go, and none for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fleet.scheduling.lending.loans import Loan
    from fleet.scheduling.lending.terms import Terms


@dataclass(frozen=True, slots=True)
class Borrowed:
    """A loan, and what calling it back would cost."""

    loan: Loan
    priority: int
    lost: float
    """Size of the whole gang times the time that it loses if nothing is saved within the
    notice."""
    leaves: bool = False
    """It was called back already, or goes for somebody else."""


def in_order(out: Iterable[Borrowed], terms: Terms, now: float) -> list[Borrowed]:
    def rank(each: Borrowed) -> tuple[float, ...]:
        steps: Mapping[str, float] = {
            "Expired": not each.loan.is_expired(now),
            "CheapestCheckpoint": each.lost,
            "LowestPriority": each.priority,
        }
        return tuple(steps[step] for step in terms.recall_order)

    return sorted(out, key=lambda each: (rank(each), -each.loan.since_s, each.loan.uid))


def fewest(
    ordered: Sequence[Borrowed], short: Callable[[Sequence[Borrowed]], int]
) -> list[Borrowed]:
    """The first in order after which as little is short as if all were gone.

    `short` says how much is missing without some of them.
    """
    if not short(()):
        return []  # most of the time, and all loans need not be looked at
    target = short(ordered)
    gone: list[Borrowed] = []
    for each in ordered:
        if short(gone) <= target:
            break
        gone.append(each)
    for each in gone[::-1]:
        rest = [other for other in gone if other is not each]
        if short(rest) <= target:
            gone = rest
    return gone
