"""Loans carried out: lent, renewed, called back, returned; gateways die in between, none is lost.

With the planner of the product over what the simulated members have. What a donor runs is its own
affair here: its use is what its members say of its namespace.
"""

from __future__ import annotations

import random
from datetime import datetime

import orjson
import pytest
from prometheus_client import REGISTRY

from fleet.dispatch import record as records
from fleet.errors import Conflict, Forbidden, Unavailable
from fleet.gateway.loans import Loans
from fleet.gateway.placing import Placing
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.clusters import Cluster
from fleet.scheduling.queue.rules import Rules
from policies import FLEET_QUOTA, LENDING_POLICY, PLACEMENT, PLACEMENT_POLICY

EAGER = Rules(worth=None, patience_s=0, damping_s=0)
NAMESPACES = builtin.resource(GroupVersionResource("", "v1", "namespaces"))
PODS = builtin.resource(GroupVersionResource("", "v1", "pods"))
NOTICE_S = 10


def seconds(moment):
    return datetime.fromisoformat(moment).timestamp()


class Books:
    """What the simulated members have, as one node each; `serving` is what the donor uses there."""

    def __init__(self, fleet):
        self._fleet = fleet
        self.serving = {}

    def _accounts(self, member):
        accounts = NodeAccounts()
        ready = [{"type": "Ready", "status": "True"}]
        used = self.serving.get(member.name, 0)
        status = {"allocatable": {"pods": str(member.room - used)}, "conditions": ready}
        accounts.upsert_node({"metadata": {"name": "n1"}, "status": status})
        for pod in member.all("pods"):
            accounts.upsert_pod(pod)
        return accounts

    def clusters(self):
        return [
            Cluster(
                name,
                {},
                self._accounts(member).capacity(0.0),
                parameter_plane="roce-1",
                ready=not member.cut,
            )
            for name, member in self._fleet.members.items()
        ]

    def saved_s(self, *, now):
        found = {}
        for member in self._fleet.members.values():
            found |= self._accounts(member).saved_s(now=now)
        return found

    def taken_by_others(self, namespace):
        if namespace != "serving":
            return {}
        return {name: {("pods", ""): pods} for name, pods in self.serving.items() if pods}

    def others_on(self):
        return {}

    def taken_by(self, workload):
        return {
            name: taken
            for name, member in self._fleet.members.items()
            if (taken := self._accounts(member).taken_by(workload))
        }


