"""Which loans are none any more, because the borrower's own quota covers the work.

It does if there would be room for it with nothing on loan at all, and without its loan there is: so
no loan counts against itself, whatever its donor has left, and none is settled on what somebody
lends to others. What is guaranteed to the borrower goes before what others leave idle, then the
oldest. Next step: `desk` settles what is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.scheduling.quota.book import apply, level, room

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from fleet.scheduling.lending.loans import Loan
    from fleet.scheduling.quota.book import Ask, Book
    from fleet.scheduling.quota.tree import Key


def covered(
    book: Book, loans: Iterable[Loan], among: Collection[Loan], *, leaving: Collection[Loan] = ()
) -> list[Loan]:
    """Those `among` the `loans` that could all be settled at once. What is `leaving` makes room for
    others. The book, which has all of their charges, is left as it was.
    """
    if not among:
        return []
    asks = {loan.uid: book.ask(loan.to, loan.amounts.items()) for loan in loans}
    lent = dict(book.lent)
    found = []
    own = _own(book, asks, among)
    for loan in leaving:
        _take(book, loan, asks[loan.uid])
    gone = {loan.uid for loan in leaving}
    for loan in own:
        ask, before = asks[loan.uid], dict(book.lent)
        if loan.uid not in gone:
            _take(book, loan, ask)
        if _fits(ask):
            found.append(loan)
        elif loan.uid in gone:
            continue
        else:
            _restore(book, before)
        apply(ask)
    settled = {loan.uid for loan in found}
    for loan in leaving:
        if loan.uid not in settled:
            apply(asks[loan.uid])
    _restore(book, lent)
    return found


def _own(book: Book, asks: Mapping[str, Ask], among: Collection[Loan]) -> list[Loan]:
    """Those that fit if nothing were on loan, the first first."""
    lent = dict(book.lent)
    for ask in asks.values():
        apply(ask, -1)
    _restore(book, dict.fromkeys(lent, 0))
    left = sorted(among, key=lambda loan: (loan.since_s, loan.uid))
    found: dict[str, Loan] = {}
    for by_guarantee in (True, False):
        for loan in left:
            ask = asks[loan.uid]
            if loan.uid not in found and _fits(ask) and not (by_guarantee and level(ask)):
                found[loan.uid] = loan
                apply(ask)
    for uid, ask in asks.items():
        if uid not in found:
            apply(ask)
    _restore(book, lent)
    return [*found.values()]


def _fits(ask: Ask) -> bool:
    return all(room(path) >= amount for path, amount in ask)


def _take(book: Book, loan: Loan, ask: Ask) -> None:
    apply(ask, -1)
    for key, amount in loan.amounts.items():
        if lent := book.lent.get((loan.donor, key), 0):
            book.lend(loan.donor, key, max(0, lent - amount))


def _restore(book: Book, lent: Mapping[tuple[str, Key], int]) -> None:
    for (node, key), amount in lent.items():
        book.lend(node, key, amount)
