"""What a decision says to people: why several clusters, why not this one, why nothing at all.

A sentence names what is so, in numbers, and what would help; nothing is decided here.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from fleet.scheduling.clusters import network_word
from fleet.scheduling.fit import Cost
from policies.scalars import amount_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.scheduling.clusters import Candidate
    from fleet.scheduling.demand import Role
    from fleet.scheduling.numbering import Interval
    from fleet.scheduling.plan import Shard
    from policies.scalars import Rate

NEVER: Final = "it would not fit even if nothing else ran"
_LISTED: Final = 3
_NAMED: Final = 6
_CENT: Final = 10_000


def ranks(intervals: Iterable[Interval]) -> str:
    """`ranks 0-3`, `rank 4`."""
    texts = [str(each) for each in sorted(intervals)]
    alone = len(texts) == 1 and "-" not in texts[0]
    return f"{'rank' if alone else 'ranks'} {', '.join(texts)}"


def roles(asked: Sequence[Role]) -> str:
    """`1 head and 8 worker`."""
    texts = [f"{role.pods} {role.name}" for role in asked]
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def next_tier(opens_after_s: float) -> str:
    """When it comes, in words that stay the same until then: they are stored."""
    wait = duration_text(timedelta(seconds=round(opens_after_s)))
    return f"the next tier is tried once this has waited for {wait}"


def not_together(asked: Sequence[Role], span: int, opens_after_s: float | None) -> str:
    """Why roles that each find room are not placed."""
    where = _clusters(span)
    text = f"needs {roles(asked)}; each finds room, but not all of them at once in {where}"
    return f"{text}; {next_tier(opens_after_s)}" if opens_after_s is not None else text


def why_several(
    role: Role, pods: int, used: Sequence[Candidate], candidates: Sequence[Candidate]
) -> str:
    """Why one cluster was not enough: what the others of its network and tier had, and which could
    have held it alone, but for their tier or their state."""
    domain, tier = used[0].domain, max(each.tier for each in used)
    near = [each for each in candidates if each.domain == domain or role.network == "None"]
    peers = [each for each in near if each.usable and each.tier <= tier]
    of = f" of {domain}" if domain else ""
    if any(each.curve.units >= role.units for each in peers):
        return f"no single member{of} with {pods} free is within the price"
    later = [each for each in near if each.tier > tier and _has(each, pods)]
    if later:
        of += f" in tier {tier}" if tier == 1 else f" in tiers 1 to {tier}"
    able = [f"{each.cluster} has {each.pods}, in tier {each.tier}" for each in later[:_LISTED]]
    kept = [each for each in near if each.tier and each.tier <= tier]
    able += filter(None, [_elsewhere(role, kept, pods)])
    return "; ".join([f"no single member{of} had {pods} free ({_frees(peers)})", *able])


def _has(candidate: Candidate, pods: int) -> bool:
    """Whether it could hold them if its tier were tried."""
    return candidate.reason in ("", "TierNotYet") and (candidate.pods or 0) >= pods


def why_still_several(stayed: Sequence[Shard], anew: Sequence[Shard]) -> str:
    """Why a workload is not in one cluster after a part was placed anew: the rest never moves."""
    names = ", ".join(shard.cluster for shard in stayed)
    return f"{_all(stayed)} stayed in {names} when {_all(anew)} had to be placed anew"


def _all(shards: Sequence[Shard]) -> str:
    return ranks(each for shard in shards for each in shard.intervals)


def placed_anew(shards: Sequence[Shard]) -> str:
    """What a re-plan did."""
    moved = ", ".join(f"{ranks(shard.intervals)} in {shard.cluster}" for shard in shards)
    return f"placed anew: {moved}; all others stay"


def unused(
    role: Role,
    pods: int,
    candidate: Candidate,
    used: Sequence[tuple[Candidate, int]],
    *,
    there: Together,
) -> tuple[str, str]:
    """(reason, message) for a cluster that would do, beside those that were preferred.

    `there` is what its network has in the tiers that they are in.
    """
    tier = max(each.tier for each, _ in used)
    domain = used[0][0].domain
    names = ", ".join(each.cluster for each, _ in used)
    if candidate.tier > tier:
        return "LaterTier", f"tier {candidate.tier}; tier {tier} suffices"
    units = pods // role.unit
    if candidate.domain != domain:
        where = f"{network_word(role)} {candidate.domain}"
        if not there.fewest:
            return "NetworkTooSmall", f"{where} has {there.most} free, {pods} are needed"
        if len(there.fewest) > len(used):
            return "MoreClusters", (
                f"{where} would need {_clusters(len(there.fewest))} ({_frees(there.fewest)}); "
                f"{names} {'alone suffices' if len(used) == 1 else 'suffice'}"
            )
        if len(there.fewest) < len(used):
            return "OtherNetwork", f"{where} is not {domain}"
    if candidate.curve.units < units and len(used) == 1:
        return short(candidate, pods)
    share = min(units for _, units in used)
    theirs = sum(each.curve.cost(count) + each.curve.once for each, count in used)
    if len(used) > 1:
        theirs = max(
            each.curve.cost(count) + each.curve.once for each, count in used if count == share
        )
    curve = candidate.curve
    mine = curve.cost(min(share, curve.units)) + curve.once
    return _dearer(Cost.of(mine), Cost.of(theirs), names)


class Together(NamedTuple):
    """What clusters of one network can do together: the fewest that hold what is asked for, none
    where they cannot within the span, and the most pods that they hold within it."""

    fewest: tuple[Candidate, ...]
    most: int

    @classmethod
    def of(cls, candidates: Iterable[Candidate], units: int, *, span: int) -> Together:
        largest = sorted(candidates, key=lambda each: (-each.curve.units, each.cluster))[:span]
        sums = list(accumulate(each.curve.units for each in largest))
        enough = next((at for at, held in enumerate(sums, start=1) if held >= units), 0)
        return cls(tuple(largest[:enough]), sum(each.pods or 0 for each in largest))


def _clusters(number: int) -> str:
    return "one cluster" if number == 1 else f"{number} clusters"


def _dearer(mine: Cost, theirs: Cost, names: str) -> tuple[str, str]:
    if mine.unknown > theirs.unknown:
        return "PriceUnknown", "its price is not known"
    if mine.micro > theirs.micro:
        return (
            "Dearer",
            f"dearer: {_shown(mine.micro)} per hour, {names} {_shown(theirs.micro)}",
        )
    if mine.blocks > theirs.blocks:
        return "MoreBlocks", f"it would be spread over {mine.blocks} blocks"
    return "NotNeeded", f"{names} will do"


def _shown(micro: int) -> str:
    """What a pod pays that takes next to nothing of a node is no sum to read."""
    return "less than 0.01" if 0 < micro < _CENT else amount_text(micro)


def short(candidate: Candidate, pods: int) -> tuple[str, str]:
    """(reason, message) for a cluster that has less than is needed, or not alone."""
    free = candidate.pods or 0
    return "TooSmall", f"has {free} free, {pods} are needed"


def too_dear(cost: Cost | None, currency: str) -> tuple[str, str]:
    """(reason, message) for a cluster that has room, where all that fits is above the ceiling."""
    if cost is None or cost.unknown:
        return "TooDear", "it has room, and all that fits is above the ceiling of the policy"
    alone = f"{amount_text(cost.micro)} {currency}/h"
    return "TooDear", f"it would cost {alone} there, above the ceiling of the policy"


def partly(candidate: Candidate, wanted: Sequence[Role]) -> tuple[str, str]:
    """(reason, message) for a cluster that has room for one role and not for all."""
    if len(wanted) < 2:
        return "TooSmall", f"has {candidate.pods} free, and not as they are needed"
    return "TooSmall", f"has {candidate.pods} free for one role, and no room for all of them"


def refusal(
    role: Role,
    pods: int,
    candidates: Sequence[Candidate],
    *,
    span: int,
    one: bool,
    limit: Rate | None,
    currency: str,
    least: int | None,
    spent: int,
    opens_after_s: float | None,
) -> str:
    """Why nothing was placed: what is free at best, where, and what is elsewhere."""
    if limit is not None and currency and limit.currency != currency:
        return (
            f"the policy's ceiling is in {limit.currency}, the prices are in {currency}: "
            "they cannot be compared"
        )
    if least is not None and limit is not None:
        return (
            f"would cost {amount_text(least + spent)} {limit.currency}/h at least, the policy "
            f"allows {limit}"
        )
    usable = [each for each in candidates if each.usable]
    need = f"{pods} in units of {role.unit}" if role.unit > 1 else str(pods)
    if not usable:
        text = f"needs {need}, no cluster comes into question{_first_reasons(candidates)}"
    else:
        text = _domains(usable, need, pods, span=span, one=one)
        elsewhere = _elsewhere(role, candidates, pods)
        text += f" ({elsewhere})" if elsewhere else ""
    return f"{text}; {next_tier(opens_after_s)}" if opens_after_s is not None else text


def _domains(usable: Sequence[Candidate], need: str, pods: int, *, span: int, one: bool) -> str:
    """`roce-1 has 6 free, vpc-9 has 4, needs 9`."""
    parts, limited = [], False
    by_domain: dict[str, list[Candidate]] = {}
    for each in usable:
        by_domain.setdefault(each.domain, []).append(each)
    for domain, there in sorted(by_domain.items(), key=lambda each: each[0]):
        free = sorted((each.pods or 0 for each in there), reverse=True)
        total, reachable = sum(free), sum(free[:span])
        where = f"{domain} has" if domain else "the clusters have"
        if one or span == 1:
            parts.append(f"{domain + ': ' if domain else ''}{_frees(there)} free")
        elif reachable < pods <= total:
            limited = True
            parts.append(f"{where} {total} free in {len(there)} clusters, {reachable} in {span}")
        else:
            parts.append(f"{where} {total} free")
    text = f"{', '.join(parts)}, needs {need}"
    if one or span == 1:
        return f"{text} in one cluster"
    return f"{text} in at most {span}" if limited else text


def _elsewhere(role: Role, candidates: Sequence[Candidate], pods: int) -> str:
    """`cloud-c has 64, on vpc-9`: clusters with room that something else speaks against."""
    able = [
        each
        for each in candidates
        if not each.usable and (each.pods or 0) >= pods and each.reason not in ("Full", "NoShape")
    ]
    able.sort(key=lambda each: (-(each.pods or 0), each.cluster))
    return "; ".join(f"{each.cluster} has {each.pods}, {_but(role, each)}" for each in able[:3])


def _but(role: Role, candidate: Candidate) -> str:
    if candidate.reason == "OtherNetwork":
        return f"on {candidate.domain}"
    return candidate.message


def _frees(candidates: Sequence[Candidate]) -> str:
    """`idc-a 4, idc-b 2`, the largest first."""
    ordered = sorted(candidates, key=lambda each: (-(each.pods or 0), each.cluster))
    texts = [f"{each.cluster} {each.pods or 0}" for each in ordered[:_LISTED]]
    more = len(ordered) - _LISTED
    return ", ".join([*texts, f"{more} more with less"] if more > 0 else texts)


def _first_reasons(candidates: Sequence[Candidate]) -> str:
    """Each reason once, with what to do about it in the first cluster that it keeps away."""
    if not candidates:
        return ": the fleet has none that is left to try"
    alike: dict[str, list[Candidate]] = {}
    for each in candidates:
        alike.setdefault(each.message.partition("; ")[0], []).append(each)
    texts = [_together(found) for found in list(alike.values())[:_LISTED]]
    more = sum(len(found) for found in list(alike.values())[_LISTED:])
    return f": {'; '.join([*texts, f'{more} more'] if more else texts)}"


def _together(candidates: Sequence[Candidate]) -> str:
    first, *others = candidates
    names = ", ".join(each.cluster for each in candidates[:_NAMED])
    if (more := len(candidates) - _NAMED) > 0:
        names += f" and {more} more"
    return f"{names}: {first.message}" if others else f"{names} {first.message}"
