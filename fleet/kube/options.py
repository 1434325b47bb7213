"""Query options of every verb, parsed and validated as kube-apiserver does.

Sources: apimachinery `metav1` option types and their validation, apiserver endpoint handlers.
Booleans never fail (anything but absent, `0` and `false` is true), integers do (400), wrong
combinations are 422 with one cause per field. Unknown parameters are ignored. Continue tokens
are opened by `continuation`, representations chosen by `negotiation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from fleet.errors import BadRequest, Invalid
from fleet.kube import causes, fields, revision
from fleet.kube.gotext import duration_s, int64, quoted
from fleet.kube.selectors import FieldSelector, LabelSelector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.errors import Cause
    from fleet.kube.resources import Resource
    from fleet.kube.revision import Revision
    from fleet.kube.wire import Request

Match = Literal["", "Exact", "NotOlderThan"]
FieldValidation = Literal["Ignore", "Warn", "Strict"]
Propagation = Literal["", "Orphan", "Background", "Foreground"]

_GROUP = "meta.k8s.io"
_MANAGER_LIMIT = 128
_POLICIES = ("Foreground", "Background", "Orphan")
_VALIDATIONS = ("Ignore", "Strict", "Warn")


# Query values


def _bool(request: Request, name: str) -> bool | None:
    value = request.param(name)
    return None if value is None else not (value == "0" or value.lower() == "false")


def _int(request: Request, name: str) -> int | None:
    value = request.param(name)
    if value is None:
        return None
    number = int64(value)
    if number is None:
        digits = value[1:] if value[:1] in ("+", "-") else value
        why = "value out of range" if digits.isascii() and digits.isdigit() else "invalid syntax"
        raise BadRequest(f"strconv.ParseInt: parsing {quoted(value)}: {why}")
    return number


def _all(request: Request, name: str) -> list[str]:
    return [value for key, value in request.query if key == name]


def _refuse(kind: str, problems: Sequence[Cause]) -> None:
    if problems:
        raise Invalid.of(group=_GROUP, kind=kind, name="", causes=problems)


# Reads


def _selectors(
    request: Request, resource: Resource | None, name: str
) -> tuple[LabelSelector, FieldSelector]:
    """The request's selectors; `name` comes from a legacy watch path."""
    label = LabelSelector.parse(request.param("labelSelector") or "")
    field = FieldSelector.parse(request.param("fieldSelector") or "")
    if resource is not None:
        field = fields.check(resource, field)
    if name:
        if field.empty:
            field = FieldSelector([("metadata.name", "=", name)])
        elif field.exact("metadata.name") != name:
            raise BadRequest("fieldSelector metadata.name doesn't match requested name")
    return label, field


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of LIST and of DELETE on a collection.

    `limit` 0 means all. `revision` 0 with `revision_given` is "any, from the cache"; without it
    "the most recent". `match` "" with a revision means not older than it.
    """

    label: LabelSelector
    field: FieldSelector
    limit: int
    continue_: str
    revision: Revision
    revision_given: bool
    match: Match

    @property
    def exact(self) -> bool:
        """Whether the list is to be of `revision` and no other: asked for, or, as upstream reads
        it, a page of a revision without a match."""
        return self.match == "Exact" or (not self.match and self.limit > 0 and self.revision > 0)

    @classmethod
    def parse(cls, request: Request, *, resource: Resource | None = None) -> ListOptions:
        """Raises BadRequest for a value that does not parse, or, where `resource` is given, a
        field label it does not have; Invalid for a combination that is not allowed."""
        _int(request, "timeoutSeconds")
        limit = _int(request, "limit") or 0
        label, field = _selectors(request, resource, "")
        given = request.param("resourceVersion") or ""
        match = request.param("resourceVersionMatch") or ""
        token = request.param("continue") or ""
        _refuse("ListOptions", _list_problems(request, given=given, match=match, token=token))
        if token and given not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
        return cls(
            label=label,
            field=field,
            limit=max(limit, 0),
            continue_=token,
            revision=revision.parse(given),
            revision_given=bool(given),
            match=cast("Match", match),
        )


def _list_problems(request: Request, *, given: str, match: str, token: str) -> list[Cause]:
    problems: list[Cause] = []
    at = "resourceVersionMatch"
    if match:
        if not given:
            problems.append(
                causes.forbidden(at, f"{at} is forbidden unless resourceVersion is provided")
            )
        if token:
            problems.append(causes.forbidden(at, f"{at} is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            problems.append(causes.not_supported(at, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and given == "0":
            problems.append(
                causes.forbidden(at, f'{at} "exact" is forbidden for resourceVersion "0"')
            )
    if request.param("sendInitialEvents") is not None:
        problems.append(
            causes.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
        )
    return problems


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Options of WATCH.

    `send_initial_events` is True when the present state comes first: asked for, or, as upstream
    defaults it, because the revision is unset or 0. False or None: changes after `revision` (or
    from now on when that is 0). A bookmark that ends the initial events is owed when it is True
    and `bookmarks` is set. `timeout_s` None leaves the length to the server.
    """

    label: LabelSelector
    field: FieldSelector
    revision: Revision
    revision_given: bool
    send_initial_events: bool | None
    bookmarks: bool
    timeout_s: float | None

    @classmethod
    def parse(
        cls, request: Request, *, resource: Resource | None = None, name: str = ""
    ) -> WatchOptions:
        """`name` is that of a legacy watch path (`Target.name`). Raises as ListOptions does."""
        timeout = _int(request, "timeoutSeconds")
        _int(request, "limit")
        label, field = _selectors(request, resource, name)
        given = request.param("resourceVersion") or ""
        match = request.param("resourceVersionMatch") or ""
        send = _bool(request, "sendInitialEvents")
        legacy = given in ("", "0")
        if send is None and not match and legacy:
            send, match = True, "NotOlderThan"
        token = request.param("continue") or ""
        _refuse("ListOptions", _watch_problems(send=send, match=match, token=token))
        return cls(
            label=label,
            field=field,
            revision=revision.parse(given),
            revision_given=bool(given),
            send_initial_events=send,
            bookmarks=bool(_bool(request, "allowWatchBookmarks")),
            timeout_s=float(timeout) if timeout is not None and timeout > 0 else None,
        )


