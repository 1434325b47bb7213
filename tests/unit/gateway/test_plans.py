"""`POST /fleet/plan`: what would be decided, and that nothing is."""

from __future__ import annotations

import asyncio
import random
import sys
from datetime import UTC, datetime
from itertools import count
from threading import Barrier, BrokenBarrierError
from types import SimpleNamespace

import orjson
import pytest
from asking import capacity_of

import policies
from fleet.apiserver.kinds import CustomKind
from fleet.errors import AlreadyExists, BadRequest, Invalid, NotFound
from fleet.gateway import own as owned
from fleet.gateway.placing import Outlook, Placing
from fleet.gateway.plans import Plan
from fleet.gateway.policy_warnings import PolicyWarnings
from fleet.kube.wire import Request, Response, UserInfo
from fleet.scheduling.clusters import Cluster
from fleet.scheduling.exact.gang import Objective, Optimum, Share
from fleet.scheduling.exact.verdict import Verdict
from fleet.scheduling.foretelling import Foretold, Prospect
from fleet.scheduling.together import Together
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer

GPU = "nvidia.com/gpu"


class Own:
    """The kernel of the fleet's own objects, as far as a dry run goes."""

    def __init__(self):
        self.requests = []
        self.present = set()
        self.refuses = None

    def over(self, draft):
        return self

    async def handle(self, request):
        self.requests.append(request)
        assert request.query == (("dryRun", "All"), ("fieldValidation", "Strict"))
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
        plan = Plan(store, own.over, planner)
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
OURS = Objective(0, 0, 1, 2, 0, 4_000_000, 3)
BEST = Optimum(Objective(0, 0, 1, 2, 0, 3_000_000, 4), (Share("worker", "east", "r1", 4),))


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
    words = Plan(STORE, own.over, Nobody()).words(named)
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


def gateways(store, times):
    return owned.build(
        store,
        [
            CustomKind(
                kind.resource,
                kind.openapi,
                kind.columns,
                kind.status,
                kind.rules,
                relations=kind.relations,
            )
            for kind in policies.kinds()
        ],
        openapi=owned.OwnOpenApi({}),
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        uid=lambda: f"uid-{next(times)}",
        rng=random.Random(1),
        server_address="fleet",
    )


def named(kind, name, **more):
    return {"apiVersion": "fleet.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, **more}


def quota(name, guaranteed, **spec):
    lines = [{"name": GPU, "guaranteed": str(guaranteed)}]
    return named("FleetQuota", name, spec={"resources": lines, **spec})


@pytest.fixture
def clusters():
    """Of the fleet; none at first."""
    return []


@pytest.fixture
async def fleet(clusters):
    """What a plan is asked of, with a FleetQuota lab of 8 and two below it, of 6 and 2."""
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as store:
        kernel = gateways(store, count())
        await owned.first_objects(
            store, now=datetime(2026, 1, 1, tzinfo=UTC), uid=lambda: "u", rng=random.Random(1)
        )
        for each in (quota("lab", 8), quota("a", 6, parent="lab"), quota("b", 2, parent="lab")):
            path = "/apis/fleet.dev/v1alpha1/fleetquotas"
            headers = {"content-type": "application/json"}
            await kernel.handle(Request("POST", path, (), headers, orjson.dumps(each)))
        nothing = dict.fromkeys(("taken_by", "taken_by_others"), lambda _: {})
        books = SimpleNamespace(clusters=lambda: clusters, **nothing)
        now = datetime(2026, 1, 1, tzinfo=UTC)
        placing = Placing(store, books, now=lambda: now, clock=lambda: 0.0, lease_s=15.0)
        plan = Plan(store, lambda draft: PolicyWarnings(kernel.over(draft), store), placing)

        async def ask(*objects):
            body = orjson.dumps({"objects": objects})
            return await plan.handle(Request("POST", "/fleet/plan", body=body))

        before = store.sequencer.current
        yield ask
        assert store.sequencer.current == before


NAMESPACE = {
    "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new", "labels": {"team": "new"}}
}  # fmt: skip


