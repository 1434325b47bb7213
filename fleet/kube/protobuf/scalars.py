"""The Go types that have a MarshalJSON of their own, each as its source file writes it.

A writer takes the fields of one message by number (messages inside are still bytes), and a
function that writes the nested message of a field. `scripts/generate-protobuf` stops when the Go
sources have such a type that is not in `HAND_WRITTEN`, or the other way round. `rendering` calls
them.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Fields = Mapping[int, Any]
    Nested = Callable[[int, Any], Any]
    Writer = Callable[[Fields, Nested], Any]

# Moments are naive and in UTC throughout: isoformat then writes no offset.
_EPOCH = datetime(1970, 1, 1)
_GO_ZERO = datetime(1, 1, 1)


class Malformed(Exception):
    """A body that cannot be decoded: why, and (grown on the way out) in which field."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.path = ""

    def within(self, name: str) -> None:
        """Puts `name`, a field, an [index] or a ["key"], in front of the path."""
        if name:
            joint = "." if self.path and not self.path.startswith("[") else ""
            self.path = f"{name}{joint}{self.path}"

    def __str__(self) -> str:
        return f"{self.path}: {self.why}" if self.path else self.why


def text(value: Any) -> str:
    """A protobuf string. Raises Malformed where it is no UTF-8: JSON could not say it."""
    # The C implementation hands such a string out as bytes.
    if not isinstance(value, str):
        raise Malformed("the text is not valid UTF-8")
    return value


def number(value: float) -> float:
    """encoding/json writes 1.0 as 1 and refuses what JSON cannot say. Raises Malformed."""
    if not math.isfinite(value):
        raise Malformed(f"JSON has no number for {value}")
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


def time(fields: Fields, _: Nested) -> str | None:
    """meta/v1 time_proto.go: seconds only, whatever nanoseconds were sent."""
    moment = _moment(fields, micro=0)
    return None if moment is None else f"{moment.isoformat(timespec='seconds')}Z"


def micro_time(fields: Fields, _: Nested) -> str | None:
    """meta/v1 micro_time_proto.go: nanoseconds are cut to microseconds."""
    moment = _moment(fields, micro=int(fields.get(2, 0) / 1000))
    return None if moment is None else f"{moment.isoformat(timespec='microseconds')}Z"


def _moment(fields: Fields, *, micro: int) -> datetime | None:
    """None for Go's zero time: an empty message, or the first instant of year 1."""
    if not fields:
        return None
    seconds = fields.get(1, 0)
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=micro)
    except OverflowError as fault:
        raise Malformed(f"{seconds} s from 1970 is not within the years 1 to 9999") from fault
    return None if moment == _GO_ZERO else moment


def duration(fields: Fields, _: Nested) -> str:
    """meta/v1 duration.go: nanoseconds in the notation of Go's time.Duration (`1h0m1.5s`)."""
    total = fields.get(1, 0)
    sign, left = ("-", -total) if total < 0 else ("", total)
    if left == 0:
        return "0s"
    for limit, unit, size in ((10**3, "ns", 1), (10**6, "µs", 10**3), (10**9, "ms", 10**6)):
        if left < limit:
            return f"{sign}{_decimal(left, size)}{unit}"
    minutes, left = divmod(left, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    spelled = f"{_decimal(left, 10**9)}s"
    if hours or minutes:
        spelled = f"{minutes}m{spelled}"
    return f"{sign}{hours}h{spelled}" if hours else f"{sign}{spelled}"


def _decimal(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    digits = str(rest).rjust(len(str(size)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def quantity(fields: Fields, _: Nested) -> str:
    """api/resource quantity_proto.go: its text, canonical as Go sends it; an empty message is 0."""
    return text(fields.get(1, "")) or "0"


def int_or_string(fields: Fields, _: Nested) -> int | str:
    """util/intstr intstr.go: the type says which of the two counts."""
    match fields.get(1, 0):
        case 0:
            value: int = fields.get(2, 0)
            return value
        case 1:
            return text(fields.get(3, ""))
        case other:
            raise Malformed(f"IntOrString has type {other}: 0 (number) and 1 (text) exist")


def raw_extension(fields: Fields, _: Nested) -> Any:
    """runtime extension.go: the raw JSON, null when there is none."""
    return _json(fields[1]) if 1 in fields else None


def raw_json(fields: Fields, _: Nested) -> Any:
    """meta/v1 helpers.go (FieldsV1) and apiextensions marshal.go (JSON): empty is null as well."""
    return _json(fields[1]) if fields.get(1) else None


def _json(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as fault:
        raise Malformed(f"the JSON in it is not valid: {fault}") from fault


def schema_or_bool(fields: Fields, nested: Nested) -> Any:
    """apiextensions marshal.go: a schema, else whether anything is allowed."""
    return nested(2, fields[2]) if 2 in fields else fields.get(1, False)


def schema_or_list(fields: Fields, nested: Nested) -> Any:
    """apiextensions marshal.go (…OrArray, …OrStringArray): the list unless it is empty."""
    chosen = 2 if 2 in fields else 1
    return nested(chosen, fields[chosen]) if chosen in fields else None


_META = "k8s.io.apimachinery.pkg.apis.meta.v1"
_CRD = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions"

HAND_WRITTEN: Mapping[str, Writer] = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": quantity,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": raw_extension,
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": int_or_string,
    f"{_META}.Duration": duration,
    f"{_META}.FieldsV1": raw_json,
    f"{_META}.MicroTime": micro_time,
    f"{_META}.Time": time,
    **{
        f"{_CRD}.{version}.{name}": writer
        for version in ("v1", "v1beta1")
        for name, writer in (
            ("JSON", raw_json),
            ("JSONSchemaPropsOrArray", schema_or_list),
            ("JSONSchemaPropsOrBool", schema_or_bool),
            ("JSONSchemaPropsOrStringArray", schema_or_list),
        )
    },
}
"""Full message name → writer."""
