"""Blocks compressed apart decode as one gzip member."""

from __future__ import annotations

import gzip
import zlib

from hypothesis import given
from hypothesis import strategies as st

from fleet.apiserver.compression import HEADER, Trailer, compress, stored

pieces = st.lists(st.tuples(st.booleans(), st.binary(max_size=2000)), max_size=20)


@given(pieces)
def test_joined_blocks_are_one_gzip_member(parts: list[tuple[bool, bytes]]) -> None:
    trailer = Trailer()
    body = HEADER
    for cached, plain in parts:
        body += trailer.add(compress(plain) if cached else stored(plain))
    body += trailer.finish()
    expected = b"".join(plain for _, plain in parts)
    assert gzip.decompress(body) == expected
    strict = zlib.decompressobj(16 + zlib.MAX_WBITS)
    assert strict.decompress(body) == expected
    assert strict.eof and strict.unused_data == b""


def test_a_block_can_be_sent_in_any_body() -> None:
    block = compress(b"pod" * 5000)
    for copies in (1, 3):
        trailer = Trailer()
        body = HEADER + b"".join(trailer.add(block) for _ in range(copies)) + trailer.finish()
        assert gzip.decompress(body) == b"pod" * 5000 * copies
