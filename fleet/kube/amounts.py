"""Sums of what is asked for, by resource: whole numbers or quantities alike.

A pod's containers run beside each other, its init containers one after the other before them, and
sidecars from their turn on (KEP-753; component-helpers `resource.AggregateContainerRequests`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from fleet.kube.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Object = dict[str, Any]
N = TypeVar("N", int, Quantity)


def add(total: dict[str, N], more: Mapping[str, N]) -> None:
    """`more` on top, in place."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def raise_to(total: dict[str, N], least: Mapping[str, N]) -> None:
    """At least `least` of each, in place."""
    for name, amount in least.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def of_containers(pod_spec: Object, taken: Callable[[Object], Mapping[str, N]]) -> dict[str, N]:
    """What all containers of a pod need at once, where each needs what `taken` says."""
    containers: Iterable[Object] = pod_spec.get("containers") or ()
    initial: Iterable[Object] = pod_spec.get("initContainers") or ()
    total: dict[str, N] = {}
    for container in containers:
        add(total, taken(container))
    sidecars: dict[str, N] = {}
    starting: dict[str, N] = {}
    for container in initial:
        mine = taken(container)
        if container.get("restartPolicy") == "Always":
            add(total, mine)
            add(sidecars, mine)
        else:
            beside = dict(mine)
            add(beside, sidecars)
            raise_to(starting, beside)
    raise_to(total, starting)
    return total
