"""One OpenAPI v3 for the fleet: the union of what its members and its own kinds publish.

kubectl computes patches and explains fields from these documents, so what is served for a
group-version must be what the members that serve it understand. Where they agree – the usual case
– a member's document is passed on as it is; where they differ, types and paths are united and the
first member's form of a type wins. With no member up the release's own documents stand in.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Protocol

import orjson
from cachetools import LRUCache

from fleet.errors import ApiError, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_KEPT = 256  # united documents


class Publisher(Protocol):
    """One source of documents: a member, or the fleet itself."""

    @property
    def index(self) -> Mapping[str, str]:
        """Path (`apis/apps/v1`) → something that changes with the document's content."""

    async def document(self, path: str) -> bytes | None:
        """Raises ApiError, TransportError when it cannot be had now."""


class UnitedOpenApi:
    """The `fleet.apiserver.documents.OpenApi` of the merged view."""

    def __init__(self, publishers: Callable[[], Iterable[Publisher]]) -> None:
        """`publishers` gives the sources in the order in which their forms win."""
        self._publishers = publishers
        self._united: LRUCache[tuple[str, str], bytes] = LRUCache(_KEPT)

    async def hashes(self) -> Mapping[str, str]:
        found: dict[str, list[str]] = {}
        for publisher in self._publishers():
            for path, content in publisher.index.items():
                contents = found.setdefault(path, [])
                if content not in contents:
                    contents.append(content)
        return {path: _digest(contents) for path, contents in found.items()}

    async def document(self, path: str) -> bytes | None:
        sources: dict[str, list[Publisher]] = {}
        for publisher in self._publishers():
            content = publisher.index.get(path)
            if content is not None:
                sources.setdefault(content, []).append(publisher)
        if not sources:
            return None
        key = (path, _digest(sources))
        known = self._united.get(key)
        if known is not None:
            return known
        documents = []
        for publishers in sources.values():
            document = await _first(publishers, path)
            if document is not None:
                documents.append(document)
        if not documents:
            return None
        united = documents[0] if len(documents) == 1 else orjson.dumps(unite(documents))
        if len(documents) == len(sources):
            self._united[key] = united
        return united


async def _first(publishers: Iterable[Publisher], path: str) -> bytes | None:
    """The document from whichever of the equal sources answers."""
    for publisher in publishers:
        try:
            document = await publisher.document(path)
        except (ApiError, TransportError):
            continue
        if document is not None:
            return document
    return None


def unite(documents: Iterable[bytes]) -> dict[str, Any]:
    """One document with the paths and types of all; earlier ones win."""
    union: dict[str, Any] = {}
    for raw in documents:
        document = orjson.loads(raw)
        if not union:
            union = document
            continue
        for path, item in (document.get("paths") or {}).items():
            union.setdefault("paths", {}).setdefault(path, item)
        components = document.get("components") or {}
        for section, entries in components.items():
            merged = union.setdefault("components", {}).setdefault(section, {})
            for name, entry in entries.items():
                merged.setdefault(name, entry)
    return union


def _digest(contents: Iterable[str]) -> str:
    joined = "\n".join(contents).encode()
    return hashlib.sha256(joined).hexdigest().upper()
