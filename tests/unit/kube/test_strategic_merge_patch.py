from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadRequest, Invalid, UnsupportedMediaType
from fleet.kube.patch import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    apply_patch,
    apply_strategic_merge_patch,
)
from fleet.kube.schema import FieldValidation, Schema, schema_for
from fleet.kube.schema.documents import structural_schema


def schema(name: str = "Deployment") -> Schema:
    found = schema_for("apps", "v1", name)
    assert found is not None
    return found


def deployment(*containers: Any, **pod: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": list(containers), **pod}}}}


def containers_after(patch: Any, *containers: Any) -> Any:
    result = apply_strategic_merge_patch(deployment(*containers), deployment(*patch), schema())
    return result["spec"]["template"]["spec"]["containers"]


def names(containers: Any) -> list[str]:
    return [container["name"] for container in containers]


A, B, C = ({"name": name, "image": f"{name}:1"} for name in "abc")


def test_lists_with_a_merge_key_merge_by_it() -> None:
    merged = containers_after([{"name": "b", "image": "b:2"}], A, B)
    assert merged == [A, {"name": "b", "image": "b:2"}]


def test_lists_without_a_strategy_are_replaced() -> None:
    before = {"name": "a", "args": ["x", "y"]}
    assert containers_after([{"name": "a", "args": ["z"]}], before) == [
        {"name": "a", "args": ["z"]}
    ]


def test_the_merge_key_of_ports_is_the_number_alone() -> None:
    # The list-map keys are number and protocol; deriving one from the other would lose a port.
    before = {"name": "a", "ports": [{"containerPort": 53, "protocol": "UDP"}]}
    patch = {"name": "a", "ports": [{"containerPort": 53, "protocol": "TCP"}]}
    assert containers_after([patch], before) == [patch]


def test_directives_delete_and_replace_elements() -> None:
    assert containers_after([{"name": "a", "$patch": "delete"}], A, B) == [B]
    assert containers_after([{"$patch": "replace"}, C], A, B) == [C]


def test_an_object_is_replaced_or_emptied_by_its_directive() -> None:
    before = {"metadata": {"labels": {"a": "1"}}}
    replaced = {"metadata": {"labels": {"$patch": "replace", "b": "2"}}}
    emptied = {"metadata": {"labels": {"$patch": "delete"}}}
    assert apply_strategic_merge_patch(before, replaced, schema()) == {
        "metadata": {"labels": {"b": "2"}}
    }
    assert apply_strategic_merge_patch(before, emptied, schema()) == {"metadata": {"labels": {}}}


def test_retain_keys_clears_the_other_members() -> None:
    before = deployment(A, volumes=[{"name": "v", "emptyDir": {}}])
    volume = {"$retainKeys": ["name", "configMap"], "name": "v", "configMap": {"name": "c"}}
    patch = {"spec": {"template": {"spec": {"volumes": [volume]}}}}
    result = apply_strategic_merge_patch(before, patch, schema())
    assert result["spec"]["template"]["spec"]["volumes"] == [
        {"name": "v", "configMap": {"name": "c"}}
    ]


def test_elements_of_lists_of_scalars_merge_and_are_deleted_by_name() -> None:
    before = {"metadata": {"finalizers": ["a", "b", "c"]}}
    patch = {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["b"],
            "$setElementOrder/finalizers": ["c", "d", "a"],
            "finalizers": ["d"],
        }
    }
    result = apply_strategic_merge_patch(before, patch, schema())
    assert result["metadata"]["finalizers"] == ["c", "d", "a"]


def test_the_order_list_orders_and_live_elements_keep_their_place() -> None:
    before = deployment(A, B, C)
    patch = {
        "spec": {
            "template": {
                "spec": {
                    "$setElementOrder/containers": [{"name": "c"}, {"name": "n"}, {"name": "a"}],
                    "containers": [{"name": "n", "image": "n:1"}],
                }
            }
        }
    }
    result = apply_strategic_merge_patch(before, patch, schema())
    # `b`, which the patch does not know, stays before what it preceded: `c`.
    assert names(result["spec"]["template"]["spec"]["containers"]) == ["b", "c", "n", "a"]


