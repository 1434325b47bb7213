"""A stored policy that no write would let in any more stops only itself."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import REGISTRY

from fleet.dispatch.planning import Answered, Question, Refused
from fleet.gateway.bills import Bills
from fleet.gateway.loans import Loans
from fleet.gateway.placing import Placing
from fleet.gateway.quotas import Quotas
from fleet.gateway.rulebook import Rulebook
from fleet.gateway.validity import Validity
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.clusters import Cluster
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from policies import FLEET_QUOTA, LENDING_POLICY, PLACEMENT, PLACEMENT_POLICY, PRICE_BOOK
from policies.placement import name_of

NOW = datetime(2026, 11, 15, tzinfo=UTC)
GPU = "nvidia.com/gpu"
JOBS = builtin.resource(GroupVersionResource("batch", "v1", "jobs"))
NAMESPACES = builtin.resource(GroupVersionResource("", "v1", "namespaces"))


class Books:
    """One member with eight accelerators free."""

    def clusters(self) -> list[Cluster]:
        accounts = NodeAccounts()
        accounts.upsert_node(
            {
                "metadata": {"name": "n1"},
                "status": {
                    "allocatable": {GPU: "8", "cpu": "64", "pods": "110"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )
        return [Cluster("east", {}, accounts.capacity(0.0))]

    def taken_by(self, workload: str) -> dict[str, Any]:
        return {}

    def saved_s(self, *, now: float) -> dict[str, float]:
        return {}

    def taken_by_others(self, namespace: str) -> dict[str, Any]:
        return {}

    def others_on(self) -> dict[str, Any]:
        return {}


def made(kind: str, name: str, spec: Any, *, namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{kind}-{name}", "generation": 1}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": "fleet.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec,
    }  # fmt: skip


def quota(name: str, guaranteed: str, **more: Any) -> dict[str, Any]:
    lines = [{"name": GPU, "guaranteed": guaranteed, "limit": "8"}]
    team = {"matchLabels": {"team": name}}
    spec = {"parent": "all", "namespaces": team, "resources": lines, **more}
    return made("FleetQuota", name, spec)


def job(namespace: str, name: str = "train", ranks: int = 1, **labels: str) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {GPU: "1"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": "2026-11-15T00:00:00Z",
            "labels": labels,
        },
        "spec": {
            "completions": ranks,
            "parallelism": ranks,
            "completionMode": "Indexed",
            "template": {"spec": {"containers": [container]}},
        },
    }


def question(workload: dict[str, Any]) -> Question:
    told = {name: workload[name] for name in ("apiVersion", "kind")}
    told |= {name: workload["metadata"][name] for name in ("name", "uid")}
    return Question(workload, {"metadata": {}, "spec": {"workload": told}, "status": {}})


@pytest.fixture
async def store():
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as opened:
        for name in ("nlp", "cv", "free"):
            labels = {} if name == "free" else {"team": name}
            metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
            obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            await opened.create(NAMESPACES, obj)
        root = {"resources": [{"name": GPU, "guaranteed": "8", "limit": "8"}]}
        await opened.create(FLEET_QUOTA.resource, made("FleetQuota", "all", root))
        await opened.create(FLEET_QUOTA.resource, quota("nlp", "4"))
        await opened.create(FLEET_QUOTA.resource, quota("cv", "4"))
        yield opened


def planner(store: ObjectStore) -> Placing:
    rulebook = Rulebook(store)
    bills = Bills(store, now=lambda: NOW, uid=lambda: "month", rulebook=rulebook)
    return Placing(
        store,
        Books(),
        now=lambda: NOW,
        clock=lambda: 0.0,
        lease_s=15.0,
        ceilings=bills.ceilings,
        rulebook=rulebook,
    )


async def told(planner: Placing, *workloads: dict[str, Any]) -> dict[str, str]:
    """What each is told, by its namespace and name: where it goes, or why it waits."""
    found = {}
    async for step in planner.round([question(each) for each in workloads]):
        if isinstance(step, Refused | Answered):
            metadata = step.question.workload["metadata"]
            message = step.error.message if isinstance(step, Refused) else ""
            if isinstance(step, Answered):
                status = step.answer.status
                message = status["usedClusters"] if step.answer.placed else status["message"]
            found[f"{metadata['namespace']}/{metadata['name']}"] = message
    return found


async def put(store: ObjectStore, kind: Any, name: str, spec: Any, namespace: str = "") -> None:
    """Write past all rules, as an earlier release may have."""

    def change(obj: dict[str, Any]) -> dict[str, Any]:
        metadata = {**obj["metadata"], "generation": obj["metadata"]["generation"] + 1}
        return {**obj, "metadata": metadata, "spec": spec}

    await store.rewrite(kind.resource, namespace=namespace, name=name, change=change)


def valid(store: ObjectStore, kind: Any, name: str, namespace: str = "") -> tuple[str, str, str]:
    status = store.get(kind.resource, namespace, name).parse().get("status") or {}
    found = next(each for each in status["conditions"] if each["type"] == "Valid")
    return found["status"], found["reason"], found["message"]


async def runs(store: ObjectStore, workload: dict[str, Any]) -> None:
    """Have it run where it is placed at once."""
    (answer,) = [
        step.answer
        async for step in planner(store).round([question(workload)])
        if isinstance(step, Answered) and step.answer.placed
    ]
    metadata = workload["metadata"]
    name = name_of("Job", metadata["name"])
    await store.create(JOBS, workload)
    await store.create(
        PLACEMENT.resource,
        {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "Placement",
            "metadata": {"name": name, "namespace": metadata["namespace"], "uid": "p"},
            "spec": answer.spec,
            "status": {**answer.status, "phase": "Running"},
        },
    )


BAD_LINE = [{"name": GPU, "guaranteed": "many"}]


async def test_a_quota_that_is_unreadable_from_the_start_stops_its_namespaces_alone(store):
    await put(store, FLEET_QUOTA, "nlp", {**quota("nlp", "4")["spec"], "resources": BAD_LINE})
    asks = planner(store)
    said = await told(asks, job("nlp"), job("cv"), job("free"))
    assert said["cv/train"] == "east"
    assert said["free/train"] == "east"
    assert "FleetQuota nlp cannot be read: spec.resources[0].guaranteed:" in said["nlp/train"]


async def test_a_quota_keeps_what_it_said_before_in_this_process(store):
    asks = planner(store)
    await told(asks)
    await put(store, FLEET_QUOTA, "nlp", {**quota("nlp", "4")["spec"], "resources": BAD_LINE})
    assert await told(asks, job("nlp"), job("cv")) == {"nlp/train": "east", "cv/train": "east"}
    await Quotas(store, asks, now=lambda: NOW).write()
    truth, reason, message = valid(store, FLEET_QUOTA, "nlp")
    assert (truth, reason) == ("False", "Unreadable")
    assert message.endswith("what it said before goes on until it is mended")
    assert valid(store, FLEET_QUOTA, "cv")[0] == "True"


async def test_one_that_is_mended_acts_again(store):
    sound = quota("nlp", "4")["spec"]
    await put(store, FLEET_QUOTA, "nlp", {**sound, "colour": "red"})
    asks = planner(store)
    assert "spec.colour: unknown field" in (await told(asks, job("nlp")))["nlp/train"]
    await Quotas(store, asks, now=lambda: NOW).write()
    assert valid(store, FLEET_QUOTA, "nlp")[:2] == ("False", "Unreadable")
    await put(store, FLEET_QUOTA, "nlp", sound)
    assert await told(asks, job("nlp")) == {"nlp/train": "east"}
    await Quotas(store, asks, now=lambda: NOW).write()
    assert valid(store, FLEET_QUOTA, "nlp") == ("True", "Sound", "")


@pytest.mark.parametrize(
    "namespaces",
    ["all", {"matchLabels": {"team": 1}}, {"matchExpressions": [{"key": "a", "operator": "Is"}]}],
)
@pytest.mark.parametrize(("name", "other"), [("nlp", "cv"), ("cv", "nlp")])
async def test_whom_an_unreadable_quota_is_for_is_at_worst_everybody_without_one(
    store, namespaces, name, other
):
    """Nobody's work becomes unlimited; what another quota counts is counted there."""
    await put(store, FLEET_QUOTA, name, {**quota(name, "4")["spec"], "namespaces": namespaces})
    said = await told(planner(store), job("nlp"), job("cv"), job("free"))
    assert said[f"{other}/train"] == "east"
    for each in (f"{name}/train", "free/train"):
        assert f"FleetQuota {name} cannot be read: spec.namespaces" in said[each]