class Lives:
    """A fleet of two members with room for eight each. Of sixteen pods twelve are guaranteed to
    serving, which lends, and four to train, which has the workloads."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.books = Books(fleet)
        self.planner = None
        fleet.decides = self._decides

    def _decides(self):
        self.planner = Placing(
            self.fleet.store, self.books, now=self.fleet.clock.datetime, clock=lambda: 0.0,
            lease_s=15.0, rules=EAGER,
        )  # fmt: skip
        return self.planner

    @property
    def desk(self):
        return self.planner.desk

    async def set_up(self):
        for name in ("east", "west"):
            await self.fleet.join(name, room=8)
        await self.fleet.restart()
        metadata = {"name": "serving", "uid": "ns-serving", "labels": {"team": "serving"}}
        await self.fleet.store.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        )
        await self.quota("company", 16)
        nobody = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
        await self.quota("train", 4, parent="company", namespaces=nobody)
        team = {"matchLabels": {"team": "serving"}}
        await self.quota("serving", 12, parent="company", namespaces=team)

    async def quota(self, name, pods, **spec):
        line = {"name": "pods", "guaranteed": str(pods)}
        await self.put(FLEET_QUOTA, name, {"resources": [line], **spec})

    async def lend(self, name="night", *, keep="None", term="1h", renew=True, **spec):
        term = {"max": term, "renew": renew, "notice": f"{NOTICE_S}s"}
        donor = {"quota": "serving", "keepFloor": keep}
        spec = {"from": donor, "to": [{"quota": "train"}], "term": term, **spec}
        await self.put(LENDING_POLICY, name, spec)

    async def put(self, kind, name, spec):
        obj = {
            "apiVersion": kind.resource.api_version,
            "kind": kind.resource.kind,
            "metadata": {"name": name, "uid": f"uid-{name}", "generation": 7},
            "spec": spec,
        }
        present = self.fleet.store.get(kind.resource, "", name)
        if present is None:
            await self.fleet.store.create(kind.resource, obj)
        else:
            await self.fleet.store.update(kind.resource, obj, expected=present.revision)

    async def drop(self, kind, name):
        entry = self.fleet.store.get(kind.resource, "", name)
        await self.fleet.store.delete(
            kind.resource, namespace="", name=name, expected=entry.revision
        )

    async def run(self, name, ranks, **more):
        """A Job; the next is younger."""
        await self.fleet.run_job(name, ranks, **more)
        await self.fleet.round()

    async def on_loan(self, name="guest", ranks=8):
        await self.run(name, ranks)
        await self.fleet.until(lambda: self.phase(name) == "Running")

    def phase(self, name):
        return self.fleet.record(name).phase

    def status(self, name="guest"):
        entry = self.fleet.store.get(PLACEMENT.resource, "payments", f"job-{name}")
        status = entry.parse()["status"]
        PLACEMENT.parse({"spec": entry.parse()["spec"], "status": status})
        return status

    def loan(self, name="guest"):
        return self.status(name).get("loan")

    def file(self):
        """What the pods of the gang read of the loan, in their one member."""
        (gate,) = [
            each for member in self.fleet.members.values() for each in member.all("configmaps")
            if "FLEET_JOB" in each["data"]
        ]  # fmt: skip
        return orjson.loads(gate["data"]["loan.json"])

    async def policy(self, name="night"):
        """Its status, as the gateway writes it; a second time nothing is written."""
        writes = Loans(self.fleet.store, self.planner, now=self.fleet.clock.datetime)
        await writes.write()
        before = self.fleet.store.sequencer.current
        await writes.write()
        assert self.fleet.store.sequencer.current == before
        obj = self.fleet.store.get(LENDING_POLICY.resource, "", name).parse()
        LENDING_POLICY.parse(obj)
        return obj["status"]

    def lent(self):
        self.planner.engine.verify()
        return sum(self.desk.on_loan("serving").values())


@pytest.fixture
async def lives(fleet):
    made = Lives(fleet)
    await made.set_up()
    return made


async def test_what_the_donor_leaves_idle_is_lent_and_stands_at_the_gang(lives):
    await lives.lend()
    await lives.on_loan()
    loan = lives.loan()
    assert (loan["policy"], loan["donor"], loan["to"]) == ("night", "serving", "train")
    assert loan["resources"] == [{"name": "pods", "amount": "4"}], "four are its own"
    assert lives.lent() == 4
    assert "Lent" in lives.fleet.events()
    told = lives.fleet.condition("fleet.dev/OnLoan", "guest")
    assert (told["status"], told["reason"]) == ("True", "Lent")
    assert told["message"] == f"on loan from serving until {loan['until']}"
    assert lives.file() == {"from": "serving", "until": loan["until"]}


async def test_without_a_policy_the_tree_lends_as_it_always_did(lives):
    await lives.on_loan()
    assert lives.loan() is None
    assert lives.lent() == 0


async def test_a_loan_ends_with_the_work_that_has_it(lives):
    await lives.lend()
    await lives.run("guest", 8, **{"run-for": 5})
    await lives.fleet.until(lambda: lives.phase("guest") == "Running")
    assert lives.lent() == 4
    await lives.fleet.until(lambda: lives.phase("guest") == "Succeeded")
    await lives.fleet.round()
    assert lives.lent() == 0


async def test_a_donor_that_needs_it_calls_back_gives_notice_and_has_it_back(lives):
    fleet = lives.fleet
    await lives.lend()
    await lives.on_loan()
    lives.books.serving = {"east": 6, "west": 4}
    await fleet.until(lambda: lives.loan().get("recalledAt"))
    recalled = lives.loan()
    assert recalled["why"] == "serving needs it"
    assert "LoanRecalled" in fleet.events()
    await fleet.round()
    told = fleet.condition("fleet.dev/OnLoan", "guest")
    assert told["reason"] == "Recalled"
    assert told["message"] == (
        f"on loan from serving until {recalled['until']}, called back at {recalled['recalledAt']}, "
        f"ends at {recalled['endsAt']}: serving needs it"
    )
    assert lives.file()["endsAt"] == recalled["endsAt"], "its pods can read when they end"
    await fleet.until(lambda: lives.status().get("preemptedFor"))
    ended = lives.status()
    assert records.text_of(fleet.clock.now) >= recalled["endsAt"], "it was given less than that"
    assert seconds(recalled["endsAt"]) - seconds(recalled["recalledAt"]) >= NOTICE_S
    assert (ended["preemptedFor"]["kind"], ended["preemptedFor"]["name"]) == (
        "LendingPolicy", "night",
    )  # fmt: skip
    assert ended["preemptedFor"]["uid"] == "uid-night"
    assert lives.lent() == 4, "until nothing of it can run"
    await fleet.until(lambda: lives.lent() == 0)
    assert lives.phase("guest") == "Queued"
    assert not fleet.record("guest").owed
    assert lives.loan() is None
    assert {"LoanReturned"} <= fleet.events()
    assert fleet.job("guest")["status"].get("failed", 0) == 0
    told = fleet.condition("fleet.dev/OnLoan", "guest")
    assert (told["status"], told["reason"]) == ("False", "NotOnLoan")
    # It waits where it stood, and is lent to again as soon as there is anything.
    await lives.run("late", 12)
    lives.books.serving = {}
    await fleet.until(lambda: lives.phase("guest") == "Running")
    assert "preemptedFor" not in lives.status()
    assert lives.status()["preemptions"] == 1
    assert lives.phase("late") == "Queued"


async def test_whole_gangs_go_and_none_for_nothing(lives):
    fleet = lives.fleet
    await lives.lend()
    for name, ranks in (("own", 4), ("small", 2), ("large", 6)):
        await lives.on_loan(name, ranks)
    assert lives.lent() == 8
    lives.books.serving = {"west": 2, "east": 4}
    await fleet.until(lambda: lives.phase("small") == "Queued" or lives.phase("large") == "Queued")
    gone = {name for name in ("small", "large") if lives.phase(name) == "Queued"}
    assert gone == {"small"}, "two are missing"
    await fleet.until(lambda: lives.lent() == 6)
    assert lives.phase("large") == lives.phase("own") == "Running"


@pytest.mark.parametrize("says", ["job", "pod"])
@pytest.mark.parametrize("fresh", ["one", "two"])
async def test_what_has_just_saved_goes_back_first(lives, says, fresh):
    """As its owner says at the Job, or its program at one of its pods."""
    fleet = lives.fleet
    await lives.lend()
    for name, ranks in (("own", 4), ("one", 4), ("two", 4)):
        await lives.on_loan(name, ranks)
    await fleet.wait(60)
    for name, ago in (("one", 50), ("two", 50), (fresh, 5)):
        at = {"fleet.dev/checkpointed-at": records.text_of(fleet.clock.now - ago)}
        if says == "job":
            await fleet.change_job(name, lambda obj, at=at: say(obj, at))
        else:
            uid = fleet.job(name)["metadata"]["uid"]
            member, pod = [
                (member, pod["metadata"])
                for member in fleet.members.values()
                for pod in member.all("pods")
                if pod["metadata"]["labels"].get("fleet.dev/workload-uid") == uid
            ][1]
            await member.store.rewrite(
                PODS, namespace=pod["namespace"], name=pod["name"],
                change=lambda obj, at=at: say(obj, at),
            )  # fmt: skip
    lives.books.serving = {"west": 4, "east": 4}
    await fleet.until(lambda: any((lives.loan(e) or {}).get("recalledAt") for e in ("one", "two")))
    recalled = {e for e in ("one", "two") if (lives.loan(e) or {}).get("recalledAt")}
    assert recalled == {fresh}


def say(obj, at):
    obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), **at}
    return obj


async def test_a_term_that_ends_is_renewed_or_called_back_in_time(lives):
    fleet = lives.fleet
    await lives.lend(term="30s")
    await lives.on_loan()
    until = lives.loan()["until"]
    await fleet.until(lambda: lives.loan().get("renewals"))
    assert lives.loan()["until"] > until
    assert "LoanRenewed" in fleet.events()
    assert lives.phase("guest") == "Running"
    await lives.lend(term="30s", renew=False)
    await fleet.until(lambda: lives.loan().get("recalledAt"))
    loan = lives.loan()
    assert loan["why"] == "its term ends and the policy does not renew"
    assert loan["endsAt"] >= loan["until"], "it has its term"
    await fleet.until(lambda: lives.phase("guest") == "Queued")


async def test_a_policy_that_is_deleted_calls_nothing_back_that_the_tree_lends_anyway(lives):
    fleet = lives.fleet
    await lives.lend()
    await lives.on_loan()
    await lives.drop(LENDING_POLICY, "night")
    await fleet.until(lambda: lives.loan() is None)
    assert lives.phase("guest") == "Running"
    assert "LoanSettled" in fleet.events()


async def test_what_the_own_quota_comes_to_cover_is_no_loan_and_a_recall_is_taken_back(lives):
    fleet = lives.fleet
    await lives.lend()
    await lives.on_loan()
    lives.books.serving = {"east": 6, "west": 4}
    await fleet.until(lambda: lives.loan().get("recalledAt"))
    await lives.quota("company", 24)
    await lives.quota(
        "train", 8, parent="company",
        namespaces={"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
    )  # fmt: skip
    await fleet.until(lambda: lives.loan() is None)
    await fleet.wait(NOTICE_S + 5)
    assert lives.phase("guest") == "Running"
    assert lives.planner.engine.running()["fleet-00000001"].leaving_for == ""


@pytest.mark.parametrize("left", [2, 0])
async def test_a_donor_whose_quota_is_cut_has_back_what_it_lent_beyond(lives, left):
    """Not what the borrower's own quota comes to cover."""
    fleet = lives.fleet
    await lives.lend()
    await lives.on_loan()
    assert lives.lent() == 4
    team = {"matchLabels": {"team": "serving"}}
    await lives.quota("serving", left, parent="company", namespaces=team)
    await lives.quota("company", 4 + left)
    await fleet.until(lambda: lives.loan().get("recalledAt"))
    assert seconds(lives.loan()["endsAt"]) - seconds(lives.loan()["recalledAt"]) >= NOTICE_S
    await fleet.until(lambda: lives.phase("guest") == "Queued" and lives.lent() == 0)
    assert lives.status()["preemptions"] == 1


