"""The resources that Kubernetes 1.36 itself serves, as a default kube-apiserver does.

Only what is on by default is listed: every stable (vN) version; alpha and beta versions are off
since 1.24 unless asked for, and a member that serves them says so in its discovery. The data is
written by scripts/generate-builtin. Order is upstream's: groups by priority, versions by
preference.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from fleet.kube import fields
from fleet.kube.resources import GroupVersionResource, Resource, Subresource


@cache
def _document() -> Any:
    return json.loads(files("fleet.kube").joinpath("data/builtin.json").read_text("utf-8"))


@cache
def release() -> str:
    """The Kubernetes release the data is from, `v1.36.3`."""
    return str(_document()["release"])


@cache
def resources() -> tuple[Resource, ...]:
    """Every built-in resource, groups and versions in upstream's order."""
    return tuple(
        _resource(group["name"], version["version"], row)
        for group in _document()["groups"]
        for version in group["versions"]
        for row in version["resources"]
    )


def _resource(group: str, version: str, row: dict[str, Any]) -> Resource:
    return Resource(
        gvr=GroupVersionResource(group, version, row["name"]),
        kind=row["kind"],
        namespaced=row["namespaced"],
        verbs=tuple(row["verbs"]),
        singular=row["singular"],
        short_names=tuple(row.get("shortNames", ())),
        categories=tuple(row.get("categories", ())),
        subresources=tuple(
            Subresource(
                name=sub["name"],
                kind=sub["kind"],
                verbs=tuple(sub["verbs"]),
                group=sub.get("group", ""),
                version=sub.get("version", ""),
            )
            for sub in row.get("subresources", ())
        ),
        selectable_fields=fields.selectable(group, row["kind"]),
    )


@cache
def _by_gvr() -> dict[GroupVersionResource, Resource]:
    return {row.gvr: row for row in resources()}


@cache
def _by_kind() -> dict[tuple[str, str], Resource]:
    # The first of several rows of a kind wins: `pods`, not a review or option kind.
    found: dict[tuple[str, str], Resource] = {}
    for row in resources():
        found.setdefault((row.api_version, row.kind), row)
    return found


@cache
def group_order() -> dict[str, int]:
    """The rank of each of Kubernetes' own groups in discovery; the core group is first.

    Groups that have no stable version, and so no resource here, are in it as well.
    """
    return {name: rank for rank, name in enumerate(_document()["order"])}


def resource(gvr: GroupVersionResource) -> Resource | None:
    """The built-in resource at `gvr`, or None."""
    return _by_gvr().get(gvr)


def by_kind(api_version: str, kind: str) -> Resource | None:
    """The built-in resource whose objects say `apiVersion` and `kind`, or None."""
    return _by_kind().get((api_version, kind))
