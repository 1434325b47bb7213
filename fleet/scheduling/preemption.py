"""Which running gangs may go for whom, and those of them that make room at the least cost.

Legal are, by the tree: work of the preemptor's own node and of those below it, where its priority
is lower (`within`); and what others borrow, at any height, where the preemptor stays within what is
guaranteed to its side (`reclaim`). A borrower is judged again after each victim, so only the part
above its guaranteed amount goes (kueue#10171); a gang that reaches below goes only where nothing
else does. Protected gangs are passed over, not given up for (KAI#1750).

Victims are whole gangs. Of two choices that one is better that loses less work of those which are
to be spared most: which borrow nothing, then by priority, the highest first. What saves soon loses
less then: where waiting for that costs less, nobody goes before. A choice that loses
more than it is worth, takes back more than a node may or ends more than is asked for is none.
`victims` searches; nothing is returned unless the preemptor has quota and a place once they are
gone. Next step: `queue.evicting` tells them to go and holds what they leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fleet.scheduling.placer import Placed
from fleet.scheduling.quota.book import apply, blocked
from fleet.scheduling.victims import Gang, least

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from fleet.scheduling.placer import Item, Placer
    from fleet.scheduling.queue.running import Run, Runs
    from fleet.scheduling.quota.book import Ask, Book, Path
    from fleet.scheduling.quota.tree import Preemption

_LOSES: Final = "evicting for it would lose more work than waiting costs"
_ENDS_MORE: Final = "making room for it would evict more than it asks for"
_TAKES_BACK: Final = "its node takes back no more in this minute"
_SAVES: Final = "what may be evicted for it loses less once it has saved"


@dataclass(frozen=True, slots=True)
class Victims:
    uids: tuple[str, ...]
    placed: Placed
    lost: float
    """Size of each victim times the time it loses."""
    reclaimed: int
    """Accelerators (pods, of work without) that are taken back from other nodes."""


@dataclass(frozen=True, slots=True)
class NoVictims:
    why: str
    again_s: float | None = None
    """When that may change by time alone: some may go then."""
    spared: str = ""
    """Uid of the first that is only protected until then."""
    saves: frozenset[str] = frozenset()
    """Uids of those whose checkpoints it waits for."""
    saved_s: float | None = None
    """By when those should be there."""
    anybody: bool = True
    """Whether anybody might go: then a shorter wait or a longer run may change the answer."""


@dataclass(frozen=True, slots=True)
class Candidate:
    run: Run
    reclaim: bool
    lost: float
    """At the best time: work, and what waiting for it costs."""
    below: bool = False
    """Whether its node would be left with less than what is guaranteed to it."""

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """How much it is to be spared: borrowers least, then lower priority."""
        return self.below, not self.reclaim, self.run.item.priority


@dataclass(frozen=True, slots=True)
class Preemptor:
    """Who asks, and under which rules."""

    item: Item
    asked: Ask
    weight: int
    policy: Preemption
    now: float
    protected_until: Callable[[Run], float]
    busy: Collection[str] = ()
    """Members in which somebody makes room already."""
    may_reclaim: int | None = None
    """How many accelerators more its node may take back in this minute; None: any."""
    most_lost: float | None = None
    """More lost work than that is not worth it."""
    waits_until: float = 0
    """How long it may wait for others to save."""


def choose(who: Preemptor, book: Book, runs: Runs, placer: Placer) -> Victims | NoVictims:
    """The victims that `who` may start after. The book is left as it was found."""
    candidates, later, spared = _candidates(who, book, runs)
    if not candidates:
        why = "nothing that runs may be evicted for it"
        return NoVictims(why, later, spared, anybody=False)
    trial = _Trial(who, candidates, placer)
    try:
        found = None
        for trial.reaches_below in (False, True):
            found = least(trial.gangs, trial)
            if found is not None or not any(each.reclaim for each in candidates):
                break
    finally:
        trial.be_gone(())
    if found is None:
        if trial.bound is None:
            return NoVictims("what may be evicted for it does not make room", later, spared)
        again_s = who.now + 60 if trial.bound == _TAKES_BACK else later
        return NoVictims(trial.bound, again_s)
    chosen = [trial.candidates[gang.uid] for gang in found.gone]
    uids = tuple(sorted(gang.uid for gang in found.gone))
    lost, at_s = _best_time(who, [each.run for each in chosen])
    if who.most_lost is not None and lost > who.most_lost:
        return NoVictims(_LOSES, later, spared)
    if at_s > who.now:
        saving = {
            each.run.item.uid: saves_s
            for each in chosen
            if (saves_s := each.run.saves_s) is not None and who.now < saves_s <= at_s
        }
        last = max(saving, key=lambda uid: (saving[uid], uid))
        again_s = at_s if later is None else min(at_s, later)
        return NoVictims(_SAVES, again_s, last, frozenset(saving), at_s)
    return Victims(uids, found.placed, lost, sum(_taken_back(each) for each in chosen))


class _Trial:
    """The book and the Placer as they would be with some gone (`victims.Trial`)."""

    def __init__(self, who: Preemptor, candidates: list[Candidate], placer: Placer) -> None:
        self._who = who
        self._placer = placer
        self.candidates = {each.run.item.uid: each for each in candidates}
        self.gangs = _costed(candidates)
        self.reaches_below = False
        """Whether borrowers may go that have no more than what is guaranteed to them afterwards."""
        self.bound: str | None = None
        """What stood against a choice."""
        self._gone: dict[str, None] = {}
        """Those whose part of the book's sums is taken out."""

    def be_gone(self, gone: Iterable[Gang]) -> None:
        wanted = dict.fromkeys(each.uid for each in gone)
        for uid in [uid for uid in self._gone if uid not in wanted]:
            del self._gone[uid]
            apply(self.candidates[uid].run.asked)
        for uid in wanted:
            if uid not in self._gone:
                self._gone[uid] = None
                apply(self.candidates[uid].run.asked, -1)

    def place(self, gone: Sequence[Gang], *, quick: bool) -> Placed | None:
        self.be_gone(gone)
        if blocked(self._who.asked) is not None:
            return None
        uids = [each.uid for each in gone]
        found = self._placer.place(self._who.item, without=uids, quick=quick)
        return found if isinstance(found, Placed) else None

    def forbids(self, gone: Sequence[Gang], one: Gang) -> bool:
        who, candidate = self._who, self.candidates[one.uid]
        if candidate.reclaim:
            self.be_gone(gone)
            if not _borrows(who.asked, candidate.run.asked, keep=not self.reaches_below):
                return True
        going = [*(self.candidates[each.uid] for each in gone), candidate]
        weights = [each.run.weight for each in going]
        broken = None
        if who.most_lost is not None and sum(each.lost for each in going) > who.most_lost:
            broken = _LOSES
        elif sum(weights) - max(weights) > who.weight:
            broken = _ENDS_MORE
        elif who.may_reclaim is not None and sum(map(_taken_back, going)) > who.may_reclaim:
            broken = _TAKES_BACK
        self.bound = self.bound or broken
        return broken is not None


