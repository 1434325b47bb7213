"""Part of the placement bench: rounds of the planner that the gateway runs.

A fleet of 20 clusters with 80 nodes of 8 accelerators, nearly full of 2,000 workloads whose pods
are in the books, and 500 that wait for room. Timed is a whole round, from the objects in the store
to the last answer, in CPU time of the thread: first one with nothing known, then rounds in which
nothing has changed, and rounds before each of which some gangs ended in a few of the clusters.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fleet.dispatch.planning import Question
from fleet.gateway.placing import Placing
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.clusters import Cluster, cluster_of
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from policies import PLACEMENT, PLACEMENT_POLICY, PRICE_BOOK
from policies.placement import name_of

CLUSTERS, NODES, DEVICES = 20, 80, 8
RUNNING, WAITING = 2000, 500
ENDING = 5
"""Workloads that end before each of the later rounds."""
NOW = datetime(2026, 11, 29, tzinfo=UTC)
JOBS = builtin.resource(GroupVersionResource("batch", "v1", "jobs"))
GPU = "nvidia.com/gpu"
SIZES = (1, 2, 4, 4, 8, 8, 8, 16)

Object = dict[str, Any]


class Books:
    """What members have, as `fleet.gateway.books` keeps it."""

    def __init__(self) -> None:
        self.accounts: dict[str, NodeAccounts] = {}
        self._clusters: dict[str, Cluster] = {}
        self._pods: dict[str, list[tuple[str, Object]]] = {}
        for at in range(CLUSTERS):
            name = f"c{at:03}"
            accounts = self.accounts[name] = NodeAccounts(block_label="rack")
            for number in range(NODES):
                accounts.upsert_node(node(f"n{number:03}", f"r{number // 16}"))
            member = {
                "metadata": {"name": name, "labels": {"tier": "own" if at % 2 else "cloud"}},
                "spec": {"networks": {"parameterPlane": f"plane-{at // 5}"}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
            self._clusters[name] = cluster_of(member, None)
        self.now_s = 0.0

    def clusters(self) -> list[Cluster]:
        return [
            replace(self._clusters[name], capacity=accounts.capacity(self.now_s))
            for name, accounts in self.accounts.items()
        ]

    def taken_by(self, workload: str) -> dict[str, Any]:
        return {
            name: taken
            for name, each in self.accounts.items()
            if (taken := each.taken_by(workload))
        }

    def saved_s(self, *, now: float) -> dict[str, float]:
        return {}

    def taken_by_others(self, namespace: str) -> dict[str, Any]:
        return {}

    def run(self, uid: str, cluster: str, seats: list[str]) -> None:
        for number, seat in enumerate(seats):
            made = pod(f"{uid}-{number}", seat, uid)
            self.accounts[cluster].upsert_pod(made)
            self._pods.setdefault(uid, []).append((cluster, made))

    def end(self, uid: str) -> None:
        for cluster, made in self._pods.pop(uid):
            self.accounts[cluster].remove_pod(made)


def node(name: str, rack: str) -> Object:
    return {
        "metadata": {"name": name, "labels": {"fleet.dev/accelerator": "h200", "rack": rack}},
        "status": {
            "allocatable": {GPU: str(DEVICES), "cpu": "128", "memory": "1Ti", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, seat: str, uid: str) -> Object:
    labels = {"fleet.dev/workload-uid": uid, "fleet.dev/generation": "1"}
    containers = [{"name": "main", "resources": {"requests": {GPU: "1", "cpu": "4"}}}]
    return {
        "metadata": {"name": name, "namespace": "bench", "labels": labels},
        "spec": {"nodeName": seat, "containers": containers},
        "status": {"phase": "Running"},
    }


def job(uid: str, ranks: int) -> Object:
    requests = {GPU: "1", "cpu": "4"}
    container = {"name": "main", "image": "x", "resources": {"requests": requests}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": uid, "namespace": "bench", "uid": uid,
            "creationTimestamp": "2026-11-28T00:00:00Z",
        },
        "spec": {
            "completions": ranks, "parallelism": ranks, "completionMode": "Indexed",
            "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
        },
    }  # fmt: skip


def placement(workload: Object, status: Object) -> Object:
    name = workload["metadata"]["name"]
    told = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name}
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "Placement",
        "metadata": {"name": name_of("Job", name), "namespace": "bench", "uid": f"p-{name}"},
        "spec": {"workload": told},
        "status": status,
    }


def running(cluster: str, ranks: int) -> Object:
    shard = {
        "cluster": cluster, "index": 0, "generation": 1, "state": "Committed",
        "committedAt": "2026-11-28T12:00:00Z",
        "roles": [{"name": "worker", "first": 0, "count": ranks}],
    }  # fmt: skip
    return {
        "phase": "Running", "phaseSince": "2026-11-28T12:00:00Z", "generation": 1,
        "queuedAt": "2026-11-28T11:00:00Z", "roles": [{"name": "worker", "pods": ranks}],
        "shards": [shard],
    }  # fmt: skip


def rules() -> tuple[Object, Object]:
    tiers = [{"name": t, "selector": {"matchLabels": {"tier": t}}} for t in ("own", "cloud")]
    policy = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "all", "namespace": "bench", "uid": "policy"},
        "spec": {"mode": "Split", "workloads": {}, "clusters": {"tiers": tiers}},
    }
    offers = [
        {"cluster": f"c{at:03}", "perHour": f"{2 + at % 3}", "per": "Accelerator"}
        for at in range(CLUSTERS)
    ]
    book = {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PriceBook",
        "metadata": {"name": "book", "uid": "book"},
        "spec": {"currency": "USD", "offers": offers},
    }
    return policy, book


class Fleet:
    """The store and the books, full of what runs."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.books = Books()
        self.chance = random.Random(7)
        self.runs: dict[str, str] = {}
        self.questions: dict[str, Question] = {}
        self.moment = NOW

    async def fill(self, running_count: int, waiting_count: int) -> None:
        policy, book = rules()
        await self.store.create(PLACEMENT_POLICY.resource, policy)
        await self.store.create(PRICE_BOOK.resource, book)
        free = {(c, n): DEVICES for c in self.books.accounts for n in range(NODES)}
        order = list(free)
        for number in range(running_count):
            ranks = self.chance.choice(SIZES)
            if not order:
                break
            cluster = order[0][0]
            seats = []
            for seat in list(order):
                if seat[0] != cluster or len(seats) == ranks:
                    break
                taken = min(free[seat], ranks - len(seats))
                seats += [f"n{seat[1]:03}"] * taken
                free[seat] -= taken
                if not free[seat]:
                    order.remove(seat)
            uid = f"run-{number:04}"
            await self._add(job(uid, len(seats)), running(cluster, len(seats)))
            self.books.run(uid, cluster, seats)
            self.runs[uid] = cluster
        for number in range(waiting_count):
            uid = f"wait-{number:04}"
            made = job(uid, self.chance.choice(SIZES) + 8 * self.chance.randint(0, 12))
            status = {"phase": "Queued", "queuedAt": "2026-11-28T13:00:00Z"}
            self.questions[uid] = Question(*await self._add(made, status))

    async def _add(self, workload: Object, status: Object) -> tuple[Object, Object]:
        """As they are stored."""
        job = await self.store.create(JOBS, workload)
        record = await self.store.create(PLACEMENT.resource, placement(workload, status))
        return job.parse(), record.parse()

    async def end(self, uid: str) -> None:
        self.books.end(uid)
        del self.runs[uid]
        await self.drop(uid)

    async def drop(self, uid: str) -> None:
        name = name_of("Job", uid)
        entry = self.store.get(PLACEMENT.resource, "bench", name)
        assert entry is not None
        await self.store.delete(
            PLACEMENT.resource, namespace="bench", name=name, expected=entry.revision
        )