async def test_a_loan_that_no_line_counts_any_more_is_told_to_be_none(lives):
    fleet = lives.fleet
    await lives.lend()
    await lives.on_loan()
    for name, more in (
        ("serving", {"parent": "company", "namespaces": {"matchLabels": {"team": "serving"}}}),
        ("train", {"parent": "company", "namespaces": {"matchLabels": {}}}),
        ("company", {}),
    ):
        await lives.put(FLEET_QUOTA, name, {"resources": [], **more})
    await fleet.until(lambda: lives.loan() is None)
    assert "LoanSettled" in fleet.events()
    assert lives.phase("guest") == "Running"


async def test_a_donor_keeps_what_survives_the_loss_of_a_cluster(lives):
    """Of twelve it uses four, all in one of two clusters: to have as much again where that is not
    lost with it, it keeps eight more."""
    lives.books.serving = {"east": 4}
    await lives.lend(keep="SurvivesLossOfOneCluster")
    await lives.run("guest", 8)
    await lives.fleet.wait(5)
    assert lives.phase("guest") == "Queued"
    await lives.lend(keep="None")
    await lives.fleet.until(lambda: lives.phase("guest") == "Running")
    assert lives.lent() == 4


async def test_a_gateway_that_comes_back_has_the_same_loans(lives):
    fleet = lives.fleet
    await lives.lend(term="40s")
    await lives.on_loan()
    await fleet.until(lambda: lives.loan().get("renewals"))
    (before,), at = lives.desk.loans.values(), lives.desk.next_s()
    stored = lives.status()
    await fleet.restart()
    await fleet.round()
    (after,) = lives.desk.loans.values()
    assert after == before
    assert lives.desk.next_s() == at
    assert lives.status() == stored


