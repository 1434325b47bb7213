"""Bodies for the decoder: real messages of the shipped descriptor set, and the frame around them.

The messages are linked with each other here, as in any protobuf client; the decoder's own parsers
are not, so a test that agrees with itself needs both to be right.
"""

from __future__ import annotations

import gzip
from importlib import resources
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from fleet.kube.protobuf import MAGIC, decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message


class Frame(Protocol):
    def __call__(
        self, raw: bytes | Message, api_version: str = "v1", kind: str = "Pod"
    ) -> bytes: ...


@pytest.fixture(scope="session")
def message() -> Callable[[str], Any]:
    """`message("core.v1.Pod")` is the message class of k8s.io.api.core.v1.Pod."""
    shipped = resources.files("fleet.kube.protobuf") / "descriptors.binpb.gz"
    files = descriptor_pb2.FileDescriptorSet.FromString(gzip.decompress(shipped.read_bytes()))
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())

    def class_of(name: str) -> Any:
        full_name = name if name.startswith("k8s.io.") else f"k8s.io.api.{name}"
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(full_name))

    return class_of


@pytest.fixture(scope="session")
def frame(message: Callable[[str], Any]) -> Frame:
    """The envelope that every client puts around an object."""
    unknown = message("k8s.io.apimachinery.pkg.runtime.Unknown")

    def framed(raw: bytes | Message, api_version: str = "v1", kind: str = "Pod") -> bytes:
        envelope = unknown(raw=raw if isinstance(raw, bytes) else raw.SerializeToString())
        envelope.typeMeta.apiVersion = api_version
        envelope.typeMeta.kind = kind
        content: bytes = envelope.SerializeToString()
        return MAGIC + content

    return framed


@pytest.fixture(scope="session")
def decoded(frame: Frame) -> Callable[..., dict[str, Any]]:
    """`decoded(pod, "v1", "Pod")`: through the frame and the decoder, without kind and version."""

    def through(raw: bytes | Message, api_version: str, kind: str) -> dict[str, Any]:
        written = decode(frame(raw, api_version, kind))
        assert (written.pop("apiVersion"), written.pop("kind")) == (api_version, kind)
        return written

    return through
