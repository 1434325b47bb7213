"""What placement looks at: every member's free capacity, kept from the merged Pods and Nodes.

The books follow the merged collections, so they cost what changes and not what is there, and they
are as fresh as the members' watches are. Cluster objects, prices, policies and priority classes are
read from the fleet's own store when asked for. `fleet.scheduling` decides over what `clusters`
gives; who asks is the planner of `fleet.dispatch`.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fleet.errors import Invalid
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.clusters import Cluster, cluster_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.kube.resources import Resource
    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.requests import Vector
    from fleet.store.collection import Event
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore
    from fleet.view.world import World

NODES = GroupVersionResource("", "v1", "nodes")
PODS = GroupVersionResource("", "v1", "pods")

Object = dict[str, Any]


class Books:
    """Free capacity by member. `begin` before use; one event loop owns it."""

    def __init__(
        self,
        *,
        world: World,
        store: ObjectStore,
        clusters: Resource,
        clock: Callable[[], float],
    ) -> None:
        """`clusters` is the resource of the Cluster objects; `clock` that of the watches."""
        self._world = world
        self._store = store
        self._clusters = clusters
        self._clock = clock
        self._accounts: dict[str, NodeAccounts] = {}
        self._block_labels: dict[str, str] = {}
        self._clusters_read: dict[str, tuple[Entry, Cluster | None]] = {}
        self._ends: dict[GroupVersionResource, Callable[[], None]] = {}
        self._listeners: list[Callable[[str], None]] = []

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Have `listener` told the member's name when what it has free may have changed."""
        self._listeners.append(listener)

    def begin(self) -> Callable[[], None]:
        """Open the books and follow the changes; returns what ends that."""
        self._open()

        def end() -> None:
            for each in self._ends.values():
                each()
            self._ends.clear()

        return end

    def _open(self) -> None:
        """Follow what is not followed yet: nobody serves Nodes before the first member joins."""
        for gvr, change in ((NODES, self._node), (PODS, self._pod)):
            merged = self._world.merged(gvr) if gvr not in self._ends else None
            if merged is None:
                continue
            ends = ExitStack()
            for collection in (merged.collection, merged.hidden):
                for entry in collection.snapshot().entries():
                    change(entry.member, entry.parse(), deleted=False)
                ends.callback(collection.follow(_follower(change)))
            self._ends[gvr] = ends.close

    def forget(self, member: str) -> None:
        """The member left: nothing is kept of it."""
        self._accounts.pop(member, None)
        self._block_labels.pop(member, None)
        self._clusters_read.pop(member, None)

    def clusters(self) -> list[Cluster]:
        """Every member that has a Cluster object, with what it has free now.

        The capacity of a member whose Nodes or Pods were never seen is None: unknown.
        """
        self._open()
        found = []
        for entry in self._store.collection(self._clusters).snapshot().entries():
            if entry.name not in self._world.members:
                continue
            cluster = self._read(entry)
            if cluster is not None:
                found.append(replace(cluster, capacity=self._capacity(entry.name)))
        return found

    def _read(self, entry: Entry) -> Cluster | None:
        """The member without its capacity, read once for each revision of its object."""
        known = self._clusters_read.get(entry.name)
        if known is not None and known[0] is entry:
            return known[1]
        obj = entry.parse()
        self._divide(entry.name, obj)
        try:
            cluster = cluster_of(obj, None)
        except Invalid:
            cluster = None  # refused at the write; an older form in the store is no one to use
        self._clusters_read[entry.name] = entry, cluster
        return cluster

    def taken_by(self, workload: str) -> dict[str, Mapping[Vector, Mapping[str, int]]]:
        """What the pods of a workload, by its UID, take: by member, see `NodeAccounts.taken_by`."""
        return {
            name: taken
            for name, each in self._accounts.items()
            if (taken := each.taken_by(workload))
        }

    def taken_by_others(self, namespace: str) -> dict[str, dict[tuple[str, str], int]]:
        """What members run in their namespace of that name that the fleet did not put there: by
        member, see `NodeAccounts.taken_by_others`."""
        found = {
            name: each.taken_by_others(f"{namespace}.{name}")
            for name, each in self._accounts.items()
        }
        return {name: taken for name, taken in found.items() if taken}

    def saved_s(self, *, now: float) -> dict[str, float]:
        """By workload, when its last checkpoint was complete, as its pods say in any member."""
        found: dict[str, float] = {}
        for each in self._accounts.values():
            for uid, at in each.saved_s(now=now).items():
                found[uid] = max(at, found.get(uid, at))
        return found

    def others_on(self) -> dict[str, dict[str, set[str]]]:
        """By member and node, the namespaces, as the fleet calls them, that take accelerators there
        which it did not give them."""
        return {
            member: {
                node: {name.removesuffix(f".{member}") for name in names}
                for node, names in each.others_on().items()
            }
            for member, each in self._accounts.items()
        }

    def block_label(self, member: str) -> str:
        """The label of its nodes that names their block, as its accounts are kept; "" for none."""
        return self._block_labels.get(member, "")

    def _divide(self, member: str, cluster: Object) -> None:
        """Keep the member's accounts by the blocks that its Cluster object names."""
        label = ((cluster.get("spec") or {}).get("blocks") or {}).get("nodeLabel") or ""
        if self._block_labels.get(member, "") == label:
            return
        self._block_labels[member] = label
        self._accounts.pop(member, None)
        for gvr, change in ((NODES, self._node), (PODS, self._pod)):
            merged = self._world.running(gvr)
            for collection in (merged.collection, merged.hidden) if merged is not None else ():
                for entry in collection.snapshot().entries():
                    if entry.member == member:
                        change(member, entry.parse(), deleted=False)

    def _capacity(self, member: str) -> Capacity | None:
        seen_s = []
        for gvr in (NODES, PODS):
            merged = self._world.running(gvr)
            source = merged.sources.get(member) if merged is not None else None
            if source is None or not source.watching.synced.is_set():
                return None
            seen_s.append(
                source.watching.last_contact_s if source.watching.failure else self._clock()
            )
        accounts = self._accounts.get(member)
        return None if accounts is None else accounts.capacity(min(seen_s))

    def _node(self, member: str, obj: Object, *, deleted: bool) -> None:
        if self._concerns(member, deleted=deleted):
            accounts = self._of(member)
            accounts.remove_node(obj) if deleted else accounts.upsert_node(obj)
            self._tell(member, accounts)

    def _pod(self, member: str, obj: Object, *, deleted: bool) -> None:
        if self._concerns(member, deleted=deleted):
            accounts = self._of(member)
            accounts.remove_pod(obj) if deleted else accounts.upsert_pod(obj)
            self._tell(member, accounts)

    def _concerns(self, member: str, *, deleted: bool) -> bool:
        """What goes with a member that left opens no account for it again."""
        return bool(member) and (not deleted or member in self._accounts)

    def _tell(self, member: str, accounts: NodeAccounts) -> None:
        if accounts.stale:
            for listener in self._listeners:
                listener(member)

    def _of(self, member: str) -> NodeAccounts:
        found = self._accounts.get(member)
        if found is None:
            label = self._block_labels.get(member, "")
            found = self._accounts[member] = NodeAccounts(block_label=label)
        return found


def _follower(change: Callable[..., None]) -> Callable[[Event], None]:
    def follow(event: Event) -> None:
        change(event.entry.member, event.entry.parse(), deleted=event.deleted)

    return follow
