"""Joining and leaving: all or nothing, and known by UID."""

from __future__ import annotations

import asyncio
import os
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import ConfigError, JoinError, TransportError, Unauthorized
from fleet.gateway import version
from fleet.kube.wire import Request
from fleet.members.credentials import CredentialStore
from fleet.members.health import Patience, Served
from fleet.members.member import Rhythm
from fleet.members.roster import Change, Members
from tests.unit.members.conftest import (
    FAST,
    PODS,
    FakeCluster,
    FakeTransport,
    Recorder,
    failed,
    frame,
    ok,
    pod,
)

if TYPE_CHECKING:
    from collections.abc import Callable

QUICK = Rhythm(
    probe_every_s=0.01,
    probe_s=5,
    discover_every_s=0.02,
    pace=FAST,
    patience=Patience(lost_after=2, back_after=1),
)


class World:
    """Clusters by the kubeconfigs that lead to them, and the news that came."""

    def __init__(self, directory) -> None:
        self.store = CredentialStore(directory / "credentials")
        self.clusters: dict[bytes, FakeCluster] = {}
        self.news: list[tuple[str, str]] = []
        self._came = asyncio.Event()

    def cluster(self, uid: str, kubeconfig: bytes) -> FakeCluster:
        self.clusters[kubeconfig] = FakeCluster(uid)
        return self.clusters[kubeconfig]

    def connect(self, kubeconfig: bytes) -> FakeTransport:
        for key, cluster in self.clusters.items():
            if key.strip() in kubeconfig:
                return cluster.connect(kubeconfig)
        raise ConfigError("kubeconfig: leads nowhere")

    def members(self, **options: Any) -> Members:
        options = {"rhythm": QUICK, "random": Random(1), "files_every_s": 0.005, **options}
        made = Members(self.store, self.connect, **options)
        made.on_change(self.heard)
        return made

    async def heard(self, change: Change) -> None:
        self.news.append((change.kind, change.member.name))
        self._came.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for news after which the condition holds."""
        while not condition():
            self._came.clear()
            await self._came.wait()


EAST = b"to: east\n"
WEST = b"to: west\n"


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


async def test_a_cluster_joins_is_known_and_leaves(world):
    east = world.cluster("uid-east", EAST)
    async with world.members() as members:
        member = await members.join("east", EAST)
        assert world.news[0] == ("joined", "east")
        assert members.get("east") is member
        assert (member.uid, member.version) == ("uid-east", "v1.36.3")
        assert PODS.gvr in member.discovery.resources
        assert [m.name for m in members] == ["east"]
        assert "east" in members
        assert world.store.load("east").uid == "uid-east"
        await world.until(lambda: member.health["Reachable"].status == "True")
        await members.leave("east")
        assert world.news[-1] == ("left", "east")
        assert len(members) == 0
        assert world.store.names() == []
        assert east.transports[0].closed
        with pytest.raises(JoinError, match=r"east is no member \(members: there are none\)"):
            await members.leave("east")


async def test_members_are_still_members_after_a_restart_even_when_down(world):
    world.cluster("uid-east", EAST)
    west = world.cluster("uid-west", WEST)
    async with world.members() as members:
        await members.join("east", EAST)
        await members.join("west", WEST)
    west.failure = TransportError("no route", sent=False)
    async with world.members() as members:
        assert [(m.name, m.uid) for m in members] == [("east", "uid-east"), ("west", "uid-west")]
        down = members.get("west")
        assert down is not None
        await world.until(lambda: down.health["Reachable"].status == "False")
        assert down.health["Reachable"].message == "no route"
        with pytest.raises(TransportError) as caught:
            await down.handle(Request("GET", "/version"))
        assert caught.value.member == "west"
        assert not caught.value.sent
        west.failure = None
        await world.until(lambda: down.health["Reachable"].status == "True")
        await world.until(lambda: down.version == "v1.36.3")
    assert all(t.closed for cluster in (west,) for t in cluster.transports)


async def test_a_member_whose_kubeconfig_no_longer_works_is_a_member_with_bad_credentials(world):
    world.cluster("uid-east", EAST)
    async with world.members() as members:
        await members.join("east", EAST)
    world.clusters.clear()
    async with world.members() as members:
        member = members.get("east")
        assert member is not None
        await world.until(lambda: member.health["CredentialsValid"].status == "False")
        assert member.health["CredentialsValid"].reason == "NoCredential"
        assert member.health["Reachable"].status == "Unknown"
        with pytest.raises(TransportError, match="leads nowhere"):
            await member.handle(Request("GET", "/version"))


async def test_files_that_no_join_wrote_and_second_names_are_left_out(world, tmp_path, caplog):
    world.cluster("uid-east", EAST)
    async with world.members() as members:
        await members.join("east", EAST)
    directory = tmp_path / "credentials"
    (directory / "twin.kubeconfig").write_bytes((directory / "east.kubeconfig").read_bytes())
    (directory / "stray.kubeconfig").write_bytes(EAST)
    (directory / "No_Name.kubeconfig").write_bytes(EAST)
    async with world.members() as members:
        assert [member.name for member in members] == ["east"]
    assert "twin is left out: the cluster is east already" in caplog.text
    assert "stray is left out: it was not written by a join" in caplog.text
    assert "No_Name is left out" in caplog.text


@pytest.mark.parametrize(
    "name", ["", "East", "a.b", "-a", "a-", "a_b", "x" * 31, "../x", "fünf", "a\n"]
)
async def test_bad_names(world, name):
    world.cluster("uid-east", EAST)
    async with world.members() as members:
        with pytest.raises(JoinError, match="cannot name a member"):
            await members.join(name, EAST)


@pytest.mark.parametrize("name", ["fleet", "fleet-objects"])
async def test_names_of_the_fleets_own(world, name):
    world.cluster("uid-east", EAST)
    async with world.members() as members:
        with pytest.raises(JoinError, match="what the fleet calls its own"):
            await members.join(name, EAST)


@pytest.mark.parametrize("name", ["a", "0", "x" * 30, "idc-a"])
async def test_good_names(world, name):
    world.cluster("uid-east", EAST)
    async with world.members() as members:
        assert (await members.join(name, EAST)).name == name


async def test_a_name_that_the_fleet_itself_uses(world):
    world.cluster("uid-east", EAST)
    async with world.members(name_taken=lambda name: f"a fleet object ends in .{name}") as members:
        with pytest.raises(JoinError, match=r"a fleet object ends in \.east"):
            await members.join("east", EAST)


def nothing_happened(world: World, members: Members) -> None:
    assert [m.name for m in members] == []
    assert world.store.names() == []
    assert world.news == []
    for cluster in world.clusters.values():
        assert all(transport.closed for transport in cluster.transports)


REFUSALS = {
    "unreachable": (TransportError("connection refused", sent=False), "cannot be reached"),
    "expired": (failed(401, message="certificate has expired"), "certificate has expired"),
    "forbidden": (failed(403, message="no"), "administrator"),
    "no-kubernetes": (failed(404, message="not here"), "answers 404"),
    "a-web-page": (ok(b"<html>"), "is no JSON"),
    "something-else": (ok({"hello": "world"}), "is this a Kubernetes API"),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_a_cluster_that_cannot_be_used_changes_nothing(world, case):
    east = world.cluster("uid-east", EAST)
    east.failure, said = REFUSALS[case]
    async with world.members() as members:
        with pytest.raises(JoinError) as caught:
            await members.join("east", EAST)
        assert said in str(caught.value)
        assert "east" in str(caught.value)
        nothing_happened(world, members)
        east.failure = None
        await members.join("east", EAST)


async def test_a_gateway_is_told_from_a_cluster(world):
    east = world.cluster("uid-east", EAST)
    east.routes["/api/v1/namespaces/kube-system"] = failed(404, message="not here")
    east.routes["/version"] = version.document()
    async with world.members() as members:
        with pytest.raises(JoinError, match="a fleet gateway answers there") as caught:
            await members.join("east", EAST)
        assert "join each of them by its own kubeconfig" in str(caught.value)
        nothing_happened(world, members)


@pytest.mark.parametrize("path", ["/version", "/apis"])
async def test_a_cluster_that_does_not_say_what_it_serves_changes_nothing(world, path):
    east = world.cluster("uid-east", EAST)
    east.routes[path] = failed(500)
    async with world.members() as members:
        with pytest.raises(JoinError, match="cannot be read"):
            await members.join("east", EAST)
        nothing_happened(world, members)
        east.routes["/version"] = {}
        east.routes.pop("/apis")
        with pytest.raises(JoinError, match="version"):
            await members.join("east", EAST)
        nothing_happened(world, members)


async def test_a_name_that_is_no_member_cannot_be_replaced(world):
    async with world.members() as members:
        with pytest.raises(JoinError, match="east is no member, so there is nothing to replace"):
            await members.join("east", EAST, replace=True)
        assert len(members) == 0


async def test_a_kubeconfig_that_leads_nowhere_changes_nothing(world):
    async with world.members() as members:
        with pytest.raises(ConfigError):
            await members.join("east", EAST)
        nothing_happened(world, members)


async def test_a_disk_that_is_full_changes_nothing(world, monkeypatch):
    world.cluster("uid-east", EAST)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    async with world.members() as members:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(Exception, match="No space left"):
                await members.join("east", EAST)
        nothing_happened(world, members)


async def test_a_join_that_is_cancelled_changes_nothing(world):
    east = world.cluster("uid-east", EAST)
    begun = asyncio.Event()

    class Hanging(FakeTransport):
        async def handle(self, request: Request):
            if request.path == "/apis":
                begun.set()
                await asyncio.Event().wait()
            return await super().handle(request)

    def connect(kubeconfig: bytes) -> FakeTransport:
        transport = Hanging(east, kubeconfig)
        east.transports.append(transport)
        return transport

    world.connect = connect
    async with world.members() as members:
        joining = asyncio.create_task(members.join("east", EAST))
        await begun.wait()
        with pytest.raises(JoinError, match="being joined"):
            await members.join("east", WEST)
        with pytest.raises(JoinError, match="being joined"):
            await members.leave("east")
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining
        nothing_happened(world, members)


async def test_a_join_that_is_cancelled_at_its_last_step_takes_back_what_it_wrote(
    world, monkeypatch
):
    world.cluster("uid-east", EAST)
    save = world.store.save
    async with world.members() as members:

        def saved(*arguments: Any, **options: Any) -> None:
            save(*arguments, **options)
            joining.cancel()

        monkeypatch.setattr(world.store, "save", saved)
        joining = asyncio.create_task(members.join("east", EAST))
        with pytest.raises(asyncio.CancelledError):
            await joining
        nothing_happened(world, members)


async def test_the_same_cluster_under_another_address_is_recognised(world):
    world.cluster("4f0c0000-1111", EAST)
    world.cluster("4f0c0000-1111", WEST)
    async with world.members() as members:
        await members.join("idc-a", EAST)
        with pytest.raises(JoinError) as caught:
            await members.join("idc-x", WEST)
        assert str(caught.value).splitlines() == [
            "this cluster is a member already: it is idc-a (same kube-system UID 4f0c0000…).",
            "  To see it:  fleet get cluster idc-a",
            "  To change how it is reached:  fleet join … --name idc-a --replace",
            "  To have it as idc-x instead:  fleet leave idc-a, then join it again",
        ]
        assert world.store.names() == ["idc-a"]


async def test_a_cluster_that_is_a_member_is_told_with_since_when(world):
    world.cluster("uid", EAST)
    async with world.members(since=lambda name: f"the day of {name}") as members:
        await members.join("east", EAST)
        with pytest.raises(JoinError, match="it is east, since the day of east"):
            await members.join("e2", EAST)
        with pytest.raises(JoinError, match="east is a member already, since the day of east"):
            await members.join("east", EAST)


async def test_two_joins_at_once_make_one_member(world):
    world.cluster("uid", EAST)
    world.cluster("uid", WEST)
    async with world.members() as members:
        outcomes = await asyncio.gather(
            members.join("a", EAST), members.join("b", WEST), return_exceptions=True
        )
        assert len(members) == 1
        assert sum(isinstance(outcome, JoinError) for outcome in outcomes) == 1


async def test_a_name_in_use_is_not_taken_over_silently(world):
    world.cluster("uid-east", EAST)
    world.cluster("uid-west", WEST)
    async with world.members() as members:
        await members.join("east", EAST)
        with pytest.raises(JoinError, match="--replace"):
            await members.join("east", WEST)
        with pytest.raises(JoinError, match="this is not east"):
            await members.join("east", WEST, replace=True)
        assert world.store.load("east").uid == "uid-east"
        assert not world.clusters[EAST].transports[0].closed


async def test_replacing_changes_the_way_and_keeps_the_member(world):
    old = world.cluster("uid-east", EAST)
    new = world.cluster("uid-east", WEST)
    async with world.members() as members:
        member = await members.join("east", EAST)
        assert await members.join("east", WEST, replace=True) is member
        assert old.transports[0].closed
        before = new.asked("/version")
        await member.handle(Request("GET", "/version"))
        assert new.asked("/version") == before + 1
        assert b"west" in world.store.load("east").kubeconfig


async def test_a_kubeconfig_replaced_on_disk_is_taken_up(world, tmp_path):
    old = world.cluster("uid-east", EAST)
    new = world.cluster("uid-east", WEST)
    async with world.members() as members:
        member = await members.join("east", EAST)
        path = tmp_path / "credentials" / "east.kubeconfig"
        path.with_suffix(".new").write_bytes(WEST)
        path.with_suffix(".new").replace(path)
        await old.transports_closed.wait()
        before = new.asked("/version")
        await member.handle(Request("GET", "/version"))
        assert new.asked("/version") == before + 1
    assert world.store.load("east").uid == "uid-east"


async def test_a_kubeconfig_on_disk_that_leads_elsewhere_is_not_taken_up(world, tmp_path, caplog):
    world.cluster("uid-east", EAST)
    other = world.cluster("uid-west", WEST)
    async with world.members() as members:
        member = await members.join("east", EAST)
        path = tmp_path / "credentials" / "east.kubeconfig"
        path.with_suffix(".new").write_bytes(WEST)
        path.with_suffix(".new").replace(path)
        await other.transports_closed.wait()
        assert (await member.handle(Request("GET", "/version"))).status == 200
    assert "leads to another cluster (kube-system UID uid-west)" in caplog.text


async def test_a_listener_that_fails_does_not_stop_the_others(world, caplog):
    world.cluster("uid-east", EAST)
    async with world.members() as members:

        async def faulty(change: Change) -> None:
            raise RuntimeError("not today")

        members._listeners.insert(0, faulty)
        await members.join("east", EAST)
        assert world.news[0] == ("joined", "east")
        await members.leave("east")
    assert "not today" in caplog.text


class Slow:
    """A listener that takes its time, noting what it began and ended."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.heard: list[str] = []

    async def listen(self, change: Change) -> None:
        if change.kind in ("joined", "left"):
            self.heard.append(f"{change.kind} begins")
            self.began.set()
            await self.go_on.wait()
            self.heard.append(f"{change.kind} ends")


