"""How much of a fleet runs work: clusters per team, one quota tree, and a tree that lends.

One week in virtual time, four clusters, the load of `utilisation_week.py`, drawn once by its seed
and played three ways. Utilisation is accelerator-hours running work / accelerator-hours owned:

- `util_…` counts instances of serving that its users need, and training whose result was kept; a
  piece of work that was thrown away and run again counts once;
- *busy* counts that twice, as a meter would; *goodput* takes off as well what went into starting
  again and into last checkpoints.

Spare capacity that serving keeps is no work. `floor_breaks` counts, under lending, the moments at
which serving had fewer instances than its users needed, those at which what is on loan and was not
called back reached into its floor, and loans that outlasted their notice. Whether free nodes are in
the right clusters for the loss of any one is in the table for each way; no way promises that for
every minute, since work that is within its own quota goes where it finds room.

`cost_ratio_optimum` is of the first day, which the exact optimum is proven for
(`utilisation_optimum.py`). `--quick` plays two days and holds nothing against the bounds; `--days`
only tells that ratio of so many loads, drawn by as many seeds, without a bound on any.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from textwrap import fill
from typing import TYPE_CHECKING

import utilisation_optimum as offline
from utilisation_machines import NODE
from utilisation_week import (
    CHECKPOINT_S,
    GRACE_S,
    HOUR_S,
    INSTANCE,
    NOTICE_S,
    RESTART_S,
    SAVE_S,
    SHARES,
    SIZES,
    TERM_S,
    play,
    week,
)

from fleet.errors import ConfigError

if TYPE_CHECKING:
    from utilisation_week import Load, Told

WAYS = {
    "static": "a cluster for each team",
    "fleet": "one quota tree, nothing of serving's lent",
    "lending": "the same, with a LendingPolicy",
}
LONGEST_WAIT_H = 72
"""With as much asked for as nobody could run, gangs wait days; none may wait longer than this."""
AT_LEAST = {"util_lending": 0.90, "util_gain": 0.05}
AT_MOST = {
    "floor_breaks": 0,
    "cost_ratio_optimum": 1.05,
    "longest_wait_h": LONGEST_WAIT_H,
    "queue_empty_h": 0,
}


def assumptions(load: Load) -> None:
    instances = load.instances
    free_h = load.owned * load.lasts_s / HOUR_S - load.serving_h
    sizes = ", ".join(f"{size}: {part} %" for size, part in SIZES.items())
    teams = ", ".join(f"{team} {part} %" for team, part in SHARES.items())
    nodes, days = next(iter(load.clusters.values())), load.lasts_s // (24 * HOUR_S)
    few, many = min(instances), max(instances)
    told = {
        "fleet": f"{len(load.clusters)} clusters of {nodes} nodes with {NODE} accelerators, "
        f"{load.owned} in all, {days} days; a quarter is guaranteed to serving, a quarter to each "
        "of three teams of training",
        "serving": f"{few} to {many} instances of {INSTANCE} accelerators by time of day (lowest "
        f"at 04:00, highest at 16:00, 20 % less on two days, 4 % noise), peak/trough "
        f"{many / few:.1f}; in one cluster where each team has its own, else over all; scaled at "
        "once, every five minutes",
        "training": f"{len(load.gangs)} gangs, {load.offered_h:,.0f} accelerator-hours: "
        f"{load.offered_h / free_h:.0%} of what serving leaves of the fleet, so that the queue is "
        "never empty; six hours' worth waits at the start. Accelerators in a gang "
        f"{sizes}; teams ask for {teams}; run times log-normal, median 1.5 h, 15 min to 24 h, "
        "declared as a round number above, up to 30 % more",
        "ending": f"checkpoints every {CHECKPOINT_S // 60} min; what is evicted leaves in "
        f"{GRACE_S} s and loses the work since, what is called back saves in {SAVE_S} s of "
        f"its notice; starting again takes {RESTART_S} s, as the work's policy says",
        "loans": f"term {TERM_S // HOUR_S} h, renewed while idle, notice {NOTICE_S // 60} min; "
        "serving keeps what it needs, what grew lately, and what it has in any one cluster",
        "nodes": "run serving or training at a time; gangs of 8 and more take whole nodes of one "
        "cluster, or of two",
    }
    print("assumed")
    for name, text in told.items():
        print(fill(f"{name:10}{text}", 100, initial_indent="  ", subsequent_indent=" " * 12))


def table(found: dict[str, Told]) -> None:
    print(
        f"\n{'':44}{'util':>8}{'busy':>8}{'goodput':>9}{'lost':>7}{'evicted':>9}"
        f"{'too few':>9}{'spare short':>13}"
    )
    for way, told in found.items():
        lasts_h = told.lasts_h
        print(
            f"{way + ': ' + WAYS[way]:44.44}{told.util:8.1%}{told.busy:8.1%}{told.goodput:9.1%}"
            f"{told.lost / told.owned:7.1%}{told.evictions:9}{told.too_few:9}"
            f"{told.unsafe_h / lasts_h:9.1%} of time"
        )
    print("\nhours waited for the first start, mean / most, by accelerators in the gang")
    sizes = sorted(next(iter(found.values())).waits_s)
    print(f"{'':12}" + "".join(f"{size:>14}" for size in sizes) + f"{'not started':>14}")
    for way, told in found.items():
        waits = [told.waits_s[size] for size in sizes]
        cells = (f"{sum(w) / len(w) / HOUR_S:.1f} / {max(w) / HOUR_S:.1f}" for w in waits)
        print(f"{way:12}" + "".join(f"{cell:>14}" for cell in cells) + f"{told.never:>14}")
    told = found["lending"]
    print(
        f"\n{told.lent} loans: {told.renewed} renewed, {told.recalled} called back, {told.settled} "
        f"covered by the borrower's own quota later; the spare was short for "
        f"{told.unsafe_longest_s / 60:.0f} min at most\n"
        f"longest wait of any gang {told.longest_wait_h:.1f} h, allowed {LONGEST_WAIT_H} h; "
        f"the queue was empty for {told.idle_queue_h:.1f} h"
    )


def against_optimum(*, seed: int) -> float | None:
    """None where OR-tools is not installed."""
    load = offline.shortened(hours=24, nodes=32, seed=seed)
    try:
        best = offline.optimum(load)
    except ConfigError as error:
        print(f"SKIPPED: cost_ratio_optimum is left out: {error}", file=sys.stderr)
        return None
    told = play(load, "lending")
    ratio = offline.ratio(load, told, best)
    proven = "proven by CP-SAT" if best.proven else f"not proven; at least {best.bound_h:.0f}"
    print(
        f"\none day, {len(load.gangs)} gangs of {load.offered_h:,.0f} accelerator-hours, what is "
        f"not done by its end bought on demand\n"
        f"  bought: {told.left_h:,.0f} h, by the offline optimum {best.bought_h:,.0f} h "
        f"({proven}); ratio of that alone {told.left_h / best.bought_h:.3f}\n"
        f"  cost at {offline.OWN_PER_H:.2f} an hour owned, used or not, and "
        f"{offline.BOUGHT_PER_H:.2f} bought: {offline.cost(load, told.left_h):,.0f} and "
        f"{offline.cost(load, best.bought_h):,.0f}; ratio {ratio:.4f}"
    )
    return ratio if best.proven else None


def days(count: int) -> dict[str, float]:
    """The same of loads drawn by as many seeds, against what CP-SAT found in its time; and the most
    that it can be, by what was proven."""
    print(
        f"{'seed':>4}{'ratio':>9}{'at most':>9}{'bought':>9}{'optimum':>9}{'lost':>7}{'evicted':>9}"
    )
    results = {}
    for seed in range(1, count + 1):
        load = offline.shortened(hours=24, nodes=32, seed=seed)
        best, told = offline.optimum(load), play(load, "lending")
        ratio = offline.ratio(load, told, best)
        most = offline.cost(load, told.left_h) / offline.cost(load, best.bound_h)
        print(
            f"{seed:4}{ratio:9.4f}{most:9.4f}{told.left_h:8,.0f}h{best.bought_h:8,.0f}h"
            f"{told.lost:6,.0f}h{told.evictions:9}",
            flush=True,
        )
        results[f"cost_ratio_optimum_seed_{seed}"] = ratio
    return results


def missed(results: dict[str, float]) -> list[str]:
    low = [(k, "<", bound) for k, bound in AT_LEAST.items() if results.get(k, bound) < bound]
    high = [(k, ">", bound) for k, bound in AT_MOST.items() if results.get(k, bound) > bound]
    return [f"{key} {results[key]:.4g} {sign} {bound}" for key, sign, bound in low + high]


def results_of(found: dict[str, Told]) -> dict[str, float]:
    lending = found["lending"]
    return {
        **{f"util_{way}": told.util for way, told in found.items()},
        "util_gain": lending.util - found["fleet"].util,
        "floor_breaks": lending.floor_breaks,
        "longest_wait_h": lending.longest_wait_h,
        "queue_empty_h": lending.idle_queue_h,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="two days; no bounds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--days", type=int, metavar="N", help="only a day of seeds 1 to N; no bounds"
    )
    options = parser.parse_args()
    if options.days is not None:
        ratios = days(options.days)
        if options.json:
            print(json.dumps({key: round(value, 4) for key, value in ratios.items()}))
        return
    began = time.perf_counter()
    load = week(days=2 if options.quick else 7, seed=options.seed)
    assumptions(load)
    found = {way: play(load, way) for way in WAYS}
    table(found)
    results = results_of(found)
    ratio = against_optimum(seed=options.seed)
    if ratio is not None:
        results["cost_ratio_optimum"] = ratio
    below = [] if options.quick else missed(results)
    told = "quick: nothing is measured" if options.quick else "every bound holds"
    print(f"\n{'missed: ' + ', '.join(below) if below else told}")
    lasted_s = time.perf_counter() - began
    print(f"({lasted_s:.0f} s, {time.process_time():.0f} s of it on a processor)", flush=True)
    if options.json:
        print(json.dumps({key: round(value, 4) for key, value in results.items()}))
    sys.exit(bool(below))


if __name__ == "__main__":
    main()