@pytest.mark.parametrize("spec", [None, "all", []])
async def test_so_it_is_of_one_of_which_nothing_can_be_read(store, spec):
    await put(store, FLEET_QUOTA, "nlp", spec)
    said = await told(planner(store), job("nlp"), job("cv"), job("free"))
    assert said["cv/train"] == "east"
    for name in ("nlp/train", "free/train"):
        assert "FleetQuota nlp cannot be read: spec" in said[name]


async def test_what_is_below_an_unreadable_quota_waits_and_says_for_which(store):
    await store.create(FLEET_QUOTA.resource, made("FleetQuota", "top", {"colour": "red"}))
    await put(store, FLEET_QUOTA, "nlp", {**quota("nlp", "4")["spec"], "parent": "top"})
    said = await told(planner(store), job("nlp"), job("cv"))
    assert said["cv/train"] == "east"
    assert "FleetQuota nlp is below: FleetQuota top cannot be read" in said["nlp/train"]


@pytest.mark.parametrize("parent", ["gone", "nlp"])
async def test_a_quota_that_no_root_is_above_does_not_make_its_work_unlimited(store, parent):
    await put(store, FLEET_QUOTA, "nlp", {**quota("nlp", "4")["spec"], "parent": parent})
    asks = planner(store)
    said = await told(asks, job("nlp"), job("cv"))
    assert said["cv/train"] == "east"
    assert "FleetQuota nlp is at odds with others: spec.parent" in said["nlp/train"]
    await Quotas(store, asks, now=lambda: NOW).write()
    assert valid(store, FLEET_QUOTA, "nlp")[:2] == ("False", "AtOdds")


