"""Repeated fields of a body that goes on to a member, found in the body as it came.

Un-projection writes the body anew, and a repeated field is then gone: the member could not refuse
it under `fieldValidation=Strict`, nor warn of it. What else is not strict is the member's to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.errors import BadRequest, UnsupportedMediaType
from fleet.kube.negotiation import body_form
from fleet.kube.patch.types import JSON_PATCH, STRATEGIC_MERGE_PATCH, not_strict_patch
from fleet.kube.schema.fields import FieldValidation, not_strict
from fleet.kube.schema.reading import Unreadable, parse_json, parse_yaml, repeated_fields

if TYPE_CHECKING:
    from fleet.kube.resources import Resource
    from fleet.kube.wire import Request

_APPLY = "application/apply-patch+yaml"
_CONVERTING = "error converting YAML to JSON: "


def check(request: Request, resource: Resource) -> tuple[str, ...]:
    """The warnings about repeated fields in the body of a create, update or patch.

    Raises BadRequest or Invalid, as an API server, when they are to be refused. What cannot be
    read is left to whoever reads it.
    """
    asked = request.param("fieldValidation") or FieldValidation.WARN
    if asked not in (FieldValidation.STRICT, FieldValidation.WARN) or not request.body:
        return ()
    try:
        value, problems = _repeats(request)
    except (Unreadable, UnsupportedMediaType):
        return ()
    if not problems or asked == FieldValidation.WARN:
        return problems
    if request.method != "PATCH":
        said = value if isinstance(value, dict) else {}
        kind = str(said.get("kind") or resource.kind)
        version = str(said.get("apiVersion") or resource.api_version).rpartition("/")[2]
        raise not_strict(kind, version, problems)
    if _media_type(request) == _APPLY:
        raise BadRequest(f"error strict decoding YAML: {problems[0]}")
    raise not_strict_patch(value, problems, strategic=_media_type(request) == STRATEGIC_MERGE_PATCH)


def _repeats(request: Request) -> tuple[Any, tuple[str, ...]]:
    """The body's value, and what is repeated in it."""
    if request.method == "PATCH":
        media_type = _media_type(request)
        if media_type == _APPLY:
            value, repeats = parse_yaml(request.body)
            return value, (_CONVERTING + repeats,) if repeats else ()
        value = parse_json(request.body)
        prefix = "json patch " if media_type == JSON_PATCH else ""
        return value, tuple(prefix + each for each in repeated_fields(value))
    match body_form(request.headers.get("content-type")):
        case "yaml":
            value, repeats = parse_yaml(request.body)
            return value, (repeats,) if repeats else ()
        case "protobuf":
            return None, ()
    value = parse_json(request.body)
    return value, tuple(repeated_fields(value))


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
