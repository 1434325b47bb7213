"""The one entry to patching: content type and bytes in, the patched object out.

Errors keep the order an API server has: unknown content type (415), unreadable patch (400), a patch
that does not apply or leaves no valid object (422).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import BadRequest, Cause, Invalid, UnsupportedMediaType
from fleet.kube.patch.json_patch import apply_json_patch, check_operations, strict_problems
from fleet.kube.patch.merge_patch import apply_merge_patch
from fleet.kube.patch.ordering import go_print
from fleet.kube.patch.strategic import apply_strategic_merge_patch
from fleet.kube.schema.fields import (
    NO_KIND,
    NOT_AN_OBJECT,
    FieldValidation,
    TypeMismatch,
    conform,
    wrong_kind,
)
from fleet.kube.schema.reading import Unreadable, parse_json, repeated_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fleet.kube.schema import Schema

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"


def accepted_types(schema: Schema | None) -> tuple[str, ...]:
    """The patch content types that a kind takes: no strategic merge for custom resources."""
    if schema is None or schema.custom:
        return JSON_PATCH, MERGE_PATCH
    return JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH


def apply_patch(
    content_type: str,
    current: dict[str, Any],
    patch_body: bytes,
    *,
    schema: Schema | None,
    validation: FieldValidation = FieldValidation.WARN,
    warn: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """`current` after the patch, pruned and with settled zero values; defaults are not applied.

    `current` is not changed. `warn` receives undeclared and repeated fields under Warn.

    Raises UnsupportedMediaType, BadRequest for a patch that cannot be read, RequestTooLarge for too
    many operations, Invalid for one that does not apply or whose outcome is no valid object.
    """
    media_type = content_type.partition(";")[0].strip()
    accepted = accepted_types(schema)
    if media_type not in accepted:
        raise UnsupportedMediaType.of(accepted)
    strategic = media_type == STRATEGIC_MERGE_PATCH
    strict = validation is not FieldValidation.IGNORE
    try:
        patch = parse_json(patch_body)
    except Unreadable as error:
        raise BadRequest(f"{'' if strategic else 'error decoding patch: '}{error}") from error
    problems: list[str] = []
    if media_type == JSON_PATCH:
        operations = check_operations(patch, strict=strict)
        problems += [f"json patch {text}" for text in repeated_fields(patch)]
        problems += strict_problems(operations)
        patched = apply_json_patch(current, operations)
    else:
        _check_object(patch, strategic=strategic, strict=strict)
        problems += repeated_fields(patch)
        if strategic:
            assert schema is not None
            patched = apply_strategic_merge_patch(current, patch or {}, schema)
        else:
            patched = apply_merge_patch(current, patch)
    shown = go_print(patch) if strategic else json.dumps(patched, separators=(",", ":"))
    if not isinstance(patched, dict):
        word = "array" if isinstance(patched, list) else "value"
        raise _invalid(shown, f"{NO_KIND}: {NOT_AN_OBJECT.format(word)}")
    _keep_kind(patched, current, shown, strategic=strategic)
    try:
        held, unknown = (
            conform(patched, schema, unstructured=strategic) if schema else (patched, ())
        )
    except TypeMismatch as error:
        raise _invalid(shown, str(error)) from error
    problems += sorted(unknown) if strategic else unknown
    if problems and validation is FieldValidation.STRICT:
        raise _not_strict(shown, problems)
    if warn is not None and validation is FieldValidation.WARN:
        for problem in problems:
            warn(problem)
    return held


def not_strict_patch(patch: Any, problems: Iterable[str], *, strategic: bool) -> Invalid:
    """The refusal of a patch under `fieldValidation=Strict` where the object is not at hand; in the
    place of the outcome the message has the patch."""
    shown = go_print(patch) if strategic else json.dumps(patch, separators=(",", ":"))
    return _not_strict(shown, problems)


def _not_strict(shown: str, problems: Iterable[str]) -> Invalid:
    return _invalid(shown, f"strict decoding error: {', '.join(problems)}")


def _check_object(patch: Any, *, strategic: bool, strict: bool) -> None:
    if isinstance(patch, dict) or (patch is None and strategic):
        return
    if patch is None or (not strict and not strategic and not isinstance(patch, list)):
        raise BadRequest("Invalid JSON Patch")
    if strict or strategic:
        word = {list: "array", str: "string", bool: "bool"}.get(type(patch), "number")
        raise BadRequest(
            f"{'' if strategic else 'error decoding patch: '}json: cannot unmarshal {word} into Go "
            "value of type map[string]interface {}"
        )


def _keep_kind(
    patched: dict[str, Any], current: dict[str, Any], shown: str, *, strategic: bool
) -> None:
    """A patch cannot make another kind of the object; a strategic one is not even asked."""
    own_version, own_kind = current.get("apiVersion", ""), current.get("kind", "")
    version = patched.get("apiVersion") or own_version
    kind = patched.get("kind") or own_kind
    if not strategic and (version, kind) != (own_version, own_kind):
        raise _invalid(shown, wrong_kind(version, kind, api_version=own_version, own=own_kind))
    patched |= {f: v for f, v in (("apiVersion", own_version), ("kind", own_kind)) if v}


def _invalid(shown: str, why: str) -> Invalid:
    """Upstream puts the whole outcome into the message; a cause names `patch` as the field."""
    quoted = json.dumps(shown, ensure_ascii=False)
    cause = Cause("FieldValueInvalid", f"Invalid value: {quoted}: {why}", "patch")
    return Invalid.of(group="", kind="", name="", causes=(cause,))
