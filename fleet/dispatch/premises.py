"""What a member must have before a shard can stand in it: a namespace that takes the fleet's work
and lets its dispatcher act, global indexes, a priority that does not preempt.

The fleet dispatches only into namespaces it made itself or that say `fleet.dev/accept: "true"`.
All this is seen to with the credentials that the member joined with, shards are not.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from fleet.dispatch import ranks, rights, shape
from fleet.dispatch.marks import (
    ACCEPT_LABEL,
    FLEET_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
)
from fleet.dispatch.sight import Refused, moment
from fleet.dispatch.walls import NETWORK_POLICIES
from fleet.errors import ApiError
from fleet.kube.resources import GroupVersionResource
from fleet.members.binding import DISPATCHER, ROLE_BINDINGS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from fleet.dispatch.remote import Remote
    from fleet.dispatch.shape import Workload

Object = dict[str, Any]

NAMESPACES: Final = GroupVersionResource("", "v1", "namespaces")
PODS: Final = GroupVersionResource("", "v1", "pods")
PRIORITY_CLASSES: Final = GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses")
_PROBE_EVERY_S: Final = 0.2
_PROBES: Final = 25
_SETTLES_S: Final = 10.0
"""How long a member may take to go by what was just made there: its API servers hear of classes,
bindings and policies by watches of their own, and a controller furnishes a new namespace."""


class Offers(Protocol):
    """What members serve."""

    def serves(self, cluster: str, gvr: GroupVersionResource) -> bool: ...


class Premises:
    def __init__(
        self,
        *,
        fleet: str,
        offers: Offers,
        priority_of: Callable[[str], int | None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`priority_of` gives the value of a PriorityClass of the fleet, None without one."""
        self._fleet = fleet
        self._offers = offers
        self._priority_of = priority_of
        self._sleep = sleep

    # -- namespaces

    async def namespace(self, remote: Remote, cluster: str, name: str) -> Refused | None:
        """See that the namespace is there, takes the fleet's work and lets its dispatcher act."""
        present = await remote.get(NAMESPACES, "", name)
        if present is None:
            present = await remote.create(NAMESPACES, "", self._namespace(name))
        refused = not_accepted(cluster, present)
        if refused is not None or not self._offers.serves(cluster, ROLE_BINDINGS):
            return refused
        return await rights.let_in(remote, cluster, present, sleep=self._sleep)

    def _namespace(self, name: str) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": {ACCEPT_LABEL: "true", MANAGED_BY_LABEL: MANAGED_BY},
                "annotations": {FLEET_ANNOTATION: self._fleet},
            },
        }

    # -- ranks

    async def numbers_globally(
        self, remote: Remote, cluster: str, namespace: str
    ) -> tuple[bool, str]:
        """Whether pods of shards get global indexes there, and why not.

        Where the member has the API for it, the policy is put there and waited for.
        """
        version = self._policy_version(cluster)
        if version is not None:
            await self._install(remote, version)
        why = ""
        for attempt in range(_PROBES if version is not None else 1):
            if attempt:
                await self._sleep(_PROBE_EVERY_S)
            try:
                pod = await remote.joined.create(PODS, namespace, ranks.probe(), dry_run=True)
            except ApiError as error:
                # A namespace that was just made refuses pods until it has its ServiceAccount.
                why = f"refuses a pod to ask with: {error}"
                continue
            if ranks.numbers_globally(pod):
                return True, ""
            why = (
                "does not number pods over all shards: it has no MutatingAdmissionPolicy"
                if version is None
                else f"has the policy {ranks.NAME}, and it does not work there"
            )
        return False, why

    def _policy_version(self, cluster: str) -> str | None:
        for version in ranks.VERSIONS:
            gvr = GroupVersionResource(ranks.GROUP, version, ranks.POLICIES)
            if self._offers.serves(cluster, gvr):
                return version
        return None

    async def _install(self, remote: Remote, version: str) -> None:
        for resource, wanted in (
            (ranks.POLICIES, ranks.policy(version)),
            (ranks.BINDINGS, ranks.binding(version)),
        ):
            gvr = GroupVersionResource(ranks.GROUP, version, resource)
            present = await remote.get(gvr, "", wanted["metadata"]["name"])
            if present is None:
                try:
                    await remote.create(gvr, "", wanted)
                except ApiError as error:
                    if error.http_code != 409:  # another dispatch was first
                        raise
            elif not _has(present["spec"], wanted["spec"]):
                await remote.update(gvr, {**present, "spec": wanted["spec"]})

    # -- walls

    def walls(self, cluster: str) -> Refused | None:
        """Why work cannot be kept apart on the member's network, None where it can."""
        if self._offers.serves(cluster, NETWORK_POLICIES):
            return None
        message = "serves no NetworkPolicy, by which a LendingPolicy wants this kept apart there"
        return Refused("NoNetworkPolicy", message)

    # -- priority

    async def hold_class(
        self, remote: Remote, cluster: str, workload: Workload
    ) -> tuple[str, Refused | None]:
        """The class of the shard's pods, "" where the member knows no priorities."""
        if not self._offers.serves(cluster, PRIORITY_CLASSES):
            return "", None
        name = shape.hold_class(workload)
        users = workload.pod_spec.get("priorityClassName")
        value = self._priority_of(users) if users else 0
        if value is None:
            return "", Refused("NoPriorityClass", f"the fleet has no PriorityClass {users}")
        labels = {MANAGED_BY_LABEL: MANAGED_BY}
        metadata = {"labels": labels, "annotations": {FLEET_ANNOTATION: self._fleet}}
        wanted = shape.priority_class(name, value=value, metadata=metadata)
        present = await remote.get(PRIORITY_CLASSES, "", name)
        if present is not None and not _same_class(present, wanted):
            if (present["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) != MANAGED_BY:
                message = f"has a PriorityClass {name} of its own that is another one"
                return "", Refused("NameTaken", message)
            uid = present["metadata"]["uid"]
            await remote.delete(PRIORITY_CLASSES, "", name, uid=uid, propagation="Background")
            present = None
        if present is None:
            try:
                await remote.create(PRIORITY_CLASSES, "", wanted)
            except ApiError as error:
                if error.http_code != 409:
                    raise
        return name, None

    async def lacks(self, remote: Remote, name: str) -> bool:
        """Whether a class that `hold_class` gave is gone again."""
        return bool(name) and await remote.get(PRIORITY_CLASSES, "", name) is None

    # -- what takes a moment

    async def settle(self, remote: Remote, cluster: str, workload: Workload) -> bool:
        """Whether something that a shard needs there was made a moment ago, so that a refusal may
        be over with the next try. Upstream's controllers meet the same, and try again."""
        needed = [
            (NAMESPACES, "", workload.namespace),
            (ROLE_BINDINGS, workload.namespace, DISPATCHER),
            (PRIORITY_CLASSES, "", shape.hold_class(workload)),
        ]
        version = self._policy_version(cluster)
        if workload.indexed and version is not None:
            bindings = GroupVersionResource(ranks.GROUP, version, ranks.BINDINGS)
            needed.append((bindings, "", ranks.NAME))
        for gvr, namespace, name in needed:
            if self._offers.serves(cluster, gvr):
                present = await remote.joined.get(gvr, namespace, name)
                made = moment(present["metadata"].get("creationTimestamp")) if present else None
                if made is not None and remote.clock - made < _SETTLES_S:
                    return True
        return False


def not_accepted(cluster: str, namespace: Mapping[str, Any]) -> Refused | None:
    """Why the fleet may not work in a member's namespace, None where it may."""
    metadata = namespace["metadata"]
    name = metadata["name"]
    if metadata.get("deletionTimestamp"):
        return Refused("NamespaceEnds", f"its namespace {name} is being deleted")
    if (metadata.get("labels") or {}).get(ACCEPT_LABEL) == "true":
        return None
    return Refused(
        "NotAccepted",
        f"its namespace {name} does not take the fleet's work; to let it in: "
        f'kubectl label namespace {name}.{cluster} {ACCEPT_LABEL}="true"',
    )


def _same_class(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(present.get(field) == wanted[field] for field in ("value", "preemptionPolicy"))


def _has(present: Any, wanted: Any) -> bool:
    """Whether everything wanted is there; a server adds defaults."""
    if isinstance(wanted, dict):
        return isinstance(present, dict) and all(
            _has(present.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(present, list)
            and len(present) == len(wanted)
            and all(map(_has, present, wanted))
        )
    return bool(present == wanted)
