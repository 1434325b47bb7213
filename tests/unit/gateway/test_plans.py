"""`POST /fleet/plan`: what would be decided, and that nothing is."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import orjson
import pytest

from fleet.errors import AlreadyExists, BadRequest, Invalid
from fleet.gateway.placing import Outlook
from fleet.gateway.plans import Plan
from fleet.kube.wire import Request, Response, UserInfo
from fleet.scheduling.exact.gang import Objective, Optimum, Share
from fleet.scheduling.exact.verdict import Verdict
from fleet.scheduling.foretelling import Foretold, Prospect

GPU = "nvidia.com/gpu"


class Own:
    """The kernel of the fleet's own objects, as far as a dry run goes."""

    def __init__(self):
        self.requests = []
        self.present = set()
        self.refuses = None

    async def handle(self, request):
        self.requests.append(request)
        assert request.query == (("dryRun", "All"),)
        obj = orjson.loads(request.body)
        if self.refuses is not None:
            raise self.refuses
        if request.method == "POST" and obj["metadata"]["name"] in self.present:
            raise AlreadyExists("there is one")
        obj["metadata"].setdefault("uid", f"uid-{obj['metadata']['name']}")
        return Response(200, {}, orjson.dumps(obj))


@pytest.fixture
def own():
    return Own()


@pytest.fixture
def call(own):
    async def call(store, planner, *objects, body=None):
        plan = Plan(store, own, planner)
        sent = {"objects": list(objects)} if body is None else body
        user = UserInfo("me")
        request = Request("POST", "/fleet/plan", body=orjson.dumps(sent), user=user)
        return orjson.loads((await plan.handle(request)).body)

    return call


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "a plan needs objects"),
        ({"objects": [1]}, "a plan needs objects"),
        ({"objects": [{"apiVersion": "v1", "kind": "Secret"}]}, "v1 Secret has no part in a plan"),
        (
            {"objects": [{"apiVersion": "v9", "kind": "FleetQuota"}]},
            "^FleetQuota: apiVersion is v9; that of a FleetQuota is fleet.dev/v1alpha1$",
        ),
        (
            {"objects": [{"kind": "Job", "metadata": {"name": "x"}}]},
            "^Job x: apiVersion is missing; that of a Job is batch/v1$",
        ),
        ({"objects": [{"apiVersion": None, "kind": "Pod"}]}, "^Pod: apiVersion is missing; .* v1$"),
        ({"objects": [{"apiVersion": "batch/v1"}]}, "^an object: kind is missing; .* Job, Pod, "),
        ({"objects": [{"kind": "Secret"}]}, "^Secret has no part in a plan; Job, Pod, "),
        ({"objects": [{}] * 101}, "at most 100"),
    ],
)
async def test_what_it_is_not_for_is_refused(call, body, why):
    with pytest.raises(BadRequest, match=why):
        await call(SimpleNamespace(), SimpleNamespace(), body=body)


async def test_what_a_write_would_be_refused_with_is_what_it_says(call, own):
    own.refuses = Invalid("spec.parallelism: -1 is less than 0")
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}}
    with pytest.raises(Invalid, match="less than 0"):
        await call(SimpleNamespace(), SimpleNamespace(), job)
    assert own.requests[0].user == UserInfo("me")


class Planner:
    """Answers with one workload that would start, to be held against the optimum as given."""

    def __init__(self, verdict="Starts", **comparisons):
        self.verdict, self.comparisons, self.measured = verdict, comparisons, None

    def foretell(self, questions, rules, *, measured):
        self.measured = measured
        told = [
            Foretold(each.workload["metadata"]["uid"], self.verdict) for each in questions
        ]  # fmt: skip
        found = self.comparisons if measured else {}
        return Outlook(Prospect(tuple(told), (), None), {}, str, found)


