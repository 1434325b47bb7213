"""The restart budget of a gang: which of its pods' failures are the user's own.

All ranks of a gang run together, so what happens to one takes the others along: where a node is
drained or a member lost, the processes that are left die with their peers. Such failures are free;
only those while nothing was taken away are held against `backoffLimit`. Members are told no limit
of their own for gangs (`acting`); `decisions` judges by what is charged here. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from fleet.dispatch.elastic import enlarged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.dispatch.record import Record
    from fleet.dispatch.sight import Sight


@dataclass(frozen=True, slots=True)
class Budget:
    """`counted` is how many failures have been looked at, `charged` how many of them are held
    against the limit, `fresh` how many of those since the gang was last seen whole. `free` is set
    from when something was taken away until the gang is whole again: how many more may fail for it.
    """

    counted: int = 0
    charged: int = 0
    fresh: int = 0
    free: int | None = None


NOTHING: Final = Budget()


def brought_on(record: Record, sights: Mapping[str, Sight], *, disturbed: bool) -> Budget:
    """The record's budget after a look at the shards. `disturbed` is whether a pod was seen to be
    taken away just now, whatever is seen of it in this look."""
    live = [(each, sights.get(each.cluster)) for each in record.shards if each.live]
    seen = [(each, sight) for each, sight in live if sight is not None and sight.reached]
    silent = len(seen) < len(live)
    failed = record.failures + sum(sight.failures() for _, sight in seen)
    taken = disturbed or _is_in_parts(record) or any(sight.broken() for _, sight in seen)
    return judged(
        record.budget,
        failed=record.budget.counted if silent else failed,
        nodes=sum(each.count for each in record.shards),
        broken=silent or taken,
        whole=all(sight.whole(shard.count) for shard, sight in seen),
    )


def _is_in_parts(record: Record) -> bool:
    """Whether a part is gone, or what is to take its place has not begun."""
    oldest = min((each.generation for each in record.shards), default=0)
    return any(
        not shard.live
        or (shard.state == "Committed" and (shard.generation > oldest or enlarged(shard)))
        for shard in record.shards
        if shard.state != "Succeeded"
    )


def judged(budget: Budget, *, failed: int, nodes: int, broken: bool, whole: bool) -> Budget:
    """What follows from `failed` failures in all.

    `broken` is whether a part is gone or going that the user's program did not end, `whole`
    whether every rank runs. What broke the gang may be seen after the failures that it caused:
    those since the gang was last whole are forgiven with it. Once everything is back, each rank may
    fail once more for it, and no more: a program that always fails has to come to an end.
    """
    more = max(failed - budget.counted, 0)
    budget = replace(budget, counted=failed)
    if broken:
        return replace(budget, charged=budget.charged - budget.fresh, fresh=0, free=nodes)
    if budget.free is not None:
        forgiven = min(more, budget.free)
        budget, more = replace(budget, free=budget.free - forgiven), more - forgiven
    budget = replace(budget, charged=budget.charged + more, fresh=budget.fresh + more)
    return replace(budget, fresh=0, free=None) if whole else budget
