"""Pods that lost their nodes and find no other: told at once, moved only where there is a place."""

from __future__ import annotations

import pytest

from fleet.dispatch import record as records
from fleet.dispatch.amiss import NO_NODE, NOT_STARTED
from fleet.dispatch.jobs.fold import PLACED
from fleet.gateway.placing import Placing
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.queue.rules import Rules
from policies import PLACEMENT_POLICY

EVENTS = builtin.resource(GroupVersionResource("", "v1", "events"))


async def start(fleet, *, east=4, west=4, ranks=6, north=0):
    """A gang that runs, with ranks in east and what did not fit there in west."""
    for name, room in (("east", east), ("west", west), ("north", north)):
        await fleet.join(name, room=room)
    await fleet.run_job(ranks=ranks)
    await fleet.until(lambda: fleet.record().phase == "Running")


async def drain(member, *, room=0):
    """Take nodes away: of their pods as many go as there is no room for any more."""
    member.room = room
    placed = [pod for pod in member.all("pods") if pod["spec"].get("nodeName")]
    for pod in placed[room:]:
        await member.drop("pods", pod)


def part(fleet, cluster="east"):
    return next((s for s in fleet.record().shards if s.cluster == cluster), None)


def is_told(fleet, cluster="east"):
    found = part(fleet, cluster)
    return found is not None and found.reason == NO_NODE


async def test_what_lost_its_nodes_is_told_and_moves_once_there_is_another_place(fleet):
    await start(fleet)
    assert fleet.placed() == {"east": (0, 4, "Running"), "west": (4, 2, "Running")}
    await drain(fleet.members["east"], room=1)
    await fleet.until(lambda: is_told(fleet))
    await fleet.until(lambda: part(fleet).amiss == 3)
    assert part(fleet).message == "3 of 4 pods have no node: 0/1 nodes are available: 1 of 1 taken"
    placed = fleet.condition(PLACED)
    assert placed["reason"] == NO_NODE
    assert "in east 3 of 4 pods have no node" in placed["message"]
    assert NO_NODE in fleet.events()
    await fleet.wait(40)  # longer than the lease: west has no room for them, and north none at all
    assert fleet.record().phase == "Running"
    assert fleet.placed()["east"] == (0, 4, "Running")
    assert "placed anew as soon as" in part(fleet).message
    assert "ShardEvicted" not in fleet.events()
    fleet.members["north"].room = 4
    await fleet.until(lambda: fleet.record().phase == "Running" and not is_told(fleet))
    assert fleet.placed() == {"north": (0, 4, "Running"), "west": (4, 2, "Running")}
    assert next(s for s in fleet.record().shards if s.cluster == "west").generation == 1
    assert fleet.record().budget.charged == 0
    assert fleet.record().failures == 0
    assert {"ShardEvicted"} <= fleet.events()
    await fleet.until(lambda: not fleet.record().owed)
    assert fleet.condition(PLACED)["reason"] == "Running"


async def test_a_whole_job_moves_too(fleet):
    await start(fleet, east=0, west=3, ranks=3)
    await drain(fleet.members["west"])
    await fleet.until(lambda: is_told(fleet, "west"))
    fleet.members["east"].room = 3
    await fleet.until(lambda: fleet.placed() == {"east": (0, 3, "Running")})
    assert fleet.record().phase == "Running"


async def test_nodes_that_come_back_in_time_keep_their_pods(fleet):
    await start(fleet)
    fleet.members["north"].room = 4
    await drain(fleet.members["east"])
    await fleet.until(lambda: is_told(fleet))
    fleet.members["east"].room = 4
    await fleet.until(lambda: sorted(fleet.running()) == list(range(6)) and not is_told(fleet))
    await fleet.wait(40)
    assert fleet.record().generation == 1
    assert (part(fleet).amiss, part(fleet).amiss_at, part(fleet).message) == (0, None, "")
    assert "ShardEvicted" not in fleet.events()


async def test_a_gateway_that_starts_anew_has_forgotten_nothing(fleet):
    await start(fleet)
    await drain(fleet.members["east"])
    await fleet.until(lambda: part(fleet).amiss == 4)
    since = part(fleet).amiss_at
    await fleet.restart()
    await fleet.wait(10, gateway=False)
    await fleet.round()
    assert part(fleet).amiss_at == since
    await fleet.wait(10)
    await fleet.restart()
    fleet.members["north"].room = 4
    await fleet.until(lambda: fleet.placed().get("north") == (0, 4, "Running"))


@pytest.mark.parametrize("crash_after", range(0, 40, 3))
async def test_a_gateway_that_dies_on_the_way_ends_it_no_less(fleet, crash, crash_after):
    await start(fleet)
    await drain(fleet.members["east"])
    await fleet.wait(20)
    fleet.members["north"].room = 4
    fleet.operations, fleet.crash_after = 0, crash_after
    with pytest.raises(crash):
        await fleet.wait(60)
    await fleet.restart()
    await fleet.until(
        lambda: fleet.record().phase == "Running" and not fleet.record().owed and not part(fleet)
    )
    assert fleet.placed() == {"north": (0, 4, "Running"), "west": (4, 2, "Running")}
    assert fleet.running() == {r: ["north" if r < 4 else "west"] for r in range(6)}


