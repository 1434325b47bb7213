"""What is asked of a fleet's own Pod beside its object, before it has a place and after."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace

import orjson
import pytest

from fleet.dispatch.unplaced import UNHEEDED, is_unplaced, unheeded
from fleet.errors import BadRequest, Conflict, Invalid, MemberStatus
from fleet.gateway import own
from fleet.gateway.own import NodesOfMembers
from fleet.gateway.subresources import PODS, PodSubresources
from fleet.gateway.workload_warnings import WorkloadWarnings
from fleet.kube import builtin, paths
from fleet.kube.resources import GroupVersionResource
from fleet.kube.wire import Request, Response, UserInfo
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from fleet.view.parts import Seat

ROW = builtin.resource(PODS)
USER = UserInfo("jane")
POD = "/api/v1/namespaces/payments/pods/web"
UNPLACED = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
             "message": "no room"}]  # fmt: skip
HOLDING = [{"type": "PodScheduled", "status": "False", "reason": "Holding", "message": "held"}]


def pod(**status):
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "payments", "uid": "w"},
        "spec": {"containers": [{"name": "main", "image": "x"}]}, "status": status,
    }  # fmt: skip


class Stage:
    """A store with the Pod `web`, a member `east`, and a note of what was sent there."""

    def __init__(self, store):
        self.store = store
        self.seat = None
        self.followed = asyncio.Event()
        self.followers = 0
        self.sent = []
        self.own = []
        self.answer = {"kind": "Status", "status": "Success", "metadata": {}}
        self.streams = Response(200, {}, b"ready\n")
        shards = SimpleNamespace(seat=self._seat)
        world = SimpleNamespace(
            shards=shards,
            members={"east": SimpleNamespace(name="east")},
            own=lambda gvr: SimpleNamespace(get=store.collection(ROW).get, follow=self._follow),
        )
        self.pods = PodSubresources(world, store, forwarder=self, own=self, patience_s=30)

    def _seat(self, kind, namespace, name, uid):
        assert (kind, namespace, name, uid) == ("Pod", "payments", "web", "w")
        return self.seat

    def _follow(self, follower):
        end = self.store.collection(ROW).follow(follower)
        self.followers += 1
        self.followed.set()

        def unfollow():
            self.followers -= 1
            end()

        return unfollow

    async def put(self, **status):
        await self.store.create(ROW, pod(**status))

    async def become(self, **status):
        def change(obj):
            return {**obj, "status": status}

        await self.store.rewrite(ROW, namespace="payments", name="web", change=change)

    async def ask(self, what, method="GET", body=None, *, name="web", headers=None):
        path = f"{POD.removesuffix('web')}{name}/{what}"
        content = {"content-type": "application/json", **(headers or {})}
        request = Request(method, path, (), headers=content, user=USER,
                          body=b"" if body is None else orjson.dumps(body))  # fmt: skip
        target = paths.parse_target(method, path, ())
        return await self.pods.answer(request, target, ROW)

    # -- a forwarder

    async def stream(self, call):
        self.sent.append((call.request.method, call.path, None))
        return self.streams

    async def exchange(self, call, obj=None):
        self.sent.append((call.request.method, call.path, obj))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    # -- the store's kernel

    async def handle(self, request):
        self.own.append((request.method, request.path, request.body))
        return Response(200, {}, b"{}")


@pytest.fixture
async def stage():
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as store:
        yield Stage(store)


THERE = "/api/v1/namespaces/payments/pods/web-g1-east"


@pytest.fixture
async def placed(stage):
    await stage.put(phase="Running")
    stage.seat = Seat("east", "web-g1-east")
    return stage


async def test_another_object_is_not_its_business(stage):
    assert await stage.ask("log", name="nobody") is None
    await stage.put()
    assert await stage.ask("status") is None


@pytest.mark.parametrize("what", ["log", "exec", "attach", "portforward", "ephemeralcontainers"])
async def test_without_a_place_it_says_why(stage, what):
    await stage.put(phase="Pending", conditions=UNPLACED)
    method = "PATCH" if what == "ephemeralcontainers" else "GET"
    with pytest.raises(BadRequest, match=r"^pod web does not have a host assigned: no room$"):
        await stage.ask(what, method, body={})
    assert not stage.sent


async def test_a_stream_waits_while_its_pod_is_being_placed(stage):
    await stage.put()
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(stage.ask("log"))
        await stage.followed.wait()
        await stage.become(phase="Pending", conditions=HOLDING)
        await asyncio.sleep(0)
        assert not asked.done()
        stage.seat = Seat("east", "web-g1-east")
        await stage.become(phase="Running")
    assert (await asked).body == b"ready\n"
    assert stage.followers == 0


async def test_one_that_turns_out_to_have_no_place_waits_no_longer(stage):
    await stage.put()
    asked = asyncio.create_task(stage.ask("exec"))
    await stage.followed.wait()
    await stage.become(phase="Pending", conditions=UNPLACED)
    with pytest.raises(BadRequest, match="no room"):
        await asked


@pytest.mark.parametrize(
    ("name", "there"),
    [("web", ""), ("web:8080", ":8080"), ("https:web:8080", "")],
)
async def test_a_proxy_keeps_scheme_and_port(placed, name, there):
    await placed.ask("proxy/metrics", name=name)
    expected = THERE.replace("web-g1-east", name.replace("web", "web-g1-east"))
    assert placed.sent == [("GET", f"{expected}/proxy/metrics", None)]


async def test_refusals_of_the_member_name_the_fleets_pod(placed):
    status = {
        "kind": "Status", "message": "container nope is not valid for pod web-g1-east",
        "details": {"name": "web-g1-east"}, "code": 400,
    }  # fmt: skip
    placed.streams = Response(400, {}, orjson.dumps(status))
    told = orjson.loads((await placed.ask("log")).body)
    assert told["message"] == "container nope is not valid for pod web"
    assert told["details"] == {"name": "web"}
    placed.answer = MemberStatus(status)
    with pytest.raises(MemberStatus) as refused:
        await placed.ask("eviction", "POST", body={})
    assert refused.value.status["details"] == {"name": "web"}


async def test_an_eviction_is_of_the_shard(placed):
    body = {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "web", "namespace": "payments"},
        "deleteOptions": {"gracePeriodSeconds": 5, "preconditions": {"uid": "w"}},
    }  # fmt: skip
    answer = await placed.ask("eviction", "POST", body=body)
    assert answer.status == 201
    ((method, path, sent),) = placed.sent
    assert (method, path) == ("POST", f"{THERE}/eviction")
    assert sent["metadata"] == {"name": "web-g1-east", "namespace": "payments"}
    assert sent["deleteOptions"] == {"gracePeriodSeconds": 5}


async def test_an_eviction_of_another_pod_of_that_name_is_a_conflict(placed):
    body = {"deleteOptions": {"preconditions": {"uid": "earlier"}}}
    with pytest.raises(Conflict):
        await placed.ask("eviction", "POST", body=body)
    assert not placed.sent


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_evicting_what_does_not_run_deletes_it(stage, phase):
    await stage.put(phase=phase)
    stage.seat = Seat("east", "web-g1-east") if phase != "Pending" else None
    body = {"deleteOptions": {"preconditions": {"uid": "w"}}}
    answer = await stage.ask("eviction", "POST", body=body)
    assert answer.status == 201
    ((method, path, sent),) = stage.own
    assert (method, path) == ("DELETE", POD)
    assert orjson.loads(sent)["preconditions"] == {"uid": "w"}
    assert not stage.sent


async def test_a_debugging_container_is_added_there_and_here(placed):
    there = {"metadata": {"name": "web-g1-east"}, "spec": {"containers": [], "x": 1}}
    placed.answer = there
    patch = {"spec": {"ephemeralContainers": [{"name": "look", "image": "tools"}]}}
    headers = {"content-type": "application/strategic-merge-patch+json"}
    await placed.ask("ephemeralcontainers", "PATCH", body=patch, headers=headers)
    (read, written) = placed.sent
    assert read[:2] == ("GET", THERE)
    assert written[:2] == ("PUT", f"{THERE}/ephemeralcontainers")
    assert written[2]["spec"]["ephemeralContainers"][0]["name"] == "look"
    assert written[2]["spec"]["x"] == 1
    kept = placed.store.get(ROW, "payments", "web").parse()
    assert kept["spec"]["ephemeralContainers"][0]["name"] == "look"
    assert placed.own[-1][:2] == ("GET", POD)


async def test_a_resize_touches_resources_alone(placed):
    container = {"name": "main", "image": "y", "env": [{"name": "FLEET_CLUSTER"}]}
    placed.answer = {"metadata": {}, "spec": {"containers": [container]}}
    resources = {"limits": {"cpu": "2"}}
    patch = {"spec": {"containers": [{"name": "main", "image": "z", "resources": resources}]}}
    headers = {"content-type": "application/strategic-merge-patch+json"}
    await placed.ask("resize", "PATCH", body=patch, headers=headers)
    written = placed.sent[1][2]["spec"]["containers"]
    assert written == [{**container, "resources": resources}]


# -- what may be made


def new_pod(node):
    made = pod()
    made["spec"]["nodeName"] = node
    return made


async def admit(made, old=None):
    admission = NodesOfMembers(lambda: {"east", "west"})
    return await admission.admit(ROW, made, old, USER)


async def test_a_node_is_named_with_its_member():
    for node in ("n1.east", "a.b.west", ""):
        assert await admit(new_pod(node)) == new_pod(node)
    assert await admit(new_pod("n1"), new_pod("n1")) == new_pod("n1")


@pytest.mark.parametrize("node", ["n1", "n1.nowhere", ".east"])
async def test_a_node_that_no_member_has_is_refused(node):
    with pytest.raises(Invalid, match=r"NODE\.MEMBER .*-n payments\.east") as refused:
        await admit(new_pod(node))
    assert refused.value.details.causes[0].field == "spec.nodeName"


@pytest.mark.parametrize(
    ("method", "path", "status", "warned"),
    [
        ("POST", "/apis/apps/v1/namespaces/payments/deployments", 201, True),
        ("PUT", "/apis/apps/v1/namespaces/payments/statefulsets/db", 200, True),
        ("PATCH", "/apis/batch/v1/namespaces/payments/cronjobs/nightly", 200, True),
        ("POST", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/payments/jobsets", 201, True),
        ("POST", "/api/v1/namespaces/payments/resourcequotas", 201, True),
        ("POST", "/apis/networking.k8s.io/v1/namespaces/payments/networkpolicies", 201, True),
        ("PATCH", "/apis/policy/v1/namespaces/payments/poddisruptionbudgets/web", 200, True),
        ("PATCH", "/api/v1/namespaces/payments/resourcequotas/q/status", 200, False),
        ("POST", "/api/v1/namespaces/payments/configmaps", 201, False),
        ("POST", "/apis/apps/v1/namespaces/payments/deployments", 409, False),
        ("PATCH", "/apis/apps/v1/namespaces/payments/deployments/web/status", 200, False),
        ("GET", "/apis/apps/v1/namespaces/payments/deployments/web", 200, False),
        ("DELETE", "/apis/apps/v1/namespaces/payments/deployments/web", 200, False),
        ("POST", "/apis/batch/v1/namespaces/payments/jobs", 201, False),
        ("POST", "/api/v1/namespaces/payments/pods", 201, False),
    ],
)
async def test_who_writes_what_nobody_acts_on_is_warned(method, path, status, warned):
    class Own:
        async def handle(self, request):
            return Response(status, {}, b"{}", ("before",))

    store = ObjectStore(MemoryBackend(), Sequencer(epoch=1))
    door = WorkloadWarnings(Own(), store, now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    answer = await door.handle(Request(method, path))
    assert answer.warnings[0] == "before"
    assert bool(answer.warnings[1:]) is warned
    if warned:
        assert "-n payments.MEMBER" in answer.warnings[1]


def test_every_kind_of_the_fleets_own_is_acted_on_kept_for_others_or_warned_of():
    acted_on = {
        "namespaces", "pods", "jobs", "customresourcedefinitions", "priorityclasses",
        # carried along with the work
        "configmaps", "secrets", "serviceaccounts",
        # written by controllers and clients for themselves
        "controllerrevisions", "endpoints", "endpointslices", "events", "leases", "podtemplates",
    }  # fmt: skip
    silent = {gvr.resource for gvr in own.BUILT_IN if not is_unplaced(gvr) and gvr not in UNHEEDED}
    assert silent == acted_on


def test_what_is_in_no_namespace_is_not_sent_to_one():
    gvr = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterroles")
    assert "-n " not in unheeded(gvr, "ClusterRole", "")


def test_what_is_run_is_not_among_what_is_not():
    assert not is_unplaced(PODS)
    assert not is_unplaced(GroupVersionResource("batch", "v1", "jobs"))
