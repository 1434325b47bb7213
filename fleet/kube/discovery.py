"""Discovery: catalogues of what is served, their union, and the documents that say so.

A catalogue is groups of versions of resources, the preferred version first. Sources (the fleet's
own store, each member) are parsed into catalogues, `union` merges them, and the same catalogue
answers both the aggregated form (`apidiscovery.k8s.io`) and the legacy one. A source that is down
keeps its last catalogue, marked stale, so that nothing disappears with it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from fleet.kube import builtin, fields
from fleet.kube.resources import GroupVersionResource, Resource, Subresource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

AGGREGATED_KIND = "APIGroupDiscoveryList"
AggregatedVersion = Literal["v2", "v2beta1"]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a group. `stale`: last known, its source cannot be asked now."""

    name: str
    resources: tuple[Resource, ...]
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """One API group; "" is the core group. The first version is the preferred one."""

    name: str
    versions: tuple[Version, ...]

    def version(self, name: str) -> Version | None:
        return next((v for v in self.versions if v.name == name), None)


Catalogue = tuple[Group, ...]


def catalogue(resources: Iterable[Resource]) -> Catalogue:
    """Group rows in the order in which groups and versions first occur."""
    groups: dict[str, dict[str, list[Resource]]] = {}
    for row in resources:
        groups.setdefault(row.gvr.group, {}).setdefault(row.gvr.version, []).append(row)
    return tuple(
        Group(name, tuple(Version(v, tuple(rows)) for v, rows in versions.items()))
        for name, versions in groups.items()
    )


def rows(groups: Catalogue) -> Iterator[Resource]:
    """Every resource of a catalogue."""
    for group in groups:
        for version in group.versions:
            yield from version.resources


def find_group(groups: Catalogue, name: str) -> Group | None:
    return next((group for group in groups if group.name == name), None)


def as_stale(groups: Catalogue) -> Catalogue:
    """The same catalogue of a source that cannot be asked now."""
    return tuple(
        replace(group, versions=tuple(replace(v, stale=True) for v in group.versions))
        for group in groups
    )


# Union of several sources


def union(catalogues: Sequence[Catalogue]) -> Catalogue:
    """What the sources serve together; earlier ones win where rows differ.

    A resource is served in the versions that *every* source which has it serves: a GET at a
    version must never return another one, nor miss a source (kcp#3430). Where they have no
    version in common it is served in all of theirs. The preferred version is that of the first
    source which has the group. A version is stale only when no current source serves it:
    clients take a stale version for a failed one. Groups are in upstream's order, others by
    name behind them.
    """
    sources = [
        {row.gvr: (row, version.stale) for _, version in _versions(c) for row in version.resources}
        for c in catalogues
    ]
    merged: dict[GroupVersionResource, tuple[Resource, bool]] = {}
    for gvr in _common(sources):
        found = [source[gvr] for source in sources if gvr in source]
        merged[gvr] = (_merge([row for row, _ in found]), all(stale for _, stale in found))
    preferred: dict[str, str] = {}
    for found_group in (group for c in catalogues for group in c if group.versions):
        preferred.setdefault(found_group.name, found_group.versions[0].name)
    groups: dict[str, dict[str, list[tuple[Resource, bool]]]] = {}
    for gvr, entry in merged.items():
        groups.setdefault(gvr.group, {}).setdefault(gvr.version, []).append(entry)
    return tuple(
        Group(
            name,
            tuple(
                Version(
                    version,
                    tuple(row for row, _ in sorted(entries, key=lambda e: e[0].gvr.resource)),
                    stale=all(stale for _, stale in entries),
                )
                for version, entries in sorted(
                    versions.items(),
                    key=lambda item: (item[0] != preferred[name], version_rank(item[0])),
                )
            ),
        )
        for name, versions in sorted(groups.items(), key=lambda item: _group_rank(item[0]))
    )


def _versions(groups: Catalogue) -> Iterator[tuple[Group, Version]]:
    for group in groups:
        for version in group.versions:
            yield group, version


def _common(
    sources: Sequence[Mapping[GroupVersionResource, object]],
) -> Iterator[GroupVersionResource]:
    """The coordinates that all sources which have a resource share, else all of theirs."""
    held: dict[tuple[str, str], list[list[str]]] = {}
    for source in sources:
        here: dict[tuple[str, str], list[str]] = {}
        for gvr in source:
            here.setdefault((gvr.group, gvr.resource), []).append(gvr.version)
        for key, versions in here.items():
            held.setdefault(key, []).append(versions)
    for (group, resource), per_source in held.items():
        shared = set(per_source[0]).intersection(*per_source[1:])
        every = dict.fromkeys(version for versions in per_source for version in versions)
        for version in every:
            if version in shared or not shared:
                yield GroupVersionResource(group, version, resource)