def in_new(**spec):
    main = {"name": "m", "image": "i", "resources": {"limits": {GPU: "1"}}}
    pod = {"restartPolicy": "Never", "containers": [main], **spec}
    metadata = {"name": "x", "namespace": "new"}
    return {**JOB, "metadata": metadata, "spec": {"template": {"spec": pod}}}


async def test_each_object_is_taken_on_top_of_those_before_it(fleet):
    """As they would be written: a parent before what is below it, less before more."""
    lend = named(
        "LendingPolicy", "night", spec={"from": {"quota": "under"}, "to": [{"quota": "a"}]}
    )
    for objects in (
        [quota("top", 8), quota("under", 8, parent="top"), lend],
        [quota("a", 2, parent="lab"), quota("b", 6, parent="lab")],
        [quota("top", 8), quota("top", 4), quota("under", 4, parent="top")],
    ):
        assert orjson.loads((await fleet(*objects)).body)["items"] == []
    for objects, why in (
        ([quota("under", 8, parent="top"), quota("top", 8)], 'no FleetQuota is called "top"'),
        ([quota("b", 6, parent="lab"), quota("a", 2, parent="lab")], "those below lab"),
        ([quota("top", 8), quota("top", 4), quota("under", 8, parent="top")], "those below top"),
    ):
        with pytest.raises(Invalid, match=why):
            await fleet(*objects)


async def test_the_labels_of_a_namespace_that_would_be_there_count(fleet):
    quotas = quota("mine", 0, namespaces={"matchLabels": {"team": "new"}})
    quotas["spec"]["resources"][0]["limit"] = "0"
    with pytest.raises(NotFound, match='namespaces "new" not found'):
        await fleet(in_new())
    (item,) = orjson.loads((await fleet(NAMESPACE, in_new())).body)["items"]
    assert "quota" not in item["placement"]["status"]
    (item,) = orjson.loads((await fleet(quotas, NAMESPACE, in_new())).body)["items"]
    assert (item["verdict"], item["placement"]["status"]["quota"]) == ("Waits", "mine")


def _job_with(change):
    job = in_new()
    job["spec"].update(change)
    return job


LIMIT = {"name": "m", "image": "i", "resources": {"limit": {GPU: "1"}}}


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (in_new(containers=[LIMIT]), "spec.template.spec.containers[0].resources.limit"),
        (_job_with({"completionmode": "Indexed"}), "spec.completionmode"),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "new"},
             "spec": {"containers": [LIMIT]}},
            "spec.containers[0].resources.limit",
        ),
        *[
            (named(kind, "lab", spec={}) | {"metadata": {"name": "lab", "lables": {}}},
             "metadata.lables")
            for kind in ("FleetQuota", "LendingPolicy", "PlacementPolicy", "PriceBook")
        ],
        ({**NAMESPACE, "metadata": {"name": "new", "lables": {"team": "a"}}}, "metadata.lables"),
    ],
)  # fmt: skip
async def test_a_field_that_nobody_knows_is_refused_as_kubectl_has_it_refused(
    fleet, wrong, field, there
):
    """Whether there is one of that name already or not."""
    sound = {"Job": in_new(), "FleetQuota": quota("lab", 8), "Namespace": NAMESPACE}
    first = sound.get(wrong["kind"]) if there else None
    before = [NAMESPACE, *([first] if first not in (None, NAMESPACE) else [])]
    with pytest.raises(BadRequest) as caught:
        await fleet(*before, wrong)
    kind, version = wrong["kind"], wrong["apiVersion"].rpartition("/")[2]
    assert caught.value.message == (
        f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: '
        f'unknown field "{field}"'
    )


