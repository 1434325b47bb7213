"""Rules for NetworkPolicies and Ingresses (`pkg/apis/networking/validation`)."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from fleet.kube.defaults.validation import names
from fleet.kube.defaults.validation.metadata import check_selector

if TYPE_CHECKING:
    from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]

_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")


def check_network_policy(problems: Problems, policy: Object) -> None:
    spec = policy.get("spec", {})
    check_selector(problems, spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or []):
            path = f"spec.{direction}[{index}]"
            for position, port in enumerate(rule.get("ports") or []):
                _port(problems, port, f"{path}.ports[{position}]")
            for position, peer in enumerate(rule.get(peers) or []):
                _peer(problems, peer, f"{path}.{peers}[{position}]")
    kinds = spec.get("policyTypes") or []
    if len(kinds) > 2:
        problems.invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(kinds):
        if kind not in ("Ingress", "Egress"):
            problems.not_supported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))


def _port(problems: Problems, port: Object, path: str) -> None:
    protocol = port.get("protocol", "TCP")
    if protocol not in _PROTOCOLS:
        problems.not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
    number, end = port.get("port"), port.get("endPort")
    if isinstance(number, int):
        problems.invalid_each(f"{path}.port", number, names.port_number(number))
        if end is not None:
            if end < number:
                problems.invalid(
                    f"{path}.endPort", number, "must be greater than or equal to `port`"
                )
            problems.invalid_each(f"{path}.endPort", end, names.port_number(end))
        return
    if end is not None:
        why = "`port` is non-numeric" if number is not None else "`port` is not specified"
        problems.invalid(f"{path}.endPort", end, f"may not be specified when {why}")
    if number is not None:
        problems.invalid_each(f"{path}.port", number, names.port_name(number))


def _peer(problems: Problems, peer: Object, path: str) -> None:
    present = [f for f in ("podSelector", "namespaceSelector", "ipBlock") if f in peer]
    for field in present:
        if field == "ipBlock":
            _ip_block(problems, peer[field], f"{path}.ipBlock")
        else:
            check_selector(problems, peer[field], f"{path}.{field}")
    if not present:
        problems.required(path, "must specify a peer")
    elif len(present) > 1 and "ipBlock" in peer:
        problems.forbidden(path, "may not specify both ipBlock and another peer")


def _ip_block(problems: Problems, block: Object, path: str) -> None:
    if not block.get("cidr"):
        problems.required(f"{path}.cidr")
        return
    whole = _cidr(problems, block["cidr"], f"{path}.cidr")
    for index, text in enumerate(block.get("except") or []):
        where = f"{path}.except[{index}]"
        part = _cidr(problems, text, where)
        if whole is None or part is None:
            continue
        inside = part.version == whole.version and part.network_address in whole
        if not inside or part.prefixlen <= whole.prefixlen:
            problems.invalid(where, text, "must be a strict subset of `cidr`")


def _cidr(
    problems: Problems, text: str, path: str
) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        if "/" not in text:
            raise ValueError
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        problems.invalid(
            path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        )
        return None


def check_ingress(problems: Problems, ingress: Object) -> None:
    spec = ingress.get("spec", {})
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        problems.invalid(
            "spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"
        )
    if backend is not None:
        _backend(problems, backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        _rule(problems, rule, f"spec.rules[{index}]")
    for index, entry in enumerate(spec.get("tls") or []):
        for position, host in enumerate(entry.get("hosts") or []):
            wrong = names.wildcard_subdomain(host) if "*" in host else names.dns_subdomain(host)
            problems.invalid_each(f"spec.tls[{index}].hosts[{position}]", host, wrong)
        if secret := entry.get("secretName"):
            wrong = names.dns_subdomain(secret)
            problems.invalid_each(f"spec.tls[{index}].secretName", secret, wrong)
    if class_name := spec.get("ingressClassName"):
        wrong = names.dns_subdomain(class_name)
        problems.invalid_each("spec.ingressClassName", class_name, wrong)


def _rule(problems: Problems, rule: Object, path: str) -> None:
    if host := rule.get("host"):
        where = f"{path}.host"
        if _is_address(host):
            problems.invalid(where, host, "must be a DNS name, not an IP address")
        wrong = names.wildcard_subdomain(host) if "*" in host else names.dns_subdomain(host)
        problems.invalid_each(where, host, wrong)
    if (http := rule.get("http")) is not None:
        paths = http.get("paths") or []
        if not paths:
            problems.required(f"{path}.http.paths")
        for index, entry in enumerate(paths):
            _path(problems, entry, f"{path}.http.paths[{index}]")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _path(problems: Problems, entry: Object, path: str) -> None:
    kind, text = entry.get("pathType"), entry.get("path", "")
    if kind is None:
        problems.required(f"{path}.pathType", "pathType must be specified")
        return
    where = f"{path}.path"
    if kind in ("Exact", "Prefix"):
        if not text.startswith("/"):
            problems.invalid(where, text, "must be an absolute path")
        for bad in ("//", "/./", "/../", "%2f", "%2F"):
            if bad in text:
                problems.invalid(where, text, f"must not contain '{bad}'")
        for bad in ("/..", "/."):
            if text.endswith(bad):
                problems.invalid(where, text, f"cannot end with '{bad}'")
    elif kind == "ImplementationSpecific":
        if text and not text.startswith("/"):
            problems.invalid(where, text, "must be an absolute path")
    else:
        problems.not_supported(f"{path}.pathType", kind, _PATH_TYPES)
    _backend(problems, entry.get("backend") or {}, f"{path}.backend")


def _backend(problems: Problems, backend: Object, path: str) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        problems.invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        for field in ("kind", "name"):
            if not resource.get(field):
                problems.required(f"{path}.resource.{field}")
    elif service is not None:
        name, port = service.get("name", ""), service.get("port") or {}
        if not name:
            problems.required(f"{path}.service.name")
        else:
            wrong = names.dns_label(name)
            problems.invalid_each(f"{path}.service.name", name, wrong)
        if port.get("name") and port.get("number"):
            problems.invalid(path, "", "cannot set both port name & port number")
        elif port_name := port.get("name"):
            wrong = names.port_name(port_name)
            problems.invalid_each(f"{path}.service.port.name", port_name, wrong)
        elif number := port.get("number"):
            wrong = names.port_number(number)
            problems.invalid_each(f"{path}.service.port.number", number, wrong)
        else:
            problems.required(path, "port name or number is required")
    else:
        problems.invalid(path, "", "resource or service backend is required")
