"""What a workload is to the engine, read off its Placement: what it holds of a quota, and where.

A plan holds all that was asked for from the moment it is stored until nothing of it can run any
more: what is leaving, and what was lost and is to be placed anew, is held still. What has ended for
good is not: pods of a Job that have succeeded, indexes that have failed for good, shards that have
succeeded (kueue#13178, kueue#13717). Pure; `keeping` brings the engine in line with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Invalid
from fleet.kube.quantity import InvalidQuantity
from fleet.scheduling.checkpoints import saved_s
from fleet.scheduling.counted import pod_counts, times, total
from fleet.scheduling.demand import pod_kinds_of, run_time_of
from fleet.scheduling.lending.loans import KIND, mark_of
from fleet.scheduling.workloads import read
from policies import PLACEMENT_POLICY
from policies.scalars import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fleet.scheduling.quota.tree import Key
    from fleet.scheduling.stock import PodKind
    from policies.placement_policy import Checkpoint, PlacementPolicySpec

Object = dict[str, Any]

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_WAITING: Final = frozenset({"Queued", "Lost"})
_LIVE: Final = frozenset({"Committed", "Running"})
_THERE: Final = frozenset({"Planned", "Holding", "Held", *_LIVE})
_TO_REPLACE: Final = frozenset({"Lost", "Evicted"})
_MICROSECONDS: Final = 1_000_000
_REVISION_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class Wish:
    """What a workload asks for: pods by role, and what one of each counts for."""

    pods: Mapping[str, int]
    counts: Mapping[str, Mapping[Key, int]]
    left: int | None = None
    """Pods that have still to succeed, of a workload of one role that counts them."""
    kinds: Mapping[str, PodKind] = field(default_factory=dict)
    """By role, what one of its pods asks of a node; empty where that cannot be read."""

    @property
    def whole(self) -> dict[Key, int]:
        return total(times(self.counts[role], pods) for role, pods in self.pods.items())


def wish_of(obj: Object) -> Wish | None:
    """None for an object that cannot be read: nobody will start it."""
    try:
        reading = read(obj)
        parts = reading.parts if reading is not None else ()
        counts = {part.role: pod_counts(part.template) for part in parts}
    except (ValueError, InvalidQuantity):
        return None
    if not parts:
        return None
    left = _left(obj) if obj.get("kind") == "Job" else None
    try:
        kinds = pod_kinds_of(obj)
    except Invalid:
        kinds = {}
    return Wish({part.role: part.pods for part in parts}, counts, left, kinds)


def _left(job: Object) -> int | None:
    """Pods of a Job that have still to succeed: not those whose index has failed for good."""
    completions = (job.get("spec") or {}).get("completions")
    if completions is None:
        return None
    status: Object = job.get("status") or {}
    failed = 0
    for part in filter(None, str(status.get("failedIndexes") or "").split(",")):
        first, _, last = part.partition("-")
        failed += int(last or first) - int(first) + 1
    return max(0, int(completions) - int(status.get("succeeded") or 0) - failed)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a workload holds."""

    amounts: Mapping[Key, int]
    clusters: Mapping[str, Mapping[Key, int]]
    """Where, as far as it has a place."""
    pods: Mapping[str, Mapping[PodKind, int]] = field(default_factory=dict)
    """The same in pods; empty where they cannot be read."""
    lost: Mapping[str, Mapping[Key, int]] = field(default_factory=dict)
    """Part of that, by cluster, which is out of reach."""
    started_s: float = 0.0
    run_time_s: float | None = None
    leaving_for: str = ""
    """UID of the workload that it was told to end for, or the mark of a loan that goes back, or of
    work that goes back to an earlier tier."""
    preemptions: int = 0


def standing_of(status: Object, wish: Wish, *, now: float) -> Standing | None:
    """What is held under a Placement of that status; None if it is nothing."""
    phase = str(status.get("phase") or "Queued")
    shards = status.get("shards") or ()
    leaving = bool(unfenced(status, now=now))
    states = _THERE if phase not in _ENDED else _LIVE
    clusters = {each["cluster"]: _of(each, wish) for each in shards if _state(each) in states}
    amounts = total(clusters.values())
    if phase not in _ENDED:
        broken = [_of(each, wish) for each in shards if _state(each) in _TO_REPLACE]
        amounts = total([amounts, *broken, *_leaving(status, wish, now)])
    if not amounts and leaving:
        amounts = wish.whole
        clusters = {each["cluster"]: {} for each in status.get("owed") or ()}
    if not amounts:
        return None
    return Standing(
        amounts=_at_most(amounts, wish, _done(status, wish)) if phase == "Running" else amounts,
        clusters=clusters,
        pods={each["cluster"]: _pods(each, wish) for each in shards if _state(each) in states},
        lost={
            each["cluster"]: _of(each, wish)
            for each in shards
            if _state(each) in _LIVE and each.get("lostAt") and phase not in _ENDED
        },
        started_s=_started(status),
        run_time_s=run_time_s(status),
        leaving_for=_leaving_for(status),
        preemptions=int(status.get("preemptions") or 0),
    )


def _leaving(status: Object, wish: Wish, now: float) -> list[Mapping[Key, int]]:
    """What shards that an elastic workload goes on without may hold still, or those of one that is
    leaving."""
    if not _is_elastic(status) or len(wish.counts) != 1:
        return []
    (counts,) = wish.counts.values()
    there = {(each["cluster"], each.get("generation", 0)) for each in status.get("shards") or ()}
    return [
        times(counts, int(each.get("ranks") or 0))
        for each in unfenced(status, now=now)
        if (each["cluster"], each.get("generation", 0)) not in there
    ]


