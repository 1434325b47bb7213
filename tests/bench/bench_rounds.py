"""Rounds of the planner that the gateway runs, beside rounds that read, compare and try everything.

A fleet of 20 clusters with 80 nodes of 8 accelerators, full of 2,000 workloads whose pods are in
the books, and 2,000 that wait for room. Timed is a whole round, from what changed in the store to
the last answer, in CPU time of the thread that decides. Answers are stored and what starts runs, as
dispatch has it, beside the clock. Rounds from scratch and others alternate in one run: nothing has
changed; a lease was renewed; a workload ended; one came. The ratio is from scratch / other.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import statistics
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fleet.dispatch.planning import Answered, Question
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
RUNNING, WAITING = 2000, 2000
TARGETS = {"unchanged_speedup": 20, "renewed_speedup": 20}
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
        "cluster": cluster, "index": 0, "generation": 1, "state": "Running",
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
    """The store and the books, full of what runs, and what dispatch does between two rounds."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.books = Books()
        self.chance = random.Random(7)
        self.questions: dict[str, Question] = {}
        self.moment = NOW
        self.planner = Placing(
            store, self.books, now=lambda: self.moment, clock=lambda: self.books.now_s, lease_s=15.0
        )
        self._free = {(c, n): DEVICES for c in self.books.accounts for n in range(NODES)}
        self._seats: dict[str, list[tuple[str, int]]] = {}

    @property
    def runs(self) -> list[str]:
        return sorted(self._seats)

    async def fill(self, running_count: int, waiting_count: int) -> None:
        policy, book = rules()
        await self.store.create(PLACEMENT_POLICY.resource, policy)
        await self.store.create(PRICE_BOOK.resource, book)
        for number in range(running_count):
            ranks = self.chance.choice(SIZES)
            cluster = max(self.books.accounts, key=self._free_in)
            ranks = min(ranks, self._free_in(cluster))
            if not ranks:
                break
            uid = f"run-{number:04}"
            await self._add(job(uid, ranks), running(cluster, ranks))
            self._seat(uid, cluster, ranks)
        for number in range(waiting_count):
            await self.come(f"wait-{number:04}")

    def _free_in(self, cluster: str) -> int:
        return sum(self._free[cluster, each] for each in range(NODES))

    def _seat(self, uid: str, cluster: str, ranks: int) -> None:
        seats = self._seats.setdefault(uid, [])
        names = []
        for number in range(NODES):
            taken = min(self._free[cluster, number], ranks - len(names))
            self._free[cluster, number] -= taken
            seats += [(cluster, number)] * taken
            names += [f"n{number:03}"] * taken
        self.books.run(uid, cluster, names)

    async def _add(self, workload: Object, status: Object) -> tuple[Object, Object]:
        """As they are stored."""
        job = await self.store.create(JOBS, workload)
        record = await self.store.create(PLACEMENT.resource, placement(workload, status))
        return job.parse(), record.parse()

    async def come(self, uid: str) -> None:
        """One that finds no room: there are fewer accelerators free anywhere."""
        made = job(uid, self.chance.choice(SIZES) + 8 * self.chance.randint(1, 12))
        status = {"phase": "Queued", "queuedAt": "2026-11-28T21:00:00Z"}
        self.questions[uid] = Question(*await self._add(made, status))

    async def end(self, uid: str) -> None:
        self.books.end(uid)
        for seat in self._seats.pop(uid):
            self._free[seat] += 1
        name = name_of("Job", uid)
        for resource, named in ((PLACEMENT.resource, name), (JOBS, uid)):
            entry = self.store.get(resource, "bench", named)
            assert entry is not None
            await self.store.delete(
                resource, namespace="bench", name=named, expected=entry.revision
            )  # fmt: skip

    async def renew(self, uid: str) -> None:
        """The lease of what runs, as dispatch does it every few seconds."""

        def change(obj: Object) -> Object:
            stamp = self.moment.strftime("%Y-%m-%dT%H:%M:%SZ")
            shards = [{**each, "leasedUntil": stamp} for each in obj["status"]["shards"]]
            return {**obj, "status": {**obj["status"], "shards": shards}}

        await self.store.rewrite(
            PLACEMENT.resource, namespace="bench", name=name_of("Job", uid), change=change
        )

    async def settle(self) -> None:
        """Rounds until one changes nothing."""
        while await self.round() is None:
            pass

    async def round(self) -> float | None:
        """Milliseconds of CPU that a round took; None if it had anything stored."""
        took, answers = await self.timed()
        stored = [await self.store_answer(each) for each in answers]
        return None if any(stored) else took

    async def timed(self) -> tuple[float, list[Answered]]:
        self.moment += timedelta(seconds=1)
        self.books.now_s += 1.0
        questions = list(self.questions.values())
        gc.collect()
        start = time.thread_time()
        steps = [each async for each in self.planner.round(questions)]
        took = (time.thread_time() - start) * 1000
        return took, [each for each in steps if isinstance(each, Answered)]

    async def store_answer(self, answered: Answered) -> bool:
        question, answer = answered.question, answered.answer
        uid = question.workload["metadata"]["uid"]
        changed = {**question.placement, "spec": answer.spec, "status": answer.status}
        if changed == question.placement:
            return False
        if answer.placed:
            del self.questions[uid]
            shards = [{**each, "state": "Running"} for each in answer.status["shards"]]
            changed["status"] = {**answer.status, "phase": "Running", "shards": shards}
            for each in shards:
                self._seat(uid, each["cluster"], each["roles"][0]["count"])
        present = self.store.get(PLACEMENT.resource, "bench", name_of("Job", uid))
        assert present is not None
        entry = await self.store.update(PLACEMENT.resource, changed, expected=present.revision)
        if not answer.placed:
            self.questions[uid] = replace(question, placement=entry.parse())
        return True