async def test_what_runs_under_an_unreadable_quota_counts_and_is_not_ended_for_others(store):
    await runs(store, job("nlp", "runs", ranks=8))
    await put(store, FLEET_QUOTA, "nlp", {**quota("nlp", "4")["spec"], "resources": BAD_LINE})
    asks = planner(store)
    said = await told(asks, job("cv", ranks=4))
    assert said["cv/train"] != "east"
    assert [run.leaving_for for run in asks.engine.running().values()] == [""]


async def test_work_under_an_unreadable_policy_waits_and_other_work_does_not(store):
    spec = {"mode": "Both", "workloads": {"matchLabels": {"app": "llm"}}}
    policy = made("PlacementPolicy", "split", spec, namespace="nlp")
    await store.create(PLACEMENT_POLICY.resource, policy)
    asks = planner(store)
    named = job("nlp", "named", **{"fleet.dev/policy": "split"})
    said = await told(asks, named, job("nlp", "selected", app="llm"), job("nlp"), job("cv"))
    assert said["nlp/train"] == said["cv/train"] == "east"
    for name in ("nlp/named", "nlp/selected"):
        assert "PlacementPolicy nlp/split cannot be read: spec.mode:" in said[name]
    await Validity(store, asks, now=lambda: NOW).write()
    assert valid(store, PLACEMENT_POLICY, "split", "nlp")[:2] == ("False", "Unreadable")
    await put(store, PLACEMENT_POLICY, "split", {"mode": "One"}, "nlp")
    assert (await told(asks, named))["nlp/named"] == "east"
    await Validity(store, asks, now=lambda: NOW).write()
    assert valid(store, PLACEMENT_POLICY, "split", "nlp") == ("True", "Sound", "")


async def test_a_policy_whose_selector_is_unreadable_is_for_all_that_names_no_other(store):
    policy = made("PlacementPolicy", "split", {"workloads": "all"}, namespace="nlp")
    await store.create(PLACEMENT_POLICY.resource, policy)
    plain = made("PlacementPolicy", "plain", {}, namespace="nlp")
    await store.create(PLACEMENT_POLICY.resource, plain)
    other = job("nlp", "other", **{"fleet.dev/policy": "plain"})
    said = await told(planner(store), job("nlp"), other, job("cv"))
    assert "PlacementPolicy nlp/split cannot be read: spec.workloads" in said["nlp/train"]
    assert said["nlp/other"] == said["cv/train"] == "east"


