"""The dispatcher between a manager and its workers, with everything that can come in between.

Kueue is played as far as MultiKueue goes, with its rules about `clusterName`; when it acts is the
test's to say. The fleet's room is a number for each member.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from prometheus_client import REGISTRY

from adapters.kueue import Dispatcher
from adapters.kueue.dispatcher import ANSWER_S, APPEAR_S, LEFT_S
from adapters.kueue.fleet import NoSeat, Promised, Seat
from adapters.kueue.objects import CHECKS, CLUSTERS, CONFIGS, WORKLOADS
from adapters.kueue.writing import USER
from fleet.errors import Conflict, FleetError, Forbidden, Invalid, NotFound, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from adapters.kueue.fleet import Ask

MANAGER = "hub"
CHECK = "multikueue"
PENDING = [{"name": CHECK, "state": "Pending"}]
NOW_S = 1.8e9  # months after the conditions


def condition(kind: str, status: str, reason: str = "x", message: str = "") -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-11-29T00:00:00Z",
    }


class Kueue:
    """A manager, its workers, and the fleet over them (`adapters.kueue.fleet.Fleet`)."""

    def __init__(self, **free: int) -> None:
        self.free = dict(free)
        self.members = {MANAGER, *free}
        self.serving = set(self.members)
        self.now_s = 1000.0
        self.revision = 10
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.pods: dict[str, int] = {}
        self.shut: frozenset[str] = frozenset()
        self.promised: dict[str, Promised] = {}
        self.asked: list[Ask] = []
        self.writes: list[tuple[str, list[str]]] = []
        self.refusals: list[FleetError] = []
        self.events: list[dict[str, Any]] = []
        self.between: list[Callable[[], None]] = []
        """What happens between a look and the write after it."""
        self.before: list[Callable[[], None]] = []
        """What happened before the look, and was not seen yet."""
        self.meanwhile: list[Callable[[], None]] = []
        """What happens while the fleet decides."""
        self.after: list[Callable[[], None]] = []
        """What happens between a write and the answer to it."""
        self.trouble: FleetError | None = None
        self._listeners: list[Any] = []
        self._news: list[Any] = []
        for name in free:
            self.put(MANAGER, CLUSTERS, {"metadata": {"name": name, "uid": f"c-{name}"}})
        self.configure(*free)
        parameters = {"kind": "MultiKueueConfig", "name": "all"}
        spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
        self.put(MANAGER, CHECKS, {"metadata": {"name": CHECK}, "spec": spec})

    # -- what the test and Kueue do

    def put(self, member: str, gvr: Any, obj: dict[str, Any]) -> None:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        metadata = obj["metadata"]
        key = f"{metadata.get('namespace', '')}/{metadata['name']}"
        self.objects[member, gvr.resource, key] = obj
        for listener in self._listeners:
            listener(member, gvr, orjson.loads(orjson.dumps(obj)), False)

    def configure(self, *clusters: str) -> None:
        self.put(MANAGER, CONFIGS, {"metadata": {"name": "all"}, "spec": {"clusters": clusters}})

    def submit(self, name: str = "w", *, pods: int = 1, uid: str = "", priority: int = 0) -> str:
        container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
        template = {"spec": {"containers": [container]}}
        owner = {"kind": "Job", "name": f"of-{name}", "controller": True}
        metadata = {"namespace": "payments", "name": name, "uid": uid or f"u-{name}"}
        self.put(
            MANAGER,
            WORKLOADS,
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "Workload",
                "metadata": {**metadata, "ownerReferences": [owner]},
                "spec": {
                    "priority": priority,
                    "podSets": [{"name": "main", "count": pods, "template": template}],
                },
                "status": {
                    "conditions": [condition("QuotaReserved", "True")],
                    "admissionChecks": PENDING,
                },
            },
        )
        return name

    def workload(self, name: str = "w", member: str = MANAGER) -> dict[str, Any]:
        return self.objects[member, "workloads", f"payments/{name}"]

    def change(self, name: str = "w", **status: Any) -> None:
        obj = self.workload(name)
        kept = {**obj["status"], **status}
        self.put(
            MANAGER, WORKLOADS, {**obj, "status": {k: v for k, v in kept.items() if v is not None}}
        )

    def admit(self, name: str, cluster: str) -> None:
        """What Kueue does when a worker has admitted its copy."""
        assert cluster in self.workload(name)["status"]["nominatedClusterNames"]
        ready = [{"name": CHECK, "state": "Ready"}]
        self.change(name, clusterName=cluster, nominatedClusterNames=None, admissionChecks=ready)

    def evict(self, name: str) -> None:
        self.change(name, clusterName=None, nominatedClusterNames=None, admissionChecks=PENDING)

    def answer(self, name: str, member: str, told: dict[str, str]) -> None:
        """What a worker's Kueue says of its copy."""
        metadata = {"namespace": "payments", "name": name, "uid": f"{member}-{name}"}
        self.put(
            member, WORKLOADS, {"metadata": metadata, "status": {"conditions": [told]}}
        )  # fmt: skip

    def refuse(self, name: str, member: str) -> None:
        self.answer(name, member, condition("QuotaReserved", "False", "Pending", "no quota"))

    def delete(self, name: str, member: str = MANAGER) -> None:
        obj = self.objects.pop((member, "workloads", f"payments/{name}"))
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        for listener in self._listeners:
            listener(member, WORKLOADS, obj, True)

    def nominated(self, name: str = "w") -> list[str]:
        found: list[str] = self.workload(name)["status"].get("nominatedClusterNames") or []
        return found

    def passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.changed()

    def changed(self) -> None:
        for listener in self._news:
            listener()

    def told(self, reason: str) -> list[str]:
        return [each["message"] for each in self.events if each["reason"] == reason]

    # -- what the dispatcher asks

    def serves(self, member: str, resource: Any) -> bool | None:
        return member in self.serving

    async def call(self, member: str, request: Any) -> dict[str, Any]:
        assert request.headers["impersonate-user"] == USER
        await asyncio.sleep(0)
        if self.trouble is not None:
            raise self.trouble
        if request.method == "POST":
            event = orjson.loads(request.body)
            self.events.append(event)
            return event
        parts = request.path.split("/")
        name = parts[7]
        key = (member, "workloads", f"payments/{name}")
        while self.between and request.method == "PATCH":
            self.between.pop(0)()
        listeners, self._listeners = self._listeners, []
        while self.before:
            self.before.pop(0)()
        self._listeners = listeners
        if key not in self.objects:
            raise NotFound.of(group="kueue.x-k8s.io", resource="workloads", name=name)
        if request.method == "GET":
            return orjson.loads(orjson.dumps(self.objects[key]))
        try:
            self._apply(key, name, request)
        except FleetError as error:
            self.refusals.append(error)
            raise
        answer = orjson.loads(orjson.dumps(self.objects[key]))
        while self.after:
            self.after.pop(0)()
        return answer

    def _apply(self, key: tuple[str, str, str], name: str, request: Any) -> None:
        assert request.path.endswith("/status")
        assert request.headers["content-type"] == "application/apply-patch+yaml"
        assert dict(request.query) == {"fieldManager": "kueue-admission", "force": "true"}
        present, body = self.objects[key], orjson.loads(request.body)
        if body["metadata"]["resourceVersion"] != present["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified")
        named = body["status"].get("nominatedClusterNames")
        if present["status"].get("clusterName") and named:
            raise Invalid("clusterName and nominatedClusterNames are mutually exclusive")
        self.writes.append((name, named or []))
        self.change(name, nominatedClusterNames=named)

    def follow(self, resources: Any, listener: Any) -> Callable[[], None]:
        self._listeners.append(listener)
        gvrs = {gvr.resource: gvr for gvr in resources}
        for (member, plural, _), obj in list(self.objects.items()):
            listener(member, gvrs[plural], orjson.loads(orjson.dumps(obj)), False)
        return lambda: self._listeners.remove(listener)

    def on_change(self, listener: Any) -> Callable[[], None]:
        self._news.append(listener)
        return lambda: self._news.remove(listener)

    def seat(self, asks: list[Ask]) -> dict[str, Any]:
        self.asked += asks
        while self.meanwhile:
            self.meanwhile.pop(0)()
        left = dict(self.free)
        for each in self.promised.values():
            left[each.member] -= each.gang["spec"]["podSets"][0]["count"] - each.seen
        found: dict[str, Any] = {}
        for ask in asks:
            pods = ask.gang["spec"]["podSets"][0]["count"]
            open_to = [m for m in sorted(left) if m not in ask.barred and m not in self.shut]
            best = next((m for m in open_to if left[m] >= pods), None)
            if best is None:
                found[ask.uid] = NoSeat("NoRoom", f"needs {pods}", self.shut)
            else:
                left[best] -= pods
                found[ask.uid] = Seat(best, f"{best} has room", self.shut)
        return found

    def promise(self, uid: str, promised: Promised | None) -> None:
        if promised is None:
            self.promised.pop(uid, None)
        else:
            self.promised[uid] = promised

    def bound(self, member: str, namespace: str, mine: Any) -> int:
        labels = ({"batch.kubernetes.io/job-name": f"of-{name}"} for name in self.pods)
        return sum(
            count for labels, count in zip(labels, self.pods.values(), strict=True)
            if mine(labels, dict)
        )  # fmt: skip


