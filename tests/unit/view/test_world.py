"""The world: what is served while members come, fall silent, change and go."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from fleet.kube import builtin, discovery, fields
from fleet.kube.resources import GroupVersionResource
from fleet.kube.selectors import FieldSelector
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from fleet.view.world import LINGER_S, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fleet.kube.discovery import Catalogue
    from fleet.kube.resources import Resource
    from fleet.kube.wire import Handler
    from fleet.members.sink import Sink

PODS = GroupVersionResource("", "v1", "pods")
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
SECRETS = GroupVersionResource("", "v1", "secrets")
HPA_V1 = GroupVersionResource("autoscaling", "v1", "horizontalpodautoscalers")
HPA_V2 = GroupVersionResource("autoscaling", "v2", "horizontalpodautoscalers")
POD_METRICS = GroupVersionResource("metrics.k8s.io", "v1beta1", "pods")


def rows(*gvrs: GroupVersionResource) -> list[Resource]:
    found = [builtin.resource(gvr) for gvr in gvrs]
    assert None not in found
    return [row for row in found if row is not None]


class Watching:
    """A watch that never says anything."""

    def __init__(self, sink: Sink) -> None:
        self.synced = asyncio.Event()
        self.failure = ""
        self.last_contact_s = 0.0
        self.sink: Any = sink
        self.stopped = False

    async def confirm(self, deadline_s: float, *, within_s: float) -> bool:
        return True

    async def stop(self) -> None:
        self.stopped = True


@dataclass
class FakeMember:
    name: str
    catalogue: Catalogue
    watches: dict[GroupVersionResource, Watching] = field(default_factory=dict)

    @property
    def handler(self) -> Handler:
        raise NotImplementedError

    def watch(self, resource: Resource, sink: Sink) -> Watching:
        found = self.watches[resource.gvr] = Watching(sink)
        return found

    def holds(self, gvr: GroupVersionResource, name: str, revision: int = 5) -> None:
        """The member's watch tells of an object."""
        row = builtin.resource(gvr)
        assert row is not None
        self.watches[gvr].sink.upsert(
            {
                "kind": row.kind,
                "apiVersion": row.api_version,
                "metadata": {"name": name, "namespace": "ns", "resourceVersion": str(revision)},
            }
        )


def member(name: str, *gvrs: GroupVersionResource) -> FakeMember:
    return FakeMember(name, discovery.catalogue(rows(*gvrs)))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    sequencer = Sequencer(epoch=1)
    own = discovery.catalogue(rows(CONFIG_MAPS, HPA_V2))
    async with ObjectStore(MemoryBackend(), sequencer) as store:
        yield World(sequencer=sequencer, store=store, own=lambda: own, clock=lambda: 0.0)


def served(world: World) -> set[GroupVersionResource]:
    return {row.gvr for row in discovery.rows(world.catalogue())}


async def test_what_any_member_serves_is_served(world: World) -> None:
    assert served(world) == {CONFIG_MAPS, HPA_V2}
    world.admit(member("east", PODS, CONFIG_MAPS))
    world.admit(member("west", CONFIG_MAPS))
    assert served(world) == {PODS, CONFIG_MAPS, HPA_V2}
    assert [m.name for m in world.serving(PODS)] == ["east"]
    await world.dismiss("east")
    assert served(world) == {CONFIG_MAPS, HPA_V2}


async def test_a_member_that_is_down_stands_by_what_it_served(world: World) -> None:
    """client-go leaves the kinds of a stale version out; what is kept is answered all the same."""
    east = member("east", PODS)
    east.catalogue = discovery.as_stale(east.catalogue)
    world.admit(east)
    group = discovery.find_group(world.catalogue(), "")
    assert group is not None
    assert not group.versions[0].stale


async def test_what_cannot_be_kept_is_stale_while_its_member_is_down(world: World) -> None:
    [row] = rows(PODS)
    metrics = FakeMember(
        "east",
        discovery.as_stale(discovery.catalogue([_only_listed(row)])),
    )
    world.admit(metrics)
    group = discovery.find_group(world.catalogue(), "metrics.k8s.io")
    assert group is not None
    assert group.versions[0].stale


async def test_versions_that_only_members_have_are_served_for_them(world: World) -> None:
    world.admit(member("east", HPA_V1, HPA_V2))
    assert {HPA_V1, HPA_V2} <= served(world)
    group = discovery.find_group(world.catalogue(), "autoscaling")
    assert group is not None
    assert [version.name for version in group.versions] == ["v2", "v1"]
    assert not world.owned(HPA_V1)
    assert world.other_version(HPA_V1) == "autoscaling/v2"
    assert world.other_version(HPA_V2) == ""
    assert world.other_version(PODS) == ""


