"""Members that are reached by their own API server, through a kubeconfig.

What lives here: reading kubeconfigs, making credentials of them, and an HTTP transport that
answers `fleet.kube.wire` requests. Invariant: nothing here knows what it transports. Next step:
`fleet.members`, which is given `connect`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.kubernetes.credentials import utc_now
from adapters.kubernetes.kubeconfig import Kubeconfig, flatten, load
from adapters.kubernetes.transport import KubernetesTransport, Timeouts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

__all__ = ["Kubeconfig", "KubernetesTransport", "Timeouts", "connect", "flatten", "load"]


def connect(
    kubeconfig: Kubeconfig | bytes | Path | Sequence[Path],
    *,
    context: str | None = None,
    allow_exec: bool = True,
    timeouts: Timeouts | None = None,
    now: Callable[[], datetime] = utc_now,
) -> KubernetesTransport:
    """A transport to the cluster of `kubeconfig` (see `load`); nothing is dialled yet.

    Call it inside a running event loop; `aclose` the transport when done. Raises ConfigError.
    """
    if not isinstance(kubeconfig, Kubeconfig):
        kubeconfig = load(kubeconfig, context=context, allow_exec=allow_exec)
    return KubernetesTransport(kubeconfig, timeouts=timeouts, now=now)
