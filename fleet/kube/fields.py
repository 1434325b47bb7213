"""Selectable fields: which a resource has, and their values in an object.

`Resource.selectable_fields` lists what goes beyond `metadata.name` and `metadata.namespace`;
`extract` gives the values in that order, `matcher` tests a selector against them without a look
at the object. The tables are those of Kubernetes 1.36: field label conversions in
pkg/apis/*/conversion.go and ToSelectableFields in pkg/registry.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fleet.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fleet.kube.resources import Resource
    from fleet.kube.selectors import FieldSelector

    Extractor = Callable[[Mapping[str, Any]], tuple[str, ...]]
    Matcher = Callable[[str, str, Sequence[str]], bool]

_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

SELECTABLE: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    ("", "Event"): (
        *(f"involvedObject.{part}" for part in _REFERENCE),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    ("events.k8s.io", "Event"): (
        *(f"regarding.{part}" for part in _REFERENCE),
        "reason",
        "reportingController",
        "type",
    ),
    ("", "Node"): ("spec.unschedulable",),
    ("", "Namespace"): ("status.phase",),
    ("", "Secret"): ("type",),
    ("", "Service"): ("spec.clusterIP", "spec.type"),
    ("", "ReplicationController"): ("status.replicas",),
    ("batch", "Job"): ("status.successful",),
    ("certificates.k8s.io", "CertificateSigningRequest"): ("spec.signerName",),
    ("certificates.k8s.io", "ClusterTrustBundle"): ("spec.signerName",),
    ("certificates.k8s.io", "PodCertificateRequest"): (
        "spec.signerName",
        "spec.podName",
        "spec.nodeName",
    ),
    ("resource.k8s.io", "ResourceSlice"): ("spec.nodeName", "spec.driver"),
}
"""Built-in kinds with selectable fields of their own, by (group, kind)."""

_ALIASES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("", "Pod"): {"spec.host": "spec.nodeName"},
}

# Kinds whose own conversion leaves metadata.namespace out; the default one accepts it even for
# cluster-scoped kinds.
_WITHOUT_NAMESPACE = frozenset(
    key
    for key in SELECTABLE
    if key[0] in ("certificates.k8s.io", "resource.k8s.io")
    or key in (("", "Node"), ("", "Namespace"))
)

# Where a field is not simply the text at its path: the path, and the value when it is absent.
_DEFAULTS: Mapping[tuple[str, str], Mapping[str, tuple[str, str]]] = {
    ("", "Pod"): {"spec.hostNetwork": ("spec.hostNetwork", "false")},
    ("", "Node"): {"spec.unschedulable": ("spec.unschedulable", "false")},
    ("", "ReplicationController"): {"status.replicas": ("status.replicas", "0")},
    ("batch", "Job"): {"status.successful": ("status.succeeded", "0")},
}


def selectable(group: str, kind: str) -> tuple[str, ...]:
    """The selectable fields of a built-in kind beyond name and namespace."""
    return SELECTABLE.get((group, kind), ())


def check(resource: Resource, selector: FieldSelector) -> FieldSelector:
    """The selector with aliases replaced (`spec.host`).

    Raises BadRequest, in upstream's wording for the kind, when it names a field that `resource`
    cannot be selected by.
    """
    if selector.empty:
        return selector
    aliases = {} if resource.custom else _ALIASES.get((resource.gvr.group, resource.kind), {})
    if aliases:
        selector = selector.map(lambda name, value: (aliases.get(name, name), value))
    for name, _, _ in selector.requirements:
        if not _known(resource, name):
            raise BadRequest(_unsupported(resource, name))
    return selector


def _known(resource: Resource, name: str) -> bool:
    if name == "metadata.name" or name in resource.selectable_fields:
        return True
    if name != "metadata.namespace":
        return False
    if resource.custom:
        return resource.namespaced
    return (resource.gvr.group, resource.kind) not in _WITHOUT_NAMESPACE


def _unsupported(resource: Resource, name: str) -> str:
    match (resource.gvr.group, resource.kind):
        case key if resource.custom or (key in SELECTABLE and key[0] in ("", "events.k8s.io")):
            pass
        case ("batch", "Job"):
            return f'field label "{name}" not supported for Job'
        case ("resource.k8s.io", "ResourceSlice"):
            subject = f"{resource.api_version}, Kind={resource.kind}"
            return f"field label not supported for {subject}: {name}"
        case key if key not in SELECTABLE:
            return (
                f'"{name}" is not a known field selector: '
                'only "metadata.name", "metadata.namespace"'
            )
    return f"field label not supported: {name}"


def extract(resource: Resource, obj: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of `resource.selectable_fields` in `obj`, in their order; "" where absent."""
    return extractor(resource)(obj)