async def test_a_gang_that_had_not_begun_is_planned_anew_as_a_whole(fleet):
    """Of a plan that is committed and not all begun, none goes on without the rest."""
    for name in ("east", "west"):
        await fleet.join(name, room=4)
    west = fleet.members["west"]
    await fleet.run_job()
    await fleet.until(lambda: fleet.record().phase == "Committed")
    west.alive = False
    await drain(west)
    west.alive = True
    await fleet.until(lambda: is_told(fleet, "west"))
    assert fleet.record().phase == "Committed"
    north = await fleet.join("north", room=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    assert "west" not in fleet.placed()
    assert north.used() >= 2
    assert sorted(fleet.running()) == list(range(6))
    assert {s.generation for s in fleet.record().shards} == {2}


async def test_a_part_is_told_once_a_spell(fleet):
    await start(fleet)
    await drain(fleet.members["east"])
    await fleet.until(lambda: part(fleet).amiss == 4)
    await fleet.wait(40)
    entries = fleet.store.collection(EVENTS).snapshot().entries()
    told = [e.parse() for e in entries if e.parse()["reason"] == NO_NODE]
    assert [each["count"] for each in told] == [1]
    before = fleet.store.sequencer.current
    await fleet.wait(3)
    assert fleet.store.sequencer.current == before


async def test_what_keeps_a_pod_from_starting_is_told_and_moves_nothing(fleet):
    """A volume that is missing is told by Events alone; those of the gate are no trouble."""
    await start(fleet)
    fleet.members["north"].room = 9
    east = fleet.members["east"]
    east.alive = False
    stuck = min(east.all("pods"), key=lambda pod: pod["metadata"]["name"])
    since = records.text_of(fleet.clock.now)
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    stuck["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": since}],
        "containerStatuses": [{"name": "main", "state": waiting}],
    }
    await east._change("pods", stuck)
    about = {"kind": "Pod", "namespace": "payments", "name": stuck["metadata"]["name"]}
    gate = f"{stuck['metadata']['labels']['fleet.dev/shard']}-gate"
    for number, missing in enumerate(("settings", gate)):
        event = {
            "metadata": {"name": f"e{number}", "namespace": "payments"},
            "involvedObject": about,
            "type": "Warning",
            "message": f'configmap "{missing}" not found',
            "lastTimestamp": records.text_of(fleet.clock.now + number),
        }
        await east.put("events", event)
    await fleet.wait(40)
    assert part(fleet).reason == ""
    await fleet.until(lambda: part(fleet).reason == NOT_STARTED)
    told = 'ContainerCreating: configmap "settings" not found'
    assert part(fleet).message == f"1 of 4 pods has not started: {told}"
    await fleet.wait(40)
    assert fleet.record().phase == "Running"
    assert fleet.placed()["east"] == (0, 4, "Running")


# -- with the planner of the product


async def planned(fleet, **gang):
    """East with room for four, west for two, north for none; Jobs are split."""
    rules = Rules(worth=None, patience_s=0, damping_s=0)
    fleet.decides = lambda: Placing(
        fleet.store, fleet.books(), now=fleet.clock.datetime, clock=lambda: 0.0, lease_s=15.0,
        rules=rules,
    )  # fmt: skip
    for name, room in (("east", 4), ("west", 2), ("north", 0)):
        await fleet.join(name, room=room)
    await fleet.restart()
    obj = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "all", "namespace": "payments", "uid": "pp"},
        "spec": {
            "workloads": {},
            "mode": "Split",
            "gang": {"network": "None", "maxClusters": 3, **gang},
        },
    }
    await fleet.store.create(PLACEMENT_POLICY.resource, obj)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")


async def test_the_planner_finds_the_place_for_one_part_of_a_gang(fleet):
    await planned(fleet)
    assert fleet.placed() == {"east": (0, 4, "Running"), "west": (4, 2, "Running")}
    await drain(fleet.members["east"], room=2)
    await fleet.wait(40)
    assert part(fleet).amiss == 2
    assert fleet.placed()["east"] == (0, 4, "Running")
    # East's own places do not count: they are held by the ranks that would have to move.
    fleet.members["north"].room = 3
    await fleet.wait(10)
    assert fleet.placed()["east"] == (0, 4, "Running")
    fleet.members["north"].room = 4
    await fleet.until(lambda: fleet.placed().get("north") == (0, 4, "Running"))
    await fleet.until(lambda: fleet.record().phase == "Running" and not fleet.record().owed)
    assert fleet.placed() == {"north": (0, 4, "Running"), "west": (4, 2, "Running")}


async def test_an_elastic_gang_goes_on_without_what_has_no_node(fleet):
    await planned(fleet, min=2)
    await drain(fleet.members["east"])
    await fleet.until(lambda: fleet.placed() == {"west": (4, 2, "Running")})
    assert (fleet.record().phase, fleet.record().reason) == ("Running", "ShardDropped")
    fleet.members["east"].room = 4
    await fleet.until(lambda: sorted(fleet.running()) == list(range(6)))
