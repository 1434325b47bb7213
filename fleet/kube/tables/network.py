"""Services and what carries their traffic: endpoints, ingresses, policies, address ranges."""

from __future__ import annotations

from typing import Final

from fleet.kube.tables.columns import AGE, NAME, column
from fleet.kube.tables.reading import (
    Object,
    items,
    mapping,
    number,
    optional_number,
    string_map,
    strings,
    text,
    within,
)
from fleet.kube.tables.rows import Cells, Printer, since
from fleet.kube.tables.wording import NONE, first_three, labels, selector_cell


def _load_balancer(obj: Object) -> str:
    """The addresses that a load balancer was given, sorted."""
    ingress = items(within(obj, "status", "loadBalancer"), "ingress")
    return ",".join(sorted({text(each, "ip") or text(each, "hostname") for each in ingress} - {""}))


def _external_ip(obj: Object) -> str:
    spec = mapping(obj, "spec")
    external = strings(spec, "externalIPs")
    match text(spec, "type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            balanced = _load_balancer(obj)
            return ",".join([balanced, *external] if balanced else external) or "<pending>"
        case "ExternalName":
            return text(spec, "externalName")
    return "<unknown>"


def _service_port(port: Object) -> str:
    node_port = number(port, "nodePort")
    shown = f"{number(port, 'port')}:{node_port}" if node_port > 0 else number(port, "port")
    return f"{shown}/{text(port, 'protocol')}"


def _service(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    cluster_ips = strings(spec, "clusterIPs")
    return (
        text(metadata, "name"),
        text(spec, "type"),
        (cluster_ips[0] if cluster_ips else text(spec, "clusterIP")) or NONE,
        _external_ip(obj),
        ",".join(_service_port(port) for port in items(spec, "ports")) or NONE,
        since(metadata, "creationTimestamp"),
        labels(string_map(spec, "selector")),
    )


def _host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _subsets(obj: Object) -> str:
    subsets = items(obj, "subsets")
    if not subsets:
        return NONE
    shown: list[str] = []
    for subset in subsets:
        hosts = [text(address, "ip") for address in items(subset, "addresses")]
        ports = items(subset, "ports")
        if ports:
            shown += [_host_port(host, number(port, "port")) for port in ports for host in hosts]
        else:
            shown += hosts
    joined = ",".join(shown[:3])
    return f"{joined} + {len(shown) - 3} more..." if len(shown) > 3 else joined


def _endpoints(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return text(metadata, "name"), _subsets(obj), since(metadata, "creationTimestamp")


def _slice_port(port: Object) -> str:
    value = optional_number(port, "port")
    if value is not None:
        return str(value)
    name = port.get("name")
    return name if isinstance(name, str) else "*"


def _endpoint_slice(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return (
        text(metadata, "name"),
        text(obj, "addressType"),
        first_three(_slice_port(port) for port in items(obj, "ports")),
        first_three(
            address for each in items(obj, "endpoints") for address in strings(each, "addresses")
        ),
        since(metadata, "creationTimestamp"),
    )


def _hosts(rules: list[Object]) -> str:
    """The first three hosts; the rest counts the rules, those without a host among them."""
    shown: list[str] = []
    more = False
    for rule in rules:
        more = more or len(shown) == 3
        host = text(rule, "host")
        if host and not more:
            shown.append(host)
    if not shown:
        return "*"
    joined = ",".join(shown)
    return f"{joined} + {len(rules) - 3} more..." if more else joined


def _ingress(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    class_name = spec.get("ingressClassName")
    return (
        text(metadata, "name"),
        class_name if isinstance(class_name, str) else NONE,
        _hosts(items(spec, "rules")),
        _load_balancer(obj),
        "80, 443" if items(spec, "tls") else "80",
        since(metadata, "creationTimestamp"),
    )


def _ingress_class(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    name = text(metadata, "name")
    annotations = string_map(metadata, "annotations")
    if annotations.get("ingressclass.kubernetes.io/is-default-class") == "true":
        name += " (default)"
    parameters = NONE
    if isinstance(spec.get("parameters"), dict):
        reference = mapping(spec, "parameters")
        parameters = text(reference, "kind")
        group = reference.get("apiGroup")
        if isinstance(group, str):
            parameters += f".{group}"
        parameters += f"/{text(reference, 'name')}"
    return name, text(spec, "controller"), parameters, since(metadata, "creationTimestamp")


def _network_policy(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return (
        text(metadata, "name"),
        selector_cell(mapping(obj, "spec"), "podSelector"),
        since(metadata, "creationTimestamp"),
    )


def _service_cidr(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return (
        text(metadata, "name"),
        ",".join(strings(mapping(obj, "spec"), "cidrs")),
        since(metadata, "creationTimestamp"),
    )


def _ip_address(obj: Object) -> Cells:
    """Three cells for two columns: upstream renders an age without declaring a column for it."""
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    shown = NONE
    if isinstance(spec.get("parentRef"), dict):
        parent = mapping(spec, "parentRef")
        group, resource = text(parent, "group"), text(parent, "resource")
        path = [
            (f"{resource}.{group}" if group else resource).lower(),
            text(parent, "namespace"),
            text(parent, "name"),
        ]
        if not path[1]:
            del path[1]
        shown = "/".join(path)
    return text(metadata, "name"), shown, since(metadata, "creationTimestamp")


PRINTERS: Final = {
    ("", "services"): Printer(
        columns=(
            NAME,
            column("Type", doc="core/v1.ServiceSpec.type"),
            column("Cluster-IP", doc="core/v1.ServiceSpec.clusterIP"),
            column("External-IP", doc="core/v1.ServiceSpec.externalIPs"),
            column("Port(s)", doc="core/v1.ServiceSpec.ports"),
            AGE,
            column("Selector", doc="core/v1.ServiceSpec.selector", priority=1),
        ),
        render=_service,
    ),
    ("", "endpoints"): Printer(
        columns=(NAME, column("Endpoints", doc="core/v1.Endpoints.subsets"), AGE),
        render=_endpoints,
    ),
    ("discovery.k8s.io", "endpointslices"): Printer(
        columns=(
            NAME,
            column("AddressType", doc="discovery/v1.EndpointSlice.addressType"),
            column("Ports", doc="discovery/v1.EndpointSlice.ports"),
            column("Endpoints", doc="discovery/v1.EndpointSlice.endpoints"),
            AGE,
        ),
        render=_endpoint_slice,
    ),
    ("networking.k8s.io", "ingresses"): Printer(
        columns=(
            NAME,
            column(
                "Class",
                "The name of the IngressClass resource that should be used"
                " for additional configuration",
            ),
            column(
                "Hosts", "Hosts that incoming requests are matched against before the ingress rule"
            ),
            column("Address", "Address is a list containing ingress points for the load-balancer"),
            column("Ports", "Ports of TLS configurations that open"),
            AGE,
        ),
        render=_ingress,
    ),
    ("networking.k8s.io", "ingressclasses"): Printer(
        columns=(
            NAME,
            column("Controller", "Controller that is responsible for handling this class"),
            column("Parameters", "A reference to a resource with additional parameters"),
            AGE,
        ),
        render=_ingress_class,
    ),
    ("networking.k8s.io", "networkpolicies"): Printer(
        columns=(
            NAME,
            column("Pod-Selector", doc="networking/v1.NetworkPolicySpec.podSelector"),
            AGE,
        ),
        render=_network_policy,
    ),
    ("networking.k8s.io", "servicecidrs"): Printer(
        columns=(NAME, column("CIDRs", doc="networking/v1.ServiceCIDRSpec.cidrs"), AGE),
        render=_service_cidr,
    ),
    ("networking.k8s.io", "ipaddresses"): Printer(
        columns=(NAME, column("ParentRef", doc="networking/v1.IPAddressSpec.parentRef")),
        render=_ip_address,
    ),
}
