"""The decision for one gang: which clusters, how much in each – or why not, and what would help.

Hard: all pods or none, units whole, one network for a role that asks for one, the policy's
selector, taints, tiers, span and ceiling, capacity known and fresh. Among what is left the best, in
this order: the earliest tier that suffices, fewest clusters, known prices, price, fewest blocks,
first by name (clusters that have the workload already before others). Exact for one role and one
kind of pod; the same input in any order gives the same plan. Modes One and Split.

`numbering` gave the shards their ranks when this returns; next step: `record`, then
`fleet.dispatch` holds and commits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fleet.scheduling import sentences
from fleet.scheduling.clusters import judge, opens_after_s
from fleet.scheduling.fit import Cost
from fleet.scheduling.numbering import Interval, gaps, indexes, number
from fleet.scheduling.price import Prices
from fleet.scheduling.search import cheapest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from fleet.scheduling.clusters import Candidate, Cluster
    from fleet.scheduling.demand import Demand, Role
    from policies.placement import Verdict as VerdictWord

_NO_PRICES = Prices()


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of a workload that one cluster gets. `per_hour` is in millionths, None: unknown."""

    cluster: str
    index: int
    generation: int
    intervals: tuple[Interval, ...]
    blocks: tuple[tuple[str, int], ...] = ()
    """Pods by block."""
    tier: int = 1
    billing: str = ""
    per_hour: int | None = None

    @property
    def pods(self) -> int:
        return sum(interval.count for interval in self.intervals)

    def interval(self, role: str) -> Interval | None:
        return next((each for each in self.intervals if each.role == role), None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a cluster was taken or not. `pods` and `per_hour` are None where not known."""

    cluster: str
    verdict: VerdictWord
    reason: str
    message: str
    tier: int = 0
    domain: str = ""
    pods: int | None = None
    per_hour: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Where everything goes. Shards are ordered by number; shard 0 has rank 0."""

    demand: Demand
    generation: int
    domain: str
    shards: tuple[Shard, ...]
    verdicts: tuple[Verdict, ...]
    why_several: str = ""
    note: str = ""
    """What this generation changed in the one before."""
    currency: str = ""
    next_best: Verdict | None = None
    """The best single cluster besides, with the price of the whole workload there."""

    @property
    def per_hour(self) -> int | None:
        """Of all shards; None while one of them has no known price."""
        known = [shard.per_hour for shard in self.shards if shard.per_hour is not None]
        return sum(known) if len(known) == len(self.shards) else None

    def shard(self, cluster: str) -> Shard | None:
        return next((each for each in self.shards if each.cluster == cluster), None)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing was placed, and what would help."""

    demand: Demand
    message: str
    verdicts: tuple[Verdict, ...]
    at_best: Mapping[str, int] = field(default_factory=dict)
    """Most pods that could be had at once, by network ("" where none is asked for)."""
    retry_after_s: float | None = None
    """When the next tier is tried, if nothing else changes before."""
    impossible: bool = False
    """Whether the clusters that come into question could not hold it even if they were empty."""


def place(
    demand: Demand,
    clusters: Iterable[Cluster],
    *,
    generation: int,
    now_s: float,
    prices: Prices = _NO_PRICES,
    waited_s: float = 0.0,
    incumbents: Collection[str] = (),
) -> Plan | Refusal:
    """The best placement of a workload that has none.

    `clusters` have everything deducted that is promised (`ledger`); `now_s` is of the clock that
    their capacity is dated with, `waited_s` how long the workload has been waiting. `incumbents`
    win ties: where it ran before.
    """
    return _decide(
        _Question(
            demand=demand,
            clusters=tuple(clusters),
            generation=generation,
            now_s=now_s,
            prices=prices,
            waited_s=waited_s,
            incumbents=frozenset(incumbents),
        )
    )


def replace_shards(
    plan: Plan,
    lost: Collection[str],
    clusters: Iterable[Cluster],
    *,
    generation: int,
    now_s: float,
    prices: Prices = _NO_PRICES,
    waited_s: float = 0.0,
) -> Plan | Refusal:
    """The plan with the shards of `lost` clusters placed anew; all others stay as they are.

    Survivors keep their ranks and numbers and get nothing more; the new shards are on their
    network and within the span that the policy leaves. A lost cluster may be taken again if it
    comes into question. Each gap in the ranks is placed by itself, the largest first.
    """
    everywhere = tuple(clusters)
    kept = survivors = tuple(shard for shard in plan.shards if shard.cluster not in lost)
    role = plan.demand.role
    held = [each for shard in kept for each in shard.intervals if each.role == role.name]
    missing = gaps(role.name, role.pods, held)
    decided: Plan | Refusal = plan
    for gap in sorted(missing, key=lambda each: (-each.count, each.first)):
        decided = _decide(
            _Question(
                demand=plan.demand,
                clusters=everywhere,
                generation=generation,
                now_s=now_s,
                prices=prices,
                waited_s=waited_s,
                incumbents=frozenset(),
                gap=gap,
                kept=kept,
                domain=plan.domain if kept else "",
            )
        )
        if isinstance(decided, Refusal):
            return decided
        kept = decided.shards
    if isinstance(decided, Plan) and missing:
        shards = _numbered(decided.shards, survivors)
        anew = [each for each in shards if each not in survivors]
        split = survivors and len(shards) > 1
        several = sentences.why_still_several(survivors, anew) if split else ""
        note = sentences.placed_anew(anew)
        decided = replace(decided, shards=shards, why_several=several, note=note)
    return decided


def _numbered(shards: Sequence[Shard], kept: Sequence[Shard]) -> tuple[Shard, ...]:
    """The shards in the order of their numbers; those that are not kept get theirs here."""
    firsts = {shard.cluster: min(each.first for each in shard.intervals) for shard in shards}
    numbers = indexes(firsts, kept={shard.cluster: shard.index for shard in kept})
    numbered = [replace(shard, index=numbers[shard.cluster]) for shard in shards]
    return tuple(sorted(numbered, key=lambda shard: shard.index))


@dataclass(frozen=True, slots=True)
class _Question:
    """Which pods go where: all of a workload's, or those in a gap beside shards that stay."""

    demand: Demand
    clusters: tuple[Cluster, ...]
    generation: int
    now_s: float
    prices: Prices
    waited_s: float
    incumbents: frozenset[str]
    gap: Interval | None = None
    kept: tuple[Shard, ...] = ()
    domain: str = ""

    @property
    def role(self) -> Role:
        return self.demand.role

    @property
    def wanted(self) -> Interval:
        return self.gap or Interval(self.role.name, 0, self.role.pods)

    @property
    def units(self) -> int:
        return self.wanted.count // self.role.unit

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
        return limit.micro - sum(shard.per_hour or 0 for shard in self.kept)


@dataclass(frozen=True, slots=True)
class _Answer:
    domain: str
    cost: Cost
    units: tuple[tuple[Candidate, int], ...]


def _decide(question: _Question) -> Plan | Refusal:
    taken = {shard.cluster for shard in question.kept}
    candidates = [
        judge(
            question.demand,
            question.role,
            cluster,
            prices=question.prices,
            now_s=question.now_s,
            waited_s=question.waited_s,
            domain=question.domain,
        )
        for cluster in sorted(question.clusters, key=lambda each: each.name)
        if cluster.name not in taken
    ]
    usable = [each for each in candidates if each.usable]
    payable = _currency_fits(question)
    answer = _best(question, usable) if payable else None
    if answer is None:
        return _refusal(question, candidates, payable=payable)
    return _plan(question, candidates, answer)


def _best(
    question: _Question, usable: Sequence[Candidate], *, ceiling: bool = True
) -> _Answer | None:
    """The first tier, then the fewest clusters, with which it can be done at all."""
    order = sorted(usable, key=lambda c: (c.cluster not in question.incumbents, c.cluster))
    place_of = {each.cluster: position for position, each in enumerate(order)}
    limit = question.ceiling if ceiling else None
    for tier in sorted({each.tier for each in order}):
        within = [each for each in order if each.tier <= tier]
        domains = sorted({each.domain for each in within})
        for clusters in range(1, question.span + 1):
            answers = []
            for domain in domains:
                there = [each for each in within if each.domain == domain]
                found = cheapest([each.curve for each in there], question.units, clusters)
                if found is None or (limit is not None and Cost.of(found.cost).micro > limit):
                    continue
                chosen = tuple((there[position], units) for position, units in found.choice)
                names = tuple((place_of[each.cluster], -units) for each, units in chosen)
                answers.append((found.cost, names, domain, chosen))
            if answers:
                cost, _, domain, chosen = min(answers, key=lambda each: each[:2])
                return _Answer(domain, Cost.of(cost), chosen)
    return None


def _currency_fits(question: _Question) -> bool:
    limit = question.demand.policy.objective.max_price
    currency = question.prices.currency
    return limit is None or not currency or limit.currency == currency


def _plan(question: _Question, candidates: Sequence[Candidate], answer: _Answer) -> Plan:
    role = question.role
    shares = {each.cluster: units * role.unit for each, units in answer.units}
    ranks = number(role.name, shares, first=question.wanted.first)
    added = []
    for each, units in answer.units:
        filling = each.curve.fill(units)
        added.append(
            Shard(
                cluster=each.cluster,
                index=0,
                generation=question.generation,
                intervals=(ranks[each.cluster],),
                blocks=tuple((block, count * role.unit) for block, count in filling.blocks),
                tier=each.tier,
                billing=filling.billing,
                per_hour=None if filling.cost.unknown else filling.cost.micro,
            )
        )
    shards = _numbered((*question.kept, *added), question.kept)
    used = {shard.cluster: shard for shard in shards}
    whole = question.gap is None
    at_best = _by_domain(question, [each for each in candidates if each.usable])
    verdicts = [_used(shard, role, answer.domain) for shard in shards]
    verdicts += [
        _verdict(
            question,
            each,
            sentences.unused(role, question.wanted.count, each, answer.units, at_best=at_best),
        )
        for each in candidates
        if each.cluster not in used
    ]
    return Plan(
        demand=question.demand,
        generation=question.generation,
        domain=answer.domain or question.domain,
        shards=shards,
        verdicts=tuple(sorted(verdicts, key=lambda each: each.cluster)),
        why_several=sentences.why_several(
            role, question.wanted.count, [each for each, _ in answer.units], candidates
        )
        if len(shards) > 1 and whole
        else "",
        currency=question.prices.currency,
        next_best=_next_best(question, candidates, used) if whole else None,
    )


def _used(shard: Shard, role: Role, domain: str) -> Verdict:
    return Verdict(
        cluster=shard.cluster,
        verdict="Used",
        reason="Used",
        message=f"{sentences.ranks(shard.intervals)} of role {role.name}",
        tier=shard.tier,
        domain=domain,
        pods=shard.pods,
        per_hour=shard.per_hour,
    )


def _verdict(
    question: _Question, candidate: Candidate, unused: tuple[str, str] = ("", "")
) -> Verdict:
    reason, message = (candidate.reason, candidate.message) if candidate.reason else unused
    curve, units = candidate.curve, question.units
    cost = Cost.of(curve.cost(units)) if curve.units >= units else None
    return Verdict(
        cluster=candidate.cluster,
        verdict="Unused" if candidate.usable else "Refused",
        reason=reason,
        message=message,
        tier=candidate.tier,
        domain=candidate.domain,
        pods=candidate.pods,
        per_hour=None if cost is None or cost.unknown else cost.micro,
    )


def _next_best(
    question: _Question, candidates: Sequence[Candidate], used: Collection[str]
) -> Verdict | None:
    """The cheapest single cluster that would do as well, if the plan was not on it."""
    able = [
        _verdict(question, each)
        for each in candidates
        if each.reason in ("", "TierNotYet")
        and each.curve.units >= question.units
        and each.cluster not in used
    ]
    priced = [each for each in able if each.per_hour is not None]
    return min(priced, key=lambda each: (each.per_hour, each.cluster), default=None)


def _refusal(question: _Question, candidates: Sequence[Candidate], *, payable: bool) -> Refusal:
    role, wanted = question.role, question.wanted.count
    usable = [each for each in candidates if each.usable]
    verdicts = tuple(_verdict(question, each, sentences.short(each, wanted)) for each in candidates)
    waiting = [each for each in candidates if each.reason == "TierNotYet"]
    retry = min(
        (opens_after_s(question.demand, each.tier) - question.waited_s for each in waiting),
        default=None,
    )
    dear = _best(question, usable, ceiling=False) if payable else None
    message = sentences.refusal(
        role,
        wanted,
        candidates,
        span=question.span,
        one=question.demand.policy.mode == "One",
        limit=question.demand.policy.objective.max_price,
        currency=question.prices.currency,
        least=dear.cost.micro if dear else None,
        spent=sum(shard.per_hour or 0 for shard in question.kept),
        retry_after_s=retry,
    )
    impossible = dear is None and payable and not _could_ever(question, candidates)
    if impossible:
        message = f"{message}; {sentences.NEVER}"
    return Refusal(
        demand=question.demand,
        message=message,
        verdicts=verdicts,
        at_best=_by_domain(question, usable),
        retry_after_s=retry,
        impossible=impossible,
    )


_TRANSIENT = frozenset({"", "Full", "TierNotYet", "Cordoned", "NotReady", "Barred"})


def _could_ever(question: _Question, candidates: Sequence[Candidate]) -> bool:
    """Whether it would fit if nothing else ran, everything was in order and all tiers were open.

    A cluster of which nothing is known might hold anything.
    """
    if any(each.pods_if_empty is None for each in candidates):
        return True
    able = [each for each in candidates if each.reason in _TRANSIENT]
    return any(
        _at_best([c.pods_if_empty for c in able if c.domain == domain], question.span)
        >= question.wanted.count
        for domain in {each.domain for each in able}
    )


def _by_domain(question: _Question, usable: Sequence[Candidate]) -> dict[str, int]:
    """Most pods that could be had at once on each network."""
    return {
        domain: _at_best([each.pods for each in usable if each.domain == domain], question.span)
        for domain in sorted({each.domain for each in usable})
    }


def _at_best(pods: Iterable[int | None], span: int) -> int:
    return sum(sorted((each or 0 for each in pods), reverse=True)[: max(span, 0)])
