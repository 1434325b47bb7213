"""What became of a trace on machines, as a document: `fleet simulate` prints it.

Shares are fractions, GPUs are counted in whole ones, times in seconds. Nothing is decided here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from fleet.scheduling.nodelevel.filling import kind_of
from fleet.scheduling.nodelevel.machines import WHOLE

if TYPE_CHECKING:
    from fleet.scheduling.nodelevel.filling import Filled, Kind, Use
    from fleet.scheduling.nodelevel.machines import Request
    from fleet.scheduling.nodelevel.mix import Mix

Object = dict[str, Any]

WHY: Final = {
    "NoSuchModel": "no node has a GPU of a model that it asks for",
    "TooLarge": "no node could hold it even if it were empty",
    "Full": "less is free than it asks for",
    "InParts": "as much is free, in parts on several nodes or devices",
    "NoCores": "on most nodes that have its GPUs free, cores are not",
    "NoMemory": "on most nodes that have its GPUs free, memory is not",
}
"""Why a pod has no place, by the word for it."""


def told(filled: Filled, *, policy: str, mix: Mix) -> Object:
    """`mix` is of all pods: what they could not use is stranded."""
    stranded: Counter[Kind] = Counter()
    nodes: Counter[Kind] = Counter()
    for each in filled.machines:
        nodes[kind_of(each)] += 1
        stranded[kind_of(each)] += mix.stranded(each.cpu, each.left)
    weight = max(mix.weight, 1)
    waits = filled.waits_s
    return {
        "policy": policy,
        "nodes": len(filled.machines),
        "gpus": filled.total.whole // WHOLE,
        "gpusAskedFor": _gpus(filled.asked),
        "lastedSeconds": round(filled.lasted_s, 3),
        "pods": {
            "arrived": filled.arrived,
            "placed": filled.placed,
            "waited": len(waits),
            "notPlaced": filled.turned_away.total(),
        },
        "waitSeconds": {
            "mean": round(sum(waits) / max(filled.placed, 1), 3),
            "longest": max(waits, default=0),
        },
        "allocated": _allocated(filled.total, filled.lasted_s),
        "stranded": _share(sum(stranded.values()) / weight, filled.total.whole),
        "nodeKinds": [
            {
                "name": _kind(kind),
                "nodes": nodes[kind],
                "gpus": use.whole // WHOLE,
                "allocated": _allocated(use, filled.lasted_s),
                "stranded": _share(stranded[kind] / weight, use.whole),
            }
            for kind, use in sorted(filled.use.items())
        ],
        "notPlaced": _turned_away(filled),
    }


def _turned_away(filled: Filled) -> list[Object]:
    """What asks for most first; parts of a GPU together."""
    pods: Counter[tuple[str, str]] = Counter()
    taken: Counter[tuple[str, str]] = Counter()
    for (reason, request), count in filled.turned_away.items():
        key = reason, _asks(request)
        pods[key] += count
        taken[key] += count * request.taken
    return [
        {
            "reason": reason,
            "message": WHY[reason],
            "asks": asks,
            "pods": pods[reason, asks],
            "gpus": _gpus(taken[reason, asks]),
        }
        for reason, asks in sorted(pods, key=lambda key: (-taken[key], -pods[key], key))
    ]


def _asks(request: Request) -> str:
    if not request.devices:
        return "no GPU"
    if request.share < WHOLE:
        text = "a part of a GPU"
    else:
        text = f"{request.devices} GPU" + ("s" if request.devices > 1 else "")
    models = "|".join(sorted(request.models))
    return f"{text} ({models})" if models else text


def _kind(kind: Kind) -> str:
    model, devices = kind
    return f"{model or 'GPU'} × {devices}" if devices else "no GPU"


def _gpus(thousandths: int) -> float:
    return round(thousandths / WHOLE, 3)


def _allocated(use: Use, lasted_s: float) -> Object:
    return {
        "atEnd": _share(use.now, use.whole),
        "peak": _share(use.peak, use.whole),
        "mean": _share(use.mean(lasted_s), use.whole),
    }


def _share(part: float, whole: int) -> float | None:
    """None where there is nothing to have a share of."""
    return round(part / whole, 6) if whole else None
