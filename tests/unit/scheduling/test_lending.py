"""Loans over an engine: who is lent to, what is never lent, how loans end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import Invalid
from fleet.scheduling.decisions import Admit, Preempt, Refuse, Wait
from fleet.scheduling.engine import Engine
from fleet.scheduling.lending.desk import Desk
from fleet.scheduling.lending.filling import lenders
from fleet.scheduling.lending.floor import Need, floor, lacking
from fleet.scheduling.lending.loans import Lend, Recall, Renew, Return, Settle
from fleet.scheduling.lending.terms import Terms, terms_of
from fleet.scheduling.placer import Item, Placed, Unplaced
from fleet.scheduling.quota.tree import Key, Node, Share, Tree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

GPU = Key("nvidia.com/gpu", "h200")
HOUR = 3600.0
NIGHT = Terms("night", "serving", ("nlp", "cv"), keep_floor="None")


class Members:
    """Accelerators of members by name; work asks for members, as many in each, or goes where most
    is free."""

    def __init__(self, **free: int) -> None:
        self.size = free
        self.taken: dict[str, Placed] = {}

    def left(self, without: Collection[str] = ()) -> dict[str, int]:
        left = dict(self.size)
        for uid, placed in self.taken.items():
            if uid not in without:
                for name, amounts in placed.clusters.items():
                    left[name] -= amounts[GPU]
        return left

    def place(
        self, item: Item, *, without: Collection[str] = (), quick: bool = False
    ) -> Placed | Unplaced:
        left, need = self.left(without), item.requests[GPU]
        wish = item.demand if isinstance(item.demand, dict) else None
        if wish is None:
            name = max(sorted(left), key=lambda each: left[each])
            wish = {name: need}
        if all(left[name] >= amount for name, amount in wish.items()):
            return Placed(None, {name: {GPU: amount} for name, amount in wish.items()})
        return Unplaced("no room", ever=True)

    def take(self, uid: str, placed: Placed) -> None:
        self.taken[uid] = placed

    def give(self, uid: str) -> None:
        self.taken.pop(uid, None)

    def free(
        self, donor: str, *, without: Collection[str] = (), beside: Placed | None = None
    ) -> Mapping[str, Mapping[Key, int]]:
        left = self.left(without)
        if beside is not None:
            for name, amounts in beside.clusters.items():
                left[name] -= amounts[GPU]
        return {name: {GPU: amount} for name, amount in left.items()}

    def unseated(self, donor: str, **more: Any) -> int:
        """As if pods were of one accelerator each."""
        return 0


def tree(serving: int = 24, nlp: int = 8, cv: int = 0, *, lendable: int | None = None) -> Tree:
    return Tree.of([
        Node("company", "", {GPU: Share(serving + nlp + cv)}),
        Node("serving", "company", {GPU: Share(serving, lendable=lendable)}),
        Node("nlp", "company", {GPU: Share(nlp)}),
        Node("cv", "company", {GPU: Share(cv)}),
    ])  # fmt: skip


class Play:
    """A desk, an engine and members, and what they were told to do."""

    def __init__(
        self, *terms: Terms, quotas: Tree | None = None, members: Members | None = None,
        looks: bool = False,
    ) -> None:  # fmt: skip
        self.members = members or Members(east=200, west=200)
        self.quotas = quotas or tree()
        self.engine = Engine(self.quotas, self.members)
        self.desk = Desk(
            self.engine, self.members, self.quotas, terms or [NIGHT],
            members=self.members if looks else None,
        )  # fmt: skip
        self.made = 0

    def item(
        self, uid: str, size: int, quota: str = "nlp", *, hours: float | None = 1,
        priority: int = 0, at: dict[str, int] | None = None, queues: bool = True,
    ) -> Item:  # fmt: skip
        self.made += 1
        return Item(
            uid, quota, priority, self.made, {GPU: size}, (size, str(at)),
            run_time_s=None if hours is None else hours * HOUR, demand=at, queues=queues,
        )  # fmt: skip

    def submit(self, uid: str, size: int, quota: str = "nlp", **more: Any) -> None:
        self.engine.submit(self.item(uid, size, quota, **more), 0)

    def step(self, now: float = 0, **more: Any) -> list[Any]:
        return self.desk.step(now, **more)

    def lent(self, now: float = 0, **more: Any) -> list[str]:
        return uids(self.step(now, **more), Lend)


def uids(decided: Iterable[Any], kind: type[Any]) -> list[str]:
    return [each.uid for each in decided if isinstance(each, kind)]


# What is lent


def test_own_quota_is_used_before_anything_is_lent() -> None:
    play = Play()
    play.submit("own", 8)
    play.submit("more", 8)
    decided = play.step()
    assert uids(decided, Admit) == ["own"]
    assert uids(decided, Lend) == ["more"]
    loan = play.desk.loans["more"]
    assert (loan.donor, loan.to, loan.amounts) == ("serving", "nlp", {GPU: 8})
    assert (loan.since_s, loan.until_s) == (0, 4 * HOUR)


def test_only_what_the_own_quota_does_not_cover_is_on_loan() -> None:
    play = Play(quotas=tree())
    play.submit("half", 12)
    play.step()
    assert play.desk.loans["half"].amounts == {GPU: 4}


def test_what_is_lent_counts_as_lent_and_borrowed_in_the_lines_of_fleet_quota() -> None:
    play = Play()
    for uid in ("own", "other"):
        play.submit(uid, 8)
    play.step()
    lines = {line.node: line for line in play.engine.report()}
    assert (lines["nlp"].used, lines["nlp"].borrowed) == (16, 8)
    assert (lines["serving"].used, lines["serving"].lent, lines["serving"].idle) == (0, 8, 0)


def test_nothing_is_lent_beyond_what_the_quota_says_is_lendable() -> None:
    play = Play(quotas=tree(lendable=8, nlp=0, cv=0))
    for number in range(3):
        play.submit(f"w{number}", 4)
    assert len(play.lent()) == 2
    assert play.desk.on_loan("serving") == {GPU: 8}


def test_a_quota_that_the_policy_does_not_name_borrows_nothing() -> None:
    play = Play(replace(NIGHT, borrowers=("cv",)), quotas=tree(nlp=0))
    play.submit("nlp", 4)
    play.submit("cv", 4, "cv")
    assert play.lent() == ["cv"]


def test_borrowers_come_in_the_order_of_the_policy() -> None:
    play = Play(replace(NIGHT, borrowers=("cv", "nlp")), quotas=tree(serving=8, nlp=0, cv=0))
    play.submit("nlp", 8)
    play.submit("cv", 4, "cv")
    assert play.lent() == ["cv"]


@pytest.mark.parametrize(("size", "loan"), [(12, 4), (8, None)])
def test_an_elastic_gang_that_starts_smaller_has_no_more_on_loan_than_it_needs(
    size: int, loan: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members hold only a part of it; eight are its own."""
    play = Play()
    place = play.members.place

    def part(item: Item, **more: Any) -> Placed | Unplaced:
        found = place(replace(item, requests={GPU: size}), **more)
        return replace(found, amounts={GPU: size}) if isinstance(found, Placed) else found

    item = replace(play.item("elastic", 16, hours=1), least={GPU: 8}, queues=True)
    play.engine.submit(item, 0)
    # It is offered the whole by its donor: the engine found no room for less within its quota.
    monkeypatch.setattr(play.engine, "step", lambda now: [])
    monkeypatch.setattr(play.members, "place", part)
    decided = play.step()
    assert len(decided) == 1
    assert play.engine.running()["elastic"].item.requests == {GPU: size}
    assert play.desk.on_loan("serving") == ({GPU: loan} if loan else {})
    assert uids(decided, Admit if loan is None else Lend) == ["elastic"]
    assert play.engine.book.cell("serving", GPU).lends == (loan or 0)
    play.engine.verify()


