"""How a nomination is written: as one field more of what Kueue's own admission applies.

Kueue clears `nominatedClusterNames` when it sets `clusterName`, by leaving it out of a server-side
apply as `kueue-admission`; CRD rules let the two not stand together. So a field that anybody else
owns would stay and no Workload would ever be admitted (kueue#5782 tells dispatchers to use that
manager). An apply gives up what it leaves out: this one repeats what the manager owns, read off
`managedFields`, at the very revision that was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from adapters.kueue.objects import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Object = dict[str, Any]

FIELD_MANAGER: Final = "kueue-admission"
MOST: Final = 10
"""Names at once: the bound of the older API version, which both hold to (v1beta2 takes 20)."""


def nominating(obj: Object, clusters: Sequence[str]) -> Object:
    """What to apply to the status of the Workload `obj`, as it was just read, managed fields and
    all. Without `clusters` the field goes."""
    metadata = obj["metadata"]
    status = _owned(obj.get("status") or {}, _status_fields(metadata.get("managedFields") or ()))
    status.pop("nominatedClusterNames", None)
    if clusters:
        status["nominatedClusterNames"] = list(clusters)
    names = ("namespace", "name", "uid", "resourceVersion")
    return {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "status": status,
    }


def _status_fields(entries: Sequence[Object]) -> Object:
    for each in entries:
        who = (each.get("manager"), each.get("operation"), each.get("subresource"))
        if who == (FIELD_MANAGER, "Apply", "status") and each.get("apiVersion") == API_VERSION:
            found: Object = (each.get("fieldsV1") or {}).get("f:status") or {}
            return found
    return {}


def _owned(value: Object, fields: Mapping[str, Any]) -> Object:
    """The part of an object that a set of fields names; FieldsV1, KEP-555."""
    found: Object = {}
    for path, below in fields.items():
        name = path.removeprefix("f:")
        if path.startswith("f:") and name in value:
            found[name] = _part(value[name], below)
    return found


def _part(value: Any, fields: Mapping[str, Any]) -> Any:
    if not fields:
        return value
    if isinstance(value, dict):
        return _owned(value, fields)
    if isinstance(value, list):
        return [found for each in value if (found := _item(each, fields)) is not None]
    return value


def _item(item: Any, fields: Mapping[str, Any]) -> Any:
    """An item of a list as far as it is owned, by its keys or its value; None where it is not."""
    for path, below in fields.items():
        if path.startswith("k:") and isinstance(item, dict):
            keys: Object = orjson.loads(path[2:])
            if all(item.get(name) == key for name, key in keys.items()):
                return {**keys, **_owned(item, below)}
        elif path.startswith("v:") and orjson.loads(path[2:]) == item:
            return item
    return None
