"""Messages written as Go's encoding/json writes their structs.

Protobuf knows which fields were sent, encoding/json asks which are pointers or omitempty; neither
"what is absent" nor "what is zero" says what Go leaves out. So each struct is written from the
presence table: an absent field is left out, or null (pointer, slice, map, bytes), or the zero
value, and an absent struct that is no pointer is written out as an empty one.

A message type becomes one writer function, made when the type is first met. A writer takes the
bytes of one message; `scalars` has the writers of the types that render themselves.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from fleet.kube.protobuf.scalars import HAND_WRITTEN, Malformed, number, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.kube.protobuf.schema import Field, Schema

MAX_DEPTH = 100
"""Messages inside each other; the deepest schemas in use need about half. protobuf's own limit."""

MAX_MESSAGES = 250_000
"""Messages in one body, those that Go writes out for absent ones included.

An empty one costs two bytes in the body and up to a kilobyte once written, so the size of the
body alone bounds nothing. Endpoints that fill a body of 3 MiB have about 150,000.
"""

__all__ = ["MAX_DEPTH", "MAX_MESSAGES", "Malformed", "Renderer"]


class Walk:
    """What one body has used up of the limits."""

    __slots__ = ("depth", "left")

    def __init__(self) -> None:
        self.depth = 0
        self.left = MAX_MESSAGES

    def enter(self) -> None:
        self.depth += 1
        self.left -= 1
        if self.depth > MAX_DEPTH:
            raise Malformed(f"messages are nested more than {MAX_DEPTH} deep")
        if self.left < 0:
            raise Malformed(f"there are more than {MAX_MESSAGES} messages in one body")


if TYPE_CHECKING:
    # The bytes of one message, or one scalar → its JSON value.
    Write = Callable[[Any, Walk], Any]


class Renderer:
    """Writes any message of a schema. Holds only what it compiled, so it may be shared."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._parsers: dict[str, Callable[[bytes], dict[int, Any]]] = {}
        self._writers: dict[str, Write] = {}
        self.message_of = schema.message_of

    def object(self, message: str, data: bytes) -> dict[str, Any]:
        """The content of a top-level object, without apiVersion and kind. Raises Malformed."""
        written: dict[str, Any] = self._writer(message)(data, Walk())
        return written

    def fields(self, message: str, data: bytes) -> dict[int, Any]:
        """One level of a message: number → value, messages inside as bytes. Raises Malformed."""
        parse = self._parsers.get(message)
        if parse is None:
            parse = self._parsers[message] = _parser(self._schema, message)
        return parse(data)

    @staticmethod
    def text(fields: Mapping[int, Any], number: int) -> str:
        """A string field, "" when absent. Raises Malformed."""
        return text(fields.get(number, ""))

    def _writer(self, message: str) -> Write:
        writer = self._writers.get(message)
        if writer is None:
            writer = self._writers[message] = self._compile(message)
        return writer

    def _compile(self, message: str) -> Write:
        if message in HAND_WRITTEN:
            return self._compile_hand_written(message)
        if self._schema.is_list_type(message):
            return self._compile_list_type(message)
        return self._compile_struct(message)

    def _nested(self, message: str) -> Write:
        """The writer of a field's message type, compiled at its first use: types are recursive."""
        writers = self._writers

        def write(data: bytes, walk: Walk) -> Any:
            return (writers.get(message) or self._writer(message))(data, walk)

        return write

    def _compile_hand_written(self, message: str) -> Write:
        render = HAND_WRITTEN[message]
        nested = {field.number: self._value(field) for field in self._schema.fields(message)}

        def write(data: bytes, walk: Walk) -> Any:
            walk.enter()
            written = render(
                self.fields(message, data), lambda number, value: nested[number](value, walk)
            )
            walk.depth -= 1
            return written

        return write

    def _compile_list_type(self, message: str) -> Write:
        """`type Verbs []string`: a message with the one field `items`. Sent empty, it is no nil."""
        (field,) = self._schema.fields(message)
        items = self._value(field)

        def write(data: bytes, walk: Walk) -> Any:
            walk.enter()
            fields = self.fields(message, data)
            written = items(fields[field.number], walk) if fields else []
            walk.depth -= 1
            return written

        return write

    def _compile_struct(self, message: str) -> Write:
        steps = [
            (field.number, "" if field.inline else field.name, *self._step(field))
            for field in self._schema.fields(message)
        ]

        def write(data: bytes, walk: Walk) -> dict[str, Any]:
            walk.enter()
            present = self.fields(message, data) if data else {}
            out: dict[str, Any] = {}
            name = ""
            try:
                for number, name, written, absent in steps:
                    value = present.get(number)
                    if value is not None:
                        value = written(value, walk)
                    elif absent is not None:
                        value = absent(walk)
                    else:
                        continue
                    if value is _OMITTED:
                        continue
                    if name:
                        out[name] = value
                    else:
                        out.update(value)
            except Malformed as fault:
                fault.within(name)
                raise
            walk.depth -= 1
            return out

        return write

    def _step(self, field: Field) -> tuple[Write, Callable[[Walk], Any] | None]:
        """How a struct writes a field that was sent, and one that was not (None: leaves it out)."""
        write = self._value(field)
        if field.shape == "one" and field.message and not field.pointer:
            # A struct is never empty to omitempty: without a pointer it is always written.
            if self._schema.is_list_type(field.message):
                return (_omit_empty(write), None) if field.omit_empty else (write, _null)
            if field.omit_zero:
                return _omit_empty(write), None
            return write, lambda walk: write(b"", walk)
        if field.omit_empty:
            scalar = field.shape == "one" and not field.message and not field.pointer
            return _omit_zero(write) if scalar else write, None
        if field.pointer or field.shape != "one" or field.scalar == "bytes":
            return write, _null
        zero = _ZEROS[field.scalar]
        return write, lambda _: zero

    def _value(self, field: Field) -> Write:
        """The writer of a field's value as the parser gives it."""
        one = self._nested(field.message) if field.message else _SCALARS[field.scalar]
        if field.shape == "list":
            return _list(one)
        if field.shape == "map":
            return _map(one)
        return one


