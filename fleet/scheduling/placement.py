"""The decision for one gang: which clusters, how much in each – or why not, and what would help.

Hard: all pods of all roles or none, units whole, one network for the roles that ask for one, the
policy's selector, taints, tiers, span and ceiling, capacity known and fresh. Among what is left the
best, in this order: the earliest tier that suffices, fewest clusters over all roles, known prices,
price, fewest blocks, least stranded for the jobs that are expected, first by name (clusters that
have the workload already before others). Exact where all pods are of one kind; else the plan says
what it could cost at least. The same input in any order gives the same plan. Modes One and Split.

`gang` searches, `numbering` gave the shards their ranks when this returns; next step: `record`,
then `fleet.dispatch` holds and commits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fleet.scheduling import sentences
from fleet.scheduling.clusters import domain_of, judge, opens_after_s
from fleet.scheduling.extension import NONE
from fleet.scheduling.fit import Cost, together
from fleet.scheduling.gang import Asked, Terms, largest, solve
from fleet.scheduling.numbering import Interval, gaps, in_order, indexes, number
from fleet.scheduling.price import Prices
from fleet.scheduling.stranding import NO_MIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from fleet.scheduling.clusters import Candidate, Cluster
    from fleet.scheduling.demand import Demand, Role
    from fleet.scheduling.extension import Extensions
    from fleet.scheduling.gang import Answer, Piece
    from fleet.scheduling.stranding import Mix
    from policies.placement import Verdict as VerdictWord
    from policies.placement_policy import Network

_NO_PRICES = Prices()


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of a workload that one cluster gets.

    `per_hour` is what its nodes are billed at, in millionths; `once` what it costs to bring the
    workload's data there. None: unknown.
    """

    cluster: str
    index: int
    generation: int
    intervals: tuple[Interval, ...]
    blocks: tuple[tuple[str, int], ...] = ()
    """Pods by block."""
    tier: int = 1
    billing: str = ""
    per_hour: int | None = None
    once: int | None = 0
    by_role: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    """Pods of each role by block, the roles in the order in which they took their nodes."""

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
    exact: bool = True
    """Whether no better plan was left out."""
    cost: Cost | None = None
    """What was placed by this decision: units of unknown price, money, blocks."""
    bound: Cost | None = None
    """What it would have cost at least, in this tier and as many clusters."""

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
    reason: str = ""
    """What is in its way, where that is no want of room."""
    final: bool = False
    """Whether it is not to wait."""


def place(
    demand: Demand,
    clusters: Iterable[Cluster],
    *,
    generation: int,
    now_s: float,
    prices: Prices = _NO_PRICES,
    waited_s: float = 0.0,
    incumbents: Collection[str] = (),
    mix: Mix = NO_MIX,
    elastic: bool = False,
    extensions: Extensions = NONE,
) -> Plan | Refusal:
    """The best placement of a workload that has none.

    `clusters` have everything deducted that is promised (`ledger`); `now_s` is of the clock that
    their capacity is dated with, `waited_s` how long the workload has been waiting. `incumbents`
    win ties: where it ran before. `mix` are the jobs that are expected: of blocks that cost the
    same those are taken that leave least of no use to them.

    With `elastic`, roles that may be smaller get as many pods as find room without a later tier
    than their least size needs; the demand of the plan has the sizes that were placed.

    `extensions` keep clusters out, and say which of equals come first, before their names do.
    """
    everywhere, scores = extensions.applied(demand, clusters)
    question = _Question(
        demand=demand,
        clusters=everywhere,
        generation=generation,
        now_s=now_s,
        prices=prices.seen_by(demand),
        waited_s=waited_s,
        incumbents=frozenset(incumbents),
        mix=mix,
        scores=scores,
    )
    if elastic and any(role.least is not None for role in demand.roles):
        question = replace(question, demand=_sized(question))
    return _decide(question)