async def test_who_goes_away_while_a_cluster_joins_or_leaves_keeps_nobody_from_hearing_of_it(world):
    east = world.cluster("uid-east", EAST)
    async with world.members() as members:
        for call, kind in ((members.join("east", EAST), "joined"), (members.leave("east"), "left")):
            slow = Slow()
            members._listeners.insert(0, slow.listen)
            asking = asyncio.create_task(call)
            await slow.began.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            slow.go_on.set()
            await world.until(lambda kind=kind: (kind, "east") in world.news)
            members._listeners.remove(slow.listen)
        await east.transports_closed.wait()
        assert len(members) == 0


async def test_changes_are_told_one_at_a_time(world):
    world.cluster("uid-east", EAST)
    async with world.members() as members:
        await members.join("east", EAST)
        slow = Slow()
        members.on_change(slow.listen)
        leaving = asyncio.create_task(members.leave("east"))
        await slow.began.wait()
        joining = asyncio.create_task(members.join("east", EAST))
        while "east" not in members:  # noqa: ASYNC110 - nobody is told of it while one listens
            await asyncio.sleep(0)
        slow.go_on.set()
        await leaving
        assert await joining is members.get("east")
        assert slow.heard == ["left begins", "left ends", "joined begins", "joined ends"]


async def test_what_the_body_raises_leaves_as_it_is(world):
    world.cluster("uid-east", EAST)
    with pytest.raises(KeyError):
        async with world.members() as members:
            await members.join("east", EAST)
            raise KeyError("x")
    assert world.clusters[EAST].transports[0].closed


