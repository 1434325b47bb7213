"""Whether the fleet may act in a member's namespace: the rights of that namespace's dispatcher.

A namespace that takes the fleet's work gets a RoleBinding for its dispatcher once, made with the
credentials the member joined with; an annotation on the namespace says that it was. A binding that
is missing after that was taken away by somebody, and the fleet does not give itself rights that
were taken from it: the member is refused, with the way to let the fleet in again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.marks import ACCEPT_LABEL
from fleet.dispatch.sight import Refused
from fleet.errors import ApiError
from fleet.kube.resources import GroupVersionResource
from fleet.members.binding import (
    BOUND_ANNOTATION,
    CLUSTER_ROLES,
    DISPATCHER,
    ROLE_BINDINGS,
    RULES,
    dispatcher_binding,
    dispatcher_of,
    dispatcher_role,
    is_bound,
    restoring,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from fleet.dispatch.remote import Remote

Object = dict[str, Any]

_AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
_NAMESPACES: Final = GroupVersionResource("", "v1", "namespaces")
_REVIEWS: Final = GroupVersionResource("authorization.k8s.io", "v1", "subjectaccessreviews")
_ASK_EVERY_S: Final = 0.2
_ASKED: Final = 25


async def let_in(
    remote: Remote,
    cluster: str,
    namespace: Mapping[str, Any],
    *,
    sleep: Callable[[float], Awaitable[None]],
) -> Refused | None:
    """See that the dispatcher of a namespace, as the member has it, may act there; returns why it
    may not. Raises ApiError and TransportError."""
    metadata = namespace["metadata"]
    name = metadata["name"]
    bound = is_bound(namespace)
    joined = remote.joined
    changed = await _keep_role(joined)
    if await joined.get(ROLE_BINDINGS, name, DISPATCHER) is None:
        if bound:
            return taken_away(cluster, name)
        await _make(joined, ROLE_BINDINGS, name, dispatcher_binding(name))
        changed = True
    if not bound:
        marks = {"metadata": {"annotations": {BOUND_ANNOTATION: "bound"}}}
        await joined.merge(_NAMESPACES, "", name, marks, uid=metadata["uid"], revision="")
    return await _in_effect(joined, cluster, name, sleep=sleep) if changed else None


def taken_away(cluster: str, name: str, *, how: str = "was removed") -> Refused:
    """Why a dispatcher may not act in a namespace that it was bound in, and what to do."""
    return Refused(
        "NotBound",
        f"its RoleBinding {DISPATCHER} in namespace {name}, by which the fleet acts there, {how}; "
        f"to let the fleet in again: {restoring(name, cluster)}; "
        f"to keep it out: kubectl label namespace {name}.{cluster} {ACCEPT_LABEL}-",
    )


async def _keep_role(joined: Remote) -> bool:
    """See that the ClusterRole has every rule that is needed; whether anything was changed. One
    that says that it is not to be updated, in upstream's words, is its owner's."""
    present = await joined.get(CLUSTER_ROLES, "", DISPATCHER)
    if present is None:
        await _make(joined, CLUSTER_ROLES, "", dispatcher_role())
        return True
    if (present["metadata"].get("annotations") or {}).get(_AUTOUPDATE) == "false":
        return False
    rules = present.get("rules") or []
    missing = [rule for rule in RULES if rule not in rules]
    if missing:
        await joined.update(CLUSTER_ROLES, {**present, "rules": [*rules, *missing]})
    return bool(missing)


async def _make(joined: Remote, gvr: GroupVersionResource, namespace: str, obj: Object) -> None:
    try:
        await joined.create(gvr, namespace, obj)
    except ApiError as error:
        if error.http_code != 409:  # another dispatch was first
            raise


async def _in_effect(
    joined: Remote, cluster: str, name: str, *, sleep: Callable[[float], Awaitable[None]]
) -> Refused | None:
    """Wait until the member goes by what was changed: it takes a moment to hear of it."""
    why = ""
    questions = list(_questions(name))
    for attempt in range(_ASKED):
        if attempt:
            await sleep(_ASK_EVERY_S)
        while questions:
            answer = await joined.create(_REVIEWS, "", questions[0])
            status = answer.get("status") or {}
            if not status.get("allowed"):
                asked = questions[0]["spec"]["resourceAttributes"]
                why = (
                    f"{asked['verb']} {asked['resource']}: {status.get('reason') or 'not allowed'}"
                )
                break
            del questions[0]
        else:
            return None
    return Refused(
        "NotBound",
        f"its RoleBinding {DISPATCHER} in namespace {name} is there, and {dispatcher_of(name)} may "
        f"not act by it ({why}); see to ClusterRole {DISPATCHER} in {cluster}",
    )


def _questions(namespace: str) -> Iterator[Object]:
    """One for each rule."""
    for rule in RULES:
        resource, _, subresource = rule["resources"][0].partition("/")
        yield {
            "apiVersion": _REVIEWS.group_version,
            "kind": "SubjectAccessReview",
            "spec": {
                "user": dispatcher_of(namespace),
                "groups": ["system:authenticated"],
                "resourceAttributes": {
                    "namespace": namespace,
                    "verb": rule["verbs"][-1],
                    "group": rule["apiGroups"][0],
                    "resource": resource,
                    "subresource": subresource,
                },
            },
        }