def _merge(found: Sequence[Resource]) -> Resource:
    """One row of the rows that several sources have for the same coordinates."""
    first = found[0]
    if all(row == first for row in found[1:]):
        return first
    subresources: dict[str, Subresource] = {}
    for sub in (sub for row in found for sub in row.subresources):
        subresources.setdefault(sub.name, sub)
    verbs = _joined(row.verbs for row in found)
    if not all("watch" in row.verbs for row in found):
        # Advertised only where it works for everything that a list shows.
        verbs = tuple(verb for verb in verbs if verb != "watch")
    return replace(
        first,
        verbs=verbs,
        short_names=_joined(row.short_names for row in found),
        categories=_joined(row.categories for row in found),
        subresources=tuple(sorted(subresources.values(), key=lambda sub: sub.name)),
        selectable_fields=_joined(row.selectable_fields for row in found),
    )


def _joined(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for part in parts for item in part))


_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STABILITY = {None: 0, "beta": 1, "alpha": 2}


def version_rank(name: str) -> tuple[int, int, int, str]:
    """A sort key that puts the best version first: stable before beta before alpha, higher
    numbers first, other names last by alphabet (apimachinery CompareKubeAwareVersionStrings)."""
    found = _VERSION.fullmatch(name)
    if found is None:
        return (3, 0, 0, name)
    return (_STABILITY[found[2]], -int(found[1]), -int(found[3] or 0), "")


def _group_rank(name: str) -> tuple[int, str]:
    order = builtin.group_order()
    return (order.get(name, len(order)), name)


# Aggregated documents


def content_type(version: AggregatedVersion) -> str:
    """The Content-Type that tells clients an aggregated document from a legacy one."""
    return f"application/json;g=apidiscovery.k8s.io;v={version};as={AGGREGATED_KIND}"


def aggregated(groups: Catalogue, *, core: bool, version: AggregatedVersion = "v2") -> Any:
    """The APIGroupDiscoveryList of `/api` (`core`) or `/apis`."""
    return {
        "kind": AGGREGATED_KIND,
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group.name} if group.name else {},
                "versions": [
                    {
                        "version": v.name,
                        "resources": [_aggregated_row(row) for row in v.resources],
                        "freshness": "Stale" if v.stale else "Current",
                    }
                    for v in group.versions
                ],
            }
            for group in groups
            if (group.name == "") == core
        ],
    }


def _aggregated_row(row: Resource) -> dict[str, Any]:
    document: dict[str, Any] = {"resource": row.gvr.resource}
    if row.kind:
        document["responseKind"] = {"group": "", "version": "", "kind": row.kind}
    document["scope"] = "Namespaced" if row.namespaced else "Cluster"
    document["singularResource"] = row.singular
    document["verbs"] = list(row.verbs)
    if row.short_names:
        document["shortNames"] = list(row.short_names)
    if row.categories:
        document["categories"] = list(row.categories)
    if row.subresources:
        document["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
                "verbs": list(sub.verbs),
            }
            for sub in row.subresources
        ]
    return document


def parse_aggregated(document: Mapping[str, Any]) -> Catalogue:
    """The catalogue in an APIGroupDiscoveryList of either version."""
    groups: list[Group] = []
    for item in document.get("items") or ():
        name = (item.get("metadata") or {}).get("name") or ""
        groups.append(
            Group(
                name,
                tuple(
                    Version(
                        v["version"],
                        tuple(
                            _parse_aggregated_row(name, v["version"], row)
                            for row in v.get("resources") or ()
                        ),
                        stale=v.get("freshness") == "Stale",
                    )
                    for v in item.get("versions") or ()
                ),
            )
        )
    return tuple(groups)


def _parse_aggregated_row(group: str, version: str, row: Mapping[str, Any]) -> Resource:
    return _resource(
        GroupVersionResource(group, version, row["resource"]),
        kind=(row.get("responseKind") or {}).get("kind") or "",
        namespaced=row.get("scope") == "Namespaced",
        verbs=row.get("verbs"),
        singular=row.get("singularResource"),
        short_names=row.get("shortNames"),
        categories=row.get("categories"),
        subresources=tuple(
            _subresource(
                group, version, sub["subresource"], sub.get("responseKind") or {}, sub.get("verbs")
            )
            for sub in row.get("subresources") or ()
        ),
    )