def _watch_problems(*, send: bool | None, match: str, token: str) -> list[Cause]:
    problems: list[Cause] = []
    at = "resourceVersionMatch"
    if send is not None and match != "NotOlderThan":
        problems.append(
            causes.forbidden(at, f"sendInitialEvents requires setting {at} to NotOlderThan")
        )
    if match:
        if send is None:
            problems.append(
                causes.forbidden(
                    at, f"{at} is forbidden for watch unless sendInitialEvents is provided"
                )
            )
        if match != "NotOlderThan":
            problems.append(causes.not_supported(at, match, ("NotOlderThan",)))
        if token:
            problems.append(causes.forbidden(at, f"{at} is forbidden when continue is provided"))
    return problems


@dataclass(frozen=True, slots=True)
class GetOptions:
    """Options of GET: any revision at least `revision` will do."""

    revision: Revision
    revision_given: bool

    @classmethod
    def parse(cls, request: Request) -> GetOptions:
        given = request.param("resourceVersion") or ""
        return cls(revision=revision.parse(given), revision_given=bool(given))


# Writes


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of create, update and patch.

    `field_manager` is what owns the fields written: as given, else from the User-Agent.
    """

    dry_run: bool
    field_manager: str
    field_validation: FieldValidation

    @classmethod
    def _checked(
        cls, request: Request, kind: str, problems: Sequence[Cause] = ()
    ) -> tuple[bool, str, FieldValidation]:
        manager = request.param("fieldManager") or ""
        validation = request.param("fieldValidation") or ""
        dry_run = _all(request, "dryRun")
        found = [*problems, *_manager_problems(manager), *_dry_run_problems(dry_run)]
        if validation not in ("", *_VALIDATIONS):
            found.append(causes.not_supported("fieldValidation", validation, ("", *_VALIDATIONS)))
        _refuse(kind, found)
        return (
            bool(dry_run),
            manager or _agent(request),
            cast("FieldValidation", validation or "Warn"),
        )


@dataclass(frozen=True, slots=True)
class CreateOptions(WriteOptions):
    @classmethod
    def parse(cls, request: Request) -> CreateOptions:
        """Raises Invalid (422) naming each wrong option."""
        return cls(*cls._checked(request, "CreateOptions"))


@dataclass(frozen=True, slots=True)
class UpdateOptions(WriteOptions):
    @classmethod
    def parse(cls, request: Request) -> UpdateOptions:
        """Raises Invalid (422) naming each wrong option."""
        return cls(*cls._checked(request, "UpdateOptions"))


@dataclass(frozen=True, slots=True)
class PatchOptions(WriteOptions):
    """`force` takes fields over from other managers; only an apply patch may say it."""

    force: bool = False

    @classmethod
    def parse(cls, request: Request, *, apply: bool) -> PatchOptions:
        """Raises Invalid (422) naming each wrong option; an apply needs `fieldManager`."""
        force = _bool(request, "force")
        problems: list[Cause] = []
        if apply and not request.param("fieldManager"):
            problems.append(causes.required("fieldManager", "is required for apply patch"))
        if not apply and force is not None:
            problems.append(causes.forbidden("force", "may not be specified for non-apply patch"))
        return cls(*cls._checked(request, "PatchOptions", problems), force=bool(force))


def _manager_problems(manager: str) -> list[Cause]:
    problems: list[Cause] = []
    if len(manager.encode()) > _MANAGER_LIMIT:
        problems.append(causes.too_long("fieldManager", limit=_MANAGER_LIMIT))
    at = 0
    for character in manager:
        if not character.isprintable():
            name = f"U+{ord(character):04X}"
            problems.append(
                causes.invalid(
                    "fieldManager", manager, f"invalid character {name} (at position {at})"
                )
            )
        at += len(character.encode())
    return problems


def _dry_run_problems(values: Sequence[str]) -> list[Cause]:
    if all(value == "All" for value in values):
        return []
    return [causes.not_supported("dryRun", list(values), ("All",))]


def _agent(request: Request) -> str:
    """The program's name in the User-Agent, as upstream names managers that do not name
    themselves: up to the first slash, printable, at most 128 bytes."""
    prefix = request.headers.get("user-agent", "").partition("/")[0]
    printable = "".join(c for c in prefix if c.isprintable())
    return printable.encode()[:_MANAGER_LIMIT].decode(errors="ignore") or "unknown"


# Deletes


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of DELETE. `grace_period_s` None leaves it to the object's own.

    `propagation` "" leaves it to the resource's default; `orphan_dependents` is the deprecated
    form and already folded into it.
    """

    dry_run: bool = False
    grace_period_s: int | None = None
    propagation: Propagation = ""
    orphan_dependents: bool | None = None
    uid: str = ""
    resource_version: str = ""

    @classmethod
    def parse(cls, request: Request, body: Mapping[str, Any] | None = None) -> DeleteOptions:
        """`body` is the decoded DeleteOptions, if one was sent; what it leaves out is taken from
        the query.

        Raises BadRequest for a value of the wrong type or a body of another kind, Invalid for
        values that are not allowed.
        """
        body = body or {}
        if body.get("kind", "DeleteOptions") != "DeleteOptions":
            raise BadRequest("decoded object cannot be converted to DeleteOptions")
        grace = _typed(body, "gracePeriodSeconds", int)
        if grace is None:
            grace = _int(request, "gracePeriodSeconds")
        orphan = _typed(body, "orphanDependents", bool)
        policy = _typed(body, "propagationPolicy", str)
        if orphan is None and policy is None:
            orphan = _bool(request, "orphanDependents")
            policy = request.param("propagationPolicy")
        dry_run = _typed(body, "dryRun", list) or _all(request, "dryRun")
        conditions = _typed(body, "preconditions", dict) or {}
        _refuse("DeleteOptions", _delete_problems(orphan=orphan, policy=policy, dry_run=dry_run))
        if orphan is not None:
            policy = "Orphan" if orphan else "Background"
        return cls(
            dry_run=bool(dry_run),
            # A negative period is taken for 1, as upstream's BeforeDelete does.
            grace_period_s=1 if grace is not None and grace < 0 else grace,
            propagation=policy or "",
            orphan_dependents=orphan,
            uid=_typed(conditions, "uid", str) or "",
            resource_version=_typed(conditions, "resourceVersion", str) or "",
        )


