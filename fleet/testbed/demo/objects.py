"""The objects of the story: what the operator of a fleet, and its users, would apply."""

from __future__ import annotations

import sys
from typing import Any

Object = dict[str, Any]

NAMESPACE = "story"
GPU = "nvidia.com/gpu"
POLICY = "fleet.dev/policy"
MASTER_PORT = 29500


def cluster_patch(*, plane: str, provider: str) -> Object:
    """What the operator says of a member: its networks, and whose it is."""
    return {
        "metadata": {"labels": {"fleet.dev/provider": provider}},
        "spec": {"networks": {"parameterPlane": plane}},
    }


def namespace() -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def policies(*, lease_s: float) -> list[Object]:
    """`spread` splits over clusters of one plane, `loose` over any; `small` keeps a job in one. All
    take own clusters first.

    A cluster that is silent for `lease_s` has lost what it runs.
    """
    tiers = [
        {"name": "own", "selector": {"matchLabels": {"fleet.dev/provider": "own"}}},
        {"name": "cloud", "selector": {"matchLabels": {"fleet.dev/provider": "cloud"}}},
    ]
    common = {"clusters": {"tiers": tiers}, "failover": {"tolerate": f"{lease_s:.0f}s"}}
    return [
        _policy("spread", {"mode": "Split", **common, "gang": {"unit": 1}}),
        _policy("loose", {"mode": "Split", **common, "gang": {"network": "None"}}),
        _policy("small", {"mode": "One", **common}),
    ]


def price_book(prices: dict[str, str], *, as_of: str) -> Object:
    """`prices` by cluster, per accelerator hour; "" where the hardware is owned."""
    offers = [
        {
            "cluster": cluster,
            "billing": "OnDemand",
            "per": "Accelerator",
            "perHour": price,
            "asOf": as_of,
        }
        if price
        else {"cluster": cluster, "billing": "Owned"}
        for cluster, price in sorted(prices.items())
    ]
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PriceBook",
        "metadata": {"name": "current"},
        "spec": {"currency": "USD", "offers": offers},
    }


def job(name: str, ranks: int, *, policy: str, program: str, arguments: tuple[str, ...]) -> Object:
    """An Indexed Job of `ranks` processes with one accelerator each, running `program`."""
    container = {
        "name": "worker",
        "image": "python",
        "command": [sys.executable, program, *arguments],
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {POLICY: policy}},
        "spec": {
            "completionMode": "Indexed",
            "completions": ranks,
            "parallelism": ranks,
            "backoffLimit": 6,
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "restartPolicy": "OnFailure",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                },
            },
        },
    }


def _policy(name: str, spec: Object) -> Object:
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }
