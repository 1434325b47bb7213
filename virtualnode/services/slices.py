"""How a Service's endpoints are spread over EndpointSlices. Pure.

Upstream's way (k8s.io/endpointslice/reconciler.go): an endpoint stays in the slice where it is;
what is added goes into slices that change anyway, then into one that has room for all of it, then
into further ones. So a change of one pod is a change of one slice, at the price of slices that are
not full.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from virtualnode.objects import controller_reference
from virtualnode.services import endpoints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from virtualnode.services.endpoints import Ports

Object = dict[str, Any]

MANAGER: Final = "endpointslice-controller.k8s.io"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME: Final = "kubernetes.io/service-name"
HEADLESS: Final = "service.kubernetes.io/headless"
LIMIT: Final = 100  # endpoints in a slice


@dataclass(frozen=True, slots=True)
class Difference:
    """Slices to create, to update (in their new state), and to delete."""

    create: tuple[Object, ...] = ()
    update: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = ()


def is_served(service: Object) -> bool:
    """Whether a Service gets slices from here at all."""
    spec = service["spec"]
    return spec.get("type") != "ExternalName" and bool(spec.get("selector"))


def is_ours(endpoint_slice: Object) -> bool:
    return (endpoint_slice["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER


def decide(
    service: Object,
    pods: Iterable[Object],
    present: Iterable[Object],
    *,
    zone_of: Callable[[str], str | None],
    limit: int = LIMIT,
) -> Difference:
    """What makes the slices that are `present` say what the `pods` are.

    `pods` are those the Service selects, `present` its slices as managed here. `zone_of` gives a
    node's zone ("" without one), None for a node that there is not: its pods are left out unless
    the Service publishes everything.
    """
    kept = [each for each in present if not each["metadata"].get("deletionTimestamp")]
    families = endpoints.families(service)
    members = [pod for pod in pods if endpoints.is_endpoint(pod)]
    delete = tuple(each for each in kept if each["addressType"] not in families)
    difference = Difference(delete=delete)
    for family in families:
        of_family = [each for each in kept if each["addressType"] == family]
        wanted = _wanted(service, members, family, zone_of)
        found = _family(service, family, wanted, of_family, limit=limit)
        difference = Difference(
            difference.create + found.create,
            difference.update + found.update,
            difference.delete + found.delete,
        )
    if service["metadata"].get("deletionTimestamp"):
        return Difference(update=difference.update, delete=difference.delete)
    return difference


def _wanted(
    service: Object, pods: Iterable[Object], family: str, zone_of: Callable[[str], str | None]
) -> dict[Ports, list[Object]]:
    """The endpoints by their ports."""
    published = bool(service["spec"].get("publishNotReadyAddresses"))
    wanted: dict[Ports, list[Object]] = {}
    for pod in pods:
        group = wanted.setdefault(endpoints.ports_of(service, pod), [])
        node = pod["spec"].get("nodeName") or ""
        zone = zone_of(node)
        if zone is None and not published:
            continue
        made = endpoints.endpoint(service, pod, family, zone=zone or "")
        if made is not None:
            group.append(made)
    return wanted


def _family(
    service: Object,
    family: str,
    wanted: dict[Ports, list[Object]],
    present: Sequence[Object],
    *,
    limit: int,
) -> Difference:
    create: list[Object] = []
    update: list[Object] = []
    owned = [each for each in present if _is_owned(each, service)]
    delete = [each for each in present if not _is_owned(each, service)]
    for ports, members in wanted.items():
        group = _Group(service, family, ports, limit)
        for each in owned:
            if endpoints.slice_ports(each) == ports:
                group.keep(each, members)
        group.add(members)
        create += group.made
        update += group.changed
        delete += group.emptied
    delete += [each for each in owned if endpoints.slice_ports(each) not in wanted]
    if len(delete) == len(present) and not create:
        placeholder = _empty_slice(service, family, ())
        if [_content(each) for each in delete] == [_content(placeholder)]:
            delete = []
        else:
            create = [placeholder]
    return _reused(service, create, update, delete)


@dataclass
class _Group:
    """The slices of one family and one set of ports while endpoints are put into them."""

    service: Object
    family: str
    ports: Ports
    limit: int
    changed: list[Object] = field(default_factory=list)
    unchanged: list[Object] = field(default_factory=list)
    emptied: list[Object] = field(default_factory=list)
    made: list[Object] = field(default_factory=list)
    placed: set[tuple[Any, ...]] = field(default_factory=set)

    def keep(self, present: Object, members: Sequence[Object]) -> None:
        """Leave in a slice what is still wanted, as it is to be."""
        wanted = {_identity(each): each for each in members}
        before = present.get("endpoints") or []
        left: list[Object] = []
        for each in before:
            identity = _identity(each)
            if identity in wanted and identity not in self.placed:
                self.placed.add(identity)
                left.append(wanted[identity])
        labels = _labels(self.service)
        metadata = {**present["metadata"], "labels": labels}
        after = {**present, "metadata": metadata, "endpoints": left}
        if not left and before:
            self.emptied.append(present)
        elif [_told(each) for each in before] != [_told(each) for each in left] or (
            present["metadata"].get("labels") != labels
        ):
            self.changed.append(after)
        else:
            self.unchanged.append(present)

    def add(self, members: Sequence[Object]) -> None:
        """Find a place for what has none yet."""
        waiting = [each for each in members if _identity(each) not in self.placed]
        for each in sorted(self.changed, key=_size, reverse=True):
            room = max(self.limit - _size(each), 0)
            each["endpoints"] = [*each["endpoints"], *waiting[:room]]
            waiting = waiting[room:]
        while waiting:
            target = self._with_room(len(waiting))
            if target is None:
                target = _empty_slice(self.service, self.family, self.ports)
                self.made.append(target)
            else:
                self.unchanged.remove(target)
                target = {**target}
                self.changed.append(target)
            room = self.limit - _size(target)
            target["endpoints"] = [*(target.get("endpoints") or ()), *waiting[:room]]
            waiting = waiting[room:]

    def _with_room(self, count: int) -> Object | None:
        """The fullest slice that has room for `count` more."""
        fitting = [each for each in self.unchanged if _size(each) + count <= self.limit]
        return max(fitting, key=_size, default=None)


def _reused(
    service: Object, create: list[Object], update: list[Object], delete: list[Object]
) -> Difference:
    """A slice that would go is made one that would come, where it may be."""
    left: list[Object] = []
    for each in delete:
        if not create or not _is_owned(each, service):
            left.append(each)
            continue
        made = create.pop()
        metadata = {**each["metadata"], "labels": made["metadata"]["labels"]}
        update.append({**each, **made, "metadata": metadata})
    return Difference(tuple(create), tuple(update), tuple(left))


def _empty_slice(service: Object, family: str, ports: Ports) -> Object:
    name = service["metadata"]["name"]
    prefix = f"{name}-"
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": prefix if len(prefix) <= 253 else name,
            "namespace": service["metadata"]["namespace"],
            "labels": _labels(service),
            "ownerReferences": [controller_reference(service)],
        },
        "addressType": family,
        "ports": [dict(port) for port in ports],
        "endpoints": [],
    }


def _labels(service: Object) -> dict[str, str]:
    """The Service's own labels, and those that are reserved for slices."""
    labels = dict(service["metadata"].get("labels") or {})
    labels.pop(HEADLESS, None)
    if (service["spec"].get("clusterIP") or "None") == "None":
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: MANAGER}


