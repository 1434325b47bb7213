"""Small fleets and workloads, built from the objects a member would show."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from asking import capacity_of

from fleet.scheduling.clusters import Cluster
from fleet.scheduling.demand import Demand, demand_of
from fleet.scheduling.price import Prices, prices_of
from fleet.scheduling.selection import Policy, policy_of

Object = dict[str, Any]
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


class Build:
    """Builders with the defaults of a plain accelerator fleet."""

    now = NOW

    @staticmethod
    def node(
        name: str,
        gpus: int = 8,
        *,
        cpu: str = "64",
        memory: str = "256Gi",
        pods: str = "110",
        labels: Object | None = None,
        taints: list[Object] | None = None,
        ready: str | None = "True",
        unschedulable: bool = False,
    ) -> Object:
        allocatable = {"cpu": cpu, "memory": memory, "pods": pods}
        if gpus:
            allocatable["nvidia.com/gpu"] = str(gpus)
        conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
        spec: Object = {"taints": taints} if taints else {}
        if unschedulable:
            spec["unschedulable"] = True
        return {
            "metadata": {
                "name": name,
                "labels": {"fleet.dev/accelerator": "h200", **(labels or {})},
            },
            "spec": spec,
            "status": {"allocatable": allocatable, "conditions": conditions},
        }

    @staticmethod
    def pod(
        name: str,
        node: str,
        *,
        requests: Object | None = None,
        phase: str = "Running",
        labels: Object | None = None,
    ) -> Object:
        return {
            "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "main", "resources": {"requests": requests or {}}}],
            },
            "status": {"phase": phase},
        }

    @classmethod
    def cluster(
        cls,
        name: str,
        gpus: int | list[int] = 8,
        *,
        plane: str = "roce-1",
        provider: str = "own",
        blocks: list[str] | None = None,
        as_of_s: float = 0.0,
        **more: Any,
    ) -> Cluster:
        """A member whose nodes have `gpus` accelerators each; `blocks` names each node's block."""
        sizes = [gpus] if isinstance(gpus, int) else gpus
        nodes = [
            cls.node(f"n{i}", size, labels={"rack": blocks[i]} if blocks else None)
            for i, size in enumerate(sizes)
        ]
        capacity = capacity_of(nodes, [], as_of_s=as_of_s, block_label="rack" if blocks else "")
        return Cluster(
            name=name,
            labels={"fleet.dev/provider": provider},
            capacity=capacity,
            parameter_plane=plane,
            **more,
        )

    @staticmethod
    def policy(spec: Object | None = None, *, name: str = "gang") -> Policy:
        metadata = {"name": name, "namespace": "default"}
        return policy_of({"metadata": metadata, "spec": spec or {}})

    @staticmethod
    def job(
        pods: int = 1,
        *,
        name: str = "train",
        requests: Object | None = None,
        labels: Object | None = None,
        **spec: Any,
    ) -> Object:
        wanted = {"nvidia.com/gpu": "1"} if requests is None else requests
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "labels": labels or {},
            },
            "spec": {
                "completionMode": "Indexed",
                "parallelism": pods,
                "completions": pods,
                "template": {
                    "spec": {"containers": [{"name": "main", "resources": {"requests": wanted}}]}
                },
                **spec,
            },
        }

    @classmethod
    def demand(
        cls, pods: int = 1, spec: Object | None = None, *, name: str = "train", **job: Any
    ) -> Demand:
        return demand_of(cls.job(pods, name=name, **job), cls.policy(spec).spec)

    @staticmethod
    def prices(*offers: Object, currency: str = "USD", now: datetime = NOW) -> Prices:
        book = {
            "metadata": {"name": "current"},
            "spec": {"currency": currency, "offers": [*offers]},
        }
        return prices_of([book], now=now)


@pytest.fixture(scope="session")
def build() -> type[Build]:
    return Build
