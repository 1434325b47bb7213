"""Deciding over a fleet: speed and quality of the scheduler, next to the best published figures.

Put together of parts, `placement_*.py` beside this file: each has `run(quick)`, which prints tables
and returns its figures. A part that needs what is not installed is said so, its figures are left
out; input that is not there is looked for before anything is measured. `--quick` takes smaller
inputs, whose figures are no measure; then nothing is held against the bounds.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import sys
import time
from pathlib import Path

AT_LEAST = {
    "kueue_baseline_decisions_per_s": 2000,
    "kueue_large_decisions_per_s": 1000,
    "kueue_tas_decisions_per_s": 500,
    "exact_equal_share": 0.95,
    "fgd_default_pct": 95.39 - 0.3,
    "fgd_multigpu_pct": 97.18 - 0.3,
}
AT_MOST = {
    "kueue_baseline_makespan_ratio": 1.1,
    "kueue_baseline_wait_large_s": 6.7,
    "evicted_per_requested": 1.0,
    "gang_p99_ms": 50,
    "growth_100_to_1000": 12,
    "refused_feasible": 0,
    "mean_gap": 0.01,
    "batch_gap": 0.01,
}
OPTIONAL = {"ortools": "exact"}
"""Packages that a part may lack, and the extra that brings them."""


def parts() -> list[str]:
    names = sorted(path.stem for path in Path(__file__).parent.glob("placement_*.py"))
    return [
        name for name in names if "def run(" in Path(__file__).with_name(f"{name}.py").read_text()
    ]


def measure(name: str, *, quick: bool) -> dict[str, float]:
    print(f"\n== {name.removeprefix('placement_')}", flush=True)
    began = time.perf_counter()
    try:
        found = importlib.import_module(name).run(quick)
    except ModuleNotFoundError as lacking:
        extra = OPTIONAL.get((lacking.name or "").partition(".")[0])
        if extra is None:
            raise
        print(
            f"SKIPPED: {name} needs {lacking.name}, which is not installed "
            f"(pip install 'fleet-gateway[{extra}]'); its figures are left out",
            file=sys.stderr,
        )
        return {}
    print(f"({time.perf_counter() - began:.0f} s)", flush=True)
    gc.collect()
    return dict(found)


def lacking(names: list[str]) -> list[str]:
    """What is not there of the inputs of these parts, which each says of itself by `missing`."""
    found = []
    for name in names:
        try:
            module = importlib.import_module(f"placement_{name}")
        except ModuleNotFoundError:
            continue  # said when its turn comes
        if told := getattr(module, "missing", str)():
            found.append(f"part {name} lacks {told}")
    return found


def missed(results: dict[str, float]) -> list[str]:
    low = [(k, "<", bound) for k, bound in AT_LEAST.items() if results.get(k, bound) < bound]
    high = [(k, ">", bound) for k, bound in AT_MOST.items() if results.get(k, bound) > bound]
    return [f"{key} {results[key]:.4g} {sign} {bound}" for key, sign, bound in low + high]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="smaller inputs; no bounds")
    known = [name.removeprefix("placement_") for name in parts()]
    parser.add_argument("--part", choices=known, action="append", help="only this one")
    options = parser.parse_args()
    chosen = options.part or known
    if without := lacking(chosen):
        for told in without:
            print(f"scripts/bench placement: {told}", file=sys.stderr)
        others = [each for each in known if each not in {told.split()[1] for told in without}]
        print(f"without them: {' '.join(f'--part {each}' for each in others)}", file=sys.stderr)
        sys.exit(2)
    results: dict[str, float] = {}
    for part in chosen:
        results |= measure(f"placement_{part}", quick=options.quick)
    below = [] if options.quick else missed(results)
    told = "quick: nothing is measured" if options.quick else "every bound holds"
    print("\n" + ("missed: " + ", ".join(below) if below else told))
    if options.json:
        print(json.dumps({key: round(value, 4) for key, value in results.items()}))
    sys.exit(bool(below))


if __name__ == "__main__":
    main()
