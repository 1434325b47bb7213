"""Single calls to a member, with a deadline, that give a document or raise.

A member answers an error as a Response with a Status body, a fake or a kernel may raise it;
callers here meet one form: an `ApiError`, or a `TransportError` when there was no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from fleet.errors import MemberStatus, TransportError
from fleet.kube.wire import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.kube.wire import Handler, Response

_MAX_QUOTED = 256  # an error page must not fill logs, nor carry much of what it may quote


@dataclass(frozen=True, slots=True)
class Document:
    """An answer with status 200 or 304 (`value` is then None)."""

    status: int
    headers: Mapping[str, str]
    value: Any
    raw: bytes


async def body_of(response: Response) -> bytes:
    """The whole body of a response, whatever form it has."""
    body = response.body
    if isinstance(body, bytes):
        return body
    if isinstance(body, AsyncIterator):
        try:
            return b"".join([piece async for piece in body])
        finally:
            await response.aclose()
    return b"".join(body)


def pieces_of(response: Response) -> AsyncIterator[bytes]:
    """The body as a stream of pieces, whatever form it has."""
    body = response.body
    if isinstance(body, AsyncIterator):
        return body

    async def given() -> AsyncIterator[bytes]:
        for piece in (body,) if isinstance(body, bytes) else body:
            yield piece

    return given()


async def refusal_of(response: Response) -> MemberStatus:
    """The error that a response with status >= 300 stands for."""
    raw = await body_of(response)
    try:
        status = orjson.loads(raw)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = raw[:_MAX_QUOTED].decode(errors="replace").strip()
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": text}
    if not isinstance(status.get("code"), int) or status["code"] < 300:
        status["code"] = response.status
    if not status.get("message"):
        status["message"] = f"answered {response.status}"
    return MemberStatus(status)


async def answer(handler: Handler, request: Request, *, timeout_s: float) -> Response:
    """The response to `request`, its status below 300 or 304.

    Raises ApiError for an answer that is an error, TransportError when none came in `timeout_s`.
    """
    try:
        async with asyncio.timeout(timeout_s):
            response = await handler.handle(request)
            if response.status < 300 or response.status == 304:
                return response
            raise await refusal_of(response)
    except TimeoutError as error:
        raise TransportError(f"no answer to {request.path} within {timeout_s:g} s") from error


async def get(
    handler: Handler,
    path: str,
    *,
    timeout_s: float,
    head_s: float | None = None,
    query: tuple[tuple[str, str], ...] = (),
    headers: Mapping[str, str] | None = None,
    parse: bool = True,
) -> Document:
    """GET a JSON document, whole within `timeout_s`, begun within `head_s` (the same by default).

    Raises as `answer`, and TransportError for a body that is no JSON.
    """
    sent = {"accept": "application/json", **(headers or {})}
    try:
        async with asyncio.timeout(timeout_s):
            request = Request("GET", path, query, headers=sent)
            response = await answer(handler, request, timeout_s=head_s or timeout_s)
            raw = await body_of(response)
    except TimeoutError as error:
        raise TransportError(f"{path} was not answered whole within {timeout_s:g} s") from error
    value = None
    if parse and response.status != 304:
        try:
            value = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise TransportError(f"{path} answered something that is no JSON: {error}") from error
    return Document(response.status, response.headers, value, raw)


async def ask(handler: Handler, request: Request, *, timeout_s: float) -> Document:
    """The object that answers `request`, whole within `timeout_s`.

    Raises as `answer`, and TransportError for a body that is no JSON object.
    """
    path = request.path
    try:
        async with asyncio.timeout(timeout_s):
            response = await answer(handler, request, timeout_s=timeout_s)
            raw = await body_of(response)
    except TimeoutError as error:
        raise TransportError(f"{path} was not answered whole within {timeout_s:g} s") from error
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise TransportError(f"{path} answered something that is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise TransportError(f"{path} answered something that is no object")
    return Document(response.status, response.headers, value, raw)
