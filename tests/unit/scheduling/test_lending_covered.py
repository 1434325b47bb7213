"""No work is ended for a loan that its own quota covers, however quotas were changed meanwhile."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from fleet.scheduling.engine import Engine
from fleet.scheduling.lending.desk import Desk
from fleet.scheduling.lending.loans import Recall, Return, Settle
from fleet.scheduling.lending.terms import Terms
from fleet.scheduling.placer import Item, Placed
from fleet.scheduling.quota.tree import Key, Node, Share, Tree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

GPU = Key("nvidia.com/gpu", "h200")
NOTICE_S = 20.0
NIGHT = Terms("night", "serving", ("research",), keep_floor="None", notice_s=NOTICE_S)


class Anywhere:
    def place(self, item: Item, *, without: Collection[str] = (), quick: bool = False) -> Placed:
        return Placed(None, {"east": dict(item.requests)})

    def take(self, uid: str, placed: Placed) -> None: ...

    def give(self, uid: str) -> None: ...


def tree(*, company: int = 64, limits: dict[str, int] | None = None, **guaranteed: int) -> Tree:
    limits = limits or {}
    return Tree.of([
        Node("company", "", {GPU: Share(company)}),
        *(
            Node(name, "company", {GPU: Share(amount, limit=limits.get(name))})
            for name, amount in guaranteed.items()
        ),
    ])  # fmt: skip


class Play:
    def __init__(self, quotas: Tree, *terms: Terms) -> None:
        self.terms = terms
        self.engine = Engine(quotas, Anywhere())
        self.desk = Desk(self.engine, Anywhere(), quotas, terms)
        self.made = 0

    def submit(self, quota: str, size: int, now: float = 0, uid: str = "") -> None:
        self.made += 1
        item = Item(uid or f"w{self.made}", quota, 0, self.made, {GPU: size}, size)
        self.engine.submit(item, now)

    def change(self, quotas: Tree) -> None:
        self.desk.change(quotas, self.terms)

    def step(self, now: float) -> list[Any]:
        return self.desk.step(now)


def uids(decided: Iterable[Any], kind: type[Any]) -> list[str]:
    return [each.uid for each in decided if isinstance(each, kind)]


def called_back() -> Play:
    """Research has 24 of its own in use and 32 on loan, of which 24 are called back."""
    play = Play(tree(serving=40, research=24), NIGHT)
    for uid, size in (("own", 24), ("pretrain", 24), ("sweep", 8)):
        play.submit("research", size, uid=uid)
        play.step(0)
    assert play.desk.on_loan("serving") == {GPU: 32}
    play.change(tree(company=32, serving=8, research=24))
    assert uids(play.step(10), Recall) == ["pretrain"]
    return play


def test_loans_are_settled_that_are_larger_than_what_the_donor_has_left() -> None:
    play = called_back()
    play.change(tree(serving=8, research=56))
    assert sorted(uids(play.step(20), Settle)) == ["pretrain", "sweep"]
    assert uids(play.step(10 + NOTICE_S), Return) == []
    assert len(play.engine.running()) == 3 and not play.desk.loans
    play.engine.verify()


def test_what_a_quota_above_has_for_all_covers_as_well() -> None:
    play = called_back()
    play.change(tree(serving=8, research=24))
    assert sorted(uids(play.step(20), Settle)) == ["pretrain", "sweep"]


def test_loans_are_settled_where_use_reaches_the_limit() -> None:
    play = called_back()
    play.change(tree(serving=8, research=56, limits={"research": 56}))
    assert sorted(uids(play.step(20), Settle)) == ["pretrain", "sweep"]


def test_what_comes_to_be_covered_as_its_notice_ends_goes_on() -> None:
    play = called_back()
    play.change(tree(serving=8, research=56))
    decided = play.step(10 + NOTICE_S)
    assert sorted(uids(decided, Settle)) == ["pretrain", "sweep"]
    assert uids(decided, Return) == []


def test_only_as_much_is_settled_as_is_covered() -> None:
    play = called_back()
    play.change(tree(company=48, serving=8, research=40))
    assert uids(play.step(20), Settle) == []
    assert uids(play.step(10 + NOTICE_S), Return) == ["pretrain"]
    play.engine.finish("pretrain")
    assert uids(play.step(31), Settle) == ["sweep"]
    play.engine.verify()


def test_a_guarantee_covers_before_what_others_leave_idle() -> None:
    both = Terms("night", "serving", ("research", "cv"), keep_floor="None", notice_s=NOTICE_S)
    play = Play(tree(serving=32, research=16, cv=16), both)
    for now, (uid, quota) in enumerate(
        [("r", "research"), ("c", "cv"), ("older", "research"), ("mine", "cv")]
    ):
        play.submit(quota, 16, now, uid)
        play.step(now)
    assert play.desk.loans.keys() == {"older", "mine"}
    play.change(tree(serving=8, research=16, cv=40))
    play.step(10)
    assert play.desk.loans.keys() == {"older"}


# Every history

NAMES = ("serving", "labs", "research", "cv")
BORROW = Terms("night", "serving", ("research", "cv", "labs"), keep_floor="None", notice_s=NOTICE_S)
LABS = Terms("day", "labs", ("research", "cv"), keep_floor="None", notice_s=2 * NOTICE_S)


def shares(draw: random.Random) -> dict[str, int]:
    """64 among four, some for each."""
    cuts = sorted(draw.sample(range(1, 16), 3))
    return {
        name: 4 * (high - low)
        for name, low, high in zip(NAMES, [0, *cuts], [*cuts, 16], strict=True)
    }


def own_use(play: Play) -> dict[str, int]:
    """What each has in use or held for it, but for what is on loan."""
    own = {name: play.engine.book.cell(name, GPU).used for name in NAMES}
    for loan in play.desk.loans.values():
        own[loan.to] -= loan.amounts[GPU]
    return own


@pytest.mark.parametrize("seed", range(150))
def test_no_work_is_ended_for_a_loan_that_its_own_quota_covers(seed: int) -> None:
    """Where nobody else uses more than is guaranteed to them, which is for reclaim to mend."""
    draw = random.Random(seed)
    given = shares(draw)
    play = Play(tree(**given), BORROW, LABS)
    now = 0.0
    for _ in range(60):
        match draw.choice(["submit", "submit", "finish", "change", "wait", "wait"]):
            case "submit":
                play.submit(draw.choice(NAMES), draw.randint(1, 24), now)
            case "finish" if running := sorted(play.engine.running()):
                play.engine.finish(draw.choice(running))
            case "change":
                given = shares(draw)
                play.change(tree(**given))
            case "wait":
                now += draw.choice([1, NOTICE_S])
        decided = play.step(now)
        own = own_use(play)
        play.engine.verify()
        sound = all(own[name] <= given[name] for name in NAMES)
        for each in decided:
            if isinstance(each, Return) and sound:
                loan = each.loan
                assert own[loan.to] + loan.amounts[GPU] > given[loan.to], each
        for uid in uids(decided, Return):
            play.engine.evicted(uid, now)