async def rounds(running_count: int, waiting_count: int, count: int) -> dict[str, float]:
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as store:
        fleet = Fleet(store)
        await fleet.fill(running_count, waiting_count)
        first, answers = await fleet.timed()
        for each in answers:
            await fleet.store_answer(each)
        await fleet.settle()
        times: dict[str, list[float]] = {}
        for number in range(count):
            uids = fleet.chance.sample(fleet.runs, 2)
            for name in ("scratch", "unchanged", "renewed", "ended", "came"):
                match name:
                    case "scratch":
                        fleet.planner.forget()
                    case "renewed":
                        await fleet.renew(uids[0])
                    case "ended":
                        await fleet.end(uids[1])
                    case "came":
                        await fleet.come(f"late-{number:04}")
                took, answers = await fleet.timed()
                times.setdefault(name, []).append(took)
                for each in answers:
                    await fleet.store_answer(each)
                await fleet.settle()
        found = {f"round_{name}_ms": statistics.median(each) for name, each in times.items()}
        scratch = found["round_scratch_ms"]
        ratios = {
            f"{name}_speedup": scratch / found[f"round_{name}_ms"]
            for name in times
            if name != "scratch"
        }
        return {"round_first_ms": first, **found, **ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="a smaller fleet; no bounds")
    options = parser.parse_args()
    size = (200, 50, 2) if options.quick else (RUNNING, WAITING, 7)
    found = asyncio.run(rounds(*size))
    print(f"{size[0]} running, {size[1]} waiting      ms of CPU per round")
    for name, value in found.items():
        print(f"  {name:28} {value:10.2f}")
    missed = [
        f"{name} {found[name]:.1f} < {least}"
        for name, least in TARGETS.items()
        if not options.quick and found[name] < least
    ]
    if options.json:
        print(json.dumps({key: round(value, 2) for key, value in found.items()}))
    if missed:
        sys.exit("missed: " + ", ".join(missed))


if __name__ == "__main__":
    main()