async def test_unsubscribing(world):
    world.cluster("uid-east", EAST)
    async with world.members() as members:
        heard: list[Change] = []

        async def listener(change: Change) -> None:
            heard.append(change)

        members.on_change(listener)()
        await members.join("east", EAST)
        assert heard == []


async def test_a_watch_feeds_its_sink_until_it_is_stopped(world):
    east = world.cluster("uid-east", EAST)
    async with world.members() as members:
        member = await members.join("east", EAST)
        sink = Recorder()
        watch = member.watch(PODS, sink)
        await watch.synced.wait()
        east.streams[0].send(frame("ADDED", pod("a", 11)))
        await sink.saw("upsert", "a")
        assert await watch.confirm(float("inf"))
        assert await watch.reached(11, float("inf"))
        await world.until(lambda: member.health["WatchFresh"].status == "True")
        await world.until(lambda: member.health.ready)
        await watch.stop()
        assert east.streams[0].closed
        assert not watch.running
        another = member.watch(PODS, sink)
        await another.synced.wait()
        await members.leave("east")
        assert not another.running
        with pytest.raises(RuntimeError, match="not running"):
            member.watch(PODS, sink)


async def test_a_watch_that_breaks_makes_the_member_not_fresh_and_nothing_else(world):
    east = world.cluster("uid-east", EAST)
    async with world.members() as members:
        member = await members.join("east", EAST)
        watch = member.watch(PODS, Recorder())
        await watch.synced.wait()
        handle = east.handle

        async def no_watch(request: Request):
            if request.param("watch"):
                return failed(403, message="may not watch")
            return await handle(request)

        east.handle = no_watch
        east.streams[0].fail(TransportError("cut"))
        await world.until(lambda: member.health["WatchFresh"].status == "False")
        assert "pods: may not watch" in member.health["WatchFresh"].message
        assert member.health["Reachable"].status == "True"
        east.handle = handle
        await world.until(lambda: member.health["WatchFresh"].status == "True")


