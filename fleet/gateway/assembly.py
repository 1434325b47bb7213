"""Members, view and roots of one gateway, put together.

`fleet.app` makes the parts that touch the machine (files, sockets, clocks); here they become the
three roots, and news of members finds its way into the view. Nothing here knows how a member is
reached.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from fleet.apiserver.documents import Documents
from fleet.dispatch.controller import Dispatch
from fleet.errors import AlreadyExists
from fleet.gateway import own
from fleet.gateway.actions import Join, Leave
from fleet.gateway.bills import Bills
from fleet.gateway.books import Books
from fleet.gateway.clusters import CLUSTERS, Clusters
from fleet.gateway.edge import Roots
from fleet.gateway.extensions import PriceSources
from fleet.gateway.guests import Guests
from fleet.gateway.loans import Loans
from fleet.gateway.membership import Membership
from fleet.gateway.neighbours import Neighbours
from fleet.gateway.placing import Placing
from fleet.gateway.plans import Plan
from fleet.gateway.policy_warnings import PolicyWarnings
from fleet.gateway.quotas import Quotas
from fleet.gateway.records import Records
from fleet.gateway.returns import Spells
from fleet.gateway.roots import MemberRoot, MergedRoot
from fleet.gateway.rulebook import Rulebook
from fleet.gateway.subresources import PodSubresources
from fleet.gateway.validity import Validity
from fleet.gateway.workload_warnings import WorkloadWarnings
from fleet.kube.paths import path_of
from fleet.kube.wire import Request, UserInfo
from fleet.scheduling.blocks import on_blocks
from fleet.scheduling.extension import NONE
from fleet.view.forward import Forwarder
from fleet.view.openapi import UnitedOpenApi
from fleet.view.reads import Reads
from fleet.view.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from random import Random
    from typing import Any

    from fleet.apiserver.kinds import CustomKind
    from fleet.apiserver.writing import Admission
    from fleet.dispatch.parts import Parts
    from fleet.dispatch.situation import Timing
    from fleet.kube.discovery import Catalogue
    from fleet.kube.resources import GroupVersionResource
    from fleet.kube.wire import Handler
    from fleet.members.member import Member
    from fleet.members.roster import Change, Members
    from fleet.scheduling.extension import Extensions
    from fleet.store.objects import Draft, ObjectStore
    from fleet.view.merged import Freshness
    from fleet.view.openapi import Publisher
    from fleet.view.parts import Shards


_SELF = UserInfo("fleet:gateway", ("fleet:admins",))


class Assembly:
    """One gateway's view of its members. Used inside `async with members`."""

    def __init__(
        self,
        *,
        store: ObjectStore,
        members: Members,
        custom: Sequence[CustomKind],
        documents: Mapping[str, bytes],
        freshness: Freshness,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        uid: Callable[[], str],
        rng: Random,
        server_address: str,
        admission: Sequence[Admission] = (),
        shards: Shards | None = None,
        extensions: Extensions = NONE,
    ) -> None:
        """`documents` are the OpenAPI documents of the custom kinds, by path; `shards` is the
        record of what the fleet put into members; `extensions` take part in placement."""
        self._members = members
        self._clock, self._now, self._uid = clock, now, uid
        self._extensions = extensions
        self._custom = {kind.resource.gvr: kind for kind in custom}
        self._openapi = own.OwnOpenApi(documents)
        self.own = own.build(
            store,
            custom,
            openapi=self._openapi,
            now=now,
            uid=uid,
            rng=rng,
            admission=admission,
            server_address=server_address,
        )
        self.world = World(
            sequencer=store.sequencer,
            store=store,
            own=lambda: self.own.catalogue,
            clock=clock,
            shards=shards,
        )
        self._books = Books(
            world=self.world,
            store=store,
            clusters=self._custom[CLUSTERS].resource,
            clock=clock,
        )
        self.own.on_change(self.world.own_changed)
        self.forwarder = Forwarder(self.world)
        self.reads = Reads(
            self.world,
            freshness=freshness,
            columns_of=self._columns_of,
            now=lambda: now().timestamp(),
            rng=rng,
        )
        self._rulebook = Rulebook(store)
        self._workloads = WorkloadWarnings(Records(self.own), store, now=now)
        own_objects = Membership(
            PolicyWarnings(self._workloads, store), lambda: {each.name for each in members}
        )
        merged = MergedRoot(
            self.world,
            documents=Documents(
                self._catalogue, UnitedOpenApi(self._publishers), server_address=server_address
            ),
            reads=self.reads,
            forwarder=self.forwarder,
            own=own_objects,
            pods=PodSubresources(self.world, store, forwarder=self.forwarder, own=self.own),
        )
        self.roots = Roots(
            merged=merged,
            objects=own_objects,
            members=MemberRoot(members.get),
            actions={"/fleet/join": Join(members), "/fleet/leave": Leave(members)},
        )

    def begin(self) -> Callable[[], None]:
        """Take in the members that are here and follow the news; returns what ends that."""
        for member in self._members:
            self.world.admit(member)
        return self._members.on_change(self._changed)

    async def first_policies(self, objects: Iterable[dict[str, Any]]) -> None:
        """Store the policies that every fleet begins with; one that is there stays as it is."""
        for obj in objects:
            kind = next(k for k in self._custom.values() if k.resource.kind == obj["kind"])
            path = path_of(kind.resource.gvr, namespace=obj["metadata"].get("namespace", ""))
            request = Request(
                "POST",
                path,
                headers={"content-type": "application/json"},
                body=orjson.dumps(obj),
                user=_SELF,
            )
            try:
                await self.own.handle(request)
            except AlreadyExists:
                continue

    def clusters(self, store: ObjectStore) -> Clusters:
        """The controller of the Cluster objects; the policies' kinds must be among `custom`."""
        clusters = Clusters(
            kernel=self.own,
            store=store,
            resource=self._custom[CLUSTERS].resource,
            rulebook=self._rulebook,
            members=self._members,
            books=self._books,
            now=self._now,
        )
        self._books.on_change(clusters.counted)
        return clusters

    def dispatch(
        self,
        store: ObjectStore,
        parts: Parts,
        *,
        fleet: str,
        timing: Timing,
        lease_s: float,
    ) -> Dispatch:
        """The controller that carries workloads out; `parts` are the `shards` given at the start,
        `fleet` the UID that marks what this fleet puts into members."""
        bills = Bills(store, now=self._now, uid=self._uid, rulebook=self._rulebook)
        placing = Placing(
            store,
            self._books,
            now=self._now,
            clock=self._clock,
            lease_s=lease_s,
            extensions=self._extensions,
            ceilings=bills.ceilings,
            rulebook=self._rulebook,
        )
        self.statuses = (
            Quotas(store, placing, now=self._now),
            Loans(store, placing, now=self._now),
            Validity(store, placing, now=self._now),
        )
        """What the planner knows of the policies, written down."""

        def drafted(draft: Draft) -> Handler:
            return PolicyWarnings(
                WorkloadWarnings(self.own.over(draft), store, now=self._now), store
            )

        plan = Plan(store, drafted, placing)
        self._workloads.foresee = plan.words
        spells = Spells(lambda: placing.spells)
        actions = {**self.roots.actions, "/fleet/plan": plan, "/fleet/returns": spells}
        self.roots = replace(self.roots, actions=actions)
        dispatch = Dispatch(
            store,
            self.world,
            parts=parts,
            planner=placing,
            bill=bills,
            fleet=fleet,
            uid=self._uid,
            now=lambda: self._now().timestamp(),
            timing=timing,
            on_blocks=self._on_blocks,
            neighbours=Neighbours(self.world),
        )

        self.guests = Guests(self.world, self._books, placing, freed=dispatch.room_changed)

        async def changed(change: Change) -> None:
            dispatch.member_changed(change.member.name)
            self.guests.member_changed()

        self._members.on_change(changed)
        return dispatch

    def price_sources(self, store: ObjectStore) -> PriceSources:
        """What keeps the prices that extensions know."""
        return PriceSources(store, self._extensions, now=self._now, uid=self._uid)

    def _on_blocks(
        self, cluster: str, blocks: Sequence[str], pod_spec: dict[str, Any]
    ) -> dict[str, Any]:
        return on_blocks(pod_spec, label=self._books.block_label(cluster), blocks=blocks)

    async def _changed(self, change: Change) -> None:
        member: Member = change.member
        match change.kind:
            case "joined":
                self.world.admit(member)
            case "left":
                await self.world.dismiss(member.name)
                self._books.forget(member.name)
            case "served":
                await self.world.refresh(member.name)
            case _:
                return

    async def _catalogue(self) -> Catalogue:
        return self.world.catalogue()

    def _columns_of(self, gvr: GroupVersionResource) -> Sequence[Mapping[str, Any]] | None:
        columns = self.own.kinds.columns(gvr)
        if columns is not None:
            return columns
        for member in self._members:
            definition = member.definitions.get(gvr)
            if definition is not None:
                return definition.columns
        return None

    def _publishers(self) -> Iterable[Publisher]:
        """Members first: they understand what they publish; then the fleet's own kinds; then the
        release, for what no member publishes now."""
        served: set[str] = set()
        for member in self._members:
            served.update(member.openapi.index)
            yield member.openapi
        yield self._openapi
        yield _Release(self._openapi, but=served)


class _Release:
    """The release's own documents, for paths that nobody else publishes."""

    def __init__(self, openapi: own.OwnOpenApi, *, but: set[str]) -> None:
        self._openapi = openapi
        self.index = {path: content for path, content in openapi.release.items() if path not in but}

    async def document(self, path: str) -> bytes | None:
        return await self._openapi.document(path)
