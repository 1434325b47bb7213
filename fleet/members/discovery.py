"""What one member serves, as last known.

Aggregated discovery with ETags where the member has it, the legacy documents where not. A group
version that cannot be had at the moment – an aggregated API server that is down, a member that is
– keeps its last rows, marked stale, and so does a custom resource for as long as it is defined:
nothing disappears because it could not be asked.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fleet.errors import ApiError, TransportError
from fleet.kube import discovery as kube
from fleet.members import calls

if TYPE_CHECKING:
    from fleet.kube.discovery import Catalogue
    from fleet.kube.resources import GroupVersionResource, Resource
    from fleet.kube.wire import Handler
    from fleet.members.definitions import Definitions

_ACCEPT = f"{kube.content_type('v2')},{kube.content_type('v2beta1')},application/json"
_TIMEOUT_S = 10.0
_AT_ONCE = 8


class Discovery:
    """The catalogue and version of a member; `refresh` asks again."""

    def __init__(self, handler: Handler, definitions: Definitions) -> None:
        self.version = ""
        """`gitVersion` of the API server, "" until it has been asked."""
        self.catalogue: Catalogue = ()
        """What it serves; empty until it has been asked, stale while it cannot be."""
        self.resources: dict[GroupVersionResource, Resource] = {}
        """The catalogue's rows by their coordinates."""
        self._handler = handler
        self._definitions = definitions
        self._documents: dict[str, tuple[str, Catalogue]] = {}

    async def refresh(self) -> bool:
        """Ask the member; whether the catalogue differs from before.

        Raises ApiError and TransportError when it cannot be asked at all; what was known stays.
        """
        version = await calls.get(self._handler, "/version", timeout_s=_TIMEOUT_S)
        found: list[kube.Group] = []
        for path in ("/api", "/apis"):
            try:
                found += await self._document(path)
            except (AttributeError, KeyError, TypeError) as error:
                raise TransportError(f"{path} answered no discovery document") from error
        self.version = _text(version.value, "gitVersion")
        return self._adopt(self._kept(tuple(map(self._completed, found))))

    def documents(self) -> list[str]:
        """Paths of the OpenAPI documents of what is served: `api/v1`, `apis/apps/v1`."""
        return [
            f"apis/{group.name}/{version.name}" if group.name else f"api/{version.name}"
            for group in self.catalogue
            for version in group.versions
        ]

    def mark_stale(self) -> bool:
        """The member cannot be asked; whether that is news."""
        return self._adopt(kube.as_stale(self.catalogue))

    def _adopt(self, catalogue: Catalogue) -> bool:
        if catalogue == self.catalogue:
            return False
        self.catalogue = catalogue
        self.resources = {row.gvr: row for row in kube.rows(catalogue)}
        return True

    def _completed(self, group: kube.Group) -> kube.Group:
        """With the last known rows of versions that are stale, and with selectable fields."""
        known = kube.find_group(self.catalogue, group.name)
        versions = []
        for version in group.versions:
            last = known.version(version.name) if known and version.stale else None
            rows = version.resources or (last.resources if last else ())
            versions.append(replace(version, resources=tuple(map(self._selectable, rows))))
        return replace(group, versions=tuple(versions))

    def _kept(self, found: Catalogue) -> Catalogue:
        """With the custom resources that were served and are still defined: an API server that has
        just started leaves them out for a moment, and nothing of them is gone."""
        served = {row.gvr for row in kube.rows(found)}
        missing = [
            row
            for row in kube.rows(self.catalogue)
            if row.gvr not in served and self._definitions.get(row.gvr) is not None
        ]
        for row in missing:
            found = _with(found, row)
        return found

    def _selectable(self, row: Resource) -> Resource:
        definition = self._definitions.get(row.gvr)
        if definition is None or definition.selectable_fields == row.selectable_fields:
            return row
        return replace(row, custom=True, selectable_fields=definition.selectable_fields)

    async def _document(self, path: str) -> Catalogue:
        etag, last = self._documents.get(path, ("", ()))
        headers = {"accept": _ACCEPT, **({"if-none-match": etag} if etag else {})}
        try:
            answer = await calls.get(self._handler, path, timeout_s=_TIMEOUT_S, headers=headers)
        except ApiError as error:
            if error.http_code == 404:
                return ()
            raise
        if answer.status == 304:
            return last
        given = {key.lower(): value for key, value in answer.headers.items()}
        if "apidiscovery.k8s.io" not in given.get("content-type", ""):
            self._documents.pop(path, None)
            return await self._legacy(path, answer.value)
        catalogue = kube.parse_aggregated(answer.value)
        if given.get("etag"):
            self._documents[path] = (given["etag"], catalogue)
        return catalogue

    async def _legacy(self, path: str, document: Any) -> Catalogue:
        if path == "/api":
            wanted = [("", kube.parse_api_versions(document))]
        else:
            wanted = [(name, versions) for name, versions in kube.parse_group_list(document)]
        places = asyncio.Semaphore(_AT_ONCE)

        async def version(group: str, name: str) -> kube.Version:
            async with places:
                return await self._legacy_version(group, name)

        async with asyncio.TaskGroup() as tasks:
            groups = [
                (group, [tasks.create_task(version(group, name)) for name in versions])
                for group, versions in wanted
            ]
        return tuple(
            kube.Group(group, tuple(task.result() for task in versions))
            for group, versions in groups
        )

    async def _legacy_version(self, group: str, name: str) -> kube.Version:
        path = f"/apis/{group}/{name}" if group else f"/api/{name}"
        try:
            answer = await calls.get(self._handler, path, timeout_s=_TIMEOUT_S)
            return kube.Version(name, kube.parse_resource_list(answer.value))
        except (ApiError, TransportError, AttributeError, KeyError, TypeError):
            return kube.Version(name, (), stale=True)


def _with(groups: Catalogue, row: Resource) -> Catalogue:
    """A catalogue with one row more; in a version of its own, stale, where there is none."""
    gvr = row.gvr
    group = kube.find_group(groups, gvr.group)
    if group is None:
        return (*groups, kube.Group(gvr.group, (kube.Version(gvr.version, (row,), stale=True),)))
    known = group.version(gvr.version)
    if known is None:
        versions = (*group.versions, kube.Version(gvr.version, (row,), stale=True))
    else:
        more = replace(known, resources=(*known.resources, row))
        versions = tuple(more if version is known else version for version in group.versions)
    changed = replace(group, versions=versions)
    return tuple(changed if each is group else each for each in groups)


def _text(document: Any, key: str) -> str:
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, str) else ""
