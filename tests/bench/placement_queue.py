"""Part of the placement bench: the scheduling engine under the three load shapes of Kueue's tests.

The traces are replayed in virtual time; preempted work is lost and runs again from the start. Timed
is the engine over the Placer that the gateway has, in CPU seconds of this process: everything
between the events of a moment and the decisions about them, each with a plan on nodes of a member.
A decision is a start or a choice of victims. A workload that is looked at and parked costs time and
counts nothing, however often it is looked at.

Published figures are of Kueue's own test: its scheduler with a real API server, by the wall clock.
So its makespan and waits hold what its API server takes, ours are those of the policy alone; the
work-bound minimum is the same for both. By the default rules nothing of these loads is evicted,
since there is room within a second; so the baseline is played once more with eager rules. A last
load, seeded, is all preemption: gangs of 1 to 32 accelerators in a tree of three levels, victims
that take half a minute to leave. There whole gangs round up what is evicted, as is printed.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from asking import Anywhere, opened
from queue_loads import BASELINE, LARGE, TOPOLOGY, Load, shortened
from queue_replay import Outcome, replay

from fleet.scheduling.engine import Engine
from fleet.scheduling.placer import Item
from fleet.scheduling.queue.rules import Rules
from fleet.scheduling.quota.tree import Key, Node, Share, Tree

GPU = Key("nvidia.com/gpu", "h200")
EAGER = Rules(patience_s=0)
"""As if starting again took no time and no wait were too short: evict wherever it pays."""


@dataclass(frozen=True)
class Published:
    """Means of Kueue's runs; a range where its runs with and without one option differ."""

    wall_s: float
    large_s: str
    medium_s: str
    small_s: str
    use: float


PUBLISHED = {
    BASELINE: Published(351.1, "6.7–16.5", "76.8", "215.5", 0.559),
    LARGE: Published(1179.4, "105.6", "256.4", "700.4", 0.386),
    TOPOLOGY: Published(401.5, "37.9–39.6", "106–107", "238–247", 0.624),
}


def play(load: Load, *, rules: Rules | None = None) -> Outcome:
    arrivals = load.arrivals()
    placer = opened([load.member()], [item for _, item in arrivals])
    return replay(
        Engine(load.tree(), placer, rules=rules),
        arrivals,
        class_of=lambda item: item.uid.partition("-")[0],
        clock=time.process_time,
    )


def storm(count: int, *, seed: int = 1) -> Outcome:
    """A tree of two times three nodes with 32 accelerators each, asked for more than it has."""
    draw = random.Random(seed)
    nodes = [Node("root", "", {GPU: Share(192)})]
    for half in ("left", "right"):
        nodes.append(Node(half, "root", {GPU: Share(96)}))
        nodes += [Node(f"{half}-{n}", half, {GPU: Share(32)}) for n in range(3)]
    arrivals = []
    at_ms = 0
    for number in range(count):
        at_ms += round(draw.expovariate(1 / 40_000))
        item = Item(
            uid=f"gang-{number}",
            quota=f"{draw.choice(('left', 'right'))}-{draw.randrange(3)}",
            priority=draw.choice((0, 0, 0, 10, 20)),
            sequence=number,
            requests={GPU: (size := draw.choice((1, 2, 4, 8, 8, 16, 24, 32)))},
            shape=size,
            run_time_s=draw.choice((300, 900, 1800)),
        )
        arrivals.append((at_ms, item))
    engine = Engine(Tree.of(nodes), Anywhere(), rules=Rules(worth=None))
    return replay(engine, arrivals, class_of=lambda item: "gang", leaving_ms=30_000)


def _evicted_per_requested(told: Outcome) -> float:
    return told.evicted_amount / told.requested_amount if told.preemptions else 0.0


def _print(name: str, asked: Load, told: Outcome) -> None:
    use = told.used / (asked.cohorts * asked.queues * 20_000 * told.makespan_s)
    print(
        f"{name:38}{told.makespan_s:9.1f}{asked.work_bound_s:9.1f}"
        f"{told.mean_wait_s('large'):12.2f}{told.mean_wait_s('medium'):9.2f}"
        f"{told.mean_wait_s('small'):9.2f}{use:8.1%}"
    )
    print(
        f"    {told.decisions / told.deciding_s:,.0f} decisions/s: {told.admitted} starts, "
        f"{told.preemptions} preemptions of {told.evicted} gangs in {told.deciding_s:.2f} s; "
        f"{told.lost / (told.lost + told.used):.1%} of the work was lost"
    )
    if told.unfinished:
        raise SystemExit(f"{told.unfinished} workloads of {asked.name} never ended")


def run(quick: bool) -> dict[str, float]:
    found: dict[Load, Outcome] = {}
    titles = f"{'wall s':>9}{'bound s':>9}{'wait large':>12}{'medium':>9}{'small':>9}{'use':>8}"
    print(f"{'the queue in virtual time':38}{titles}")
    for load, peer in PUBLISHED.items():
        asked = shortened(load) if quick else load
        told = found[load] = play(asked)
        _print(f"{load.name}, {asked.workloads} workloads", asked, told)
        if load is BASELINE:
            eager = play(asked, rules=EAGER)
            _print("  evicting wherever it pays", asked, eager)
        print(
            f"{'  Kueue, published':38}{peer.wall_s:9.1f}{load.work_bound_s:9.1f}"
            f"{peer.large_s:>12}{peer.medium_s:>9}{peer.small_s:>9}{peer.use:8.1%}"
        )
    gangs = storm(300 if quick else 2000)
    beyond = max(each.beyond_rounding for each in (*found.values(), eager, gangs))
    print(
        f"all preemption: {gangs.admitted} starts, {gangs.preemptions} preemptions of "
        f"{gangs.evicted} gangs, evicted/requested {_evicted_per_requested(gangs):.3f}; "
        f"most beyond what was asked for and one gang: {beyond}"
    )
    if gangs.unfinished or beyond > 0:
        raise SystemExit(f"{gangs.unfinished} gangs never ended; {beyond} evicted beyond rounding")
    baseline = found[BASELINE]
    bound_s = (shortened(BASELINE) if quick else BASELINE).work_bound_s
    return {
        "kueue_baseline_decisions_per_s": baseline.decisions / baseline.deciding_s,
        "kueue_large_decisions_per_s": found[LARGE].decisions / found[LARGE].deciding_s,
        "kueue_tas_decisions_per_s": found[TOPOLOGY].decisions / found[TOPOLOGY].deciding_s,
        "kueue_baseline_makespan_ratio": baseline.makespan_s / bound_s,
        "kueue_baseline_wait_large_s": baseline.mean_wait_s("large"),
        "evicted_per_requested": _evicted_per_requested(eager),
    }


if __name__ == "__main__":
    print(run(quick=True))
