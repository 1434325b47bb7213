"""What of a policy has no effect beside the rest of it: each is said to whoever writes it.

Nothing of it is wrong, and it counts once the rest is changed; but nobody would find out by
waiting. Next step: `fleet.gateway.policy_warnings` puts it beside the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cluster import ClusterSpec
from policies.placement_policy import PlacementPolicySpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.base import Model


def moot(spec: Model) -> Iterator[str]:
    """A sentence for each field of `spec` that has no effect."""
    if isinstance(spec, PlacementPolicySpec):
        yield from _placement_policy(spec)
    elif isinstance(spec, ClusterSpec):
        yield from _cluster(spec)


def _placement_policy(spec: PlacementPolicySpec) -> Iterator[str]:
    if spec.mode == "One":
        for name, alias in (("max_clusters", "maxClusters"), ("index_mode", "indexMode")):
            if _written(spec.gang, name):
                yield f"spec.gang.{alias}: has no effect while spec.mode is One"
    if spec.clusters.return_after is not None and len(spec.clusters.tiers) < 2:
        yield (
            "spec.clusters.returnAfter: has no effect while spec.clusters.tiers has no earlier "
            "tier to go back to"
        )
    if spec.objective.max_price is None and _written(spec.objective, "when_too_dear"):
        yield "spec.objective.whenTooDear: has no effect without spec.objective.maxPrice"


def _cluster(spec: ClusterSpec) -> Iterator[str]:
    for index, taint in enumerate(spec.taints):
        if taint.effect == "NoExecute":
            yield (
                f"spec.taints[{index}].effect: NoExecute keeps work away as NoSchedule does; what "
                "runs there is not ended by it"
            )


def _written(part: Model, name: str) -> bool:
    """Whether it has another value than where nobody writes it."""
    return bool(getattr(part, name) != type(part).model_fields[name].get_default())