async def one(planner: Placing, fleet: Fleet) -> float:
    """Milliseconds of CPU that a round took. What starts waits no more."""
    fleet.moment += timedelta(seconds=1)
    fleet.books.now_s += 1.0
    start = time.thread_time()
    answers = [each async for each in planner.round(list(fleet.questions.values()))]
    took = (time.thread_time() - start) * 1000
    for each in answers:
        if getattr(getattr(each, "answer", None), "placed", False):
            uid = each.question.workload["metadata"]["uid"]
            await fleet.drop(uid)
            del fleet.questions[uid]
    return took


async def rounds(running_count: int, waiting_count: int, count: int) -> dict[str, float]:
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as store:
        fleet = Fleet(store)
        await fleet.fill(running_count, waiting_count)
        planner = Placing(
            store, fleet.books, now=lambda: fleet.moment, clock=lambda: fleet.books.now_s,
            lease_s=15.0,
        )  # fmt: skip
        first = await one(planner, fleet)
        await one(planner, fleet)
        still = [await one(planner, fleet) for _ in range(count)]
        moved = []
        for _ in range(count):
            for uid in fleet.chance.sample(sorted(fleet.runs), ENDING):
                await fleet.end(uid)
            moved.append(await one(planner, fleet))
        return {
            "round_first_ms": first,
            "round_still_ms": statistics.median(still),
            "round_moved_ms": statistics.median(moved),
        }


def run(quick: bool) -> dict[str, float]:
    """`round_first_ms`, `round_still_ms` and `round_moved_ms`."""
    size = (200, 50, 3) if quick else (RUNNING, WAITING, 10)
    found = asyncio.run(rounds(*size))
    print(f"{size[0]} running, {size[1]} waiting      ms of CPU per round")
    for name, value in found.items():
        print(f"  {name.removeprefix('round_').removesuffix('_ms'):28} {value:8.1f}")
    return {key: round(value, 1) for key, value in found.items()}


if __name__ == "__main__":
    print(run(quick=False))
