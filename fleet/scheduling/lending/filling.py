"""Who borrows: the gang that uses most of what may be lent and ends inside the term.

Borrowers come in the policy's order. Of one borrower's work, that which declares an end within the
term goes before that which needs its loan renewed or has no end; the latter gets a loan only where
the policy renews. Then what uses most of it, then priority, then who came first.

A gang that its own quota could never hold starts by a loan or not at all. Once it has waited for
the aging bound, no other is lent anything that would be enough for it with what is out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.scheduling.lending.terms import Terms
    from fleet.scheduling.placer import Item
    from fleet.scheduling.quota.tree import Key, Tree

_SCALE: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class Candidate:
    item: Item
    rank: int
    """Place of its quota in the policy's list."""
    short: Mapping[Key, int]
    """What its own quota does not cover."""
    starved: bool = False
    """It has waited too long for what only a loan could give it."""


def in_order(
    candidates: Iterable[Candidate], terms: Terms, rest: Mapping[Key, int], most: Mapping[Key, int]
) -> list[Candidate]:
    """Those that may borrow, the best first. `rest` may be lent yet, `most` if nothing were out."""
    found = [each for each in candidates if terms.renew or _ends_inside(each.item, terms)]
    starved = [each for each in found if each.starved and _covers(most, each.short)]
    if starved:
        found = [min(starved, key=lambda each: (each.item.sequence, each.item.uid))]
    return sorted(
        (each for each in found if _covers(rest, each.short)),
        key=lambda each: (
            each.rank,
            not _ends_inside(each.item, terms),
            -max(amount * _SCALE // rest[key] for key, amount in each.short.items()),
            -each.item.priority,
            each.item.sequence,
            each.item.uid,
        ),
    )


def lenders(item: Item, key: Key, tree: Tree, terms: Iterable[Terms]) -> list[str]:
    """Donors that could lend it of the key, once they leave enough idle."""
    found = []
    for each in terms:
        below = {
            under for name in each.borrowers if name in tree.nodes for under in tree.under(name)
        }
        share = tree.shares.get((each.donor, key))
        if (
            item.quota in below
            and share is not None
            and share.guaranteed
            and not each.closed
            and item.quota not in tree.under(each.donor)
            and tree.path(item.quota)[-1].name == tree.path(each.donor)[-1].name
            and (each.renew or _ends_inside(item, each))
        ):
            found.append(each.donor)
    return sorted({*found})


def _ends_inside(item: Item, terms: Terms) -> bool:
    return item.run_time_s is not None and item.run_time_s <= terms.term_s


def _covers(rest: Mapping[Key, int], short: Mapping[Key, int]) -> bool:
    return all(0 < amount <= rest.get(key, 0) for key, amount in short.items())