def _parser(schema: Schema, message: str) -> Callable[[bytes], dict[int, Any]]:
    parse = schema.parser(message).FromString
    names = {field.number: field.name for field in schema.fields(message)}

    def fields(data: bytes) -> dict[int, Any]:
        try:
            parsed = parse(data)
            present = parsed.ListFields()
        except (DecodeError, UnicodeDecodeError) as fault:
            raise Malformed("truncated, or no protobuf message of this type") from fault
        unknowns = UnknownFieldSet(parsed)
        for index in range(len(unknowns)):
            # A field in another wire type is filed here too; Go refuses it.
            number = unknowns[index].field_number
            if number in names:
                raise Malformed(f"field {number} ({names[number]}) has the wrong wire type")
        return {field.number: value for field, value in present}

    return fields


_OMITTED: Any = object()
_ZEROS: Mapping[str, Any] = {"string": "", "bool": False, "int": 0, "float": 0}


def _null(_: Walk) -> None:
    return None


def _omit_empty(write: Write) -> Write:
    """Left out when empty once written: a time under omitzero, a list type under omitempty."""

    def written(value: Any, walk: Walk) -> Any:
        return write(value, walk) or _OMITTED

    return written


def _omit_zero(write: Write) -> Write:
    """omitempty on a scalar: Go sends it all the same, and leaves it out of the JSON."""

    def written(value: Any, walk: Walk) -> Any:
        return write(value, walk) if value else _OMITTED

    return written


def _list(one: Write) -> Write:
    def write(values: Any, walk: Walk) -> list[Any]:
        out: list[Any] = []
        try:
            # Not a comprehension: the length so far names the element that failed.
            for value in values:
                out.append(one(value, walk))  # noqa: PERF401
        except Malformed as fault:
            fault.within(f"[{len(out)}]")
            raise
        return out

    return write


def _map(one: Write) -> Write:
    def write(values: Any, walk: Walk) -> dict[str, Any]:
        try:
            pairs = sorted(values.items())
        except UnicodeDecodeError as fault:
            raise Malformed("a key or value is not valid UTF-8") from fault
        out: dict[str, Any] = {}
        key = ""
        try:
            for key, value in pairs:
                out[key] = one(value, walk)
        except Malformed as fault:
            fault.within(f'["{key}"]')
            raise
        return out

    return write


def _base64(value: bytes, _: Walk) -> str:
    return base64.b64encode(value).decode("ascii")


_SCALARS: Mapping[str, Write] = {
    "string": lambda value, _: text(value),
    "bytes": _base64,
    "bool": lambda value, _: value,
    "int": lambda value, _: value,
    "float": lambda value, _: number(value),
}
