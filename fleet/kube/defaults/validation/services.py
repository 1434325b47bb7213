"""Rules for Services (`pkg/apis/core/validation`); addresses are allocated elsewhere."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults.validation import names
from fleet.kube.defaults.validation.containers import PROTOCOLS, check_port
from fleet.kube.defaults.validation.metadata import check_labels

if TYPE_CHECKING:
    from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def check_service(problems: Problems, service: Object) -> None:
    spec = service.get("spec", {})
    kind, ports = spec.get("type", ""), spec.get("ports") or []
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        problems.required("spec.ports")
    if headless and kind in ("LoadBalancer", "NodePort"):
        problems.invalid(
            "spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"
        )
    if kind == "ExternalName":
        _external_name(problems, spec)
    seen: set[str] = set()
    for index, port in enumerate(ports):
        _port(problems, port, f"spec.ports[{index}]", named=len(ports) > 1, seen=seen)
    check_labels(problems, spec.get("selector"), "spec.selector")
    affinity = spec.get("sessionAffinity", "")
    problems.one_of("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    if affinity == "ClientIP":
        _affinity_timeout(problems, spec.get("sessionAffinityConfig") or {})
    for index, address in enumerate(spec.get("externalIPs") or []):
        _address(problems, address, f"spec.externalIPs[{index}]")
    problems.one_of("spec.type", kind, _TYPES)
    if kind == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                problems.forbidden(
                    f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'"
                )
    _twice(problems, ports)
    _balancer(problems, spec, kind)
    _traffic(problems, spec, kind)


def check_service_update(problems: Problems, new: Object, old: Object) -> None:
    """The cluster address stays, unless the Service becomes or was an ExternalName."""
    spec, before = new.get("spec", {}), old.get("spec", {})
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return
    address = before.get("clusterIP")
    if address and spec.get("clusterIP") and spec["clusterIP"] != address:
        problems.invalid("spec.clusterIPs[0]", [spec["clusterIP"]], "may not change once set")


def _external_name(problems: Problems, spec: Object) -> None:
    if spec.get("clusterIPs") or spec.get("clusterIP"):
        problems.forbidden("spec.clusterIPs", "may not be set for ExternalName services")
    for field in ("ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            problems.forbidden(f"spec.{field}", "may not be set for ExternalName services")
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        problems.required("spec.externalName")
    else:
        problems.invalid_each("spec.externalName", name, names.dns_subdomain(name))


def _port(problems: Problems, port: Object, path: str, *, named: bool, seen: set[str]) -> None:
    name, number = port.get("name", ""), port.get("port", 0)
    if name:
        problems.invalid_each(f"{path}.name", name, names.dns_label(name))
        if name in seen:
            problems.duplicate(f"{path}.name", name)
        seen.add(name)
    elif named:
        problems.required(f"{path}.name")
    problems.invalid_each(f"{path}.port", number, names.port_number(number))
    problems.one_of(f"{path}.protocol", port.get("protocol", ""), PROTOCOLS)
    check_port(problems, port.get("targetPort", 0), f"{path}.targetPort")
    if protocol := port.get("appProtocol"):
        problems.invalid_each(f"{path}.appProtocol", protocol, names.qualified_name(protocol))


def _twice(problems: Problems, ports: list[Object]) -> None:
    node_ports: set[tuple[Any, Any]] = set()
    numbers: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        path, protocol = f"spec.ports[{index}]", port.get("protocol")
        if node_port := port.get("nodePort"):
            if (protocol, node_port) in node_ports:
                problems.duplicate(f"{path}.nodePort", node_port)
            node_ports.add((protocol, node_port))
        key = (protocol, port.get("port"))
        if key in numbers:
            problems.duplicate(path, {"protocol": protocol, "port": port.get("port")})
        numbers.add(key)


def _affinity_timeout(problems: Problems, config: Object) -> None:
    path, timeout = "spec.sessionAffinityConfig.clientIP.timeoutSeconds", None
    if (client := config.get("clientIP")) is not None:
        timeout = client.get("timeoutSeconds")
    if timeout is None:
        problems.required(path, "when session affinity type is ClientIP")
    elif not 0 < timeout <= 86400:
        problems.invalid(path, timeout, "must be greater than 0 and less than 86400")


def _address(problems: Problems, text: str, path: str) -> None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        problems.invalid(
            path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        )
        return
    for bad, words in (
        (address.is_unspecified, f"may not be unspecified ({address})"),
        (address.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (address.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
    ):
        if bad:
            problems.invalid(path, text, words)


def _balancer(problems: Problems, spec: Object, kind: str) -> None:
    only = "may only be used when `type` is 'LoadBalancer'"
    ranges = spec.get("loadBalancerSourceRanges") or []
    path = "spec.LoadBalancerSourceRanges"
    if ranges and kind != "LoadBalancer":
        problems.forbidden(path, only)
    for index, text in enumerate(ranges):
        try:
            ipaddress.ip_network(text.strip(), strict=False)
            if "/" not in text:
                raise ValueError
        except ValueError:
            problems.invalid(
                f"{path}[{index}]",
                text.strip(),
                "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            )
    if "allocateLoadBalancerNodePorts" in spec and kind != "LoadBalancer":
        problems.forbidden("spec.allocateLoadBalancerNodePorts", only)
    if (name := spec.get("loadBalancerClass")) is not None:
        if kind != "LoadBalancer":
            problems.forbidden("spec.loadBalancerClass", "may only be used when `type` is "
                               "'LoadBalancer'")  # fmt: skip
        else:
            problems.invalid_each("spec.loadBalancerClass", name, names.qualified_name(name))


def _traffic(problems: Problems, spec: Object, kind: str) -> None:
    policy = spec.get("externalTrafficPolicy", "")
    external = kind in ("LoadBalancer", "NodePort") or bool(
        kind == "ClusterIP" and spec.get("externalIPs")
    )
    path = "spec.externalTrafficPolicy"
    if external:
        problems.one_of(path, policy, ("Cluster", "Local"))
    elif policy:
        problems.invalid(path, policy, "may only be set for externally-accessible services")
    internal = spec.get("internalTrafficPolicy")
    if internal is not None and internal not in ("Cluster", "Local"):
        problems.not_supported("spec.internalTrafficPolicy", internal, ("Cluster", "Local"))
