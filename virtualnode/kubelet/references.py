"""What pods refer to, and how it is looked up: ConfigMaps, Secrets, and the pod itself. Pure."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from fleet.kube.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Object = dict[str, Any]


class Lacking(Exception):
    """Something a pod refers to is not there yet; the message is the kubelet's."""


class Refused(Exception):
    """Something a pod asks for cannot be had here; the message says what and why."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A ConfigMap or Secret in the pod's namespace. `kind` is `configmap` or `secret`."""

    kind: str
    name: str


class Lookup(Protocol):
    """Finds what a pod refers to, in its namespace."""

    def __call__(self, ref: Ref) -> Object | None: ...


@dataclass(frozen=True, slots=True)
class Subject:
    """A pod as it refers to itself: the object, its address once it has one, its node's."""

    pod: Object
    address: str = ""
    host_address: str = ""
    allocatable: Mapping[str, str] | None = None


CONFIG_MAP: Final = "configmap"
SECRET: Final = "secret"


def content(ref: Ref, obj: Object) -> dict[str, bytes]:
    """The keys of a ConfigMap or Secret as bytes."""
    data = obj.get("data") or {}
    if ref.kind == SECRET:
        return {key: base64.b64decode(value or "") for key, value in data.items()}
    found = {key: str(value).encode() for key, value in data.items()}
    for key, value in (obj.get("binaryData") or {}).items():
        found[key] = base64.b64decode(value)
    return found


def references(pod: Object) -> frozenset[Ref]:
    """Every ConfigMap and Secret that `pod` names in volumes and variables, optional ones too."""
    return frozenset(_references(pod["spec"]))


def _references(spec: Object) -> Iterator[Ref]:
    for volume in spec.get("volumes") or ():
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            if (chosen := source.get("configMap")) is not None:
                yield Ref(CONFIG_MAP, chosen.get("name", ""))
            if (chosen := source.get("secret")) is not None:
                yield Ref(SECRET, chosen.get("secretName") or chosen.get("name", ""))
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for source in container.get("envFrom") or ():
            if (chosen := source.get("configMapRef")) is not None:
                yield Ref(CONFIG_MAP, chosen.get("name", ""))
            if (chosen := source.get("secretRef")) is not None:
                yield Ref(SECRET, chosen.get("name", ""))
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            if (chosen := source.get("configMapKeyRef")) is not None:
                yield Ref(CONFIG_MAP, chosen.get("name", ""))
            if (chosen := source.get("secretKeyRef")) is not None:
                yield Ref(SECRET, chosen.get("name", ""))


# -- the downward API


def field_value(subject: Subject, path: str) -> str:
    """The value of a `fieldRef`. Raises Refused for a path that is no such field."""
    metadata, spec = subject.pod["metadata"], subject.pod["spec"]
    for prefix, values in (
        ("metadata.annotations['", metadata.get("annotations")),
        ("metadata.labels['", metadata.get("labels")),
    ):
        if path.startswith(prefix) and path.endswith("']"):
            return str((values or {}).get(path[len(prefix) : -2], ""))
    match path:
        case "metadata.annotations" | "metadata.labels":
            return _lines(metadata.get(path.removeprefix("metadata.")))
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata.get(path.removeprefix("metadata."), ""))
        case "spec.nodeName" | "spec.serviceAccountName":
            return str(spec.get(path.removeprefix("spec."), ""))
        case "status.podIP" | "status.podIPs":
            return subject.address
        case "status.hostIP" | "status.hostIPs":
            return subject.host_address
    raise Refused(f"fieldRef {path} is not a field that pods can refer to")


def _lines(values: Mapping[str, str] | None) -> str:
    """`key="value"` lines in order, quoted as Go's %q does for what labels hold."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return "\n".join(
        f'{key}="{"".join(escapes.get(c, c) for c in value)}"'
        for key, value in sorted((values or {}).items())
    )


def resource_value(subject: Subject, container: Object, reference: Object) -> str:
    """The value of a `resourceFieldRef`: a limit or request in units of its divisor, rounded up.

    Where a container has no such limit, its node's capacity stands for it. Raises Refused.
    """
    resource = reference.get("resource", "")
    side, _, name = resource.partition(".")
    if side not in ("limits", "requests") or not name:
        raise Refused(f"resourceFieldRef {resource} is not limits.NAME or requests.NAME")
    text = ((container.get("resources") or {}).get(side) or {}).get(name)
    if text is None and side == "limits":
        text = (subject.allocatable or {}).get(name)
    divisor = Quantity.parse(str(reference.get("divisor") or "1"))
    unit = divisor.nano or Quantity.of(1).nano
    return str(-(-Quantity.parse(str(text or "0")).nano // unit))
