"""Bodies that are broken or hostile: always a BadRequest that says where, never anything else."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.errors import BadRequest
from fleet.kube.protobuf import MAGIC, decode, rendering

if TYPE_CHECKING:
    from collections.abc import Callable

    Messages = Callable[[str], Any]
    Frame = Callable[..., bytes]

CRD = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1"
CORPUS = [
    base64.b64decode(line.split(b"\t")[0])
    for line in gzip.decompress(Path(__file__).with_name("corpus.tsv.gz").read_bytes()).splitlines()
]


def outcome(body: bytes, **options: Any) -> str:
    """ "" when it decodes, else the message; anything but BadRequest fails the test."""
    try:
        decode(body, **options)
    except BadRequest as refused:
        assert str(refused)
        return str(refused)
    return ""


@given(st.binary(max_size=200))
def test_random_bytes(body: bytes) -> None:
    assert outcome(body) or body.startswith(MAGIC)


@given(st.binary(max_size=200))
def test_random_bytes_behind_the_magic(body: bytes) -> None:
    outcome(MAGIC + body)
    outcome(MAGIC + body, default=("v1", "Pod"))


@settings(max_examples=400)
@given(st.sampled_from(CORPUS), st.data())
def test_truncated(body: bytes, data: st.DataObject) -> None:
    # The envelope says how long it is, so no true prefix is a whole body; the one prefix that
    # is a message ends behind typeMeta, and then the object is empty.
    cut = data.draw(st.integers(0, len(body) - 1))
    if not outcome(body[:cut]):
        assert decode(body[:cut])["kind"] == decode(body)["kind"]


@settings(max_examples=400)
@given(st.sampled_from(CORPUS), st.data())
def test_damaged(body: bytes, data: st.DataObject) -> None:
    damaged = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    outcome(bytes(damaged))


@settings(max_examples=400)
@given(st.sampled_from(CORPUS), st.binary(max_size=60))
def test_another_content_in_the_same_frame(body: bytes, raw: bytes) -> None:
    length = len(raw).to_bytes(1, "big")
    type_meta = body[len(MAGIC) : len(MAGIC) + 2 + body[len(MAGIC) + 1]]
    outcome(MAGIC + type_meta + b"\x12" + length + raw)


def test_the_field_that_is_cut_off_is_named(message: Messages, frame: Frame) -> None:
    pod = message("core.v1.Pod")()
    pod.spec.containers.add(name="a").env.add(name="b", value="c")
    body = bytearray(frame(pod))
    # The length of the env entry, one byte before its first tag.
    at = body.index(b"\x0a\x01b\x12\x01c") - 1
    body[at + 2] = 9
    with pytest.raises(BadRequest) as refused:
        decode(bytes(body))
    assert refused.value.message == (
        "Pod (v1) in the protobuf body cannot be decoded: spec.containers[0].env[0]: truncated, "
        "or no protobuf message of this type"
    )


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (b"\x0a\x05\x0a\x03a\xffb", r"metadata\.name: the text is not valid UTF-8"),
        (b"\x0a\x08\x5a\x06\x0a\x01a\x12\x01\xff", r'metadata\.labels\["a"\]: the text is not'),
        (b"\x0a\x08\x5a\x06\x0a\x01\xff\x12\x01a", r"metadata\.labels: a key or value is not"),
        (b"\x0a\x06\x72\x01a\x72\x01\xff", r"metadata\.finalizers\[1\]: the text is not valid"),
    ],
)
def test_text_that_is_no_utf_8_is_refused(frame: Frame, raw: bytes, where: str) -> None:
    with pytest.raises(BadRequest, match=where):
        decode(frame(raw))


def test_unknown_fields_are_dropped(message: Messages, frame: Frame) -> None:
    pod = message("core.v1.Pod")()
    pod.metadata.name = "a"
    newer = b"\xfa\x7f\x03new"  # field 2047, text
    assert decode(frame(pod.SerializeToString() + newer)) == decode(frame(pod))


def test_a_known_field_in_another_wire_type_is_refused(frame: Frame) -> None:
    # metadata.name as a number.
    with pytest.raises(BadRequest, match=r"metadata: field 1 \(name\) has the wrong wire type"):
        decode(frame(b"\x0a\x02\x08\x01"))


def nested_schema(levels: int) -> bytes:
    """A CustomResourceDefinition whose schema holds `not` in `not`, so many levels deep."""

    def field(number: int, content: bytes) -> bytes:
        size, prefix = len(content), b""
        while size > 127:
            prefix += bytes([size & 127 | 128])
            size >>= 7
        tag = number << 3 | 2
        tags = bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])
        return tags + prefix + bytes([size]) + content

    schema = b""
    for _ in range(levels):
        schema = field(28, schema)
    # spec(2).versions(7).schema(4).openAPIV3Schema(1)
    return field(2, field(7, field(4, field(1, schema))))


def test_nesting_is_bounded(message: Messages, frame: Frame) -> None:
    number = message(f"{CRD}.JSONSchemaProps").DESCRIPTOR.fields_by_name["not"].number
    assert number == 28
    kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
    decode(frame(nested_schema(90), *kind))
    for levels in (96, 97, 2_000):
        with pytest.raises(BadRequest, match="nested more than 100 deep"):
            decode(frame(nested_schema(levels), *kind))


def test_the_number_of_messages_is_bounded(frame: Frame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_MESSAGES", 50)
    # Two bytes each, and seven messages once written.
    outcome(frame(b"\x12\x00" * 5, "apps/v1", "DeploymentList"))
    with pytest.raises(BadRequest, match=r"items\[\d+\].* more than 50 messages"):
        decode(frame(b"\x12\x00" * 20, "apps/v1", "DeploymentList"))