def test_nothing_is_lent_to_another_tree() -> None:
    play = Play(quotas=Tree.of([
        Node("serving", "", {GPU: Share(24)}),
        Node("company", "", {GPU: Share(64)}),
        Node("nlp", "company", {GPU: Share(8)}),
    ]))  # fmt: skip
    play.submit("own", 65)
    assert play.lent() == []
    (item, why) = next(play.engine.waiting())
    assert why is not None
    assert lenders(item, GPU, play.quotas, [NIGHT]) == []


def test_training_lends_to_inference_as_well() -> None:
    day = Terms("day", "nlp", ("serving",), keep_floor="None")
    play = Play(day, quotas=tree(serving=8))
    play.submit("a", 8, "serving", hours=None)
    play.submit("b", 4, "serving", hours=None, queues=False)
    decided = play.step()
    assert uids(decided, Admit) == ["a"]
    assert uids(decided, Lend) == ["b"]
    assert not uids(decided, Refuse)


def test_a_service_is_refused_where_neither_quota_nor_loan_covers_it() -> None:
    play = Play(quotas=tree(serving=8))
    play.submit("own", 8)
    play.submit("web", 9, queues=False)
    decided = play.step()
    assert uids(decided, Refuse) == ["web"]
    assert [item.uid for item, _ in play.engine.waiting()] == []


