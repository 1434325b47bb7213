"""A parsed body to the object an API server would hold: prune, check types, settle zero values.

An API server decodes a body into Go structs and writes those out again. Seen from outside that
means: undeclared fields vanish (and are reported under `fieldValidation`), a wrong type is an
error, empty values of `omitempty` fields vanish, and fields without it appear with their zero
value. `decode` does the same from the schema and the table of Go fields. For custom resources only
undeclared fields vanish.

Messages follow sigs.k8s.io/json and the create handler of apiserver. `fleet.kube.defaults` comes
next.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import BadRequest, Cause, Invalid
from fleet.kube.quantity import InvalidQuantity, as_stored
from fleet.kube.schema.documents import GoField, go_fields, schema_for
from fleet.kube.schema.reading import Number, Repeated, Unreadable, parse_json, parse_yaml, word_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fleet.kube.schema.model import GroupVersionKind, Schema

NO_KIND: Final = "couldn't get version/kind; json parse error"
NOT_AN_OBJECT: Final = (
    "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string "
    '"json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }}'
)

_STRICT_LIMIT: Final = 100
_INT_BOUNDS: Final = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)([.,]\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_MISSING: Final = object()


class FieldValidation(StrEnum):
    """What to do about undeclared and repeated fields (the `fieldValidation` query parameter)."""

    STRICT = "Strict"
    WARN = "Warn"
    IGNORE = "Ignore"

    @classmethod
    def of(cls, parameter: str | None, *, options: str = "CreateOptions") -> FieldValidation:
        """The parameter's value; unset means Warn. `options` is the kind that carries it.

        Raises Invalid for any other word.
        """
        if not parameter:
            return cls.WARN
        try:
            return cls(parameter)
        except ValueError:
            cause = Cause(
                "FieldValueNotSupported",
                f'Unsupported value: "{parameter}": supported values: "", "Ignore", "Strict", '
                '"Warn"',
                "fieldValidation",
            )
            raise Invalid.of(group="meta.k8s.io", kind=options, name="", causes=(cause,)) from None


@dataclass(frozen=True, slots=True)
class Decoded:
    """An object as held, and the warnings to send with the answer."""

    object: dict[str, Any]
    warnings: tuple[str, ...] = ()


class TypeMismatch(ValueError):
    """A value of the wrong JSON type; the message is upstream's."""


def decode(
    body: bytes,
    *,
    schema: Schema | None,
    kind: GroupVersionKind,
    media_type: str = "application/json",
    validation: FieldValidation = FieldValidation.WARN,
) -> Decoded:
    """Parse the body of a create or update of a `kind` (group, version, kind).

    `schema` None takes the object as it is. An absent `apiVersion` or `kind` is filled in.

    Raises BadRequest: unreadable, another kind than `kind`, a wrong type, or (Strict) undeclared or
    repeated fields.
    """
    group, version, kind_name = kind
    api_version = f"{group}/{version}" if group else version
    is_yaml, repeats = media_type == "application/yaml", ""
    unrecognized = f"the object provided is unrecognized (must be of type {kind_name}): "
    try:
        if is_yaml:
            value, repeats = parse_yaml(body)
        else:
            value = parse_json(body)
    except Unreadable as error:
        reason = str(error) if is_yaml else f"{NO_KIND}: {error}"
        raise BadRequest(f"{unrecognized}{reason} ({_summary(body)})") from error
    if value is None:
        value = {}
    if not isinstance(value, dict):
        reason = f"{NO_KIND}: {NOT_AN_OBJECT.format(word_of(value))}"
        raise BadRequest(f"{unrecognized}{reason} ({_summary(body)})")
    _check_kind(value, api_version=api_version, kind=kind_name)
    value.setdefault("apiVersion", api_version)
    value.setdefault("kind", kind_name)
    try:
        held, problems = conform(value, schema) if schema else (value, ())
    except TypeMismatch as error:
        raise BadRequest(
            f'{kind_name} in version "{version}" cannot be handled as a {kind_name}: {error}'
        ) from error
    if repeats:
        problems = (repeats, *problems)
    if problems and validation is FieldValidation.STRICT:
        raise not_strict(kind_name, version, problems)
    return Decoded(held, problems if validation is FieldValidation.WARN else ())


