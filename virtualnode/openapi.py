"""OpenAPI v3 of a small cluster: the release's documents of the groups that it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.kube import builtin
from fleet.kube.schema import document, group_versions, openapi_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.kube.resources import Resource


class ReleasedOpenApi:
    """A `fleet.apiserver.documents.OpenApi`."""

    def __init__(self, rows: Iterable[Resource]) -> None:
        served = {row.gvr.group_version for row in rows}
        self._paths = {openapi_path(gv): gv for gv in group_versions() if gv in served}

    async def hashes(self) -> Mapping[str, str]:
        return dict.fromkeys(self._paths, builtin.release())

    async def document(self, path: str) -> bytes | None:
        group_version = self._paths.get(path)
        return document(group_version) if group_version is not None else None