@pytest.mark.parametrize(
    ("patch", "error", "message"),
    [
        (deployment({"image": "x"}), Invalid, "does not contain declared merge key: name"),
        (deployment({"name": "a", "$patch": "x"}), Invalid, "unknown patch type: x in map"),
        (deployment({"name": "a", "$patch": "merge"}), Invalid, "cannot yet be specified"),
        (deployment("x"), Invalid, "list element types are not identical"),
        ({"metadata": {"$deleteFromPrimitiveList": []}}, BadRequest, "primitive list"),
        ({"metadata": {"$setElementOrder": []}}, BadRequest, "setElementOrder list"),
        ({"metadata": {"$setElementOrder/finalizers": 1}}, Invalid, "received a int64"),
        ({"metadata": {"$retainKeys": "x"}}, BadRequest, "retainKeys"),
        ({"metadata": {"$retainKeys": ["a"], "labels": {}}}, BadRequest, "retainKeys"),
        ({"metadata": {"labels": {"$patch": "x"}}}, Invalid, "unknown patch type: x"),
    ],
)
def test_a_patch_that_makes_no_sense_is_refused(
    patch: Any, error: type[Exception], message: str
) -> None:
    before = {**deployment(A), "metadata": {"labels": {"a": "b"}, "finalizers": ["a"]}}
    with pytest.raises(error, match=message):
        apply_strategic_merge_patch(before, patch, schema())


names_drawn = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


@given(names_drawn, names_drawn)
def test_a_merge_keeps_every_element_once_and_the_order_of_the_patch(
    live: list[str], patch: list[str]
) -> None:
    before = [{"name": name, "image": "old"} for name in live]
    after = containers_after([{"name": name, "image": "new"} for name in patch], *before)
    assert sorted(names(after)) == sorted({*live, *patch})
    assert [name for name in names(after) if name in patch] == patch
    assert [name for name in names(after) if name not in patch] == [
        name for name in live if name not in patch
    ]


@given(names_drawn, st.data())
def test_an_order_list_of_all_elements_is_the_order(live: list[str], data: st.DataObject) -> None:
    order = data.draw(st.permutations(live))
    before = deployment(*({"name": name} for name in live))
    patch = {
        "spec": {
            "template": {"spec": {"$setElementOrder/containers": [{"name": n} for n in order]}}
        }
    }
    if not live:
        return
    result = apply_strategic_merge_patch(before, patch, schema())
    assert names(result["spec"]["template"]["spec"]["containers"]) == order


@given(names_drawn, names_drawn)
def test_neither_argument_is_changed(live: list[str], patch: list[str]) -> None:
    document = deployment(*({"name": name} for name in live))
    change = deployment(*({"name": name, "$patch": "delete"} for name in patch))
    before = copy.deepcopy((document, change))
    apply_strategic_merge_patch(document, change, schema())
    assert (document, change) == before


def test_custom_resources_take_no_strategic_merge_patch() -> None:
    custom = structural_schema({"type": "object"})
    with pytest.raises(UnsupportedMediaType, match="merge-patch"):
        apply_patch(STRATEGIC_MERGE_PATCH, {}, b"{}", schema=custom)


def test_the_content_type_may_have_parameters() -> None:
    current = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}
    config_map = schema_for("", "v1", "ConfigMap")
    result = apply_patch(
        f"{MERGE_PATCH}; charset=utf-8", current, b'{"data":{"a":null}}', schema=config_map
    )
    assert "data" not in result
    assert current["data"] == {"a": "1"}


def test_undeclared_fields_warn_are_refused_or_vanish() -> None:
    current = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}}
    body, warnings = b'{"spec":{"bogus":1}}', []
    for validation in (FieldValidation.IGNORE, FieldValidation.WARN):
        result = apply_patch(
            MERGE_PATCH, current, body,
            schema=schema(), validation=validation, warn=warnings.append,
        )  # fmt: skip
        assert "bogus" not in result["spec"]
    assert warnings == ['unknown field "spec.bogus"']
    with pytest.raises(Invalid, match=r'unknown field "spec\.bogus"'):
        apply_patch(MERGE_PATCH, current, body, schema=schema(), validation=FieldValidation.STRICT)