JOB = {
    "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x", "namespace": "n"},
    "spec": {"template": {"spec": {}}},
}  # fmt: skip
STORE = SimpleNamespace(get=lambda *key: None)
FINISHED = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
FAILED = {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
DELETED = {"metadata": {**JOB["metadata"], "deletionTimestamp": "2026-11-29T00:00:00Z"}}
SUSPENDED = {"spec": {**JOB["spec"], "suspend": True}}
MANAGED = {"spec": {**JOB["spec"], "managedBy": "kueue.x-k8s.io/multikueue"}}
POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": JOB["metadata"], "spec": {"containers": []},
}  # fmt: skip
OURS = Objective(0, 1, 2, 0, 4_000_000, 3)
BEST = Optimum(Objective(0, 1, 2, 0, 3_000_000, 4), (Share("worker", "east", "r1", 4),))


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (
            Verdict("Worse", OURS, BEST, "micro", 0.25),
            {
                "verdict": "Worse",
                "objective": {
                    "tier": 1, "clusters": 2, "unpriced": 0, "perHour": "4", "blocks": 3
                },
                "optimum": {"tier": 1, "clusters": 2, "unpriced": 0, "perHour": "3", "blocks": 4},
                "clusters": {"east": 4},
                "level": "perHour",
                "gap": 0.25,
            },
        ),
        (Verdict("Infeasible"), {"verdict": "Infeasible"}),
        (
            Verdict("Unproven", level="micro", bound=2_500_000, gap=0.1),
            {"verdict": "Unproven", "level": "perHour", "gap": 0.1, "bound": "2.5"},
        ),
        (Verdict("NotCompared", why="so"), {"verdict": "NotCompared", "message": "so"}),
        (
            None,
            {
                "verdict": "NotCompared",
                "message": "it waits for its turn or for quota, not for a place",
            },
        ),
    ],
)  # fmt: skip
async def test_each_decision_is_held_against_the_optimum(call, found, told):
    compared = {} if found is None else {"uid-x": SimpleNamespace(verdict=lambda: found)}
    planner = Planner(**compared)
    answer = await call(STORE, planner, body={"objects": [JOB], "exact": True})
    assert answer["items"][0]["exact"] == told
    assert planner.measured
    assert "exact" not in (await call(STORE, planner, JOB))["items"][0]
    running = Planner("Runs")
    answer = await call(STORE, running, body={"objects": [JOB], "exact": True})
    assert "exact" not in answer["items"][0]


async def test_without_or_tools_it_says_what_to_install_and_where(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(BadRequest) as caught:
        await call(STORE, Planner(), body={"objects": [JOB], "exact": True})
    assert "pip install 'fleet-gateway[exact]', where the gateway runs" in caught.value.message
    assert (await call(STORE, Planner(), JOB))["items"]


async def test_what_takes_long_is_bounded(call):
    many = [{**JOB, "metadata": {"name": f"j{at}", "namespace": "n"}} for at in range(11)]
    with pytest.raises(BadRequest, match="at most 10 workloads"):
        await call(STORE, Planner(), body={"objects": many, "exact": True})
    with pytest.raises(BadRequest, match="exact is true or false"):
        await call(STORE, Planner(), body={"objects": [], "exact": "yes"})


class Nobody:
    """Whoever asks for a place here has not looked at what it asks about."""

    def foretell(self, questions, rules, *, measured=False):
        assert not questions
        return Outlook(Prospect((), (), None), {}, str, {})


@pytest.mark.parametrize(
    ("workload", "verdict", "warned"),
    [
        ({**JOB, **FINISHED}, "Ended", ""),
        ({**JOB, **FAILED}, "Ended", ""),
        ({**JOB, **FINISHED, **SUSPENDED}, "Ended", ""),
        ({**POD, "status": {"phase": "Succeeded"}}, "Ended", ""),
        ({**POD, "status": {"phase": "Failed"}}, "Ended", ""),
        ({**JOB, **DELETED}, "Leaves", ""),
        ({**JOB, **MANAGED}, "NotPlaced", ""),
        ({**JOB, **SUSPENDED}, "Suspended", "would wait: it is suspended"),
        ({**POD, "spec": {"schedulingGates": [{"name": "g"}]}}, "Suspended", "would wait: it is"),
    ],
)
async def test_what_nobody_places_is_said_to_start_nowhere(call, own, workload, verdict, warned):
    """Neither by the plan, beside what is placed and in its order, nor by a dry run's warning."""
    named = {**workload, "metadata": {**workload["metadata"], "uid": "mine"}}
    answer = await call(STORE, Nobody(), named)
    assert [each["verdict"] for each in answer["items"]] == [verdict]
    words = Plan(STORE, own, Nobody()).words(named)
    assert words.startswith(warned)
    assert bool(words) == bool(warned)
    other = {**JOB, "metadata": {"name": "y", "namespace": "n"}}
    answer = await call(STORE, Planner(), body={"objects": [other, named], "exact": True})
    assert [each["verdict"] for each in answer["items"]] == ["Starts", verdict]
    assert ["exact" in each for each in answer["items"]] == [True, False]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_what_has_ended_before_it_says_so_itself_has_ended(call, phase):
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "uid-x"}
    stored = {"metadata": {}, "spec": {"workload": reference}, "status": {"phase": phase}}
    store = SimpleNamespace(get=lambda *key: SimpleNamespace(parse=lambda: stored))
    answer = await call(store, Nobody(), JOB)
    assert [each["verdict"] for each in answer["items"]] == ["Ended"]


