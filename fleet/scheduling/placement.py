"""The decision for one gang: which clusters, how much in each – or why not, and what would help.

Hard: all pods of all roles or none, units whole, one network for the roles that ask for one, the
policy's selector, taints, tiers, span and ceiling, capacity known and fresh. Among what is left the
best, in this order: the earliest tier that suffices, fewest clusters over all roles, known prices,
price, fewest blocks, least stranded for the jobs that are expected, first by name (clusters that
have the workload already before others). Exact where all pods are of one kind; else the plan says
what it could cost at least. The same input in any order gives the same plan. Modes One and Split.

`views` has the clusters judged, `gang` searches, `verdicts` says why; `numbering` gave the shards
their ranks when this returns. Next step: `record`, then `fleet.dispatch` holds and commits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fleet.scheduling import sentences
from fleet.scheduling.clusters import domain_of
from fleet.scheduling.extension import NONE
from fleet.scheduling.numbering import Interval, gaps, in_order, indexes, number
from fleet.scheduling.plan import Plan, Refusal, Shard, Verdict
from fleet.scheduling.price import Prices
from fleet.scheduling.question import Judged, Question, best, fitting, judged, sized
from fleet.scheduling.stranding import NO_MIX
from fleet.scheduling.verdicts import refusal, told
from fleet.scheduling.views import AS_IT_IS, Views

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.demand import Demand, Role
    from fleet.scheduling.extension import Extensions
    from fleet.scheduling.gang import Answer, Piece
    from fleet.scheduling.stranding import Mix
    from policies.placement_policy import Network

__all__ = [
    "Plan",
    "Refusal",
    "Shard",
    "Verdict",
    "place",
    "placed",
    "placed_anew",
    "replace_shards",
]

_NO_PRICES: Final = Prices()


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
    """See `placed`: over clusters that nobody keeps views of."""
    return placed(
        demand,
        Views(clusters, prices=prices, now_s=now_s, mix=mix),
        generation=generation,
        waited_s=waited_s,
        incumbents=incumbents,
        elastic=elastic,
        extensions=extensions,
    )


def placed(
    demand: Demand,
    views: Views,
    *,
    generation: int,
    waited_s: float = 0.0,
    incumbents: Collection[str] = (),
    elastic: bool = False,
    extensions: Extensions = NONE,
    but: Mapping[str, Cluster] = AS_IT_IS,
    quick: bool = False,
) -> Plan | Refusal:
    """The best placement of a workload that has none.

    `views` have everything deducted that is promised (`ledger`); `but` are clusters of them that
    are otherwise to this workload. `waited_s` is how long it has been waiting. `incumbents` win
    ties: where it ran before.

    With `elastic`, roles that may be smaller get as many pods as find room without a later tier
    than their least size needs; the demand of the plan has the sizes that were placed.

    `extensions` keep clusters out, and say which of equals come first, before their names do.

    `quick` is for asking often: where there is room, in a good place, with no word about it.
    """
    but, scores = _extended(extensions, demand, views, but)
    question = Question(
        demand=demand,
        views=views,
        generation=generation,
        waited_s=waited_s,
        incumbents=frozenset(incumbents),
        scores=scores,
        but=but,
        quick=quick,
    )
    if elastic and any(role.least is not None for role in demand.roles):
        question = replace(question, demand=sized(question))
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
    """See `placed_anew`: over clusters that nobody keeps views of."""
    views = Views(clusters, prices=prices, now_s=now_s, mix=mix)
    return placed_anew(
        plan, lost, views, generation=generation, waited_s=waited_s, extensions=extensions
    )


def placed_anew(
    plan: Plan,
    lost: Collection[str],
    views: Views,
    *,
    generation: int,
    waited_s: float = 0.0,
    extensions: Extensions = NONE,
    but: Mapping[str, Cluster] = AS_IT_IS,
    more: int | None = None,
) -> Plan | Refusal:
    """The plan with the shards of `lost` clusters placed anew; all others stay as they are.

    Survivors keep their ranks and numbers and get nothing more; the new shards are on their
    network and within the span that the policy leaves. A lost cluster may be taken again if it
    comes into question. Each gap in the ranks of a role is placed by itself, the largest first,
    together with one of each other role. Of a role that may be smaller as much as finds room, and
    no more than `more` pods: first where ranks are missing right behind those of a survivor, in
    its cluster, then elsewhere.
    """
    but, scores = _extended(extensions, plan.demand, views, but)
    kept = survivors = tuple(shard for shard in plan.shards if shard.cluster not in lost)
    missing = [_missing(role, kept) for role in plan.demand.roles]
    asked = Question(plan.demand, views, generation, waited_s=waited_s, scores=scores, but=but)
    decided: Plan | Refusal = plan
    smaller = _may_be_smaller(plan.demand)
    if smaller:
        larger = _made_larger(asked, plan, survivors, missing[0], views, more)
        if larger is not None and larger.pods >= (plan.demand.role.least or 0):
            return larger
    left = more
    for at in range(max(map(len, missing))):
        question = replace(
            asked,
            wanted={each[at].role: each[at] for each in missing if at < len(each)},
            kept=kept,
            domains=_networks(plan, kept, views),
        )
        if smaller:
            ((name, gap),) = question.wanted.items()
            answer = fitting(question, left)
            if answer is None:
                continue
            pods = sum(piece.pods[0] for piece in answer.pieces)
            question = replace(question, wanted={name: replace(gap, count=pods)})
            left = None if left is None else left - pods
        decided = _decide(question)
        if isinstance(decided, Refusal):
            return decided
        kept = decided.shards
    if smaller and any(missing):
        least = plan.demand.role.least or 0
        if kept is survivors or _pods(kept) < least:
            return _not_enough(asked, plan, survivors, missing[0], views)
    if isinstance(decided, Plan) and any(missing):
        shards = _numbered(plan.demand, decided.shards, survivors)
        anew = [each for each in shards if each not in survivors]
        split = survivors and len(shards) > 1
        several = sentences.why_still_several(survivors, anew) if split else ""
        note = sentences.placed_anew(anew)
        decided = replace(decided, shards=shards, why_several=several, note=note)
    return decided


def _may_be_smaller(demand: Demand) -> bool:
    """Of several roles all or none of what is missing is placed."""
    return len(demand.roles) == 1 and demand.role.least is not None


def _pods(shards: Iterable[Shard]) -> int:
    return sum(shard.pods for shard in shards)


def _made_larger(
    asked: Question,
    plan: Plan,
    kept: Sequence[Shard],
    missing: Sequence[Interval],
    views: Views,
    more: int | None,
) -> Plan | None:
    """The plan with shards that have ranks missing right behind their own made larger where they
    are, within the blocks that they are bound to. None where there is no room for that."""
    role = plan.demand.role
    shards, left = list(kept), more
    for at, shard in enumerate(kept):
        mine = shard.interval(role.name)
        gap = next((each for each in missing if mine and each.first == mine.end), None)
        if mine is None or gap is None or shard.done or shard.cluster not in views:
            continue
        others = tuple(each for each in kept if each is not shard)
        question = replace(
            asked,
            wanted={role.name: gap},
            kept=others,
            domains=_networks(plan, kept, views),
            only=shard.cluster,
            spent=shard.per_hour or 0,
        )
        answer = fitting(question, left)
        if answer is None:
            continue
        (piece,) = answer.pieces
        if shard.within and not {block for block, _ in piece.blocks[0]} <= {*shard.within}:
            continue
        (pods,) = piece.pods
        known = shard.per_hour is not None and piece.per_hour is not None
        shards[at] = replace(
            shard,
            intervals=(replace(mine, count=mine.count + pods),),
            per_hour=(shard.per_hour or 0) + (piece.per_hour or 0) if known else None,
        )
        left = None if left is None else left - pods
    larger = [each for each in shards if each not in kept]
    if not larger:
        return None
    note = f"made larger where it is: {', '.join(f'{e.cluster} to {e.pods}' for e in larger)}"
    return replace(plan, generation=asked.generation, shards=tuple(shards), note=note, verdicts=())


def _not_enough(
    asked: Question, plan: Plan, kept: Sequence[Shard], missing: Sequence[Interval], views: Views
) -> Plan | Refusal:
    """Why a workload that may be smaller gets nothing, or too little, besides what stays."""
    role = plan.demand.role
    needed = max(role.unit, (role.least or 0) - _pods(kept))
    gap = missing[0] if missing else Interval(role.name, 0, 0)
    wanted = {role.name: replace(gap, count=min(needed, gap.count) or needed)}
    question = replace(asked, wanted=wanted, kept=tuple(kept), domains=_networks(plan, kept, views))
    return refusal(question, judged(question))


def _extended(
    extensions: Extensions, demand: Demand, views: Views, but: Mapping[str, Cluster]
) -> tuple[Mapping[str, Cluster], Mapping[str, int]]:
    """What extensions say of each cluster: those that are kept out besides, and scores."""
    if not extensions.decide:
        return but, {}
    clusters = [but.get(name) or views.cluster(name) for name in views.names]
    found, scores = extensions.applied(demand, clusters)
    out = {each.name: each for each in found if each.filtered_because}
    return {**but, **out}, scores


def _missing(role: Role, kept: Iterable[Shard]) -> list[Interval]:
    """The gaps in the ranks of a role, the largest first."""
    held = [each for shard in kept for each in shard.intervals if each.role == role.name]
    found = gaps(role.name, role.pods, held)
    return sorted(found, key=lambda each: (-each.count, each.first))


def _networks(plan: Plan, kept: Sequence[Shard], views: Views) -> dict[Network, str]:
    """The networks that pods which stay are on."""
    if not kept:
        return {}
    found: dict[Network, str] = {}
    for role in plan.demand.roles:
        there = [s.cluster for s in kept if s.interval(role.name) and s.cluster in views]
        if role.network != "None" and there:
            found.setdefault(role.network, domain_of(views.cluster(there[0]), role))
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


def _decide(question: Question) -> Plan | Refusal:
    roles = judged(question)
    answer = best(question, roles, question.ceiling) if question.payable else None
    if answer is None:
        return Refusal(question.demand, "", ()) if question.quick else refusal(question, roles)
    return _plan(question, roles, answer)


def _plan(question: Question, roles: Sequence[Judged], answer: Answer) -> Plan:
    shares = [
        (each.role.name, {p.cluster: p.pods[at] for p in answer.pieces if p.pods[at]})
        for at, each in enumerate(roles)
    ]
    order = in_order(shares)
    ranks = [
        number(name, pods, first=each.ranks.first, order=order)
        for each, (name, pods) in zip(roles, shares, strict=True)
    ]
    added = [
        Shard(
            cluster=piece.cluster,
            index=0,
            generation=question.generation,
            intervals=tuple(each[piece.cluster] for each in ranks if piece.cluster in each),
            blocks=_by_block(piece),
            tier=_tier(roles, piece),
            billing=piece.billing,
            per_hour=_paid(question, roles, piece, answer.order),
            once=_moved_once(question, piece.cluster),
            by_role=tuple((roles[at].role.name, piece.blocks[at]) for at in answer.order)
            if len(roles) > 1
            else (),
        )
        for piece in answer.pieces
    ]
    shards = _numbered(question.demand, (*question.kept, *added), question.kept)
    domains = {**question.domains, **answer.domains}
    domain = domains.get(_plane_kind(question.demand), "")
    said = told(question, roles, answer, shards, domain)
    return Plan(
        demand=question.demand,
        generation=question.generation,
        domain=domain,
        shards=shards,
        verdicts=said.verdicts,
        why_several=said.why_several,
        currency=question.prices.currency,
        next_best=said.next_best,
        exact=answer.exact,
        cost=answer.cost,
        bound=answer.bound,
    )


def _paid(
    question: Question, roles: Sequence[Judged], piece: Piece, order: Sequence[int]
) -> int | None:
    """What a cluster's part is billed at per hour: no more than what its work costs there, which is
    what the search compares."""
    capacity, total, first = question.capacities.get(piece.cluster), 0, True
    for at in order:
        if capacity is None or not piece.pods[at]:
            continue
        role, blocks = roles[at].role, dict(piece.blocks[at])
        curve = roles[at].seen.known[piece.cluster].curve
        if not first:  # the roles before took nodes already
            curve = question.terms.curve(piece.cluster, capacity, role)
        paid = curve.paid({block: pods // role.unit for block, pods in blocks.items()})
        if paid is None:
            return piece.per_hour
        total, first = total + paid, False
        if len(order) > 1:
            capacity = capacity.without(role.kind, piece.pods[at], blocks=blocks)
    return total


def _moved_once(question: Question, cluster: str) -> int | None:
    network = question.cluster(cluster).data_plane
    return question.prices.of_data(cluster=cluster, network=network).micro


def _by_block(piece: Piece) -> tuple[tuple[str, int], ...]:
    sums: dict[str, int] = {}
    for blocks in piece.blocks:
        for block, pods in blocks:
            sums[block] = sums.get(block, 0) + pods
    return tuple(sums.items())


def _tier(roles: Sequence[Judged], piece: Piece) -> int:
    return max(
        each.seen.known[piece.cluster].tier
        for each, pods in zip(roles, piece.pods, strict=True)
        if pods
    )
