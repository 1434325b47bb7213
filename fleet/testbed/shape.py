"""What nodes a member has: a shape is a node's capacity, labels and taints, and how many of it.

Pure values; `local` writes the Node objects, kwok keeps them Ready.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from fleet.errors import TestbedError
from fleet.testbed.binaries import KUBERNETES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

ACCELERATOR = "nvidia.com/gpu"
PRODUCT_LABEL = "nvidia.com/gpu.product"

_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_SPEC = re.compile(r"(?:(?P<count>\d+)\s*[*x]\s*)?(?P<pairs>.+)")


@dataclass(frozen=True, slots=True)
class NodeShape:
    """`count` equal nodes. `capacity` is in Kubernetes quantities and completed by the defaults."""

    count: int = 1
    capacity: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()

    @property
    def full_capacity(self) -> dict[str, str]:
        return {"cpu": "32", "memory": "256Gi", "pods": "110", **self.capacity}


_FILE = "nodes.json"


def remember(root: Path, nodes: Sequence[NodeShape]) -> None:
    """Write down in its folder what nodes a member is made with."""
    (root / _FILE).write_text(json.dumps([asdict(each) for each in nodes]))


def remembered(root: Path) -> tuple[NodeShape, ...] | None:
    """None for a member that was not made yet."""
    try:
        stored = json.loads((root / _FILE).read_text())
    except FileNotFoundError:
        return None
    return tuple(NodeShape(**each) for each in stored)


DEFAULT = (NodeShape(count=2, capacity={ACCELERATOR: "4"}, labels={PRODUCT_LABEL: "h200"}),)


def parse(text: str) -> NodeShape:
    """A shape as typed: `2*cpu=32,memory=256Gi,nvidia.com/gpu=8,label:zone=a`.

    Raises TestbedError naming the part that cannot be read.
    """
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise TestbedError(f"node shape {text!r} is empty; e.g. 2*cpu=32,memory=256Gi")
    capacity: dict[str, str] = {}
    labels: dict[str, str] = {}
    for part in match["pairs"].split(","):
        key, equals, value = part.strip().partition("=")
        if not (key and equals and value):
            raise TestbedError(f"node shape {text!r}: {part.strip()!r} is not KEY=VALUE")
        if key.startswith("label:"):
            labels[key.removeprefix("label:")] = value
        elif _QUANTITY.fullmatch(value):
            capacity[key] = value
        else:
            raise TestbedError(f"node shape {text!r}: {value!r} is not a quantity, e.g. 8 or 64Gi")
    count = int(match["count"] or 1)
    if count < 1:
        raise TestbedError(f"node shape {text!r}: a shape has at least one node")
    return NodeShape(count=count, capacity=capacity, labels=labels)


def nodes(shapes: Sequence[NodeShape], *, member: str) -> Iterator[dict[str, Any]]:
    """The Node objects `n1`, `n2`, … of one member, shape after shape."""
    number = 0
    for shape in shapes:
        for _ in range(shape.count):
            number += 1
            yield _node(f"n{number}", shape, member)


def _node(name: str, shape: NodeShape, member: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/region": member,
                "topology.kubernetes.io/zone": f"{member}-a",
                **shape.labels,
            },
        },
        "spec": {"taints": [dict(taint) for taint in shape.taints]} if shape.taints else {},
        "status": {
            "capacity": shape.full_capacity,
            "allocatable": shape.full_capacity,
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": f"v{KUBERNETES}",
                "osImage": "kwok",
                "containerRuntimeVersion": "kwok://",
                "kernelVersion": "kwok",
                "kubeProxyVersion": "",
                "machineID": name,
                "systemUUID": name,
                "bootID": name,
            },
        },
    }
