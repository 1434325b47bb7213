"""Classes that share no node: where their work may go, and what is left to a donor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.lending.classes import Isolation, class_of, isolation_of
from fleet.scheduling.lending.loans import Loan
from fleet.scheduling.lending.occupancy import Occupancy, User
from fleet.scheduling.lending.spare import Spare
from fleet.scheduling.lending.terms import Terms
from fleet.scheduling.placer import Item, Placed, Unplaced
from fleet.scheduling.planner import Fleet, asked_of
from fleet.scheduling.quota.tree import Key, Node, Share, Tree
from fleet.scheduling.rooms import Picture, Rooms
from fleet.scheduling.standing import wish_of

GPU = Key("nvidia.com/gpu")
H200 = Key("nvidia.com/gpu", "h200")
APART = Terms("night", "serving", ("research",), exclusive=True, network_policy=True)
RUNS = {"fleet.dev/workload-uid": "uid-web", "fleet.dev/generation": "1"}


def tree() -> Tree:
    return Tree.of([
        Node("company", "", {GPU: Share(64)}),
        Node("serving", "company", {GPU: Share(32)}),
        Node("research", "company", {GPU: Share(32)}),
        Node("nlp", "research", {GPU: Share(16)}),
        Node("other", "company", {}),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("quota", "work"),
    [("serving", "serving"), ("nlp", "research"), ("other", ""), ("", ""), ("gone", "")],
)
def test_all_below_a_quota_that_a_policy_names_is_of_its_class(quota, work):
    assert class_of(quota, tree(), [APART]) == work
    assert class_of(quota, tree(), [replace(APART, exclusive=False)]) == ""


def test_the_nearest_of_two_that_are_named_counts():
    assert class_of("nlp", tree(), [APART, replace(APART, borrowers=("nlp",))]) == "nlp"


def test_a_wall_goes_with_what_runs_on_loan_alone():
    loan = Loan("w", "night", "serving", "nlp", {GPU: 8}, 0, 9, 1)
    own = isolation_of("nlp", tree(), [APART], None)
    assert own == Isolation("research", exclusive=True, walled=False)
    lent = isolation_of("nlp", tree(), [APART], loan)
    assert lent == Isolation("research", exclusive=True, walled=True)
    shared = replace(APART, exclusive=False)
    assert isolation_of("nlp", tree(), [shared], loan) == Isolation("nlp", False, True)
    assert isolation_of("nlp", tree(), [shared], None) is None


class East:
    """Two nodes of four accelerators: three of n0 in use by the workload web, of serving."""

    def __init__(self, build):
        self.build = build
        self.accounts = NodeAccounts()
        for name in ("n0", "n1"):
            self.accounts.upsert_node(build.node(name, 4))
        for number in range(3):
            requests = {"nvidia.com/gpu": "1"}
            self.accounts.upsert_pod(build.pod(f"w{number}", "n0", requests=requests, labels=RUNS))

    def rooms(self, *more, promises=None, **ranks):
        """For jobs by name, an accelerator for each rank: `t…` are research's, `s…` serving's."""
        cluster = replace(self.build.cluster("east"), capacity=self.accounts.capacity(0.0))
        fleet = Fleet((cluster,), policies=(self.build.policy({"workloads": {}}),))
        asked, classes = {}, {"uid-web": "serving"}
        for name, count in ranks.items():
            job = self.build.job(count, name=name)
            asked[f"uid-{name}"] = (asked_of(job, None, fleet, now=self.build.now), wish_of(job))
            if name[0] in "ts":
                classes[f"uid-{name}"] = "research" if name[0] == "t" else "serving"
        occupancy = Occupancy(classes, {})
        occupancy.add("east", ["n0"], User("uid-web", "serving"))
        for user in more:
            occupancy.add("east", ["n1"], user)
        rooms = Rooms()
        self.picture = Picture(
            (cluster,), promises or Ledger(), fleet.prices, self.build.now, 0.0,
            lambda uid: {"east": taken} if (taken := self.accounts.taken_by(uid)) else {},
            occupancy=occupancy,
        )  # fmt: skip
        self.asked = asked
        rooms.begin(self.picture, asked)
        return rooms


@pytest.fixture
def east(build):
    return East(build)


def item(name, ranks):
    return Item(f"uid-{name}", "", 0, 0, {GPU: ranks}, name)


def test_a_class_finds_no_room_beside_another(east):
    rooms = east.rooms(t4=4, t5=5, s5=5, x5=5)
    assert isinstance(rooms.place(item("t4", 4)), Placed)
    refused = rooms.place(item("t5", 5))
    assert isinstance(refused, Unplaced)
    assert refused.ever, "it would fit if the other class were gone"
    assert isinstance(rooms.place(item("t5", 5), without=["uid-web"]), Placed)
    assert isinstance(rooms.place(item("s5", 5)), Placed), "its own class is no obstacle"
    assert isinstance(rooms.place(item("x5", 5)), Placed), "nor is any to what has none"


def test_what_is_decided_in_a_round_keeps_the_other_class_away(east):
    rooms = east.rooms(t1=1, s1=1, s2=2)
    found = rooms.place(item("t1", 1))
    rooms.take("uid-t1", found)
    assert isinstance(rooms.place(item("s1", 1)), Placed), "on n0"
    assert isinstance(rooms.place(item("s2", 2)), Unplaced), "n1 is research's"
    rooms.give("uid-t1")
    assert isinstance(rooms.place(item("s2", 2)), Placed)


def test_what_is_decided_in_a_round_is_nothing_to_another_over_the_same_picture(east):
    rooms, again = east.rooms(t1=1, s5=5), Rooms()
    rooms.take("uid-t1", rooms.place(item("t1", 1)))
    assert isinstance(rooms.place(item("s5", 5)), Unplaced), "n1 is research's"
    again.begin(east.picture, east.asked)
    assert isinstance(again.place(item("s5", 5)), Placed)


def test_a_place_that_is_kept_over_rounds_keeps_the_other_class_away_too(east):
    rooms = east.rooms(t1=1, s1=1, s2=2)
    rooms.take("uid-t1", rooms.place(item("t1", 1)))
    for _ in range(2):
        rooms.begin(east.picture, east.asked)
        assert isinstance(rooms.place(item("s1", 1)), Placed), "on n0"
        assert isinstance(rooms.place(item("s2", 2)), Unplaced), "n1 is kept for research"
    rooms.give("uid-t1")
    assert isinstance(rooms.place(item("s2", 2)), Placed)


def test_a_place_that_others_are_to_leave_shuts_no_node_that_they_use(east):
    rooms = east.rooms(t5=5, s1=1)
    found = rooms.place(item("t5", 5), without=["uid-web"])
    rooms.take("uid-t5", found)
    rooms.begin(east.picture, east.asked)
    assert isinstance(rooms.place(item("s1", 1)), Unplaced), "what is free is kept"
    rooms.give("uid-t5")
    assert isinstance(rooms.place(item("s1", 1)), Placed)


def test_pods_without_the_label_keep_every_class_of_the_fleet_away(east):
    native = User("", "serving", labelled=False)
    rooms = east.rooms(native, s2=2, t1=1)
    assert isinstance(rooms.place(item("s2", 2)), Unplaced)
    assert isinstance(rooms.place(item("t1", 1)), Unplaced)
    spare = Spare(rooms, lambda donor: [GPU], work_of=lambda donor: "serving")
    assert spare.free("serving") == {"east": {H200: 5}}, "it is the donor's own there"


def test_what_is_left_to_a_donor_is_on_nodes_that_nobody_else_uses(east):
    rooms = east.rooms(t1=1, t5=5)
    spare = Spare(rooms, lambda donor: [GPU], work_of=lambda donor: donor)
    assert spare.free("serving") == {"east": {H200: 5}}
    assert spare.free("research") == {"east": {H200: 4}}
    assert spare.free("research", without=["uid-web"]) == {"east": {H200: 8}}
    beside = rooms.place(item("t1", 1))
    assert spare.free("serving", beside=beside) == {"east": {H200: 1}}, "all of n1 is gone"
    shared = Spare(rooms, lambda donor: [GPU])
    assert shared.free("serving", beside=beside) == {"east": {H200: 4}}
    rooms.take("uid-t1", beside)
    assert spare.free("serving") == {"east": {H200: 1}}


def test_what_is_promised_and_not_seen_keeps_others_away_too(east):
    plans = east.rooms(t1=1)
    plan = plans.place(item("t1", 1)).plan
    kinds = {role.name: role.kind for role in plan.demand.roles}
    promises = Ledger().reserve("uid-t1", kinds, plan.shards)
    rooms = east.rooms(promises=promises, t1=1, s4=4)
    assert isinstance(rooms.place(item("s4", 4)), Unplaced)


def test_nodes_that_are_shut_hold_what_they_would_if_they_were_empty(east):
    capacity = east.accounts.capacity(0.0)
    shut = capacity.shut({"n1"})
    assert [node.free["nvidia.com/gpu"] for node in shut.nodes] == [1, 0]
    kind = _kind(east)
    assert [(room.pods, room.pods_if_empty) for room in shut.rooms(kind)] == [(1, 8)]
    assert capacity.shut(()) is capacity


def _kind(east):
    rooms = east.rooms(t1=1)
    (role,) = rooms.place(item("t1", 1)).plan.demand.roles
    return role.kind
