"""The Node objects of a small cluster. Pure.

A node here is a share of the machine's resources to schedule by, and nothing of its own: no
kernel, no file system, no network. The annotation says so to whoever describes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from virtualnode.conditions import stamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

Object = dict[str, Any]

ISOLATION_ANNOTATION: Final = "fleet.dev/isolation"
_FIRST: Final = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
_PRESSURES: Final = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """What all nodes of a cluster really run on; `architecture` in Go's words."""

    architecture: str = "amd64"
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node as it is to be: `capacity` in Kubernetes quantities, completed by the defaults."""

    name: str
    capacity: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()


def node(
    spec: NodeSpec,
    *,
    runtime: str,
    isolation: str,
    version: str,
    address: str,
    machine: Machine,
    now: datetime,
) -> Object:
    """The Node: ready, with the runtime's name and what it says of its isolation."""
    capacity = {**_FIRST, **spec.capacity}
    moment = stamp(now)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": spec.name,
            "labels": {
                "kubernetes.io/hostname": spec.name,
                "kubernetes.io/arch": machine.architecture,
                "kubernetes.io/os": "linux",
                **spec.labels,
            },
            "annotations": {ISOLATION_ANNOTATION: isolation},
        },
        "spec": {"taints": [dict(taint) for taint in spec.taints]} if spec.taints else {},
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": spec.name},
            ],
            "conditions": [
                *(
                    _condition(kind, "False", reason, text, moment)
                    for kind, reason, text in _PRESSURES
                ),
                _condition(
                    "Ready", "True", "KubeletReady", "kubelet is posting ready status", moment
                ),
            ],
            "nodeInfo": {
                "architecture": machine.architecture,
                "operatingSystem": "linux",
                "kubeletVersion": version,
                "kubeProxyVersion": "",
                "osImage": "local processes, not isolated",
                "containerRuntimeVersion": runtime,
                "kernelVersion": machine.kernel,
                "machineID": spec.name,
                "systemUUID": spec.name,
                "bootID": spec.name,
            },
        },
    }


def _condition(kind: str, status: str, reason: str, message: str, moment: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": moment,
        "lastTransitionTime": moment,
    }
