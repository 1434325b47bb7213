"""What it costs to bring a workload's data to where it runs.

Data that is on the cluster's own network costs nothing to read; from elsewhere the cheapest copy
with a known price is fetched, once. A route without a price is not free: what it costs is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.placement_policy import DataSet

_GIB: Final = 1 << 30
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Transfer:
    """What is moved to a cluster: millionths once, None where that is not known; and what of it."""

    micro: int | None = 0
    bytes: int = 0
    why: str = ""
    """What is not known."""


def transfer(
    data: Iterable[DataSet],
    *,
    cluster: str,
    network: str,
    per_gib: Mapping[tuple[str, str], int],
) -> Transfer:
    """What a workload that reads `data` costs for it in `cluster`, which is on `network`.

    `per_gib` are prices by the network that data leaves and the cluster it goes to.
    """
    micro, moved, unknown = 0, 0, list[str]()
    for each in data:
        if network and network in each.at:
            continue
        size = each.size.value
        moved += size
        offers = [per_gib[at, cluster] for at in each.at if (at, cluster) in per_gib]
        if offers:
            micro += -(-size * min(offers) // _GIB)
        elif size:
            unknown.append(f"{each.name or 'data'} from {' or '.join(each.at)} to {cluster}")
    if unknown:
        return Transfer(None, moved, f"no PriceBook says what it costs to move {unknown[0]}")
    return Transfer(micro, moved)


def spread(micro: int, run_time_s: float | None) -> int:
    """What a single payment adds to each hour of the run, rounded up.

    Of a run whose length is not known the first hour bears it all: it may be the only one.
    """
    run_ms = _HOUR_MS if run_time_s is None else max(1, int(run_time_s * 1000))
    return -(-micro * _HOUR_MS // run_ms)
