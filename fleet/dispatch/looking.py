"""Looking: what stands in the members of one workload's shards, and of what is owed.

Asked of the members directly, not of caches: a commit rests on it. All members at once, each with
its own deadline; one that does not answer gives a sight that says so.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from fleet.dispatch.amiss import STARTS_S
from fleet.dispatch.leases import Leases, ShardKey
from fleet.dispatch.remote import NotBound
from fleet.dispatch.rights import taken_away
from fleet.dispatch.sight import PodView, Sight, is_ours, pod_view
from fleet.errors import ApiError, TransportError
from fleet.kube.resources import GroupVersionResource
from fleet.view.naming import SHARD_LABEL, WORKLOAD_UID_LABEL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fleet.dispatch.record import Debt, Record, Shard
    from fleet.dispatch.remote import Remote
    from fleet.dispatch.shape import Workload

Object = dict[str, Any]

PODS: Final = GroupVersionResource("", "v1", "pods")
EVENTS: Final = GroupVersionResource("", "v1", "events")
_OF_A_LEASE: Final = 0.2


class Departures(Protocol):
    """What is remembered of shards' objects that were seen to go."""

    def went_unfinished(self, key: ShardKey) -> bool:
        """Whether it was seen to be deleted before it had finished."""

    def disturbed(self, uid: str) -> bool:
        """Whether a pod of the workload was seen to be taken away a moment ago."""


class Seen(NamedTuple):
    """Sights of shards by cluster, and of debts by cluster and name."""

    shards: dict[str, Sight]
    debts: dict[tuple[str, str], Sight]
    disturbed: bool = False

    @property
    def folded(self) -> dict[str, Sight]:
        """The sights that make the workload's status, by cluster: of shards, and of what is leaving
        a cluster where it has no shard any more."""
        leaving = {cluster: sight for (cluster, _), sight in self.debts.items()}
        return {**leaving, **self.shards}


