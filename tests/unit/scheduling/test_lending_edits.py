"""What becomes of loans whose quotas or policies are edited: no loan is forgotten, none outlives
what it rests on without notice, and what is none any more is told so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fleet.scheduling.engine import Engine
from fleet.scheduling.lending.books import Books
from fleet.scheduling.lending.desk import Desk
from fleet.scheduling.lending.loans import Lend, Recall, Renew, Return, Settle
from fleet.scheduling.lending.terms import Terms
from fleet.scheduling.placer import Item, Placed
from fleet.scheduling.quota.tree import Key, Node, Share, Tree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

ANY = Key("nvidia.com/gpu")
GPU = Key("nvidia.com/gpu", "h200")
NOTICE_S = 20.0
NIGHT = Terms(
    "night", "serving", ("research",), keep_floor="None", term_s=100, notice_s=NOTICE_S
)  # fmt: skip
DAY = Terms("day", "serving", ("cv",), keep_floor="None", term_s=100, notice_s=NOTICE_S)


class Anywhere:
    def place(self, item: Item, *, without: Collection[str] = (), quick: bool = False) -> Placed:
        return Placed(None, {"east": dict(item.requests)})

    def take(self, uid: str, placed: Placed) -> None: ...

    def give(self, uid: str) -> None: ...


def tree(
    parents: Mapping[str, str] | None = None, *, key: Key | None = GPU, **guaranteed: int
) -> Tree:  # fmt: skip
    """A company of 64 with quotas below it, of which cv lends nothing; `parents` of those that
    are not right below."""
    parents = parents or {}
    given = {"serving": 24, "research": 8, "cv": 0} | guaranteed
    return Tree.of([
        Node("company", "", {} if key is None else {key: Share(64)}),
        *(
            Node(
                name,
                parents.get(name, "company"),
                {} if key is None else {key: Share(amount, lendable=0 if name == "cv" else None)},
            )
            for name, amount in given.items()
        ),
    ])  # fmt: skip


class Play:
    """Research has eight of its own in use, and 16 of serving on loan in two gangs of eight."""

    def __init__(self, *terms: Terms, quotas: Tree | None = None) -> None:
        self.terms: tuple[Terms, ...] = terms or (NIGHT,)
        quotas = quotas or full()
        self.engine = Engine(quotas, Anywhere())
        self.desk = Desk(self.engine, Anywhere(), quotas, self.terms)
        for number, uid in enumerate(("own", "first", "second")):
            item = Item(uid, "research", 0, number, {GPU: 8}, 8)
            self.engine.submit(item, 0)
            self.step(0)
        assert self.desk.loans.keys() == {"first", "second"}

    def change(self, quotas: Tree | None = None, *terms: Terms) -> None:
        self.terms = terms or self.terms
        self.desk.change(quotas or self.desk.tree, self.terms)

    def step(self, now: float) -> list[Any]:
        decided = self.desk.step(now)
        self.engine.verify()
        again = self.desk.step(now)
        assert [each for each in again if not isinstance(each, Lend)] == []
        return decided

    def move(self, uid: str, quota: str) -> None:
        """The namespace of running work comes to be counted by another quota."""
        run = self.engine.running()[uid]
        self.engine.finish(uid)
        self.engine.adopt(replace(run.whole, quota=quota), run.placed, run.started_s)


def full(**given: int) -> Tree:
    """Nothing is left beyond what is guaranteed."""
    return tree(serving=24, research=8, cv=32, **given)


def uids(decided: Iterable[Any], kind: type[Any]) -> list[str]:
    return sorted(each.uid for each in decided if isinstance(each, kind))


def why(decided: Iterable[Any]) -> set[str]:
    return {each.why for each in decided if isinstance(each, Recall)}


@pytest.mark.parametrize(("left", "gone"), [(16, 0), (8, 1), (1, 2), (0, 2)])
def test_a_donor_that_is_guaranteed_less_calls_back_what_it_lent_beyond(
    left: int, gone: int
) -> None:
    play = Play()
    play.change(tree(serving=left, research=8, cv=56 - left))
    decided = play.step(10)
    assert uids(decided, Recall) == ["first", "second"][:gone]
    assert {each.loan.ends_s for each in decided if isinstance(each, Recall)} <= {10 + NOTICE_S}
    assert len(uids(play.step(10 + NOTICE_S), Return)) == gone
    assert play.engine.book.cell("serving", GPU).lends == 16


def test_what_is_on_loan_under_no_guarantee_is_in_the_account_of_its_donor() -> None:
    play = Play()
    play.change(tree(serving=0, research=8, cv=56))
    (account,) = play.desk.accounts()
    assert (account.guaranteed, account.lendable, account.lent) == (0, 0, 16)
    assert play.desk.standing(NIGHT) == "Short"
    play.step(10)
    assert play.desk.standing(NIGHT) == "CalledBack"


def test_what_no_line_counts_any_more_is_on_loan_no_more() -> None:
    play = Play()
    play.change(tree(key=None))
    assert uids(play.step(10), Settle) == ["first", "second"]
    assert not play.desk.loans and len(play.engine.running()) == 3


@pytest.mark.parametrize(("before", "after"), [(GPU, ANY), (ANY, GPU)])
def test_a_loan_goes_over_to_the_line_that_counts_the_work(before: Key, after: Key) -> None:
    play = Play(quotas=full(key=before))  # type: ignore[arg-type]
    assert play.desk.on_loan("serving") == {before: 16}
    play.change(full(key=after))  # type: ignore[arg-type]
    assert play.step(10) == []
    assert play.desk.on_loan("serving") == {after: 16}
    assert play.engine.book.cell("serving", after).lends == 16


def test_a_borrower_that_its_policy_names_no_more_gives_back_with_notice() -> None:
    play = Play()
    play.change(None, replace(NIGHT, borrowers=("cv",)))
    decided = play.step(10)
    assert uids(decided, Recall) == ["first", "second"]
    assert why(decided) == {"night does not lend what serving has to research any more"}
    assert uids(play.step(10 + NOTICE_S), Return) == ["first", "second"]


def test_a_policy_that_lends_for_another_renews_no_loan_of_the_first() -> None:
    play = Play()
    play.change(None, replace(NIGHT, donor="cv"), DAY)
    decided = play.step(90)
    assert uids(decided, Renew) == []
    assert uids(decided, Recall) == ["first", "second"]


def test_two_policies_of_a_donor_are_told_apart() -> None:
    play = Play(NIGHT, DAY)
    play.change(None, DAY)
    decided = play.step(10)
    assert why(decided) == {"the policy by which it was lent is gone"}


@pytest.mark.parametrize(("quota", "recalled"), [("labs", False), ("cv", True)])
def test_a_loan_follows_its_work_to_another_quota(quota: str, recalled: bool) -> None:
    both = full()
    labs = Tree.of([*both.nodes.values(), Node("labs", "research", {GPU: Share(0)})])
    play = Play(quotas=labs)
    play.move("first", quota)
    if quota == "cv":  # its own quota is in use
        play.engine.adopt(Item("c", "cv", 0, 9, {GPU: 32}, 32), Placed(None, {}), 0)
    assert uids(play.step(10), Recall) == (["first"] if recalled else [])
    assert play.desk.loans["first"].to == quota


def test_a_loan_is_none_where_the_work_comes_to_be_the_donors_own() -> None:
    play = Play()
    play.move("first", "serving")
    assert uids(play.step(10), Settle) == ["first"]
    assert play.desk.on_loan("serving") == {GPU: 8}
    assert uids(play.step(20), Recall) == []


def test_a_loan_is_none_where_no_quota_counts_the_work() -> None:
    play = Play()
    play.move("first", "")
    assert uids(play.step(10), Settle) == ["first"]


@pytest.mark.parametrize("when", [15, 10 + NOTICE_S])
def test_a_borrower_that_comes_below_its_donor_in_the_middle_of_a_notice_goes_on(
    when: float,
) -> None:
    play = Play()
    play.change(None, replace(NIGHT, borrowers=("cv",)))
    play.step(10)
    play.change(tree({"research": "serving"}, serving=32, research=8, cv=32))
    decided = play.step(when)
    assert uids(decided, Settle) == ["first", "second"]
    assert uids(decided, Return) == []
    assert not any(run.leaving_for for run in play.engine.running().values())


def test_a_borrower_that_comes_into_another_tree_gives_back_with_notice() -> None:
    play = Play()
    apart = Tree.of([
        Node("company", "", {GPU: Share(56)}),
        Node("serving", "company", {GPU: Share(24)}),
        Node("cv", "company", {GPU: Share(32, lendable=0)}),
        Node("research", "", {GPU: Share(8)}),
    ])  # fmt: skip
    play.change(apart)
    assert uids(play.step(10), Recall) == ["first", "second"]
    assert uids(play.step(10 + NOTICE_S), Return) == ["first", "second"]


def test_what_a_donor_needs_is_counted_once_for_all_loans_of_a_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[str] = []
    needs = Books.needs

    def count(self: Books, donor: str, *given: Any, **more: Any) -> Any:
        counted.append(donor)
        return needs(self, donor, *given, **more)

    play = Play(quotas=tree(serving=24, research=8, cv=32))
    for number in range(8):
        play.engine.submit(Item(f"w{number}", "research", 0, 10 + number, {GPU: 1}, 1), 1)
    monkeypatch.setattr(Books, "needs", count)
    assert len(uids(play.desk.step(1), Lend)) == 8
    assert len(counted) <= 2, "before the engine has decided, and after"


def test_a_borrower_that_lends_as_well_needs_what_it_was_lent() -> None:
    """What is kept for one donor is not what it was before another lent to it."""
    day = Terms("day", "research", ("cv",), keep_floor="None", term_s=100, notice_s=NOTICE_S)
    play = Play(NIGHT, day)
    play.engine.submit(Item("more", "research", 0, 9, {GPU: 8}, 8), 1)
    assert uids(play.step(1), Lend) == ["more"]
    account = next(each for each in play.desk.accounts() if each.donor == "research")
    assert account.floor == 8, "all that is guaranteed to it"
