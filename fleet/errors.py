"""The one error tree; anybody may import it.

    FleetError
    ├─ ApiError                    knows code, reason and details; the API edge makes a Status of it
    │  ├─ BadRequest               400 BadRequest
    │  ├─ Unauthorized             401 Unauthorized
    │  ├─ Forbidden                403 Forbidden
    │  ├─ NotFound                 404 NotFound
    │  ├─ MethodNotAllowed         405 MethodNotAllowed
    │  ├─ NotAcceptable            406 NotAcceptable
    │  ├─ AlreadyExists            409 AlreadyExists
    │  ├─ Conflict                 409 Conflict
    │  ├─ Expired                  410 Expired
    │  ├─ RequestTooLarge          413 RequestEntityTooLarge
    │  ├─ UnsupportedMediaType     415 UnsupportedMediaType
    │  ├─ Invalid                  422 Invalid (one cause per wrong field)
    │  ├─ TooManyRequests          429 TooManyRequests
    │  ├─ InternalError            500 InternalError
    │  ├─ Unavailable              503 ServiceUnavailable
    │  ├─ ServerTimeout            504 Timeout
    │  │  └─ RevisionTooLarge      504 Timeout, cause ResourceVersionTooLarge
    │  └─ MemberStatus             a Status as a member sent it, passed on unchanged
    ├─ ConfigError                 a configuration file, kubeconfig or flag that cannot be used
    ├─ JoinError                   a cluster that cannot be taken into the fleet
    ├─ TransportError              a member that could not be reached or broke off
    ├─ StoreError                  the object store cannot be opened, read or written
    └─ TestbedError                a test cluster that could not be built, started or stopped

Wording follows upstream (k8s.io/apimachinery pkg/api/errors): `details.kind` holds the resource
plural for NotFound, AlreadyExists, Conflict and Forbidden, and the Kind for Invalid. docs/errors.md
says of each when it comes and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class FleetError(Exception):
    """Root of everything the project raises on purpose."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `details.causes`: which field is wrong and why."""

    reason: str
    message: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class Details:
    """`Status.details`: which object the error is about. Empty parts are left out of the body."""

    group: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_s: int = 0


class ApiError(FleetError):
    """An error with a place in the Kubernetes API: `code`, `reason`, `message`, `details`."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str, *, details: Details | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    @property
    def http_code(self) -> int:
        return self.code


def qualified(resource: str, group: str) -> str:
    """`deployments.apps`, or `pods` for the core group: how upstream messages name a resource."""
    return f"{resource}.{group}" if group else resource


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"

    @classmethod
    def of(cls, *, group: str, resource: str, name: str, why: str) -> Forbidden:
        subject = f'{qualified(resource, group)} "{name}"' if name else qualified(resource, group)
        return cls(
            f"{subject} is forbidden: {why}",
            details=Details(group=group, kind=resource, name=name),
        )


class NotFound(ApiError):
    code, reason = 404, "NotFound"

    @classmethod
    def of(cls, *, group: str, resource: str, name: str, hint: str = "") -> NotFound:
        text = f'{qualified(resource, group)} "{name}" not found'
        return cls(
            f"{text} {hint}" if hint else text,
            details=Details(group=group, kind=resource, name=name),
        )

    @classmethod
    def path(cls) -> NotFound:
        """An unknown path; upstream's wording."""
        return cls("the server could not find the requested resource", details=Details())


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"

    @classmethod
    def of(cls, *, group: str, resource: str, verb: str) -> MethodNotAllowed:
        return cls(
            f"{verb} is not supported on resources of kind {qualified(resource, group)!r}".replace(
                "'", '"'
            ),
            details=Details(group=group, kind=resource),
        )


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"

    @classmethod
    def of(cls, accepted: Sequence[str]) -> NotAcceptable:
        return cls(
            "only the following media types are accepted: " + ", ".join(accepted),
        )


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"

    @classmethod
    def of(cls, *, group: str, resource: str, name: str) -> AlreadyExists:
        return cls(
            f'{qualified(resource, group)} "{name}" already exists',
            details=Details(group=group, kind=resource, name=name),
        )


class Conflict(ApiError):
    code, reason = 409, "Conflict"

    @classmethod
    def of(cls, *, group: str, resource: str, name: str, why: str) -> Conflict:
        return cls(
            f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}',
            details=Details(group=group, kind=resource, name=name),
        )


class Expired(ApiError):
    """410: a revision or a continue token from before what is kept.

    `continue_token`, when given, resumes the list at the same key and the newest revision.
    """

    code, reason = 410, "Expired"

    def __init__(self, message: str, *, continue_token: str = "") -> None:
        super().__init__(message)
        self.continue_token = continue_token


class RequestTooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"

    @classmethod
    def of(cls, accepted: Sequence[str]) -> UnsupportedMediaType:
        return cls(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(accepted),
        )


class Invalid(ApiError):
    code, reason = 422, "Invalid"

    @classmethod
    def of(cls, *, group: str, kind: str, name: str, causes: Sequence[Cause]) -> Invalid:
        """`causes` name each wrong field; the message joins them as upstream's ErrorList does."""
        parts = [f"{c.field}: {c.message}" for c in causes]
        joined = parts[0] if len(parts) == 1 else "[" + ", ".join(parts) + "]"
        return cls(
            f'{qualified(kind, group)} "{name}" is invalid: {joined}'
            if causes
            else f'{qualified(kind, group)} "{name}" is invalid',
            details=Details(group=group, kind=kind, name=name, causes=tuple(causes)),
        )


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    code, reason = 500, "InternalError"


class Unavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"

    @classmethod
    def member(cls, member: str, why: str, *, retry_after_s: int = 0) -> Unavailable:
        """`retry_after_s` only where the next seconds may change it: clients of client-go's make
        ten attempts of an answer that says when to come back, and a user waits for all of them."""
        return cls(
            f"member {member} cannot be reached: {why}; nothing was changed there, try again",
            details=Details(retry_after_s=retry_after_s) if retry_after_s else None,
        )


class ServerTimeout(ApiError):
    code, reason = 504, "Timeout"


class RevisionTooLarge(ServerTimeout):
    """A revision ahead of this server; reflectors look for the cause and list again."""

    def __init__(self, *, wanted: int, current: int) -> None:
        super().__init__(
            f"Too large resource version: {wanted}, current: {current}",
            details=Details(
                causes=(Cause("ResourceVersionTooLarge", "Too large resource version"),),
                retry_after_s=1,
            ),
        )


class MemberStatus(ApiError):
    """A Status that a member answered, to be passed on as it is (names already projected), with
    the warnings that came with it."""

    def __init__(self, status: Mapping[str, Any], *, warnings: Sequence[str] = ()) -> None:
        super().__init__(str(status.get("message", "")))
        self.status = status
        self.warnings = tuple(warnings)

    @property
    def http_code(self) -> int:
        return int(self.status.get("code", 500))


class ConfigError(FleetError):
    """A configuration file, kubeconfig or flag that cannot be used; says which and what to do."""


class JoinError(FleetError):
    """A cluster that cannot be taken into the fleet; says why and how to go on."""


class TransportError(FleetError):
    """A member that could not be reached or broke off; `sent` says whether it may have acted."""

    def __init__(self, message: str, *, member: str = "", sent: bool = True) -> None:
        super().__init__(message)
        self.member = member
        self.sent = sent


class StoreError(FleetError):
    """The object store cannot be opened, read or written."""


class TestbedError(FleetError):
    """A test cluster that could not be built, started or stopped."""

    __test__ = False