def test_a_loan_may_be_in_several_clusters() -> None:
    play = Play(quotas=tree(nlp=0), members=Members(east=8, west=8))
    play.submit("wide", 16, at={"east": 8, "west": 8})
    assert play.lent() == ["wide"]
    assert set(play.engine.running()["wide"].placed.clusters) == {"east", "west"}


def test_nothing_is_lent_for_a_gang_that_has_no_place() -> None:
    play = Play(quotas=tree(nlp=0), members=Members(east=4))
    play.submit("large", 8)
    play.submit("small", 4)
    assert play.lent() == ["small"]
    assert play.desk.on_loan("serving") == {GPU: 4}


def test_what_a_loan_could_cover_is_not_called_more_than_its_quota_may_ever_use() -> None:
    play = Play()
    play.submit("s", 20, "serving", hours=None)
    play.step(0)
    play.submit("with-a-loan", 30)
    play.submit("never", 33)
    waits = {each.uid: each.why.reason for each in play.step(1) if isinstance(each, Wait)}
    assert waits == {"with-a-loan": "Quota", "never": "AboveLimit"}


def test_loans_are_in_the_books_of_a_forked_engine_and_of_a_changed_tree() -> None:
    play = Play(quotas=tree(nlp=0))
    play.submit("guest", 8)
    play.step(0)
    fork = play.engine.fork(Members(east=200, west=200))
    fork.verify()
    assert fork.book.cell("serving", GPU).lends == 8
    play.desk.change(tree(serving=32, nlp=0), [NIGHT])
    assert play.step(1) == []
    play.engine.verify()
    assert play.engine.book.cell("serving", GPU).lends == 8
    assert play.engine.book.available("nlp", GPU) == 0
    assert play.engine.book.available("serving", GPU) == 24


# Filling


def test_the_gang_that_uses_most_of_the_loan_is_chosen() -> None:
    play = Play(quotas=tree(serving=16, nlp=0))
    play.submit("first", 8)
    play.submit("largest", 12)
    play.submit("too-large", 17)
    assert play.lent() == ["largest"]


def test_what_ends_inside_the_term_goes_before_what_uses_more_of_it() -> None:
    play = Play(quotas=tree(serving=16, nlp=0))
    play.submit("long", 16, hours=9)
    play.submit("unknown", 16, hours=None)
    play.submit("inside", 4, hours=4)
    assert play.lent() == ["inside"]


@pytest.mark.parametrize("hours", [None, 5])
def test_work_that_may_outlast_the_term_is_lent_to_only_where_loans_are_renewed(
    hours: float | None,
) -> None:
    for renew in (True, False):
        play = Play(replace(NIGHT, renew=renew), quotas=tree(nlp=0))
        play.submit("long", 8, hours=hours)
        assert play.lent() == (["long"] if renew else [])


def test_a_gang_that_only_a_loan_can_start_is_not_overtaken_for_ever() -> None:
    play = Play(quotas=tree(serving=16, nlp=0))
    play.submit("running", 8, hours=3)
    assert play.lent(0) == ["running"]
    play.submit("large", 16, hours=3)
    play.submit("small", 8, hours=3)
    assert play.lent(60) == ["small"]
    play.engine.finish("running")
    play.submit("smaller", 8, hours=3)
    # It has waited for the aging bound: what comes back is collected for it.
    assert play.lent(60 + 6 * HOUR) == []
    play.engine.finish("small")
    assert play.lent(70 + 6 * HOUR) == ["large"]