class Strict:
    """Refuses for good, at once or when a later tier is tried."""

    def __init__(self, later):
        self.later = later

    def foretell(self, questions, rules, *, measured=False):
        placement = {"spec": {}, "status": {"message": "too dear"}}
        refused = Foretold("uid-x", "Refused")
        told = Foretold("uid-x", "Waits", after_s=5, later=refused) if self.later else refused
        prospect = Prospect((told,), (), None)
        then = {"uid-x": placement} if self.later else {}
        return Outlook(prospect, {"uid-x": placement}, str, {}, then)


async def test_what_would_be_refused_for_good_is_not_said_to_wait(call, own):
    named = {**JOB, "metadata": {**JOB["metadata"], "uid": "uid-x"}}
    (item,) = (await call(STORE, Strict(later=False), JOB))["items"]
    assert (item["verdict"], item["placement"]["status"]["message"]) == ("Refused", "too dear")
    words = Plan(STORE, own, Strict(later=False)).words(named)
    assert words == "would be refused, and be Failed at once: too dear"
    (item,) = (await call(STORE, Strict(later=True), JOB))["items"]
    assert (item["verdict"], item["later"]["verdict"]) == ("Waits", "Refused")
    words = Plan(STORE, own, Strict(later=True)).words(named)
    assert words == "would wait: too dear; then: refused, too dear"


class Patient:
    """A later tier has a place."""

    def foretell(self, questions, rules, *, measured=False):
        status = {"usedClusters": "cloud-c", "message": "needs 2"}
        told = Foretold(
            "uid-x", "Waits", after_s=4.2, later=Foretold("uid-x", "Evicts", victims=("v",))
        )
        placement = {"spec": {}, "status": status}
        prospect = Prospect((told,), (), None)
        return Outlook(prospect, {"uid-x": placement}, str, {}, {"uid-x": placement})


async def test_when_a_later_tier_would_have_a_place_is_told(call, own):
    (item,) = (await call(STORE, Patient(), JOB))["items"]
    assert item["later"] == {
        "after": "5s",
        "verdict": "Evicts",
        "placement": {"spec": {}, "status": {"usedClusters": "cloud-c", "message": "needs 2"}},
        "evicts": ["v"],
    }
    named = {**JOB, "metadata": {**JOB["metadata"], "uid": "uid-x"}}
    assert Plan(STORE, own, Patient()).words(named) == "would wait: needs 2; then: cloud-c"
