"""The three load shapes of Kueue's scheduler performance tests, as traces.

Facts from kueue:test/performance/scheduler/configs (baseline, large-scale, tas): cohorts of queues,
each with 20 CPU, a borrowing limit of 100, reclaim from any and preemption of lower priority in the
queue; one workload of each class arrives per interval in every queue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Final

from fleet.scheduling.placer import Item
from fleet.scheduling.quota.tree import Key, Node, Preemption, Share, Tree
from fleet.scheduling.simulation.racks import Pods

if TYPE_CHECKING:
    from collections.abc import Iterator

CPU: Final = Key("cpu")
_CORE: Final = 1000
_NOMINAL: Final = 20 * _CORE
_BORROWING: Final = 100 * _CORE


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
            pods = turns[each.name][number] if each.topologies else None
            yield (
                at_ms,
                Item(
                    uid=f"{each.name}-{cohort}-{queue}-{number}",
                    quota=f"queue-{cohort}-{queue}",
                    priority=each.priority,
                    sequence=sequence,
                    requests={CPU: each.cpu_m},
                    shape=(each.name, pods),
                    run_time_s=each.runs_ms / 1000,
                    demand=pods,
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
    return found


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