class Looker:
    def __init__(
        self,
        remote: Callable[[str], Remote | None],
        *,
        fleet: str,
        leases: Leases,
        departures: Departures,
        silent: Callable[[str], str],
        answer_s: float = 4.0,
    ) -> None:
        """`remote` gives the API of a member, None for a name that is no member's; `silent` says
        why a member is known not to answer, "" otherwise. A look takes at most `answer_s`, and no
        more than a part of the workload's lease: the other shards' renewals wait for it."""
        self._remote = remote
        self._fleet = fleet
        self._leases = leases
        self._departures = departures
        self._silent = silent
        self._answer_s = answer_s

    async def look(self, workload: Workload, record: Record) -> Seen:
        """Every shard and every debt of the record, as they are now."""
        async with asyncio.TaskGroup() as group:
            shards = {
                shard.cluster: group.create_task(
                    self._shard(workload, record, shard), name=f"look at {shard.cluster}"
                )
                for shard in record.shards
                if shard.state != "Lost"
            }
            debts = {
                (debt.cluster, debt.shard): group.create_task(
                    self._debt(workload, record, debt), name=f"look at {debt.cluster}"
                )
                for debt in record.owed
            }
        return Seen(
            {cluster: self._as_of_now(task.result()) for cluster, task in shards.items()},
            {key: task.result() for key, task in debts.items()},
            # Asked last: it may have been taken away during the look.
            disturbed=self._departures.disturbed(workload.uid),
        )

    def _as_of_now(self, sight: Sight) -> Sight:
        """With the member's time at the end of the look: it may have waited long for another one,
        and what is due by then is not to wait for the next."""
        remote = self._remote(sight.cluster) if sight.reached else None
        return sight if remote is None else replace(sight, clock=remote.clock)

    async def _within(self, looking: Awaitable[Sight], record: Record, key: ShardKey) -> Sight:
        """What `looking` sees, or that it took too long."""
        within_s = min(self._answer_s, record.lease_s * _OF_A_LEASE)
        try:
            async with asyncio.timeout(within_s):
                return await looking
        except TimeoutError:
            until = self._leases.until(key, lease_s=record.lease_s)
            why = f"no answer within {within_s:g} s"
            return Sight(key.cluster, why=why, leased_until=until)

    async def _shard(self, workload: Workload, record: Record, shard: Shard) -> Sight:
        key = _key(workload, shard.cluster, shard.name(workload.name))
        return await self._within(self._whole(workload, record, shard), record, key)

    async def _whole(self, workload: Workload, record: Record, shard: Shard) -> Sight:
        name = shard.name(workload.name)
        sight, obj = await self._object(workload, record, shard, name)
        if sight.view is None or obj is None or not (shard.live or shard.to_come):
            return sight
        if (pods := workload.kind.pods_in(obj)) is not None:
            return replace(sight, pods=pods)
        remote = self._remote(shard.cluster)
        if remote is None or remote.is_another(sight.uid):  # it left meanwhile
            return Sight(shard.cluster, member=False, leased_until=sight.leased_until)
        try:
            pods = await self._pods(remote, workload, name, offset=shard.first)
            trouble = ""
            if len(pods) < shard.count:
                about = f"uid={sight.view.uid}"
                trouble = await self._trouble(remote, workload.namespace, about)
            if shard.live:
                gate = workload.kind.gate_name(name)
                pods = await self._with_trouble(remote, workload.namespace, pods, gate=gate)
        except (ApiError, TransportError) as error:
            return replace(sight, reached=False, why=str(error))
        return replace(sight, pods=pods, trouble=trouble)

    async def _debt(self, workload: Workload, record: Record, debt: Debt) -> Sight:
        key = _key(workload, debt.cluster, debt.shard)
        return await self._within(self._alone(workload, record, debt), record, key)

    async def _alone(self, workload: Workload, record: Record, debt: Debt) -> Sight:
        sight, _ = await self._object(workload, record, debt, debt.shard)
        return sight

    async def _object(
        self, workload: Workload, record: Record, where: Shard | Debt, name: str
    ) -> tuple[Sight, Object | None]:
        """The shard without its pods, and its object as it is there."""
        cluster = where.cluster
        kind, key = workload.kind, _key(workload, cluster, name)
        remote = self._remote(cluster)
        until = self._leases.until(key, lease_s=record.lease_s)
        if remote is None:
            return Sight(cluster, member=False, leased_until=until), None
        if remote.is_another(where.cluster_uid):
            why = "is the name of another cluster by now, and its own is no member any more"
            return Sight(cluster, member=False, why=why, leased_until=until), None
        if why := self._silent(cluster):
            return Sight(cluster, remote.uid, why=why, leased_until=until), None
        try:
            obj = await remote.get(kind.gvr, workload.namespace, name)
        except NotBound:
            how = "was removed or does not give what is needed"
            gone = taken_away(cluster, workload.namespace, how=how)
            sight = Sight(cluster, remote.uid, why=gone.message, refused=gone, leased_until=until)
            return sight, None
        except (ApiError, TransportError) as error:
            return Sight(cluster, remote.uid, why=str(error), leased_until=until), None
        sight = Sight(cluster, remote.uid, reached=True, clock=remote.clock, leased_until=until)
        if obj is None:
            return replace(sight, unfinished=self._departures.went_unfinished(key)), None
        if not is_ours(obj, fleet=self._fleet, workload_uid=workload.uid, shard=name):
            foreign = f"has a {kind.name} {name} that is not the fleet's"
            return replace(sight, foreign=foreign), None
        sight = replace(sight, view=kind.view(obj))
        self._leases.seen(key, sight.left_s())
        until = self._leases.until(key, lease_s=record.lease_s)
        return replace(sight, leased_until=until), obj

    async def _trouble(self, remote: Remote, namespace: str, about: str, *, but: str = "\0") -> str:
        """The last warning about an object, which is not about `but`; "" where there is none."""
        selector = f"involvedObject.{about},type=Warning"
        events = [
            event
            for event in await remote.list(EVENTS, namespace, fields=selector)
            if but not in str(event.get("message"))
        ]
        latest = max(events, key=lambda event: event.get("lastTimestamp") or "", default={})
        return str(latest.get("message") or "")

    async def _with_trouble(
        self, remote: Remote, namespace: str, pods: tuple[PodView, ...], *, gate: str
    ) -> tuple[PodView, ...]:
        """The pods, the first of those that take long to start with what keeps it from that: while
        a volume is missing, they say no more than that they begin."""
        late = [
            pod
            for pod in pods
            if pod.begins and pod.since is not None and remote.clock - pod.since > STARTS_S
        ]
        first = min(late, key=lambda pod: pod.name, default=None)
        if first is None:
            return pods
        why = await self._trouble(remote, namespace, f"name={first.name}", but=gate)
        told = replace(first, waits=f"{first.waits}: {why}") if why else first
        return tuple(told if pod is first else pod for pod in pods)

    async def _pods(
        self, remote: Remote, workload: Workload, name: str, *, offset: int
    ) -> tuple[PodView, ...]:
        labels = f"{SHARD_LABEL}={name},{WORKLOAD_UID_LABEL}={workload.uid}"
        pods = await remote.list(PODS, workload.namespace, labels=labels)
        return tuple(pod_view(pod, offset=offset) for pod in pods)


def _key(workload: Workload, cluster: str, name: str) -> ShardKey:
    return ShardKey(cluster, workload.kind.name, workload.namespace, name)
