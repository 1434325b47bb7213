"""Requests to a member as calls: objects in, objects out, errors raised.

What is in a namespace is read and written as that namespace's dispatcher, a user that the member
binds to this namespace alone; what is in none, with the credentials that the member joined with.
Before a namespace is bound the fleet has put nothing there, and looks with those credentials too.
Every write says which object it means: a new one by name, one that is there by UID and revision. A
write whose answer was lost has perhaps been made; the next look will tell.
"""

from __future__ import annotations

import time
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import orjson

from fleet.errors import ApiError, Forbidden
from fleet.kube.paths import path_of
from fleet.kube.resources import GroupVersionResource
from fleet.kube.wire import Request
from fleet.members import calls
from fleet.members.binding import DISPATCHER, dispatcher_of, is_bound, restoring

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.kube.wire import Handler

Object = dict[str, Any]

_AS = "impersonate-user"
_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"
_NAMESPACES = GroupVersionResource("", "v1", "namespaces")


class Remote:
    """One member's API. Each call raises ApiError for a refusal – NotBound where it is the
    dispatcher's rights that are missing – and TransportError for no answer."""

    def __init__(
        self,
        handler: Handler,
        *,
        timeout_s: float = 10.0,
        clock: Callable[[], float] = time.time,
        dispatches: bool = True,
        uid: str = "",
    ) -> None:
        """`uid` is which cluster it is, "" where nobody knows. `clock` is ours; a member that does
        not say what time it has is taken to agree. One that does not `dispatch` does everything
        with the credentials that the member joined with."""
        self.uid = uid
        self._handler = handler
        self._timeout_s = timeout_s
        self._clock = clock
        self._ahead_s = 0.0
        self._dispatches = dispatches

    @property
    def joined(self) -> Remote:
        """The same member, whatever is asked with the credentials that it joined with: for what
        has to be there before a dispatcher may act."""
        if not self._dispatches:
            return self
        return Remote(
            self._handler,
            timeout_s=self._timeout_s,
            clock=self._clock,
            dispatches=False,
            uid=self.uid,
        )

    def is_another(self, uid: str) -> bool:
        """Whether it is known to be another cluster than that: names pass on, UIDs do not."""
        return bool(uid and self.uid and uid != self.uid)

    @property
    def clock(self) -> float:
        """The member's time, seconds since the epoch."""
        return self._clock() + self._ahead_s

    async def get(self, gvr: GroupVersionResource, namespace: str, name: str) -> Object | None:
        """The object, or None where there is none."""
        try:
            path = path_of(gvr, namespace=namespace, name=name)
            return await self._call("GET", path, namespace=namespace)
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
        path = path_of(gvr, namespace=namespace)
        answer = await self._call("GET", path, namespace=namespace, query=tuple(query))
        return [
            {"apiVersion": gvr.group_version, **item} if "apiVersion" not in item else item
            for item in answer.get("items") or ()
        ]

    async def create(
        self, gvr: GroupVersionResource, namespace: str, obj: Object, *, dry_run: bool = False
    ) -> Object:
        """Raises an ApiError with code 409 where the name is taken."""
        query = (("dryRun", "All"),) if dry_run else ()
        path = path_of(gvr, namespace=namespace)
        return await self._call("POST", path, obj, namespace=namespace, query=query)

    async def update(self, gvr: GroupVersionResource, obj: Object) -> Object:
        """Replace the very object that was read: by its UID and revision."""
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        path = path_of(gvr, namespace=namespace, name=metadata["name"])
        return await self._call("PUT", path, obj, namespace=namespace)

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
        return await self._call("PATCH", path, body, namespace=namespace, content_type=_MERGE_PATCH)

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
            path = path_of(gvr, namespace=namespace, name=name)
            await self._call("DELETE", path, options, namespace=namespace)
        except ApiError as error:
            if error.http_code != 404:
                raise

    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        namespace: str,
        query: tuple[tuple[str, str], ...] = (),
        content_type: str = _JSON,
    ) -> Object:
        headers = {"accept": _JSON}
        if body is not None:
            headers["content-type"] = content_type
        raw = orjson.dumps(body) if body else b""
        request = Request(method, path, query, headers=headers, body=raw)
        if not namespace or not self._dispatches:
            return await self._answer(request)
        user = dispatcher_of(namespace)
        try:
            return await self._answer(replace(request, headers=headers | {_AS: user}))
        except ApiError as error:
            if error.http_code != 403:
                raise
            if method == "GET" and _is_of(user, error) and not await self._is_bound(namespace):
                return await self._answer(request)
            raise _explained(error, user, namespace) from error

    async def _is_bound(self, namespace: str) -> bool:
        return is_bound(await self.get(_NAMESPACES, "", namespace))

    async def _answer(self, request: Request) -> Object:
        found = await calls.ask(self._handler, request, timeout_s=self._timeout_s)
        if (told := _date(found.headers)) is not None:
            self._ahead_s = told - self._clock()
        answer: Object = found.value
        return answer


class NotBound(Forbidden):
    """The dispatcher of a namespace has lost its rights there, or has not all it needs."""


def _is_of(user: str, error: ApiError) -> bool:
    """Whether a refusal is about the rights of `user`: quotas and admission refuse with the same
    code."""
    return f'User "{user}" cannot' in str(error)


def _explained(error: ApiError, user: str, namespace: str) -> ApiError:
    """A refusal that concerns the fleet's rights, with what to do; any other as it is."""
    if "cannot impersonate" in str(error):
        return Forbidden(
            f"{error}: its credentials may not act as the fleet's dispatcher; join it again with "
            "the kubeconfig of an administrator (fleet join FILE --name MEMBER --replace)"
        )
    if _is_of(user, error):
        return NotBound(
            f"{error}: RoleBinding {DISPATCHER} in its namespace {namespace} was removed or does "
            f"not give what is needed; to let the fleet in again: {restoring(namespace, 'MEMBER')}"
        )
    return error


def _date(headers: Mapping[str, str]) -> float | None:
    """What the answer says of the time; headers of a transport may have any case."""
    text = headers.get("date") or headers.get("Date")
    if not text:
        return None
    try:
        return parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None
