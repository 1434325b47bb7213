"""Strategic merge patch: objects merge by field, lists by key, as the schema's patch tags say.

Directives inside the patch steer it: `$patch: delete|replace`, `$retainKeys`,
`$deleteFromPrimitiveList/FIELD`, `$setElementOrder/FIELD`. Semantics and messages follow
apimachinery's `pkg/util/strategicpatch`; where that answers 500 for a patch that cannot be applied,
this is a 422 with the same words, for the fault is the caller's.

`ordering` puts merged lists in order. Only built-in kinds have the tags; callers answer 415 for
custom resources before they come here.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import BadRequest, Details, Invalid
from fleet.kube.patch.ordering import (
    Element,
    NoMergeKey,
    go_print,
    go_type,
    in_order,
    partition,
    same,
)

if TYPE_CHECKING:
    from fleet.kube.schema import Schema

Object = dict[str, Any]

_PATCH: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"
_SET_ORDER: Final = "$setElementOrder"

_BAD_RETAIN_KEYS: Final = "invalid patch format of retainKeys"
_BAD_PRIMITIVE_LIST: Final = "invalid patch format of primitive list"
_BAD_SET_ORDER: Final = "invalid patch format of setElementOrder list"
_REJECTED: Final = "the server rejected our request due to an error in our request"


def apply_strategic_merge_patch(doc: Object, patch: Object, schema: Schema) -> Object:
    """The object after the patch; neither argument is changed.

    `schema` describes `doc`. Raises BadRequest for a malformed directive, Invalid for a patch that
    cannot be applied.
    """
    try:
        return _merge_object(copy.deepcopy(doc), copy.deepcopy(patch), schema)
    except NoMergeKey as error:
        raise _refused(str(error)) from error


def _refused(message: str) -> Invalid:
    return Invalid(message, details=Details())


def _merge_object(original: Object, patch: Object, schema: Schema) -> Object:
    """Merge `patch` into `original`; both are used up."""
    if _PATCH in patch:
        return _whole(patch)
    _retain_keys(original, patch)
    for key in [key for key in patch if key.startswith(_SET_ORDER)]:
        _merge_ordered(original, patch, key, schema)
    for key, value in patch.items():
        deletes = key.startswith(_DELETE_FROM)
        name = _list_field(key, _DELETE_FROM, _BAD_PRIMITIVE_LIST) if deletes else key
        if value is None:
            original.pop(name, None)
        elif name not in original or go_type(original[name]) != go_type(value):
            if not deletes:
                _take(original, name, _without_nulls(value))
        elif isinstance(value, dict):
            child = _field(schema, name)
            if _strategy(child) == "replace":
                original[name] = value
            else:
                original[name] = _merge_object(original[name], value, child)
        elif isinstance(value, list):
            child = _list_field_schema(schema, name)
            original[name] = _merge_list(original[name], value, child, deletes=deletes)
        else:
            original[name] = value
    return original


def _whole(patch: Object) -> Object:
    """An object under `$patch: replace` or `$patch: delete`."""
    directive = patch.pop(_PATCH)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    patch[_PATCH] = directive
    raise _refused(f"unknown patch type: {directive} in map: {go_print(patch)}")


def _take(original: Object, name: str, value: Any) -> None:
    kept, keep = _without_directives(value)
    if keep:
        original[name] = kept
    else:
        original.pop(name, None)


def _retain_keys(original: Object, patch: Object) -> None:
    """Drop the fields of `original` that `$retainKeys` does not list."""
    if _RETAIN_KEYS not in patch:
        return
    keys = patch.pop(_RETAIN_KEYS)
    if not isinstance(keys, list):
        raise BadRequest(_BAD_RETAIN_KEYS)
    for name, value in patch.items():
        if value is not None and not name.startswith((_DELETE_FROM, _SET_ORDER)):
            if name not in keys:
                raise BadRequest(_BAD_RETAIN_KEYS)
    for name in [name for name in original if name not in keys]:
        del original[name]


def _merge_ordered(original: Object, patch: Object, key: str, schema: Schema) -> None:
    """Merge the list that `$setElementOrder/FIELD` names and put it in that order."""
    order = patch.pop(key)
    if not isinstance(order, list):
        raise _refused(_bad_argument("[]interface {}", order))
    name = _list_field(key, _SET_ORDER, _BAD_SET_ORDER)
    old, new = original.get(name, []), patch.get(name, [])
    for value in (old, new):
        if not isinstance(value, list):
            raise _refused(_bad_argument("[]interface {}", value))
    child = _list_field_schema(schema, name)
    merge_key = child.patch_merge_key
    _check_order(new, order, merge_key)
    patch.pop(name, None)
    if name not in original and not new:
        return
    if name not in original:
        merged, _ = _without_directives(new)
    elif not new:
        merged = old
    else:
        merged = _merge_list(list(old), new, child, deletes=False)
    ours, others = partition(merged, order, merge_key)
    element = _element_type(old, new)
    original[name] = in_order(ours, others, order, old, merge_key if element is dict else "")


def _check_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    """Elements of the patch must occur in the order list, in the same order."""
    if not patch or not order:
        return
    if merge_key:
        for element in patch:
            if not isinstance(element, dict):
                raise _refused(_bad_argument("map[string]interface {}", element))
    wanted = [e for e in patch if not (isinstance(e, dict) and _PATCH in e)]
    position = 0
    for place in order:
        if position < len(wanted) and Element.of(wanted[position], merge_key) == Element.of(
            place, merge_key
        ):
            position += 1
    if position < len(wanted):
        raise _refused(
            f"The order in patch list:\n{go_print(patch)}\n doesn't match {_SET_ORDER} list:\n"
            f"{go_print(order)}\n"
        )


def _merge_list(old: list[Any], new: list[Any], schema: Schema, *, deletes: bool) -> list[Any]:
    """Merge by the list's patch strategy; without `merge` the new list replaces the old one."""
    if _strategy(schema) != "merge" and not deletes:
        return new
    if not old and not new:
        return old
    merge_key = schema.patch_merge_key
    if _element_type(old, new) is not dict:
        if deletes:
            return [e for e in old if not any(same(e, gone) for gone in new)]
        merged: list[Any] = []
        for element in [*old, *new]:
            if not any(same(element, seen) for seen in merged):
                merged.append(element)
        ours, others = partition(merged, new, "")
        return in_order(ours, others, new, old, "")
    if not merge_key:
        raise _refused(f"cannot merge lists without merge key for {schema.type or 'struct'}")
    old, new = _special_elements(old, new, merge_key)
    items = schema.items
    merged = list(old)
    for element in new:
        key = Element.of(element, merge_key)
        place = next((i for i, e in enumerate(merged) if key.matches(e, merge_key)), None)
        if place is None:
            merged.append(element)
        else:
            assert items is not None
            merged[place] = _merge_object(merged[place], element, items)
    ours, others = partition(merged, new, merge_key)
    return in_order(ours, others, new, old, merge_key)


