"""Requests to a member as calls: objects in, objects out, errors raised.

Every write says which object it means: a new one by name, one that is there by UID and revision. A
write whose answer was lost has perhaps been made; the next look will tell.
"""

from __future__ import annotations

import asyncio
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import orjson

from fleet.errors import ApiError, TransportError
from fleet.kube.paths import path_of
from fleet.kube.wire import Request
from fleet.members import calls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.kube.resources import GroupVersionResource
    from fleet.kube.wire import Handler

Object = dict[str, Any]

_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"


class Remote:
    """One member's API. Each call raises ApiError for a refusal, TransportError for no answer."""

    def __init__(
        self,
        handler: Handler,
        *,
        timeout_s: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` is ours; a member that does not say what time it has is taken to agree."""
        self._handler = handler
        self._timeout_s = timeout_s
        self._clock = clock
        self._ahead_s = 0.0

    @property
    def clock(self) -> float:
        """The member's time, seconds since the epoch."""
        return self._clock() + self._ahead_s

    async def get(self, gvr: GroupVersionResource, namespace: str, name: str) -> Object | None:
        """The object, or None where there is none."""
        try:
            return await self._call("GET", path_of(gvr, namespace=namespace, name=name))
        except ApiError as error:
            if error.http_code == 404:
                return None
            raise

    async def list(
        self, gvr: GroupVersionResource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[Object]:
        """The objects that selectors choose."""
        query = [("labelSelector", labels)] if labels else []
        query += [("fieldSelector", fields)] if fields else []
        answer = await self._call("GET", path_of(gvr, namespace=namespace), query=tuple(query))
        return [
            {"apiVersion": gvr.group_version, **item} if "apiVersion" not in item else item
            for item in answer.get("items") or ()
        ]

    async def create(
        self, gvr: GroupVersionResource, namespace: str, obj: Object, *, dry_run: bool = False
    ) -> Object:
        """Raises an ApiError with code 409 where the name is taken."""
        query = (("dryRun", "All"),) if dry_run else ()
        return await self._call("POST", path_of(gvr, namespace=namespace), obj, query=query)

    async def update(self, gvr: GroupVersionResource, obj: Object) -> Object:
        """Replace the very object that was read: by its UID and revision."""
        metadata = obj["metadata"]
        path = path_of(gvr, namespace=metadata.get("namespace", ""), name=metadata["name"])
        return await self._call("PUT", path, obj)

    async def merge(
        self,
        gvr: GroupVersionResource,
        namespace: str,
        name: str,
        patch: Object,
        *,
        uid: str,
        revision: str,
    ) -> Object:
        """A merge patch on the very object that was read."""
        body = {**patch, "metadata": {**patch.get("metadata", {}), "uid": uid}}
        if revision:
            body["metadata"]["resourceVersion"] = revision
        path = path_of(gvr, namespace=namespace, name=name)
        return await self._call("PATCH", path, body, content_type=_MERGE_PATCH)

    async def delete(
        self,
        gvr: GroupVersionResource,
        namespace: str,
        name: str,
        *,
        uid: str,
        propagation: str = "Foreground",
        grace_s: int | None = None,
    ) -> None:
        """Ask for the object's deletion; one that is gone already is no error."""
        options: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "preconditions": {"uid": uid},
        }
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            await self._call("DELETE", path_of(gvr, namespace=namespace, name=name), options)
        except ApiError as error:
            if error.http_code != 404:
                raise

    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: tuple[tuple[str, str], ...] = (),
        content_type: str = _JSON,
    ) -> Object:
        headers = {"accept": _JSON}
        if body is not None:
            headers["content-type"] = content_type
        request = Request(
            method, path, query, headers=headers, body=orjson.dumps(body) if body else b""
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await calls.answer(self._handler, request, timeout_s=self._timeout_s)
                raw = await calls.body_of(response)
        except TimeoutError as error:
            raise TransportError(f"{path} was not answered within {self._timeout_s:g} s") from error
        if (told := _date(response.headers)) is not None:
            self._ahead_s = told - self._clock()
        try:
            answer = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise TransportError(f"{path} answered something that is no JSON: {error}") from error
        if not isinstance(answer, dict):
            raise TransportError(f"{path} answered something that is no object")
        return answer


def _date(headers: Mapping[str, str]) -> float | None:
    """What the answer says of the time; headers of a transport may have any case."""
    text = headers.get("date") or headers.get("Date")
    if not text:
        return None
    try:
        return parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None
