"""Why a workload waits that is not short of room, in words and in one word for programs.

What is short of room is told by `sentences`, cluster by cluster. Next step: `record` writes it into
the Placement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fleet.scheduling.nodes import ACCELERATOR_LABELS
from fleet.scheduling.quota.book import UNLIMITED
from fleet.scheduling.requests import is_accelerator, quantity_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fleet.scheduling.decisions import Why
    from fleet.scheduling.placer import Item
    from fleet.scheduling.quota.book import Book, Cell
    from fleet.scheduling.quota.tree import Key

REASONS: Final[Mapping[str, str]] = {
    "Quota": "QuotaExceeded",
    "AboveLimit": "QuotaTooSmall",
    "NoSuchQuota": "NoSuchQuota",
    "Evicting": "Preempting",
    "Behind": "RoomKept",
    "Capacity": "NoRoom",
    "NoSuchCapacity": "Impossible",
}
"""The engine's word, and the Placement's."""


def reason_of(why: Why) -> str:
    return REASONS[why.reason]


def because(
    why: Why, item: Item, book: Book, *, name: Callable[[str], str], victims: Sequence[str] = ()
) -> str:
    """The sentence. `name` gives what a uid stands for; `victims` are what was told to go."""
    match why.reason:
        case "Quota":
            return _short(why, item, book)
        case "AboveLimit":
            return _never(why, item, book)
        case "Evicting":
            gone = ", ".join(sorted(map(name, victims)))
            return f"waits for {gone or 'what was ended for it'} to be gone"
        case "Behind":
            return f"there is room, but {name(why.text)} comes first and would start later"
    return str(why)


def _short(why: Why, item: Item, book: Book) -> str:
    key = why.key
    assert key is not None
    cell = book.cell(why.node, key)
    in_use, reserved = cell.used - _own(item, key, cell, book), _reserved(cell, book)
    told = [f"{_text(key, in_use - reserved)} are in use"]
    if reserved:
        told.append(f"{_text(key, reserved)} in the failover reserve")
    if kept := _kept(cell):
        told.append(f"{_text(key, kept)} kept for those below it that lend no more")
    return (
        f"quota {item.quota}: it asks for {_asked(item, key)} {key}, and of the "
        f"{_text(key, cell.limit)} that {_node(why.node, item.quota)} may use "
        f"{_listed(told)}; it starts when {_text(key, why.short)} more are given back"
    )


def _reserved(cell: Cell, book: Book) -> int:
    """What of its use is reserve that nothing lost has filled."""
    below = (
        each
        for name in book.tree.children.get(cell.node, ())
        for each in book.cells(name)
        if each.key == cell.key
    )
    return max(0, cell.reserve - cell.lost) + sum(_reserved(each, book) for each in below)


def _kept(cell: Cell) -> int:
    """What of its limit nodes below keep to themselves and do not use."""
    if cell.limit >= UNLIMITED:
        return 0
    return max(0, (cell.limit - cell.most) - (cell.used - cell.flow))


def _listed(told: Sequence[str]) -> str:
    *first, last = told
    return f"{', '.join(first)} and {last}" if first else last


def _own(item: Item, key: Key, cell: Cell, book: Book) -> int:
    """What is held for it already counts as used."""
    charge = book.charges.get(item.uid)
    if charge is None:
        return 0
    held = book.ask(charge.node, charge.amounts)
    return sum(amount for path, amount in held if cell in path)


def _never(why: Why, item: Item, book: Book) -> str:
    key = why.key
    assert key is not None
    cells = {cell.key: cell for cell in book.cells(item.quota)}
    kinds = sorted(
        each.accelerator
        for each in cells
        if each.resource == key.resource and each.accelerator
    )  # fmt: skip
    if key not in cells and is_accelerator(key.resource) and kinds:
        asked = f"kind {key.accelerator}" if key.accelerator else "no kind"
        return (
            f"quota {item.quota} counts {key.resource} of kind {', '.join(kinds)}, and the pods "
            f"ask for {asked}: add a node selector for {' or '.join(ACCELERATOR_LABELS)}, "
            "whichever the nodes carry"
        )
    limits = [
        f"{_node(node.name, item.quota)} {_text(key, cell.limit)}"
        for node in book.tree.path(item.quota)
        for cell in book.cells(node.name)
        if cell.key == key and cell.limit < UNLIMITED
    ]
    return (
        f"quota {item.quota}: it asks for {_asked(item, key)} {key}, more than it could ever use "
        f"({', '.join(limits)}); raise the limit, or ask for less"
    )


def _node(node: str, quota: str) -> str:
    return "it" if node == quota else f"node {node}"


def _asked(item: Item, key: Key) -> str:
    """What is counted under a key: of its resource, what names its kind, or what no line names."""
    exact = item.requests.get(key)
    if exact is not None:
        return _text(key, exact)
    return _text(
        key, sum(amount for each, amount in item.requests.items() if each.resource == key.resource)
    )


def _text(key: Key, amount: int) -> str:
    return quantity_text(key.resource, amount)
