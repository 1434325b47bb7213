"""Histories of one elastic gang: members go and come back, rooms and quotas change, gateways die.

At every moment: ranks are in whole units and have one shard each, what runs is never fewer than it
needs at least, and each generation that is told has one set of ranks. Whenever it is calm, the
charge is what the record promises. No rank runs twice: that is checked as pods start.
"""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fleet.gateway.placing import Placing
from fleet.scheduling.queue.rules import Rules
from policies import FLEET_QUOTA, PLACEMENT_POLICY

LEAST, UNIT, MOST = 4, 2, 12
MEMBERS = ("east", "north", "west")


class History:
    def __init__(self, fleet, choose, crash):
        self.fleet, self.choose, self.crash = fleet, choose, crash
        self.engine = None
        self.worlds: dict[int, list[int]] = {}
        """Which ranks run, by the generation that is told."""
        fleet.decides = self.planner

    def planner(self):
        made = Placing(
            self.fleet.store, self.fleet.books(), now=self.fleet.clock.datetime, clock=lambda: 0.0,
            lease_s=15.0, rules=Rules(worth=None, patience_s=0, damping_s=0),
        )  # fmt: skip
        self.engine = made.engine
        return made

    async def begin(self):
        fleet = self.fleet
        for name in MEMBERS:
            await fleet.join(name, room=self.choose.randint(2, 8))
        await fleet.restart()
        policy = {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "PlacementPolicy",
            "metadata": {"name": "all", "namespace": "payments", "uid": "pp"},
            "spec": {
                "workloads": {},
                "mode": "Split",
                "gang": {"network": "None", "maxClusters": 3, "min": LEAST, "unit": UNIT},
            },
        }
        await fleet.store.create(PLACEMENT_POLICY.resource, policy)
        await self.quota(self.choose.randint(LEAST, MOST + 4))
        await fleet.run_job("train", MOST)

    async def quota(self, pods):
        obj = {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "FleetQuota",
            "metadata": {"name": "team", "uid": "uid-team"},
            "spec": {"namespaces": {}, "resources": [{"name": "pods", "guaranteed": str(pods)}]},
        }
        store = self.fleet.store
        present = store.get(FLEET_QUOTA.resource, "", "team")
        if present is None:
            await store.create(FLEET_QUOTA.resource, obj)
        else:
            await store.update(FLEET_QUOTA.resource, obj, expected=present.revision)

    async def upset(self):
        choose, fleet = self.choose, self.fleet
        member = fleet.members[choose.choice(MEMBERS)]
        what = choose.randrange(7)
        if what == 0:
            member.cut = not member.cut
        elif what == 1:
            member.room = max(member.used(), choose.randint(0, 8))
        elif what == 2:
            await self.quota(choose.randint(LEAST, MOST + 4))
        elif what == 3:
            count = choose.choice((4, 6, 8, 12, 12))
            await fleet.change_job(
                "train", lambda job: job["spec"].update(parallelism=count, completions=count)
            )
        elif what == 4 and not member.cut:
            for job in member.all("jobs"):
                await member.drop("jobs", job)
        elif what == 5:
            await fleet.restart()
        elif what == 6:
            fleet.crash_after = fleet.operations + choose.randint(0, 40)

    async def rounds(self, count):
        for _ in range(count):
            try:
                await self.fleet.round()
            except self.crash:
                await self.fleet.restart()
            self.check()

    def check(self):
        record = self.fleet.record()
        ranks = [
            rank
            for shard in record.shards
            for rank in range(shard.first, shard.first + shard.count)
        ]
        assert len(ranks) == len({*ranks}), record
        assert all(each.first % UNIT == each.count % UNIT == 0 for each in record.shards), record
        if record.phase == "Running" and record.reason != "Deleted":
            assert record.ranks >= LEAST, record
        for member in self.fleet.members.values():
            for gate in member.all("configmaps"):
                data = gate.get("data") or {}
                if "peers.json" in data:
                    told = [each["rank"] for each in json.loads(data["peers.json"])["ranks"]]
                    known = self.worlds.setdefault(int(data["FLEET_GENERATION"]), told)
                    assert told == known, f"generation {data['FLEET_GENERATION']} has two worlds"
                    assert data["FLEET_NODES"] == str(len(told))

    def is_charged_for_what_it_promises(self):
        self.engine.verify()
        record = self.fleet.record()
        promised = sum(each.count for each in record.shards)
        used = sum(line.used - line.earmarked for line in self.engine.report())
        assert used == promised, record


@settings(
    max_examples=12,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.integers(0, 2**32))
@pytest.mark.timeout(300)
async def test_an_elastic_gang_keeps_its_word_whatever_happens(new_fleet, crash, seed):
    choose = random.Random(seed)
    async with new_fleet() as fleet:
        history = History(fleet, choose, crash)
        await history.begin()
        for _ in range(choose.randint(3, 8)):
            await history.rounds(choose.randint(4, 50))
            await history.upset()
        fleet.crash_after = None
        await history.quota(MOST + 4)
        await fleet.change_job(
            "train", lambda job: job["spec"].update(parallelism=MOST, completions=MOST)
        )
        for member in fleet.members.values():
            member.cut, member.room = False, max(8, member.used())
        for _ in range(8):
            await history.rounds(60)
            record = fleet.record()
            if record.phase == "Running" and record.ranks == MOST and not record.owed:
                break
        await history.rounds(5)
        assert sorted(fleet.running()) == list(range(MOST)), fleet.record()
        history.is_charged_for_what_it_promises()
        await fleet.delete_job()
        await history.rounds(20)
        assert fleet.left_over() == []