async def test_prices_of_an_unreadable_book_are_unknown_and_those_of_others_are_not(store):
    sound = {"currency": "USD", "offers": [{"cluster": "east", "perHour": "16"}]}
    await store.create(PRICE_BOOK.resource, made("PriceBook", "bad", {**sound, "offers": "x"}))
    capped = {"objective": {"maxPrice": "1 USD/h"}, "workloads": {}}
    policy = made("PlacementPolicy", "capped", capped, namespace="nlp")
    await store.create(PLACEMENT_POLICY.resource, policy)
    asks = planner(store)
    said = await told(asks, job("nlp"), job("cv"))
    assert said["cv/train"] == "east"
    assert "price" in said["nlp/train"]
    await Validity(store, asks, now=lambda: NOW).write()
    truth, _, message = valid(store, PRICE_BOOK, "bad")
    assert truth == "False"
    assert message.endswith("its prices are unknown until it is mended")
    await put(store, PRICE_BOOK, "bad", sound)
    dear = await told(asks, job("nlp"))
    await put(store, PRICE_BOOK, "bad", {**sound, "offers": "x"})
    assert await told(asks, job("nlp")) == dear
    assert "2 USD/h" in dear["nlp/train"]


NIGHT = {"from": {"quota": "cv", "keepFloor": "None"}, "to": [{"quota": "nlp"}]}


def lent_to(asks: Placing) -> dict[str, str]:
    return {uid: loan.donor for uid, loan in asks.desk.loans.items()}


@pytest.mark.parametrize(
    "spec",
    [
        {**NIGHT, "term": {"max": "soon"}},
        {**NIGHT, "from": {"quota": "cv", "keepShare": "much"}},
        {"to": [{"quota": "nlp"}]},
        {"from": "cv", "to": "nlp"},
        "nothing",
    ],
)
async def test_an_unreadable_lending_policy_lends_nothing_and_what_is_lent_stays(store, spec):
    for name in ("nlp", "cv"):
        lines = [{"name": GPU, "guaranteed": "4", "limit": "8", "lendable": "4"}]
        await put(store, FLEET_QUOTA, name, {**quota(name, "4")["spec"], "resources": lines})
    await store.create(LENDING_POLICY.resource, made("LendingPolicy", "night", NIGHT))
    await runs(store, job("nlp", "runs", ranks=6))  # two of them on loan from cv
    await put(store, LENDING_POLICY, "night", spec)
    asks = planner(store)
    said = await told(asks, job("nlp", "more"))
    assert said["nlp/more"] != "east", "cv leaves two idle, and they are not lent"
    said = await told(asks, job("nlp", "more"), job("cv", ranks=4))
    assert said["nlp/more"] != "east"
    assert said["cv/train"] != "east"  # the two on loan are not called back
    assert lent_to(asks) == {"uid-nlp-runs": "cv"}
    assert not any(loan.recalled for loan in asks.desk.loans.values())
    await Loans(store, asks, now=lambda: NOW).write()
    assert valid(store, LENDING_POLICY, "night")[:2] == ("False", "Unreadable")


async def test_it_is_logged_once_for_each_revision_and_counted(store, caplog):
    labels = {"kind": "FleetQuota", "namespace": "", "name": "nlp"}

    def counted() -> float | None:
        return REGISTRY.get_sample_value("fleet_policies_unreadable", labels)

    def logged() -> list[str]:
        return [each.message for each in caplog.records if each.levelno == logging.ERROR]

    await put(store, FLEET_QUOTA, "nlp", {"colour": "red"})
    asks = planner(store)
    await told(asks)
    await Quotas(store, asks, now=lambda: NOW).write()
    await told(asks)
    (line,) = logged()
    assert line.startswith("FleetQuota nlp cannot be read: spec.colour: unknown field")
    assert line.endswith("nothing new starts in its namespaces until it is mended")
    assert counted() == 1
    await put(store, FLEET_QUOTA, "nlp", {"colour": "blue"})
    await told(asks)
    assert len(logged()) == 2
    await put(store, FLEET_QUOTA, "nlp", quota("nlp", "4")["spec"])
    await told(asks)
    assert len(logged()) == 2
    assert counted() is None
