"""What donors keep and how much they are short of it: in quota, and in members.

What a donor needs is counted once until its work changes, since a round asks for it with every
loan. Of one tree and its terms; `desk` makes another where those are others, and says what changes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from fleet.scheduling.lending.floor import lacking as short_of
from fleet.scheduling.lending.floor import lendable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from fleet.scheduling.engine import Engine
    from fleet.scheduling.lending.books import Books
    from fleet.scheduling.lending.floor import Need
    from fleet.scheduling.lending.recall import Borrowed
    from fleet.scheduling.lending.terms import Terms
    from fleet.scheduling.placer import Placed
    from fleet.scheduling.quota.tree import Key, Tree

    Amounts = Mapping[str, Mapping[Key, int]]


class Members(Protocol):
    """See `fleet.scheduling.lending.spare.Spare`."""

    def free(
        self, donor: str, *, without: Collection[str] = (), beside: Placed | None = None
    ) -> Amounts:
        """What work of the donor could have, by cluster, once some uids are gone and something
        more is placed. On nodes that it does not share with others, nothing that those leave.
        """
        ...

    def unseated(
        self,
        donor: str,
        *,
        ours: Sequence[Placed],
        coming: Iterable[str],
        without: Collection[str] = (),
        beside: Placed | None = None,
    ) -> int:
        """How much the pods of the donor ask for that would find no node in other clusters if the
        worst of those was lost where it has a place (`ours`), with what waits (`coming`, by uid).
        """
        ...


class Floors:
    def __init__(
        self,
        engine: Engine,
        books: Books,
        tree: Tree,
        terms: Sequence[Terms],
        members: Members | None,
        *,
        lent: Callable[[str], Counter[Key]],
    ) -> None:
        """`lent` says what a donor has on loan. Without `members` only quota counts."""
        self._engine = engine
        self._books = books
        self._tree = tree
        self._terms = terms
        self._members = members
        self._lent = lent
        self._known: dict[tuple[str, bool], dict[Key, Need]] = {}
        """What donors need, with what is expected or without, until their work changes."""
        self._owns: dict[str, tuple[list[Placed], list[str]]] = {}
        """The same work, as it is placed, and as it waits."""

    def keys(self, donor: str) -> list[Key]:
        """What a donor is guaranteed any of, or has on loan still."""
        counted = self._tree.keys[self._tree.path(donor)[-1].name]
        there = {*self._books.keys_of(donor), *self._lent(donor)}
        return [key for key in counted if key in there]

    def shortage(
        self,
        terms: Terms,
        leaving: Sequence[Borrowed],
        expected: Mapping[Key, int] | None,
    ) -> Callable[[Sequence[Borrowed]], int]:
        """How much the donor is short of its floor, in quota and in members, without some loans
        and those that leave already.
        """
        needs = self.needs(terms, expected)
        out = self._lent(terms.donor)
        for each in leaving:
            out.subtract(each.loan.amounts)
        go = [each.loan.uid for each in leaving]

        def short(gone: Sequence[Borrowed]) -> int:
            missing = 0
            for key, need in needs.items():
                lent = out[key] - sum(each.loan.amounts.get(key, 0) for each in gone)
                missing += max(0, lent - lendable(terms, need))
            uids = [*go, *(each.loan.uid for each in gone)]
            return missing + self.lacking(terms, needs, without=uids)

        return short

    def needs(self, terms: Terms, expected: Mapping[Key, int] | None) -> dict[Key, Need]:
        """Counted once until the donor's work changes: a round asks for it with every loan."""
        donor = terms.donor
        known = self._known.get((donor, bool(expected)))
        if known is None:
            clusters = len(self._members.free(donor)) if self._members is not None else 0
            told = self._foreseen(donor, expected or {})
            known = self._books.needs(donor, self.keys(donor), told, clusters=clusters)
            self._known[donor, bool(expected)] = known
        return known

    def _foreseen(self, donor: str, expected: Mapping[Key, int]) -> Counter[Key]:
        """What it is about to need: as was given, and as its policies say, of several the most."""
        told: Counter[Key] = Counter()
        for terms in self._terms:
            if terms.donor == donor:
                said: Counter[Key] = Counter()
                for key, amount in terms.expects:
                    if (line := self._books.line(donor, key)) is not None:
                        said[line] += amount
                told |= said
        told.update(expected)
        return told

    def forget(self) -> None:
        self._known.clear()
        self._owns.clear()

    def changed(self, quota: str) -> None:
        """Work of a quota begins to wait or to run, or ends to."""
        for donor, expects in [*self._known]:
            if quota in self._books.under(donor):
                del self._known[donor, expects]
                self._owns.pop(donor, None)

    def lacking(
        self,
        terms: Terms,
        needs: Mapping[Key, Need],
        *,
        without: Collection[str] = (),
        beside: Placed | None = None,
    ) -> int:
        """How much is missing in members for the donor to survive the loss of a cluster."""
        if self._members is None or terms.keep_floor != "SurvivesLossOfOneCluster":
            return 0
        donor = terms.donor
        there = self._members.free(donor, without=without, beside=beside)
        free = self._books.by_cluster(donor, there)
        ours, coming = self._own(donor)
        return max(
            sum(max(0, short_of(need, free[key])) for key, need in needs.items() if key in free),
            self._members.unseated(donor, ours=ours, coming=coming, without=without, beside=beside),
        )

    def _own(self, donor: str) -> tuple[list[Placed], list[str]]:
        """What of the donor's has a place, and what waits."""
        known = self._owns.get(donor)
        if known is None:
            under = self._books.under(donor)
            ours = [r.placed for r in self._engine.running().values() if r.item.quota in under]
            coming = [item.uid for item, _ in self._engine.waiting() if item.quota in under]
            known = self._owns[donor] = ours, coming
        return known