@pytest.mark.parametrize("operations", range(0, 80, 4))
async def test_a_gateway_that_dies_during_a_recall_goes_on_with_it(lives, crash, operations):
    fleet = lives.fleet
    await lives.lend()
    await lives.on_loan()
    fleet.crash_after = fleet.operations + operations
    lives.books.serving = {"east": 6, "west": 4}
    first = None
    try:
        for _ in range(2 * NOTICE_S + 20):
            await fleet.round()
            first = first or (lives.loan() or {}).get("endsAt")
    except crash:
        pass
    first = first or (lives.loan() or {}).get("endsAt")
    await fleet.restart()
    if first is not None and (loan := lives.loan()) is not None:
        assert loan["endsAt"] == first, "the notice runs on, and is not given again"
    await fleet.until(lambda: lives.phase("guest") == "Queued" and not fleet.record("guest").owed)
    await fleet.wait(3)
    assert not fleet.running()
    assert lives.lent() == 0
    assert lives.status()["preemptions"] == 1


async def test_a_recall_that_cannot_be_stored_is_decided_again(lives, monkeypatch):
    fleet = lives.fleet
    await lives.lend()
    await lives.on_loan()
    change, lost = type(fleet.waiting)._change, []

    async def refuse_once(self, step):
        if not lost:
            lost.append(step)
            raise Conflict("somebody else wrote")
        await change(self, step)

    monkeypatch.setattr(type(fleet.waiting), "_change", refuse_once)
    lives.books.serving = {"east": 6, "west": 4}
    await fleet.until(lambda: lives.loan().get("recalledAt"))
    assert lost
    assert lost[0].loan["endsAt"] <= lives.loan()["endsAt"], "notice counts from when it is given"
    await fleet.until(lambda: lives.phase("guest") == "Queued")


