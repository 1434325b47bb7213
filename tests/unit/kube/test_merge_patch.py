from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.kube.patch import apply_merge_patch

keys = st.sampled_from("abcd")
scalars = st.one_of(st.integers(), st.booleans(), st.text(max_size=2))


def tree(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(
        keys,
        st.recursive(
            leaves,
            lambda inner: st.one_of(
                st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)
            ),
            max_leaves=10,
        ),
        max_size=4,
    )


documents = tree(scalars)
patches = tree(st.one_of(scalars, st.none()))


def holds_null_in_array(value: Any, *, inside: bool = False) -> bool:
    match value:
        case dict():
            return any(holds_null_in_array(item, inside=inside) for item in value.values())
        case list():
            return any(holds_null_in_array(item, inside=True) for item in value)
        case _:
            return inside and value is None


def difference(old: Any, new: Any) -> Any:
    """The merge patch from one document without nulls to another."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    removed = {key: None for key in old if key not in new}
    changed = {
        key: difference(old.get(key), value)
        for key, value in new.items()
        if key not in old or old[key] != value or type(old[key]) is not type(value)
    }
    return {**removed, **changed}


# RFC 7386, appendix A, but for two rows that API servers read otherwise: see below.
@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_rfc(document: Any, patch: Any, result: Any) -> None:
    assert apply_merge_patch(document, patch) == result


def test_nulls_in_what_replaces_something_else_are_dropped() -> None:
    assert apply_merge_patch({"a": 1}, {"a": [{"b": None, "c": 1}, None]}) == {
        "a": [{"c": 1}, None]
    }


def test_nulls_in_an_array_that_replaces_an_object_stay() -> None:
    patch = {"a": [{"b": None}]}
    assert apply_merge_patch({"a": {}}, patch) == patch


@given(documents, documents)
def test_a_difference_applied_gives_the_other_document(old: Any, new: Any) -> None:
    assert apply_merge_patch(old, difference(old, new)) == new


@given(documents, patches.filter(lambda patch: not holds_null_in_array(patch)))
def test_a_patch_applied_twice_does_no_more(document: Any, patch: Any) -> None:
    once = apply_merge_patch(document, patch)
    assert apply_merge_patch(once, patch) == once


@given(documents)
def test_the_empty_patch_changes_nothing(document: Any) -> None:
    assert apply_merge_patch(document, {}) == document


@given(documents, patches)
def test_neither_argument_is_changed_or_shared(document: Any, patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    result = apply_merge_patch(document, patch)

    def spoil(value: Any) -> None:
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, dict | list):
                spoil(inner)
        value.clear()

    spoil(result)
    assert (document, patch) == before
