"""What a message's fields are called, how Go writes them, and how to split its bytes.

Two generated files are joined here: the descriptor set (numbers and wire types) and the presence
table (JSON names, pointers, omitempty). A parser is made per message type and takes one level of
bytes only: a message inside stays bytes until it is asked for. So types need not be linked with
each other, only those are made that are met, and nobody pays for a million nested messages before
`rendering` has counted them. The price: of a message sent in two parts, which no known encoder
does, the last part counts where protobuf would merge them.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Proto

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

Scalar = Literal["string", "bytes", "bool", "int", "float", "message"]

_SCALARS: dict[int, Scalar] = {
    Proto.TYPE_STRING: "string",
    Proto.TYPE_BYTES: "bytes",
    Proto.TYPE_BOOL: "bool",
    Proto.TYPE_INT32: "int",
    Proto.TYPE_INT64: "int",
    Proto.TYPE_UINT32: "int",
    Proto.TYPE_DOUBLE: "float",
    Proto.TYPE_MESSAGE: "message",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    `scalar` and `message` speak of the element in a list and of the value in a map. `message` is
    the full name of the message type, "" for a scalar.
    """

    number: int
    name: str
    scalar: Scalar
    message: str
    shape: Literal["one", "list", "map"]
    pointer: bool
    omit_empty: bool
    omit_zero: bool
    inline: bool


class Schema:
    """Every message type of the release. Parsers are made on first use and kept."""

    def __init__(self, descriptors: bytes, presence: Mapping[str, Any]) -> None:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
        self._messages = {
            f"{file.package}.{message.name}": message
            for file in files.file
            for message in file.message_type
        }
        self._types: Mapping[str, Any] = presence["types"]
        self._kinds: Mapping[str, Mapping[str, str]] = presence["kinds"]

    def message_of(self, api_version: str, kind: str) -> str | None:
        """The full message name of a kind; None for a kind without a protobuf form.

        The options and lists of meta.k8s.io are registered in every group version.
        """
        return self._kinds.get(api_version, {}).get(kind) or self._kinds["meta.k8s.io/v1"].get(kind)

    def kinds(self) -> dict[tuple[str, str], str]:
        """(apiVersion, kind) → full message name."""
        return {(v, kind): name for v, kinds in self._kinds.items() for kind, name in kinds.items()}

    def is_list_type(self, message: str) -> bool:
        """Whether the Go type behind a message is a slice (ExtraValue, Verbs)."""
        return self._types.get(message) == "list"

    def fields(self, message: str) -> tuple[Field, ...]:
        """The fields in the order in which Go writes them.

        A type that is no struct, or writes itself, has no presence entries: its fields come with
        their protobuf names.
        """
        protos = {proto.number: proto for proto in self._messages[message].field}
        entries = self._types.get(message)
        if entries is None or entries == "list":
            entries = [(number, proto.name, "") for number, proto in protos.items()]
        return tuple(
            self._field(message, protos[number], name, flags) for number, name, flags in entries
        )

    def _field(self, message: str, proto: Proto, name: str, flags: str) -> Field:
        shape: Literal["one", "list", "map"] = "one"
        element = proto
        if proto.label == Proto.LABEL_REPEATED:
            shape = "list"
        for entry in self._messages[message].nested_type:
            if proto.type_name == f".{message}.{entry.name}":
                shape = "map"
                element = next(part for part in entry.field if part.name == "value")
        return Field(
            number=proto.number,
            name=name,
            scalar=_SCALARS[element.type],
            message=element.type_name.removeprefix("."),
            shape=shape,
            pointer="p" in flags,
            omit_empty="o" in flags,
            omit_zero="z" in flags,
            inline="i" in flags,
        )

    def parser(self, message: str) -> type[Message]:
        """A message class for one level: fields of message type are `bytes` in it."""
        flat = descriptor_pb2.FileDescriptorProto(name=message, syntax="proto2")
        own = flat.message_type.add()
        own.CopyFrom(self._messages[message])
        entries = {entry.name for entry in own.nested_type}
        for holder in (own, *own.nested_type):
            for field in holder.field:
                if field.type_name.removeprefix(f".{message}.") in entries:
                    field.type_name = field.type_name.removeprefix(f".{message}.")
                elif field.type == Proto.TYPE_MESSAGE:
                    field.type = Proto.TYPE_BYTES
                    field.ClearField("type_name")
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(flat.SerializeToString())
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(own.name))


def load() -> Schema:
    """The schema of the release shipped with the package."""
    folder = resources.files(__package__)
    descriptors = gzip.decompress((folder / "descriptors.binpb.gz").read_bytes())
    presence = gzip.decompress((folder / "presence.json.gz").read_bytes())
    return Schema(descriptors, orjson.loads(presence))
