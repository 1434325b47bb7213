"""Histories of a whole fleet: the engine decides for real, members are lost, gateways die.

Jobs of several sizes and priorities over three members and one quota, with everything that upsets
them at random. What must hold at every moment is checked as pods start: the commit is stored, no
rank runs twice, and no start goes above the quota. When peace comes, everything ends and is gone.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fleet.gateway.placing import Placing
from fleet.scheduling.queue.rules import Rules
from policies import FLEET_QUOTA, PLACEMENT_POLICY

QUOTA = 10
EAGER = Rules(worth=None, patience_s=0, damping_s=5, aging_s=120)


class History:
    def __init__(self, fleet, choose, crash):
        self.fleet, self.choose, self.crash = fleet, choose, crash
        self.quota = QUOTA
        """What pods that start have to keep to; None once it was lowered under running work."""
        self.names: list[str] = []
        self.engine = None
        fleet.decides = self.planner

    def planner(self):
        made = Placing(
            self.fleet.store, self.fleet.books(plane="roce-1"), now=self.fleet.clock.datetime,
            clock=lambda: 0.0, lease_s=15.0, rules=EAGER,
        )  # fmt: skip
        self.engine = made.engine
        return made

    async def begin(self):
        await self.fleet.restart()
        for name in ("east", "west", "north"):
            member = await self.fleet.join(name, room=self.choose.choice([2, 4, 6]))
            checks = member.started

            def started(member, pod, checks=checks):
                checks(member, pod)
                ranks = sum(map(len, self.fleet.running().values()))
                assert self.quota is None or ranks <= self.quota, "more runs than the quota allows"

            member.started = started
        await self.put_quota(QUOTA)
        policy = {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "PlacementPolicy",
            "metadata": {"name": "all", "namespace": "payments", "uid": "pp"},
            "spec": {"workloads": {}, "mode": "Split", "gang": {"maxClusters": 3}},
        }
        await self.fleet.store.create(PLACEMENT_POLICY.resource, policy)

    async def put_quota(self, pods):
        line = {"name": "pods", "guaranteed": str(pods)}
        obj = {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "FleetQuota",
            "metadata": {"name": "team", "uid": "uid-team"},
            "spec": {"namespaces": {}, "resources": [line]},
        }
        present = self.fleet.store.get(FLEET_QUOTA.resource, "", "team")
        if present is None:
            await self.fleet.store.create(FLEET_QUOTA.resource, obj)
        else:
            await self.fleet.store.update(
                FLEET_QUOTA.resource, obj, expected=present.revision
            )  # fmt: skip

    async def submit(self):
        name = f"job-{len(self.names)}"
        self.names.append(name)
        await self.fleet.run_job(
            name, self.choose.randint(1, 8), backoffLimit=6,
            pod={"priority": self.choose.randrange(3)},
            **{"run-for": self.choose.choice([2, 5, 15])},
        )  # fmt: skip

    async def upset(self):
        fleet, choose = self.fleet, self.choose
        member = fleet.members[choose.choice(sorted(fleet.members))]
        match choose.randrange(14):
            case 0 | 1 | 2:
                if len(self.names) < 8:
                    await self.submit()
            case 3:
                if any(fleet.job(each) for each in self.names):
                    alive = [each for each in self.names if fleet.job(each)]
                    await fleet.delete_job(choose.choice(alive))
            case 4:
                self.quota = None
                await self.put_quota(choose.choice([3, 8, 12]))
            case 5:
                member.cut = not member.cut
            case 6:
                member.room = choose.choice([0, 2, 4, 6])
            case 7:
                fleet.crash_after = fleet.operations + choose.randint(0, 30)
            case 8:
                await fleet.restart()
            case 9:
                member.faults += choose.choices(["", "cut", "lost", "twice"], k=6)
            case _:
                await self.rounds(choose.randint(1, 4))

    async def rounds(self, count):
        for _ in range(count):
            try:
                await self.fleet.round()
            except self.crash:
                await self.fleet.restart()
            self.engine.verify()

    async def peace(self):
        fleet = self.fleet
        fleet.crash_after = None
        for member in fleet.members.values():
            member.cut, member.faults, member.room = False, [], 6
        await self.put_quota(QUOTA)

    def ended(self, name):
        if self.fleet.job(name) is None:
            return True
        return self.fleet.condition("Complete", name) or self.fleet.condition("Failed", name)


@given(st.integers(0, 2**32))
@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@pytest.mark.timeout(600)
async def test_many_jobs_end_whatever_happens_and_keep_to_their_quota(new_fleet, crash, seed):
    choose = random.Random(seed)
    async with new_fleet() as fleet:
        history = History(fleet, choose, crash)
        await history.begin()
        await history.submit()
        for _ in range(choose.randint(10, 60)):
            await history.upset()
        await history.peace()
        for _ in range(600):
            if all(history.ended(name) for name in history.names):
                break
            await fleet.round(tick_s=2.0)
        for name in history.names:
            assert history.ended(name), (name, fleet.records())
            if fleet.job(name) is not None and (failed := fleet.condition("Failed", name)):
                assert failed["reason"] == "ResultUnknown", failed
        for name in history.names:
            if fleet.job(name) is not None:
                await fleet.delete_job(name)
        for _ in range(80):
            if not any(fleet.job(name) for name in history.names):
                break
            await fleet.round()
        await fleet.settle()
        await history.rounds(2)
        assert fleet.left_over() == []
        assert history.engine.running() == {}
        history.engine.verify()
        assert all(line.used == 0 for line in history.engine.report())