def not_strict(kind: str, version: str, problems: Iterable[str]) -> BadRequest:
    """The refusal of an object under `fieldValidation=Strict`."""
    return BadRequest(
        f'{kind} in version "{version}" cannot be handled as a {kind}: '
        f"strict decoding error: {', '.join(problems)}"
    )


def _check_kind(value: dict[str, Any], *, api_version: str, kind: str) -> None:
    given_version = value.get("apiVersion") or api_version
    given_kind = value.get("kind") or kind
    if (given_version, given_kind) == (api_version, kind):
        return
    group, _, version = str(given_version).rpartition("/")
    same_group = group == api_version.rpartition("/")[0]
    if given_kind == kind and same_group and schema_for(group, version, kind) is not None:
        raise BadRequest(
            f"the API version in the data ({given_version}) does not match the expected API "
            f"version ({api_version})"
        )
    reason = wrong_kind(str(given_version), str(given_kind), api_version=api_version, own=kind)
    raise BadRequest(f'{given_kind} in version "{version}" cannot be handled as a {kind}: {reason}')


def wrong_kind(given_version: str, given_kind: str, *, api_version: str, own: str) -> str:
    """Why an object of the given kind is none of kind `own`, as upstream's scheme puts it."""
    group, _, version = given_version.rpartition("/")
    if schema_for(group, version, given_kind) is None:
        return f'no kind "{given_kind}" is registered for version "{given_version}"'
    package = api_version.rpartition("/")[0].partition(".")[0] or "core"
    return f"converting ({version}.{given_kind}) to ({package}.{own}): unknown conversion"