def extractor(resource: Resource) -> Extractor:
    """`extract` bound to a resource, for loops over many objects."""
    return _extractor(
        "" if resource.custom else resource.gvr.group,
        "" if resource.custom else resource.kind,
        resource.selectable_fields,
    )


@lru_cache(maxsize=1024)
def _extractor(group: str, kind: str, names: tuple[str, ...]) -> Extractor:
    if not names:
        return lambda _: ()
    readers = [_reader(group, kind, name) for name in names]
    return lambda obj: tuple([read(obj) for read in readers])


def _reader(group: str, kind: str, name: str) -> Callable[[Mapping[str, Any]], str]:
    match (group, kind, name):
        case ("", "Event", "reportingComponent"):
            return _at("reportingComponent")
        case ("", "Event", "source"):
            component, reporting = _at("source.component"), _at("reportingComponent")
            return lambda obj: component(obj) or reporting(obj)
        case ("", "Pod", "status.podIP"):
            return _pod_ip
        case ("", "Pod", "status.podIPs"):
            # Accepted as a label by upstream, but never filled in: it equals "" only.
            return lambda _: ""
    path, default = _DEFAULTS.get((group, kind), {}).get(name, (name, ""))
    return _at(path, default)


def _at(path: str, default: str = "") -> Callable[[Mapping[str, Any]], str]:
    keys = path.split(".")

    def read(obj: Any) -> str:
        for key in keys:
            if not isinstance(obj, dict):
                return default
            obj = obj.get(key)
        return default if obj is None else _text(obj)

    return read


def _text(value: Any) -> str:
    """As Go prints the scalar."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _pod_ip(obj: Mapping[str, Any]) -> str:
    status = obj.get("status") or {}
    # On the wire the primary address is both podIP and podIPs[0]; either may be missing.
    addresses = status.get("podIPs") or ()
    return (addresses[0].get("ip") if addresses else status.get("podIP")) or ""


def matcher(resource: Resource, selector: FieldSelector) -> Matcher:
    """A test of `(namespace, name, fields)` for a checked selector, fields as from `extract`."""
    if selector.empty:
        return lambda _namespace, _name, _fields: True
    index = {name: i for i, name in enumerate(resource.selectable_fields)}
    namespace_terms: list[tuple[bool, str]] = []
    name_terms: list[tuple[bool, str]] = []
    field_terms: list[tuple[int, bool, str]] = []
    for name, operator, value in selector.requirements:
        if name == "metadata.namespace":
            namespace_terms.append((operator == "=", value))
        elif name == "metadata.name":
            name_terms.append((operator == "=", value))
        else:
            field_terms.append((index[name], operator == "=", value))

    def matches(namespace: str, name: str, fields: Sequence[str]) -> bool:
        for wanted, value in name_terms:
            if (name == value) != wanted:
                return False
        for wanted, value in namespace_terms:
            if (namespace == value) != wanted:
                return False
        for position, wanted, value in field_terms:
            if (fields[position] == value) != wanted:
                return False
        return True

    return matches