def _costed(candidates: list[Candidate]) -> list[Gang]:
    """In one number: no loss of those that are spared less is as dear as any of those spared more.
    In thousandths."""
    losses = [round(1000 * each.lost) for each in candidates]
    scale = 1 + sum(losses)
    ranks = {rank: at for at, rank in enumerate(sorted({each.rank for each in candidates}))}
    return [
        Gang(
            each.run.item.uid,
            loss * scale ** ranks[each.rank],
            frozenset(each.run.placed.clusters),
            each.run.weight,
            each.run.started_s,
        )
        for each, loss in zip(candidates, losses, strict=True)
    ]


def _best_time(who: Preemptor, runs: Sequence[Run]) -> tuple[float, float]:
    """What is lost if some go at the best time, its wait included; and that time.

    That is at once, or when one of them has saved.
    """
    saved = (run.saves_s for run in runs)
    times = {at for at in saved if at is not None and who.now < at <= who.waits_until}
    return min(
        (
            who.weight * (at - who.now)
            + sum(run.weight * run.loses_s(at, who.now) for run in runs),
            at,
        )
        for at in (who.now, *times)
    )


def _taken_back(candidate: Candidate) -> int:
    return candidate.run.item.pieces if candidate.reclaim else 0


def _candidates(
    who: Preemptor, book: Book, runs: Runs
) -> tuple[list[Candidate], float | None, str]:  # fmt: skip
    """Who may go; when the first that is protected now may; and which that is."""
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
            lost, _ = _best_time(who, [run])
            reaches = not inside and not _borrows(who.asked, run.asked, keep=True)
            found.append(Candidate(run, not inside, lost, reaches))
    return found, later, spared


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