def test_a_desk_that_is_made_anew_knows_how_long_a_gang_has_waited() -> None:
    play = Play(quotas=tree(serving=16, nlp=0))
    play.submit("running", 8, hours=3)
    assert play.lent(0) == ["running"]
    play.engine.submit(play.item("large", 16, hours=3), 60)
    assert play.lent(60) == []
    play.desk = Desk(
        play.engine, play.members, play.quotas, [NIGHT], loans=play.desk.loans.values()
    )
    play.engine.submit(play.item("small", 8, hours=3), 60 + 6 * HOUR)
    assert play.lent(60 + 6 * HOUR) == [], "what comes back is collected for the large one"


def test_a_gang_that_the_own_quota_can_hold_collects_no_loans() -> None:
    play = Play(quotas=tree(serving=8, nlp=16))
    play.submit("running", 16)
    play.step(0)
    play.submit("large", 16)
    play.step(1)
    play.submit("small", 8)
    assert play.lent(8 * HOUR) == ["small"]


# The floor


def need(**more: Any) -> Need:
    return Need(**{"guaranteed": 24, "lendable": 24, "in_clusters": {"a": 6, "b": 4}, **more})


SAFE = replace(NIGHT, keep_floor="SurvivesLossOfOneCluster")


def test_the_floor_is_what_is_needed_and_one_cluster_of_it() -> None:
    assert floor(SAFE, need()) == 16
    assert floor(NIGHT, need()) == 10
    assert floor(SAFE, need(coming=3, elsewhere=2)) == 21
    assert floor(SAFE, need(coming=30)) == 24
    assert floor(replace(SAFE, keep_percent=80), need()) == 20
    # The failover reserve is kept for the same case.
    assert floor(SAFE, need(reserve=4)) == 16
    assert floor(NIGHT, need(reserve=4)) == 14


def test_the_spare_is_not_where_it_would_be_lost_as_well() -> None:
    assert lacking(need(), {"a": 20, "b": 6}) == 0
    assert lacking(need(), {"a": 20, "b": 5}) == 1
    assert lacking(need(coming=2), {"a": 20, "b": 6}) == 2
    assert floor(SAFE, need(clusters=3)) == 10 + 9


def test_nothing_of_the_floor_is_lent() -> None:
    play = Play(SAFE, quotas=tree(nlp=0))
    play.submit("s1", 6, "serving", hours=None, at={"east": 6})
    play.submit("s2", 4, "serving", hours=None, at={"west": 4})
    play.submit("nine", 9)
    play.submit("eight", 8)
    assert play.lent() == ["eight"]


def test_nothing_is_lent_that_leaves_the_spare_in_one_cluster() -> None:
    play = Play(SAFE, quotas=tree(nlp=0), members=Members(east=12, west=12), looks=True)
    play.submit("s1", 4, "serving", hours=None, at={"east": 4})
    play.submit("s2", 4, "serving", hours=None, at={"west": 4})
    play.submit("there", 5, at={"west": 5})
    play.submit("elsewhere", 4, at={"east": 4})
    # Four have to stay free in either.
    assert play.lent() == ["elsewhere"]


def test_a_donor_that_needs_more_gets_it_back_with_notice() -> None:
    play = Play(quotas=tree(nlp=0))
    play.submit("guest", 16, hours=4)
    play.step(0)
    play.submit("s", 16, "serving", hours=None)
    decided = play.step(100)
    assert uids(decided, Recall) == ["guest"]
    assert not uids(decided, Preempt) and not uids(decided, Return)
    assert play.desk.loans["guest"].ends_s == 400 == play.desk.next_s()
    assert not uids(play.step(399), Return)
    assert uids(play.step(400), Return) == ["guest"]
    assert not uids(play.step(401), Return)
    play.engine.evicted("guest", 402)
    decided = play.step(402)
    assert uids(decided, Admit) == ["s"]
    assert play.desk.on_loan("serving") == {}


def test_what_is_expected_is_called_back_before_it_is_needed() -> None:
    play = Play(quotas=tree(nlp=0))
    play.submit("guest", 20)
    play.step(0)
    assert uids(play.step(1, expected={"serving": {GPU: 4}}), Recall) == []
    assert uids(play.step(2, expected={"serving": {GPU: 5}}), Recall) == ["guest"]


