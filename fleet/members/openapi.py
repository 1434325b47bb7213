"""A member's OpenAPI v3 documents, fetched when asked for and kept by their content hash.

Members of one release serve the same documents under the same hashed URLs, so one cache serves
all: what the first member gave is known for the rest. Next step: `fleet.view` makes the union.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.errors import TransportError
from fleet.members import calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping

    from fleet.kube.wire import Handler

_TIMEOUT_S = 30.0
_INDEX = "/openapi/v3"


class OpenAPI:
    """The documents of one member. `cache` is shared: hashed URL → document."""

    def __init__(self, handler: Handler, cache: MutableMapping[str, bytes]) -> None:
        self.index: Mapping[str, str] = {}
        """Path (`api/v1`) → URL with the content hash; last known, empty until refreshed."""
        self._handler = handler
        self._cache = cache
        self._etag = ""

    async def refresh(self, *, served: Iterable[str] = ()) -> bool:
        """Ask for the index; whether it differs from before. Raises ApiError, TransportError.

        What was known of the paths in `served` stays if the index lacks it: an API server that has
        just started publishes its custom resources a moment later.
        """
        headers = {"if-none-match": self._etag} if self._etag else {}
        answer = await calls.get(self._handler, _INDEX, timeout_s=_TIMEOUT_S, headers=headers)
        if answer.status == 304:
            return False
        paths = answer.value.get("paths") if isinstance(answer.value, dict) else None
        if not isinstance(paths, dict):
            raise TransportError(f"{_INDEX} answered no index of documents")
        index = {
            path: entry["serverRelativeURL"]
            for path, entry in paths.items()
            if isinstance(entry, dict) and isinstance(entry.get("serverRelativeURL"), str)
        }
        kept = {path: self.index[path] for path in served if path in self.index}
        index = kept | index
        self._etag = next((v for k, v in answer.headers.items() if k.lower() == "etag"), "")
        changed = index != self.index
        self.index = index
        return changed

    async def document(self, path: str) -> bytes | None:
        """The JSON document of one entry of the index; None when there is no such entry.

        Raises ApiError and TransportError when it is not cached and cannot be had.
        """
        url = self.index.get(path)
        if url is None:
            return None
        known = self._cache.get(url)
        if known is not None:
            return known
        where, _, query = url.partition("?")
        pairs = tuple(
            (k, v) for k, _, v in (pair.partition("=") for pair in query.split("&") if pair)
        )
        answer = await calls.get(self._handler, where, timeout_s=_TIMEOUT_S, query=pairs)
        if "hash=" in query:
            try:
                self._cache[url] = answer.raw
            except ValueError:  # larger than the whole cache
                return answer.raw
        return answer.raw
