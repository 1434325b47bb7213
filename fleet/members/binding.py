"""What joining leaves in a member: the binding that lets the fleet's administrators act there.

Callers cross by impersonation and the member decides what they may do; until it binds them, they
may do nothing. The fleet's own administrators, `fleet:admins`, are bound to cluster-admin by one
ClusterRoleBinding that says where it came from. Leaving does not remove it: that is the
administrator's of the member to decide, and the name says whose it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from fleet.errors import ApiError, JoinError, TransportError
from fleet.kube.wire import Request
from fleet.members import calls

if TYPE_CHECKING:
    from fleet.kube.wire import Handler

ADMINS = "fleet:admins"
_PATH = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_TIMEOUT_S = 10.0
_BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {
        "name": ADMINS,
        "labels": {"app.kubernetes.io/managed-by": "fleet"},
    },
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "cluster-admin",
    },
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": ADMINS}],
}


async def bind_admins(name: str, handler: Handler) -> None:
    """Bind the fleet's administrators in member `name`; a binding that is there stays as it is.

    Raises JoinError when the credentials may not do it.
    """
    request = Request(
        "POST",
        _PATH,
        headers={"content-type": "application/json", "accept": "application/json"},
        body=orjson.dumps(_BINDING),
    )
    try:
        answer = await calls.answer(handler, request, timeout_s=_TIMEOUT_S)
        await answer.aclose()
    except ApiError as error:
        if error.http_code == 409:
            return
        raise JoinError(
            f"{name} does not let these credentials bind the fleet's administrators "
            f"(ClusterRoleBinding {ADMINS}): {error}\n  Join with the kubeconfig of an "
            "administrator; nothing was changed"
        ) from error
    except TransportError as error:
        raise JoinError(f"{name} broke off while it was joined: {error}; try again") from error
