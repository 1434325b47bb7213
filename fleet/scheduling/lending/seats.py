"""Whether a donor's pods find nodes if the worst of its clusters is lost: whole pods, never sums.

Free accelerators that are spread over nodes hold no pod that wants eight of them. So what the donor
has in a cluster is put, pod by pod and the largest first, onto nodes of the others, with what waits
of it. Of what waits, pods that no node could hold if it were empty are left out: nothing that is
called back helps them. Where pods are of several kinds, they may be put less well than is possible;
then more is kept than is needed, never less. Next step: `spare` asks, over the members as they are.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fleet.scheduling.placement import Plan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.placer import Placed
    from fleet.scheduling.stock import PodKind

    Pods = Mapping[PodKind, int]


def pods_of(placed: Placed) -> Mapping[str, Pods]:
    """By cluster, the pods of what has a place."""
    if not isinstance(placed.plan, Plan):
        return placed.pods
    kinds = {role.name: role.kind for role in placed.plan.demand.roles}
    found: dict[str, Counter[PodKind]] = {}
    for shard in placed.plan.shards:
        there = found.setdefault(shard.cluster, Counter())
        for each in shard.intervals:
            there[kinds[each.role]] += each.count
    return found


def unseated(
    ours: Mapping[str, Pods],
    coming: Pods,
    there: Mapping[str, Capacity],
    *,
    resources: Collection[str],
) -> int:
    """How much of some resources pods ask for that would find no node, whichever cluster is lost.

    `ours` are the pods of the donor by cluster; `there` is what it could have in each.
    """
    may = {
        kind: count
        for kind, count in coming.items()
        if any(room.pods_if_empty for each in there.values() for room in each.rooms(kind))
    }
    wanted = {
        cluster: {
            kind: pods.get(kind, 0) + may.get(kind, 0)
            for kind in {**pods, **may}
            if _size(kind, resources)
        }
        for cluster, pods in ours.items()
    }
    most: Counter[PodKind] = Counter()
    for each in wanted.values():
        most |= Counter(each)
    if not most:
        return 0
    largest = min(most, key=_large_first)
    order = sorted(there, key=lambda name: (-_rooms(there[name], largest), name))
    # Where the worst of each kind together finds nodes in a few clusters, so does whatever is lost
    # of the others.
    left, used = _left(most, [(name, there[name]) for name in order])
    worst = 0
    for cluster, pods in wanted.items():
        if not left and cluster not in used:
            continue
        others = [(name, there[name]) for name in order if name != cluster]
        missing, _ = _left(pods, others)
        worst = max(worst, sum(_size(kind, resources) * n for kind, n in missing.items()))
    return worst


def _left(
    wanted: Pods, there: Iterable[tuple[str, Capacity]]
) -> tuple[dict[PodKind, int], set[str]]:
    """How many of each kind are left when all are full of them, and which have some."""
    left = {kind: count for kind, count in wanted.items() if count > 0}
    used: set[str] = set()
    for name, capacity in there:
        if not left:
            break
        for kind in sorted(left, key=_large_first):
            fits = min(left[kind], _rooms(capacity, kind))
            if not fits:
                continue
            if len(left) > 1:
                capacity, taken = capacity.take(kind, fits)
                fits = taken.pods
            left[kind] -= fits
            used.add(name)
        left = {kind: count for kind, count in left.items() if count}
    return left, used


def _rooms(capacity: Capacity, kind: PodKind) -> int:
    return sum(room.pods for room in capacity.rooms(kind))


def _large_first(kind: PodKind) -> tuple[object, ...]:
    return tuple((name, -amount) for name, amount in reversed(kind.request)), kind.selector.text


def _size(kind: PodKind, resources: Collection[str]) -> int:
    return sum(amount for name, amount in kind.request if name in resources)
