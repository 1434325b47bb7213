"""Names in policies that mean nothing in this fleet: clusters, resources, accelerators, networks.

They are no faults: a book may be written before its cluster joins. But a price for `idc_a`, or for
`H200` where nodes say `h200`, is one that nothing ever finds: whoever writes it is told, with the
name that was perhaps meant. Pure; `fleet.gateway.policy_warnings` puts it before the store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from policies import FLEET_QUOTA, PLACEMENT_POLICY, PRICE_BOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from policies.fleet_quota import FleetQuotaSpec
    from policies.parts import Selector
    from policies.placement_policy import PlacementPolicySpec
    from policies.price_book import PriceBookSpec

Object = dict[str, Any]

_LISTED: Final = 5


@dataclass(frozen=True, slots=True)
class Known:
    """What the fleet has, as its Cluster objects say it."""

    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of each cluster, by its name."""
    accelerators: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    """What nodes have, as pods ask for it."""
    planes: frozenset[str] = frozenset()
    data_planes: frozenset[str] = frozenset()


def known_of(clusters: Iterable[Object]) -> Known:
    """Of Cluster objects as they are stored."""
    labels: dict[str, Mapping[str, str]] = {}
    kinds, planes, data_planes = set(), set(), set()
    resources: set[str] = set()
    for each in clusters:
        metadata = each["metadata"]
        labels[metadata["name"]] = metadata.get("labels") or {}
        networks = (each.get("spec") or {}).get("networks") or {}
        planes.add(networks.get("parameterPlane"))
        data_planes.add(networks.get("dataPlane"))
        for shape in (each.get("status") or {}).get("capacity") or ():
            kinds.add(shape.get("accelerator"))
            resources.update(shape.get("shape") or ())
    return Known(
        labels,
        *(frozenset(filter(None, names)) for names in (kinds, resources, planes, data_planes)),
    )


def unknown_names(kind: str, spec: Object, known: Known) -> list[str]:
    """A sentence for each name in the spec of a sound object that nothing in the fleet has.

    Nothing is said of what is not known: a fleet without members, or whose nodes name no kinds.
    """
    judge = _JUDGES.get(kind)
    return [] if judge is None or not known.labels else list(judge(spec, known))


def _price_book(spec: Object, known: Known) -> Iterator[str]:
    book: PriceBookSpec = PRICE_BOOK.parse({"spec": spec}).spec
    for index, offer in enumerate(book.offers):
        where = f"spec.offers[{index}]"
        yield from _cluster(f"{where}.cluster", offer.cluster, known)
        yield from _accelerator(f"{where}.accelerator", offer.accelerator, known)
    for index, egress in enumerate(book.egress):
        where = f"spec.egress[{index}]"
        yield from _network(f"{where}.from", egress.from_, known.data_planes, "data plane")
        yield from _cluster(f"{where}.to", egress.to, known)


def _placement_policy(spec: Object, known: Known) -> Iterator[str]:
    policy: PlacementPolicySpec = PLACEMENT_POLICY.parse({"spec": spec}).spec
    yield from _selector("spec.clusters.selector", policy.clusters.selector, known)
    for index, tier in enumerate(policy.clusters.tiers):
        yield from _selector(f"spec.clusters.tiers[{index}].selector", tier.selector, known)
    if policy.network == "DataPlane":
        yield from _network("spec.gang.plane", policy.gang.plane, known.data_planes, "data plane")
    else:
        yield from _network("spec.gang.plane", policy.gang.plane, known.planes, "plane")
    for index, data in enumerate(policy.data):
        for position, name in enumerate(data.at):
            where = f"spec.data[{index}].at[{position}]"
            yield from _network(where, name, known.data_planes, "data plane")


def _fleet_quota(spec: Object, known: Known) -> Iterator[str]:
    quota: FleetQuotaSpec = FLEET_QUOTA.parse({"spec": spec}).spec
    for index, line in enumerate(quota.resources):
        where = f"spec.resources[{index}]"
        yield from _resource(f"{where}.name", line.name, known)
        yield from _accelerator(f"{where}.accelerator", line.accelerator, known)


_JUDGES: Final[Mapping[str, Callable[[Object, Known], Iterator[str]]]] = {
    PRICE_BOOK.name: _price_book,
    PLACEMENT_POLICY.name: _placement_policy,
    FLEET_QUOTA.name: _fleet_quota,
}


def _cluster(where: str, name: str, known: Known) -> Iterator[str]:
    if name not in known.labels:
        yield f'{where}: "{name}" is no member of the fleet{_meant(name, known.labels)}'


def _accelerator(where: str, name: str, known: Known) -> Iterator[str]:
    if name and known.accelerators and name not in known.accelerators:
        why = "is a kind of accelerator that no node has"
        yield f'{where}: "{name}" {why}{_meant(name, known.accelerators)}'


def _resource(where: str, name: str, known: Known) -> Iterator[str]:
    """Only of devices: of cpu, memory and the like every node has some, counted or not."""
    devices = {each for each in known.resources if "/" in each}
    if "/" in name and devices and name not in devices:
        yield f'{where}: "{name}" is a resource that no node has{_meant(name, devices)}'


def _network(where: str, name: str, names: Collection[str], word: str) -> Iterator[str]:
    if name and names and name not in names:
        yield f'{where}: no cluster is on a {word} "{name}"{_meant(name, names)}'


def _selector(where: str, selector: Selector, known: Known) -> Iterator[str]:
    if any(selector.matches(labels) for labels in known.labels.values()):
        return
    yield (
        f"{where}: selects none of the clusters {_list(known.labels)}: it is matched with the "
        "labels of Cluster objects, which only users set, e.g. kubectl label cluster "
        f"{min(known.labels)} KEY=VALUE"
    )


def _meant(name: str, names: Collection[str]) -> str:
    """`; did you mean h200?`, else what there is."""
    plain = {each.casefold(): each for each in sorted(names)}
    near = get_close_matches(name.casefold(), plain, n=1)
    return f"; did you mean {plain[near[0]]}?" if near else f"; there is {_list(names)}"


def _list(names: Collection[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - _LISTED
    return ", ".join([*ordered[:_LISTED], *([f"{more} more"] if more > 0 else [])])