def test_what_its_policies_expect_a_donor_to_need_is_kept_and_called_back() -> None:
    """Of several policies the most; a kind that no line names counts where its work would."""
    play = Play()
    play.submit("own", 8)
    play.submit("guest", 12, hours=None)
    assert play.lent() == ["guest"]
    soon, more = ((GPU, 12),), ((GPU, 4), (Key("cpu"), 99), (GPU, 9))
    for expects, others, recalled in (
        (soon, (), []), ((), soon, []), (soon, more, ["guest"]),
    ):  # fmt: skip
        day = Terms("day", "serving", ("cv",), keep_floor="None", expects=others)
        play.desk.change(play.quotas, [replace(NIGHT, expects=expects), day])
        assert uids(play.step(1), Recall) == recalled
    (account, _) = play.desk.accounts()
    assert (account.floor, account.lendable) == (13, 11)


def test_what_is_called_back_goes_on_if_the_own_quota_comes_to_cover_it() -> None:
    play = Play()
    play.submit("own", 8)
    play.submit("guest", 8)
    play.step(0)
    play.submit("s", 24, "serving", hours=None)
    assert uids(play.step(10), Recall) == ["guest"]
    play.engine.finish("own")
    play.submit("next", 8)
    decided = play.step(20)
    assert uids(decided, Settle) == ["guest"]
    assert uids(decided, Admit) == ["s"]
    assert "guest" in play.engine.running() and not play.desk.loans


# Terms


def test_a_loan_is_renewed_at_its_end_while_what_it_has_is_idle() -> None:
    play = Play(quotas=tree(nlp=0))
    play.submit("guest", 8, hours=None)
    play.step(0)
    assert play.desk.next_s() == 4 * HOUR - 300
    (renewed,) = [each for each in play.step(4 * HOUR - 300) if isinstance(each, Renew)]
    assert (renewed.loan.until_s, renewed.loan.renewals) == (8 * HOUR, 1)
    play.submit("s", 20, "serving", hours=None)
    decided = play.step(8 * HOUR - 300)
    assert uids(decided, Recall) == ["guest"] and not uids(decided, Renew)


def test_without_renewal_no_loan_outlasts_its_term_and_the_end_is_told_before() -> None:
    play = Play(replace(NIGHT, renew=False), quotas=tree(nlp=0))
    play.submit("guest", 8, hours=4)
    play.step(0)
    assert play.step(4 * HOUR - 301) == []
    (told,) = play.step(4 * HOUR - 300)
    assert isinstance(told, Recall) and told.loan.ends_s == told.loan.until_s == 4 * HOUR
    # It declared four hours and is not done.
    assert uids(play.step(4 * HOUR), Return) == ["guest"]


def test_loans_come_back_when_their_policy_is_gone() -> None:
    play = Play(quotas=tree(nlp=0))
    play.submit("guest", 8)
    play.step(0)
    play.desk.change(play.quotas, [replace(NIGHT, name="other", notice_s=0)])
    decided = play.step(10)
    assert uids(decided, Recall) == ["guest"]
    # The notice that was promised is kept.
    assert play.desk.loans["guest"].ends_s == 310


def test_without_any_policy_quotas_lend_as_they_do_without_loans() -> None:
    play = Play(quotas=tree(nlp=0))
    play.submit("guest", 8)
    play.step(0)
    play.desk.change(play.quotas, [])
    (settled,) = play.step(10)
    assert isinstance(settled, Settle) and settled.uid == "guest" and not settled.covered
    play.submit("more", 8)
    assert uids(play.step(20), Admit) == ["more"]


def test_a_gang_that_shrinks_gives_back_what_it_does_not_hold() -> None:
    play = Play(quotas=tree(nlp=0))
    play.submit("guest", 24)
    play.step(0)
    play.submit("more", 16)
    play.step(1)
    assert play.engine.resize("guest", 2, {GPU: 4})
    decided = play.step(2)
    # By a loan of its own, not on that of the other.
    assert uids(decided, Lend) == ["more"] and not uids(decided, Admit)
    assert {uid: loan.amounts for uid, loan in play.desk.loans.items()} == {
        "guest": {GPU: 4},
        "more": {GPU: 16},
    }


# The order of recall


