"""The lines of `fleet quota`: what each node has, uses, borrowed and lent, and what waits.

What is borrowed is taken first out of the pool that a node has beyond its children's guaranteed
amounts, then out of what the children leave idle and lend, in proportion to it (largest remainder,
then name). So at every node: what its children borrowed and what it lends itself is what its pool
and its children gave, plus what it borrowed. What is only held for work that has not started is
neither borrowed nor lent; nobody else may borrow it either.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.scheduling.quota.book import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.scheduling.quota.book import Book, Charge
    from fleet.scheduling.quota.tree import Key


@dataclass(frozen=True, slots=True)
class Line:
    """One node and one key. Amounts count everything below the node too."""

    node: str
    key: Key
    depth: int
    last: bool
    """The last of its parent's children: where the drawing of the tree turns."""
    guaranteed: int
    limit: int | None
    used: int
    borrowed: int
    lent: int
    idle: int
    """What others could borrow of it yet."""
    earmarked: int
    """Part of what is used: held for work that has not started."""
    reserved: int
    """Kept free for work whose cluster is lost."""
    lost: int
    """Part of what is used: by what may still run where it was lost."""
    unmanaged: int
    waiting: int
    """Asked for by work that waits."""
    waiting_gangs: int
    overcommitted: int


def lines(book: Book, waiting: Iterable[tuple[str, Mapping[Key, int]]] = ()) -> list[Line]:
    """By tree, parents before children, keys of a node together. `waiting`: node and requests."""
    found: list[Line] = []
    tree = book.tree
    asked, gangs = _waiting(book, waiting)
    earmarked = _sums(book, (charge for charge in book.charges.values() if charge.earmark))
    unmanaged = _sums(book, book.unmanaged.values())
    held = _lent_by(book)
    with book.as_if(without=book.earmarks().values()):
        lent = _lent_by(book)
        borrowed = {
            (name, cell.key): max(0, -cell.free) for name in tree.nodes for cell in book.cells(name)
        }
    reserved: Counter[tuple[str, Key]] = Counter()
    lost: Counter[tuple[str, Key]] = Counter()
    for name in tree.nodes:
        for cell in book.cells(name):
            for above in tree.path(name):
                reserved[above.name, cell.key] += max(0, cell.reserve - cell.lost)
                lost[above.name, cell.key] += cell.lost
    for name in tree.nodes:
        path = tree.path(name)
        siblings = tree.children[path[0].parent]
        for cell in book.cells(name):
            where = (name, cell.key)
            found.append(
                Line(
                    node=name,
                    key=cell.key,
                    depth=len(path) - 1,
                    last=name == siblings[-1],
                    guaranteed=cell.guaranteed,
                    limit=None if cell.limit >= UNLIMITED else cell.limit,
                    used=cell.used - reserved[where],
                    borrowed=borrowed[where],
                    lent=lent.get(where, 0),
                    idle=_idle(cell.subtree, cell.local, cell.flow) - held.get(where, 0),
                    earmarked=earmarked[where],
                    reserved=reserved[where],
                    lost=lost[where],
                    unmanaged=unmanaged[where],
                    waiting=asked[where],
                    waiting_gangs=gangs[name],
                    overcommitted=max(0, cell.used - cell.limit),
                )
            )
    return found


def _lent_by(book: Book) -> dict[tuple[str, Key], int]:
    roots = book.tree.children.get("", ())
    return {key: amount for root in roots for key, amount in _lent(book, root)}


def _idle(subtree: int, local: int, flow: int) -> int:
    """What a node leaves to others: of its share, what it neither keeps nor draws."""
    return max(0, subtree - max(local, flow))


def _lent(book: Book, root: str) -> Iterable[tuple[tuple[str, Key], int]]:
    tree = book.tree
    for key in tree.keys[root]:
        given = {root: 0}
        for name in tree.under(root):
            children = tree.children.get(name, ())
            if not children:
                continue
            cell = book.cell(name, key)
            cells = [book.cell(child, key) for child in children]
            borrowed = sum(max(0, -each.free) for each in cells)
            idle = [_idle(each.subtree, each.local, each.flow) for each in cells]
            direct = cell.flow - sum(max(0, each.flow - each.local) for each in cells)
            pool = cell.guaranteed - sum(each.guaranteed for each in cells) - direct
            # A pool that is overdrawn by the node's own use took it from the children.
            wanted = borrowed + given[name] - max(0, -cell.free) - pool
            parts = _in_proportion(max(0, wanted), idle)
            given.update(zip(children, parts, strict=True))
        yield from (((name, key), amount) for name, amount in given.items() if amount)


def _in_proportion(amount: int, most: list[int]) -> list[int]:
    total = sum(most)
    amount = min(amount, total)
    if not amount:
        return [0] * len(most)
    parts = [amount * each // total for each in most]
    # By what rounding down took; what is left over is less than one for each that has any.
    order = sorted(range(len(most)), key=lambda i: (-(amount * most[i] % total), i))
    for i in order[: amount - sum(parts)]:
        parts[i] += 1
    return parts


def _sums(book: Book, charges: Iterable[Charge]) -> Counter[tuple[str, Key]]:
    found: Counter[tuple[str, Key]] = Counter()
    for charge in charges:
        for path, amount in book.ask(charge.node, charge.amounts):
            for cell in path:
                found[cell.node, cell.key] += amount
    return found


def _waiting(
    book: Book, waiting: Iterable[tuple[str, Mapping[Key, int]]]
) -> tuple[Counter[tuple[str, Key]], Counter[str]]:
    asked: Counter[tuple[str, Key]] = Counter()
    gangs: Counter[str] = Counter()
    for name, requests in waiting:
        for path, amount in book.ask(name, requests.items()):
            for cell in path:
                asked[cell.node, cell.key] += amount
        if name in book.tree.nodes:
            gangs.update(node.name for node in book.tree.path(name))
    return asked, gangs
