"""Which running gangs may go for whom, and the fewest that make room.

Legal are, by the tree: work of the preemptor's own node and of those below it, where its priority
is lower (`within`); and what others borrow, at any height, where the preemptor stays within what is
guaranteed to its side (`reclaim`). A borrower is judged again after each victim, so only the part
above its guaranteed amount goes (kueue#10171); a gang that reaches below goes only where nothing
else does. Protected gangs are passed over, not given up for (KAI#1750).

Victims are whole gangs, in this order: borrowers, lower priority, least lost work for what they
leave, youngest. Each is tried for dispensability again. Nothing is returned unless the preemptor
has quota and a place once they are gone. Room in members is made in one member where one is enough,
the one that loses least. Next step: `queue.evicting` tells them to go and holds what they leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fleet.scheduling.placer import Placed, Unplaced
from fleet.scheduling.quota.book import apply, blocked
from fleet.scheduling.requests import is_accelerator

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from fleet.scheduling.placer import Item, Placer
    from fleet.scheduling.queue.running import Run, Runs
    from fleet.scheduling.quota.book import Ask, Book, Cell, Path
    from fleet.scheduling.quota.tree import Preemption

_MEMBERS: Final = 8


@dataclass(frozen=True, slots=True)
class Victims:
    uids: tuple[str, ...]
    placed: Placed
    lost: float
    """Size of each victim times the run time it loses."""
    reclaimed: int
    """Accelerators (pods, of work without) that are taken back from other nodes."""


@dataclass(frozen=True, slots=True)
class NoVictims:
    why: str
    again_s: float | None = None
    """When that may change by time alone: some may go then."""
    spared: str = ""
    """Uid of the first that is only protected until then."""


@dataclass(frozen=True, slots=True)
class Candidate:
    run: Run
    reclaim: bool
    lost: float

    @property
    def rank(self) -> tuple[bool, int]:
        """Borrowers first, then lower priority."""
        return not self.reclaim, self.run.item.priority


@dataclass(frozen=True, slots=True)
class Preemptor:
    """Who asks, and under which rules."""

    item: Item
    asked: Ask
    weight: int
    policy: Preemption
    now: float
    protected_until: Callable[[Run], float]
    restart_s: float = 0
    """What each victim loses beyond its work."""
    busy: Collection[str] = ()
    """Members in which somebody makes room already."""
    may_reclaim: int | None = None
    """How many accelerators more its node may take back in this minute; None: any."""
    most_lost: float | None = None
    """More lost work than that is not worth it."""


def choose(who: Preemptor, book: Book, runs: Runs, placer: Placer) -> Victims | NoVictims:
    """The victims that `who` may start after. The book is left as it was found."""
    candidates, later, spared = _candidates(who, book, runs)
    if not candidates:
        return NoVictims("nothing that runs may be evicted for it", later, spared)
    everywhere = _enough(who, candidates, book, placer)
    found = [everywhere] if everywhere is not None else []
    if everywhere is None or len(_members(everywhere[0])) > 1:
        for member in _cheapest_members(candidates):
            inside = [each for each in candidates if set(each.run.placed.clusters) <= {member}]
            if len(inside) == len(candidates):
                break
            if inside and (alone := _enough(who, inside, book, placer)) is not None:
                found.append(alone)
    if not found:
        return NoVictims("what may be evicted for it does not make room", later, spared)
    chosen, placed = min(
        [each for each in found if len(_members(each[0])) <= 1] or found,
        key=lambda each: (
            sum(candidate.lost for candidate in each[0]),
            len(each[0]),
            sorted(_uids(each[0])),
        ),
    )
    return _within_bounds(who, chosen, placed, later)


def _within_bounds(
    who: Preemptor, chosen: list[Candidate], placed: Placed, later: float | None
) -> Victims | NoVictims:
    lost = sum(candidate.lost for candidate in chosen)
    if who.most_lost is not None and lost > who.most_lost:
        return NoVictims("evicting for it would lose more work than waiting costs", later)
    weights = [candidate.run.weight for candidate in chosen]
    if sum(weights) - max(weights) > who.weight:
        return NoVictims("making room for it would evict more than it asks for", later)
    reclaimed = sum(_pieces(c.run.item) for c in chosen if c.reclaim)
    if who.may_reclaim is not None and reclaimed > who.may_reclaim:
        return NoVictims("its node takes back no more in this minute", who.now + 60)
    uids = tuple(sorted(candidate.run.item.uid for candidate in chosen))
    return Victims(uids, placed, lost, reclaimed)


def _members(chosen: Iterable[Candidate]) -> set[str]:
    return {name for candidate in chosen for name in candidate.run.placed.clusters}


def _cheapest_members(candidates: list[Candidate]) -> list[str]:
    """Those that come first in the order of victims; not all, since each costs a few searches."""
    return list(dict.fromkeys(name for c in candidates for name in c.run.placed.clusters))[
        :_MEMBERS
    ]


def _pieces(item: Item) -> int:
    counted = sum(v for key, v in item.requests.items() if is_accelerator(key.resource))
    return counted or item.pods


def _candidates(
    who: Preemptor, book: Book, runs: Runs
) -> tuple[list[Candidate], float | None, str]:  # fmt: skip
    """In order; when the first that is protected now may go; and which that is."""
    tree = book.tree
    own = who.item.quota
    if own in tree.nodes:
        below = set(tree.under(own))
        nodes: Iterable[str] = tree.under(tree.path(own)[-1].name)
    else:
        below, nodes = {own}, (own,)
    found: list[Candidate] = []
    later: float | None = None
    spared = ""
    for name in nodes:
        inside = name in below
        if (who.policy.within if inside else who.policy.reclaim) == "Never":
            continue
        any_priority = not inside and who.policy.reclaim == "Any"
        for run in runs.nodes.get(name, {}).values():
            if run.leaving_for or not (any_priority or run.item.priority < who.item.priority):
                continue
            if not (inside or _borrows(who.asked, run.asked)):
                continue
            if any(member in who.busy for member in run.placed.clusters):
                continue
            until = who.protected_until(run)
            if until > who.now:
                if later is None or until < later:
                    later, spared = until, run.item.uid
                continue
            found.append(
                Candidate(run, not inside, run.weight * (run.lost_s(who.now) + who.restart_s))
            )
    found.sort(
        key=lambda c: (
            c.rank,
            c.run.lost_s(who.now),
            -c.run.started_s,
            c.run.item.uid,
        )
    )  # fmt: skip
    return found, later, spared


def _enough(
    who: Preemptor, candidates: list[Candidate], book: Book, placer: Placer
) -> tuple[list[Candidate], Placed] | None:
    """The first of the candidates that make room, without those that turn out dispensable."""
    gone: list[Candidate] = []
    try:
        _remove_for_quota(who, candidates, gone)
        if blocked(who.asked) is not None:
            return None
        placed = placer.place(who.item, without=_uids(gone))
        rest = [candidate for candidate in candidates if candidate not in gone]
        if isinstance(placed, Unplaced):
            if not placed.ever:
                return None
            placed = _remove_for_place(who, rest, gone, placer)
        if isinstance(placed, Unplaced):
            return None
        placed = _trimmed(who, gone, placed, placer)
        placed = _cheaper(who, rest, gone, placed, placer)
        return (list(gone), placed) if gone else None
    finally:
        for candidate in gone:
            apply(candidate.run.asked)


def _remove_for_quota(
    who: Preemptor, candidates: list[Candidate], gone: list[Candidate]
) -> None:  # fmt: skip
    """Take away, one by one, what stands in the way of the cell that is blocked.

    First what leaves its node at or above its guaranteed amount, then what reaches below it.
    """
    for reaches_below in (False, True):
        more = True
        while more:
            more = False
            for candidate in candidates:
                against = blocked(who.asked)
                if against is None:
                    return
                if (
                    candidate not in gone
                    and _uses(candidate.run.asked, against.cell)
                    and _may_go(who, candidate, reaches_below=reaches_below)
                ):
                    apply(candidate.run.asked, -1)
                    gone.append(candidate)
                    more = True


def _remove_for_place(
    who: Preemptor, rest: list[Candidate], gone: list[Candidate], placer: Placer
) -> Placed | Unplaced:
    """Take away the fewest of the rest, in order, that leave a place: by halving."""
    start = len(gone)
    for reaches_below in (False, True):
        for candidate in rest:
            if candidate not in gone and _may_go(who, candidate, reaches_below=reaches_below):
                apply(candidate.run.asked, -1)
                gone.append(candidate)
    placed = placer.place(who.item, without=_uids(gone))
    low, high = start, len(gone)
    while isinstance(placed, Placed) and low < high:
        middle = (low + high) // 2
        tried = placer.place(who.item, without=_uids(gone[:middle]))
        if isinstance(tried, Placed):
            placed, high = tried, middle
        else:
            low = middle + 1
    for candidate in gone[high:]:
        apply(candidate.run.asked)
    del gone[high:]
    return placed


def _trimmed(who: Preemptor, gone: list[Candidate], placed: Placed, placer: Placer) -> Placed:
    """Give back, the most valuable first, who need not go after all."""
    for candidate in gone[::-1] if len(gone) > 1 else []:
        apply(candidate.run.asked)
        gone.remove(candidate)
        if blocked(who.asked) is None:
            again = placer.place(who.item, without=_uids(gone))
            if isinstance(again, Placed):
                placed = again
                continue
        apply(candidate.run.asked, -1)
        gone.append(candidate)
    return placed


def _cheaper(
    who: Preemptor, rest: list[Candidate], gone: list[Candidate], placed: Placed, placer: Placer
) -> Placed:
    """Put in place of each, the dearest first, one of its rank that loses less and is enough.

    A gang that was taken for what it loses in proportion may be larger than what is missing.
    """
    others = sorted(
        (each for each in rest if each not in gone), key=lambda c: (c.lost, c.run.item.uid)
    )
    for candidate in sorted(gone, key=lambda c: (-c.lost, c.run.item.uid)):
        apply(candidate.run.asked)
        at = gone.index(candidate)
        for other in others:
            if other.lost >= candidate.lost:
                break
            if other in gone or other.rank > candidate.rank:
                continue
            if not _may_go(who, other, reaches_below=False):
                continue
            apply(other.run.asked, -1)
            if blocked(who.asked) is None:
                gone[at] = other
                again = placer.place(who.item, without=_uids(gone))
                if isinstance(again, Placed):
                    placed = again
                    break
                gone[at] = candidate
            apply(other.run.asked)
        if gone[at] is candidate:
            apply(candidate.run.asked, -1)
    return placed


def _uids(gone: Iterable[Candidate]) -> tuple[str, ...]:
    return tuple(candidate.run.item.uid for candidate in gone)


def _uses(asked: Ask, cell: Cell) -> bool:
    return any(cell in path for path, _ in asked)


def _may_go(who: Preemptor, candidate: Candidate, *, reaches_below: bool) -> bool:
    if not candidate.reclaim:
        return True
    return _borrows(who.asked, candidate.run.asked, keep=not reaches_below)


def _borrows(asked: Ask, held: Ask, *, keep: bool = False) -> bool:
    """Whether, of a key that both use, the one takes what is guaranteed to the other's side.

    With `keep`: and would go on having all that is guaranteed to its own side.
    """
    for path, amount in asked:
        for other, taken in held:
            if path[-1] is other[-1] and _takes(path, amount, other, taken if keep else 0):
                return True
    return False


def _takes(path: Path, amount: int, other: Path, taken: int) -> bool:
    need, entitled = amount, False
    for cell in path:
        if cell in other:
            break
        entitled = cell.flow + need <= cell.subtree
        need = max(0, need - max(0, cell.local - cell.flow))
    if not entitled:
        return False
    if other[0] in path:
        return other[0].direct - taken >= other[0].pool and other[0].direct > other[0].pool
    for cell in other:
        if cell in path:
            break
        if cell.flow - taken < cell.subtree or cell.flow <= cell.subtree:
            return False
        taken = max(0, cell.flow - cell.local) - max(0, cell.flow - taken - cell.local)
    return True
