"""JSON patch (RFC 6902) with the reading that Kubernetes gives it.

Beyond the RFC, API servers take negative array indices, let `replace` and `copy` treat a missing
member of an object as null, and compare numbers by their text. Messages are those of
evanphx/json-patch v4, the library behind them.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import BadRequest, Cause, Details, Invalid, RequestTooLarge
from fleet.kube.schema.reading import Number, word_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_OPERATIONS: Final = 10_000

_ABSENT: Final = object()
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


class _Fails(Exception):
    """One operation does not apply; the message says which and why."""


def apply_json_patch(doc: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """The document after all operations; `doc` stays as it is.

    Raises RequestTooLarge above MAX_OPERATIONS, Invalid when an operation does not apply (nothing
    is applied then).
    """
    if len(operations) > MAX_OPERATIONS:
        raise RequestTooLarge(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(operations)}"
        )
    document = copy.deepcopy(doc)
    try:
        for operation in operations:
            document = _apply(document, operation)
    except _Fails as error:
        raise Invalid(
            "the server rejected our request due to an error in our request",
            details=Details(causes=(Cause("UnexpectedServerResponse", str(error)),)),
        ) from error
    return document


def check_operations(patch: Any, *, strict: bool) -> list[Mapping[str, Any]]:
    """`patch` as a list of operations; `strict` is how field validation reads it.

    Raises BadRequest when it is anything else.
    """
    if patch is None:
        return []
    prefix = "error decoding patch: json" if strict else "json"
    if not isinstance(patch, list):
        target = "[]handlers.jsonPatchOp" if strict else "jsonpatch.Patch"
        raise BadRequest(
            f"{prefix}: cannot unmarshal {word_of(patch)} into Go value of type {target}"
        )
    for operation in patch:
        if not isinstance(operation, dict):
            target = "handlers.jsonPatchOp" if strict else "jsonpatch.Operation"
            raise BadRequest(
                f"{prefix}: cannot unmarshal {word_of(operation)} into Go value of type {target}"
            )
        for name in ("op", "path", "from") if strict else ():
            value = operation.get(name)
            if value is not None and not isinstance(value, str):
                raise BadRequest(
                    f"{prefix}: cannot unmarshal {word_of(value)} into Go struct field "
                    f"jsonPatchOp.{name} of type string"
                )
    return patch


def strict_problems(operations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Members of operations that RFC 6902 does not know, as strict decoding reports them."""
    return [
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(operations)
        for name in operation
        if name not in {"op", "path", "from", "value"}
    ]


def _apply(document: Any, operation: Mapping[str, Any]) -> Any:
    match operation.get("op"):
        case "add":
            path = _member(operation, "path", "add operation failed to decode path", terse=True)
            container, key = _container(document, path)
            if container is None:
                raise _Fails(
                    f'add operation does not apply: doc is missing path: "{path}": missing value'
                )
            _add(container, key, _value(operation), f"error in add for path: '{path}'")
        case "remove":
            path = _member(operation, "path", "remove operation failed to decode path", terse=True)
            container, key = _container(document, path)
            if container is None:
                raise _Fails(
                    f'remove operation does not apply: doc is missing path: "{path}": missing value'
                )
            _remove(container, key, f"error in remove for path: '{path}'")
        case "replace":
            return _replace(document, operation)
        case "move":
            _move(document, operation)
        case "copy":
            _copy(document, operation)
        case "test":
            _test(document, operation)
        case other:
            raise _Fails(f"Unexpected kind: {other or 'unknown'}")
    return document


def _replace(document: Any, operation: Mapping[str, Any]) -> Any:
    path = _member(operation, "path", "replace operation failed to decode path")
    if path == "":
        value = _value(operation)
        if not isinstance(value, dict | list):
            raise _Fails("replace operation value must be object or array")
        return value
    container, key = _container(document, path)
    if container is None:
        raise _Fails(
            f"replace operation does not apply: doc is missing path: {path}: missing value"
        )
    if isinstance(container, list):
        try:
            container[_index(container, key)] = _value(operation)
        except _Fails:
            raise _Fails(
                f"replace operation does not apply: doc is missing key: {path}: missing value"
            ) from None
    else:
        container[key] = _value(operation)
    return document


def _move(document: Any, operation: Mapping[str, Any]) -> None:
    source = _member(operation, "from", "move operation failed to decode from")
    container, key = _container(document, source)
    if container is None:
        raise _Fails(
            f"move operation does not apply: doc is missing from path: {source}: missing value"
        )
    value = _get(container, key, f"error in move for path: '{key}'")
    _remove(container, key, f"error in move for path: '{key}'")
    path = _member(operation, "path", "move operation failed to decode path")
    container, key = _container(document, path)
    if container is None:
        raise _Fails(
            f"move operation does not apply: doc is missing destination path: {path}: missing value"
        )
    _add(container, key, value, f"error in move for path: '{path}'")