def replace_shards(
    plan: Plan,
    lost: Collection[str],
    clusters: Iterable[Cluster],
    *,
    generation: int,
    now_s: float,
    prices: Prices = _NO_PRICES,
    waited_s: float = 0.0,
    mix: Mix = NO_MIX,
    extensions: Extensions = NONE,
) -> Plan | Refusal:
    """The plan with the shards of `lost` clusters placed anew; all others stay as they are.

    Survivors keep their ranks and numbers and get nothing more; the new shards are on their
    network and within the span that the policy leaves. A lost cluster may be taken again if it
    comes into question. Each gap in the ranks of a role is placed by itself, the largest first,
    together with one of each other role.
    """
    everywhere, scores = extensions.applied(plan.demand, clusters)
    kept = survivors = tuple(shard for shard in plan.shards if shard.cluster not in lost)
    missing = [_missing(role, kept) for role in plan.demand.roles]
    decided: Plan | Refusal = plan
    for at in range(max(map(len, missing))):
        decided = _decide(
            _Question(
                demand=plan.demand,
                clusters=everywhere,
                generation=generation,
                now_s=now_s,
                prices=prices.seen_by(plan.demand),
                waited_s=waited_s,
                incumbents=frozenset(),
                mix=mix,
                scores=scores,
                wanted={each[at].role: each[at] for each in missing if at < len(each)},
                kept=kept,
                domains=_networks(plan, kept, everywhere),
            )
        )
        if isinstance(decided, Refusal):
            return decided
        kept = decided.shards
    if isinstance(decided, Plan) and any(missing):
        shards = _numbered(plan.demand, decided.shards, survivors)
        anew = [each for each in shards if each not in survivors]
        split = survivors and len(shards) > 1
        several = sentences.why_still_several(survivors, anew) if split else ""
        note = sentences.placed_anew(anew)
        decided = replace(decided, shards=shards, why_several=several, note=note)
    return decided


def _missing(role: Role, kept: Iterable[Shard]) -> list[Interval]:
    """The gaps in the ranks of a role, the largest first."""
    held = [each for shard in kept for each in shard.intervals if each.role == role.name]
    found = gaps(role.name, role.pods, held)
    return sorted(found, key=lambda each: (-each.count, each.first))


def _networks(plan: Plan, kept: Sequence[Shard], clusters: Iterable[Cluster]) -> dict[Network, str]:
    """The networks that pods which stay are on."""
    if not kept:
        return {}
    known = {cluster.name: cluster for cluster in clusters}
    found: dict[Network, str] = {}
    for role in plan.demand.roles:
        there = [known[s.cluster] for s in kept if s.interval(role.name) and s.cluster in known]
        if role.network != "None" and there:
            found.setdefault(role.network, domain_of(there[0], role))
    if plan.domain:
        found[_plane_kind(plan.demand)] = plan.domain
    return found


def _plane_kind(demand: Demand) -> Network:
    """The kind of network that a plan names."""
    kinds = {role.network for role in demand.roles}
    return "ParameterPlane" if "ParameterPlane" in kinds else "DataPlane"


def _numbered(demand: Demand, shards: Sequence[Shard], kept: Sequence[Shard]) -> tuple[Shard, ...]:
    """The shards in the order of their numbers; those that are not kept get theirs here."""
    before, sums = {}, 0
    for role in demand.roles:
        before[role.name] = sums
        sums += role.pods
    firsts = {
        shard.cluster: min(before[each.role] + each.first for each in shard.intervals)
        for shard in shards
    }
    numbers = indexes(firsts, kept={shard.cluster: shard.index for shard in kept})
    numbered = [replace(shard, index=numbers[shard.cluster]) for shard in shards]
    return tuple(sorted(numbered, key=lambda shard: shard.index))