async def test_what_names_what_is_not_there_waits_and_the_rest_is_told(fleet):
    missing = in_new()
    missing["metadata"] = {"name": "y", "namespace": "new", "labels": {"fleet.dev/policy": "none"}}
    answer = orjson.loads((await fleet(NAMESPACE, missing, in_new())).body)
    first, second = answer["items"]
    assert [first["name"], second["name"]] == ["y", "x"]
    assert (first["verdict"], first["placement"]["status"]["reason"]) == ("Waits", "Invalid")
    assert "none" in first["placement"]["status"]["message"]
    assert "reason" not in second["placement"]["status"]


async def test_what_a_write_would_warn_of_is_warned_of(fleet):
    spec = {"workloads": {}, "failover": {"neverBelow": "50%"}}
    gangs = named("PlacementPolicy", "gangs", spec=spec)
    gangs["metadata"]["namespace"] = "new"
    (told,) = (await fleet(NAMESPACE, gangs)).warnings
    assert "failover.neverBelow" in told


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
    words = Plan(STORE, own.over, Strict(later=False)).words(named)
    assert words == "would be refused, and be Failed at once: too dear"
    (item,) = (await call(STORE, Strict(later=True), JOB))["items"]
    assert (item["verdict"], item["later"]["verdict"]) == ("Waits", "Refused")
    words = Plan(STORE, own.over, Strict(later=True)).words(named)
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
    assert Plan(STORE, own.over, Patient()).words(named) == "would wait: needs 2; then: cloud-c"


def member(name, *gpus):
    nodes = [
        {
            "metadata": {"name": f"n{at}", "labels": {"fleet.dev/accelerator": "h200"}},
            "status": {
                "allocatable": {GPU: str(each), "cpu": "64", "memory": "256Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        for at, each in enumerate(gpus)
    ]
    capacity = capacity_of(nodes, [], as_of_s=0.0, block_label="")
    return Cluster(name=name, labels={}, capacity=capacity)


def pods_of_new(name, gpus):
    job = in_new()
    job["metadata"] = {"name": name, "namespace": "new"}
    job["spec"]["template"]["spec"]["containers"] = [
        {"name": "m", "image": "i", "resources": {"limits": {GPU: str(gpus)}}}
    ]
    return job


async def test_what_would_start_if_all_were_placed_at_once_is_told(fleet, clusters):
    """The first fits in both members, and goes to the one that has what the last one needs."""
    clusters += [member("a", 6), member("b", 4)]
    asked = [pods_of_new("first", 4), pods_of_new("last", 6)]
    answer = orjson.loads((await fleet(NAMESPACE, *asked)).body)
    assert [each["verdict"] for each in answer["items"]] == ["Starts", "Waits"]
    assert answer["together"] == {
        "starts": 1,
        "could": 2,
        "workloads": [
            {"kind": "Job", "namespace": "new", "name": "first", "clusters": {"b": 1}},
            {"kind": "Job", "namespace": "new", "name": "last", "clusters": {"a": 1}},
        ],
    }


async def test_what_takes_long_is_thought_about_for_one_after_the_other(
    fleet, clusters, monkeypatch
):
    """Leases are renewed beside it, whoever asks how often."""
    clusters += [member("a", 6), member("b", 4)]
    meets, met = Barrier(2), []

    def gain(self, polish=None):
        try:
            met.append(meets.wait(0.2))
        except BrokenBarrierError:
            meets.reset()  # there was nobody else

    monkeypatch.setattr(Together, "gain", gain)
    asked = [pods_of_new("first", 4), pods_of_new("last", 6)]
    async with asyncio.TaskGroup() as group:
        for at in range(2):
            group.create_task(fleet(NAMESPACE, *asked), name=f"plan {at}")
    assert met == []


async def test_where_no_more_would_start_nothing_is_said_of_it(fleet, clusters):
    clusters += [member("a", 6), member("b", 4)]
    asked = [pods_of_new("first", 6), pods_of_new("last", 6)]
    answer = orjson.loads((await fleet(NAMESPACE, *asked)).body)
    assert [each["verdict"] for each in answer["items"]] == ["Starts", "Waits"]
    assert "together" not in answer