def _resource(
    gvr: GroupVersionResource,
    *,
    kind: str,
    namespaced: bool,
    verbs: Iterable[str] | None,
    singular: str | None,
    short_names: Iterable[str] | None,
    categories: Iterable[str] | None,
    subresources: tuple[Subresource, ...] = (),
) -> Resource:
    """A row with what discovery does not tell: whether it is a custom resource, and the fields
    that a built-in kind is selectable by. The fields of a custom one are in its definition."""
    custom = gvr.group not in builtin.group_order()
    return Resource(
        gvr=gvr,
        kind=kind,
        namespaced=namespaced,
        verbs=tuple(verbs or ()),
        singular=singular or "",
        short_names=tuple(short_names or ()),
        categories=tuple(categories or ()),
        subresources=subresources,
        selectable_fields=() if custom else fields.selectable(gvr.group, kind),
        custom=custom,
    )


def _subresource(
    group: str, version: str, name: str, kind: Mapping[str, Any], verbs: Iterable[str] | None
) -> Subresource:
    """`kind` holds group, version and kind; those of the parent are left empty."""
    own = (kind.get("group") or "", kind.get("version") or "")
    if own == (group, version):
        own = ("", "")
    return Subresource(name, kind.get("kind") or "", tuple(verbs or ()), *own)


# Legacy documents


def api_versions(groups: Catalogue, *, server_address: str) -> dict[str, Any]:
    """The APIVersions document of `/api`."""
    core = find_group(groups, "")
    return {
        "kind": "APIVersions",
        "versions": [v.name for v in core.versions] if core else [],
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}
        ],
    }


def group_list(groups: Catalogue) -> dict[str, Any]:
    """The APIGroupList of `/apis`."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(group) for group in groups if group.name and group.versions],
    }


def group_document(group: Group) -> dict[str, Any]:
    """The APIGroup of `/apis/GROUP`."""
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(group)


def _group(group: Group) -> dict[str, Any]:
    versions = [
        {"groupVersion": f"{group.name}/{v.name}", "version": v.name} for v in group.versions
    ]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(group: Group, version: Version) -> dict[str, Any]:
    """The APIResourceList of `/api/VERSION` or `/apis/GROUP/VERSION`."""
    listed: list[dict[str, Any]] = []
    for row in version.resources:
        if row.kind:
            listed.append(_legacy_row(row))
        for sub in row.subresources:
            entry: dict[str, Any] = {
                "name": f"{row.gvr.resource}/{sub.name}",
                "singularName": "",
                "namespaced": row.namespaced,
            }
            if sub.version:
                entry |= {"group": sub.group, "version": sub.version}
            listed.append(entry | {"kind": sub.kind, "verbs": list(sub.verbs)})
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group.name}/{version.name}" if group.name else version.name,
        "resources": listed,
    }


def _legacy_row(row: Resource) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": row.gvr.resource,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        document["shortNames"] = list(row.short_names)
    if row.categories:
        document["categories"] = list(row.categories)
    return document


def parse_api_versions(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The versions of the core group in an APIVersions document."""
    return tuple(document.get("versions") or ())


def parse_group_list(document: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Group names with their versions, the preferred one first, in an APIGroupList."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for group in document.get("groups") or ():
        preferred = (group.get("preferredVersion") or {}).get("version")
        versions = [v["version"] for v in group.get("versions") or ()]
        versions.sort(key=lambda v: v != preferred)
        found.append((group["name"], tuple(versions)))
    return tuple(found)


def parse_resource_list(document: Mapping[str, Any]) -> tuple[Resource, ...]:
    """The rows of an APIResourceList, subresources under their resources.

    A subresource whose resource is not listed (custom metrics) gets one without kind and verbs.
    """
    group, _, version = str(document["groupVersion"]).rpartition("/")
    found: dict[str, Resource] = {}
    subresources: dict[str, list[Subresource]] = {}
    for row in document.get("resources") or ():
        name, _, sub = row["name"].partition("/")
        if sub:
            subresources.setdefault(name, []).append(
                _subresource(group, version, sub, row, row.get("verbs"))
            )
        if name not in found or not sub:
            found[name] = _resource(
                GroupVersionResource(group, version, name),
                kind="" if sub else row.get("kind") or "",
                namespaced=bool(row.get("namespaced")),
                verbs=() if sub else row.get("verbs"),
                singular="" if sub else row.get("singularName"),
                short_names=() if sub else row.get("shortNames"),
                categories=() if sub else row.get("categories"),
            )
    return tuple(
        replace(row, subresources=tuple(subresources.get(name, ()))) for name, row in found.items()
    )


# Caching


def etag(body: bytes) -> str:
    """The entity tag of a document, quotes included. Send `Vary: Accept` beside it."""
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


def not_modified(if_none_match: str | None, tag: str) -> bool:
    """Whether the client already holds the document with this tag (answer 304)."""
    held = [part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")]
    return tag in held or held == ["*"]
