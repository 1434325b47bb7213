"""Names and marks of what dispatch puts into members.

Names are a function of the workload, the generation of its plan and the cluster, so that a write
that is repeated, or comes late, meets the object it means or none. Labels of shards that the view
reads as well are in `fleet.view.naming`.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

FINALIZER: Final = "fleet.dev/dispatch"
ACCEPT_LABEL: Final = "fleet.dev/accept"
GENERATION_LABEL: Final = "fleet.dev/generation"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "fleet"
FLEET_ANNOTATION: Final = "fleet.dev/fleet"
"""On everything dispatch makes: the UID of the fleet that made it."""
COPY_ANNOTATION: Final = "fleet.dev/copy-of"
"""On a carried copy: the UID of the fleet's object."""
INDEX_OFFSET_ANNOTATION: Final = "fleet.dev/index-offset"
GLOBAL_INDEX_ANNOTATION: Final = "fleet.dev/global-index"
HOST_NAME_ANNOTATION: Final = "fleet.dev/host-name"
COMPLETION_INDEX_ANNOTATION: Final = "batch.kubernetes.io/job-completion-index"

# An Indexed Job's pods are `NAME-INDEX-xxxxx` and their host names `NAME-INDEX`, a DNS label.
SHARD_NAME_LIMIT: Final = 50
_DIGEST: Final = 8
_NO_LABEL: Final = re.compile(r"[^a-z0-9-]")


def shard_name(workload: str, *, generation: int, cluster: str) -> str:
    """`train-g1-east`: the name of a shard's Job; a DNS label of at most 50 characters.

    Two workloads of a namespace never share one: what had to be shortened or replaced carries a
    digest of the whole.
    """
    ending = f"-g{generation}-{cluster}"
    plain = _NO_LABEL.sub("-", workload)
    if plain == workload and len(plain) + len(ending) <= SHARD_NAME_LIMIT:
        return plain + ending
    digest = sha256(f"{workload}{ending}".encode()).hexdigest()[:_DIGEST]
    room = SHARD_NAME_LIMIT - len(ending) - _DIGEST - 1
    return f"{plain[: max(room, 1)].rstrip('-') or 'x'}-{digest}{ending}"


def gate_name(shard: str) -> str:
    """The ConfigMap that lets a shard's pods start."""
    return f"{shard}-gate"


def slice_name(shard: str) -> str:
    """The EndpointSlice with the addresses of all ranks, in the shard's member."""
    return f"{shard}-ranks"


def is_pod_of(shard: str, name: str) -> bool:
    """Whether a Job controller gives this name to pods of the shard's Job."""
    rest = name.removeprefix(shard + "-")
    return rest != name and re.fullmatch(r"(\d+-)?[a-z0-9]{5}", rest) is not None