@asynccontextmanager
async def dispatching(kueue: Kueue):
    dispatcher = Dispatcher(kueue, [MANAGER], clock=lambda: kueue.now_s, now=lambda: NOW_S)
    task = asyncio.create_task(dispatcher.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


async def quiet(kueue: Kueue) -> None:
    """Until the dispatcher has looked again, whatever it saw in it."""
    looked = len(kueue.asked)
    mark = f"mark-{kueue.revision}"
    kueue.submit(mark, pods=10_000)
    await until(lambda: len(kueue.asked) > looked and any(mark in e.uid for e in kueue.asked))
    kueue.delete(mark)


@pytest.fixture(autouse=True)
def _no_faults(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert not [e for e in caplog.get_records("call") if e.levelno >= logging.ERROR]


async def test_the_best_is_nominated_and_a_second_pass_writes_nothing():
    kueue = Kueue(east=1, west=4)
    kueue.submit(pods=2)
    async with dispatching(kueue):
        await until(lambda: kueue.nominated() == ["west"])
        await until(lambda: kueue.told("Nominated"))
        await quiet(kueue)
        await quiet(kueue)
        assert kueue.writes == [("w", ["west"])]
        assert kueue.promised["u-w"].member == "west"
        assert kueue.told("Nominated") == ["west has room"]


async def test_what_fits_nowhere_is_told_why_once_and_goes_when_there_is_room():
    kueue = Kueue(east=1, west=1)
    kueue.submit(pods=2)
    async with dispatching(kueue):
        await until(lambda: kueue.told("NoRoom"))
        await quiet(kueue)
        assert kueue.told("NoRoom")[0] == "needs 2"
        assert (kueue.nominated(), kueue.promised) == ([], {})
        kueue.free["west"] = 2
        kueue.changed()
        await until(lambda: kueue.nominated() == ["west"])
        about = [each for each in kueue.events if each["involvedObject"]["name"] == "w"]
        assert [each["reason"] for each in about if each["reason"] == "NoRoom"] == ["NoRoom"]


async def test_fifty_at_once_do_not_all_get_the_same_room():
    kueue = Kueue(east=12, west=20)
    for n in range(50):
        kueue.submit(f"w{n}")
    async with dispatching(kueue):
        await until(lambda: sum(bool(kueue.nominated(f"w{n}")) for n in range(50)) == 32)
        await quiet(kueue)
        named = [name for n in range(50) for name in kueue.nominated(f"w{n}")]
        assert (named.count("east"), named.count("west")) == (12, 20)
        # What has gone makes room for the next, and for one only.
        gone = next(f"w{n}" for n in range(50) if kueue.nominated(f"w{n}") == ["east"])
        kueue.delete(gone)
        left = [f"w{n}" for n in range(50) if f"w{n}" != gone]
        await until(lambda: sum(bool(kueue.nominated(name)) for name in left) == 32)
        await quiet(kueue)
        assert [n for each in left for n in kueue.nominated(each)].count("east") == 12


async def test_of_more_than_are_decided_at_once_the_most_urgent_get_the_room():
    kueue = Kueue(east=3)
    for n in range(80):
        kueue.submit(f"w{n}", priority=n)
    async with dispatching(kueue):
        await until(lambda: sum(bool(kueue.nominated(f"w{n}")) for n in range(80)) == 3)
        await quiet(kueue)
        assert {f"w{n}" for n in range(80) if kueue.nominated(f"w{n}")} == {"w77", "w78", "w79"}
        assert len(kueue.writes) == 3


async def test_a_deletion_that_is_seen_before_the_answer_to_a_write_stays_one():
    kueue = Kueue(east=4)
    kueue.submit()
    kueue.after.append(lambda: kueue.delete("w"))
    async with dispatching(kueue):
        await until(lambda: kueue.writes)
        await quiet(kueue)
        assert kueue.promised == {}


async def test_room_is_kept_until_all_pods_are_on_nodes():
    kueue = Kueue(east=4)
    kueue.submit(pods=3)
    async with dispatching(kueue):
        await until(lambda: kueue.nominated() == ["east"])
        kueue.admit("w", "east")
        kueue.pods["w"] = 2
        kueue.changed()
        await until(lambda: kueue.promised["u-w"].seen == 2)
        kueue.pods["w"] = 3
        kueue.changed()
        await until(lambda: "u-w" not in kueue.promised)
        kueue.pods["w"] = 0  # they have ended
        await quiet(kueue)
        assert "u-w" not in kueue.promised


async def test_pods_that_never_come_do_not_keep_room_for_ever():
    kueue = Kueue(east=4)
    kueue.submit(pods=3)
    async with dispatching(kueue):
        await until(lambda: kueue.nominated() == ["east"])
        kueue.admit("w", "east")
        await quiet(kueue)
        assert kueue.promised["u-w"].member == "east"
        kueue.passes(APPEAR_S + 1)
        await until(lambda: "u-w" not in kueue.promised)


async def test_one_that_a_worker_refuses_goes_to_the_next_and_stays_in_line():
    kueue = Kueue(east=4, west=4, north=4)
    kueue.submit()
    async with dispatching(kueue):
        await until(lambda: kueue.nominated() == ["east"])
        kueue.refuse("w", "east")
        await until(lambda: kueue.nominated() == ["north", "east"])
        assert kueue.promised["u-w"].member == "north"
        assert kueue.asked[-1].barred == {
            "east": "its Kueue: no quota",
            MANAGER: kueue.asked[-1].barred[MANAGER],
        }
        kueue.refuse("w", "north")
        await until(lambda: kueue.nominated() == ["west", "north", "east"])
        kueue.refuse("w", "west")
        await until(lambda: kueue.told("WaitsInLine"))
        await quiet(kueue)
        assert kueue.nominated() == ["west", "north", "east"]
        assert "u-w" not in kueue.promised  # nobody has said that it may run
        assert "east (its Kueue: no quota)" in kueue.told("WaitsInLine")[0]
        # The first that has quota after all gets it: it is still named.
        kueue.answer("w", "north", condition("QuotaReserved", "True"))
        await until(lambda: "u-w" in kueue.promised)
        assert kueue.promised["u-w"].member == "north"
        kueue.admit("w", "north")


async def test_one_that_nobody_answers_for_is_tried_elsewhere_after_a_while():
    kueue = Kueue(east=4, west=4)
    kueue.submit()
    async with dispatching(kueue):
        await until(lambda: kueue.nominated() == ["east"])
        await quiet(kueue)
        kueue.passes(ANSWER_S - 1)
        await quiet(kueue)
        assert kueue.nominated() == ["east"]
        kueue.passes(2)
        await until(lambda: kueue.nominated() == ["west", "east"])


async def test_a_cluster_that_the_manager_does_not_reach_is_not_asked():
    kueue = Kueue(east=4, west=4)
    down = condition("Active", "False", "ClientConnectionFailed", "no route")
    kueue.put(
        MANAGER,
        CLUSTERS,
        {"metadata": {"name": "east", "uid": "c"}, "status": {"conditions": [down]}},
    )
    kueue.submit()
    async with dispatching(kueue):
        await until(lambda: kueue.nominated() == ["west"])


async def test_what_was_put_out_of_a_cluster_does_not_go_back_at_once():
    kueue = Kueue(east=4, west=0)
    kueue.submit()
    async with dispatching(kueue):
        await until(lambda: kueue.nominated() == ["east"])
        kueue.admit("w", "east")
        await until(lambda: kueue.workload()["status"].get("clusterName") == "east")
        kueue.evict("w")
        await until(lambda: kueue.told("NoRoom"))
        assert kueue.nominated() == []
        assert "put out" in next(e for e in kueue.asked[::-1] if e.uid == "u-w").barred["east"]
        kueue.passes(LEFT_S + 1)
        await until(lambda: kueue.nominated() == ["east"])


async def test_what_was_not_seen_yet_is_found_by_the_look_before_the_write():
    kueue = Kueue(east=4, west=4)
    kueue.submit()

    def admitted() -> None:
        ready = [{"name": CHECK, "state": "Ready"}]
        kueue.change(clusterName="west", admissionChecks=ready)

    kueue.before.append(admitted)
    async with dispatching(kueue):
        await until(lambda: "u-w" in kueue.promised and kueue.promised["u-w"].member == "west")
        await quiet(kueue)
        assert (kueue.refusals, kueue.writes) == ([], [])


async def test_another_one_of_the_same_name_that_was_not_seen_yet_is_not_taken_for_the_first():
    kueue = Kueue(east=4)
    kueue.submit(pods=3)

    def again() -> None:
        kueue.delete("w")
        kueue.submit(pods=5, uid="u-second")

    kueue.before.append(again)
    async with dispatching(kueue):
        await until(lambda: not kueue.before)
        await quiet(kueue)
        kueue.change()  # it is seen at last
        await until(lambda: "needs 5" in kueue.told("NoRoom"))
        assert (kueue.writes, kueue.promised) == ([], {})


async def test_what_goes_while_others_are_decided_about_is_promised_nothing():
    kueue = Kueue(east=100)
    names = [kueue.submit(f"w{n:02}", priority=100 - n) for n in range(40)]
    kueue.meanwhile.append(lambda: kueue.delete(names[-1]))
    async with dispatching(kueue):
        await until(lambda: all(map(kueue.nominated, names[:-1])))
        await quiet(kueue)
        assert set(kueue.promised) == {f"u-{name}" for name in names[:-1]}


@pytest.mark.parametrize("there", ["east", "west"])
async def test_a_cluster_that_got_it_in_between_is_not_disturbed(there):
    """Kueue's rules refuse a nomination then: none is ever sent."""
    kueue = Kueue(east=4, west=4)
    kueue.submit()

    def admitted() -> None:
        ready = [{"name": CHECK, "state": "Ready"}]
        kueue.change(clusterName=there, admissionChecks=ready)

    kueue.between.append(admitted)
    async with dispatching(kueue):
        await until(lambda: kueue.refusals)
        await until(lambda: "u-w" in kueue.promised and kueue.promised["u-w"].member == there)
        await quiet(kueue)
        assert [type(each) for each in kueue.refusals] == [Conflict]
        assert kueue.writes == []


async def test_a_change_of_something_else_in_between_costs_a_second_look():
    kueue = Kueue(east=4)
    kueue.submit()
    kueue.between.append(lambda: kueue.change(resourceRequests=[]))
    async with dispatching(kueue):
        await until(lambda: kueue.nominated() == ["east"])
        assert len(kueue.refusals) == 1


async def test_a_workload_that_is_deleted_in_between_leaves_nothing():
    kueue = Kueue(east=4)
    kueue.submit()
    kueue.between.append(lambda: kueue.delete("w"))
    async with dispatching(kueue):
        await until(lambda: not kueue.between)
        await quiet(kueue)
        assert kueue.promised == {}
        assert kueue.writes == []


async def test_one_of_the_same_name_is_another_one():
    kueue = Kueue(east=4)
    kueue.submit(pods=3)

    def again() -> None:
        kueue.delete("w")
        kueue.submit(pods=2, uid="u-second")

    kueue.between.append(again)
    async with dispatching(kueue):
        await until(lambda: kueue.nominated() == ["east"])
        await quiet(kueue)
        assert set(kueue.promised) == {"u-second"}


async def test_a_restart_writes_nothing_and_keeps_the_room():
    kueue = Kueue(east=4, west=4)
    kueue.submit("first", pods=3)
    kueue.submit("second", pods=1)
    async with dispatching(kueue):
        await until(lambda: kueue.nominated("first") and kueue.nominated("second"))
        kueue.admit("second", "east")
    before = list(kueue.writes)
    kueue.promised.clear()
    async with dispatching(kueue):
        await until(lambda: set(kueue.promised) == {"u-first", "u-second"})
        kueue.submit("third", pods=4)
        await until(lambda: kueue.nominated("third") == ["west"])
        assert kueue.writes == [*before, ("third", ["west"])]


async def test_a_gateway_killed_before_its_write_was_answered_goes_on_from_what_is_there():
    kueue = Kueue(east=4, west=4)
    kueue.submit()
    async with dispatching(kueue):
        await until(lambda: kueue.writes)  # and is cancelled at once
    async with dispatching(kueue):
        await until(lambda: "u-w" in kueue.promised)
        await quiet(kueue)
        assert kueue.writes == [("w", ["east"])]


async def test_a_manager_that_does_not_answer_is_asked_again_and_holds_nobody_up(caplog):
    kueue = Kueue(east=1, west=1)
    kueue.submit()
    kueue.trouble = TransportError("no route", member=MANAGER)
    async with dispatching(kueue):
        await until(lambda: "no nomination was written" in caplog.text)
        await until(lambda: not kueue.promised)
        kueue.trouble = None
        await quiet(kueue)
        assert kueue.nominated() == []
        kueue.passes(11)
        await until(lambda: kueue.nominated() == ["east"])


async def test_a_manager_that_gives_no_right_is_told_what_to_do(caplog):
    kueue = Kueue(east=1)
    kueue.submit()
    kueue.trouble = Forbidden(f'User "{USER}" cannot patch workloads/status')
    async with dispatching(kueue):
        await until(lambda: "examples/multikueue/rights.yaml" in caplog.text)


async def test_a_cluster_that_is_no_member_is_reported_once_and_the_others_serve():
    kueue = Kueue(east=1, west=1)
    kueue.members.discard("east")
    del kueue.free["east"]
    kueue.submit()
    async with dispatching(kueue):
        await until(lambda: kueue.nominated() == ["west"])
        await until(lambda: kueue.told("NotAMember"))
        await quiet(kueue)
        (event,) = [each for each in kueue.events if each["reason"] == "NotAMember"]
        assert event["involvedObject"]["name"] == "east"
        assert "fleet.dev/member" in event["message"]


async def test_rules_and_configs_that_change_take_clusters_off_the_list():
    kueue = Kueue(east=4, west=4)
    kueue.submit()
    async with dispatching(kueue):
        await until(lambda: kueue.nominated() == ["east"])
        kueue.refuse("w", "east")
        await until(lambda: kueue.nominated() == ["west", "east"])
        kueue.refuse("w", "west")
        kueue.shut = frozenset({"east"})
        kueue.changed()
        await until(lambda: kueue.nominated() == ["west"])
        kueue.configure("east")
        await until(lambda: kueue.nominated() == [])


async def test_a_member_that_leaves_keeps_what_it_was_asked_and_is_asked_no_more():
    """Its Kueue is reached by the manager's as before, and may have said yes."""
    kueue = Kueue(east=4, west=4)
    kueue.submit()
    async with dispatching(kueue):
        await until(lambda: kueue.nominated() == ["east"])
        kueue.members.discard("east")
        del kueue.free["east"]
        kueue.changed()
        await until(lambda: kueue.nominated() == ["west", "east"])
        kueue.submit("second")
        await until(lambda: kueue.nominated("second") == ["west"])


async def test_managers_that_cannot_be_served_are_named(caplog):
    kueue = Kueue(east=4)
    kueue.serving.discard(MANAGER)
    async with dispatching(kueue):
        await until(lambda: "does not serve kueue.x-k8s.io/v1beta2" in caplog.text)
        kueue.members.discard(MANAGER)
        kueue.changed()
        await until(lambda: "no member of the fleet yet" in caplog.text)
        kueue.members.add(MANAGER)
        kueue.serving.add(MANAGER)
        kueue.submit()
        await until(lambda: kueue.nominated() == ["east"])


async def test_room_for_what_was_admitted_long_ago_is_not_kept_after_a_restart():
    kueue = Kueue(east=4)
    kueue.submit(pods=3)
    long_ago = condition("Admitted", "True")
    reserved = condition("QuotaReserved", "True")
    kueue.change(nominatedClusterNames=["east"], conditions=[reserved, long_ago])
    kueue.admit("w", "east")
    async with dispatching(kueue):
        kueue.submit("second", pods=4)
        await until(lambda: kueue.nominated("second") == ["east"])
        assert "u-w" not in kueue.promised


async def test_quota_that_is_taken_back_ends_the_promise():
    kueue = Kueue(east=4)
    kueue.submit()
    async with dispatching(kueue):
        await until(lambda: "u-w" in kueue.promised and kueue.nominated() == ["east"])
        lost = [condition("QuotaReserved", "False", "Pending", "preempted")]
        kueue.change(conditions=lost, nominatedClusterNames=None)
        await until(lambda: "u-w" not in kueue.promised)
        await quiet(kueue)
        assert kueue.writes == [("w", ["east"])]


def counted(name: str, **labels: str) -> float:
    return (
        REGISTRY.get_sample_value(f"fleet_multikueue_{name}", {"manager": MANAGER, **labels}) or 0
    )


async def test_nominations_and_what_came_of_them_are_counted():
    """Once each: refused by one, silent in another, admitted by the third, then put out of it."""
    names = {"refuses": "Refused", "silent": "Silent", "takes": "Admitted"}
    kueue = Kueue(refuses=3, silent=2, takes=1)

    def told(name: str, answer: str) -> float:
        return counted("answers_total", cluster=name, answer=answer)

    asked = {name: counted("nominations_total", cluster=name) for name in names}
    before = {(name, word): told(name, word) for name, word in names.items()}
    took = counted("answer_duration_seconds_sum", answer="Admitted")
    out = told("takes", "PutOut")
    kueue.submit()
    async with dispatching(kueue):
        await until(lambda: kueue.nominated() == ["refuses"])
        await until(lambda: counted("waiting", nominated="true") == 1)
        kueue.refuse("w", "refuses")
        await until(lambda: kueue.nominated()[0] == "silent")
        await quiet(kueue)
        kueue.passes(ANSWER_S)
        await until(lambda: kueue.nominated()[0] == "takes")
        await quiet(kueue)
        kueue.now_s += 2
        kueue.admit("w", "takes")
        await until(lambda: told("takes", "Admitted") > before["takes", "Admitted"])
        await quiet(kueue)
        assert counted("waiting", nominated="true") == 0
        assert counted("answer_duration_seconds_sum", answer="Admitted") == took + 2
        kueue.evict("w")
        await until(lambda: told("takes", "PutOut") == out + 1)
        await until(lambda: kueue.nominated() != [])
    for name, word in names.items():
        assert told(name, word) == before[name, word] + 1, name
        assert counted("nominations_total", cluster=name) >= asked[name] + 1


async def test_nominations_that_could_not_be_written_are_counted():
    kueue = Kueue(east=1)
    kueue.submit()
    before = counted("write_failures_total")
    kueue.trouble = TransportError("no answer", member=MANAGER)
    async with dispatching(kueue):
        await until(lambda: counted("write_failures_total") > before)
    assert kueue.nominated() == []