def _is_elastic(status: Object) -> bool:
    """Whether it may run with fewer pods than it asks for."""
    return any("min" in each for each in status.get("roles") or ())


@dataclass(frozen=True, slots=True)
class Expectation:
    """How long a workload is expected to run: as it says itself, `said_s`, else as its policy
    says."""

    said_s: float | None
    policy: tuple[str, str]
    """Namespace and name."""
    saved_s: float | None = None
    """When its last checkpoint was complete, as it says itself."""

    def seconds(
        self, policies: Mapping[tuple[str, str], PlacementPolicySpec], *, before_s: float | None
    ) -> float | None:
        """By the policies as they are; `before_s`, as it was placed, where its policy is gone."""
        if self.said_s is not None:
            return self.said_s
        policy = policies.get(self.policy)
        if policy is None:
            return before_s
        told = policy.objective.run_time
        return None if told is None else told.total_seconds()

    def checkpoint(
        self, policies: Mapping[tuple[str, str], PlacementPolicySpec]
    ) -> Checkpoint | None:
        """None where its policy is gone: then nobody knows."""
        policy = policies.get(self.policy)
        return None if policy is None else policy.objective.checkpoint


def expectation_of(workload: Object, placement: Object) -> Expectation | None:
    """None for a workload that cannot be read: then what is known of it stays."""
    told = placement["spec"].get("policy") or {}
    try:
        said_s = run_time_of(workload)
    except ValueError:
        return None
    policy = str(told.get("namespace", "")), str(told.get("name", ""))
    return Expectation(said_s, policy, saved_s(workload))


def waits(status: Object, *, now: float) -> bool:
    """Whether it is to get a place as a whole: nothing of an earlier one can run any more."""
    return status.get("phase", "Queued") == "Queued" and not unfenced(status, now=now)


def unfenced(status: Object, *, now: float) -> list[Object]:
    """What is to be gone and may run still."""
    return [
        each
        for each in status.get("owed") or ()
        if (fenced := seconds_of(each.get("fencedAt"))) is None or fenced > now
    ]


def seconds_of(moment: Any) -> float | None:
    return datetime.fromisoformat(moment).timestamp() if moment else None


def sequence_of(queued_s: float, arrival: int) -> int:
    """Who came first, of all that wait: by time, and within a second by what the store numbered
    first. It is read off what is stored alone, so it is the same after a restart."""
    return int(queued_s * _MICROSECONDS) << _REVISION_BITS | arrival


def run_time_s(status: Object) -> float | None:
    told = status.get("runTime")
    return parse_duration(told).total_seconds() if told else None


def _leaving_for(status: Object) -> str:
    told: Object | None = status.get("preemptedFor")
    if told is not None and told.get("kind") == KIND:
        return mark_of(told["name"])
    if told is not None and told.get("kind") == PLACEMENT_POLICY.name:
        return PLACEMENT_POLICY.name
    if told is not None:
        return str(told.get("uid", ""))
    loan: Object = status.get("loan") or {}
    return mark_of(loan["policy"]) if loan.get("recalledAt") else ""


def _started(status: Object) -> float:
    begun = [
        at
        for each in status.get("shards") or ()
        if (at := seconds_of(each.get("committedAt"))) is not None
    ]
    return min(begun, default=seconds_of(status.get("phaseSince")) or 0.0)


def _state(shard: Object) -> str:
    return str(shard.get("state", "Planned"))


def _of(shard: Object, wish: Wish) -> dict[Key, int]:
    return total(times(wish.counts.get(role, {}), count) for role, count in _counts(shard, wish))


def _pods(shard: Object, wish: Wish) -> dict[PodKind, int]:
    found: Counter[PodKind] = Counter()
    for role, count in _counts(shard, wish):
        if role in wish.kinds:
            found[wish.kinds[role]] += count
    return dict(found)


def _counts(shard: Object, wish: Wish) -> Iterator[tuple[str, int]]:
    """By role. A workload of one role has one, whatever it is called."""
    only = next(iter(wish.counts)) if len(wish.counts) == 1 else ""
    return ((only or each["name"], int(each["count"])) for each in shard.get("roles") or ())


def _done(status: Object, wish: Wish) -> int | None:
    """Pods that hold nothing any more among those of shards that run on, of a workload that may
    run with fewer than it asks for; None for any other."""
    if wish.left is None or len(wish.pods) != 1 or not _is_elastic(status):
        return None
    (pods,) = wish.pods.values()
    apart = sum(
        int(role["count"])
        for each in status.get("shards") or ()
        if _state(each) == "Succeeded"
        for role in each.get("roles") or ()
    )
    return max(0, pods - wish.left - apart)


def _at_most(amounts: Mapping[Key, int], wish: Wish, done: int | None) -> Mapping[Key, int]:
    """Not more than those that have still to succeed: all that are left, or of those that run the
    ones that are not `done`."""
    if wish.left is None or len(wish.counts) != 1:
        return amounts
    (counts,) = wish.counts.values()
    if done is not None:
        over = times(counts, done)
        return {key: max(0, amount - over.get(key, 0)) for key, amount in amounts.items()}
    most = times(counts, wish.left)
    return {key: min(amount, most.get(key, 0)) for key, amount in amounts.items()}
