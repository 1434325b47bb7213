from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fleet.members.lines import LineSplitter


@given(
    lines=st.lists(st.binary(max_size=40).filter(lambda b: b"\n" not in b and b.strip() == b)),
    cuts=st.lists(st.integers(min_value=0, max_value=200)),
)
def test_lines_come_out_whole_however_the_bytes_are_cut(lines: list[bytes], cuts: list[int]):
    whole = b"".join(line + b"\n" for line in lines)
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    splitter = LineSplitter()
    got = [line for start, end in pairwise(edges) for line in splitter.feed(whole[start:end])]
    assert got == [line for line in lines if line]
    assert splitter.end() == b""


def test_a_line_of_megabytes_in_small_pieces():
    line = b'{"x":"' + b"y" * 1_400_000 + b'"}'
    splitter = LineSplitter()
    got: list[bytes] = []
    for at in range(0, len(line), 1000):
        got += splitter.feed(line[at : at + 1000])
    assert got == []
    assert splitter.feed(b"\nnext") == [line]
    assert splitter.end() == b"next"
    assert splitter.end() == b""


def test_blank_lines_are_left_out_and_a_burst_stays_together():
    splitter = LineSplitter()
    assert splitter.feed(b"a\n\r\n\nb\r\nc") == [b"a", b"b\r"]
    assert splitter.feed(b"") == []
    assert splitter.feed(b"d\n") == [b"cd"]
