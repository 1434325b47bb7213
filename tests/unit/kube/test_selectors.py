from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadRequest
from fleet.kube.requirements import Requirement
from fleet.kube.selectors import (
    EVERYTHING,
    NOTHING,
    FieldSelector,
    LabelSelector,
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("  ", ""),
        ("a=b", "a=b"),
        ("a==b", "a=b"),
        ("a != b", "a!=b"),
        ("a", "a"),
        ("!a", "!a"),
        ("! a", "!a"),
        ("a=", "a="),
        ("a!=,b", "a!=,b"),
        ("b=1,a=2", "a=2,b=1"),
        ("a in (c,b, b)", "a in (b,c)"),
        ("a in ()", "a in ()"),
        ("a in (x,,y)", "a in (,x,y)"),
        ("a in (,)", "a in ()"),
        ("a notin(b)", "a notin (b)"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("a=in", "a=in"),
        ("a>5", "a>5"),
        ("a < 5", "a<5"),
        ("x.io/a=b", "x.io/a=b"),
        (" a\t=\r\nb , c ", "a=b,c"),
        ("a=b\0=", "a=b"),
    ],
)
def test_grammar_and_canonical_text(text: str, canonical: str) -> None:
    assert str(LabelSelector.parse(text)) == canonical


BAD_KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a=!", "unable to parse requirement: found '!', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        (
            "-a",
            f'unable to parse requirement: <nil>: Invalid value: "-a": {BAD_KEY}',
        ),
        (
            "a=-b",
            f'unable to parse requirement: values[0][a]: Invalid value: "-b": {BAD_VALUE}',
        ),
        (
            "a>-5",
            f'unable to parse requirement: values[0][a]: Invalid value: "-5": {BAD_VALUE}',
        ),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' "
            "operators, the value must be an integer",
        ),
        (
            f"a={'x' * 64}",
            f'unable to parse requirement: values[0][a]: Invalid value: "{"x" * 64}": '
            "must be no more than 63 bytes",
        ),
    ],
)
def test_faults_are_named_in_upstreams_words(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        LabelSelector.parse(text)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ("a=1", {"a": "1"}, True),
        ("a=1", {"a": "2"}, False),
        ("a=1", {}, False),
        ("a=", {}, False),
        ("a=", {"a": ""}, True),
        ("a!=1", {}, True),
        ("a!=1", {"a": "1"}, False),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("!a", {}, True),
        ("a in (1,2)", {"a": "2"}, True),
        ("a in (1,2)", {}, False),
        ("a notin (1,2)", {}, True),
        ("a notin (1,2)", {"a": "1"}, False),
        ("a>5", {"a": "6"}, True),
        ("a>5", {"a": "5"}, False),
        ("a<5", {"a": "-6"}, True),
        ("a<5", {"a": "x"}, False),
        ("a>5", {"a": "99999999999999999999"}, False),
        ("a>5", {}, False),
        ("a=1,b=2", {"a": "1", "b": "2", "c": "3"}, True),
        ("a=1,b=2", {"a": "1"}, False),
        ("a=1,!b", {"a": "1", "b": ""}, False),
    ],
)
def test_matching(selector: str, labels: dict[str, str], expected: bool) -> None:
    assert LabelSelector.parse(selector).matches(labels) is expected


def test_selector_objects() -> None:
    selector = LabelSelector.from_object(
        {
            "matchLabels": {"a": "1"},
            "matchExpressions": [
                {"key": "b", "operator": "In", "values": ["y", "x", "y"]},
                {"key": "c", "operator": "NotIn", "values": ["z"]},
                {"key": "d", "operator": "Exists"},
                {"key": "e", "operator": "DoesNotExist", "values": None},
            ],
        }
    )
    assert str(selector) == "a=1,b in (x,y),c notin (z),d,!e"
    assert LabelSelector.from_object({}).empty
    assert LabelSelector.from_object({"matchLabels": None}).empty
    nothing = LabelSelector.from_object(None)
    assert not nothing.empty
    assert not nothing.matches({})
    assert nothing == NOTHING != EVERYTHING


@pytest.mark.parametrize(
    ("term", "message"),
    [
        ({"key": "a", "operator": "Like"}, '"Like" is not a valid label selector operator'),
        ({"key": "a", "operator": "In"}, "values set can't be empty"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "values set must be empty"),
        ({"key": "-", "operator": "Exists"}, 'key: Invalid value: "-"'),
        ({"operator": "Exists"}, 'key: Invalid value: ""'),
    ],
)
def test_faulty_selector_objects(term: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(message)):
        LabelSelector.from_object({"matchExpressions": [term]})


def test_the_order_of_terms_makes_no_difference() -> None:
    one, other = LabelSelector.parse("a!=1,a=2,a"), LabelSelector.parse("a,a=2,a!=1")
    assert one == other
    assert str(one) == str(other)


def test_exact_value() -> None:
    assert LabelSelector.parse("a=1,b").exact("a") == "1"
    assert LabelSelector.parse("a in (1)").exact("a") == "1"
    assert LabelSelector.parse("a in (1,2)").exact("a") is None
    assert LabelSelector.parse("a!=1").exact("a") is None


