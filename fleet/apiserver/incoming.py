"""A request as it arrives over HTTP, made a `fleet.kube.wire.Request`.

Invariant: what cannot be told apart from an attack or a mistake – a path that climbs, a broken
escape, a body beyond the limit – is refused here with a Status and never reaches a handler.
`fleet.apiserver.http` calls this and sends the answer.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from aiohttp import web

from fleet.errors import BadRequest, RequestTooLarge, UnsupportedMediaType
from fleet.kube.wire import ANONYMOUS, UserInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_QUERY_FIELDS = 1000

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OFFERS = frozenset({"sec-websocket-protocol", "x-stream-protocol-version"})
_GROUPS = "impersonate-group"
_OF_CONNECTIONS = frozenset({"close", "keep-alive", "upgrade"})
_TOKEN = re.compile(r"[A-Za-z0-9._-]{1,64}")

Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may take: bytes of body, and seconds until the body is there."""

    body_bytes: int = 3 << 20
    body_timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Peer:
    """What is known of the caller before the body is read.

    `certificate` is the verified client certificate as `ssl.SSLSocket.getpeercert` gives it, None
    without one; `authorization` the header of that name, "" without one.
    """

    method: str
    path: str
    certificate: Mapping[str, Any] | None = None
    authorization: str = ""
    address: str = ""


class Authenticator(Protocol):
    """Says who is calling."""

    async def authenticate(self, peer: Peer) -> UserInfo:
        """The caller, `ANONYMOUS` where that may call; raises Unauthorized."""


class Open:
    """Lets everybody in as nobody in particular."""

    async def authenticate(self, peer: Peer) -> UserInfo:
        return ANONYMOUS


def parse_request_target(text: str) -> tuple[str, Query]:
    """The decoded path and the query of a request line's target.

    Raises BadRequest for anything but an absolute path (RFC 9112 origin-form or absolute-form),
    for escapes that are broken or decode to control characters or no UTF-8, and for `.` and `..`
    as segments, escaped or not.
    """
    if not text.startswith("/"):
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https"):
            raise BadRequest(f"the request target {text[:128]!r} is not an absolute path")
        text = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    raw, _, query = text.partition("?")
    return _path(raw), _query(query) if query else ()


def _path(raw: str) -> str:
    path = raw
    if not raw.isascii() or _BROKEN_ESCAPE.search(raw):
        raise BadRequest(f"the path {raw[:128]!a} is not percent-encoded properly")
    if "%" in raw:
        try:
            path = unquote(raw, errors="strict")
        except UnicodeDecodeError:
            raise BadRequest(f"the path {raw[:128]!r} does not decode to UTF-8") from None
    if _CONTROL.search(path):
        raise BadRequest("the path holds control characters")
    if "/." in path and not {".", ".."}.isdisjoint(path.split("/")):
        raise BadRequest(f"the path {path[:128]!r} holds a segment '.' or '..'")
    return path


def _query(raw: str) -> Query:
    try:
        return tuple(
            parse_qsl(raw, keep_blank_values=True, errors="strict", max_num_fields=MAX_QUERY_FIELDS)
        )
    except UnicodeDecodeError:
        raise BadRequest("the query does not decode to UTF-8") from None
    except ValueError:
        raise BadRequest(f"the query holds more than {MAX_QUERY_FIELDS} parameters") from None


def audit_id_of(headers: Mapping[str, str], fresh: str) -> str:
    """The id under which the request is known in every log: the caller's own, if it is usable."""
    given = headers.get("audit-id", "")
    return given if _TOKEN.fullmatch(given) else fresh


def headers_of(raw: web.BaseRequest) -> dict[str, str]:
    """Headers by lower-case name; the last value of a repeated one, but every offered protocol:
    SPDY clients send each on a line of its own. Groups to impersonate, which may hold commas, are
    joined by line breaks.

    What `Connection` names is for this connection alone (RFC 9110 7.6.1) and is left out here,
    where only the client has spoken: later, it could take away what the gateway has added.
    """
    headers = {name.lower(): value for name, value in raw.headers.items()}
    for name in _named(raw.headers.getall("connection", [])) - _OF_CONNECTIONS:
        headers.pop(name, None)
    for name in _OFFERS & headers.keys():
        headers[name] = ", ".join(raw.headers.getall(name))
    if _GROUPS in headers:
        headers[_GROUPS] = "\n".join(raw.headers.getall(_GROUPS))
    return headers


def _named(connection: Iterable[str]) -> set[str]:
    return {name.strip().lower() for text in connection for name in text.split(",")}


def open_transport(raw: web.BaseRequest) -> asyncio.Transport | None:
    """The connection, None once it is closing: what is asked of a closed one is an error."""
    transport = raw.transport
    return None if transport is None or transport.is_closing() else transport


def peer_of(raw: web.BaseRequest, *, path: str, headers: Mapping[str, str]) -> Peer:
    transport = raw.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    return Peer(
        method=raw.method,
        path=path,
        certificate=certificate or None,
        authorization=headers.get("authorization", ""),
        address=raw.remote or "",
    )


async def read_body(raw: web.BaseRequest, headers: Mapping[str, str], limits: Limits) -> bytes:
    """The whole body. Says `100 Continue` only to one that will be read.

    Raises RequestTooLarge, UnsupportedMediaType for an encoded body, and BadRequest when it is
    malformed or takes too long.
    """
    if not raw.body_exists:
        return b""
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("the body may not be compressed: send it without an encoding")
    if (raw.content_length or 0) > limits.body_bytes:
        raise _too_large(limits)
    expects = headers.get("expect", "").lower() == "100-continue"
    if expects and (transport := open_transport(raw)) is not None:
        transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            while chunk := await raw.content.readany():
                if len(body) + len(chunk) > limits.body_bytes:
                    raise _too_large(limits)
                body += chunk
    except TimeoutError:
        raise BadRequest(
            f"the body did not arrive within {limits.body_timeout_s:g} s; nothing was changed"
        ) from None
    except web.RequestPayloadError as error:
        raise BadRequest(f"the body is malformed: {error}") from None
    return bytes(body)


def _too_large(limits: Limits) -> RequestTooLarge:
    return RequestTooLarge(
        f"the body of the request is too large: the limit is {limits.body_bytes} bytes"
    )
