"""gzip made of blocks that were compressed once.

A LIST is the concatenation of runs of objects, most of which did not change since the last LIST.
Each run is compressed alone as raw deflate, ended by a full flush (byte-aligned, no reference to
what came before), so blocks can be joined in any order inside ONE gzip member: unlike several
members behind each other, every client decodes that. The trailer's CRC-32 is combined from the
blocks' own (Mark Adler's crc32_combine: appending n bytes is a linear map over GF(2)).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

GZIP_LEVEL = 1  # what kube-apiserver uses; higher levels cost more time than they save
GZIP_FROM_BYTES = 128 << 10  # smaller answers are sent as they are, as upstream does

HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
_END = b"\x03\x00"  # an empty final block with fixed codes


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the body, compressed; `size` and `crc` are of the plain bytes."""

    data: bytes
    size: int
    crc: int


def compress(plain: bytes) -> Block:
    """`plain` as a self-contained deflate block."""
    deflate = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = deflate.compress(plain) + deflate.flush(zlib.Z_FULL_FLUSH)
    return Block(data=data, size=len(plain), crc=zlib.crc32(plain))


def stored(plain: bytes) -> Block:
    """A few bytes as a stored block: separators between cached blocks."""
    size = len(plain)
    if size > 0xFFFF:
        raise ValueError("a stored block holds at most 65,535 bytes")
    head = b"\x00" + size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little")
    return Block(data=head + plain, size=size, crc=zlib.crc32(plain))


class Trailer:
    """Adds up the checksum and size of the blocks sent; `finish` is the end of the body."""

    __slots__ = ("_crc", "_size")

    def __init__(self) -> None:
        self._crc = 0
        self._size = 0

    def add(self, block: Block) -> bytes:
        """Count `block`; returns its bytes to send."""
        self._crc = _combine(self._crc, block.crc, block.size)
        self._size += block.size
        return block.data

    def finish(self) -> bytes:
        crc = self._crc.to_bytes(4, "little")
        return _END + crc + (self._size & 0xFFFFFFFF).to_bytes(4, "little")


_Matrix = list[int]


def _times(matrix: _Matrix, vector: int) -> int:
    total = 0
    for row in matrix:
        if not vector:
            break
        if vector & 1:
            total ^= row
        vector >>= 1
    return total


def _zero_operators() -> list[_Matrix]:
    """Matrices that append 2**k zero bytes to a CRC-32, for k = 0…39."""
    bit: _Matrix = [0xEDB88320] + [1 << k for k in range(31)]
    for _ in range(3):  # one bit squared three times appends eight
        bit = [_times(bit, row) for row in bit]
    operators = []
    for _ in range(40):
        operators.append(bit)
        bit = [_times(bit, row) for row in bit]
    return operators


_OPERATORS = _zero_operators()


def _combine(first: int, second: int, second_size: int) -> int:
    power = 0
    while second_size:
        if second_size & 1:
            first = _times(_OPERATORS[power], first)
        second_size >>= 1
        power += 1
    return first ^ second