@pytest.mark.parametrize("seen", ["_change", "_store_answer"])
async def test_what_is_counted_is_what_was_stored(lives, monkeypatch, seen):
    """Each is decided twice, for once it could not be written down."""
    fleet, lost = lives.fleet, {}
    kept = getattr(type(fleet.waiting), seen)

    async def refuse_once(self, *told):
        step = told[-1]
        what = type(step).__name__, str(getattr(step, "said", None))[:40]
        if getattr(step, "placed", True) and lost.setdefault(what, 0) == 0:
            lost[what] += 1
            raise Conflict("somebody else wrote")
        await kept(self, *told)

    names = ("admitted", "made", "recalled", "returned")
    metrics = ("fleet_queue_admitted_total", *(f"fleet_loans_{name}_total" for name in names[1:]))
    before = [REGISTRY.get_sample_value(each) for each in metrics]
    monkeypatch.setattr(type(fleet.waiting), seen, refuse_once)
    await lives.lend()
    await lives.on_loan()
    lives.books.serving = {"east": 6, "west": 4}
    await fleet.until(lambda: lives.phase("guest") == "Queued" and lives.lent() == 0)
    await fleet.restart()
    await fleet.wait(3)
    after = [REGISTRY.get_sample_value(each) for each in metrics]
    counted = {name: b - a for name, a, b in zip(names, before, after, strict=True)}
    assert counted == {"admitted": 1, "made": 1, "recalled": 1, "returned": 1}
    assert len(lost) == (2 if seen == "_change" else 1)


def truths(status):
    assert {each["observedGeneration"] for each in status["conditions"]} == {7}
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


async def test_the_policy_lists_its_loans_and_what_its_donor_keeps(lives):
    fleet = lives.fleet
    await lives.lend()
    lives.books.serving = {"east": 2}
    await lives.on_loan()
    status = await lives.policy()
    (loan,) = status["loans"]
    assert (loan["workload"], loan["to"], loan["amount"]) == ("payments/Job/guest", "train", "4")
    assert loan["clusters"] == ["west"]
    (kept,) = status["resources"]
    assert kept == {
        "name": "pods", "guaranteed": "12", "floor": "2", "lendable": "10", "lent": "4",
    }  # fmt: skip
    assert (status["lent"], status["nextEnd"]) == ("4", lives.loan()["until"])
    assert status["observedGeneration"] == 7
    assert truths(status) == {"Valid": ("True", "Sound"), "FloorKept": ("True", "Kept")}
    lives.books.serving = {"east": 6, "west": 4}
    await fleet.until(lambda: lives.loan().get("recalledAt"))
    await fleet.round()
    status = await lives.policy()
    assert truths(status)["FloorKept"] == ("False", "CalledBack")
    assert status["nextEnd"] == status["loans"][0]["endsAt"] == lives.loan()["endsAt"]
    samples = {
        (each.name, *each.labels.values()): each.value
        for metric in REGISTRY.collect()
        if metric.name.startswith("fleet_loans")
        for each in metric.samples
    }
    assert samples["fleet_loans", "night", "serving", "train", "true"] == 1
    assert samples["fleet_loans_lent", "serving", "pods", ""] == 4
    assert samples["fleet_loans_floor", "serving", "pods", ""] == 10
    await fleet.until(lambda: lives.phase("guest") == "Queued" and lives.lent() == 0)
    status = await lives.policy()
    assert (status["loans"], status["lent"]) == ([], "")
    assert "nextEnd" not in status
    assert truths(status)["FloorKept"] == ("True", "Kept")


async def test_a_policy_without_a_donor_says_so_and_lends_nothing(lives):
    await lives.lend()
    await lives.drop(FLEET_QUOTA, "serving")
    await lives.run("guest", 8)
    assert truths(await lives.policy())["Valid"] == ("False", "NoSuchQuota")
    assert lives.phase("guest") != "Running"


async def test_a_policy_between_trees_says_so_and_lends_nothing(lives):
    await lives.quota("apart", 12)
    await lives.lend(**{"from": {"quota": "apart", "keepFloor": "None"}})
    await lives.run("guest", 8)
    assert truths(await lives.policy())["Valid"] == ("False", "OtherTree")
    assert lives.loan() is None, "it borrows as its own tree allows"


async def test_a_policy_of_a_donor_that_is_guaranteed_nothing_says_so(lives):
    await lives.lend()
    await lives.on_loan()
    await lives.quota("serving", 0, parent="company", namespaces={"matchLabels": {"team": "x"}})
    await lives.fleet.round()
    status = await lives.policy()
    assert truths(status)["Valid"] == ("False", "NothingGuaranteed")


