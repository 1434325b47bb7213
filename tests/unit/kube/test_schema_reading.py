"""Bodies that are small and mean harm, or hold what no text can."""

from __future__ import annotations

import json

import orjson
import pytest

from fleet.kube.schema.reading import Repeated, Unreadable, parse_json, parse_yaml


def bomb(levels: int, width: int = 9) -> bytes:
    lines = [f"a0: &a0 [{', '.join(['lol'] * width)}]"]
    lines += [
        f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * width)}]" for at in range(1, levels + 1)
    ]
    return "\n".join(lines).encode()


def test_aliases_that_grow_beyond_measure_are_refused() -> None:
    """CVE-2019-11253: some hundred bytes that would be gigabytes of JSON."""
    for levels in (7, 30, 200):
        with pytest.raises(Unreadable, match="document contains excessive aliasing"):
            parse_yaml(bomb(levels))
    with pytest.raises(Unreadable, match="excessive aliasing"):
        parse_yaml(b"a: &a " + b"x" * 50_000 + b"\nb: [" + b"*a, " * 100 + b"]\n")


def test_aliases_of_a_usual_document_are_written_out() -> None:
    value, _ = parse_yaml(b"a: &a {b: [1, 2]}\nc: *a\nd:\n  <<: *a\n  e: 3\n")
    assert value == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": {"b": [1, 2], "e": 3}}
    parse_yaml(bomb(3))


def test_a_large_document_without_aliases_is_none_of_that() -> None:
    parse_yaml(b"a: " + b"x" * (5 << 20))


def test_a_document_that_holds_itself_is_refused() -> None:
    with pytest.raises(Unreadable, match="contains itself"):
        parse_yaml(b"a: &a [*a]")


def test_half_a_surrogate_pair_is_replaced_as_go_does() -> None:
    body = rb'{"a": "x\ud800y", "\udc00": ["\ud83d\ude00", {"b": "\uD83D"}], "c": "\\ud800"}'
    value = parse_json(body)
    assert value == {"a": "x\ufffdy", "\ufffd": ["😀", {"b": "\ufffd"}], "c": r"\ud800"}
    assert orjson.loads(orjson.dumps(value)) == value


def test_repeats_are_kept_where_text_is_replaced() -> None:
    value = parse_json(rb'{"a": 1, "a": "\ud800"}')
    assert isinstance(value, Repeated)
    assert value.pairs == [("a", 1), ("a", "\ufffd")]


def test_plain_bodies_are_what_json_says() -> None:
    body = json.dumps({"a": ["ü", 1, None, True, {"b": "\x7f"}]}).encode()
    assert parse_json(body) == json.loads(body)
