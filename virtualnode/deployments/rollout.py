"""How many pods each set of a Deployment gets next. Pure.

The steps are upstream's (pkg/controller/deployment: rolling.go, recreate.go, `scale` in sync.go).
Two counts are more careful than there, so that the bounds hold for pods and not for intentions
alone: a set that is to have fewer pods counts with those it still has where more are asked for,
and with no more than it is to keep where some are given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtualnode.deployments import templates
from virtualnode.deployments.sizes import DESIRED, MOST

if TYPE_CHECKING:
    from virtualnode.deployments.sizes import Bounds, Sets, Sized


def roll(sets: Sets, bounds: Bounds) -> Sets:
    """The next step of a rolling update; the new set is there."""
    assert sets.new is not None
    grown = _resize_new(sets, bounds)
    return grown if grown != sets else _shrink_old(sets, bounds)


def first_size(sets: Sets, bounds: Bounds) -> int:
    """The pods that a set made in a rolling update begins with."""
    return max(min(bounds.most - sets.room, bounds.desired), 0)


def _resize_new(sets: Sets, bounds: Bounds) -> Sets:
    new = sets.new
    assert new is not None
    if new.replicas >= bounds.desired:
        return sets.put(new.resized(bounds.desired, bounds))
    more = min(bounds.most - sets.room, bounds.desired - new.replicas)
    return sets.put(new.resized(new.replicas + max(more, 0), bounds))


def _shrink_old(sets: Sets, bounds: Bounds) -> Sets:
    """Give up pods of old sets: those that are not available first, since they are missed by
    nobody, then available ones as far as the rest suffices."""
    new = sets.new
    assert new is not None
    spare = sets.replicas - bounds.least - (new.replicas - new.available)
    if spare <= 0:
        return sets
    for each in sets.old:
        idle = min(each.replicas - each.available, spare)
        spare -= idle
        sets = sets.put(each.resized(each.replicas - idle, bounds))
    spare = sets.available - bounds.least
    for each in sets.old:
        fewer = max(min(each.replicas, spare), 0)
        spare -= fewer
        sets = sets.put(each.resized(each.replicas - fewer, bounds))
    return sets


def retire(sets: Sets, bounds: Bounds) -> Sets:
    """The first step of a re-creation: no old set keeps a pod."""
    return sets.put(*(each.resized(0, bounds) for each in sets.old))


# -- scaling


def is_scaled(sets: Sets, bounds: Bounds) -> bool:
    """Whether the Deployment's number of pods is another than the sets got theirs for."""
    return any(each.number(DESIRED) not in (None, bounds.desired) for each in sets.active)


def scale(sets: Sets, bounds: Bounds, *, rolling: bool, before: int) -> Sets:
    """Spread another number of pods over the sets as they are, without getting on with a rollout.

    `before` is the number of pods there were when the sets do not say it themselves.
    """
    active = sets.active
    if len(active) > 1:
        sets = _spread(sets, bounds, rolling=rolling, before=before)
    elif one := (active[0] if active else _latest(sets)):
        others = sets.room - one.room
        size = min(bounds.desired, max(bounds.most - others, one.replicas))
        sets = sets.put(one.resized(size, bounds))
    # Every set is told, or the same scaling would be found again and again.
    return sets.put(*(each.noted(bounds) for each in sets.active))


def _latest(sets: Sets) -> Sized | None:
    if sets.new is not None:
        return sets.new
    return sets.old[-1] if sets.old else None


def _spread(sets: Sets, bounds: Bounds, *, rolling: bool, before: int) -> Sets:
    if _is_saturated(sets.new, bounds):
        return retire(sets, bounds)
    if not rolling:
        return sets
    allowed = bounds.most if bounds.desired else 0
    due = allowed - sets.replicas
    if due > 0:
        due = max(allowed - sets.room, 0)
    if not due:
        return sets
    active = sorted(sets.active, key=lambda each: templates.age(each.seen), reverse=due > 0)
    active.sort(key=lambda each: -each.replicas)
    left, shares = due, []
    for each in active:
        share = _share(each, bounds, before=before)
        share = min(share, left) if due > 0 else max(share, left)
        left -= share
        shares.append(share)
    shares[0] += left
    return sets.put(
        *(
            each.resized(max(each.replicas + share, 0), bounds)
            for each, share in zip(active, shares, strict=True)
        )
    )


def _share(sized: Sized, bounds: Bounds, *, before: int) -> int:
    """What a set gets or gives of a change, in proportion to its pods."""
    if not bounds.desired:
        return -sized.replicas
    total = sized.number(MOST) or before
    if not total:
        return 0
    rounded = (2 * sized.replicas * bounds.most + total) // (2 * total)
    return rounded - sized.replicas


def _is_saturated(new: Sized | None, bounds: Bounds) -> bool:
    return (
        new is not None
        and new.replicas == bounds.desired
        and new.number(DESIRED) == bounds.desired
        and new.count("availableReplicas") == bounds.desired
    )
