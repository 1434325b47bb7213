"""The hosts file of a pod: names of the cluster's Services, as its DNS would answer them. Pure.

A virtual node has no DNS server; where a pod can be shown a hosts file, names of headless Services
and of the pods behind them are in it, and kept up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]
_DOMAIN: Final = "cluster.local"
_SERVICE: Final = "kubernetes.io/service-name"


def hosts_file(
    pod: Object,
    *,
    address: str,
    hostname: str,
    services: Mapping[str, Object],
    slices: Iterable[Object],
) -> str:
    """The text. `services` are those of the pod's namespace by name, `slices` the EndpointSlices
    there."""
    namespace, spec = pod["metadata"]["namespace"], pod["spec"]
    subdomain = spec.get("subdomain")
    own = f"{hostname}.{subdomain}.{namespace}.svc.{_DOMAIN}\t{hostname}" if subdomain else hostname
    lines = ["# made for this pod", "127.0.0.1\tlocalhost", f"{address}\t{own}"]
    for service in services.values():
        cluster_ip = service["spec"].get("clusterIP")
        if cluster_ip and cluster_ip != "None":
            lines.append(_line(cluster_ip, service["metadata"]["name"], namespace))
    for each in slices:
        name = (each["metadata"].get("labels") or {}).get(_SERVICE, "")
        found = services.get(name)
        if found is None or found["spec"].get("clusterIP") != "None":
            continue
        for endpoint in each.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is False:
                continue
            for ip in endpoint.get("addresses") or ():
                if endpoint.get("hostname"):
                    lines.append(_line(ip, f"{endpoint['hostname']}.{name}", namespace))
                lines.append(_line(ip, name, namespace))
    lines += [
        "\t".join((alias["ip"], *(alias.get("hostnames") or ())))
        for alias in spec.get("hostAliases") or ()
    ]
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _line(address: str, name: str, namespace: str) -> str:
    forms = (
        name,
        f"{name}.{namespace}",
        f"{name}.{namespace}.svc",
        f"{name}.{namespace}.svc.{_DOMAIN}",
    )
    return "\t".join((address, *forms))
