"""Part of the placement bench: single pods with parts of accelerators on the nodes of a real trace.

Alibaba's GPU trace of 2023. Pods arrive in an order drawn by the seed, then more of them drawn
from the same list, until 130 % of the accelerators were asked for; who finds no room is turned
away. The share of accelerators in use at the end is compared with the best published figure, FGD's
own (Weng et al., USENIX ATC 2023), the mean over ten seeds.
"""

from __future__ import annotations

import csv
import gzip
import os
import random
import statistics
from pathlib import Path

from fleet.scheduling.nodelevel.chooser import Chooser
from fleet.scheduling.nodelevel.machines import WHOLE, Machine, Request
from fleet.scheduling.nodelevel.mix import Mix

TRACES = Path(os.environ.get("FLEET_TRACES") or Path(__file__).parents[3] / "shared" / "traces")
LISTS = {
    # key of the result: list of pods, published best in per cent
    "fgd_default_pct": ("openb_pod_list_default.csv.gz", 95.39),
    "fgd_multigpu_pct": ("openb_pod_list_multigpu50.csv.gz", 97.18),
}
NODES = "openb_node_list_gpu_node.csv.gz"
SEEDS = range(42, 52)
ASKED_FOR = 1.3


def machines() -> list[Machine]:
    return [
        Machine.empty(
            row["sn"],
            cpu=int(row["cpu_milli"]),
            memory=int(row["memory_mib"]),
            devices=int(row["gpu"]),
            model=row["model"],
        )
        for row in rows(NODES)
    ]


def requests(name: str) -> list[Request]:
    found = []
    for row in rows(name):
        devices = int(row["num_gpu"])
        models = frozenset(filter(None, (row.get("gpu_spec") or "").split("|")))
        share = int(row["gpu_milli"]) if devices == 1 else WHOLE
        found.append(Request(int(row["cpu_milli"]), int(row["memory_mib"]), devices, share, models))
    return found


def missing() -> str:
    """What of the trace is not there, and where it was looked for; "" where all is."""
    files = [NODES, *(name for name, _ in LISTS.values())]
    lacking = [name for name in files if not (TRACES / name).is_file()]
    if not lacking:
        return ""
    return (
        f"{', '.join(lacking)} of Alibaba's GPU trace of 2023: not in {TRACES}; set FLEET_TRACES "
        "to the folder that has them"
    )


def rows(name: str) -> list[dict[str, str]]:
    with gzip.open(TRACES / name, "rt") as file:
        return list(csv.DictReader(file))


def share_in_use(pods: list[Request], seed: int) -> float:
    """Per cent of the accelerators that are in use at the end."""
    everything = machines()
    there = sum(sum(each.left) for each in everything)
    chooser, chance = Chooser(everything, Mix.of(pods)), random.Random(seed)
    arriving = chance.sample(pods, len(pods))
    asked = used = 0
    while asked < ASKED_FOR * there:
        request = arriving.pop() if arriving else chance.choice(pods)
        asked += request.taken
        choice = chooser.choose(request)
        if choice is not None:
            chooser.take(request, choice)
            used += request.taken
    return 100 * used / there


def run(quick: bool) -> dict[str, float]:
    found = {}
    print("nodes of a trace             in use   published best   seeds")
    for key, (name, published) in LISTS.items():
        pods = requests(name)
        shares = [share_in_use(pods, seed) for seed in (SEEDS[:2] if quick else SEEDS)]
        found[key] = round(statistics.mean(shares), 2)
        title = name.removeprefix("openb_pod_list_").removesuffix(".csv.gz")
        print(f"{title:27} {found[key]:6.2f} % {published:14.2f} % {len(shares):7}")
    return found


if __name__ == "__main__":
    print(run(quick=False))
