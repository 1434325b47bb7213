"""What a decision says of each cluster, and why there is none: verdicts and refusals.

Everything is told of the role that has the least choice, or that found no room. The numbers come
from the candidates that the search saw, the words from `sentences`; nothing is decided here.
`placement` asks once it has decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from fleet.scheduling import sentences
from fleet.scheduling.clusters import opens_after_s
from fleet.scheduling.fit import Cost, together
from fleet.scheduling.plan import Refusal, Verdict
from fleet.scheduling.question import best

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from fleet.scheduling.clusters import Candidate
    from fleet.scheduling.gang import Answer
    from fleet.scheduling.numbering import Interval
    from fleet.scheduling.plan import Shard
    from fleet.scheduling.question import Judged, Question


def _hardest(judged: Sequence[Judged]) -> Judged:
    """The role that has the least choice: the one to speak of first."""

    def choice(judged: Judged) -> tuple[int, int]:
        usable = judged.usable
        return len(usable), sum(each.curve.units for each in usable.values()) - judged.units

    return min(judged, key=choice)


class Told(NamedTuple):
    """What a plan says of its choice."""

    verdicts: tuple[Verdict, ...]
    """By name of the cluster."""
    why_several: str
    next_best: Verdict | None


def told(
    question: Question,
    roles: Sequence[Judged],
    answer: Answer,
    shards: Sequence[Shard],
    domain: str,
) -> Told:
    """Of shards, some of which `answer` added; `domain` is their network."""
    first, whole = _hardest(roles), not question.wanted
    at = roles.index(first)
    theirs = [
        (first.seen.known[piece.cluster], piece.pods[at] // first.role.unit)
        for piece in answer.pieces
        if piece.pods[at]
    ]
    taken = {shard.cluster for shard in shards}
    verdicts = [_used(shard, domain) for shard in shards]
    verdicts += _unused(roles, first, theirs, taken, question.span)
    verdicts.sort(key=lambda each: each.cluster)
    return Told(
        verdicts=tuple(verdicts),
        why_several=_why_several(roles, first, theirs) if len(shards) > 1 and whole else "",
        next_best=_next_best(roles, taken) if whole else None,
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
    judged: Sequence[Judged],
    first: Judged,
    theirs: Sequence[tuple[Candidate, int]],
    taken: Collection[str],
    span: int,
) -> list[Verdict]:
    role, pods = first.role, first.ranks.count
    tier = max((each.tier for each, _ in theirs), default=0)
    peers: dict[str, list[Candidate]] = {}
    for each in first.usable.values():
        if each.tier <= tier:
            peers.setdefault(each.domain, []).append(each)
    there = {
        domain: sentences.Together.of(found, pods // role.unit, span=span)
        for domain, found in peers.items()
    }
    nothing = sentences.Together((), 0)
    return [
        _verdict(
            judged,
            at,
            each,
            sentences.unused(role, pods, each, theirs, there=there.get(each.domain, nothing))
            if theirs and each.usable
            else ("", ""),
        )
        for at, each in enumerate(first.candidates)
        if each.cluster not in taken
    ]


def _why_several(
    judged: Sequence[Judged], first: Judged, theirs: Sequence[tuple[Candidate, int]]
) -> str:
    if len(judged) > 1 and len(theirs) < 2:
        return f"no single member had room for {sentences.roles([each.role for each in judged])}"
    return sentences.why_several(
        first.role, first.ranks.count, [each for each, _ in theirs], first.candidates
    )


def _verdict(
    judged: Sequence[Judged], at: int, candidate: Candidate, unused: tuple[str, str] = ("", "")
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


def _whole_cost(judged: Sequence[Judged], at: int) -> Cost | None:
    """What everything costs in a cluster where each role finds room; None elsewhere."""
    curves = [(each.candidates[at].curve, each.units) for each in judged]
    if any(curve.units < units for curve, units in curves):
        return None
    once = max(curve.once for curve, _ in curves)
    return Cost.of(together(curve.cost(units) for curve, units in curves) + once)


def _next_best(judged: Sequence[Judged], taken: Collection[str]) -> Verdict | None:
    """The cheapest single cluster that would do as well, if the plan was not on it."""
    best: tuple[int, int] | None = None
    for at, candidate in enumerate(judged[0].candidates):
        if candidate.cluster not in taken and all(
            each.candidates[at].reason in ("", "TierNotYet") for each in judged
        ):
            cost = _whole_cost(judged, at)
            if cost is not None and not cost.unknown and (best is None or cost.micro < best[0]):
                best = cost.micro, at
    return None if best is None else _verdict(judged, best[1], judged[0].candidates[best[1]])


def refusal(question: Question, judged: Sequence[Judged]) -> Refusal:
    """Why there is no answer, and what would help."""
    payable, capped = question.payable, question.ceiling is not None
    dear = best(question, judged, None) if payable and capped else None
    alone = judged
    if len(judged) > 1 and dear is None and payable:
        # The first role that finds no room even by itself is the one to speak of.
        alone = [each for each in judged if best(question, [each], None) is None]
    first = alone[0] if alone else _hardest(judged)
    role, wanted = first.role, first.ranks.count
    waiting = [c for each in judged for c in each.candidates if c.reason == "TierNotYet"]
    opens = min((opens_after_s(question.demand, each.tier) for each in waiting), default=None)
    retry = None if opens is None else opens - question.waited_s
    message = sentences.refusal(
        role,
        wanted,
        first.candidates,
        span=question.span,
        one=question.demand.policy.mode == "One",
        limit=question.demand.policy.objective.max_price,
        currency=question.views.prices.currency,
        least=dear.cost.micro if dear else None,
        spent=sum(shard.per_hour or 0 for shard in question.kept),
        opens_after_s=opens,
    )
    if len(judged) > 1 and dear is None and payable:
        message = (
            f"role {role.name}: {message}"
            if alone
            else sentences.not_together([e.role for e in judged], question.span, opens)
        )
    impossible = dear is None and payable and not _could_ever(question, judged)
    if impossible:
        message = f"{message}; {sentences.NEVER}"
    whole = not question.wanted and not question.kept
    refused = question.demand.policy.objective.when_too_dear == "Refuse"
    final = dear is not None and retry is None and whole and refused
    return Refusal(
        demand=question.demand,
        message=message,
        verdicts=tuple(
            _verdict(judged, at, each, _left(question, judged, at, each, wanted, dear))
            for at, each in enumerate(first.candidates)
        ),
        at_best=_by_domain(first, question.span),
        retry_after_s=retry,
        impossible=impossible,
        reason="TooDear" if final else "",
        final=final,
        awaits=_awaits(question, first, dear),
    )


def _awaits(question: Question, first: Judged, dear: Answer | None) -> str:
    """What stands between it and the room there is; "" where there is none."""
    if not question.payable:
        return "OtherCurrency"
    if dear is not None:
        return "TooDear"
    there: dict[str, list[int | None]] = {}
    for each in first.candidates:
        if each.reason in ("", "TierNotYet"):
            there.setdefault(each.domain, []).append(each.pods)
    late = any(each.reason == "TierNotYet" for each in first.candidates)
    fits = any(_at_best(pods, question.span) >= first.ranks.count for pods in there.values())
    return "TierNotYet" if late and fits else ""


def _left(
    question: Question,
    judged: Sequence[Judged],
    at: int,
    candidate: Candidate,
    pods: int,
    dear: Answer | None,
) -> tuple[str, str]:
    """(reason, message) for a cluster that nothing speaks against, where there is no plan."""
    if (candidate.pods or 0) < pods:
        return sentences.short(candidate, pods)
    if dear is not None:
        return sentences.too_dear(_whole_cost(judged, at), question.views.prices.currency)
    if not question.payable:
        return "OtherCurrency", "its price is in another currency than the ceiling of the policy"
    return sentences.partly(candidate, [each.role for each in judged])


_TRANSIENT: Final = frozenset({"", "Full", "TierNotYet", "Cordoned", "NotReady", "Barred"})


def _could_ever(question: Question, judged: Sequence[Judged]) -> bool:
    """Whether each role would fit if nothing else ran, everything was in order and all tiers were
    open.

    A cluster of which nothing is known might hold anything.
    """
    for each in judged:
        if any(candidate.pods_if_empty is None for candidate in each.candidates):
            continue
        there: dict[str, list[int | None]] = {}
        for candidate in each.candidates:
            if candidate.reason in _TRANSIENT:
                there.setdefault(candidate.domain, []).append(candidate.pods_if_empty)
        if all(_at_best(pods, question.span) < each.ranks.count for pods in there.values()):
            return False
    return True


def _by_domain(judged: Judged, span: int) -> dict[str, int]:
    """Most pods that could be had at once on each network."""
    there: dict[str, list[int | None]] = {}
    for each in judged.usable.values():
        there.setdefault(each.domain, []).append(each.pods)
    return {domain: _at_best(there[domain], span) for domain in sorted(there)}


def _at_best(pods: Iterable[int | None], span: int) -> int:
    return sum(sorted((each or 0 for each in pods), reverse=True)[: max(span, 0)])
