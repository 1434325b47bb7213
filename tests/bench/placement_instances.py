"""Seeded questions for the placement bench: one gang each, on fleets as they are met with.

A third or more have several roles, a third or more running gangs that may be evicted, a third or
more are fleets of which over 90 % is in use. Networks, tiers, blocks, shapes of nodes, units, span,
ceilings and prices vary, unknown, outdated and spot prices among them. An instance is a function of
its number, and holds whatever order its parts are read in.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from asking import capacity_of

from fleet.scheduling.capacity import PodKind
from fleet.scheduling.clusters import Cluster
from fleet.scheduling.demand import Demand, Role, Workload
from fleet.scheduling.exact.question import Seat, Victim
from fleet.scheduling.price import Prices, prices_of
from fleet.scheduling.requests import amounts, vector
from fleet.scheduling.selection import policy_of
from fleet.scheduling.stranding import POWERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.scheduling.requests import Vector

Object = dict[str, Any]
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
GPU = "nvidia.com/gpu"
CPU_ONLY = "cpu"
COUNT = 540
CROWDED = 0.9
"""Share of the accelerators that is in use."""


@dataclass(frozen=True)
class Instance:
    """One question. `families` says what is special about it."""

    number: int
    families: tuple[str, ...]
    demand: Demand
    clusters: tuple[Cluster, ...]
    prices: Prices
    victims: tuple[Victim, ...]
    waited_s: float
    in_use: float
    """Share of the accelerators."""

    @property
    def question(self) -> dict[str, Any]:
        """What `exact.gang.optimum` and `placement.place` are both asked with."""
        return {
            "now_s": 0.0,
            "prices": self.prices,
            "waited_s": self.waited_s,
            "mix": POWERS,
        }

    @property
    def size(self) -> int:
        """Accelerators: as much may be evicted, and what the largest that goes is larger."""
        return _size([(role.kind.request, role.pods) for role in self.demand.roles])


def _size(requests: Iterable[tuple[Vector, int]]) -> int:
    listed = list(requests)
    counted = sum(dict(request).get(GPU, 0) * pods for request, pods in listed)
    return counted or sum(pods for _, pods in listed)


def families_of(number: int) -> tuple[str, ...]:
    """Each of the eight mixtures of the three comes up in turn."""
    return (
        "multi-role" if number & 1 else "single-role",
        *(("victims",) if number & 2 else ()),
        *(("crowded",) if number & 4 else ()),
    )


def instance(number: int) -> Instance:
    chance = random.Random(number)
    families = families_of(number)
    crowded, evicting = "crowded" in families, "victims" in families
    fleet = _Fleet(chance, crowded=crowded, evicting=evicting)
    while crowded and fleet.in_use <= CROWDED:
        fleet = _Fleet(chance, crowded=True, evicting=evicting)
    roles = _roles(chance, fleet, multi="multi-role" in families)
    return Instance(
        number=number,
        families=families,
        demand=Demand(
            workload=Workload("batch/v1", "Job", "default", f"gang-{number}", f"uid-{number}"),
            roles=roles,
            policy=_policy(chance, roles, fleet),
            priority=100,
        ),
        clusters=fleet.clusters,
        prices=_prices(chance, fleet),
        victims=fleet.victims,
        waited_s=chance.choice((0.0, 0.0, 3600.0)),
        in_use=fleet.in_use,
    )


class _Fleet:
    """Clusters with running pods in them."""

    def __init__(self, chance: random.Random, *, crowded: bool, evicting: bool) -> None:
        self.chance = chance
        self.planes = [f"plane-{n}" for n in range(chance.randint(1, 3))]
        self.nets = [f"net-{n}" for n in range(chance.randint(1, 2))]
        self.share = chance.uniform(0.92, 0.99) if crowded else chance.uniform(0.1, 0.7)
        self.whole = 0.9 if crowded else 0.8
        self.gangs: list[list[Seat]] = [[] for _ in range(chance.randint(2, 6) if evicting else 0)]
        self.free = self.total = 0
        """Accelerators."""
        self.cpu_only = chance.random() < 0.5
        self.kinds: dict[str, list[tuple[str, str]]] = {}
        count = chance.randint(6, 10) if crowded else chance.randint(2, 7)
        self.clusters = tuple(self._cluster(f"c{n:02}") for n in range(count))
        self.victims = tuple(
            Victim(
                f"gang-{n}",
                chance.randint(1, 12) * 500,
                tuple(seats),
                _size([(seat.amounts, 1) for seat in seats]),
            )
            for n, seats in enumerate(self.gangs)
            if seats
        )

    @property
    def in_use(self) -> float:
        return 1 - self.free / self.total if self.total else 0.0

    def _cluster(self, name: str) -> Cluster:
        chance = self.chance
        nodes, used = [], dict[str, Object]()
        accelerator = chance.choice(("h100", "h200"))
        self.kinds[name] = []
        for block in range(chance.randint(1, 4)):
            kind = CPU_ONLY if self.cpu_only and chance.random() < 0.2 else accelerator
            gpus = 0 if kind == CPU_ONLY else chance.choice((4, 8, 8, 8))
            billing = chance.choice(("", "", "", "spot"))
            self.kinds[name].append((kind, f"{kind}-{gpus}"))
            for at in range(chance.randint(1, 5)):
                nodes.append(_node(f"b{block}-n{at}", f"b{block}", kind, gpus, billing))
                used[nodes[-1]["metadata"]["name"]] = self._busy(name, f"b{block}-n{at}", gpus)
        pods = [_pod(node, taken) for node, taken in used.items() if taken]
        chance.shuffle(nodes)
        return Cluster(
            name=name,
            labels={"fleet.dev/provider": chance.choice(("own", "own", "near", "far"))},
            capacity=capacity_of(nodes, pods, as_of_s=0.0, block_label="rack"),
            parameter_plane=chance.choice((*self.planes, *self.planes, self.planes[0], "")),
            data_plane=chance.choice((*self.nets, self.nets[0])),
            cordoned=chance.random() < 0.05,
        )

    def _busy(self, cluster: str, node: str, gpus: int) -> Object:
        """What runs on a node: whole nodes mostly, parts of some."""
        chance = self.chance
        total = gpus or 8
        if chance.random() > self.share:
            taken = 0
        else:
            taken = total if chance.random() < self.whole else chance.randint(1, total)
        self.free += (total - taken) if gpus else 0
        self.total += gpus
        if not taken:
            return {}
        cpu = 7 * taken * 8 // total
        used = {"cpu": str(cpu), "memory": f"{24 * taken * 8 // total}Gi"}
        if gpus:
            used[GPU] = str(taken)
        if self.gangs and chance.random() < 0.6:
            mine = vector({**amounts(used), "pods": 1})
            chance.choice(self.gangs).append(Seat(cluster, node, mine))
        return used


def _node(name: str, block: str, kind: str, gpus: int, billing: str) -> Object:
    labels = {"fleet.dev/accelerator": kind, "rack": block}
    labels["node.kubernetes.io/instance-type"] = f"{kind}-{gpus}"
    if kind == CPU_ONLY:
        del labels["fleet.dev/accelerator"]
    if billing:
        labels["karpenter.sh/capacity-type"] = billing
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    if gpus:
        allocatable[GPU] = str(gpus)
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(node: str, requests: Object) -> Object:
    return {
        "metadata": {"name": f"on-{node}", "namespace": "default"},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running"},
    }


def _roles(chance: random.Random, fleet: _Fleet, *, multi: bool) -> tuple[Role, ...]:
    gpus = chance.choice((1, 2, 4, 8, 8))
    running = sum(dict(seat.amounts).get(GPU, 0) for gang in fleet.gangs for seat in gang)
    there = fleet.free + (running // 2 if fleet.gangs else 0)
    most = max(1, int(there * chance.uniform(0.05, 0.6)) // gpus)
    unit = chance.choice((1, 1, 2, 4))
    units = max(1, min(most, 48) // unit)
    network = chance.choice(("ParameterPlane", "ParameterPlane", "DataPlane", "None"))
    cpu = chance.choice((2, 4, 7)) * gpus
    roles = [_role("worker", units * unit, unit, {GPU: gpus, "cpu": cpu}, network)]
    if multi:
        # A few small ones beside the workers, or as many as fight with them for every node.
        count = chance.choice((chance.randint(1, 8), 2 * units, there // 4))
        small = {"cpu": chance.choice((4, 8, 16)), "memory": f"{chance.choice((8, 16, 60))}Gi"}
        network = chance.choice(("DataPlane", "DataPlane", "None"))
        roles.append(_role("loader", max(1, min(count, 64)), 1, small, network))
        if chance.random() < 0.5:
            lead = chance.choice(({GPU: 1, "cpu": 4}, {GPU: 2, "cpu": 24}, {"cpu": 30}))
            network = chance.choice(("None", roles[0].network))
            roles.append(_role("leader", chance.choice((1, 1, 4)), 1, lead, network))
    return tuple(roles)


def _role(name: str, pods: int, unit: int, requests: Object, network: Any) -> Role:
    asked = {"memory": "16Gi", **{key: str(value) for key, value in requests.items()}}
    return Role(name, pods, unit, PodKind(vector({**amounts(asked), "pods": 1})), network)


def _policy(chance: random.Random, roles: tuple[Role, ...], fleet: _Fleet) -> Any:
    span = chance.choice((1, 2, 2, 3, 4))
    spec: Object = {"mode": "Split", "gang": {"maxClusters": span}} if span > 1 else {"mode": "One"}
    objective: Object = {"spot": chance.choice(("Never", "Allowed", "Preferred"))}
    if chance.random() < 0.15:
        objective["maxPrice"] = f"{sum(r.pods for r in roles) * chance.randint(1, 20)} USD/h"
    spec["objective"] = objective
    if chance.random() < 0.6:
        tiers: list[Object] = [
            {"name": name, "selector": {"matchLabels": {"fleet.dev/provider": name}}}
            for name in ("own", "near", "far")
        ]
        tiers[2]["after"] = chance.choice(("0s", "10m"))
        spec["clusters"] = {"tiers": tiers}
    return policy_of({"metadata": {"name": "gang", "namespace": "default"}, "spec": spec}).spec


def _prices(chance: random.Random, fleet: _Fleet) -> Prices:
    offers: list[Object] = []
    for name, kinds in fleet.kinds.items():
        way = chance.choice(("owned", "priced", "priced", "priced", "unknown"))
        if way == "owned":
            offers.append({"cluster": name, "billing": "Owned"})
        if way == "priced":
            for kind, instance_type in sorted(set(kinds)):
                offers += _offers(chance, name, kind, instance_type)
    book = {"metadata": {"name": "current"}, "spec": {"currency": "USD", "offers": offers}}
    return prices_of([book], now=NOW)


def _offers(chance: random.Random, cluster: str, kind: str, instance_type: str) -> list[Object]:
    price = chance.randint(100, 600)
    offer: Object = {"cluster": cluster, "instanceType": instance_type}
    if kind != CPU_ONLY:
        offer["accelerator"] = kind
    if kind != CPU_ONLY and chance.random() < 0.6:
        offer["per"] = "Accelerator"
    else:
        price *= 8
    found = [{**offer, "perHour": f"{price / 100:.2f}"}]
    if chance.random() < 0.5:
        lower = price * chance.choice((30, 60, 110)) // 100
        found.append({**offer, "billing": "Spot", "perHour": f"{lower / 100:.2f}"})
    if chance.random() < 0.15:
        old = (NOW - timedelta(days=3)).isoformat()
        found = [{**each, "asOf": old} for each in found]
    return found


# -- batches


@dataclass(frozen=True)
class Batch:
    """Many gangs at once on one fleet."""

    number: int
    demands: tuple[Demand, ...]
    clusters: tuple[Cluster, ...]
    prices: Prices


def batch(number: int, *, gangs: int = 100, clusters: int = 16, asked: float = 1.2) -> Batch:
    """`asked`: accelerators wanted by all, as a share of those that are free."""
    chance = random.Random(1_000_000 + number)
    members, offers, free = [], [], 0
    for at in range(clusters):
        nodes, pods = [], []
        for block in range(8):
            for position in range(8):
                node = _node(f"b{block}-n{position}", f"b{block}", "h200", 8, "")
                nodes.append(node)
                taken = chance.choice((0, 0, 0, 0, 0, 8, 8, chance.choice((1, 2, 4))))
                free += 8 - taken
                if taken:
                    pods.append(_pod(node["metadata"]["name"], {GPU: str(taken)}))
        provider = chance.choice(("own", "own", "near"))
        members.append(
            Cluster(
                name=f"c{at:02}",
                labels={"fleet.dev/provider": provider},
                capacity=capacity_of(nodes, pods, as_of_s=0.0, block_label="rack"),
                parameter_plane=f"plane-{at % 4}",
                data_plane="net-0",
            )
        )
        price = 0 if provider == "own" else chance.randint(100, 600)
        offer: Object = {"cluster": f"c{at:02}", "per": "Accelerator"}
        offers.append(
            {**offer, "perHour": f"{price / 100:.2f}"} if price else {**offer, "billing": "Owned"}
        )
        if not price:
            del offers[-1]["per"]
    book = {"metadata": {"name": "current"}, "spec": {"currency": "USD", "offers": offers}}
    # Sizes as they are met with, many small and few large, scaled to what is asked for in all.
    shapes = [
        (chance.choice((1, 2, 4, 8, 8, 8)), chance.choice((1, 1, 2, 4)), 2 ** chance.uniform(0, 5))
        for _ in range(gangs)
    ]
    scale = asked * free / sum(gpus * unit * units for gpus, unit, units in shapes)
    return Batch(
        number=number,
        demands=tuple(
            _member_of_batch(chance, at, gpus, unit, max(1, round(units * scale)))
            for at, (gpus, unit, units) in enumerate(shapes)
        ),
        clusters=tuple(members),
        prices=prices_of([book], now=NOW),
    )


def _member_of_batch(chance: random.Random, at: int, gpus: int, unit: int, units: int) -> Demand:
    tiers = [
        {"name": name, "selector": {"matchLabels": {"fleet.dev/provider": name}}}
        for name in ("own", "near")
    ]
    spec = {
        "mode": "Split",
        "gang": {"maxClusters": chance.choice((1, 2, 2, 4))},
        "clusters": {"tiers": tiers} if chance.random() < 0.5 else {},
    }
    network = chance.choice(("ParameterPlane", "ParameterPlane", "None"))
    return Demand(
        workload=Workload("batch/v1", "Job", "default", f"gang-{at:03}", f"uid-{at:03}"),
        roles=(_role("worker", units * unit, unit, {GPU: gpus, "cpu": gpus}, network),),
        policy=policy_of({"metadata": {"name": "gang", "namespace": "default"}, "spec": spec}).spec,
        priority=chance.choice((100, 100, 200, 300)),
    )
