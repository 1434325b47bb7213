"""What is amiss with a shard that was committed: what its member refuses, and pods that do not run.

Pods that lost their nodes – drained, taken away, their node gone – are made again by their member,
after many have gone late, and may find no other. That is told at once; after the workload's lease
another place is looked for, and only when there is one is the shard ended, so that nothing is ended
for nothing. What keeps pods from starting on their nodes is the user's to mend: it is told, and
nothing is moved for it. Times are the member's own where it tells any, and stored, so that a
gateway that starts anew has forgotten nothing. Pure; `decisions` ends the shard, `waiting` asks for
the place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from fleet.dispatch import elastic
from fleet.dispatch.sight import Refused

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fleet.dispatch.record import Record, Shard
    from fleet.dispatch.sight import PodView, Sight

NO_NODE: Final = "NoNode"
NOT_MADE: Final = "NotMade"
NOT_STARTED: Final = "NotStarted"
STARTS_S: Final = 60.0
"""How long a pod may take on its node before anything is said of it."""
MADE_S: Final = 10.0
"""How long none may stand in the place of a pod that is gone before anything is said of it."""
_HOMELESS: Final = (NO_NODE, NOT_MADE)
_SAME_S: Final = 2.0
"""Times that differ by less are the same, read off clocks of whole seconds."""
_ANEW: Final = "; it is placed anew as soon as there is another place for it"


class _Found(NamedTuple):
    reason: str
    message: str
    pods: int
    since: float | None
    passing: bool = False
    """Whether it may be over in a moment, and is not said at once."""


def noted(shard: Shard, sight: Sight, record: Record, now: float, *, moves: bool) -> Shard:
    """The shard with what is amiss with its pods: how many, why, and since when. `moves` is whether
    it is placed anew if that lasts."""
    found = list(_found(shard, sight, now))
    shard = replace(shard, refused_at=None)
    if not found:
        return replace(shard, reason="", message="", amiss_at=None, amiss=0)
    since = _since(shard, found[0], now)
    count = sum(each.pods for each in found if each.reason in _HOMELESS) or found[0].pods
    shard = replace(shard, amiss_at=since, amiss=count)
    if found[0].passing and now - since < MADE_S:
        return replace(shard, reason="", message="")
    message = "; ".join(each.message for each in found)
    shard = replace(shard, reason=found[0].reason, message=message)
    if moves and shard in leaving(record.with_shards([shard]), now):
        shard = replace(shard, message=message + _ANEW)
    return shard


def _since(shard: Shard, first: _Found, now: float) -> float:
    """Since when the spell lasts: one without nodes until every pod has one."""
    before = shard.amiss_at
    if before is not None and first.reason in _HOMELESS and shard.reason in ("", *_HOMELESS):
        return before
    if before is not None and shard.reason == first.reason and (
        first.since is None or abs(before - first.since) <= _SAME_S
    ):  # fmt: skip
        return before
    return float(int(now if first.since is None else first.since))


def _found(shard: Shard, sight: Sight, now: float) -> Sequence[_Found]:
    """What is amiss, the gravest first."""
    pods = [pod for pod in sight.pods if not pod.deleting and pod.phase in ("Pending", "Running")]
    homeless = [pod for pod in pods if pod.unschedulable]
    missing = _missing(shard, sight)
    stuck = [pod for pod in pods if _is_stuck(pod, shard, sight, now)]
    found = []
    if homeless:
        found.append(_told(NO_NODE, homeless, "no node", shard, sight, now))
    if missing > 0:
        told = (
            f"{_of_all(missing, shard)} {'is' if missing == 1 else 'are'} gone and not made again"
        )
        if sight.trouble:
            told += f": {sight.trouble}"
        found.append(_Found(NOT_MADE, told, missing, None, passing=True))
    if stuck:
        found.append(_told(NOT_STARTED, stuck, "not started", shard, sight, now))
    return found


def _missing(shard: Shard, sight: Sight) -> int:
    """Pods that have still to succeed and are not there, nor on their way out."""
    left = [pod for pod in sight.pods if pod.phase != "Succeeded"]
    ranks = {pod.rank for pod in left if pod.rank is not None}
    done = sum(pod.phase == "Succeeded" for pod in sight.pods)
    if sight.view is not None:
        done = max(done, sight.view.succeeded)
    return shard.count - done - len(ranks) - sum(pod.rank is None for pod in left)


def _is_stuck(pod: PodView, shard: Shard, sight: Sight, now: float) -> bool:
    if pod.unschedulable or not pod.waits:
        return False
    if not pod.begins:
        return True
    if pod.phase != "Pending":
        return False
    began = max(_here(pod.since, sight, now) or now, shard.committed_at or 0.0)
    return now - began > STARTS_S


def _told(
    reason: str, pods: Sequence[PodView], what: str, shard: Shard, sight: Sight, now: float
) -> _Found:
    whys = sorted({why for pod in pods if (why := pod.message if pod.unschedulable else pod.waits)})
    message = f"{_of_all(len(pods), shard)} {'has' if len(pods) == 1 else 'have'} {what}"
    if whys:
        message += f": {_fullest(whys)}"
    times = [at for pod in pods if (at := _here(pod.since, sight, now)) is not None]
    return _Found(reason, message, len(pods), min(times, default=None))


def _fullest(whys: Sequence[str]) -> str:
    """The first, or what says the same and more: only one of the pods is asked about closely."""
    return max((why for why in whys if why.startswith(whys[0])), key=len)


def _of_all(number: int, shard: Shard) -> str:
    return f"{number} of {shard.count} pods"


def _here(moment: float | None, sight: Sight, now: float) -> float | None:
    """A time of the member's by the gateway's clock."""
    return None if moment is None else now - max(0.0, (sight.clock or now) - moment)


# -- who goes for it


def leaving(record: Record, now: float) -> tuple[Shard, ...]:
    """Shards whose pods have had no node, or were gone, for longer than the lease: they are to be
    placed anew where there is another place."""
    if record.phase not in ("Committed", "Running") or record.preempted_for:
        return ()
    return tuple(each for each in record.shards if (at := due(each, record)) and now >= at)


def due(shard: Shard, record: Record) -> float | None:
    """When another place is looked for; None of a shard that needs none. What an
    elastic workload was to grow by has a bound of its own."""
    if not shard.live or shard.reason not in _HOMELESS or shard.lost_at is not None:
        return None
    if shard.amiss_at is None or elastic.enlarged(shard):
        return None
    return shard.amiss_at + record.lease_s


def taken_along(record: Record, shards: Collection[Shard]) -> frozenset[str]:
    """The clusters that ranks have to be placed anew of when `shards` end: where not all of a plan
    had begun, all of that plan."""
    clusters = {each.cluster for each in shards}
    if record.phase == "Committed" and not elastic.goes_on(without(record, shards)):
        clusters |= {e.cluster for e in record.shards if e.generation == record.generation}
    return frozenset(clusters)


def told_at_the_end(shard: Shard, lease_s: float) -> str:
    """Why it was ended."""
    message = shard.message.removesuffix(_ANEW)
    return f"in {shard.cluster}, for longer than {lease_s:g} s, {message}"


def is_better(record: Record, shards: Collection[Shard], ranks: int) -> bool:
    """Whether more run with so many `ranks` in all than while `shards` stay as they are: an
    elastic workload may be offered fewer than it would give up."""
    return ranks > sum(each.count for each in record.shards) - sum(each.amiss for each in shards)


def is_spared(record: Record, shard: Shard, sight: Sight) -> bool:
    """Whether an elastic workload gives up nothing with it: no pod of it has a node, and enough of
    the others run."""
    return not sight.bound() and elastic.goes_on(without(record, [shard]))


def without(record: Record, shards: Collection[Shard]) -> Record:
    """As it would be without these, for asking."""
    gone = {(each.cluster, each.generation) for each in shards}
    kept = tuple(each for each in record.shards if (each.cluster, each.generation) not in gone)
    return replace(record, shards=kept)


def barring(shards: Collection[Shard]) -> Mapping[str, str]:
    """Why their clusters are not asked for their ranks."""
    return {each.cluster: f"its pods do not run there: {each.message}" for each in shards}


# -- what its member refuses


def refused_before(shard: Shard) -> Refused | None:
    """What its cluster refuses of a shard that was committed, as stored; None for nothing."""
    if not shard.live or shard.refused_at is None or shard.lost_at is not None:
        return None
    message = shard.message.removeprefix(refusing(shard))
    return Refused(shard.reason, message, since=shard.refused_at)


def refusing(shard: Shard) -> str:
    """What its member's refusals are told with."""
    return f"{shard.cluster} refuses what it needs: "
