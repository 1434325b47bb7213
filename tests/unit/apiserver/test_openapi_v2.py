"""The OpenAPI v2 that defines nothing, in both its encodings."""

from __future__ import annotations

import orjson
import pytest

from fleet.apiserver.documents import shell_v2
from fleet.errors import MethodNotAllowed
from fleet.kube.wire import Request

KUBECTL = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def fields(raw: bytes) -> dict[int, bytes]:
    """Of a message whose fields all have a length, in one byte."""
    found = {}
    while raw:
        key, length = raw[0], raw[1]
        assert key & 7 == 2
        found[key >> 3], raw = raw[2 : 2 + length], raw[2 + length :]
    return found


def test_both_encodings_say_the_same():
    plain = orjson.loads(shell_v2(Request("GET", "/openapi/v2")).body)
    answer = shell_v2(Request("GET", "/openapi/v2", headers={"accept": KUBECTL}))
    told = fields(answer.body)
    assert answer.headers["content-type"].endswith("+protobuf")
    assert told.keys() == {1, 2, 8}
    assert told[1].decode() == plain["swagger"] == "2.0"
    info = {1: plain["info"]["title"].encode(), 2: plain["info"]["version"].encode()}
    assert fields(told[2]) == info
    assert (told[8], plain["paths"]) == (b"", {})


def test_it_is_read_only():
    with pytest.raises(MethodNotAllowed):
        shell_v2(Request("POST", "/openapi/v2"))
