"""Which of the gangs that may go: the whole gangs that cost least, and the place once they have.

Who may, what each would cost and what stands against a choice is for the caller to say
(`preemption`); here it is only asked which of them. Room is made in one member where one is enough
(so that no two members are emptied for one gang), then at the least cost, then for the best place.
A choice is one with which a place was found, and none of its gangs can be spared. The search is
over all sets, those that cost more than the best one so far left out, up to a number of places that
are looked for: never in time, so that the same question has the same answer on any machine. Where
the steps do not suffice, the best choice that was found counts, and `exact` is false.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.scheduling.placer import Placed

STEPS: Final = 240
"""How many sets are tried for one gang, at most."""
_SHARE: Final = 80
"""How many of them in one member."""
_DEPTHS: Final = (1, 2)
"""One large gang may cost less than many small ones: sets of so few are tried before all others."""


@dataclass(frozen=True, slots=True)
class Gang:
    """A running gang that may be ended as a whole. `cost` is what that would lose."""

    uid: str
    cost: int
    members: frozenset[str] = frozenset()
    size: int = 0
    since_s: float = 0
    """Of equal ones the youngest goes."""


class Trial(Protocol):
    def place(self, gone: Sequence[Gang], *, quick: bool) -> Placed | None:
        """Where the gang would start with these gone; None where it could not. More gone is never
        worse. With `quick` the place need not be the best."""
        ...

    def forbids(self, gone: Sequence[Gang], one: Gang) -> bool:
        """Whether one more must not go after those. What is forbidden stays so after more."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    gone: tuple[Gang, ...]
    placed: Placed
    exact: bool
    """Whether no choice that is allowed costs less."""


def least(gangs: Iterable[Gang], trial: Trial, *, steps: int = STEPS) -> Choice | None:
    """The best choice; None where there is none, or none was found in so many steps."""
    order = sorted(gangs, key=lambda each: (each.cost, -each.since_s, each.uid))
    search = _Search(trial, steps)
    if not order or search.place(order) is None:
        return None
    if len({name for each in order for name in each.members}) > 1:
        alone: dict[str, list[Gang]] = {}
        for each in order:
            if len(each.members) == 1:
                alone.setdefault(next(iter(each.members)), []).append(each)
        for _, inside in sorted(alone.items(), key=lambda item: (item[1][0].cost, item[0])):
            search.among(inside)
    if search.best is None:
        search.among(order, share=steps)
    if search.best is None:
        return None
    best = search.best
    return Choice(best.gone, trial.place(best.gone, quick=False) or best.placed, search.complete)


@dataclass(frozen=True, slots=True)
class _Best:
    cost: int
    rank: tuple[object, ...]
    gone: tuple[Gang, ...]
    placed: Placed


class _Search:
    """A set is made of its costliest gang, the costliest of the rest, and so on: each set once."""

    def __init__(self, trial: Trial, steps: int) -> None:
        self._trial = trial
        self._steps = steps
        self._end = steps
        self._known: dict[frozenset[str], Placed | None] = {}
        self.best: _Best | None = None
        self.complete = True

    def place(self, gone: Sequence[Gang]) -> Placed | None:
        key = frozenset(each.uid for each in gone)
        if key not in self._known:
            self._known[key] = self._trial.place(gone, quick=True)
        return self._known[key]

    def among(self, order: Sequence[Gang], *, share: int = _SHARE) -> None:
        """Sets of these, which come in the order of what they cost."""
        self._end = min(self._steps, len(self._known) + share)
        self._descend(order)
        self._descend(sorted(order, key=lambda each: (each.size, each.cost, each.uid)))
        members = sorted({name for each in order for name in each.members})
        for name in members if len(members) > 1 else ():
            self._descend(sorted(order, key=lambda each: (name not in each.members, each.cost)))
        self._exchange(order)
        for depth in _DEPTHS:
            self._decide((), order, depth)
        self._decide((), order, len(order))
        self.complete = self.complete and not self._over

    @property
    def _over(self) -> bool:
        return len(self._known) >= self._end

    def _needed(self, gone: tuple[Gang, ...], left: Sequence[Gang]) -> int | None:
        """How many of those left, the cheapest first, make room together."""
        low, high = 1, 1
        while not left or self.place((*gone, *left[:high])) is None:
            if high >= len(left):
                return None
            low, high = high + 1, min(4 * high, len(left))
        while low < high:
            middle = (low + high) // 2
            if self.place((*gone, *left[:middle])) is not None:
                high = middle
            else:
                low = middle + 1
        return high

    def _descend(self, left: Sequence[Gang]) -> None:
        """A first choice: whoever cannot be spared after those that come later were."""
        gone: tuple[Gang, ...] = ()
        while self.best is None or not self._over:
            count = self._needed(gone, left)
            if count is None:
                return
            able = range(count - 1, len(left))
            at = next((at for at in able if not self._trial.forbids(gone, left[at])), None)
            if at is None:
                return
            gone, left = (*gone, left[at]), left[:at]
            if (placed := self.place(gone)) is not None:
                self._keep(gone, placed)
                return

    def _exchange(self, order: Sequence[Gang]) -> None:
        """A better choice than the first: a cheaper gang for one of it, the dearest first."""
        better = True
        while better and self.best is not None and not self._over:
            better = False
            chosen = self.best.gone
            for each in sorted(chosen, key=lambda gang: (-gang.cost, gang.uid)):
                rest = tuple(other for other in chosen if other is not each)
                for other in order:
                    if other.cost >= each.cost or better or self._over:
                        break
                    if other in rest or self._forbidden((*rest, other)):
                        continue
                    if (placed := self.place((*rest, other))) is not None:
                        self._keep((*rest, other), placed)
                        better = True

    def _forbidden(self, gone: Sequence[Gang]) -> bool:
        return any(self._trial.forbids(gone[:at], gone[at]) for at in range(len(gone)))

    def _decide(self, gone: tuple[Gang, ...], left: Sequence[Gang], depth: int) -> None:
        """Sets of `gone`, which are not enough, and up to `depth` of those left."""
        if self._over or (count := self._needed(gone, left)) is None:
            return
        spent = sum(each.cost for each in gone)
        for at in range(count - 1, len(left)):
            going, cost = (*gone, left[at]), spent + left[at].cost
            if self._over or self._exceeds(cost):
                return
            if self._trial.forbids(gone, left[at]):
                continue
            if (placed := self.place(going)) is not None:
                self._keep(going, placed)
            elif depth > 1 and at and not self._exceeds(cost + left[0].cost):
                self._decide(going, left[:at], depth - 1)

    def _exceeds(self, cost: int) -> bool:
        return self.best is not None and cost > self.best.cost

    def _keep(self, gone: tuple[Gang, ...], placed: Placed) -> None:
        for each in gone if len(gone) > 1 else ():
            fewer = tuple(other for other in gone if other is not each)
            if fewer and (instead := self.place(fewer)) is not None:
                gone, placed = fewer, instead
        cost = sum(each.cost for each in gone)
        rank = (
            placed.rank,
            len(gone),
            sorted(-each.since_s for each in gone),
            sorted(each.uid for each in gone),
        )
        if self.best is None or (cost, rank) < (self.best.cost, self.best.rank):
            self.best = _Best(cost, rank, gone, placed)
