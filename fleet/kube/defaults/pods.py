"""Defaults of pods and pod templates (upstream's `pkg/apis/core/v1/defaults.go`).

Functions change their argument, which the caller has copied. What a schema declares (port
protocols, gRPC service names, …) is filled in by `fleet.kube.schema.defaulting` before.
"""

from __future__ import annotations

import re
from typing import Any

from fleet.kube.amounts import of_containers
from fleet.kube.quantity import ZERO, Quantity

Object = dict[str, Any]
Resources = dict[str, Quantity]

_HUGEPAGES = "hugepages-"


def default_pod_template(template: Object) -> None:
    default_pod_spec(template.setdefault("spec", {}))


def default_pod(pod: Object) -> None:
    """A Pod's own defaults, beyond those of any template."""
    spec = pod["spec"]
    for container in [*_each(spec, "containers"), *_each(spec, "initContainers")]:
        resources = container.get("resources", {})
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **resources.get("requests", {})}
    _pod_level_resources(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in [*_each(spec, "containers"), *_each(spec, "initContainers")]:
            for port in _each(container, "ports"):
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]
    default_pod_spec(spec)
    _addresses(pod.get("status", {}))


def _addresses(status: Object) -> None:
    """The first of all addresses has a field of its own, and that one is believed."""
    first, every = status.get("podIP"), status.get("podIPs")
    if first and (not every or every[0].get("ip") != first):
        status["podIPs"] = [{"ip": first}]
    elif every and not first:
        status["podIP"] = every[0].get("ip", "")


def default_pod_spec(spec: Object) -> None:
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    # The deprecated name of the field mirrors the other; the newer one wins.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in _each(spec, "volumes"):
        _volume(volume)
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in _each(spec, field):
            _container(container)
    overhead = spec.get("overhead")
    if overhead:
        round_resources(overhead)
    for source in (spec.get("resources") or {}).values():
        if isinstance(source, dict):
            round_resources(source)


def round_resources(resources: Object | None) -> None:
    """Round each amount up to whole thousandths, as a resource list is stored."""
    for name, text in (resources or {}).items():
        amount = Quantity.parse(text)
        if (rounded := amount.rounded_to_milli()) is not amount:
            resources[name] = str(rounded)  # type: ignore[index]


def default_claim_spec(spec: Object) -> None:
    """The spec of a PersistentVolumeClaim, also of a template for one."""
    spec.setdefault("volumeMode", "Filesystem")
    for amounts in spec.get("resources", {}).values():
        if isinstance(amounts, dict):
            round_resources(amounts)


def pull_policy(image: str) -> str:
    """`Always` for images tagged `latest`, by name or by default."""
    tag = _image_tag(image)
    return "Always" if tag == "latest" else "IfNotPresent"


def quality_of_service(pod: Object) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`: `status.qosClass`."""
    spec = pod.get("spec", {})
    pod_level = spec.get("resources")
    holders = (
        [pod_level]
        if pod_level
        else [
            container.get("resources", {})
            for field in ("containers", "initContainers")
            for container in _each(spec, field)
        ]
    )
    requests: Resources = {}
    limits: Resources = {}
    guaranteed = True
    for holder in holders:
        for total, amounts in ((requests, holder.get("requests")), (limits, holder.get("limits"))):
            for name, amount in _amounts(amounts).items():
                if name in ("cpu", "memory") and amount > ZERO:
                    total[name] = total.get(name, ZERO) + amount
        named = {n for n, a in _amounts(holder.get("limits")).items() if a > ZERO}
        guaranteed = guaranteed and {"cpu", "memory"} <= named
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _each(holder: Object, field: str) -> list[Object]:
    return holder.get(field) or []


def _container(container: Object) -> None:
    container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for amounts in container.get("resources", {}).values():
        if isinstance(amounts, dict):
            round_resources(amounts)
    for variable in _each(container, "env"):
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(field)) is not None:
            probe.setdefault("timeoutSeconds", 1)
            probe.setdefault("periodSeconds", 10)
            probe.setdefault("successThreshold", 1)
            probe.setdefault("failureThreshold", 3)
            _http_get(probe)
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http_get(hook)


def _http_get(handler: Object) -> None:
    if (action := handler.get("httpGet")) is not None:
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _volume(volume: Object) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for field in ("secret", "configMap", "downwardAPI", "projected"):
        if (source := volume.get(field)) is not None:
            source.setdefault("defaultMode", 0o644)
    if (host_path := volume.get("hostPath")) is not None:
        host_path.setdefault("type", "")
    if (image := volume.get("image")) is not None:
        image.setdefault("pullPolicy", pull_policy(image.get("reference", "")))
    _downward_items(volume.get("downwardAPI"))
    for source in _each(volume.get("projected") or {}, "sources"):
        _downward_items(source.get("downwardAPI"))
        if (token := source.get("serviceAccountToken")) is not None:
            token.setdefault("expirationSeconds", 3600)
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        default_claim_spec(template.setdefault("spec", {}))


def _downward_items(source: Object | None) -> None:
    for item in _each(source or {}, "items"):
        if (reference := item.get("fieldRef")) is not None:
            reference.setdefault("apiVersion", "v1")


def _pod_level_resources(spec: Object) -> None:
    """KEP-2837: what the pod as a whole requests follows from its containers and its limits."""
    resources = spec.get("resources")
    if not resources:
        return
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if limits or requests:
        for name, amount in _aggregate(spec, "limits").items():
            if name.startswith(_HUGEPAGES) and name not in requests:
                limits.setdefault(name, str(amount))
        if limits:
            resources["limits"] = limits
    if limits:
        for name, amount in _aggregate(spec, "requests").items():
            if name in ("cpu", "memory"):
                requests.setdefault(name, str(amount))
        for name, text in limits.items():
            if name in ("cpu", "memory") or name.startswith(_HUGEPAGES):
                requests.setdefault(name, text)
        if requests:
            resources["requests"] = requests


def _aggregate(spec: Object, side: str) -> Resources:
    """What all containers need at once."""
    return of_containers(spec, lambda each: _amounts(each.get("resources", {}).get(side)))


def _amounts(resources: Object | None) -> Resources:
    return {name: Quantity.parse(text) for name, text in (resources or {}).items()}


_DOMAIN = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)"
_PATH = r"(?:[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)"
# github.com/distribution/reference: domain, path, tag, digest.
_REFERENCE = re.compile(
    rf"(?:(?:{_DOMAIN}(?:\.{_DOMAIN})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?"
    rf"(?P<path>{_PATH}(?:/{_PATH})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


def _image_tag(image: str) -> str:
    """The tag of an image name; `latest` when it has neither tag nor digest, "" when unreadable."""
    match = _REFERENCE.fullmatch(image)
    if match is None or re.fullmatch(r"[a-f0-9]{64}", image):
        return ""
    if match["tag"] or match["digest"]:
        return match["tag"] or ""
    return "latest"