async def test_a_member_that_comes_back_is_looked_at_at_once(world):
    east = world.cluster("uid-east", EAST)
    slow = Rhythm(
        probe_every_s=0.01,
        probe_s=5,
        discover_every_s=3600,
        pace=FAST,
        patience=Patience(lost_after=1, back_after=1),
    )
    async with world.members(rhythm=slow) as members:
        member = await members.join("east", EAST)
        east.failure = TransportError("down", sent=False)
        await world.until(lambda: member.health["Reachable"].status == "False")
        east.routes["/api/v1"]["resources"].clear()
        east.failure = None
        await world.until(lambda: member.discovery.resources == {})
        assert ("served", "east") in world.news


async def test_another_cluster_at_the_same_address_is_not_taken_for_the_member(world):
    east = world.cluster("uid-east", EAST)
    async with world.members() as members:
        member = await members.join("east", EAST)
        sink = Recorder()
        watch = member.watch(PODS, sink)
        await watch.synced.wait()
        east.streams[0].send(frame("ADDED", pod("a", 11)))
        await sink.saw("upsert", "a")
        # It goes down, and what comes up in its place is new and empty.
        east.failure = TransportError("down", sent=False)
        east.streams[0].fail(TransportError("cut"))
        await world.until(lambda: member.health["Reachable"].status == "False")
        east.uid = "uid-rebuilt"
        east.failure = None
        await world.until(lambda: member.health["Reachable"].reason == "AnotherCluster")
        assert "uid-rebuilt" in member.health["Reachable"].message
        with pytest.raises(TransportError, match="another cluster") as caught:
            await member.handle(Request("DELETE", "/api/v1/namespaces/default/pods/a"))
        assert not caught.value.sent
        assert sink.calls == [("replace", ([], 10)), ("upsert", "a")]
        assert all(request.method == "GET" for request in east.requests)


