"""Defaults that a schema itself declares.

For built-in kinds the documents list Go's zero values as defaults too; those are settled by
`fields` already, so only what a Go field cannot show by being absent is filled in. For custom
resources the rules of structural schemas hold. What no schema says is in `fleet.kube.defaults`.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from fleet.kube.schema.documents import go_fields

if TYPE_CHECKING:
    from fleet.kube.schema.model import Schema


def fill_declared_defaults(value: Any, schema: Schema) -> None:
    """Fill in declared defaults below `value`, in place; absent objects stay absent."""
    if schema.custom:
        _fill_custom(value, schema)
    else:
        _fill_struct(value, schema)


def _fill_struct(value: Any, schema: Schema) -> None:
    if isinstance(value, list):
        if (items := schema.items) is not None and items.is_struct:
            for element in value:
                _fill_struct(element, items)
        return
    if not isinstance(value, dict):
        return
    if not schema.is_struct:
        if (values := schema.values) is not None and values.is_struct:
            for element in value.values():
                _fill_struct(element, values)
        return
    encodings = go_fields(schema.definition)
    for name in schema.defaulted:
        if value.get(name) is None and name in encodings:
            child = schema.field(name)
            default = child.default if child is not None else None
            if not isinstance(default, dict) and (default or encodings[name].pointer):
                value[name] = default
    for name, element in value.items():
        if isinstance(element, dict | list):
            child = schema.field(name)
            if child is not None:
                _fill_struct(element, child)


def _fill_custom(value: Any, schema: Schema) -> None:
    if isinstance(value, list):
        if (items := schema.items) is not None:
            for element in value:
                _fill_custom(element, items)
        return
    if not isinstance(value, dict):
        return
    for name in schema.defaulted:
        child = schema.field(name)
        if child is None:
            continue
        if name not in value or (value[name] is None and not child.nullable):
            value[name] = copy.deepcopy(child.default)
    for name, element in value.items():
        child = schema.field(name) or schema.values
        if child is not None and child.custom:
            _fill_custom(element, child)
