"""The three patch types of Kubernetes, as pure functions on JSON values.

`apply_patch` is the one entry: it picks the mechanism by content type and makes of the outcome an
object as an API server would hold it. `json_patch` is RFC 6902, `merge_patch` RFC 7386,
`strategic` the merge that knows lists by key.

Invariant: inputs are never changed, and merge keys come from `x-kubernetes-patch-*` alone.
Server-side apply lives elsewhere. The caller stores the outcome after `fleet.kube.defaults`.
"""

from __future__ import annotations

from fleet.kube.patch.json_patch import MAX_OPERATIONS, apply_json_patch
from fleet.kube.patch.merge_patch import apply_merge_patch
from fleet.kube.patch.strategic import apply_strategic_merge_patch
from fleet.kube.patch.types import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    accepted_types,
    apply_patch,
)

__all__ = [
    "JSON_PATCH",
    "MAX_OPERATIONS",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "accepted_types",
    "apply_json_patch",
    "apply_merge_patch",
    "apply_patch",
    "apply_strategic_merge_patch",
]
