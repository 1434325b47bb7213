"""Loans over an engine: what is idle goes out, what is needed comes back.

The engine decides by its quota tree; donors lend by loans only, so in the tree a donor lends what
is on loan, no more. A turn at the desk: what is short of its floor is called back, terms end or
are renewed, the engine decides, and then what donors leave idle is given, gang by gang, to work
that the engine left waiting. Everything is read anew from what runs and waits, so loans outlive the
desk at the work that has them (`loans`); a second turn at the same time decides nothing more.

Recall replaces reclaim: a donor's own work, where it is short, waits for the notice to be over
instead of evicting borrowers, and the floor is there so that it need not wait. Next step: the
gateway acts on what `step` says; `simulation` and the bench do in virtual time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from fleet.scheduling.decisions import Refuse
from fleet.scheduling.lending import filling, recall
from fleet.scheduling.lending.books import Books, by_loans
from fleet.scheduling.lending.classes import class_of
from fleet.scheduling.lending.covering import covered
from fleet.scheduling.lending.floor import floor, lendable
from fleet.scheduling.lending.floors import Floors
from fleet.scheduling.lending.loans import Lend, Loan, Recall, Renew, Return, Settle
from fleet.scheduling.placer import Placed
from fleet.scheduling.quota.book import Book, most_ever, room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fleet.scheduling.decisions import Admit, Decision
    from fleet.scheduling.engine import Engine
    from fleet.scheduling.lending.floors import Members
    from fleet.scheduling.lending.loans import LoanDecision
    from fleet.scheduling.lending.recall import Borrowed
    from fleet.scheduling.lending.terms import Terms
    from fleet.scheduling.placer import Item, Placer
    from fleet.scheduling.queue.running import Run
    from fleet.scheduling.quota.tree import Key, Tree

AGING_S: Final = 6 * 3600.0
NOT_LENT_ANY_MORE: Final = "the policy by which it was lent is gone"
NOT_LENT_TO_IT: Final = "{policy} does not lend what {donor} has to {to} any more"
TERM_OVER: Final = "its term ends and the policy does not renew"
NEEDED: Final = "{donor} needs it"


class Account(NamedTuple):
    """Of one donor and key: what it is guaranteed, and of that keeps, may lend, and has lent."""

    policy: str
    donor: str
    key: Key
    guaranteed: int
    floor: int
    lendable: int
    lent: int


class Desk:
    """`members`: without them nobody looks in which clusters the spare of a donor is. `aging_s`:
    after this time of waiting a gang that only a loan can start is lent to before all others.
    """

    def __init__(
        self,
        engine: Engine,
        placer: Placer,
        tree: Tree,
        terms: Iterable[Terms],
        *,
        loans: Iterable[Loan] = (),
        members: Members | None = None,
        aging_s: float = AGING_S,
    ) -> None:
        """`tree` is that of the FleetQuotas; the engine's is made of it. `loans` are those that
        stand at what the engine has adopted.
        """
        self.engine = engine
        self.loans: dict[str, Loan] = {loan.uid: loan for loan in loans}
        self._placer = placer
        self._members = members
        self._aging_s = aging_s
        self._since: dict[str, float] = {}
        """Since when each waits for quota. What is seen for the first time has done nothing else:
        so a desk that is made anew makes nobody begin again."""
        self._seen: frozenset[str] = frozenset()
        self._is_new = True
        """The engine collects nothing for those that wait until it has decided once."""
        self._set(tree, terms)

    def change(self, tree: Tree, terms: Iterable[Terms]) -> None:
        """FleetQuotas or LendingPolicies were changed; what is on loan goes on by the new terms."""
        self._set(tree, terms)

    def hold(self, loans: Iterable[Loan]) -> None:
        """What is on loan, as it stands at the work that the engine knows of: what was decided and
        could not be written down was not decided.
        """
        self.loans = {loan.uid: loan for loan in loans}
        self._floors.forget()

    def fork(self, engine: Engine, placer: Placer, *, members: Members | None) -> Desk:
        """A desk with the same loans over a fork of the engine: for asking without acting."""
        other = Desk(
            engine,
            placer,
            self.tree,
            self.terms,
            loans=self.loans.values(),
            members=members,
            aging_s=self._aging_s,
        )
        other._since, other._seen = dict(self._since), self._seen
        return other

    def next_s(self) -> float | None:
        """When `step` should be asked again even if nothing happens."""
        times = [
            loan.ends_s if loan.ends_s is not None else loan.due_s
            for loan in self.loans.values()
            if not loan.ending
        ]
        again = self.engine.next_s()
        return min(times + ([again] if again is not None else []), default=None)

    def step(
        self, now: float, *, expected: Mapping[str, Mapping[Key, int]] | None = None
    ) -> list[Decision | LoanDecision]:
        """Everything returned is in the state already.

        `expected`: what donors are about to need beyond what their work has and waits for.
        """
        out: list[Decision | LoanDecision] = []
        self._floors.forget()
        out += self._follow()
        self._put()
        if not self._is_new:
            out += self._settle(lambda loan: loan.recalled)
        out += self._call_back(now, expected or {})
        out += self._settle_due(now)
        out += self._end_terms(now)
        self._put()
        decided = self.engine.step(now)
        self._is_new = False
        self._floors.forget()
        back = self._follow()
        back += self._settle(lambda loan: loan.recalled)
        back += self._settle(lambda loan: not loan.recalled)
        back += self._call_back(now, expected or {})
        refused = {each.uid: each.item for each in decided if _may_be_lent_to(each)}
        for item in refused.values():
            self.engine.submit(item, now)
            self._floors.changed(item.quota)
        lent = self._fill(now, expected or {})
        for uid in refused.keys() - self.loans.keys():
            self.engine.withdraw(uid)
            self._floors.changed(refused[uid].quota)
        out += [each for each in decided if each.uid not in refused or each.uid not in self.loans]
        # Who was lent to may be a donor too, which needs more of a spare for what it has.
        return out + back + lent + (self._call_back(now, expected or {}) if lent else [])

    def on_loan(self, donor: str) -> Counter[Key]:
        found: Counter[Key] = Counter()
        for loan in self.loans.values():
            if loan.donor == donor:
                found.update(loan.amounts)
        return found

    def keys_of(self, donor: str) -> list[Key]:
        """What a donor is guaranteed any of."""
        return self._books.keys_of(donor)

    def accounts(self) -> list[Account]:
        """By policy and key: what its donor keeps, and what it could lend."""
        found = []
        for terms in self.terms:
            out = self.on_loan(terms.donor)
            for key, need in sorted(self._floors.needs(terms, None).items()):
                keeps, most = floor(terms, need), lendable(terms, need)
                who = terms.name, terms.donor, key
                found.append(Account(*who, need.guaranteed, keeps, most, out[key]))
        return found

    def standing(self, terms: Terms) -> Literal["Kept", "CalledBack", "Short"]:
        """Whether a donor has what it keeps: it has, it will once the notices that run are over, or
        there is nothing more to be called back for it.
        """
        if not self._floors.shortage(terms, (), None)(()):
            return "Kept"
        leaving = [each for each in self._borrowed(terms, 0.0) if each.leaves]
        return "Short" if self._floors.shortage(terms, leaving, None)(()) else "CalledBack"

    def work_of(self, quota: str) -> str:
        """The lending class of a quota's work, "" where that shares nodes with others."""
        return class_of(quota, self.tree, self.terms)

    # What there is

    def _set(self, tree: Tree, terms: Iterable[Terms]) -> None:
        self.tree = tree
        self.terms = sorted(
            (each for each in terms if each.donor in tree.nodes), key=lambda each: each.name
        )
        self._books = Books(self.engine, tree)
        self._floors = Floors(
            self.engine, self._books, tree, self.terms, self._members, lent=self.on_loan
        )
        self._alone = Book(by_loans(tree, {each.donor: {} for each in self.terms}, ever=False))
        self._is_new = True
        lent = by_loans(tree, {each.donor: {} for each in self.terms})
        if lent != self.engine.book.tree:
            self.engine.quota_changed(lent)

    def _put(self) -> None:
        """What is on loan, into the engine's books."""
        for donor in sorted({each.donor for each in self.terms}):
            out, root = self.on_loan(donor), self.tree.path(donor)[-1].name
            self.engine.lend(donor, {key: out[key] for key in self.tree.keys[root]})

    def _follow(self) -> list[LoanDecision]:
        """Loans of what has ended are none, and of what holds less than it did smaller. Work that
        counts at another quota, or under another line, takes its loan there; where that quota is
        the donor's own, or no line counts what is on loan, it is none. What goes for a loan goes
        for nobody else.
        """
        running = self.engine.running()
        over: list[Loan] = []
        for uid, loan in [*self.loans.items()]:
            run = running.get(uid)
            if run is None:
                del self.loans[uid]
                continue
            is_own = run.item.quota in self._books.under(loan.donor)
            held = {} if is_own else self._still_held(loan, run)
            if not held:
                over.append(loan)
            elif (held, run.item.quota) != (loan.amounts, loan.to):
                self.loans[uid] = loan = replace(loan, amounts=held, to=run.item.quota)
            if loan.recalled and not run.leaving_for:
                run.leaving_for = loan.mark
        found: list[LoanDecision] = []
        for loan in over:
            if loan.ending:
                del self.loans[loan.uid]
            else:
                found.append(self._settled(loan, covered=True))
        return found

    def _still_held(self, loan: Loan, run: Run) -> dict[Key, int]:
        """What of a loan the work holds, by the lines that count it."""
        at, left = run.item.quota, run.item.requests
        held: Counter[Key] = Counter()
        for key, amount in loan.amounts.items():
            lines = [key]
            if not self._books.counted(at, key, run.whole.requests):
                same = (each for each in run.whole.requests if each.resource == key.resource)
                lines = [line for each in same if (line := self._books.line(at, each)) is not None]
            for line in dict.fromkeys(lines):
                more = min(amount, self._books.counted(at, line, left) - held[line])
                if more > 0:
                    held[line] += more
                    amount -= more
        return dict(held)

    # Back

    def _settle(
        self, of: Callable[[Loan], bool], leaving: Sequence[Loan] = ()
    ) -> list[LoanDecision]:
        """What the borrower's own quota covers is no loan; nor is what a donor without a policy
        lends, as any quota does.

        Before the engine decides, that saves work which was called back; after, it is what nobody
        else had a use for.
        """
        there = [loan for loan in self.loans.values() if not loan.ending and of(loan)]
        if not there:
            return []
        donors = {terms.donor for terms in self.terms}
        found = [loan for loan in there if loan.donor not in donors]
        among = [loan for loan in there if loan.donor in donors]
        found += covered(self.engine.book, self.loans.values(), among, leaving=leaving)
        told: list[LoanDecision] = [
            self._settled(loan, covered=loan.donor in donors) for loan in found
        ]
        self._put()
        return told

    def _settled(self, loan: Loan, *, covered: bool) -> Settle:
        del self.loans[loan.uid]
        run = self.engine.running()[loan.uid]
        if run.leaving_for == loan.mark:
            run.leaving_for = ""
        return Settle(loan, covered=covered)

    def _settle_due(self, now: float) -> list[LoanDecision]:
        """What would be ended next: what has to go does not stand against what need not."""
        leaving = [each for each in self.loans.values() if each.recalled]
        return self._settle(lambda loan: loan.ends_s is not None and loan.ends_s <= now, leaving)

    def _call_back(
        self, now: float, expected: Mapping[str, Mapping[Key, int]]
    ) -> list[LoanDecision]:
        out: list[LoanDecision] = []
        for terms in self.terms:
            if terms.closed:
                continue
            there = self._borrowed(terms, now)
            lent = [each for each in there if not each.leaves]
            if not lent:
                continue
            leaving = [each for each in there if each.leaves]
            short = self._floors.shortage(terms, leaving, expected.get(terms.donor))
            ordered = recall.in_order(lent, terms, now)
            why = NEEDED.format(donor=terms.donor)
            out += [self._recall(each.loan, now, why) for each in recall.fewest(ordered, short)]
        donors, known = {t.donor for t in self.terms}, {t.name for t in self.terms}
        for loan in self._in_time(lambda loan: loan.donor in donors and not self._lends(loan)):
            told = NOT_LENT_TO_IT if loan.policy in known else NOT_LENT_ANY_MORE
            why = told.format(policy=loan.policy, donor=loan.donor, to=loan.to)
            out.append(self._recall(loan, now, why))
        return out

    def _lends(self, loan: Loan) -> bool:
        """Whether its policy would lend it yet: it may have come to name others."""
        return any(
            terms.name == loan.policy
            and terms.donor == loan.donor
            and self._books.beside(loan.to, loan.donor)
            and (
                terms.closed or any(loan.to in self._books.under(name) for name in terms.borrowers)
            )
            for terms in self.terms
        )

    def _end_terms(self, now: float) -> list[LoanDecision]:
        out: list[LoanDecision] = []
        by_name = {terms.name: terms for terms in self.terms}
        for loan in self._in_time(lambda loan: loan.policy in by_name and now >= loan.due_s):
            terms = by_name[loan.policy]
            if terms.renew:
                until_s = max(loan.until_s, now) + terms.term_s
                renewed = replace(loan, until_s=until_s, renewals=loan.renewals + 1)
                self.loans[loan.uid] = renewed
                out.append(Renew(renewed))
            else:
                out.append(self._recall(loan, now, TERM_OVER))
        for loan in sorted(self.loans.values(), key=lambda each: (each.ends_s or 0, each.uid)):
            if loan.ends_s is not None and loan.ends_s <= now and not loan.ending:
                self.loans[loan.uid] = ending = replace(loan, ending=True)
                out.append(Return(ending))
        return out

    def _recall(self, loan: Loan, now: float, why: str) -> Recall:
        told = replace(loan, recalled_s=now, ends_s=now + loan.notice_s, why=why)
        self.loans[loan.uid] = told
        run = self.engine.running()[loan.uid]
        run.leaving_for = run.leaving_for or told.mark
        return Recall(told)

    def _in_time(self, of: Callable[[Loan], bool]) -> list[Loan]:
        """Loans that were not called back, in order."""
        there = [loan for loan in self.loans.values() if not (loan.recalled or loan.ending)]
        found = [loan for loan in there if of(loan)]
        return sorted(found, key=lambda loan: (loan.until_s, loan.uid))

    def _borrowed(self, terms: Terms, now: float) -> list[Borrowed]:
        found = []
        for loan in self.loans.values():
            if loan.donor != terms.donor:
                continue
            run = self.engine.running()[loan.uid]
            lost = run.weight * run.lost_s(now)
            leaves = bool(run.leaving_for)
            found.append(recall.Borrowed(loan, run.item.priority, lost, leaves))
        return found

    # Out

    def _fill(
        self, now: float, expected: Mapping[str, Mapping[Key, int]]
    ) -> list[LoanDecision | Admit]:
        out: list[LoanDecision | Admit] = []
        if not self.terms:  # nobody lends: as with a desk that is made anew
            self._since, self._seen = {}, frozenset()
            return out
        there = list(self.engine.waiting())
        waiting = [
            item for item, why in there if why is None or why.reason in ("Quota", "AboveLimit")
        ]
        self._since = {
            item.uid: self._since.get(item.uid, now)
            if item.uid in self._seen
            else self.engine.since(item.uid)
            for item in waiting
        }
        self._seen = frozenset(item.uid for item, _ in there)
        passed: set[str] = set()
        for terms in self.terms:
            while waiting and not terms.closed:
                lent = self._lend_one(terms, waiting, passed, now, expected.get(terms.donor))
                if lent is None:
                    break
                waiting = [item for item in waiting if item.uid != lent.uid]
                out.append(lent)
        return out

    def _lend_one(
        self,
        terms: Terms,
        waiting: Iterable[Item],
        passed: set[str],
        now: float,
        expected: Mapping[Key, int] | None,
    ) -> Lend | Admit | None:
        needs = self._floors.needs(terms, expected)
        most = {key: lendable(terms, need) for key, need in needs.items()}
        out = self.on_loan(terms.donor)
        rest = {key: amount - out[key] for key, amount in most.items()}
        if not any(amount > 0 for amount in rest.values()):
            return None
        found = [
            each
            for item in waiting
            if item.uid not in passed and (each := self._candidate(item, terms, now)) is not None
        ]
        for each in filling.in_order(found, terms, rest, most):
            placed = self._placer.place(each.item)
            if isinstance(placed, Placed) and not self._floors.lacking(terms, needs, beside=placed):
                lent = self._lend(terms, each, placed, now)
                if lent is not None:
                    return lent
            passed.add(each.item.uid)
        return None

    def _lend(
        self, terms: Terms, candidate: filling.Candidate, placed: Placed, now: float
    ) -> Lend | Admit | None:
        item = candidate.item
        until_s = now + terms.term_s
        loan = Loan(
            item.uid,
            terms.name,
            terms.donor,
            item.quota,
            candidate.short,
            since_s=now,
            until_s=until_s,
            notice_s=terms.notice_s,
        )
        self.loans[item.uid] = loan
        self._put()
        admitted = self.engine.start(item.uid, placed, now)
        if admitted is None:
            del self.loans[item.uid]
            self._put()
            return None
        self._floors.changed(item.quota)
        held = self._uncovered(item, admitted, candidate.short)
        if held != loan.amounts:
            self.loans[item.uid] = loan = replace(loan, amounts=held)
            if not held:
                del self.loans[item.uid]
            self._put()
        if not held:
            return admitted
        return Lend(admitted.item, admitted.placed, admitted.requests, loan)

    def _uncovered(self, item: Item, admitted: Admit, short: Mapping[Key, int]) -> dict[Key, int]:
        """What its own quota does not cover of one that started: an elastic gang, smaller."""
        found = {}
        for key, amount in short.items():
            asked = self._books.counted(item.quota, key, item.requests)
            less = asked - self._books.counted(item.quota, key, admitted.requests)
            if amount > less:
                found[key] = amount - less
        return found

    def _candidate(self, item: Item, terms: Terms, now: float) -> filling.Candidate | None:
        """None where it may not borrow of the donor, or has no need to."""
        rank = next(
            (
                number
                for number, name in enumerate(terms.borrowers)
                if item.quota in self._books.under(name)
            ),
            None,
        )
        if rank is None or not self._books.beside(item.quota, terms.donor):
            return None
        short: dict[Key, int] = {}
        held = self._held(item)
        for path, amount in self.engine.book.ask(item.quota, item.requests.items()):
            key = path[0].key
            if amount > (own := room(path) + held.get(key, 0)):
                short[key] = amount - own
        if not short:
            return None
        starved = now - self._since[item.uid] >= self._aging_s and any(
            amount > most_ever(path)
            for path, amount in self._alone.ask(item.quota, item.requests.items())
        )
        return filling.Candidate(item, rank, short, starved)

    def _held(self, item: Item) -> dict[Key, int]:
        charge = self.engine.book.charges.get(item.uid)
        return dict(charge.amounts) if charge is not None and charge.earmark else {}


def _may_be_lent_to(decision: Decision) -> bool:
    """A service does not wait for quota; but it need not be refused what is idle elsewhere."""
    return isinstance(decision, Refuse) and decision.why.reason == "Quota"
