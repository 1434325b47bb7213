"""Which cluster it is, and what it may be called.

A cluster is its `kube-system` namespace: the UID stays through upgrades, new addresses and new
credentials, and no two clusters share one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fleet.errors import ApiError, JoinError, TransportError
from fleet.members import calls

if TYPE_CHECKING:
    from fleet.kube.wire import Handler

MAX_NAME = 30
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
GATEWAY_MARK = "+fleet-"
"""What stands in the version of a gateway (`fleet.gateway.version`)."""
_CHECK_S = 5.0
_TAKEN = frozenset({"fleet", "fleet-objects"})
"""What the gateway calls itself: in the column CLUSTER, and in contexts."""
_KUBE_SYSTEM = "/api/v1/namespaces/kube-system"


def check_name(name: str) -> None:
    """Raises JoinError unless `name` is a DNS label of at most 30 characters, so that
    `NAMESPACE.MEMBER` has one dot and fits wherever a name may stand."""
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise JoinError(
            f'"{name}" cannot name a member: a name has at most {MAX_NAME} of a-z, 0-9 and "-", '
            "and begins and ends with a letter or digit; choose another with --name"
        )
    if name in _TAKEN:
        raise JoinError(
            f'"{name}" is what the fleet calls its own objects; choose another with --name'
        )


async def cluster_uid(handler: Handler, *, timeout_s: float) -> str:
    """The UID of the cluster. Raises ApiError, TransportError."""
    answer = await calls.get(handler, _KUBE_SYSTEM, timeout_s=timeout_s)
    uid: Any = None
    if isinstance(answer.value, dict):
        uid = (answer.value.get("metadata") or {}).get("uid")
    if not isinstance(uid, str) or not uid:
        raise TransportError(f"{_KUBE_SYSTEM} has no UID: is this a Kubernetes API?")
    return uid


async def gateway_version(handler: Handler) -> str:
    """The version of a fleet's gateway, "" for whatever else answers, or does not."""
    try:
        answer = await calls.get(handler, "/version", timeout_s=_CHECK_S)
    except (ApiError, TransportError):
        return ""
    version = answer.value.get("gitVersion") if isinstance(answer.value, dict) else None
    return version if isinstance(version, str) and GATEWAY_MARK in version else ""
