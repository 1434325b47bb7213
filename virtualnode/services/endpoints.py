"""What a pod is as an endpoint of a Service: addresses, conditions, ports. Pure.

Upstream's rules (k8s.io/endpointslice: utils.go, util/controller_utils.go).
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from virtualnode import conditions

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]
Ports = tuple[tuple[tuple[str, Any], ...], ...]
"""The ports of a slice as a value, in order."""

FAMILIES: Final = ("IPv4", "IPv6")
_ENDED: Final = ("Succeeded", "Failed")


def is_endpoint(pod: Object) -> bool:
    """Whether a pod has an address and has not ended; one that is going away still is one."""
    status = pod.get("status") or {}
    return status.get("phase") not in _ENDED and bool(_addresses(pod))


def families(service: Object) -> tuple[str, ...]:
    """The address families a Service has slices for."""
    spec = service["spec"]
    given = tuple(f for f in FAMILIES if f in (spec.get("ipFamilies") or ()))
    if given:
        return given
    address = spec.get("clusterIP") or "None"
    return FAMILIES if address == "None" else (family_of(address),)


def family_of(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def endpoint(service: Object, pod: Object, family: str, *, zone: str = "") -> Object | None:
    """The pod as an endpoint; None when it has no address of that family."""
    addresses = [a for a in _addresses(pod) if family_of(a) == family]
    if not addresses:
        return None
    metadata, spec = pod["metadata"], pod["spec"]
    serving = conditions.is_true(pod, "Ready")
    terminating = bool(metadata.get("deletionTimestamp"))
    published = bool(service["spec"].get("publishNotReadyAddresses"))
    made: Object = {
        "addresses": addresses,
        "conditions": {
            "ready": published or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
    }
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        made["hostname"] = spec["hostname"]
    if spec.get("nodeName"):
        made["nodeName"] = spec["nodeName"]
    if zone:
        made["zone"] = zone
    return made


def ports_of(service: Object, pod: Object) -> Ports:
    """The ports at which the pod answers for the Service; one that it does not have is left out,
    which puts it into slices of its own."""
    found: list[tuple[tuple[str, Any], ...]] = []
    for port in service["spec"].get("ports") or ():
        number = _target(port, pod)
        if number is None:
            continue
        made = {"name": port.get("name", ""), "port": number}
        made["protocol"] = port.get("protocol", "TCP")
        if port.get("appProtocol"):
            made["appProtocol"] = port["appProtocol"]
        found.append(tuple(sorted(made.items())))
    return tuple(sorted(found, key=repr))


def slice_ports(endpoint_slice: Object) -> Ports:
    """The ports of a slice, to be compared with those of a pod."""
    found = [
        tuple(sorted({"name": "", "protocol": "TCP", **port}.items()))
        for port in endpoint_slice.get("ports") or ()
    ]
    return tuple(sorted(found, key=repr))


def _target(port: Object, pod: Object) -> int | None:
    """The number of the pod's port that a Service's port leads to."""
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    protocol = port.get("protocol", "TCP")
    for container in _serving_containers(pod["spec"]):
        for each in container.get("ports") or ():
            if each.get("name") == target and each.get("protocol", "TCP") == protocol:
                return int(each["containerPort"])
    return None


def _serving_containers(spec: Object) -> Iterator[Object]:
    """Containers, then sidecars."""
    yield from spec.get("containers") or ()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container


def _addresses(pod: Object) -> list[str]:
    status = pod.get("status") or {}
    given = [each.get("ip", "") for each in status.get("podIPs") or ()]
    if not given and status.get("podIP"):
        given = [status["podIP"]]
    return [str(ipaddress.ip_address(text)) for text in given if text]