def conform(
    value: dict[str, Any], schema: Schema, *, unstructured: bool = False
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """`value` as an API server would hold it, and what strict decoding reports, in order.

    `unstructured` selects the wording for values that never were a text (strategic merge patch).

    Raises TypeMismatch.
    """
    walk = _Walk(unstructured)
    held = walk.custom(value, schema, "") if schema.custom else walk.struct(value, schema, "")
    return held, tuple(walk.problems)


@dataclass(slots=True)
class _Walk:
    unstructured: bool
    problems: list[str] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)
    struct_name: str = ""

    def report(self, problem: str, path: str, name: str) -> None:
        where = f"{path}.{name}" if path else name
        text = f'{problem} field "{_quoted(where)}"'
        if text not in self.problems and len(self.problems) < _STRICT_LIMIT:
            self.problems.append(text)

    def mismatch(
        self, value: Any, go_type: str, *, struct: bool = False, number: bool = False
    ) -> TypeMismatch:
        """`struct` and `number` say what the Go type is: they are worded differently."""
        if self.unstructured:
            return TypeMismatch(_cannot_convert(value, go_type, struct=struct))
        where = f"{self.struct_name}.{'.'.join(self.stack)}"
        word = f"number {value!r}" if number and _is_number(value) else word_of(value)
        return TypeMismatch(
            f"json: cannot unmarshal {word} into Go struct field {where} of type {go_type}"
        )

    def entries(self, value: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
        """The fields of an object in order; a repeated one is reported and comes again."""
        seen: set[str] = set()
        for name, item in value.pairs if isinstance(value, Repeated) else value.items():
            if name in seen:
                self.report("duplicate", path, name)
            seen.add(name)
            yield name, item

    def struct(self, value: dict[str, Any], schema: Schema, path: str) -> dict[str, Any]:
        encodings = go_fields(schema.definition)
        name_before, depth = self.struct_name, len(self.stack)
        result: dict[str, Any] = {}
        for name, item in self.entries(value, path):
            child = schema.field(name)
            encoding = encodings.get(name)
            if child is None or encoding is None:
                self.report("unknown", path, name)
                continue
            self.struct_name = schema.definition.rpartition(".")[2]
            if encoding.embedding:
                self.stack.extend(encoding.embedding.split("."))
            self.stack.append(name)
            where = f"{path}.{name}" if path else name
            held = self.field(item, child, encoding, where)
            if held is not _MISSING:
                result[name] = _merged(result.get(name), held)
            del self.stack[depth:]
            self.struct_name = name_before
        for name, encoding in encodings.items():
            if name not in result and not encoding.pointer:
                child = schema.field(name)
                if child is not None:
                    zero = self.field(None, child, encoding, path)
                    if zero is not _MISSING:
                        result[name] = zero
            elif name not in result and not encoding.omit_empty:
                result[name] = None
        return result

    def field(self, item: Any, schema: Schema, encoding: GoField, path: str) -> Any:
        """The held value of a field, or _MISSING when it is left out."""
        if item is None:
            if encoding.pointer:
                return _MISSING if encoding.omit_empty else None
            held = self.zero(schema, encoding.type)
        else:
            held = self.value(item, schema, encoding.type, path)
        if encoding.pointer:
            return held
        if encoding.omit_zero and held is None:
            return _MISSING
        if encoding.omit_empty and _empty(held, schema, encoding.type):
            return _MISSING
        # Storage does not tell an empty list from none.
        return None if held in ([], {}) and not schema.is_struct else held

    def zero(self, schema: Schema, go_type: str) -> Any:
        """What Go writes for a value that was never set."""
        if go_type in {"v1.Time", "v1.MicroTime"} or go_type.startswith(("[]", "map[")):
            return None
        if go_type == "resource.Quantity":
            return "0"
        if schema.int_or_string:
            return 0
        if schema.is_struct:
            return self.struct({}, schema, "")
        return {"string": "", "integer": 0, "number": 0, "boolean": False}.get(schema.type)

    def value(self, item: Any, schema: Schema, go_type: str, path: str) -> Any:
        if go_type == "resource.Quantity":
            return _quantity(item)
        if go_type in {"v1.Time", "v1.MicroTime"}:
            return self.time(item, go_type)
        if schema.int_or_string:
            return self.int_or_string(item)
        if schema.is_struct:
            if not isinstance(item, dict):
                raise self.mismatch(item, go_type, struct=True)
            return self.struct(item, schema, path)
        if schema.type == "array":
            return self.array(item, schema, go_type, path)
        if (values := schema.values) is not None:
            if not isinstance(item, dict):
                raise self.mismatch(item, go_type)
            return self.map(item, values, _element(go_type), path)
        return self.scalar(item, schema, go_type)

    def map(self, item: dict[str, Any], values: Schema, go_type: str, path: str) -> Any:
        return {
            name: self.zero(values, go_type)
            if entry is None
            else self.value(entry, values, go_type, f"{path}.{name}")
            for name, entry in self.entries(item, path)
        }

    def array(self, item: Any, schema: Schema, go_type: str, path: str) -> Any:
        if not isinstance(item, list):
            raise self.mismatch(item, go_type)
        items, inner = schema.items, _element(go_type)
        if items is None:
            return item
        return [
            self.zero(items, inner)
            if entry is None
            else self.value(entry, items, inner, f"{path}[{index}]")
            for index, entry in enumerate(item)
        ]

    def scalar(self, item: Any, schema: Schema, go_type: str) -> Any:
        kind = schema.type
        if kind == "string":
            if not isinstance(item, str):
                raise self.mismatch(item, go_type)
            return _bytes(item) if schema.format == "byte" else item
        if kind == "boolean":
            if not isinstance(item, bool):
                raise self.mismatch(item, go_type)
            return item
        if kind == "integer":
            low, high = _INT_BOUNDS.get(schema.format, _INT_BOUNDS["int64"])
            if isinstance(item, bool) or not isinstance(item, int) or not low <= item <= high:
                raise self.mismatch(item, go_type, number=True)
            return item
        if kind == "number":
            if not _is_number(item):
                raise self.mismatch(item, go_type)
            return float(item) if isinstance(item, Number) else item
        return item

    def time(self, item: Any, go_type: str) -> str:
        if not isinstance(item, str):
            raise TypeMismatch(
                f"json: cannot unmarshal {word_of(item)} into Go value of type string"
                if not self.stack
                else str(self.mismatch(item, "string"))
            )
        return _time(item, micro=go_type == "v1.MicroTime")

    def int_or_string(self, item: Any) -> int | str:
        if isinstance(item, str):
            return item
        low, high = _INT_BOUNDS["int32"]
        if isinstance(item, bool) or not isinstance(item, int) or not low <= item <= high:
            raise self.mismatch(item, "int32", number=True)
        return item

    def custom(self, item: Any, schema: Schema, path: str) -> Any:
        """Drop what a structural schema does not declare; types are for validation to judge."""
        if schema.definition and not schema.custom:
            if not isinstance(item, dict):
                raise self.mismatch(item, schema.definition.rpartition(".")[2])
            return self.struct(item, schema, path)
        if isinstance(item, list):
            items = schema.items
            if items is None:
                return item
            return [self.custom(e, items, f"{path}[{i}]") for i, e in enumerate(item)]
        if not isinstance(item, dict):
            return item
        result: dict[str, Any] = {}
        for name, entry in self.entries(item, path):
            child = schema.field(name) or schema.values
            if child is None and not schema.preserve_unknown_fields:
                self.report("unknown", path, name)
                continue
            where = f"{path}.{name}" if path else name
            held = entry if child is None else self.custom(entry, child, where)
            result[name] = _merged(result.get(name), held)
        return result


def _merged(before: Any, held: Any) -> Any:
    """A repeated field: objects merge, as Go decodes into the same struct twice."""
    return {**before, **held} if isinstance(before, dict) and isinstance(held, dict) else held


def _empty(held: Any, schema: Schema, go_type: str) -> bool:
    """Whether Go's `omitempty` leaves the value out: never true for a struct."""
    if schema.is_struct or schema.int_or_string:
        return False
    if go_type in {"v1.Time", "v1.MicroTime", "resource.Quantity"}:
        return False
    return held is None or held == "" or held is False or held == 0 or held in ([], {})


def _element(go_type: str) -> str:
    if go_type.startswith("[]"):
        return go_type[2:].lstrip("*")
    if go_type.startswith("map["):
        return go_type.partition("]")[2].lstrip("*")
    if go_type == "v1.ResourceList":
        return "resource.Quantity"
    return "string"


def _quantity(item: Any) -> str:
    if isinstance(item, bool) or not isinstance(item, str | int | float):
        # The decoder hands the raw text to the quantity parser, which cannot read it.
        text = "x"
    else:
        text = item if isinstance(item, str) else repr(item)
    try:
        return as_stored(text)
    except InvalidQuantity as error:
        raise TypeMismatch(str(error)) from error


def _time(text: str, *, micro: bool) -> str:
    match = _TIME.fullmatch(text)
    layout = "2006-01-02T15:04:05.000000Z07:00" if micro else "2006-01-02T15:04:05Z07:00"
    try:
        if match is None or (micro and len((match[7] or "")[1:]) != 6):
            raise ValueError
        moment = datetime.fromisoformat(text.replace(",", ".")).astimezone(UTC)
    except (ValueError, OverflowError):
        raise TypeMismatch(f'parsing time "{text}" as "{layout}": cannot parse it') from None
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def _bytes(text: str) -> str:
    try:
        return base64.b64encode(
            base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
        ).decode()
    except (binascii.Error, ValueError):
        index = next(
            (i for i, c in enumerate(text) if not re.match(r"[A-Za-z0-9+/\r\n]", c)), len(text)
        )
        raise TypeMismatch(f"illegal base64 data at input byte {index}") from None


def _cannot_convert(item: Any, go_type: str, *, struct: bool) -> str:
    """What apimachinery's unstructured converter says about a value of the wrong type."""
    word = type(item).__name__
    kind = {
        "dict": "map", "Repeated": "map", "list": "slice", "str": "string", "int": "int64",
        "Number": "float64", "float": "float64",
    }.get(word, word)  # fmt: skip
    if go_type.startswith("[]"):
        return f"cannot restore slice from {kind}"
    if go_type.startswith("map[") or go_type == "v1.ResourceList":
        return f"cannot restore map from {kind}"
    plain = go_type.rpartition(".")[2]
    if struct:
        return f"cannot restore struct from: {kind}"
    if kind == "int64" and go_type == "string":
        return f"cannot convert int64 to {go_type}"
    return f"unrecognized type: {plain}"


def _is_number(item: Any) -> bool:
    return isinstance(item, int | float) and not isinstance(item, bool)


def _summary(body: bytes, limit: int = 30) -> str:
    """The start of an unreadable body, as upstream shows it: text of an object, hex of the rest."""
    if not body:
        return "<empty>"
    head, rest = body[:limit], " ..." if len(body) > limit else ""
    return (head.decode(errors="replace") if body.startswith(b"{") else head.hex()) + rest


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
