"""Rights that the fleet needs in a member: whom it binds there, and to what.

Callers cross by impersonation and the member decides what they may do; until it binds them, they
may do nothing. Joining binds the fleet's own administrators, `fleet:admins`, to cluster-admin, and
leaves the ClusterRole `fleet:dispatcher`. In each namespace that takes the fleet's work a
RoleBinding gives that role to one user, `fleet:dispatcher:NAMESPACE`: under this name the fleet
acts on its workloads there, and in no other namespace. Next step: `fleet.dispatch.rights` makes the
RoleBinding. Leaving removes none of it: that is the administrator's of the member to decide, and
the names say whose it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from fleet.errors import ApiError, JoinError, TransportError
from fleet.kube.paths import path_of
from fleet.kube.resources import GroupVersionResource
from fleet.kube.wire import Request
from fleet.members import calls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.kube.wire import Handler

Object = dict[str, Any]

ADMINS: Final = "fleet:admins"
DISPATCHER: Final = "fleet:dispatcher"
"""The ClusterRole, and each namespace's RoleBinding; before a colon, the users that have it."""

BOUND_ANNOTATION: Final = "fleet.dev/dispatcher"
"""On a namespace that was given its RoleBinding, with the value `bound`."""

GROUP: Final = "rbac.authorization.k8s.io"
CLUSTER_ROLES: Final = GroupVersionResource(GROUP, "v1", "clusterroles")
CLUSTER_ROLE_BINDINGS: Final = GroupVersionResource(GROUP, "v1", "clusterrolebindings")
ROLE_BINDINGS: Final = GroupVersionResource(GROUP, "v1", "rolebindings")

_TIMEOUT_S = 10.0
_MANAGED: Final = {"app.kubernetes.io/managed-by": "fleet"}


def _rule(group: str, resources: str, verbs: str) -> Object:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


RULES: Final = (
    # shards
    _rule("batch", "jobs", "get list watch create update patch delete"),
    _rule("", "pods", "get list watch create update patch delete"),
    # where owners of what may block a deletion are checked (OwnerReferencesPermissionEnforcement)
    _rule("batch", "jobs/finalizers", "update"),
    _rule("", "pods/finalizers", "update"),
    # what goes with them
    _rule("", "configmaps", "get create update delete"),
    _rule("", "secrets serviceaccounts", "get create update"),
    _rule("", "services", "get create update"),
    _rule("discovery.k8s.io", "endpointslices", "get list create update delete"),
    _rule("networking.k8s.io", "networkpolicies", "get create update"),
    # what callers do with pods of the fleet's workloads
    _rule("", "pods/log", "get"),
    _rule("", "pods/exec pods/attach pods/portforward", "get create"),
    _rule("", "pods/proxy", "get create update patch delete"),
    _rule("", "pods/eviction", "create"),
    _rule("", "pods/ephemeralcontainers pods/resize", "get update patch"),
    _rule("", "pods/status", "get update patch"),
    # what happened to them, and what they use
    _rule("", "events", "get list watch update patch delete"),
    _rule("events.k8s.io", "events", "get list watch update patch delete"),
    _rule("metrics.k8s.io", "pods", "get list"),
)
"""All that dispatch, and callers through it, do in a namespace; and no more."""


def dispatcher_of(namespace: str) -> str:
    """The user as whom the fleet acts on its workloads in a member's namespace."""
    return f"{DISPATCHER}:{namespace}"


def dispatcher_role() -> Object:
    """The ClusterRole of every dispatcher."""
    return {
        "apiVersion": CLUSTER_ROLES.group_version,
        "kind": "ClusterRole",
        "metadata": {"name": DISPATCHER, "labels": _MANAGED},
        "rules": list(RULES),
    }


def dispatcher_binding(namespace: str) -> Object:
    """The RoleBinding of a namespace's dispatcher."""
    return {
        "apiVersion": ROLE_BINDINGS.group_version,
        "kind": "RoleBinding",
        "metadata": {"name": DISPATCHER, "namespace": namespace, "labels": _MANAGED},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": DISPATCHER},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": dispatcher_of(namespace)}],
    }


def is_bound(namespace: Mapping[str, Any] | None) -> bool:
    """Whether a namespace, as its member has it, was given the RoleBinding of its dispatcher."""
    annotations = ((namespace or {}).get("metadata") or {}).get("annotations") or {}
    return annotations.get(BOUND_ANNOTATION) == "bound"


def restoring(namespace: str, cluster: str) -> str:
    """What makes a dispatcher's RoleBinding again, as a command at the gateway."""
    return (
        f"kubectl create rolebinding {DISPATCHER} -n {namespace}.{cluster} "
        f"--clusterrole={DISPATCHER}.{cluster} --user={dispatcher_of(namespace)}"
    )


def _admins_binding() -> Object:
    return {
        "apiVersion": CLUSTER_ROLE_BINDINGS.group_version,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ADMINS, "labels": _MANAGED},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": ADMINS}],
    }


async def bind(name: str, handler: Handler) -> None:
    """Leave in member `name` what a join leaves there; what is there already stays as it is.

    Raises JoinError when the credentials may not do it. Whoever may bind to cluster-admin may do
    the rest: that comes first, so that a refusal leaves nothing behind.
    """
    for gvr, wanted in (
        (CLUSTER_ROLE_BINDINGS, _admins_binding()),
        (CLUSTER_ROLES, dispatcher_role()),
    ):
        what = f"{wanted['kind']} {wanted['metadata']['name']}"
        request = Request(
            "POST",
            path_of(gvr),
            headers={"content-type": "application/json", "accept": "application/json"},
            body=orjson.dumps(wanted),
        )
        try:
            answer = await calls.answer(handler, request, timeout_s=_TIMEOUT_S)
            await answer.aclose()
        except ApiError as error:
            if error.http_code == 409:
                continue
            raise JoinError(
                f"{name} does not let these credentials give the fleet its rights ({what}): "
                f"{error}\n  Join with the kubeconfig of an administrator; nothing was changed"
            ) from error
        except TransportError as error:
            raise JoinError(f"{name} broke off while it was joined: {error}; try again") from error