keys = st.sampled_from(["a", "b", "x.io/c", "in", "notin"])
values = st.sampled_from(["", "1", "2", "10", "in", "x-y"])
numbers = st.integers(0, 20).map(str)
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(["=", "!="]), st.tuples(values)),
    st.builds(
        Requirement,
        keys,
        st.sampled_from(["in", "notin"]),
        st.sets(values, min_size=1).map(lambda found: tuple(sorted(found))),
    ),
    st.builds(Requirement, keys, st.sampled_from(["exists", "!"])),
    st.builds(Requirement, keys, st.sampled_from(["gt", "lt"]), st.tuples(numbers)),
)
selectors = st.lists(requirements, max_size=4).map(LabelSelector)
label_sets = st.dictionaries(keys, st.one_of(values, numbers), max_size=4)


@given(selectors)
def test_the_canonical_text_parses_to_an_equal_selector(selector: LabelSelector) -> None:
    again = LabelSelector.parse(str(selector))
    assert again == selector
    assert hash(again) == hash(selector)
    assert str(again) == str(selector)


def model(requirement: Requirement, labels: dict[str, str]) -> bool:
    """The rules of labels.Requirement.Matches, read out one by one."""
    present = requirement.key in labels
    value = labels.get(requirement.key, "")
    match requirement.operator:
        case "exists":
            return present
        case "!":
            return not present
        case "=" | "in":
            return present and value in requirement.values
        case "!=" | "notin":
            return not present or value not in requirement.values
        case "gt":
            return present and value.lstrip("-").isdigit() and int(value) > _bound(requirement)
        case "lt":
            return present and value.lstrip("-").isdigit() and int(value) < _bound(requirement)


def _bound(requirement: Requirement) -> int:
    return int(requirement.values[0])


@given(selectors, label_sets)
def test_matching_equals_the_model(selector: LabelSelector, labels: dict[str, str]) -> None:
    expected = all(model(requirement, labels) for requirement in selector.requirements)
    assert selector.matches(labels) is expected


@given(st.text("ab/=!()<>, in\t1-_.é\0", max_size=20))
def test_any_text_parses_or_is_a_bad_request(text: str) -> None:
    try:
        selector = LabelSelector.parse(text)
    except BadRequest:
        return
    assert LabelSelector.parse(str(selector)) == selector


# Field selectors


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        (",,", ""),
        ("a=b", "a=b"),
        ("a==b", "a=b"),
        ("a!=b", "a!=b"),
        ("b=1,a=2", "a=2,b=1"),
        ("a=", "a="),
        ("=", ""),
        ("!=,a=1", "a=1"),
        ("=x", "=x"),
        (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
        ("metadata.name=web,metadata.namespace!=a", "metadata.name=web,metadata.namespace!=a"),
        ("a.b = c", "a.b = c"),
    ],
)
def test_field_grammar_and_canonical_text(text: str, canonical: str) -> None:
    assert str(FieldSelector.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=1,b", "invalid selector: 'a=1,b'; can't understand 'b'"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a===b", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_field_selector_faults(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        FieldSelector.parse(text)
    assert caught.value.message == message


def test_field_matching_and_projection() -> None:
    selector = FieldSelector.parse("spec.nodeName=n1.east,status.phase!=Failed")
    values = {"spec.nodeName": "n1.east", "status.phase": "Running"}
    assert selector.matches(lambda name: values.get(name, ""))
    assert selector.exact("spec.nodeName") == "n1.east"
    assert selector.exact("status.phase") is None
    there = selector.map(lambda name, value: (name, value.removesuffix(".east")))
    assert str(there) == "spec.nodeName=n1,status.phase!=Failed"
    without = selector.map(
        lambda name, value: ("", "") if name == "status.phase" else (name, value)
    )
    assert str(without) == "spec.nodeName=n1.east"


field_terms = st.tuples(
    st.sampled_from(["a", "b.c", "metadata.name"]),
    st.sampled_from(["=", "!="]),
    st.text("xy\\,=! ", max_size=6),
)


@given(st.lists(field_terms, max_size=4))
def test_a_field_selectors_text_parses_to_an_equal_one(terms: list[tuple[str, str, str]]) -> None:
    selector = FieldSelector(terms)  # type: ignore[arg-type]
    again = FieldSelector.parse(str(selector))
    assert again == selector
    assert hash(again) == hash(selector)


@given(
    st.lists(field_terms, max_size=4),
    st.dictionaries(st.sampled_from(["a", "b.c", "metadata.name"]), st.text("xy\\,=", max_size=2)),
)
def test_field_matching_equals_the_model(
    terms: list[tuple[str, str, str]], values: dict[str, str]
) -> None:
    selector = FieldSelector(terms)  # type: ignore[arg-type]
    expected = all((values.get(name, "") == value) == (op == "=") for name, op, value in terms)
    assert selector.matches(lambda name: values.get(name, "")) is expected


@given(st.text("ab=!\\,é", max_size=12))
def test_any_text_is_a_field_selector_or_a_bad_request(text: str) -> None:
    try:
        selector = FieldSelector.parse(text)
    except BadRequest:
        return
    assert FieldSelector.parse(str(selector)) == selector
