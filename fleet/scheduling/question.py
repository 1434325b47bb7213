"""One question put to a fleet: which pods of a workload go where, and what limits the answer.

`Views` has the fleet judged for it. `best` is what `gang` finds; nothing is put into words here.
`placement` asks, and makes a plan or a refusal of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from fleet.scheduling.gang import Asked, Terms, largest, solve
from fleet.scheduling.numbering import Interval
from fleet.scheduling.views import AS_IT_IS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.clusters import Candidate, Cluster
    from fleet.scheduling.demand import Demand, Role
    from fleet.scheduling.gang import Answer
    from fleet.scheduling.plan import Shard
    from fleet.scheduling.price import Prices
    from fleet.scheduling.views import Seen, Views
    from policies.placement_policy import Network


@dataclass(frozen=True)
class Question:
    """Which pods go where: all of a workload's, or those in gaps beside shards that stay."""

    demand: Demand
    views: Views
    generation: int
    waited_s: float = 0.0
    incumbents: frozenset[str] = frozenset()
    scores: Mapping[str, int] = field(default_factory=dict)
    but: Mapping[str, Cluster] = field(default_factory=lambda: AS_IT_IS)
    """Clusters of the fleet that are otherwise to this workload."""
    wanted: Mapping[str, Interval] = field(default_factory=dict)
    """By role, the gap to fill; empty for all pods of all roles."""
    kept: tuple[Shard, ...] = ()
    domains: Mapping[Network, str] = field(default_factory=dict)
    quick: bool = False
    """Well is enough, and nothing is to be told of it."""
    only: str = ""
    """The one cluster that is asked about; "" for all."""
    spent: int = 0
    """What it costs per hour already where it is asked to become larger."""

    @property
    def roles(self) -> tuple[tuple[Role, Interval], ...]:
        """The roles that are asked for, and which of their ranks."""
        if self.wanted:
            return tuple(
                (role, self.wanted[role.name])
                for role in self.demand.roles
                if role.name in self.wanted
            )
        return tuple((role, Interval(role.name, 0, role.pods)) for role in self.demand.roles)

    @property
    def span(self) -> int:
        """Most clusters that may be added."""
        policy = self.demand.policy
        return (1 if policy.mode == "One" else policy.gang.max_clusters) - len(self.kept)

    @property
    def ceiling(self) -> int | None:
        """Most that what is added may cost per hour."""
        limit = self.demand.policy.objective.max_price
        if limit is None:
            return None
        return limit.micro - self.spent - sum(shard.per_hour or 0 for shard in self.kept)

    @property
    def payable(self) -> bool:
        """Whether the ceiling, where there is one, can be compared with the prices."""
        limit = self.demand.policy.objective.max_price
        currency = self.views.prices.currency
        return limit is None or not currency or limit.currency == currency

    @cached_property
    def prices(self) -> Prices:
        return self.views.prices.seen_by(self.demand)

    @cached_property
    def terms(self) -> Terms:
        objective = self.demand.policy.objective
        priced = objective.max_price is not None
        return Terms(self.prices, spot=objective.spot, priced=priced, mix=self.views.mix)

    @cached_property
    def order(self) -> Sequence[str]:
        """The names of the clusters as ties are broken."""
        names, incumbents, scores = self.views.names, self.incumbents, self.scores
        if not incumbents and not scores:
            return names
        return sorted(names, key=lambda c: (c not in incumbents, -scores.get(c, 0), c))

    @cached_property
    def capacities(self) -> Mapping[str, Capacity]:
        if not self.but:
            return self.views.capacities
        known = {n: each.capacity for n, each in self.but.items() if each.capacity is not None}
        return {**self.views.capacities, **known}

    def cluster(self, name: str) -> Cluster:
        found = self.but.get(name)
        return self.views.cluster(name) if found is None else found


@dataclass(frozen=True)
class Judged:
    """A role that is asked for with all clusters judged for it."""

    role: Role
    ranks: Interval
    names: Sequence[str]
    """Of the clusters that are asked about, sorted: the same for all roles."""
    seen: Seen

    @property
    def units(self) -> int:
        return self.ranks.count // self.role.unit

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """By name."""
        known = self.seen.known
        return tuple(known[name] for name in self.names)

    @cached_property
    def usable(self) -> Mapping[str, Candidate]:
        usable, names = self.seen.usable, self.names
        if len(names) == len(self.seen.known):
            return usable
        return {name: usable[name] for name in names if name in usable}


def judged(question: Question) -> list[Judged]:
    """Every role with all clusters but those of shards that stay."""
    taken = {shard.cluster for shard in question.kept}
    names: Sequence[str] = question.views.names
    if question.only:
        names = [question.only] if question.only in names else []
    elif taken:
        names = [name for name in names if name not in taken]
    return [
        Judged(
            role,
            ranks,
            names,
            question.views.seen(
                question.demand,
                role,
                waited_s=question.waited_s,
                domain=question.domains.get(role.network, ""),
                but=question.but,
            ),
        )
        for role, ranks in question.roles
    ]


def best(
    question: Question,
    roles: Sequence[Judged],
    ceiling: int | None,
    *,
    least: Sequence[int] | None = None,
) -> Answer | None:
    """With `least` units of each role, the largest there is from there on."""
    asked = [Asked(each.role, each.units, each.usable) for each in roles]
    order, known, terms = question.order, question.capacities, question.terms
    if least is None:
        return solve(
            asked, order, known, terms, span=question.span, ceiling=ceiling, quick=question.quick
        )
    return largest(asked, least, order, known, terms, span=question.span, ceiling=ceiling)


def sized(question: Question) -> Demand:
    """The demand with elastic roles as large as finds room; at their least where that does not."""
    demand = question.demand
    pods = [role.pods if role.least is None else role.least for role in demand.roles]
    least = [count // role.unit for count, role in zip(pods, demand.roles, strict=True)]
    answer = None
    if question.payable:
        answer = best(question, judged(question), question.ceiling, least=least)
    if answer is not None:
        pods = [sum(p.pods[at] for p in answer.pieces) for at in range(len(demand.roles))]
    fitted = zip(demand.roles, pods, strict=True)
    return replace(demand, roles=tuple(replace(role, pods=count) for role, count in fitted))


def fitting(question: Question, most: int | None) -> Answer | None:
    """As many pods of the one gap that is asked about as find room, in whole units, up to `most`.
    None where not one unit does."""
    ((role, gap),) = question.roles
    pods = gap.count if most is None else min(gap.count, most // role.unit * role.unit)
    if pods < role.unit or not question.payable:
        return None
    asked = replace(question, wanted={role.name: replace(gap, count=pods)})
    return best(asked, judged(asked), asked.ceiling, least=[1])
