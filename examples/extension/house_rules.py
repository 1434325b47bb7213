"""What one company adds to placement: where a licence is valid, which power is green, what a cloud
charges. One of each kind of extension; README.md beside it says how it comes to the gateway."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.demand import Demand

NAMESPACES_WITH_LICENCE = {"simulation": "solver-9"}


class Licences:
    """Work of some namespaces runs only in clusters that their software is licensed for."""

    def why_not(self, demand: Demand, cluster: Cluster) -> str:
        licence = NAMESPACES_WITH_LICENCE.get(demand.workload.namespace)
        if licence is None or cluster.labels.get(f"example.com/licence-{licence}") == "true":
            return ""
        return f"{licence} is not licensed there"


class Green:
    """Among equals, the cluster whose power makes least carbon dioxide."""

    def score(self, demand: Demand, cluster: Cluster) -> int:
        grams_per_kwh = cluster.labels.get("example.com/grams-per-kwh", "")
        return -int(grams_per_kwh) if grams_per_kwh.isdecimal() else -1000


class PriceList:
    """Prices from a file that somebody else keeps up to date: {"p5": "98.32"}, and when they were
    fetched, where it says so; else they are true as of when they are read. `HOUSE_PRICES` names the
    file; without it there are no prices."""

    def prices(self) -> dict[str, Any]:
        file = os.environ.get("HOUSE_PRICES")
        listed = json.loads(Path(file).read_text(encoding="utf-8")) if file else {}
        fetched = listed.pop("fetched", None)
        dated = {} if fetched is None else {"asOf": fetched}
        return {
            "currency": "USD",
            "maxAge": "6h",
            "offers": [
                {
                    "cluster": "cloud-c",
                    "instanceType": name,
                    "billing": "Spot",
                    "perHour": price,
                    **dated,
                }
                for name, price in sorted(listed.items())
            ],
        }
