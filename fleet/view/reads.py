"""GET, LIST and WATCH in the merged world.

What is kept – any resource that runs – answers from its merged collection, after every member's
part has been settled as fresh as the caller asked. Two things go to the members directly: single
objects and read-through kinds that are not kept, and `freshness=complete`, which asks every
member and fails rather than be partial.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fleet.apiserver import bodies, reading
from fleet.apiserver.representation import Representations
from fleet.errors import ApiError, BadRequest, NotFound, TransportError, Unavailable
from fleet.kube import fields
from fleet.kube.fields import extract
from fleet.kube.options import GetOptions, ListOptions, WatchOptions, request_timeout_s
from fleet.kube.paths import path_of
from fleet.kube.selectors import FieldSelector
from fleet.kube.wire import Request, Response
from fleet.members import calls
from fleet.store.collection import Collection
from fleet.store.entry import Entry
from fleet.view import crossing, naming
from fleet.view.recollections import Recollections
from fleet.view.selectors import for_member, unproject_label_selector
from fleet.view.world import READ_THROUGH, UNHEARD, silence_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from fleet.apiserver.reading import Scope
    from fleet.kube.paths import Target
    from fleet.kube.resources import GroupVersionResource, Resource
    from fleet.view.merged import Freshness, Merged
    from fleet.view.world import MemberPort, World

# What is asked of members directly: a list begins at once or its member hangs, and may be long.
HEAD_S = 5.0
WHOLE_S = 60.0
FLEET_GROUP = "fleet.dev"  # its kinds are the fleet's alone: no CLUSTER column
OWN_CLUSTER = "fleet"  # the CLUSTER cell of what the fleet owns


@dataclass(frozen=True, slots=True)
class Read:
    """One GET, LIST or WATCH. `scope` says which namespaces, `members` which members can hold
    something of them (None: all)."""

    request: Request
    target: Target
    resource: Resource
    scope: Scope
    members: tuple[str, ...] | None


_SOME = 3
"""Names that a hint lists."""


class Reads:
    """Reads over a world."""

    def __init__(
        self,
        world: World,
        *,
        freshness: Freshness,
        columns_of: Callable[[GroupVersionResource], Sequence[Mapping[str, Any]] | None],
        now: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """`columns_of` gives a custom resource's printer columns; `now` is wall-clock time."""
        self._world = world
        self._freshness = freshness
        self._represent = Representations(
            now=now,
            columns_of=columns_of,
            cluster_of=_cluster_of,
            plain_groups=frozenset({FLEET_GROUP}),
        )
        self._rng = rng
        self._recollections = Recollections(clock=world.clock)

    async def list_objects(self, read: Read) -> Response:
        """Raises Expired, RevisionTooLarge, BadRequest, NotFound; Unavailable where a member that
        does not answer would leave nothing to show, or the answer has to be complete."""
        request, resource = read.request, read.resource
        options = ListOptions.parse(request, resource=resource)
        shown = self._represent.asked(request, listing=True)
        rendering = self._represent.rendering(shown, resource)
        complete = _complete(request)
        merged = None if complete or self._through(resource) else self._merged(resource)
        if merged is None:
            # in one piece: a token could not find this moment again
            options = replace(options, limit=0)
            collection, warnings = await self._gathered(read, complete=complete)
            if "watch" in resource.verbs:
                listed = collection.snapshot()
                self._recollections.keep(
                    resource.gvr, listed.revision, listed.entries(), scope=read.scope
                )
        else:
            with merged.reading():
                recent = not options.revision_given and not options.continue_
                warnings = await merged.settle(self._freshness, recent=recent, members=read.members)
            collection = merged.collection
        warnings += self._unheard(read, complete=complete) + self._elsewhere_versioned(read)
        response = reading.list_response(
            collection,
            options,
            rendering,
            scope=read.scope,
            path=request.path,
            gzip=bodies.may_compress(request, shown),
        )
        response.warnings = warnings
        return bodies.encoded(response, shown)

    async def watch_objects(self, read: Read) -> Response:
        """Raises Expired, RevisionTooLarge, BadRequest, NotFound before the first byte."""
        request, resource = read.request, read.resource
        options = WatchOptions.parse(request, resource=resource, name=read.target.name)
        shown = self._represent.asked(request, watch=True)
        merged = self._merged(resource)
        if merged is None:
            raise NotFound.path()
        with merged.reading():
            recent = options.revision == 0 and not options.revision_given
            warnings = await merged.settle(self._freshness, recent=recent, members=read.members)
            collection = merged.collection
            since = None
            if 0 < options.revision < collection.floor:
                since = self._recollections.changes(
                    resource.gvr,
                    options.revision,
                    present=collection,
                    scope=read.scope,
                    known=merged.knows,
                )
            response = reading.watch_response(
                collection,
                options,
                self._represent.rendering(shown, resource),
                scope=read.scope,
                rng=self._rng,
                held=merged.reading(),
                since=since,
            )
        response.warnings = warnings + self._unheard(read)
        return response

    async def get_object(self, read: Read, *, direct: Callable[[], Any] | None) -> Response:
        """One object. `direct` reads it from its member, for what is not kept."""
        request, target, resource = read.request, read.target, read.resource
        options = GetOptions.parse(request)
        shown = self._represent.asked(request, listing=False)
        rendering = self._represent.rendering(shown, resource)
        missing = self.missing(target)
        merged = self._world.running(target.gvr)
        if merged is None and direct is None and not self._through(resource):
            merged = self._merged(resource)
        warnings: tuple[str, ...] = ()
        entry: Entry | None
        if direct is not None and (merged is None or _complete(request)):
            entry = self._loose(await direct(), read)
        elif merged is None:
            owned = self._world.owned(target.gvr)
            own = self._world.own(target.gvr) if owned else None
            entry = own.get(target.namespace, target.name) if own is not None else None
        else:
            with merged.reading():
                warnings = await merged.settle(
                    self._freshness, recent=not options.revision_given, members=read.members
                )
            entry = merged.collection.get(target.namespace, target.name)
            if entry is None and direct is not None:
                # what merged lists leave out is still there by its exact name
                entry = self._loose(await direct(), read)
        response = reading.get_response(entry, rendering, missing=missing)
        response.warnings = warnings
        return bodies.encoded(response, shown)

    def shown(self, value: dict[str, Any], read: Read) -> Response:
        """An object that is not kept, as the caller wants to see it."""
        shown = self._represent.asked(read.request, listing=False)
        entry = self._loose(value, read)
        rendering = self._represent.rendering(shown, read.resource)
        return bodies.encoded(Response(200, bodies.JSON_HEADERS, rendering.single(entry)), shown)

    def missing(self, target: Target) -> NotFound:
        """That there is no such object, and where there is one of that name."""
        return NotFound.of(
            group=target.gvr.group,
            resource=target.gvr.resource,
            name=target.name,
            hint=self._elsewhere(target),
        )

    def _unheard(self, read: Read, *, complete: bool = False) -> tuple[str, ...]:
        """A warning for each member of which nothing is known yet; raises Unavailable instead when
        the answer has to be complete."""
        unheard = self._world.unheard(read.members)
        if unheard and complete:
            raise Unavailable.member(unheard[0], UNHEARD, retry_after_s=1)
        return tuple(f"{name}: not heard from yet, its objects are missing" for name in unheard)

    def _elsewhere_versioned(self, read: Read) -> tuple[str, ...]:
        """A warning where the fleet's own objects are in another version of the resource."""
        other = self._world.other_version(read.target.gvr)
        if not other or "." in read.target.namespace.removesuffix(f".{naming.UNION}"):
            return ()
        what = read.target.gvr.group_resource
        return (f"the fleet's own {what} are in {other} alone and not shown here",)

    # -- sources

    def _through(self, resource: Resource) -> bool:
        gvr = resource.gvr
        if "watch" not in resource.verbs:
            return True
        return (gvr.group, gvr.resource) in READ_THROUGH and self._world.running(gvr) is None

    def _merged(self, resource: Resource) -> Merged | None:
        return self._world.merged(resource.gvr)

    def _loose(self, value: dict[str, Any], read: Read) -> Entry:
        """An entry of an object that is not kept; its revision is the present one."""
        metadata = value.setdefault("metadata", {})
        metadata.setdefault("name", read.target.name)
        return Entry(
            value,
            revision=self._world.sequencer.current,
            fields=(),
            member=(metadata.get("labels") or {}).get(naming.CLUSTER_LABEL, ""),
        )

    async def _gathered(self, read: Read, *, complete: bool) -> tuple[Collection, tuple[str, ...]]:
        """A collection of what every member answers just now, and warnings of who did not."""
        gvr = read.target.gvr
        within_s = request_timeout_s(read.request, limit_s=WHOLE_S)
        members = [
            member
            for member in self._world.serving(gvr)
            if read.members is None or member.name in read.members
        ]
        async with asyncio.TaskGroup() as group:
            lists = [
                group.create_task(
                    self._ask(member, read, within_s), name=f"list {member.name}/{gvr}"
                )
                for member in members
            ]
        entries: list[Entry] = []
        warnings: list[str] = []
        refusal: ApiError | None = None
        for member, answer in zip(members, lists, strict=True):
            found = answer.result()
            if not isinstance(found, TransportError | ApiError):
                entries += found
            elif isinstance(found, ApiError) and found.http_code == 403:
                refusal = found  # the caller sees nothing of it, as where it is kept
            elif complete or _of_one_member(read):
                # an empty list would say that there is nothing
                raise Unavailable.member(member.name, str(found)) from found
            else:
                warnings.append(f"{member.name}: {found}; its objects are missing")
        if refusal is not None and (complete or not entries):
            raise refusal
        collection = Collection(read.resource, self._world.sequencer)
        if self._world.owned(gvr):
            entries += self._world.own(gvr).snapshot().entries()
        collection.load(entries)
        return collection, tuple(warnings)

    async def _ask(
        self, member: MemberPort, read: Read, within_s: float
    ) -> list[Entry] | ApiError | TransportError:
        gvr = read.target.gvr
        projector = self._world.projector(member.name, gvr)
        if projector is None:
            return []
        namespace = ""
        if read.scope.namespaces is not None:
            heads = [
                head
                for head, _, tail in (name.rpartition(".") for name in read.scope.namespaces)
                if head and tail == member.name
            ]
            if not heads:
                return []
            namespace = heads[0]
        query = _selection(read, member.name)
        if query is None:
            return []
        if why := silence_of(member):
            return TransportError(why, member=member.name, sent=False)
        try:
            page = await calls.get(
                member.handler,
                path_of(gvr, namespace=namespace),
                timeout_s=within_s,
                head_s=min(HEAD_S, within_s),
                query=query,
                headers=crossing.headers(read.request.user),
            )
        except (TransportError, ApiError) as error:
            return error
        kind, api_version = read.resource.kind, read.resource.api_version
        entries = []
        for item in page.value.get("items") or ():
            if self._world.shards.standing(member.name, gvr.group, kind, item) == "Hidden":
                continue
            told = item["metadata"].get("resourceVersion", "")
            revision = await self._world.revision_at(gvr, projector.key(item), told)
            obj = projector.project(
                {"kind": kind, "apiVersion": api_version, **item}, revision=revision
            )
            entries.append(
                Entry(
                    obj,
                    revision=revision,
                    fields=extract(read.resource, obj),
                    member=member.name,
                    member_revision=int(told) if told.isdecimal() else 0,
                )
            )
        return entries

    def _elsewhere(self, target: Target) -> str:
        """Where an object of that name is, when it is not where it was looked for."""
        if "." in target.namespace:
            return ""
        if not target.namespace and (hint := naming.name_hint(target.name, self._world.members)):
            return hint
        merged = self._world.running(target.gvr)
        if merged is None:
            return ""
        named = [
            whole
            for name in self._world.members
            if merged.collection.get(target.namespace, whole := naming.join(target.name, name))
        ]
        if named:
            return f"(there is {_listed(named)})"
        if not target.namespace:
            return ""
        holders = [
            name
            for name in self._world.members
            if merged.collection.get(naming.join(target.namespace, name), target.name)
        ]
        if not holders:
            return ""
        first = holders[0]
        others = f" (and {', '.join(holders[1:])})" if holders[1:] else ""
        where = naming.join(target.namespace, first)
        return f"in the fleet's namespace {target.namespace}; {first}{others} has one: -n {where}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SOME} more" if len(names) > _SOME else ""
    return ", ".join(names[:_SOME]) + more


def _selection(read: Read, member: str) -> tuple[tuple[str, str], ...] | None:
    """The selectors of a read as a member has to be asked; None when it can have nothing selected.

    What they select too much is left out afterwards, by the selectors as they were given.
    """
    query = []
    if label := read.request.param("labelSelector"):
        query.append(("labelSelector", unproject_label_selector(label, member)))
    if field := read.request.param("fieldSelector"):
        asked = fields.check(read.resource, FieldSelector.parse(field))
        translated = for_member(asked, resource=read.resource, member=member)
        if translated is None:
            return None
        if not translated.selector.empty:
            query.append(("fieldSelector", str(translated.selector)))
    return tuple(query)


def _cluster_of(entry: Entry) -> str:
    """Where an object is: in a member, or of the fleet – which may run in a member all the same."""
    return entry.member or entry.labels.get(naming.CLUSTER_LABEL) or OWN_CLUSTER


def _of_one_member(read: Read) -> bool:
    return "." in read.target.namespace and naming.union_of(read.target.namespace) is None


def _complete(request: Request) -> bool:
    value = request.param("freshness")
    if value not in (None, "", "complete"):
        raise BadRequest(f'freshness={value}: the only value is "complete"')
    return value == "complete"
