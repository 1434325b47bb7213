"""Who a caller is inside a member.

Callers reach a member by impersonation, under a prefix, so that nobody becomes somebody there by
having a name: user `jane` crosses as `fleet:jane`, group `dev` as `fleet:dev`. Of the groups that
begin `system:` only `system:authenticated` crosses – `system:masters` or a ServiceAccount of the
same name would be the member's own. The gateway's administrator, known by a certificate of the
fleet's own authority, is `fleet:admin` in `fleet:admins`, which joining binds to cluster-admin.

With parts of fleet workloads the fleet's own rules decide, so there the gateway acts, as it does
when it dispatches: as the dispatcher of the namespace, with the caller's name in the user's extra
fields, where the member's audit log shows it. Nobody crosses under a dispatcher's name.

Next step: requests to a member carry `headers` of the crossed caller.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fleet.errors import Forbidden
from fleet.members.binding import dispatcher_of

if TYPE_CHECKING:
    from fleet.kube.wire import UserInfo

PREFIX = "fleet:"
AUTHENTICATED = "system:authenticated"
CALLER = "fleet.dev/caller"
"""The extra field of a dispatcher that names on whose behalf it acts."""
_EXTRA = "impersonate-extra-" + CALLER.replace("/", "%2f")


def crossed(user: UserInfo) -> UserInfo:
    """The identity under which `user` acts in a member.

    Only authentication by the fleet's own authority may give a name or group that begins
    `fleet:`; such a one crosses as it is.
    """
    groups = [group for group in map(_group, user.groups) if group]
    return replace(
        user,
        name=_prefixed(user.name),
        groups=tuple(dict.fromkeys((*groups, AUTHENTICATED))),
        uid="",
        extra={},
    )


def headers(user: UserInfo) -> dict[str, str]:
    """Impersonate headers for a request on behalf of `user`; groups, one a line (see
    `adapters.kubernetes.headers`). Raises Forbidden for a name with control characters: a line
    break would make two groups of one; and for one that would be a dispatcher's."""
    there = crossed(user)
    if not all(name.isprintable() for name in (there.name, *there.groups)):
        raise Forbidden(f"{user.name!r} or one of its groups holds control characters")
    if there.name.startswith(dispatcher_of("")):
        raise Forbidden(
            f"{user.name!r} cannot act in members: {there.name} is a name of the fleet itself there"
        )
    return {"impersonate-user": there.name, "impersonate-group": "\n".join(there.groups)}


def as_dispatcher(namespace: str, user: UserInfo) -> dict[str, str]:
    """Impersonate headers for what `user` asks of a part of a fleet workload in `namespace`.

    Raises Forbidden for a name with control characters.
    """
    if not user.name.isprintable():
        raise Forbidden(f"{user.name!r} holds control characters")
    return {"impersonate-user": dispatcher_of(namespace), _EXTRA: user.name}


def _prefixed(name: str) -> str:
    return name if name.startswith(PREFIX) else PREFIX + name


def _group(group: str) -> str:
    if group.startswith("system:"):
        return AUTHENTICATED if group == AUTHENTICATED else ""
    return _prefixed(group)