def _special_elements(
    old: list[Any], new: list[Any], merge_key: str
) -> tuple[list[Any], list[Any]]:
    """Carry out `$patch` elements of a list; what is left of both lists."""
    plain: list[Any] = []
    replace = False
    for element in new:
        if _PATCH not in element:
            plain.append(element)
            continue
        match element[_PATCH]:
            case "delete":
                key = Element.of(element, merge_key)
                old = [e for e in old if not key.matches(e, merge_key)]
            case "replace":
                replace = True
            case "merge":
                raise _refused("merging lists cannot yet be specified in the patch")
            case other:
                raise _refused(f"unknown patch type: {other} in map: {go_print(element)}")
    return (plain, []) if replace else (old, plain)


def _element_type(*lists: list[Any]) -> type:
    """The one type of all elements."""
    found: str | None = None
    for element in [e for each in lists for e in each]:
        name = go_type(element)
        if found is None and name == "[]interface {}":
            raise Invalid(_REJECTED, details=Details())
        if found is not None and name != found:
            raise _refused(f"list element types are not identical: {go_print(list(lists))}")
        found = name
    if found is None:
        raise _refused("no elements in any of the given slices")
    return dict if found.startswith("map") else str


def _field(schema: Schema, name: str) -> Schema:
    if not schema.is_struct:
        kind = "map" if schema.type == "object" else "interface"
        raise _refused(f"merging an object in json but data type is not struct, instead is: {kind}")
    found = schema.field(name)
    if found is None:
        struct = schema.definition.rpartition(".")[2]
        raise _refused(f'unable to find api field in struct {struct} for the json field "{name}"')
    return found


def _list_field_schema(schema: Schema, name: str) -> Schema:
    found = _field(schema, name)
    if found.items is None:
        raise _refused("expected slice or array type, but got: struct")
    return found


def _strategy(schema: Schema) -> str:
    return next((s for s in schema.patch_strategies if s != "retainKeys"), "")


def _list_field(key: str, prefix: str, message: str) -> str:
    """`FIELD` of `PREFIX/FIELD`."""
    head, slash, name = key.partition("/")
    if head != prefix or not slash:
        raise BadRequest(message)
    return name


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _without_directives(value: Any) -> tuple[Any, bool]:
    """The value without objects that carry `$patch`, and whether it is to be kept at all."""
    if isinstance(value, dict):
        if _PATCH in value:
            return None, False
        kept = {name: _without_directives(item) for name, item in value.items()}
        return {name: item for name, (item, keep) in kept.items() if keep}, True
    if isinstance(value, list):
        items = [_without_directives(item) for item in value]
        return [item for item, keep in items if keep], True
    return value, True


def _bad_argument(expected: str, actual: Any) -> str:
    return f"expected a {expected}, but received a {go_type(actual)}"
