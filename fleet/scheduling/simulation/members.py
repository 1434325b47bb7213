"""Members in virtual time: pods sit on nodes from when they are let start until they are gone.

What is free is kept by node, as the members' caches have it, and `placer` is the one that the
gateway decides with: it sees at each look what has changed since the last. Nothing promised is
deducted twice: a plan of this turn is the placer's to remember, what is seated is on the nodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from fleet.errors import InternalError
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.lending.occupancy import Occupancy, User
from fleet.scheduling.requests import accelerators
from fleet.scheduling.rooms import Picture, Rooms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from fleet.scheduling.capacity import Capacity, PodKind, Taken
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.cost.ceilings import Ceilings
    from fleet.scheduling.lending.occupancy import Users
    from fleet.scheduling.placement import Plan
    from fleet.scheduling.planner import Asked
    from fleet.scheduling.price import Prices
    from fleet.scheduling.requests import Vector
    from fleet.scheduling.standing import Wish


class Members:
    def __init__(
        self,
        clusters: Iterable[Cluster],
        prices: Prices,
        *,
        classes: Mapping[str, str] = MappingProxyType({}),
        others: Users | None = None,
    ) -> None:
        """`clusters` have deducted what others run in them, and nothing of the fleet's work.
        `classes` are those of work that shares no node with other classes, by uid; `others` what
        uses nodes and is not the fleet's, where there are any."""
        self.placer = Rooms()
        self._classes = classes
        self._others: Users = others or {}
        self._occupancy = Occupancy()
        self.unlabelled: set[str] = set()
        """What runs since before its class was kept apart."""
        self.clusters = {each.name: each for each in clusters}
        self.used = {name: _used(each) for name, each in self.clusters.items()}
        """What is in use, by cluster and resource, by whomever."""
        self._prices = prices
        self._seats: dict[str, list[tuple[str, Taken]]] = {}

    def look(
        self,
        asked: Mapping[str, tuple[Asked, Wish]],
        *,
        now: datetime,
        ceilings: Ceilings,
    ) -> None:
        """Begin a turn: `asked` is all that waits, by uid."""
        self._occupancy = self._seen()
        picture = Picture(
            clusters=tuple(self.clusters.values()),
            promises=Ledger(),
            prices=self._prices,
            now=now,
            now_s=0.0,
            taken_by=self._taken_by,
            ceilings=ceilings,
            occupancy=self._occupancy,
        )
        self.placer.begin(picture, asked)

    def seat(self, uid: str, plan: Plan) -> None:
        """The pods of a plan are bound.

        Raises InternalError where the plan promised room that is not there.
        """
        kinds = {role.name: role.kind for role in plan.demand.roles}
        for shard in plan.shards:
            roles = shard.by_role or ((shard.intervals[0].role, shard.blocks),)
            wanted = [(kinds[role], dict(blocks)) for role, blocks in roles]
            if self.put(uid, shard.cluster, wanted) < shard.pods:
                raise InternalError(
                    f"{shard.cluster} was chosen for {shard.pods} pods of "
                    f"{plan.demand.workload}, and has no room for them"
                )

    def put(
        self, uid: str, cluster: str, wanted: Sequence[tuple[PodKind, Mapping[str, int]]]
    ) -> int:
        """Bind pods in blocks of a cluster; those for which there is no room are on no node.
        Returns how many are on one."""
        there = self.clusters[cluster].capacity
        if there is None:
            return 0
        if not (work := self._classes.get(uid, "")):
            return self._bound(uid, cluster, *there.take_together(wanted))
        open_to_it = there.shut(self._occupancy.shut(cluster, work))
        _, taken = open_to_it.take_together(wanted)
        for each in taken:
            there = there.retake(each)
        return self._bound(uid, cluster, there, taken)

    def put_on(self, uid: str, cluster: str, kind: PodKind, nodes: Mapping[str, int]) -> int:
        """Bind pods on nodes that are known by name."""
        there = self.clusters[cluster].capacity
        assert there is not None
        taken = there.on_nodes(kind, nodes)
        return self._bound(uid, cluster, there.retake(taken), [taken])

    def release(self, cluster: str, kind: PodKind, nodes: Mapping[str, int]) -> None:
        """Pods that are on the nodes already are nobody else's, but somebody's to `put_on`."""
        capacity = self.clusters[cluster].capacity
        assert capacity is not None
        taken = capacity.on_nodes(kind, nodes)
        self._change(cluster, capacity.give(taken), taken, -1)

    def leave(self, uid: str) -> None:
        """Its pods are gone."""
        self.unlabelled.discard(uid)
        for cluster, taken in self._seats.pop(uid, ()):
            capacity = self.clusters[cluster].capacity
            assert capacity is not None
            self._change(cluster, capacity.give(taken), taken, -1)

    def _bound(self, uid: str, cluster: str, capacity: Capacity, taken: Iterable[Taken]) -> int:
        pods = 0
        for each in taken:
            pods += each.pods
            self._seats.setdefault(uid, []).append((cluster, each))
            self._change(cluster, capacity, each, 1)
            self._uses(self._occupancy, uid, cluster, each)
        return pods

    def _seen(self) -> Occupancy:
        """Who uses which nodes, where any work shares none with others."""
        if not self._classes:
            return Occupancy()
        found = Occupancy(self._classes, self._others).copy()
        for uid, seats in self._seats.items():
            for cluster, taken in seats:
                self._uses(found, uid, cluster, taken)
        return found

    def _uses(self, occupancy: Occupancy, uid: str, cluster: str, taken: Taken) -> None:
        capacity = self.clusters[cluster].capacity
        if not occupancy or capacity is None:
            return
        work = self._classes.get(uid, "")
        labelled = bool(work) and uid not in self.unlabelled
        if labelled or accelerators(taken.kind.request):
            occupancy.add(cluster, capacity.names(taken), User(uid, work, labelled))

    def _change(self, cluster: str, capacity: Capacity, taken: Taken, sign: int) -> None:
        self.clusters[cluster] = replace(self.clusters[cluster], capacity=capacity)
        used, pods = self.used[cluster], sign * taken.pods
        for name, amount in taken.kind.request:
            used[name] += amount * pods

    def _taken_by(self, uid: str) -> dict[str, dict[Vector, dict[str, int]]]:
        found: dict[str, dict[Vector, dict[str, int]]] = {}
        for cluster, taken in self._seats.get(uid, ()):
            capacity = self.clusters[cluster].capacity
            assert capacity is not None
            nodes = found.setdefault(cluster, {}).setdefault(taken.kind.request, {})
            for name, seats in taken.seats:
                for at, pods in seats:
                    node = capacity.blocks[name].site.nodes[at].name
                    nodes[node] = nodes.get(node, 0) + pods
        return found


def _used(cluster: Cluster) -> Counter[str]:
    found: Counter[str] = Counter()
    for node in cluster.capacity.nodes if cluster.capacity is not None else ():
        for name, amount in node.allocatable.items():
            found[name] += amount - node.free.get(name, 0)
    return found
