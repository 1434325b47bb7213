"""Part of the placement bench: single pods with parts of accelerators on the nodes of a real trace.

Alibaba's GPU trace of 2023. Pods arrive in an order drawn by the seed, then more of them drawn
from the same list, until 130 % of the accelerators were asked for; who finds no room is turned
away. The share of accelerators in use at the end is compared with the best published figure, FGD's
own (Weng et al., USENIX ATC 2023), the mean over ten seeds. It is what `fleet simulate --fill 130`
plays.
"""

from __future__ import annotations

import gzip
import os
import random
import statistics
from pathlib import Path

from fleet.scheduling.nodelevel.filling import filled
from fleet.scheduling.nodelevel.mix import Mix
from fleet.scheduling.nodelevel.rules import Fgd
from fleet.scheduling.nodelevel.trace import Trace, trace_of

TRACES = Path(os.environ.get("FLEET_TRACES") or Path(__file__).parents[3] / "shared" / "traces")
LISTS = {
    # key of the result: list of pods, published best in per cent
    "fgd_default_pct": ("openb_pod_list_default.csv.gz", 95.39),
    "fgd_multigpu_pct": ("openb_pod_list_multigpu50.csv.gz", 97.18),
}
NODES = "openb_node_list_gpu_node.csv.gz"
SEEDS = range(42, 52)
ASKED_FOR = 1.3


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


def trace(pods: str) -> Trace:
    files = [TRACES / NODES, TRACES / pods]
    return trace_of((each.name, gzip.decompress(each.read_bytes())) for each in files)


def share_in_use(of: Trace, seed: int) -> float:
    """Per cent of the accelerators that are in use at the end."""
    rule = Fgd(Mix.of(pod.request for pod in of.pods))
    use = filled(of, rule, asked=ASKED_FOR, chance=random.Random(seed)).total
    return 100 * use.now / use.whole


def run(quick: bool) -> dict[str, float]:
    found = {}
    print("nodes of a trace             in use   published best   seeds")
    for key, (name, published) in LISTS.items():
        of = trace(name)
        shares = [share_in_use(of, seed) for seed in (SEEDS[:2] if quick else SEEDS)]
        found[key] = round(statistics.mean(shares), 2)
        title = name.removeprefix("openb_pod_list_").removesuffix(".csv.gz")
        print(f"{title:27} {found[key]:6.2f} % {published:14.2f} % {len(shares):7}")
    return found


if __name__ == "__main__":
    print(run(quick=False))
