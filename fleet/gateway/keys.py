"""The labels and annotations under `fleet.dev/` that the fleet knows, and who reads each.

All of them stand here, and a test holds the list against the code; so a key on a workload that is
not among those that are read there is one that nobody reads, and whoever writes it is told so
(`workload_mentions`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from fleet.dispatch import marks
from fleet.dispatch.pods.following import CARRIED_ANNOTATION
from fleet.gateway.extensions import SOURCE_ANNOTATION
from fleet.members.binding import BOUND_ANNOTATION
from fleet.scheduling.cost import months
from fleet.scheduling.lending import isolation
from fleet.scheduling.nodes import ACCELERATOR_LABELS, BILLING_LABEL
from fleet.scheduling.selection import POLICY_LABEL
from fleet.view import naming
from policies.placement import CHECKPOINTED_ANNOTATION, RUN_TIME_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Mapping

DOMAIN: Final = "fleet.dev/"

LABELS: Final = frozenset({POLICY_LABEL})
"""Read on a workload."""
ANNOTATIONS: Final = frozenset({CHECKPOINTED_ANNOTATION, RUN_TIME_ANNOTATION})
"""Read on a workload."""
MADE: Final = frozenset({
    CARRIED_ANNOTATION, isolation.CLASS_LABEL, marks.COPY_ANNOTATION, marks.FLEET_ANNOTATION,
    marks.GENERATION_LABEL, marks.GLOBAL_INDEX_ANNOTATION, marks.HOST_NAME_ANNOTATION,
    marks.INDEX_OFFSET_ANNOTATION, naming.CLUSTER_LABEL, naming.MEMBER_METADATA_ANNOTATION,
    naming.MEMBER_REVISION_ANNOTATION, naming.OWNER_REFERENCE_ANNOTATION, naming.SHARD_LABEL,
    naming.WORKLOAD_NAMESPACE_LABEL, naming.WORKLOAD_UID_LABEL,
})  # fmt: skip
"""Put by the fleet on workloads and their parts; who writes back what was read has them."""
ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType({
    marks.ACCEPT_LABEL: "a label of namespaces in members",
    ACCELERATOR_LABELS[0]: "a label of Nodes",
    BILLING_LABEL: "a label of Nodes",
    BOUND_ANNOTATION: "an annotation of namespaces in members",
    SOURCE_ANNOTATION: "an annotation of PriceBooks",
    months.LABEL: "a label of what a month cost",
    "fleet.dev/isolation": "an annotation of virtual Nodes",
    "fleet.dev/member": "an annotation of MultiKueueClusters",
    "fleet.dev/parameter-plane": "a label of the testbed's Nodes",
    "fleet.dev/provider": "a label of Clusters",
})  # fmt: skip
"""What they are a mark of, where that is no workload."""
