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
    """Prices from a file that somebody else keeps up to date: {"fetched": TIME, "p5": "98.32"}."""

    def prices(self) -> dict[str, Any]:
        file = Path(os.environ.get("HOUSE_PRICES", "/etc/fleet/prices.json"))
        listed = json.loads(file.read_text(encoding="utf-8"))
        fetched = listed.pop("fetched")
        return {
            "currency": "USD",
            "maxAge": "6h",
            "offers": [
                {
                    "cluster": "cloud-c",
                    "instanceType": name,
                    "billing": "Spot",
                    "perHour": price,
                    "asOf": fetched,
                }
                for name, price in sorted(listed.items())
            ],
        }
