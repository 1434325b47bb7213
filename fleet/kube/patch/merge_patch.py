"""JSON merge patch (RFC 7386): objects merge, null removes, everything else replaces.

One reading beyond the RFC is shared with API servers: nulls inside a value that replaces something
other than an object are dropped as well.
"""

from __future__ import annotations

import copy
from typing import Any


def apply_merge_patch(doc: Any, patch: Any) -> Any:
    """The document after the patch; neither argument is changed, nothing is shared with them."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    if not isinstance(doc, dict):
        return _without_nulls(patch)
    result = {}
    for name, value in doc.items():
        if name not in patch:
            result[name] = copy.deepcopy(value)
        elif patch[name] is not None:
            result[name] = _merged(value, patch[name])
    for name, value in patch.items():
        if name not in doc and value is not None:
            result[name] = _without_nulls(value)
    return result


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, dict):
        return apply_merge_patch(old, new)
    return _without_nulls(new)


def _without_nulls(value: Any) -> Any:
    """A copy without null members of objects; null elements of arrays stay."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
