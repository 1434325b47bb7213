"""Calls that are no objects: a cluster joins or leaves the fleet.

A join carries credentials, which must never lie in an object that others may read, and it succeeds
or fails as one; so it is a call of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from fleet.apiserver.bodies import json_response
from fleet.errors import (
    BadRequest,
    ConfigError,
    Conflict,
    InternalError,
    JoinError,
    MethodNotAllowed,
    StoreError,
)

if TYPE_CHECKING:
    from fleet.kube.wire import Request, Response
    from fleet.members.roster import Members


class Join:
    """`POST /fleet/join` with `{"name", "kubeconfig", "replace"}`; the kubeconfig as text that
    stands alone."""

    def __init__(self, members: Members) -> None:
        self._members = members

    async def handle(self, request: Request) -> Response:
        body = body_of(request)
        name, kubeconfig = body.get("name"), body.get("kubeconfig")
        if not isinstance(name, str) or not isinstance(kubeconfig, str):
            raise BadRequest("a join needs a name and a kubeconfig, both text")
        try:
            member = await self._members.join(
                name, kubeconfig.encode(), replace=body.get("replace") is True
            )
        except ConfigError as error:
            raise BadRequest(str(error)) from error
        except JoinError as error:
            raise _Refused(str(error)) from error
        except StoreError as error:
            raise InternalError(f"{name} was not joined, nothing was changed: {error}") from error
        return json_response(
            200, {"name": member.name, "uid": member.uid, "version": member.version}
        )


class Leave:
    """`POST /fleet/leave` with `{"name"}`."""

    def __init__(self, members: Members) -> None:
        self._members = members

    async def handle(self, request: Request) -> Response:
        name = body_of(request).get("name")
        if not isinstance(name, str):
            raise BadRequest("a leave needs a name")
        try:
            await self._members.leave(name)
        except JoinError as error:
            raise _Refused(str(error)) from error
        except StoreError as error:
            raise InternalError(f"{name} is a member still: {error}") from error
        return json_response(200, {"name": name})


class _Refused(Conflict):
    """A join or leave that is not possible as things are; the message is for people."""


def body_of(request: Request) -> dict[str, Any]:
    """The JSON object that a call brings. Raises BadRequest, MethodNotAllowed."""
    if request.method != "POST":
        raise MethodNotAllowed(f"{request.method} is not supported on {request.path}, only POST")
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest("the body is no JSON object")
    return body
