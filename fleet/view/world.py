"""The members of the fleet and the merged resources over them.

A merged resource starts when it is first read and stops when it has been idle; members that join,
leave or change what they serve are brought into every resource that runs, inside open watches.
Pods, Nodes, Namespaces and CRDs are always on: placement and names rest on them. Secrets are never
kept unless somebody watches them.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from fleet.kube import discovery
from fleet.kube.resources import GroupVersionResource
from fleet.kube.revision import Revision
from fleet.view.glimpses import Glimpses
from fleet.view.merged import Merged
from fleet.view.parts import NoShards, Sieve, Sorting, concerns
from fleet.view.projection import Projector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fleet.kube.discovery import Catalogue, Version
    from fleet.kube.resources import Resource
    from fleet.kube.wire import Handler
    from fleet.members.health import Condition, Truth
    from fleet.members.sink import Sink
    from fleet.store.collection import Collection
    from fleet.store.objects import ObjectStore
    from fleet.store.sequencer import Sequencer
    from fleet.view.intake import Intake
    from fleet.view.merged import Watching
    from fleet.view.parts import Shards

log = logging.getLogger(__name__)

ALWAYS_ON = (
    GroupVersionResource("", "v1", "pods"),
    GroupVersionResource("", "v1", "nodes"),
    GroupVersionResource("", "v1", "namespaces"),
    GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
)
READ_THROUGH = frozenset({("", "secrets")})
UNHEARD = "it has not been heard from since the gateway started"
IDLE_S = 600.0
LINGER_S = 5.0  # a watch is read a moment after it was answered
SWEEP_EVERY_S = 15.0


class MemberPort(Protocol):
    """A member, as far as the view is concerned."""

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str:
        """Which cluster it is, whatever its name."""

    @property
    def handler(self) -> Handler:
        """Requests to the member; names as the member has them."""

    @property
    def catalogue(self) -> Catalogue:
        """What it serves; the last known, marked stale, while it is down."""

    @property
    def conditions(self) -> Mapping[Truth, Condition]:
        """What is known of its health."""

    def watch(self, resource: Resource, sink: Sink) -> Watching:
        """Begin to feed `sink` with the objects of a resource."""


def silence_of(member: MemberPort) -> str:
    """Why a member is known not to answer, "" otherwise."""
    reachable = member.conditions.get("Reachable")
    if reachable is None or reachable.status != "False":
        return ""
    return reachable.message or "it does not answer"


class World:
    """All members and all merged resources. One event loop owns it."""

    def __init__(
        self,
        *,
        sequencer: Sequencer,
        store: ObjectStore,
        own: Callable[[], Catalogue],
        clock: Callable[[], float],
        shards: Shards | None = None,
    ) -> None:
        """`store` holds the fleet's own objects, `own` says of which resources there may be any,
        `shards` what of the members' objects belongs to fleet workloads."""
        self.sequencer = sequencer
        self.glimpses = Glimpses(sequencer)
        self._store = store
        self._own = own
        self.clock = clock
        self.shards: Shards = shards or NoShards()
        self._members: dict[str, MemberPort] = {}
        self._merged: dict[GroupVersionResource, Merged] = {}
        self._catalogue: Catalogue | None = None
        self._rows: dict[GroupVersionResource, Resource] = {}
        self._served: dict[str, dict[GroupVersionResource, Resource]] = {}
        self._projectors: dict[tuple[str, GroupVersionResource], Projector] = {}

    # -- members

    @property
    def members(self) -> Mapping[str, MemberPort]:
        """Members by name."""
        return self._members

    def admit(self, member: MemberPort) -> None:
        """A member joined: its objects appear in every merged resource that runs."""
        self._members[member.name] = member
        self._read_catalogue(member)
        for merged in self._merged.values():
            self._attach(merged, member)
        for gvr in ALWAYS_ON:
            self.merged(gvr)

    async def dismiss(self, name: str) -> None:
        """A member left: its objects are deleted from every merged resource."""
        if self._members.pop(name, None) is None:
            return
        self._served.pop(name, None)
        self._catalogue = None
        for key in [key for key in self._projectors if key[0] == name]:
            del self._projectors[key]
        for merged in list(self._merged.values()):
            await merged.detach(name)

    async def refresh(self, name: str) -> None:
        """A member's catalogue changed: resources it began or ceased to serve follow."""
        member = self._members.get(name)
        if member is None:
            return
        self._read_catalogue(member)
        served = self._served[name]
        for gvr, merged in list(self._merged.items()):
            row = self.resource(gvr)
            if row is not None:
                merged.widen(row)
            if name in merged.sources and gvr not in served:
                await merged.detach(name)
            elif name not in merged.sources:
                self._attach(merged, member)
        for gvr in ALWAYS_ON:
            self.merged(gvr)

    def own_changed(self) -> None:
        """The fleet itself serves other kinds than before: its objects of a new one appear in the
        merged resource, which may run for members already."""
        self._catalogue = None
        for gvr, merged in self._merged.items():
            if self.owned(gvr):
                merged.adopt(self.own(gvr))

    def serving(self, gvr: GroupVersionResource) -> list[MemberPort]:
        """The members that serve a resource, by name."""
        return [self._members[name] for name in sorted(self._members) if gvr in self._served[name]]

    def unheard(self, names: Iterable[str] | None = None) -> list[str]:
        """Those of `names` (None: all) that have not said yet what they serve: members that were
        down when the gateway started."""
        wanted = self._members if names is None else names
        return sorted(name for name in wanted if self._served.get(name) == {})

    def projector(self, member: str, gvr: GroupVersionResource) -> Projector | None:
        """The projector of a member's resource; None when the member does not serve it."""
        found = self._projectors.get((member, gvr))
        if found is None:
            row = self._served.get(member, {}).get(gvr)
            if row is None:
                return None
            found = self._projectors[(member, gvr)] = Projector(member, row)
        return found

    async def revision_at(
        self, gvr: GroupVersionResource, key: tuple[str, str], told: str
    ) -> Revision:
        """The fleet revision of the object with this projected key, which a member has just
        answered at its revision `told`.

        Where what is kept is newer it is one at which the object was not yet what it is: as a
        precondition it must not stand for the newer.
        """
        merged = self._merged.get(gvr)
        entry = merged.collection.get(*key) if merged is not None else None
        if entry is None:
            return await self.glimpses.revision((gvr, *key), told)
        if told == str(entry.member_revision):
            return entry.revision
        return Revision(entry.revision - 1)

    # -- what is served

    def catalogue(self) -> Catalogue:
        """The union of what the fleet itself and its members serve."""
        if self._catalogue is None:
            names = sorted(self._members)
            members = [_answerable(self._members[name].catalogue) for name in names]
            own = _lent(self._own(), discovery.union(members))
            self._catalogue = discovery.union([own, *members])
            self._rows = {row.gvr: row for row in discovery.rows(self._catalogue)}
        return self._catalogue

    def resource(self, gvr: GroupVersionResource) -> Resource | None:
        """The row of a resource that is served, or None."""
        self.catalogue()
        return self._rows.get(gvr)

    def owned(self, gvr: GroupVersionResource) -> bool:
        """Whether the fleet may have objects of this resource of its own."""
        return any(row.gvr == gvr for row in discovery.rows(self._own()))

    def other_version(self, gvr: GroupVersionResource) -> str:
        """Where the fleet's own objects of a resource are to be found when it is not in this
        version of it: `autoscaling/v2`; "" when it is, or has none."""
        rows = [
            row
            for row in discovery.rows(self._own())
            if (row.gvr.group, row.gvr.resource) == (gvr.group, gvr.resource)
        ]
        if not rows or any(row.gvr == gvr for row in rows):
            return ""
        return rows[0].api_version

    def own(self, gvr: GroupVersionResource) -> Collection:
        """The fleet's own objects of a resource that is served."""
        self.catalogue()
        return self._store.collection(self._rows[gvr])

    # -- merged resources

    def running(self, gvr: GroupVersionResource) -> Merged | None:
        """The merged resource if it runs already."""
        return self._merged.get(gvr)

    def merged(self, gvr: GroupVersionResource) -> Merged | None:
        """The merged resource, started if need be; None when nobody serves it."""
        found = self._merged.get(gvr)
        if found is not None:
            return found
        row = self.resource(gvr)
        if row is None or "watch" not in row.verbs:
            return None
        own = self._store.collection(row) if self.owned(gvr) else None
        merged = self._merged[gvr] = Merged(row, self.sequencer, clock=self.clock, own=own)
        for member in self.serving(gvr):
            self._attach(merged, member)
        return merged

    async def run(self) -> None:
        """Stop merged resources that nobody reads, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            try:
                await self.sweep()
            except Exception:
                log.exception("idle resources could not be stopped")

    async def sweep(self) -> None:
        """Stop what has been idle for long enough."""
        now_s = self.clock()
        for gvr, merged in list(self._merged.items()):
            if gvr in ALWAYS_ON:
                continue
            since_s = merged.idle_since()
            allowed_s = LINGER_S if (gvr.group, gvr.resource) in READ_THROUGH else IDLE_S
            if since_s is not None and now_s - since_s >= allowed_s:
                del self._merged[gvr]
                await merged.close()

    async def close(self) -> None:
        """Stop everything."""
        merged, self._merged = self._merged, {}
        for each in merged.values():
            await each.close()

    # -- inside

    def _read_catalogue(self, member: MemberPort) -> None:
        self._catalogue = None
        self._served[member.name] = {row.gvr: row for row in discovery.rows(member.catalogue)}
        for key in [key for key in self._projectors if key[0] == member.name]:
            del self._projectors[key]

    def _attach(self, merged: Merged, member: MemberPort) -> None:
        gvr = merged.resource.gvr
        row = self._served[member.name].get(gvr)
        projector = self.projector(member.name, gvr)
        if row is None or projector is None or "watch" not in row.verbs:
            return
        if member.name in merged.sources:
            return
        if not concerns(row):
            merged.attach(projector, lambda intake, _: member.watch(row, intake))
            return
        sorting = Sorting(projector, self.shards)

        def start(intake: Intake, hidden: Intake) -> Watching:
            kept = hidden if sorting.keeps_hidden else None
            return member.watch(row, Sieve(intake, sorting, self.shards, hidden=kept))

        merged.attach(sorting, start)


def _answerable(catalogue: Catalogue) -> Catalogue:
    """A member's catalogue as the merged view stands by it.

    Clients take a stale version for a failed one and leave its kinds out (client-go's
    `StaleGroupVersionError`). What is watched goes on being answered, from its last known state
    and with a warning, so its version is not stale here.
    """

    def version(known: Version) -> Version:
        kept = known.stale and any("watch" in row.verbs for row in known.resources)
        return replace(known, stale=False) if kept else known

    return tuple(
        replace(group, versions=tuple(map(version, group.versions))) for group in catalogue
    )


def _lent(own: Catalogue, members: Catalogue) -> Catalogue:
    """The fleet's own catalogue, with the versions that members have beyond it of the same
    resources: they are served for members' objects alone, and lists say so."""
    kinds = {(row.gvr.group, row.gvr.resource) for row in discovery.rows(own)}
    known = {row.gvr for row in discovery.rows(own)}
    more = [
        row
        for row in discovery.rows(members)
        if row.gvr not in known and (row.gvr.group, row.gvr.resource) in kinds
    ]
    return discovery.union([discovery.catalogue([*discovery.rows(own), *more])])