async def test_a_version_that_one_member_lacks_is_not_served(world: World) -> None:
    """kcp#3430: a list at a version must not miss a member."""
    world.admit(member("east", HPA_V1, HPA_V2))
    world.admit(member("west", HPA_V2))
    assert HPA_V1 not in served(world)


async def test_members_that_were_never_heard_are_named(world: World) -> None:
    world.admit(member("east", PODS))
    world.admit(FakeMember("west", ()))
    assert world.unheard() == ["west"]
    assert world.unheard(["east"]) == []
    assert world.unheard(["nobody"]) == []
    await world.dismiss("west")
    assert world.unheard() == []


async def test_a_member_that_begins_to_serve_a_resource_is_taken_in_and_taken_out_again(
    world: World,
) -> None:
    world.admit(member("west", CONFIG_MAPS))
    east = FakeMember("east", ())
    world.admit(east)
    merged = world.merged(CONFIG_MAPS)
    assert merged is not None
    assert list(merged.sources) == ["west"]
    east.catalogue = discovery.catalogue(rows(CONFIG_MAPS))
    await world.refresh("east")
    assert sorted(merged.sources) == ["east", "west"]
    east.holds(CONFIG_MAPS, "c")
    assert [e.key for e in merged.collection.snapshot().entries()] == [("ns.east", "c")]
    watch = east.watches[CONFIG_MAPS]
    east.catalogue = ()
    await world.refresh("east")
    assert watch.stopped
    assert len(merged.collection) == 0


async def test_an_answer_older_than_what_is_kept_is_no_precondition_for_it(world: World) -> None:
    east = member("east", CONFIG_MAPS)
    world.admit(east)
    merged = world.merged(CONFIG_MAPS)
    assert merged is not None
    east.holds(CONFIG_MAPS, "c", revision=7)
    entry = merged.collection.get("ns.east", "c")
    assert entry is not None
    key = ("ns.east", "c")
    assert await world.revision_at(CONFIG_MAPS, key, "7") == entry.revision
    assert await world.revision_at(CONFIG_MAPS, key, "5") < entry.revision


async def test_a_resource_without_watch_is_never_kept(world: World) -> None:
    [row] = rows(PODS)
    world.admit(FakeMember("east", discovery.catalogue([_only_listed(row)])))
    assert world.merged(POD_METRICS) is None
    assert world.resource(POD_METRICS) is not None


def _only_listed(row: Resource) -> Resource:
    return replace(row, gvr=POD_METRICS, kind="PodMetrics", verbs=("get", "list"))


async def test_a_selectable_field_that_becomes_known_later_selects_what_is_there(
    world: World,
) -> None:
    [row] = rows(CONFIG_MAPS)
    east = member("east", CONFIG_MAPS)
    world.admit(east)
    merged = world.merged(CONFIG_MAPS)
    assert merged is not None
    east.holds(CONFIG_MAPS, "before", revision=5)
    cursor = merged.collection.cursor(world.sequencer.current)
    more = replace(row, custom=True, selectable_fields=("metadata.uid",))
    east.catalogue = discovery.catalogue([more])
    await world.refresh("east")
    east.holds(CONFIG_MAPS, "after", revision=6)
    widened = merged.collection.resource
    assert set(widened.selectable_fields) >= {*row.selectable_fields, "metadata.uid"}
    matches = fields.matcher(widened, FieldSelector.parse("metadata.uid="))
    found = merged.collection.snapshot().entries()
    assert [e.name for e in found if matches(e.namespace, e.name, e.fields)] == ["after", "before"]
    assert [event.entry.name for event in merged.collection.read(cursor)] == ["after"]


async def test_what_is_read_through_is_kept_for_its_watchers_and_a_moment_more() -> None:
    """The moment is that between the answer to a watch and its first byte."""
    now_s = 100.0
    own = discovery.catalogue(rows(SECRETS))
    sequencer = Sequencer(epoch=1)
    async with ObjectStore(MemoryBackend(), sequencer) as store:
        world = World(sequencer=sequencer, store=store, own=lambda: own, clock=lambda: now_s)
        merged = world.merged(SECRETS)
        assert merged is not None
        with merged.reading():
            now_s += 3600
            await world.sweep()
            assert world.running(SECRETS) is merged
        await world.sweep()
        assert world.running(SECRETS) is merged
        now_s += LINGER_S
        await world.sweep()
        assert world.running(SECRETS) is None