def lent_to_three(terms: Terms = NIGHT) -> Play:
    """Of eight each: `old` is past its first term, `saved` has a checkpoint, `low` no priority."""
    play = Play(terms, quotas=tree(nlp=0))
    for at, uid, priority in ((0, "old", 5), (HOUR, "saved", 5), (2 * HOUR, "low", 0)):
        play.submit(uid, 8, hours=None, priority=priority)
        assert play.lent(at) == [uid]
    assert uids(play.step(4 * HOUR), Renew) == ["old"]
    play.engine.saved("saved", 4.4 * HOUR)
    play.submit("s", 8, "serving", hours=None)
    return play


@pytest.mark.parametrize(
    ("steps", "first"),
    [
        (("Expired", "CheapestCheckpoint", "LowestPriority"), "old"),
        (("CheapestCheckpoint", "Expired", "LowestPriority"), "saved"),
        (("LowestPriority", "CheapestCheckpoint", "Expired"), "low"),
        ((), "low"),
    ],
)
def test_loans_are_called_back_in_the_order_of_the_policy(
    steps: tuple[Any, ...], first: str
) -> None:
    play = lent_to_three(replace(NIGHT, recall_order=steps))
    assert uids(play.step(4.5 * HOUR), Recall) == [first]


def test_no_loan_is_called_back_that_need_not_be() -> None:
    play = Play(quotas=tree(nlp=0))
    for uid, size in (("large", 16), ("small", 4), ("tiny", 4)):
        play.submit(uid, size, hours=None)
        play.step(0)
    play.engine.saved("small", 50)
    play.engine.saved("tiny", 50)
    play.submit("s", 14, "serving", hours=None)
    # The two that lose less come first, and are not enough; with the large one neither is needed.
    assert uids(play.step(60), Recall) == ["large"]


def test_nobody_who_leaves_already_is_called_back_again_or_evicted_besides() -> None:
    play = lent_to_three()
    first = uids(play.step(4.5 * HOUR), Recall)
    again = play.step(4.5 * HOUR + 10)
    assert first == ["old"] and again == []


# A restart


def told(decided: Iterable[Any]) -> list[Any]:
    """Why something waits is said once by each engine."""
    return [each for each in decided if not isinstance(each, Wait)]


def test_a_desk_made_anew_from_what_runs_goes_on_as_the_old_one() -> None:
    play = lent_to_three()
    play.step(4.5 * HOUR)
    members = Members(east=200, west=200)
    engine = Engine(play.quotas, members)
    for run in play.engine.running().values():
        engine.adopt(run.whole, run.placed, run.started_s, saved_s=run.saved_s)
    for item, _ in play.engine.waiting():
        engine.submit(item, 4.5 * HOUR)
    anew = Desk(engine, members, play.quotas, [NIGHT], loans=play.desk.loans.values())
    for now in (4.5 * HOUR + 1, 4.5 * HOUR + 300, 5 * HOUR):
        assert told(anew.step(now)) == told(play.step(now))
        assert anew.loans == play.desk.loans
    assert play.desk.loans["old"].ending


# The policy


def test_terms_are_read_from_a_lending_policy() -> None:
    policy = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "LendingPolicy",
        "metadata": {"name": "night"},
        "spec": {
            "from": {
                "quota": "serving",
                "keepFloor": "None",
                "keepShare": "25%",
                "expects": [
                    {"name": "nvidia.com/gpu", "accelerator": "h200", "amount": "4"},
                    {"name": "cpu", "amount": "1500m"},
                ],
            },
            "to": [{"quota": "nlp"}, {"quota": "cv"}],
            "term": {"max": "2h", "renew": False, "notice": "90s"},
            "recallOrder": ["LowestPriority"],
            "isolation": {"node": "Exclusive", "networkPolicy": True},
        },
    }
    assert terms_of([policy]) == [
        Terms(
            "night", "serving", ("nlp", "cv"), "None", 25, 7200, False, 90, ("LowestPriority",),
            exclusive=True, network_policy=True, expects=((GPU, 4), (Key("cpu"), 1500)),
        )
    ]  # fmt: skip
    policy["spec"] = {"from": {"quota": "serving"}, "to": [{"quota": "nlp"}]}
    (plain,) = terms_of([policy])
    assert plain == Terms("night", "serving", ("nlp",))
    policy["spec"] = {"from": {"quota": "serving"}}
    with pytest.raises(Invalid):
        terms_of([policy])
