from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadRequest, Invalid, RequestTooLarge
from fleet.kube.patch import MAX_OPERATIONS, apply_json_patch
from fleet.kube.patch.json_patch import check_operations

keys = st.text(st.sampled_from("ab/~0"), max_size=3)
scalars = st.one_of(st.integers(), st.booleans(), st.text(max_size=3), st.none())
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=12,
)
objects = st.dictionaries(keys, documents, max_size=4)


def escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def difference(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """Operations that turn one document into the other."""
    if isinstance(old, dict) and isinstance(new, dict):
        operations: list[dict[str, Any]] = []
        for key in old:
            where = f"{path}/{escaped(key)}"
            if key not in new:
                operations.append({"op": "remove", "path": where})
            else:
                operations += difference(old[key], new[key], where)
        return operations + [
            {"op": "add", "path": f"{path}/{escaped(key)}", "value": value}
            for key, value in new.items()
            if key not in old
        ]
    same = type(old) is type(new) and old == new
    return [] if same else [{"op": "replace", "path": path, "value": new}]


def places(document: Any, path: str = "") -> list[tuple[str, Any]]:
    found = [(path, document)] if path else []
    if isinstance(document, dict):
        for key, value in document.items():
            found += places(value, f"{path}/{escaped(key)}")
    elif isinstance(document, list):
        for index, value in enumerate(document):
            found += places(value, f"{path}/{index}")
    return found


def why(caught: pytest.ExceptionInfo[Invalid]) -> str:
    details = caught.value.details
    assert details is not None
    return details.causes[0].message


@given(objects, objects)
def test_a_difference_applied_gives_the_other_document(old: Any, new: Any) -> None:
    before = copy.deepcopy(old)
    assert apply_json_patch(old, difference(old, new)) == new
    assert old == before


@given(objects)
def test_every_place_passes_a_test_for_what_is_there(document: Any) -> None:
    operations = [{"op": "test", "path": path, "value": value} for path, value in places(document)]
    assert apply_json_patch(document, operations) == document


@given(objects, st.data())
def test_moving_away_and_back_changes_nothing(document: Any, data: st.DataObject) -> None:
    candidates = [path for path, _ in places(document)]
    if not candidates or "moved" in document:
        return
    path = data.draw(st.sampled_from(candidates))
    there = {"op": "move", "from": path, "path": "/moved"}
    back = {"op": "move", "from": "/moved", "path": path}
    assert apply_json_patch(document, [there, back]) == document


def test_values_are_detached_from_the_patch_and_from_each_other() -> None:
    value = {"a": [1]}
    result = apply_json_patch(
        {"x": {"y": 1}},
        [
            {"op": "add", "path": "/v", "value": value},
            {"op": "copy", "from": "/x", "path": "/z"},
            {"op": "replace", "path": "/z/y", "value": 2},
        ],
    )
    result["v"]["a"].append(2)
    assert value == {"a": [1]}
    assert result["x"] == {"y": 1}


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/l/-1", "value": 9}, [1, 2, 9]),
        ({"op": "add", "path": "/l/-3", "value": 9}, [9, 1, 2]),
        ({"op": "add", "path": "/l/-", "value": 9}, [1, 2, 9]),
        ({"op": "add", "path": "/l/2", "value": 9}, [1, 2, 9]),
        ({"op": "remove", "path": "/l/-2"}, [2]),
        ({"op": "replace", "path": "/l/-1", "value": 9}, [1, 9]),
    ],
)
def test_negative_indices_count_from_the_end(operation: Any, result: Any) -> None:
    assert apply_json_patch({"l": [1, 2]}, [operation]) == {"l": result}


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (
            {"op": "test", "path": "/a", "value": 2},
            "testing value /a failed: test failed",
        ),
        (
            {"op": "test", "path": "/a", "value": True},
            "testing value /a failed: test failed",
        ),
        (
            {"op": "remove", "path": "/zz"},
            "error in remove for path: '/zz': Unable to remove nonexistent key: zz: missing value",
        ),
        (
            {"op": "replace", "path": "/x/y", "value": 1},
            "replace operation does not apply: doc is missing path: /x/y: missing value",
        ),
        (
            {"op": "add", "path": "/l/5", "value": 1},
            "error in add for path: '/l/5': Unable to access invalid index: 5: invalid index "
            "referenced",
        ),
        ({"op": "jump", "path": "/a"}, "Unexpected kind: jump"),
        ({"path": "/a"}, "Unexpected kind: unknown"),
        ({"op": "remove"}, "remove operation failed to decode path: missing value"),
        (
            {"op": "move", "path": "/b"},
            "move operation failed to decode from: operation, missing from field: missing value",
        ),
    ],
)
def test_an_operation_that_does_not_apply_says_why(operation: Any, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        apply_json_patch({"a": 1, "l": [1]}, [operation])
    assert why(caught) == message
    assert caught.value.message == "the server rejected our request due to an error in our request"


def test_nothing_is_applied_when_the_last_operation_fails() -> None:
    document = {"a": 1}
    with pytest.raises(Invalid):
        apply_json_patch(document, [{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/a"}])
    assert document == {"a": 1}


def test_a_missing_member_counts_as_null() -> None:
    assert apply_json_patch({}, [{"op": "test", "path": "/a", "value": None}]) == {}
    assert apply_json_patch({}, [{"op": "copy", "from": "/a", "path": "/b"}]) == {"b": None}
    assert apply_json_patch({}, [{"op": "replace", "path": "/a", "value": 1}]) == {"a": 1}


def test_too_many_operations_are_refused_before_any_is_applied() -> None:
    operations = [{"op": "test", "path": "/a", "value": 1}] * (MAX_OPERATIONS + 1)
    with pytest.raises(RequestTooLarge, match="10000, got 10001"):
        apply_json_patch({"a": 1}, operations)
    assert apply_json_patch({"a": 1}, operations[1:]) == {"a": 1}


@pytest.mark.parametrize("patch", [{"op": "add"}, "x", [1], [{"op": "add", "path": 1}]])
def test_what_is_no_list_of_operations_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(BadRequest):
        check_operations(patch, strict=True)
