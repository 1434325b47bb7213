"""A trace through an engine, in virtual milliseconds.

What is admitted runs for its declared time; what is evicted loses all it ran, leaves after
`leaving_ms` and runs again from the start. Only the time spent in the engine is measured, by a
clock that is passed in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from fleet.scheduling.decisions import Admit, Preempt, Refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fleet.scheduling.engine import Engine
    from fleet.scheduling.placer import Item
    from fleet.scheduling.quota.tree import Key


@dataclass(slots=True)
class Outcome:
    makespan_s: float = 0
    waits_s: dict[str, list[float]] = field(default_factory=dict)
    """From arrival to the start of the run that ended, by class."""
    admitted: int = 0
    """Every start counts, those that were evicted later too."""
    preemptions: int = 0
    evicted: int = 0
    evicted_amount: int = 0
    requested_amount: int = 0
    """Of preemptors; in the smallest unit of the resource that is looked at."""
    beyond_rounding: int = 0
    """The most that any preemption evicted beyond what it asked for and its largest victim."""
    parked: int = 0
    refused: int = 0
    deciding_s: float = 0
    used: float = 0
    """Amount × seconds that ran to an end."""
    lost: float = 0
    """Amount × seconds that were evicted."""
    unfinished: int = 0

    def mean_wait_s(self, name: str) -> float:
        waits = self.waits_s.get(name, [])
        return sum(waits) / len(waits) if waits else 0.0

    @property
    def decisions(self) -> int:
        """Starts and choices of victims; parking is counted with the work, not with the output."""
        return self.admitted + self.preemptions + self.refused


def replay(
    engine: Engine,
    arrivals: Iterable[tuple[int, Item]],
    *,
    class_of: Callable[[Item], str],
    amount_of: Callable[[Mapping[Key, int]], int] = lambda amounts: sum(amounts.values()),
    run_ms: Callable[[Item], int] | None = None,
    leaving_ms: int = 0,
    clock: Callable[[], float] = lambda: 0.0,
    until_ms: int | None = None,
) -> Outcome:
    """`run_ms` where work runs longer or shorter than it declares."""
    out = Outcome()
    events: list[tuple[int, int, int, str, Item | None]] = []
    number = 0

    def push(at_ms: int, what: int, uid: str, item: Item | None = None) -> None:
        nonlocal number
        number += 1
        heappush(events, (at_ms, what, number, uid, item))

    arrived: dict[str, int] = {}
    for at_ms, item in arrivals:
        push(at_ms, _ARRIVES, item.uid, item)
        arrived[item.uid] = at_ms
    runs: dict[str, tuple[int, Item]] = {}
    waiting = len(arrived)
    while events and (until_ms is None or events[0][0] <= until_ms):
        now_ms = events[0][0]
        now = now_ms / 1000
        begun = clock()
        while events and events[0][0] == now_ms:
            _, what, _, uid, work = heappop(events)
            if what == _ARRIVES and work is not None:
                engine.submit(work, now)
            elif what == _LEAVES:
                engine.evicted(uid, now)
            elif what == _ENDS and uid in runs and runs[uid][1] is work:
                started_ms, item = runs.pop(uid)
                engine.finish(uid)
                waiting -= 1
                out.makespan_s = now
                out.used += amount_of(item.requests) * (now_ms - started_ms) / 1000
                out.waits_s.setdefault(class_of(item), []).append(
                    (started_ms - arrived[uid]) / 1000
                )
        decided = engine.step(now)
        out.deciding_s += clock() - begun
        for each in decided:
            if isinstance(each, Admit):
                out.admitted += 1
                runs[each.uid] = (now_ms, each.item)
                declared_ms = round((each.item.run_time_s or 0) * 1000)
                push(
                    now_ms + (run_ms(each.item) if run_ms else declared_ms),
                    _ENDS,
                    each.uid,
                    each.item,
                )
            elif isinstance(each, Preempt):
                out.preemptions += 1
                amounts = []
                for uid in each.victims:
                    started_ms, victim = runs.pop(uid)
                    amounts.append(amount_of(victim.requests))
                    out.lost += amounts[-1] * (now_ms - started_ms) / 1000
                    push(now_ms + leaving_ms, _LEAVES, uid)
                requested = amount_of(each.item.requests)
                out.requested_amount += requested
                out.evicted += len(amounts)
                out.evicted_amount += sum(amounts)
                beyond = sum(amounts) - max(amounts) - requested
                out.beyond_rounding = max(out.beyond_rounding, beyond)
            elif isinstance(each, Refuse):
                out.refused += 1
                waiting -= 1
            else:
                out.parked += 1
        again_s = engine.next_s()
        if again_s is not None and again_s > now:
            push(max(now_ms + 1, -int(-again_s * 1000 // 1)), _LOOKS, "")
    out.unfinished = waiting
    return out


_ENDS, _LEAVES, _ARRIVES, _LOOKS = range(4)
