"""The clusters of a fleet, judged for what is asked of them, and again only where one changed.

`Views` keeps the fleet as it is: what is decided is taken off it (`change`), and from one round to
the next only what differs is put in (`put`). A cluster is judged once for each kind of question – a
role under the rules of a policy – as long as nothing of it changes, and what its nodes hold of a
kind of pod is counted once for all of them. So a decision costs the clusters that changed and a
search over numbers, whatever the size of the fleet. Not for two tasks at once. Next step:
`question`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from fleet.scheduling.clusters import Cluster, judge, opens_after_s, room, stale, standing
from fleet.scheduling.price import Prices, Work
from fleet.scheduling.stranding import NO_MIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.clusters import Candidate, Standing
    from fleet.scheduling.demand import Demand, Role
    from fleet.scheduling.fit import Curve, Offered
    from fleet.scheduling.stranding import Mix

_VIEWS: Final = 512
_NO_PRICES: Final = Prices()
_ASIDE: Final = tuple(each.name for each in fields(Cluster) if each.name != "capacity")

AS_IT_IS: Final[Mapping[str, Cluster]] = MappingProxyType({})


class Seen(NamedTuple):
    """A fleet judged for one role, by name of the cluster. To be read at once: it goes on
    changing with the fleet."""

    known: Mapping[str, Candidate]
    usable: Mapping[str, Candidate]
    """Those that come into question."""


@dataclass(slots=True)
class _View:
    """All clusters judged for one role under one policy."""

    demand: Demand
    role: Role
    waited_s: float
    domain: str
    upto: int
    """How many changes it has seen."""
    known: dict[str, Candidate] = field(default_factory=dict)
    usable: dict[str, Candidate] = field(default_factory=dict)
    standings: dict[str, Standing] = field(default_factory=dict)
    """What clusters are to the role whatever room they have; until they change themselves."""

    def put(self, candidate: Candidate) -> None:
        self.known[candidate.cluster] = candidate
        if candidate.usable:
            self.usable[candidate.cluster] = candidate
        else:
            self.usable.pop(candidate.cluster, None)

    def drop(self, name: str) -> None:
        for each in (self.known, self.usable, self.standings):
            each.pop(name, None)


class Views:
    """See the module."""

    def __init__(
        self,
        clusters: Iterable[Cluster] = (),
        *,
        prices: Prices = _NO_PRICES,
        now_s: float = 0.0,
        mix: Mix = NO_MIX,
    ) -> None:
        """`clusters` have deducted what is promised; `now_s` is of the clock that their capacity
        is dated with; `mix` are the jobs that are expected, for what a choice of blocks strands.
        """
        self.prices = prices
        self.now_s = now_s
        self.mix = mix
        self.changes = 0
        """How often anything that decisions depend on was changed."""
        self.names: list[str] = []
        """Sorted."""
        self.capacities: dict[str, Capacity] = {}
        """What is left of those that are known."""
        self._clusters: dict[str, Cluster] = {}
        self._stale: set[str] = set()
        self._changed: dict[str, int] = {}
        """When each was changed last, the latest at the end."""
        self._rooms: dict[str, dict[object, tuple[Offered, Curve]]] = {}
        """By cluster, what its capacity holds of each kind of pod."""
        self._views: OrderedDict[object, _View] = OrderedDict()
        for cluster in clusters:
            self.put(cluster)

    # -- the fleet

    def __contains__(self, name: str) -> bool:
        return name in self._clusters

    def cluster(self, name: str) -> Cluster:
        return self._clusters[name]

    def at(self, now_s: float, prices: Prices) -> None:
        """Another time: which capacities are too old depends on it, and so do prices."""
        if prices is not self.prices and prices != self.prices:
            self.changes += 1
            self._views.clear()
            self._rooms.clear()
        self.prices, self.now_s = prices, now_s
        for name, cluster in self._clusters.items():
            self._age(name, cluster)

    def put(self, cluster: Cluster) -> None:
        """A cluster as it is: new, or perhaps changed."""
        name = cluster.name
        before = self._clusters.get(name)
        self._clusters[name] = cluster
        self.capacities.pop(name, None)
        if cluster.capacity is not None:
            self.capacities[name] = cluster.capacity
        if before is None:
            self.names = sorted(self._clusters)
        elif all(getattr(before, each) == getattr(cluster, each) for each in _ASIDE):
            if not _alike(before.capacity, cluster.capacity):
                self._mark(name)
            self._age(name, cluster)
            return
        for view in self._views.values():
            view.standings.pop(name, None)
        self._mark(name)
        self._age(name, cluster)

    def remove(self, name: str) -> None:
        """It has left the fleet."""
        del self._clusters[name]
        self.names.remove(name)
        self.capacities.pop(name, None)
        self._stale.discard(name)
        self._mark(name)

    def change(self, name: str, capacity: Capacity) -> None:
        """A cluster that has more or less left."""
        self._clusters[name] = replace(self._clusters[name], capacity=capacity)
        self.capacities[name] = capacity
        self._mark(name)

    def _mark(self, name: str) -> None:
        self.changes += 1
        self._rooms.pop(name, None)
        self._changed.pop(name, None)
        self._changed[name] = self.changes

    def _age(self, name: str, cluster: Cluster) -> None:
        """Whether it is too old is a change; how old is not."""
        if stale(cluster, self.now_s) != (name in self._stale):
            self._stale ^= {name}
            self._mark(name)

    # -- what it is to a role

    def seen(
        self,
        demand: Demand,
        role: Role,
        *,
        waited_s: float,
        domain: str = "",
        but: Mapping[str, Cluster] = AS_IT_IS,
    ) -> Seen:
        """See `clusters.judge`; `but` are clusters of the fleet that are otherwise to this one
        workload, by name."""
        view = self._view(demand, role, waited_s, domain)
        if not but:
            return Seen(view.known, view.usable)
        known, usable = dict(view.known), dict(view.usable)
        for name, cluster in but.items():
            candidate = known[name] = self._judge(view, cluster)
            usable.pop(name, None)
            if candidate.usable:
                usable[name] = candidate
        return Seen(known, usable)

    def _view(self, demand: Demand, role: Role, waited_s: float, domain: str) -> _View:
        policy = demand.policy
        rules = policy.clusters
        opened = sum(
            opens_after_s(demand, number) <= waited_s for number in range(1, 1 + len(rules.tiers))
        )
        name = role.name if role.tiers else ""
        key = (
            id(rules), opened, name, role.kind, role.unit, role.network, role.tiers,
            domain or policy.gang.plane, policy.objective.spot,
            policy.objective.max_price is None, Work.of(demand),
        )  # fmt: skip
        view = self._views.get(key)
        if view is None:
            # It holds the rules, so nothing else can have their identity.
            view = self._views[key] = _View(demand, role, waited_s, domain, self.changes)
            for each in self.names:
                view.put(self._judge(view, self._clusters[each]))
            if len(self._views) > _VIEWS:
                self._views.popitem(last=False)
            return view
        self._views.move_to_end(key)
        for each, changed in reversed(self._changed.items()):
            if changed <= view.upto:
                break
            cluster = self._clusters.get(each)
            if cluster is not None:
                view.put(self._judge(view, cluster))
            else:
                view.drop(each)
        view.upto = self.changes
        return view

    def _judge(self, view: _View, cluster: Cluster) -> Candidate:
        demand, role, name = view.demand, view.role, cluster.name
        capacity, mine = cluster.capacity, cluster is self._clusters[name]
        stands = view.standings.get(name) if mine else None
        if stands is None:
            stands = standing(demand, role, cluster, waited_s=view.waited_s, domain=view.domain)
            if mine:
                view.standings[name] = stands
        has: tuple[Offered, Curve] | None = None
        if capacity is not None and capacity is self.capacities.get(name):
            objective = demand.policy.objective
            work = Work.of(demand)
            key = role.kind, role.unit, objective.spot, objective.max_price is None, work
            rooms = self._rooms.setdefault(name, {})
            has = rooms.get(key)
            if has is None:
                if len(rooms) >= _VIEWS:
                    rooms.clear()
                has = rooms[key] = room(demand, role, cluster, self.prices, self.mix)
        return judge(
            demand,
            role,
            cluster,
            prices=self.prices,
            now_s=self.now_s,
            waited_s=view.waited_s,
            domain=view.domain,
            mix=self.mix,
            known=(stands, has),
        )


def _alike(before: Capacity | None, after: Capacity | None) -> bool:
    if before is None or after is None:
        return before is after
    return before.alike(after)
