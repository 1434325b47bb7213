"""Pods as real clusters have them, about 3.8 kB each with what the API server adds."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from fleet.testbed.local import LocalCluster

NAMESPACES = 20
CONCURRENCY = 64


def pod(number: int, *, prefix: str) -> dict[str, Any]:
    """Pod `number`; those of one app have one template, as a ReplicaSet's pods do."""
    app = f"a{number % 50}"
    digest = hashlib.sha256(f"{prefix}{app}".encode()).hexdigest()
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{app}-{digest[:10]}-{number:05}",
            "labels": {
                "app": app,
                "pod-template-hash": digest[:10],
                "app.kubernetes.io/part-of": f"team-{number % 7}",
            },
            "annotations": {
                "checksum/config": digest,
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9090",
            },
        },
        "spec": {
            "nodeName": f"node-{number % 100:03}",
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": name,
                    "image": f"registry.example.com/team/{name}:{digest[:12]}",
                    "args": ["--listen=:8080", f"--shard={number % 16}", "--log-format=json"],
                    "ports": [{"name": "http", "containerPort": 8080}],
                    "env": [
                        {
                            "name": "POD_IP",
                            "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
                        },
                        {"name": "SHARD", "value": str(number % 16)},
                        {"name": "TOKEN", "value": digest[:32]},
                    ],
                    "resources": {
                        "requests": {"cpu": "250m", "memory": "256Mi"},
                        "limits": {"memory": "512Mi"},
                    },
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
                }
                for name in ("app",)
            ],
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": app}],
        },
    }


def status(number: int) -> dict[str, Any]:
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    at = "2026-11-20T08:00:00Z"
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": "192.0.2.1",
        "startTime": at,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": at}
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": [
            {
                "name": name,
                "ready": True,
                "started": True,
                "restartCount": 0,
                "image": f"registry.example.com/team/{name}:1",
                "imageID": "",
                "containerID": f"containerd://{number:064x}",
                "state": {"running": {"startedAt": at}},
            }
            for name in ("app",)
        ],
    }


async def fill(cluster: LocalCluster, *, prefix: str, numbers: range) -> None:
    """Create the pods of `numbers` in `cluster`, running, spread over NAMESPACES namespaces."""
    connector = aiohttp.TCPConnector(ssl=cluster.ssl_context(), limit=CONCURRENCY)
    async with aiohttp.ClientSession(cluster.server, connector=connector) as session:

        async def call(method: str, path: str, body: dict[str, Any], kind: str) -> None:
            headers = {"Content-Type": kind}
            async with session.request(method, path, json=body, headers=headers) as answer:
                if answer.status >= 300 and answer.status != 409:
                    raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")

        for each in range(NAMESPACES):
            name = {"metadata": {"name": f"bench-{each}"}}
            await call("POST", "/api/v1/namespaces", name, "application/json")
        todo = iter(numbers)

        async def work() -> None:
            for number in todo:
                body = pod(number, prefix=prefix)
                pods = f"/api/v1/namespaces/bench-{number % NAMESPACES}/pods"
                await call("POST", pods, body, "application/json")
                path = f"{pods}/{body['metadata']['name']}/status"
                merge = "application/merge-patch+json"
                await call("PATCH", path, {"status": status(number)}, merge)

        async with asyncio.TaskGroup() as group:
            for each in range(CONCURRENCY):
                group.create_task(work(), name=f"fill {each}")
