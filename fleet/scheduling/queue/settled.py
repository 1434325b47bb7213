"""Whether another step over the same members would decide the same, and until when.

A step that tried all that waits, decided nothing and left every earmark as it found it is at rest:
without an event, a second one finds nothing else. Only time may: work ages, foreseen starts and the
ends that they rest on pass, protections and holds run out. When the first of that is due is read
off the state. What is weighed against a wait that shrinks by the moment is never at rest. Next
step: `fleet.scheduling.engine` tells whoever asks for steps.
"""

from __future__ import annotations

from bisect import bisect_left
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.scheduling.placer import Placed
    from fleet.scheduling.queue.marks import Mark
    from fleet.scheduling.queue.state import State

_SOON: Final = 1e-6
"""Times as sums of floats differ by less."""


def earmarks_of(state: State) -> list[tuple[object, ...]]:
    """All that a step may change beside what it returns, for comparing."""
    return [
        (
            name, mark.item, mark.order, tuple(mark.held), mark.collects, mark.starts_s,
            mark.expires_s, mark.spared, tuple(sorted(mark.victims)), _seats(mark.placed),
        )
        for name, root in sorted(state.roots.items())
        for mark in root.marks.ordered()
    ]  # fmt: skip


def _seats(placed: Placed | None) -> object:
    """Plans are opaque here: where they are tells them apart as far as others are concerned."""
    if placed is None:
        return None
    return {name: dict(amounts) for name, amounts in placed.clusters.items()}


def until(state: State, now: float) -> float | None:
    """When time alone may change what a step decides; None where it may at once."""
    marks = [mark for root in state.roots.values() for mark in root.marks.ordered()]
    if any(root.stirred or root.awake for root in state.roots.values()):
        return None
    if any(mark.weighed or (mark.starts_s is not None and mark.starts_s <= now) for mark in marks):
        return None
    if any(
        root.marks.stale and not root.marks.by_uid.keys() <= state.searched.keys()
        for root in state.roots.values()
    ):
        return None
    times = [*_waits(state), *_starts(state, marks)]
    if marks:
        times += _ends(state, now)
    return min((at for at in times if at > now - _SOON), default=inf) - _SOON


def _waits(state: State) -> Iterator[float]:
    if state.timers:
        yield state.timers[0][0]
    for uid in state.lines.of:
        yield state.since[uid] + state.rules.aging_s


def _starts(state: State, marks: list[Mark]) -> Iterator[float]:
    """Until when others end in time before what room is held for, and it may have others ended."""
    run_times = {
        line.kind[3]
        for lines in state.lines.nodes.values()
        for line in lines.values()
        if line.kind[3] is not None
    }
    for mark in marks:
        if mark.expires_s is not None:
            yield mark.expires_s
        if mark.starts_s is not None:
            yield mark.starts_s
            yield mark.starts_s - state.rules.patience_s
            yield from (mark.starts_s - run_time_s for run_time_s in run_times)


def _ends(state: State, now: float) -> Iterator[float]:
    """From when what should have ended is not waited for, and what has just begun may be ended."""
    yield from (run.started_s for run in state.runs.by_uid.values() if run.started_s >= now)
    late_s = now - state.rules.patience_s
    for root in state.roots:
        ends = state.runs.ends(root)
        at = bisect_left(ends, (late_s, ""))
        if at < len(ends):
            yield ends[at][0] + state.rules.patience_s
