"""Status: errors and outcomes as Kubernetes writes them, both ways.

`status_of` makes the object of an error, `error_of` the error of an object that another server
answered. A Status is written as one compact line wherever it goes, also into a watch: a line
break inside it breaks clients that read lines (kube-rs#2062).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from fleet.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Details,
    Expired,
    Forbidden,
    InternalError,
    Invalid,
    MemberStatus,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    RequestTooLarge,
    RevisionTooLarge,
    ServerTimeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEAVES: tuple[type[ApiError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    RequestTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    Unavailable,
    ServerTimeout,
)
_BY_REASON = {leaf.reason: leaf for leaf in _LEAVES}
# For answers without a usable reason; 409 is a conflict, as client-go reads it.
_BY_CODE = {leaf.code: leaf for leaf in _LEAVES if leaf is not AlreadyExists}
_TOO_LARGE = re.compile(r"Too large resource version: (\d+), current: (\d+)")
_TEXT_LIMIT = 2048


def status_of(error: ApiError) -> dict[str, Any]:
    """The Status object of an error. A member's own Status comes back unchanged."""
    if isinstance(error, MemberStatus):
        return dict(error.status)
    metadata: dict[str, Any] = {}
    if isinstance(error, Expired) and error.continue_token:
        metadata["continue"] = error.continue_token
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": metadata,
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
    }
    if error.details is not None:
        status["details"] = _details(error.details)
    status["code"] = error.http_code
    return status


def _details(details: Details) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "name": details.name,
        "group": details.group,
        "kind": details.kind,
        "uid": details.uid,
        "causes": [
            {
                key: value
                for key, value in (
                    ("reason", cause.reason),
                    ("message", cause.message),
                    ("field", cause.field),
                )
                if value
            }
            for cause in details.causes
        ],
        "retryAfterSeconds": details.retry_after_s,
    }
    return {key: value for key, value in parts.items() if value}


def success(
    *, group: str = "", kind: str = "", name: str = "", uid: str = "", code: int = 200
) -> dict[str, Any]:
    """The Status of a deletion that is done: `details.kind` is the resource plural, and clients
    wait for the object by `details.uid` (kubernetes#66164). 200 is not written, as upstream."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    }
    details = _details(Details(group=group, kind=kind, name=name, uid=uid))
    if details:
        status["details"] = details
    if code != 200:
        status["code"] = code
    return status


def encode(status: Mapping[str, Any]) -> bytes:
    """One compact line, with its line feed."""
    return orjson.dumps(status) + b"\n"


def error_of(status: Mapping[str, Any]) -> ApiError:
    """The error that a Status says. A reason without a leaf of its own gives MemberStatus, so
    that `status_of` returns it whole; `Gone` (410) is read as Expired, as clients do."""
    reason = status.get("reason") or ""
    code = status.get("code")
    message = str(status.get("message") or "")
    if reason in ("Expired", "Gone") or (not reason and code == 410):
        metadata = status.get("metadata") or {}
        return Expired(message, continue_token=str(metadata.get("continue") or ""))
    leaf = _BY_REASON.get(reason) if reason else _BY_CODE.get(code or 0)
    if leaf is None or (code is not None and code != leaf.code):
        return MemberStatus(status)
    details = _parse_details(status.get("details"))
    if leaf is ServerTimeout and (found := _TOO_LARGE.fullmatch(message)):
        return RevisionTooLarge(wanted=int(found[1]), current=int(found[2]))
    return leaf(message, details=details)


def _parse_details(value: Any) -> Details | None:
    if not isinstance(value, dict):
        return None
    return Details(
        group=str(value.get("group") or ""),
        kind=str(value.get("kind") or ""),
        name=str(value.get("name") or ""),
        uid=str(value.get("uid") or ""),
        causes=tuple(
            Cause(
                reason=str(cause.get("reason") or ""),
                message=str(cause.get("message") or ""),
                field=str(cause.get("field") or ""),
            )
            for cause in value.get("causes") or ()
        ),
        retry_after_s=int(value.get("retryAfterSeconds") or 0),
    )


def error_of_answer(code: int, body: bytes, *, retry_after: str | None = None) -> ApiError:
    """The error in an HTTP answer: its Status, or, where some proxy put other text in front,
    the leaf for the code with that text, shortened."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if isinstance(document, dict) and document.get("kind") == "Status":
        return error_of(document if document.get("code") else {**document, "code": code})
    text = body[:_TEXT_LIMIT].decode(errors="replace").strip()
    message = text or f"the server answered {code} without a reason"
    if code == 410:
        return Expired(message)
    leaf = _BY_CODE.get(code)
    seconds = int(retry_after) if retry_after and retry_after.isdecimal() else 0
    if leaf is None:
        return MemberStatus(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": message,
                "reason": "InternalError" if code >= 500 else "Unknown",
                "details": {"retryAfterSeconds": seconds} if seconds else {},
                "code": code,
            }
        )
    return leaf(message, details=Details(retry_after_s=seconds) if seconds else None)
