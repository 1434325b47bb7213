"""What a pod takes of a node, counted as kube-scheduler counts it.

Amounts are integers of the smallest unit: thousandths of a core for `cpu`, bytes or pieces for the
rest. Follows k8s.io/component-helpers `resource` (KEP-753 for sidecars, KEP-1287 for resizes,
KEP-2837 for requests of the whole pod). `capacity` sets these amounts against nodes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.kube.amounts import add, of_containers, raise_to
from fleet.kube.quantity import Format, Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]
Amounts = dict[str, int]
Vector = tuple[tuple[str, int], ...]
"""Amounts as a value: sorted by name, without zeros."""

PODS: Final = "pods"
_WHOLE_POD: Final = frozenset({"cpu", "memory"})


@lru_cache(maxsize=4096)
def amount(name: str, text: str) -> int:
    """Raises InvalidQuantity."""
    quantity = Quantity.parse(text)
    return quantity.milli_value if name == "cpu" else quantity.value


def amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """A ResourceList in smallest units."""
    if not resources:
        return {}
    return {name: amount(name, str(text)) for name, text in resources.items()}


def quantity_text(name: str, value: int) -> str:
    """The other way: `4`, `1500m`, `16Gi`."""
    if name == "cpu":
        return str(Quantity.milli(value))
    return str(
        Quantity.of(value, format=Format.BINARY_SI if _is_bytes(name) else Format.DECIMAL_SI)
    )


def vector(taken: Mapping[str, int]) -> Vector:
    return tuple(sorted((name, value) for name, value in taken.items() if value))


def pod_request(pod: Object) -> Amounts:
    """What the pod's node gives to it: its containers, sidecars and overhead, and the pod itself.

    `pod` is a Pod or a pod template; a status, where there is one, counts for resizes.
    """
    spec: Object = pod.get("spec") or {}
    resized = _resized(pod, spec)
    total = of_containers(spec, lambda container: _container(container, resized))
    if whole := (spec.get("resources") or {}).get("requests"):
        for name, text in whole.items():
            if name in _WHOLE_POD or name.startswith("hugepages-"):
                total[name] = amount(name, str(text))
    if overhead := spec.get("overhead"):
        add(total, amounts(overhead))
    total[PODS] = 1
    return total


class Resize(NamedTuple):
    """What a running container has, where that is not what it asks for."""

    actual: Amounts
    allocated: Amounts
    infeasible: bool


def _container(container: Object, resized: Mapping[str, Resize]) -> Amounts:
    resources = container.get("resources") or {}
    asked = amounts(resources.get("requests"))
    # What has a limit only requests that much; API servers write it down so, templates may not.
    for name, text in (resources.get("limits") or {}).items():
        if name not in asked:
            asked[name] = amount(name, str(text))
    resize = resized.get(container.get("name", "")) if resized else None
    if resize is None:
        return asked
    taken = dict(resize.actual) if resize.infeasible else asked
    raise_to(taken, resize.actual)
    raise_to(taken, resize.allocated)
    return taken


def _resized(pod: Object, spec: Object) -> dict[str, Resize]:
    """The containers whose status says something else than their spec, by name."""
    status: Object = pod.get("status") or {}
    found: dict[str, Resize] = {}
    for kind in ("containers", "initContainers"):
        statuses = status.get(f"{kind[:-1]}Statuses")
        if not statuses:
            continue
        asked = {
            each.get("name"): (each.get("resources") or {}).get("requests")
            for each in spec.get(kind) or ()
        }
        for each in statuses:
            actual = (each.get("resources") or {}).get("requests")
            allocated = each.get("allocatedResources")
            mine = asked.get(each.get("name"))
            if each.get("resources") and (actual != mine or (allocated or mine) != mine):
                infeasible = _infeasible(status)
                found[each["name"]] = Resize(amounts(actual), amounts(allocated), infeasible)
    return found


def _infeasible(status: Object) -> bool:
    return any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in status.get("conditions") or ()
    )


def _is_bytes(name: str) -> bool:
    return name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")


def accelerators(taken: Mapping[str, int] | Iterable[tuple[str, int]]) -> int:
    """How many accelerators that is: extended resources of a vendor, whatever their name."""
    pairs = taken.items() if hasattr(taken, "items") else taken
    return sum(value for name, value in pairs if is_accelerator(name))


def is_accelerator(name: str) -> bool:
    """`nvidia.com/gpu`, `amd.com/gpu`, `example.com/npu`; not `rdma/hca`, not `kubernetes.io/…`."""
    vendor, slash, device = name.partition("/")
    if not slash or vendor.endswith("kubernetes.io"):
        return False
    return device in _DEVICES or device.startswith(("gpu", "mig-", "npu", "tpu"))


_DEVICES: Final = frozenset(
    {"gpu", "npu", "tpu", "neuron", "neuroncore", "gaudi", "gcu", "mlu", "xpu", "accelerator"}
)
