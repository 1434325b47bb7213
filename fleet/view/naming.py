"""Names in the merged world: whose an object is, told by one coordinate.

A member's namespace `payments` is `payments.east`, a member's cluster-scoped `n1` is `n1.east`;
what carries no member is the fleet's own. The mapping is total and invertible and never depends on
which objects exist: what follows the last dot is the member, if the fleet has one of that name.
The labels and annotations that say the same on the objects themselves are listed here as well;
`fleet.view.projection` writes them.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from fleet.errors import BadRequest, NotFound
from fleet.kube.selectors import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Collection

# -- injected into every projected object, removed from every body
CLUSTER_LABEL = "fleet.dev/cluster"
MEMBER_REVISION_ANNOTATION = "fleet.dev/member-resource-version"
# Only where something had to make room, as JSON: `fleet.view.projection.marks`.
MEMBER_METADATA_ANNOTATION = "fleet.dev/member-metadata"

# -- set by dispatch on the objects of a shard and its pod template; the labels reach PodMetrics
# and EndpointSlices too, which inherit labels but no annotations
WORKLOAD_NAMESPACE_LABEL = "fleet.dev/workload-namespace"
WORKLOAD_UID_LABEL = "fleet.dev/workload-uid"
SHARD_LABEL = "fleet.dev/shard"
# The ownerReference, as JSON, that the fleet's side shows instead of the member's.
OWNER_REFERENCE_ANNOTATION = "fleet.dev/owner-reference"

UNION = "*"
_LISTED = 10


def join(name: str, member: str) -> str:
    """`payments` and `east` to `payments.east`."""
    return f"{name}.{member}"


def split_name(name: str, members: Collection[str]) -> tuple[str, str | None]:
    """A cluster-scoped name as (name in the member, member), or (name, None) for the fleet's own.

    Cluster-scoped names may hold dots (`foos.example.com`), so only the last part counts, and
    only if it is a member's name.
    """
    head, dot, tail = name.rpartition(".")
    return (head, tail) if dot and head and tail in members else (name, None)


def split_namespace(namespace: str, members: Collection[str]) -> tuple[str, str | None]:
    """A namespace as (namespace in the member, member), or (namespace, None) for the fleet's own.

    A real namespace holds no dot, unless the member is itself a fleet; the last dot counts.
    Raises NotFound for a member that the fleet does not have, BadRequest for a union
    (`payments.*`) or a name with an empty side.
    """
    head, dot, tail = namespace.rpartition(".")
    if not dot:
        return namespace, None
    if tail == UNION:
        raise BadRequest(
            f'"{namespace}" is a union of namespaces: it can be listed and watched; '
            f'for anything else name one of them, "{head}" or "{head}.MEMBER"'
        )
    if not head or not tail:
        raise BadRequest(f'invalid namespace "{namespace}": write NAMESPACE or NAMESPACE.MEMBER')
    if tail not in members:
        raise NotFound.of(
            group="",
            resource="namespaces",
            name=namespace,
            hint=f"({_no_such_member(head, tail, members)})",
        )
    return head, tail


def union_of(namespace: str) -> str | None:
    """`payments` for `payments.*`, None for a single namespace.

    Raises BadRequest for a `*` anywhere else.
    """
    if UNION not in namespace:
        return None
    head, _, tail = namespace.rpartition(".")
    if tail != UNION or not head or UNION in head:
        raise BadRequest(
            f'invalid namespace "{namespace}": a union is NAMESPACE.{UNION}, '
            "the namespace of the fleet and those of that name in every member"
        )
    return head


def name_hint(name: str, members: Collection[str]) -> str:
    """What to add to NotFound for a cluster-scoped name whose last part nearly names a member;
    "" when there is nothing to suggest."""
    head, dot, tail = name.rpartition(".")
    if not dot or not head or tail in members or not _close(tail, members):
        return ""
    return f"({_no_such_member(head, tail, members)})"


def label_hint(text: str, members: Collection[str]) -> tuple[str, ...]:
    """Warnings of a label selector that names clusters which are no members, so that nobody takes
    its empty answer for theirs. None of one that cannot be read: that is for others to say."""
    try:
        requirements = LabelSelector.parse(text).requirements
    except BadRequest:
        return ()
    named = [
        value
        for each in requirements
        if each.key == CLUSTER_LABEL and each.operator in ("=", "==", "in")
        for value in each.values
    ]
    unknown = sorted(value for value in named if value and value not in members)
    return tuple(f"{CLUSTER_LABEL}: {_no_such_member('', each, members)}" for each in unknown)


def _close(member: str, members: Collection[str]) -> list[str]:
    return sorted(get_close_matches(member, list(members), n=2))


def _no_such_member(head: str, tail: str, members: Collection[str]) -> str:
    if not members:
        return f'no member "{tail}": the fleet has none yet, see fleet join'
    if close := _close(tail, members):
        meant = " or ".join(f'"{join(head, member) if head else member}"' for member in close)
        return f'no member "{tail}"; did you mean {meant}?'
    listed = sorted(members)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return f'no member "{tail}"; members: {", ".join(listed[:_LISTED])}{more}'