async def test_a_data_plane_is_another_truth(world):
    world.cluster("uid-east", EAST)
    async with world.members() as members:
        member = await members.join("east", EAST)
        member.observe(Served(False, "503 from the models"))
        assert member.conditions["DataPlaneHealthy"].status == "False"
        await world.until(lambda: ("health", "east") in world.news)


async def test_refused_credentials_are_told_apart_from_silence(world):
    east = world.cluster("uid-east", EAST)
    async with world.members() as members:
        member = await members.join("east", EAST)
        await world.until(lambda: member.health["Reachable"].status == "True")
        east.failure = failed(401, message="certificate has expired")
        await world.until(lambda: member.health["CredentialsValid"].status == "False")
        assert member.health["CredentialsValid"].message == "certificate has expired"
        assert member.health["Reachable"].status == "True"


async def test_the_fleets_own_credentials_are_no_matter_of_the_caller(world):
    east = world.cluster("uid-east", EAST)
    async with world.members() as members:
        member = await members.join("east", EAST)
        east.failure = Unauthorized("the client certificate expired on 2026-01-01")
        with pytest.raises(TransportError, match="expired on 2026-01-01") as caught:
            await member.handle(Request("POST", "/api/v1/namespaces"))
        assert (caught.value.member, caught.value.sent) == ("east", False)
        await world.until(lambda: member.health["CredentialsValid"].status == "False")