async def test_what_is_only_to_be_gone_is_told_nothing_more(lives):
    """Its cluster is silent: the loan stands until it is fenced, and nobody asks all the time."""
    fleet = lives.fleet
    await lives.lend(term="15s")
    await lives.on_loan()
    (cluster,) = [shard.cluster for shard in fleet.record("guest").shards]
    fleet.members[cluster].cut = True
    await fleet.change_job("guest", lambda obj: obj["spec"].update(suspend=True))
    await fleet.until(lambda: fleet.record("guest").owed)
    await fleet.wait(7)
    (loan,) = lives.desk.loans.values()
    assert loan.ending
    assert loan.renewals == 0
    assert lives.planner.next_s() is None
    fleet.members[cluster].cut = False
    await fleet.until(lambda: lives.lent() == 0)


APART = {"node": "Exclusive", "networkPolicy": True}


async def test_lent_work_is_kept_apart_and_its_wall_goes_with_it(lives):
    fleet = lives.fleet
    await lives.lend(isolation=APART)
    await lives.on_loan(ranks=8)
    assert lives.status()["isolation"] == {
        "class": "train", "node": "Exclusive", "networkPolicy": True,
    }  # fmt: skip
    (member,) = [each for each in fleet.members.values() if each.all("jobs")]
    (job,) = member.all("jobs")
    (wall,) = member.all("networkpolicies")
    assert wall["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    selected = wall["spec"]["podSelector"]["matchLabels"].items()
    for pod in member.pods_of(job):
        assert pod["metadata"]["labels"]["fleet.dev/lending-class"] == "train"
        assert "podAntiAffinity" in pod["spec"]["affinity"]
        assert selected <= pod["metadata"]["labels"].items()
    await fleet.delete_job("guest")
    await fleet.until(lambda: not fleet.left_over())


async def test_own_work_of_a_class_shares_no_node_and_has_no_wall(lives):
    await lives.lend(isolation=APART)
    await lives.on_loan("own", 4)
    assert lives.loan("own") is None
    assert lives.status("own")["isolation"] == {"class": "train", "node": "Exclusive"}
    assert not [each for m in lives.fleet.members.values() for each in m.all("networkpolicies")]


async def test_the_wall_of_a_split_gang_lets_its_other_part_in(lives):
    fleet = lives.fleet
    spec = {"mode": "Split", "workloads": {}}
    obj = {
        "apiVersion": "fleet.dev/v1alpha1", "kind": "PlacementPolicy", "spec": spec,
        "metadata": {"name": "split", "namespace": "payments", "uid": "split"},
    }  # fmt: skip
    await fleet.store.create(PLACEMENT_POLICY.resource, obj)
    await lives.lend(isolation={"node": "Shared", "networkPolicy": True})
    await lives.on_loan(ranks=12)
    await fleet.round()
    addresses = {
        member.name: {f"{pod['status']['podIP']}/32" for pod in member.all("pods")}
        for member in fleet.members.values()
    }
    for member in fleet.members.values():
        (wall,) = member.all("networkpolicies")
        (rule,) = wall["spec"]["ingress"]
        let_in = {each["ipBlock"]["cidr"] for each in rule["from"] if "ipBlock" in each}
        (other,) = addresses.keys() - {member.name}
        assert let_in == addresses[other]
        assert "affinity" not in member.all("jobs")[0]["spec"]["template"]["spec"]


async def test_what_a_member_does_not_hold_leaves_no_wall_in_it(lives, monkeypatch):
    """It would be one more with each generation that is tried there."""
    fleet = lives.fleet
    east = fleet.members["east"]
    handle, refused = east.handle, []

    async def refuse(request):
        if ("dryRun", "All") in request.query and "/configmaps" in request.path:
            refused.append(request)
            raise Forbidden("configmaps is forbidden: exceeded quota: tight")
        return await handle(request)

    monkeypatch.setattr(east, "handle", refuse)
    await lives.lend(isolation=APART)
    await lives.run("guest", 8)
    await fleet.until(lambda: lives.phase("guest") == "Running")
    assert fleet.record("guest").shards[0].cluster == "west"
    assert refused
    assert not east.all("networkpolicies")


async def test_a_shard_that_is_not_created_leaves_no_wall_in_its_member(lives, monkeypatch):
    fleet = lives.fleet
    east = fleet.members["east"]
    handle, refused = east.handle, []

    async def refuse(request):
        if request.method == "POST" and request.path.endswith("/jobs"):
            refused.append(request)
            raise Forbidden("jobs.batch is forbidden: exceeded quota: tight")
        return await handle(request)

    monkeypatch.setattr(east, "handle", refuse)
    await lives.lend(isolation=APART)
    await lives.run("guest", 8)
    await fleet.until(lambda: lives.phase("guest") == "Running")
    assert fleet.record("guest").shards[0].cluster == "west"
    assert refused
    assert not east.all("networkpolicies")


@pytest.mark.parametrize("operations", range(0, 40, 2))
async def test_a_gateway_that_dies_while_it_walls_in_leaves_no_wall_behind(
    lives, crash, operations
):
    fleet = lives.fleet
    await lives.lend(isolation=APART)
    fleet.crash_after = fleet.operations + operations
    try:
        await lives.run("guest", 8)
        for _ in range(6):
            await fleet.round()
    except crash:
        pass
    await fleet.restart()
    if fleet.job("guest") is not None:
        await fleet.delete_job("guest")
    await fleet.until(lambda: not fleet.left_over())


@pytest.mark.parametrize("mode", ["Indexed", "NonIndexed"])
async def test_no_pod_starts_before_its_wall_is_there(lives, monkeypatch, mode):
    """A member that lets none in now, and did not say so when it was asked."""
    fleet = lives.fleet
    started, refused, lets_in = [], [], []
    for member in fleet.members.values():

        def look(member, pod, check=member.started):
            check(member, pod)
            assert member.all("networkpolicies"), "it started without a wall"
            started.append(pod)

        monkeypatch.setattr(member, "started", look)

        async def handle(request, handle=member.handle):
            dry = ("dryRun", "All") in request.query
            if "/networkpolicies" in request.path and request.method == "POST" and not dry:
                if not lets_in:
                    refused.append(request)
                    raise Unavailable("a webhook does not answer")
            return await handle(request)

        monkeypatch.setattr(member, "handle", handle)
    await lives.lend(isolation=APART)
    await lives.run("guest", 8, completionMode=mode)
    await fleet.wait(5)
    assert refused
    assert not started
    lets_in.append(True)
    await fleet.until(lambda: lives.phase("guest") == "Running" and started)


async def test_a_member_without_network_policies_takes_no_work_that_wants_one(lives, monkeypatch):
    fleet = lives.fleet
    serves = type(fleet).serves

    def not_in_the_east(self, cluster, gvr):
        return serves(self, cluster, gvr) and (cluster, gvr.resource) != (
            "east", "networkpolicies",
        )  # fmt: skip

    monkeypatch.setattr(type(fleet), "serves", not_in_the_east)
    lives.books.serving = {"west": 1}
    await lives.lend(isolation=APART)
    await lives.run("guest", 7)
    await fleet.until(lambda: lives.phase("guest") == "Running")
    assert fleet.record("guest").shards[0].cluster == "west"


class Watch:
    """What holds at every moment of a history."""

    def __init__(self, lives):
        self.lives = lives
        self.notices = {}
        """When each workload was told that it would end."""

    def look(self):
        self.look_at_notices()
        lives = self.lives
        for terms in lives.desk.terms:
            for account in lives.desk.accounts():
                leaving = sum(
                    loan.amounts.get(account.key, 0)
                    for loan in lives.desk.loans.values()
                    if loan.donor == terms.donor and loan.recalled
                )
                assert account.lent - leaving <= account.lendable, "into the donor's floor"

    def look_at_notices(self):
        lives, fleet = self.lives, self.lives.fleet
        lives.planner.engine.verify()
        names = [name for name in fleet.records() if fleet.job(name) is not None]
        for name in names:
            status = lives.status(name)
            loan, told = status.get("loan"), status.get("preemptedFor")
            if loan and "endsAt" in loan:
                given = self.notices.setdefault((name, loan["since"]), loan["endsAt"])
                assert given == loan["endsAt"], "a notice that is given stands"
                assert seconds(loan["endsAt"]) - seconds(loan["recalledAt"]) >= NOTICE_S
            if loan and told and told["kind"] == "LendingPolicy":
                ends = self.notices.get((name, loan["since"]))
                assert ends is not None, "it was ended without notice"
                assert fleet.clock.now >= seconds(ends), "before its notice was over"
        self.look_at_loans(names)

    def look_at_loans(self, names):
        """What stands at the work is what the desk knows; nobody is ended for one that is none."""
        lives = self.lives
        for name in names:
            status, uid = lives.status(name), lives.fleet.job(name)["metadata"]["uid"]
            told = status.get("preemptedFor")
            if uid in lives.desk.loans:
                run = lives.planner.engine.running()[uid]
                assert bool(run.leaving_for) >= lives.desk.loans[uid].recalled
            if told and told["kind"] == "LendingPolicy":
                assert status.get("loan") or status["phase"] == "Queued"


async def edit(lives, rng, keep):
    """A rule of loans, as somebody might edit it in the middle of anything."""
    nobody = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
    serving = {"matchLabels": {"team": "serving"}}
    match rng.choice(["donor", "company", "borrower", "gone", "to", "two", "back"]):
        case "donor":
            await lives.quota(
                "serving", rng.choice([0, 4, 8]), parent="company", namespaces=serving
            )
        case "company":
            await lives.quota("company", rng.choice([16, 20, 24]))
        case "borrower":
            await lives.quota("train", rng.choice([0, 4]), parent="company", namespaces=nobody)
        case "gone":
            for entry in lives.fleet.store.collection(LENDING_POLICY.resource).snapshot().entries():
                await lives.drop(LENDING_POLICY, entry.name)
        case "to":
            await lives.lend(keep=keep, to=[{"quota": "company"}])
        case "two":
            await lives.lend("day", keep="None", term="30s")
        case "back":
            await lives.quota("company", 16)
            await lives.quota("train", 4, parent="company", namespaces=nobody)
            await lives.quota("serving", 12, parent="company", namespaces=serving)
            await lives.lend(keep=keep)


@pytest.mark.parametrize("seed", range(6))
async def test_histories_of_loans_keep_notice_whatever_is_edited(lives, crash, seed):
    """Quotas cut, loans' policies edited and deleted in the middle of a notice; gateways die."""
    fleet, rng, watch = lives.fleet, random.Random(seed), Watch(lives)
    keep = rng.choice(["None", "SurvivesLossOfOneCluster"])
    await lives.lend(keep=keep, term=rng.choice(["20s", "1h"]), renew=rng.random() < 0.7)
    made = 0
    for _ in range(30):
        match rng.choice(["job", "job", "serving", "edit", "edit", "delete", "crash", "wait"]):
            case "job":
                made += 1
                await fleet.run_job(f"w{made}", rng.choice([2, 4, 6]), **{
                    "run-for": rng.choice([30, 300])
                })  # fmt: skip
            case "serving":
                free = {name: m.room - m.used() for name, m in fleet.members.items()}
                lives.books.serving = {n: min(rng.randrange(5), free[n]) for n in free}
            case "edit":
                await edit(lives, rng, keep)
            case "delete" if made:
                name = f"w{rng.randrange(made) + 1}"
                if fleet.job(name) is not None:
                    await fleet.delete_job(name)
            case "crash":
                fleet.crash_after = fleet.operations + rng.randrange(30)
        for _ in range(rng.randrange(1, 8)):
            try:
                await fleet.round()
            except crash:
                await fleet.restart()
                await fleet.round()
            watch.look()
    fleet.crash_after = None
    for name in list(fleet.records()):
        if fleet.job(name) is not None:
            await fleet.delete_job(name)
    await fleet.until(lambda: not fleet.left_over())
    await fleet.round()
    assert not lives.desk.loans


@pytest.mark.parametrize("seed", range(8))
async def test_histories_of_loans_keep_notice_and_floor_whatever_happens(lives, crash, seed):
    fleet, rng, watch = lives.fleet, random.Random(seed), Watch(lives)
    keep = rng.choice(["None", *["SurvivesLossOfOneCluster"] * 3])
    await lives.lend(keep=keep, term=rng.choice(["20s", "1h"]), renew=rng.random() < 0.7)
    made = 0
    for _ in range(40):
        match rng.choice(["job", "job", "serving", "serving", "delete", "crash", "policy", "wait"]):
            case "job":
                made += 1
                await fleet.run_job(f"w{made}", rng.choice([2, 4, 6, 8]), **{
                    "run-for": rng.choice([8, 30, 300])
                })  # fmt: skip
            case "serving":
                used = {name: rng.randrange(5) for name in fleet.members}
                free = {name: m.room - m.used() for name, m in fleet.members.items()}
                lives.books.serving = {name: min(used[name], free[name]) for name in used}
            case "delete" if made:
                name = f"w{rng.randrange(made) + 1}"
                if fleet.job(name) is not None:
                    await fleet.delete_job(name)
            case "crash":
                fleet.crash_after = fleet.operations + rng.randrange(30)
            case "policy":
                await lives.lend(keep=keep, term=rng.choice(["20s", "1h"]))
        for _ in range(rng.randrange(1, 8)):
            try:
                await fleet.round()
            except crash:
                await fleet.restart()
                await fleet.round()
            watch.look()
    fleet.crash_after = None
    lives.books.serving = {}
    for name in list(fleet.records()):
        if fleet.job(name) is not None:
            await fleet.delete_job(name)
    await fleet.until(lambda: not fleet.left_over())
    await fleet.round()
    assert lives.lent() == 0
