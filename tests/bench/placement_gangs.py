"""Part of the placement bench: whole gangs over a large fleet, one after the other.

Clusters of 1,000 nodes, ten on each parameter plane, half full; a seeded stream of gangs of 1 to
512 nodes of 8 accelerators, three in ten with a second role, each taken where it was placed before
the next one is asked for. Timed is what a scheduler does per gang: find the place and take it, in
CPU time of the thread that decides, which waits for nothing; so what else the machine does is left
out. It is the Placer of the gateway's rounds, and what it finds is the whole plan, with the verdict
on every cluster. The same stream over ten times as many clusters shows how the time grows.
"""

from __future__ import annotations

import random
import resource
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asking import NOW, opened

from fleet.scheduling.capacity import Capacity, PodKind
from fleet.scheduling.clusters import Cluster
from fleet.scheduling.demand import Demand, Role, Workload
from fleet.scheduling.nodes import Node
from fleet.scheduling.placement import Plan
from fleet.scheduling.placer import Item, Placed
from fleet.scheduling.price import Prices, prices_of
from fleet.scheduling.selection import policy_of
from fleet.scheduling.stock import Block, Site

if TYPE_CHECKING:
    from fleet.scheduling.rooms import Rooms

BLOCKS = 8
NODES = 120
"""In each block; 40 nodes without accelerators stand beside them in a block of their own."""
FULL = 0.5
PLANE = 10
"""Clusters on one parameter plane."""

WORKER = PodKind((("cpu", 96_000), ("nvidia.com/gpu", 8), ("pods", 1)))
HEAD = PodKind((("cpu", 16_000), ("pods", 1)))
SMALL = PodKind((("cpu", 8_000), ("nvidia.com/gpu", 1), ("pods", 1)))


@dataclass(frozen=True)
class Timed:
    """What a stream of gangs took, in milliseconds per gang."""

    times: list[float]
    placed: int
    several: int
    exact: int

    @property
    def p99(self) -> float:
        return sorted(self.times)[int(len(self.times) * 0.99)]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)


def node(name: str, block: str, gpus: int, cpu: int) -> Node:
    there = {"cpu": cpu, "pods": 110} | ({"nvidia.com/gpu": gpus} if gpus else {})
    kind = "h200" if gpus else ""
    return Node(name, {}, (), there, dict(there), block, kind, "", "", "")


def sites() -> list[Site]:
    """The blocks that every cluster has; their nodes are shared, their use is not."""
    made = [
        Site(f"b{at}", [node(f"b{at}-{i}", f"b{at}", 8, 128_000) for i in range(NODES)])
        for at in range(BLOCKS)
    ]
    cpu = [node(f"cpu-{i}", "cpu", 0, 128_000) for i in range(1000 - BLOCKS * NODES)]
    return [*made, Site("cpu", cpu)]


def busy(site: Site, chance: random.Random) -> Block:
    """A block in use, some of its nodes in part."""
    block = site.block()
    nodes = range(len(site.nodes))
    full = chance.sample(nodes, round(len(nodes) * min(1.0, max(0.0, chance.gauss(FULL, 0.25)))))
    if site.name == "cpu":
        return block.seated(HEAD.request, [(at, chance.randint(1, 8)) for at in full])
    part = [(at, chance.randint(1, 7)) for at in full[::8]]
    whole = [(at, 1) for at in full if at % 8 or at not in full[::8]]
    return block.seated(SMALL.request, part).seated(WORKER.request, [
        each for each in whole if each[0] not in dict(part)
    ])  # fmt: skip


