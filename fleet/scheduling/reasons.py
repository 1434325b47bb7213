"""Why a workload waits that is not short of room, in words and in one word for programs.

What is short of room is told by `sentences`, cluster by cluster. Next step: `record` writes it into
the Placement.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from fleet.scheduling.lending.filling import lenders
from fleet.scheduling.nodes import ACCELERATOR_LABELS
from fleet.scheduling.quota.book import UNLIMITED, blocked
from fleet.scheduling.requests import is_accelerator, quantity_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fleet.scheduling.decisions import Why
    from fleet.scheduling.lending.terms import Terms
    from fleet.scheduling.placer import Item
    from fleet.scheduling.quota.book import Ask, Book, Cell
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


def reason_of(why: Why, item: Item | None = None, book: Book | None = None) -> str:
    """`item` and `book` tell want of quota from quota that is kept for others."""
    if why.reason == "Quota" and item is not None and book is not None and is_kept(item, book):
        return REASONS["Behind"]
    return REASONS[why.reason]


def is_kept(item: Item, book: Book) -> bool:
    """Whether there would be quota for it, were it not collected for others."""
    earmarks, asked = book.earmarks(), book.ask(item.quota, item.requests.items())
    with book.as_if(without=[earmarks.pop(item.uid, ())]):
        if blocked(asked) is None:
            return False
        with book.as_if(without=earmarks.values()):
            return blocked(asked) is None


def because(
    why: Why,
    item: Item,
    book: Book,
    *,
    name: Callable[[str], str],
    victims: Sequence[str] = (),
    foreseen: Mapping[str, float] = MappingProxyType({}),
    terms: Sequence[Terms] = (),
) -> str:
    """The sentence. `name` gives what a uid stands for; `victims` are what was told to go;
    `foreseen` says when those for whom something is held start; by `terms` quotas lend."""
    match why.reason:
        case "Quota":
            short = _short(why, item, book, name, foreseen)
            return short + _or_on_loan(why, item, book, terms) + spared(why, name)
        case "AboveLimit":
            return _never(why, item, book)
        case "Evicting":
            gone = ", ".join(sorted(map(name, victims)))
            return f"waits for {gone or 'what was ended for it'} to be gone"
        case "Behind":
            return f"there is room, but {name(why.text)} comes first and would start later"
    return str(why)


def _short(
    why: Why,
    item: Item,
    book: Book,
    name: Callable[[str], str],
    foreseen: Mapping[str, float],
) -> str:
    key = why.key
    assert key is not None
    cell = book.cell(why.node, key)
    earmarks = book.earmarks()
    own = _counted(earmarks.pop(item.uid, ()), cell)
    held = {uid: n for uid, ask in sorted(earmarks.items()) if (n := _counted(ask, cell))}
    reserved = _reserved(cell, book)
    used = cell.used - own - reserved - sum(held.values())
    told = [f"{_text(key, used)} are in use"]
    told += [
        f"{_text(key, amount)} kept for {name(uid)}" + _until(foreseen.get(uid))
        for uid, amount in held.items()
    ]
    if reserved:
        told.append(f"{_text(key, reserved)} in the failover reserve")
    if kept := _kept(cell):
        told.append(f"{_text(key, kept)} kept for those below it that lend no more")
    head = (
        f"quota {item.quota}: it asks for {_asked(item, key)} {key}, and of the "
        f"{_text(key, cell.limit)} that {_node(why.node, item.quota)} may use "
        f"{_listed(told)}"
    )
    if is_kept(item, book):
        return f"{head}; what is kept goes first to those it is kept for"
    return f"{head}; it starts when {_text(key, why.short)} more are given back"


def _until(at_s: float | None) -> str:
    return "" if at_s is None else f" until about {_moment(at_s)}"


def spared(why: Why, name: Callable[[str], str]) -> str:
    """Who may be ended for it, though not yet."""
    if why.spared_s is None:
        return ""
    if why.saves:
        return (
            f"; {name(why.spared)} is to end for it once it has saved, which it should have by "
            f"{_moment(why.spared_s)}"
        )
    return (
        f"; {name(why.spared)} may be ended for it from {_moment(why.spared_s)}; until then it is "
        "spared (minRunTime, or an eviction before)"
    )


def _moment(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _counted(asked: Ask, cell: Cell) -> int:
    return sum(amount for path, amount in asked if cell in path)


def _or_on_loan(why: Why, item: Item, book: Book, terms: Sequence[Terms]) -> str:
    """A loan helps against what others leave idle, not against a limit below the root."""
    assert why.key is not None
    limit = book.cell(why.node, why.key).limit
    if (limit < UNLIMITED and book.tree.nodes[why.node].parent) or is_kept(item, book):
        return ""
    names = lenders(item, why.key, book.tree, terms)
    return f", or when {' or '.join(names)} can lend it what it is short of" if names else ""


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
        f"{_whose(node.name, item.quota)} {_text(key, cell.limit)}"
        for node in book.tree.path(item.quota)
        for cell in book.cells(node.name)
        if cell.key == key and cell.limit < UNLIMITED
    ]
    return (
        f"quota {item.quota}: it asks for {_asked(item, key)} {key}, more than it could ever use: "
        f"{', '.join(limits)}; raise the limit, or ask for less"
    )


def _whose(node: str, quota: str) -> str:
    return "its limit is" if node == quota else f"the limit of node {node} is"


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