def _is_owned(endpoint_slice: Object, service: Object) -> bool:
    return any(
        each.get("uid") == service["metadata"]["uid"] and each.get("kind") == "Service"
        for each in endpoint_slice["metadata"].get("ownerReferences") or ()
    )


def _identity(endpoint: Object) -> tuple[Any, ...]:
    """What makes an endpoint the same one, however its conditions change."""
    target = endpoint.get("targetRef") or {}
    addresses = tuple(sorted(endpoint["addresses"]))
    return addresses, endpoint.get("hostname"), target.get("namespace"), target.get("name")


def _told(endpoint: Object) -> Object:
    """An endpoint as it is compared: hints and the like of others do not count."""
    fields = ("addresses", "conditions", "hostname", "nodeName", "targetRef", "zone")
    told = {name: endpoint[name] for name in fields if endpoint.get(name)}
    target = told.get("targetRef")
    if target is not None:
        told["targetRef"] = {k: v for k, v in target.items() if k != "resourceVersion"}
    return told


def _content(endpoint_slice: Object) -> tuple[Any, ...]:
    return (
        endpoint_slice["addressType"],
        endpoint_slice["metadata"].get("labels"),
        endpoints.slice_ports(endpoint_slice),
        _size(endpoint_slice),
        [r["uid"] for r in endpoint_slice["metadata"].get("ownerReferences") or ()],
    )


def _size(endpoint_slice: Object) -> int:
    return len(endpoint_slice.get("endpoints") or ())