def fleet(clusters: int, seed: int) -> tuple[list[Cluster], Prices]:
    chance, shared, made, offers = random.Random(seed), sites(), [], []
    for at in range(clusters):
        blocks = [busy(site, chance) for site in shared]
        made.append(
            Cluster(
                name=f"c{at:04}",
                labels={"tier": "own" if at % 3 else "cloud"},
                capacity=Capacity.of_blocks(blocks, 0.0),
                parameter_plane=f"plane-{at // PLANE:03}",
                data_plane=f"net-{at // (3 * PLANE):03}",
            )
        )
        price = "0" if at % 3 else chance.choice(["1.90", "2.10", "2.60"])
        offers.append({"cluster": f"c{at:04}", "perHour": price, "per": "Accelerator"})
    spec = {"currency": "USD", "offers": offers}
    return made, prices_of([{"metadata": {"name": "book"}, "spec": spec}], now=NOW)


def gangs(count: int, seed: int) -> list[Item]:
    chance = random.Random(seed)
    tiers = [{"name": t, "selector": {"matchLabels": {"tier": t}}} for t in ("own", "cloud")]
    policies = [
        policy_of(
            {
                "metadata": {"name": f"p{span}", "namespace": "bench"},
                "spec": {"mode": "Split", "clusters": rules, "gang": {"maxClusters": span}},
            }
        ).spec
        for span in (2, 4)
        for rules in ({"tiers": tiers}, {})
    ]
    made = []
    for at in range(count):
        nodes = round(2 ** chance.uniform(0, 9))
        unit = chance.choice([1, 1, 2, 4, 8])
        nodes = max(unit, nodes // unit * unit)
        roles = [Role("worker", nodes, unit, WORKER, "ParameterPlane")]
        if chance.random() < 0.3:
            other = chance.choice(
                [
                    Role("head", 1, 1, HEAD, "ParameterPlane"),
                    Role("loader", max(1, nodes // 8), 1, HEAD, "DataPlane"),
                    Role("evaluator", chance.randint(1, 8), 1, SMALL, "ParameterPlane"),
                ]
            )
            roles.insert(0, other)
        demand = Demand(
            Workload("batch/v1", "Job", "bench", f"gang-{seed}-{at}", f"uid-{seed}-{at}"),
            tuple(roles),
            chance.choice(policies),
        )
        made.append(Item(f"uid-{seed}-{at}", "", 0, at, {}, shape=at, demand=demand))
    return made


def stream(rooms: Rooms, items: list[Item]) -> Timed:
    times, placed, several, exact = [], 0, 0, 0
    for item in items:
        start = time.thread_time()
        found = rooms.place(item)
        if isinstance(found, Placed):
            rooms.take(item.uid, found)
        times.append((time.thread_time() - start) * 1000)
        if isinstance(found, Placed):
            assert isinstance(found.plan, Plan)
            placed += 1
            several += len(found.plan.shards) > 1
            exact += found.plan.exact
    return Timed(times, placed, several, exact)


def warmed(clusters: int, items: list[Item]) -> Rooms:
    """A fleet that has been asked every kind of question once, as any that runs has."""
    made, prices = fleet(clusters, seed=1)
    before = gangs(200, seed=2)
    rooms = opened(made, [*before, *items], prices=prices)
    for item in before:
        rooms.place(item)
    return rooms


def run(quick: bool) -> dict[str, float]:
    """`gang_p99_ms` and `growth_100_to_1000`."""
    count, large = (300, 300) if quick else (600, 600)
    print("gangs over a fleet     mean ms    p99 ms    max ms   placed  several  proven   RSS MB")
    found = {}
    for clusters, number in ((100, count), (1000, large)):
        items = gangs(number, seed=3)
        timed = found[clusters] = stream(warmed(clusters, items), items)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{clusters:>5} × 1000 nodes   {timed.mean:9.2f} {timed.p99:9.2f} "
            f"{max(timed.times):9.2f} {timed.placed:>5}/{number} {timed.several:>7} "
            f"{timed.exact:>7} {memory:8.0f}"
        )
    return {
        "gang_p99_ms": round(found[100].p99, 2),
        "growth_100_to_1000": round(found[1000].mean / found[100].mean, 2),
    }


if __name__ == "__main__":
    print(run(quick=True))
