"""Members that refuse a shard for a moment, since they do not go yet by what was just made there.

An API server hears of classes, bindings and policies by watches of its own; a ServiceAccount comes
to a new namespace by a controller. Who makes pods there tries again, and so does dispatch: no other
cluster is asked meanwhile, and none is barred.
"""

from __future__ import annotations

import pytest

from fleet.errors import Forbidden, NotFound

NO_CLASS = 'pods "web-g1-east" is forbidden: no PriorityClass with name fleet-hold was found'
SETTLES_S = 10


class Admission:
    """Refuses what is created of `resource` in a member for `lag_s` seconds after the first try."""

    def __init__(self, fleet, member, resource, lag_s, *, refusal=None):
        self.refused = 0
        self._refusal = refusal or Forbidden(NO_CLASS)
        self._lag_s, self._clock = lag_s, fleet.clock
        self._path = f"/{resource}"
        self._since = None
        self._handle = member.handle
        member.handle = self.handle

    async def handle(self, request):
        if request.method == "POST" and request.path.endswith(self._path):
            now = self._clock()
            self._since = now if self._since is None else self._since
            if now < self._since + self._lag_s:
                self.refused += 1
                raise self._refusal
        return await self._handle(request)


@pytest.fixture
async def east(fleet):
    await fleet.join("west", room=1)
    return await fleet.join("east", room=2)


def uid(fleet):
    return fleet.pod()["metadata"]["uid"]


async def test_a_class_that_was_just_made_may_be_heard_of_late(fleet, east):
    admission = Admission(fleet, east, "pods", lag_s=3)
    await fleet.run_pod()
    await fleet.until(lambda: fleet.record("pod-web").phase == "Running", rounds=12)
    assert admission.refused > 1
    assert fleet.placed("pod-web")["east"][2] == "Running"
    assert fleet.members["west"].writes == []
    assert fleet.bars.of(uid(fleet)) == {}


async def test_a_refusal_that_lasts_is_one(fleet, east):
    Admission(fleet, east, "pods", lag_s=1000)
    await fleet.run_pod()
    await fleet.until(lambda: fleet.bars.of(uid(fleet)))
    assert NO_CLASS in fleet.bars.of(uid(fleet))["east"]
    await fleet.until(lambda: fleet.record("pod-web").phase == "Running")
    assert set(fleet.placed("pod-web")) == {"west"}


async def test_where_nothing_is_new_a_refusal_counts_at_once(fleet, east):
    await fleet.run_pod("first")
    await fleet.until(lambda: fleet.record("pod-first").phase == "Running")
    await fleet.wait(SETTLES_S + 1)
    admission = Admission(fleet, east, "pods", lag_s=1000)
    await fleet.run_pod()
    await fleet.until(lambda: fleet.bars.of(uid(fleet)), rounds=4)
    assert admission.refused == 1


async def test_a_class_that_is_taken_away_before_the_shard_is_there_is_made_again(fleet, east):
    await fleet.run_pod("first")
    await fleet.until(lambda: fleet.record("pod-first").phase == "Running")
    await fleet.wait(SETTLES_S + 1)
    handle, taken = east.handle, []

    async def taking(request):
        if request.method == "POST" and request.path.endswith("/pods") and not taken:
            taken.extend(east.all("priorityclasses"))
            for each in taken:
                await east.drop("priorityclasses", each)
            raise Forbidden(NO_CLASS)
        return await handle(request)

    east.handle = taking
    await fleet.run_pod()
    await fleet.until(lambda: fleet.record("pod-web").phase == "Running", rounds=12)
    assert taken
    assert set(fleet.placed("pod-web")) == {"east"}
    assert fleet.bars.of(uid(fleet)) == {}


async def test_a_gang_is_not_let_go_because_its_ranks_are_not_numbered_yet(fleet, east):
    """The policy that numbers them was just put there."""
    admission = Admission(fleet, east, "pods", lag_s=3)  # the dry run that asks
    await fleet.run_job(ranks=3)
    await fleet.until(lambda: fleet.record().phase == "Running", rounds=20)
    assert admission.refused > 1
    assert fleet.record().generation == 1


async def test_a_namespace_that_was_just_made_may_be_heard_of_late(fleet, east):
    unheard = NotFound('namespaces "shop" not found')
    admission = Admission(fleet, east, "pods", lag_s=3, refusal=unheard)
    await fleet.run_pod()
    await fleet.until(lambda: fleet.record("pod-web").phase == "Running", rounds=12)
    assert admission.refused > 1
    assert set(fleet.placed("pod-web")) == {"east"}


async def test_where_it_cannot_be_told_what_is_new_the_refusal_itself_is(fleet, east):
    Admission(fleet, east, "pods", lag_s=1000)
    handle, refused = east.handle, []

    async def blind(request):
        if refused and request.method == "GET" and request.path.count("/") == 4:  # the namespace
            raise Forbidden("nobody says")
        try:
            return await handle(request)
        except Forbidden as error:
            refused.append(error)
            raise

    east.handle = blind
    await fleet.run_pod()
    await fleet.until(lambda: fleet.bars.of(uid(fleet)), rounds=6)
    assert NO_CLASS in fleet.bars.of(uid(fleet))["east"]