def _typed(body: Mapping[str, Any], name: str, kind: type) -> Any:
    """`body[name]`, None when absent or null. Raises BadRequest when it is of another type."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadRequest(
            f"DeleteOptions.{name}: expected {kind.__name__}, got {type(value).__name__}"
        )
    return value


def _delete_problems(
    *, orphan: bool | None, policy: str | None, dry_run: Sequence[str]
) -> list[Cause]:
    problems: list[Cause] = []
    at = "propagationPolicy"
    if orphan is not None and policy is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        problems.append(causes.invalid(at, policy, why))
    if policy is not None and policy not in _POLICIES:
        problems.append(causes.not_supported(at, policy, (*_POLICIES, "nil")))
    return problems + _dry_run_problems(dry_run)


# What goes with any request


def pretty(request: Request) -> bool:
    """Whether the answer should be indented: `?pretty=true`, or a browser or curl without it.

    Watch answers are one line each whatever this says.
    """
    value = request.param("pretty")
    if value:
        return value in ("1", "t", "T", "true", "TRUE", "True")
    return request.headers.get("user-agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))


def request_timeout_s(request: Request, *, limit_s: float = 60.0) -> float:
    """How long a request that is no watch, log or connection may take: `?timeout=`, capped.

    Raises BadRequest when it is no duration.
    """
    text = request.param("timeout")
    if not text:
        return limit_s
    try:
        wanted = duration_s(text)
    except ValueError as error:
        raise BadRequest(f"invalid timeout specified in the request URL - {error}") from None
    return min(wanted, limit_s) if wanted > 0 else limit_s
