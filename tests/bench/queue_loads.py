"""The three load shapes of Kueue's scheduler performance tests, as traces.

Facts from kueue:test/performance/scheduler/configs (baseline, large-scale, tas): cohorts of queues,
each with 20 CPU, a borrowing limit of 100, reclaim from any and preemption of lower priority in the
queue; one workload of each class arrives per interval in every queue. The tas load has a cluster of
ten racks with 64 nodes of 96 CPU: what must be in one rack is one unit, what is to be balanced has
slices for units, all else is put into as few racks as do. The other two have no nodes at all; here
they get a member with one block of 64, which holds more than their quota.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Final

from fleet.scheduling.capacity import Capacity, PodKind
from fleet.scheduling.clusters import Cluster
from fleet.scheduling.demand import Demand, Role, Workload
from fleet.scheduling.nodes import Node as Machine
from fleet.scheduling.placer import Item
from fleet.scheduling.quota.tree import Key, Node, Preemption, Share, Tree
from fleet.scheduling.selection import policy_of

if TYPE_CHECKING:
    from collections.abc import Iterator

CPU: Final = Key("cpu")
_CORE: Final = 1000
_NOMINAL: Final = 20 * _CORE
_BORROWING: Final = 100 * _CORE
_POLICY: Final = policy_of({"metadata": {"name": "any", "namespace": "load"}, "spec": {}}).spec


def member(*, racks: int, nodes: int, cpu_m: int) -> Cluster:
    """The cluster, empty."""
    there = {"cpu": cpu_m, "pods": cpu_m // _CORE}
    machines = [
        Machine(f"r{rack}-{node}", {}, (), there, dict(there), f"r{rack}", "", "", "", "")
        for rack in range(racks)
        for node in range(nodes)
    ]
    return Cluster("cluster", {}, Capacity(tuple(machines), 0.0))


@dataclass(frozen=True, slots=True)
class Pods:
    """What a gang asks of the racks."""

    count: int
    cpu_m: int
    topology: str = "Preferred"
    """Required, Preferred or Balanced."""
    slice_size: int = 1
    """Pods that stay in one rack, where they are to be balanced."""

    def demand(self, uid: str) -> Demand:
        return Demand(Workload("batch/v1", "Job", "load", uid, uid), (self.role,), _POLICY)

    @property
    def role(self) -> Role:
        return _role(self)


@cache
def _role(pods: Pods) -> Role:
    units = {"Required": pods.count, "Balanced": pods.slice_size}
    kind = PodKind((("cpu", pods.cpu_m), ("pods", 1)))
    return Role("main", pods.count, units.get(pods.topology, 1), kind, "None")


@dataclass(frozen=True, slots=True)
class Class:
    name: str
    count: int
    """In each queue."""
    every_ms: int
    runs_ms: int
    priority: int
    cpu_m: int
    pods: int = 1
    topologies: tuple[tuple[str, int], ...] = ()
    """How many of the count ask for what of the racks; they take turns."""
    slice_size: int = 1


@dataclass(frozen=True, slots=True)
class Load:
    name: str
    cohorts: int
    queues: int
    """In each cohort."""
    classes: tuple[Class, ...]

    @property
    def workloads(self) -> int:
        return self.cohorts * self.queues * sum(each.count for each in self.classes)

    @property
    def work_bound_s(self) -> float:
        """No schedule ends earlier: all work at once on all quota."""
        work = sum(each.count * each.cpu_m * each.runs_ms for each in self.classes)
        return work / _NOMINAL / 1000

    def member(self) -> Cluster:
        if self.classes[0].topologies:
            return member(racks=10, nodes=64, cpu_m=96 * _CORE)
        return member(racks=1, nodes=64, cpu_m=512 * _CORE)

    def tree(self) -> Tree:
        policy = Preemption(within="LowerPriority", reclaim="Any")
        share = Share(guaranteed=_NOMINAL, limit=_NOMINAL + _BORROWING)
        nodes = []
        for cohort in range(self.cohorts):
            whole = Share(guaranteed=self.queues * _NOMINAL)
            nodes.append(Node(f"cohort-{cohort}", "", {CPU: whole}))
            nodes += [
                Node(f"queue-{cohort}-{q}", f"cohort-{cohort}", {CPU: share}, preemption=policy)
                for q in range(self.queues)
            ]
        return Tree.of(nodes)

    def arrivals(self) -> list[tuple[int, Item]]:
        """(milliseconds from the start, item), in order of arrival; classes from the same start."""
        return sorted(self._arrivals(), key=lambda each: each[1].sequence)

    def _arrivals(self) -> Iterator[tuple[int, Item]]:
        drawn = [
            (number * each.every_ms, order, number, cohort, queue, each)
            for order, each in enumerate(self.classes)
            for number in range(each.count)
            for cohort in range(self.cohorts)
            for queue in range(self.queues)
        ]
        drawn.sort(key=lambda each: each[:5])
        turns = {each.name: _turns(each) for each in self.classes}
        for sequence, (at_ms, _, number, cohort, queue, each) in zip(count(), drawn, strict=False):
            turn = turns[each.name]
            pods = turn[number % len(turn)]
            uid = f"{each.name}-{cohort}-{queue}-{number}"
            yield (
                at_ms,
                Item(
                    uid=uid,
                    quota=f"queue-{cohort}-{queue}",
                    priority=each.priority,
                    sequence=sequence,
                    requests={CPU: each.cpu_m},
                    shape=pods,
                    run_time_s=each.runs_ms / 1000,
                    restart_s=0.0,
                    demand=pods.demand(uid),
                    pods=each.pods,
                ),
            )


def _turns(each: Class) -> list[Pods]:
    """What each of a class asks for, kinds taking turns until none is left."""
    left = dict(each.topologies)
    found: list[Pods] = []
    while any(left.values()):
        for kind in [kind for kind, number in left.items() if number]:
            left[kind] -= 1
            size = each.slice_size if kind == "Balanced" else 1
            found.append(Pods(each.pods, each.cpu_m // each.pods, kind, size))
    return found or [Pods(each.pods, each.cpu_m // each.pods)]


BASELINE: Final = Load(
    "baseline", 5, 6,
    (
        Class("small", 350, 100, 200, 50, 1 * _CORE),
        Class("medium", 100, 500, 500, 100, 5 * _CORE),
        Class("large", 50, 1200, 1000, 200, 20 * _CORE),
    ),
)  # fmt: skip
LARGE: Final = Load(
    "large scale", 10, 100,
    (
        Class("small", 35, 60, 150, 50, 1 * _CORE),
        Class("medium", 11, 300, 350, 100, 5 * _CORE),
        Class("large", 4, 700, 700, 200, 20 * _CORE),
    ),
)  # fmt: skip


def _thirds(required: int, preferred: int, balanced: int) -> tuple[tuple[str, int], ...]:
    return (("Required", required), ("Preferred", preferred), ("Balanced", balanced))


TOPOLOGY: Final = Load(
    "topology", 5, 6,
    (
        Class("small", 350, 100, 200, 50, 1 * _CORE, 2, _thirds(120, 120, 110), 1),
        Class("medium", 100, 500, 500, 100, 5 * _CORE, 4, _thirds(34, 33, 33), 2),
        Class("large", 50, 1200, 1000, 200, 20 * _CORE, 8, _thirds(17, 17, 16), 4),
    ),
)  # fmt: skip


def shortened(load: Load, *, share: int = 10) -> Load:
    """The first of every `share` workloads of each class, at the same pace."""
    classes = []
    for each in load.classes:
        topologies = tuple((kind, max(1, number // share)) for kind, number in each.topologies)
        number = sum(n for _, n in topologies) or max(1, each.count // share)
        classes.append(replace(each, count=number, topologies=topologies))
    return replace(load, classes=tuple(classes))
