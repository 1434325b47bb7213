"""The blocks that were chosen, as a member's own scheduler is told of them: node affinity.

For members without another language for it. A shard's pods get a required term on the label that
names the block; what the user requires of nodes stays required beside it. A member that has no
block label is told nothing, and its totals are all that counts. `placement` chose the blocks, the
shard's template is made in `fleet.dispatch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def on_blocks(pod_spec: Object, *, label: str, blocks: Iterable[str]) -> Object:
    """The pod spec with its nodes bound to some blocks; the one given is not changed.

    Terms of node affinity are alternatives, so the requirement goes into each of them. Saying the
    same twice changes nothing. Without a label, or without blocks that have a name, it is the pod
    spec as it was: nodes without the label are in the block "", which no affinity could ask for
    together with named ones.
    """
    names = sorted(set(blocks))
    if not label or not names or "" in names:
        return pod_spec
    wanted: Object = {"key": label, "operator": "In", "values": names}
    affinity: Object = pod_spec.get("affinity") or {}
    node_affinity: Object = affinity.get("nodeAffinity") or {}
    required: Object | None = node_affinity.get(_REQUIRED)
    if required is None:
        terms: list[Object] = [{"matchExpressions": [wanted]}]
    else:
        terms = [_within(term, wanted) for term in required.get("nodeSelectorTerms") or ()]
    bound = {**(required or {}), "nodeSelectorTerms": terms}
    return {
        **pod_spec,
        "affinity": {**affinity, "nodeAffinity": {**node_affinity, _REQUIRED: bound}},
    }


def _within(term: Object, wanted: Object) -> Object:
    """A term that asks for the blocks as well; one that matches nothing stays so."""
    expressions: list[Object] = list(term.get("matchExpressions") or ())
    if not expressions and not term.get("matchFields"):
        return term
    if wanted in expressions:
        return term
    return {**term, "matchExpressions": [*expressions, wanted]}