@dataclass(frozen=True, slots=True)
class _Question:
    """Which pods go where: all of a workload's, or those in gaps beside shards that stay."""

    demand: Demand
    clusters: tuple[Cluster, ...]
    generation: int
    now_s: float
    prices: Prices
    waited_s: float
    incumbents: frozenset[str]
    mix: Mix
    wanted: Mapping[str, Interval] = field(default_factory=dict)
    """By role, the gap to fill; empty for all pods of all roles."""
    kept: tuple[Shard, ...] = ()
    domains: Mapping[Network, str] = field(default_factory=dict)
    scores: Mapping[str, int] = field(default_factory=dict)

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
        return limit.micro - sum(shard.per_hour or 0 for shard in self.kept)

    @property
    def terms(self) -> Terms:
        objective = self.demand.policy.objective
        priced = objective.max_price is not None
        return Terms(self.prices, spot=objective.spot, priced=priced, mix=self.mix)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A role that is asked for with all clusters judged for it: the same for all roles, by name."""

    role: Role
    ranks: Interval
    candidates: tuple[Candidate, ...]

    @property
    def units(self) -> int:
        return self.ranks.count // self.role.unit

    @property
    def usable(self) -> list[Candidate]:
        return [each for each in self.candidates if each.usable]


def _sized(question: _Question) -> Demand:
    """The demand with elastic roles as large as finds room; at their least where that does not."""
    demand = question.demand
    pods = [role.pods if role.least is None else role.least for role in demand.roles]
    least = [count // role.unit for count, role in zip(pods, demand.roles, strict=True)]
    answer = None
    if _currency_fits(question):
        answer = _best(question, _all_judged(question), question.ceiling, least=least)
    if answer is not None:
        pods = [sum(p.pods[at] for p in answer.pieces) for at in range(len(demand.roles))]
    sized = zip(demand.roles, pods, strict=True)
    return replace(demand, roles=tuple(replace(role, pods=count) for role, count in sized))


def _all_judged(question: _Question) -> list[_Judged]:
    taken = {shard.cluster for shard in question.kept}
    clusters = [
        cluster
        for cluster in sorted(question.clusters, key=lambda each: each.name)
        if cluster.name not in taken
    ]
    return [
        _Judged(role, ranks, tuple(_judged(question, role, each) for each in clusters))
        for role, ranks in question.roles
    ]


def _decide(question: _Question) -> Plan | Refusal:
    judged = _all_judged(question)
    payable = _currency_fits(question)
    answer = _best(question, judged, question.ceiling) if payable else None
    if answer is None:
        return _refusal(question, judged, payable=payable)
    return _plan(question, judged, answer)


def _judged(question: _Question, role: Role, cluster: Cluster) -> Candidate:
    return judge(
        question.demand,
        role,
        cluster,
        prices=question.prices,
        now_s=question.now_s,
        waited_s=question.waited_s,
        domain=question.domains.get(role.network, ""),
        mix=question.mix,
    )


def _best(
    question: _Question,
    judged: Sequence[_Judged],
    ceiling: int | None,
    *,
    least: Sequence[int] | None = None,
) -> Answer | None:
    """With `least` units of each role, the largest there is from there on."""
    incumbents = question.incumbents
    clusters = {each.name: each for each in question.clusters}
    asked = [Asked(each.role, each.units, {c.cluster: c for c in each.usable}) for each in judged]
    scores = question.scores
    order = sorted(clusters, key=lambda c: (c not in incumbents, -scores.get(c, 0), c))
    known = {name: c.capacity for name, c in clusters.items() if c.capacity is not None}
    terms, span = question.terms, question.span
    if least is None:
        return solve(asked, order, known, terms, span=span, ceiling=ceiling)
    return largest(asked, least, order, known, terms, span=span, ceiling=ceiling)


def _currency_fits(question: _Question) -> bool:
    limit = question.demand.policy.objective.max_price
    currency = question.prices.currency
    return limit is None or not currency or limit.currency == currency


def _plan(question: _Question, judged: Sequence[_Judged], answer: Answer) -> Plan:
    shares = [
        (each.role.name, {p.cluster: p.pods[at] for p in answer.pieces if p.pods[at]})
        for at, each in enumerate(judged)
    ]
    order = in_order(shares)
    ranks = [
        number(name, pods, first=each.ranks.first, order=order)
        for each, (name, pods) in zip(judged, shares, strict=True)
    ]
    added = [
        Shard(
            cluster=piece.cluster,
            index=0,
            generation=question.generation,
            intervals=tuple(each[piece.cluster] for each in ranks if piece.cluster in each),
            blocks=_by_block(piece),
            tier=_tier(judged, piece),
            billing=piece.billing,
            per_hour=_paid(question, judged, piece, answer.order),
            once=_moved_once(question, piece.cluster),
            by_role=tuple((judged[at].role.name, piece.blocks[at]) for at in answer.order)
            if len(judged) > 1
            else (),
        )
        for piece in answer.pieces
    ]
    shards = _numbered(question.demand, (*question.kept, *added), question.kept)
    used = {shard.cluster: shard for shard in shards}
    whole = not question.wanted
    first = _hardest(judged)
    domains = {**question.domains, **answer.domains}
    kind = _plane_kind(question.demand)
    theirs = [
        (candidate, piece.pods[judged.index(first)] // first.role.unit)
        for piece in answer.pieces
        for candidate in first.candidates
        if candidate.cluster == piece.cluster and piece.pods[judged.index(first)]
    ]
    verdicts = [_used(shard, domains.get(kind, "")) for shard in shards]
    verdicts += _unused(judged, first, theirs, used, question.span)
    several = len(shards) > 1 and whole
    return Plan(
        demand=question.demand,
        generation=question.generation,
        domain=domains.get(kind, ""),
        shards=shards,
        verdicts=tuple(sorted(verdicts, key=lambda each: each.cluster)),
        why_several=_why_several(judged, first, theirs) if several else "",
        currency=question.prices.currency,
        next_best=_next_best(judged, used) if whole else None,
        exact=answer.exact,
        cost=answer.cost,
        bound=answer.bound,
    )


def _paid(
    question: _Question, judged: Sequence[_Judged], piece: Piece, order: Sequence[int]
) -> int | None:
    """What a cluster's part is billed at per hour: no more than what its work costs there, which is
    what the search compares."""
    (cluster,) = (each for each in question.clusters if each.name == piece.cluster)
    capacity, total, first = cluster.capacity, 0, True
    for at in order:
        if capacity is None or not piece.pods[at]:
            continue
        role, blocks = judged[at].role, dict(piece.blocks[at])
        (candidate,) = (c for c in judged[at].candidates if c.cluster == piece.cluster)
        # The roles before took nodes already.
        curve = candidate.curve if first else question.terms.curve(cluster.name, capacity, role)
        paid = curve.paid({block: pods // role.unit for block, pods in blocks.items()})
        if paid is None:
            return piece.per_hour
        total, first = total + paid, False
        if len(order) > 1:
            capacity = capacity.without(role.kind, piece.pods[at], blocks=blocks)
    return total


def _moved_once(question: _Question, cluster: str) -> int | None:
    (network,) = (each.data_plane for each in question.clusters if each.name == cluster)
    return question.prices.of_data(cluster=cluster, network=network).micro


def _by_block(piece: Piece) -> tuple[tuple[str, int], ...]:
    sums: dict[str, int] = {}
    for blocks in piece.blocks:
        for block, pods in blocks:
            sums[block] = sums.get(block, 0) + pods
    return tuple(sums.items())


def _tier(judged: Sequence[_Judged], piece: Piece) -> int:
    return max(
        candidate.tier
        for each, pods in zip(judged, piece.pods, strict=True)
        for candidate in each.candidates
        if pods and candidate.cluster == piece.cluster
    )


def _hardest(judged: Sequence[_Judged]) -> _Judged:
    """The role that has the least choice: the one to speak of first."""
    return min(
        judged,
        key=lambda each: (len(each.usable), sum(c.curve.units for c in each.usable) - each.units),
    )


def _used(shard: Shard, domain: str) -> Verdict:
    parts: dict[str, list[Interval]] = {}
    for each in shard.intervals:
        parts.setdefault(each.role, []).append(each)
    texts = [f"{sentences.ranks(found)} of role {role}" for role, found in parts.items()]
    return Verdict(
        cluster=shard.cluster,
        verdict="Used",
        reason="Used",
        message=", ".join(texts),
        tier=shard.tier,
        domain=domain,
        pods=shard.pods,
        per_hour=shard.per_hour,
    )


def _unused(
    judged: Sequence[_Judged],
    first: _Judged,
    theirs: Sequence[tuple[Candidate, int]],
    used: Collection[str],
    span: int,
) -> list[Verdict]:
    at_best = _by_domain(first.usable, span)
    role, pods = first.role, first.ranks.count
    return [
        _verdict(
            judged,
            at,
            each,
            sentences.unused(role, pods, each, theirs, at_best=at_best)
            if theirs and each.usable
            else ("", ""),
        )
        for at, each in enumerate(first.candidates)
        if each.cluster not in used
    ]


def _why_several(
    judged: Sequence[_Judged], first: _Judged, theirs: Sequence[tuple[Candidate, int]]
) -> str:
    if len(judged) > 1 and len(theirs) < 2:
        return f"no single member had room for {sentences.roles([each.role for each in judged])}"
    return sentences.why_several(
        first.role, first.ranks.count, [each for each, _ in theirs], first.candidates
    )


def _verdict(
    judged: Sequence[_Judged], at: int, candidate: Candidate, unused: tuple[str, str] = ("", "")
) -> Verdict:
    reason, message = (candidate.reason, candidate.message) if candidate.reason else unused
    cost = _whole_cost(judged, at)
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


def _whole_cost(judged: Sequence[_Judged], at: int) -> Cost | None:
    """What everything costs in a cluster where each role finds room; None elsewhere."""
    curves = [(each.candidates[at].curve, each.units) for each in judged]
    if any(curve.units < units for curve, units in curves):
        return None
    once = max(curve.once for curve, _ in curves)
    return Cost.of(together(curve.cost(units) for curve, units in curves) + once)


def _next_best(judged: Sequence[_Judged], used: Collection[str]) -> Verdict | None:
    """The cheapest single cluster that would do as well, if the plan was not on it."""
    verdicts = [
        _verdict(judged, at, candidate)
        for at, candidate in enumerate(judged[0].candidates)
        if candidate.cluster not in used
        and all(each.candidates[at].reason in ("", "TierNotYet") for each in judged)
    ]
    priced = [each for each in verdicts if each.per_hour is not None]
    return min(priced, key=lambda each: (each.per_hour, each.cluster), default=None)


def _refusal(question: _Question, judged: Sequence[_Judged], *, payable: bool) -> Refusal:
    dear = _best(question, judged, None) if payable else None
    alone = judged
    if len(judged) > 1 and dear is None and payable:
        # The first role that finds no room even by itself is the one to speak of.
        alone = [each for each in judged if _best(question, [each], None) is None]
    first = alone[0] if alone else _hardest(judged)
    role, wanted = first.role, first.ranks.count
    waiting = [c for each in judged for c in each.candidates if c.reason == "TierNotYet"]
    retry = min(
        (opens_after_s(question.demand, each.tier) - question.waited_s for each in waiting),
        default=None,
    )
    message = sentences.refusal(
        role,
        wanted,
        first.candidates,
        span=question.span,
        one=question.demand.policy.mode == "One",
        limit=question.demand.policy.objective.max_price,
        currency=question.prices.currency,
        least=dear.cost.micro if dear else None,
        spent=sum(shard.per_hour or 0 for shard in question.kept),
        retry_after_s=retry,
    )
    if len(judged) > 1 and dear is None and payable:
        message = (
            f"role {role.name}: {message}"
            if alone
            else sentences.not_together([e.role for e in judged], question.span, retry)
        )
    impossible = dear is None and payable and not _could_ever(question, judged)
    if impossible:
        message = f"{message}; {sentences.NEVER}"
    return Refusal(
        demand=question.demand,
        message=message,
        verdicts=tuple(
            _verdict(judged, at, each, sentences.short(each, wanted))
            for at, each in enumerate(first.candidates)
        ),
        at_best=_by_domain(first.usable, question.span),
        retry_after_s=retry,
        impossible=impossible,
    )


_TRANSIENT = frozenset({"", "Full", "TierNotYet", "Cordoned", "NotReady", "Barred"})


def _could_ever(question: _Question, judged: Sequence[_Judged]) -> bool:
    """Whether each role would fit if nothing else ran, everything was in order and all tiers were
    open.

    A cluster of which nothing is known might hold anything.
    """
    for each in judged:
        if any(candidate.pods_if_empty is None for candidate in each.candidates):
            continue
        able = [candidate for candidate in each.candidates if candidate.reason in _TRANSIENT]
        if not any(
            _at_best([c.pods_if_empty for c in able if c.domain == domain], question.span)
            >= each.ranks.count
            for domain in {candidate.domain for candidate in able}
        ):
            return False
    return True


def _by_domain(usable: Sequence[Candidate], span: int) -> dict[str, int]:
    """Most pods that could be had at once on each network."""
    return {
        domain: _at_best([each.pods for each in usable if each.domain == domain], span)
        for domain in sorted({each.domain for each in usable})
    }


def _at_best(pods: Iterable[int | None], span: int) -> int:
    return sum(sorted((each or 0 for each in pods), reverse=True)[: max(span, 0)])