def _copy(document: Any, operation: Mapping[str, Any]) -> None:
    source = _member(operation, "from", "copy operation failed to decode from")
    container, key = _container(document, source)
    if container is None:
        raise _Fails(
            f"copy operation does not apply: doc is missing from path: {source}: missing value"
        )
    value = copy.deepcopy(_get(container, key, f"error in copy for from: '{source}'"))
    path = _member(operation, "path", "copy operation failed to decode path", terse=True)
    container, key = _container(document, path)
    if container is None:
        raise _Fails(
            f"copy operation does not apply: doc is missing destination path: {path}: missing value"
        )
    _add(container, key, value, "error while adding value during copy")


def _test(document: Any, operation: Mapping[str, Any]) -> None:
    path = _member(operation, "path", "test operation failed to decode path")
    wanted = operation.get("value")
    if path == "":
        found = document
    else:
        container, key = _container(document, path)
        if container is None:
            raise _Fails(f"test operation does not apply: is missing path: {path}: missing value")
        found = _get(container, key, f"error in test for path: '{path}'")
    if not _equal(found, wanted):
        raise _Fails(f"testing value {path} failed: test failed")


def _member(operation: Mapping[str, Any], name: str, context: str, *, terse: bool = False) -> str:
    """The `path` or `from` of an operation."""
    value = operation.get(name)
    if isinstance(value, str):
        return value
    if terse:
        raise _Fails(f"{context}: missing value")
    what = "missing path field" if name == "path" else ", missing from field"
    raise _Fails(f"{context}: operation{' ' if name == 'path' else ''}{what}: missing value")


def _value(operation: Mapping[str, Any]) -> Any:
    """The value to write, detached from the patch; absent means null."""
    return copy.deepcopy(operation.get("value"))


def _container(document: Any, path: str) -> tuple[Any, str]:
    """What holds the last part of `path`, and that part; (None, "") when there is no such place."""
    parts = path.split("/")
    if len(parts) < 2:
        return None, ""
    found = document
    for part in parts[1:-1]:
        key = _decoded(part)
        if isinstance(found, list):
            try:
                found = found[_index(found, key)]
            except _Fails:
                return None, ""
        else:
            found = found.get(key)
        if not isinstance(found, dict | list):
            return None, ""
    return found, _decoded(parts[-1])


def _decoded(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~") if "~" in part else part


def _get(container: Any, key: str, context: str) -> Any:
    if isinstance(container, dict):
        return container.get(key)
    try:
        return container[_index(container, key)]
    except _Fails as error:
        raise _Fails(f"{context}: {error}") from error


def _add(container: Any, key: str, value: Any, context: str) -> None:
    if isinstance(container, dict):
        container[key] = value
        return
    if key == "-":
        container.append(value)
        return
    index = _number(key)
    if index is None:
        raise _Fails(
            f"{context}: value was not a proper array index: '{key}': {_not_a_number(key)}"
        )
    size = len(container) + 1
    if not -size <= index < size:
        raise _Fails(f"{context}: {_bad_index(index)}")
    container.insert(index + size if index < 0 else index, value)


def _remove(container: Any, key: str, context: str) -> None:
    try:
        if isinstance(container, list):
            del container[_index(container, key)]
        elif key in container:
            del container[key]
        else:
            raise _Fails(f"Unable to remove nonexistent key: {key}: missing value")
    except _Fails as error:
        raise _Fails(f"{context}: {error}") from error


def _index(array: list[Any], key: str) -> int:
    """The position that `key` means; negative ones count from the end."""
    index = _number(key)
    if index is None:
        raise _Fails(_not_a_number(key))
    if not -len(array) <= index < len(array):
        raise _Fails(_bad_index(index))
    return index


def _number(key: str) -> int | None:
    return int(key) if _INTEGER.fullmatch(key) and len(key) < 20 else None


def _not_a_number(key: str) -> str:
    return f'strconv.Atoi: parsing "{key}": invalid syntax'


def _bad_index(index: int) -> str:
    return f"Unable to access invalid index: {index}: invalid index referenced"


def _equal(left: Any, right: Any) -> bool:
    """JSON equality; numbers by their text, so that 1 is not 1.0."""
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(_equal(value, right[name]) for name, value in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, Number | int | float) and not isinstance(left, bool):
        return (
            isinstance(right, int | float)
            and not isinstance(right, bool)
            and repr(left) == repr(right)
        )
    return type(left) is type(right) and bool(left == right)
