"""What a workload counts for in quotas: amounts by resource and kind of accelerator.

Which kind of accelerator a pod gets is known before it has a place only where it asks for one: by a
node selector or a required node affinity that leaves one value of an accelerator label. A pod that
does not is counted by the line that names no kind, before it is placed and after, so that what is
charged never depends on which node was free. Next step: `standing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.scheduling.nodes import ACCELERATOR_LABELS
from fleet.scheduling.quota.tree import Key
from fleet.scheduling.requests import is_accelerator, pod_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Object = dict[str, Any]


def accelerator_of(pod_spec: Mapping[str, Any]) -> str:
    """The one kind of accelerator that a pod may get, "" where it may get several."""
    labels: Mapping[str, str] = pod_spec.get("nodeSelector") or {}
    if kind := next(filter(None, map(labels.get, ACCELERATOR_LABELS)), ""):
        return kind
    affinity = ((pod_spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    # Any of the terms may be met, all expressions of a term have to be.
    kinds = {_kind_of(term) for term in (affinity or {}).get("nodeSelectorTerms") or ()}
    return kinds.pop() if len(kinds) == 1 else ""


def _kind_of(term: Mapping[str, Any]) -> str:
    for each in term.get("matchExpressions") or ():
        values: Sequence[str] = each.get("values") or ()
        of_kinds = each.get("key") in ACCELERATOR_LABELS and each.get("operator") == "In"
        if of_kinds and len(values) == 1:
            return values[0]
    return ""


def pod_counts(template: Object) -> dict[Key, int]:
    """What one pod counts for. Raises InvalidQuantity."""
    kind = accelerator_of(template.get("spec") or {})
    return {
        Key(name, kind if is_accelerator(name) else ""): amount
        for name, amount in pod_request(template).items()
        if amount
    }


def times(counts: Mapping[Key, int], pods: int) -> dict[Key, int]:
    return {key: amount * pods for key, amount in counts.items() if pods > 0}


def total(parts: Iterable[Mapping[Key, int]]) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for part in parts:
        for key, amount in part.items():
            found[key] = found.get(key, 0) + amount
    return found
