"""CREATE, UPDATE, PATCH and DELETE over an object store, as a kube-apiserver does them.

Each write goes the same way: decode, default, prepare, validate (all pure, in `fleet.kube`),
admit, store by compare-and-set. A write that changes nothing stores nothing. What a caller may do
has been decided before; what an object sets in motion is for controllers that follow the store.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from fleet.apiserver import deletion, refusals, strategies
from fleet.apiserver.guards import Guards, all_of, is_marked
from fleet.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    NotFound,
    UnsupportedMediaType,
)
from fleet.kube import defaults, protobuf
from fleet.kube.negotiation import body_form
from fleet.kube.options import CreateOptions, PatchOptions, UpdateOptions
from fleet.kube.patch import accepted_types, apply_patch
from fleet.kube.schema import FieldValidation, decode
from fleet.kube.schema.fields import conform

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime
    from random import Random

    from fleet.apiserver.deletion import Deletion
    from fleet.apiserver.kinds import Kinds
    from fleet.kube.options import DeleteOptions
    from fleet.kube.paths import Target
    from fleet.kube.resources import Resource
    from fleet.kube.wire import Request, UserInfo
    from fleet.store.entry import Entry
    from fleet.store.objects import Draft, ObjectStore

Object = dict[str, Any]

NAME_ATTEMPTS = 8  # generated names that may collide before the client is told
CONFLICT_ATTEMPTS = 64  # of writers at once that do not say what they build on, each gets its turn
IMMORTAL_NAMESPACES: Final = ("default", "kube-system", "kube-public")
_APPLY = "application/apply-patch+yaml"


class Admission(Protocol):
    """What may look at an object, change it or refuse it, between validation and the store."""

    async def admit(
        self, resource: Resource, obj: Object, old: Object | None, user: UserInfo
    ) -> Object:
        """The object to store; `old` is None for a create. Raises an ApiError to refuse."""


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a write: the object as stored (or as it would be), and warnings."""

    obj: Object
    created: bool = False
    warnings: tuple[str, ...] = ()


class Writer:
    """Writes to one store."""

    def __init__(
        self,
        store: ObjectStore,
        kinds: Kinds,
        *,
        now: Callable[[], datetime],
        uid: Callable[[], str],
        random: Random,
        admission: Sequence[Admission] = (),
        namespaces: Resource | None = None,
        immortal: Collection[str] = IMMORTAL_NAMESPACES,
    ) -> None:
        """`namespaces` is the row of Namespace, when creates must find theirs; those in
        `immortal` cannot be deleted."""
        self._store = store
        self._seen: ObjectStore | Draft = store
        """What a write builds on."""
        self._kinds = kinds
        self._now = now
        self._uid = uid
        self._random = random
        self._admission = admission
        self._guards = Guards(kinds, now=now, namespaces=namespaces)
        self._immortal = frozenset(immortal)

    def over(self, draft: Draft) -> Writer:
        """The same with what `draft` has on top of the store, for dry runs."""
        found = copy.copy(self)
        found._seen = draft
        return found

    # -- create

    async def create(self, request: Request, target: Target, resource: Resource) -> Written:
        """POST. Raises BadRequest, Invalid, Forbidden, NotFound (the namespace), AlreadyExists."""
        options = CreateOptions.parse(request)
        obj, warnings = self._decoded(request, resource)
        return await self.make(
            resource,
            obj,
            namespace=target.namespace,
            user=request.user,
            dry_run=options.dry_run,
            warnings=warnings,
        )

    async def make(
        self,
        resource: Resource,
        obj: Object,
        *,
        namespace: str,
        user: UserInfo,
        dry_run: bool = False,
        warnings: tuple[str, ...] = (),
    ) -> Written:
        """Create a decoded object. Raises as `create`."""
        in_namespace = self._guards.of_namespace(resource, obj, namespace)
        if in_namespace is not None:
            in_namespace(self._seen.look())
        for attempt in range(NAME_ATTEMPTS):
            new = self._created(obj, namespace, resource)
            new = await self._admit(resource, new, None, user)
            related = self._guards.of_relations(resource, new, None)
            if related is not None:
                related(self._seen.look())
            try:
                if dry_run:
                    self._refuse_taken(resource, new)
                    return Written(_unstored(new), created=True, warnings=warnings)
                entry = await self._store.create(resource, new, guard=all_of(in_namespace, related))
            except AlreadyExists as error:
                metadata = obj.get("metadata") or {}
                if metadata.get("name"):
                    raise self._taken(resource, new, error) from None
                if attempt < NAME_ATTEMPTS - 1:
                    continue
                raise refusals.no_unique_name(error) from None
            return Written(entry.parse(), created=True, warnings=warnings)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _created(self, obj: Object, namespace: str, resource: Resource) -> Object:
        gvr = resource.gvr
        custom = self._kinds.custom(gvr)
        filled = copy.deepcopy(obj)
        if custom is not None and custom.rules is not None:
            custom.rules.default(filled)
        new = defaults.create(
            gvr.group,
            gvr.version,
            resource.kind,
            filled,
            namespace=namespace if resource.namespaced else "",
            now=self._now(),
            uid=self._uid(),
            random=self._random,
            schema=self._kinds.schema(resource) if custom is not None else None,
            status_subresource=custom.status if custom is not None else True,
        )
        if custom is not None and custom.rules is not None:
            custom.rules.validate(new, None)
        return new

    def _refuse_taken(self, resource: Resource, obj: Object) -> None:
        metadata = obj["metadata"]
        if self._seen.get(resource, metadata.get("namespace", ""), metadata["name"]):
            gvr = resource.gvr
            raise AlreadyExists.of(group=gvr.group, resource=gvr.resource, name=metadata["name"])

    def _taken(self, resource: Resource, obj: Object, error: AlreadyExists) -> AlreadyExists:
        metadata = obj["metadata"]
        present = self._store.get(resource, metadata.get("namespace", ""), metadata["name"])
        if present is None or not is_marked(present):
            return error
        return refusals.being_deleted(error)

    # -- update and patch

    async def update(self, request: Request, target: Target, resource: Resource) -> Written:
        """PUT of an object or one of its subresources; of some kinds it creates the object.

        Raises as `create`, and Conflict.
        """
        options = UpdateOptions.parse(request)
        obj, warnings = self._decoded(request, resource)
        metadata = obj.get("metadata") or {}
        given = metadata.get("resourceVersion") or ""
        for attempt in range(CONFLICT_ATTEMPTS):
            entry = self._seen.get(resource, target.namespace, target.name)
            if entry is None:
                return await self._put_new(
                    resource, obj, target, request.user, dry_run=options.dry_run, warnings=warnings
                )
            uid = metadata.get("uid") or ""
            refusals.check_update(resource, entry, revision=given, uid=uid)
            try:
                stored = await self._replace(
                    target,
                    resource,
                    entry,
                    copy.deepcopy(obj),
                    request.user,
                    dry_run=options.dry_run,
                )
            except Conflict:
                if given or attempt == CONFLICT_ATTEMPTS - 1:
                    raise
                continue
            return Written(stored, warnings=warnings)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _put_new(
        self,
        resource: Resource,
        obj: Object,
        target: Target,
        user: UserInfo,
        *,
        dry_run: bool,
        warnings: tuple[str, ...],
    ) -> Written:
        if target.subresource or not strategies.made_by_put(resource):
            raise refusals.not_found(resource, target.name)
        metadata = dict(obj.get("metadata") or {})
        refusals.check_name(metadata.get("name") or "", target.name)
        metadata.pop("resourceVersion", None)  # there is nothing it could be compared with
        return await self.make(
            resource,
            {**obj, "metadata": metadata},
            namespace=target.namespace,
            user=user,
            dry_run=dry_run,
            warnings=warnings,
        )

    async def patch(self, request: Request, target: Target, resource: Resource) -> Written:
        """PATCH of an object or its status. Without a revision in the patch, tried again when
        somebody else wrote in between. Raises as `update`, and UnsupportedMediaType."""
        content_type = request.headers.get("content-type", "")
        schema = self._kinds.schema(resource)
        if content_type.partition(";")[0].strip().lower() == _APPLY:
            raise UnsupportedMediaType.of(accepted_types(schema))
        options = PatchOptions.parse(request, apply=False)
        for attempt in range(CONFLICT_ATTEMPTS):
            entry = self._seen.get(resource, target.namespace, target.name)
            if entry is None:
                raise refusals.not_found(resource, target.name)
            warnings: list[str] = []
            new = apply_patch(
                content_type,
                entry.parse(),
                request.body,
                schema=schema,
                validation=FieldValidation(options.field_validation),
                warn=warnings.append,
            )
            given = (new.get("metadata") or {}).get("resourceVersion") or ""
            refusals.check_update(resource, entry, revision=given)
            try:
                stored = await self._replace(
                    target, resource, entry, new, request.user, dry_run=options.dry_run
                )
            except Conflict:
                if attempt == CONFLICT_ATTEMPTS - 1:
                    raise
                continue
            return Written(stored, warnings=tuple(warnings))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _replace(
        self,
        target: Target,
        resource: Resource,
        entry: Entry,
        new: Object,
        user: UserInfo,
        *,
        dry_run: bool,
    ) -> Object:
        """Store `new` in the place of `entry`; what lost its last finalizer is removed."""
        gvr = resource.gvr
        old = entry.parse()
        custom = self._kinds.custom(gvr)
        if custom is not None and custom.rules is not None:
            custom.rules.default(new)
        updated = defaults.update(
            gvr.group,
            gvr.version,
            resource.kind,
            new,
            old,
            namespace=target.namespace if resource.namespaced else "",
            subresource=target.subresource,
            schema=self._kinds.schema(resource) if custom is not None else None,
            status_subresource=custom.status if custom is not None else True,
        )
        if custom is not None and custom.rules is not None:
            if target.subresource == "status":
                custom.rules.validate_status(updated)
            elif not target.subresource:
                custom.rules.validate(updated, old)
        updated = await self._admit(resource, updated, old, user)
        finished = deletion.is_finished(updated, old)
        if not finished and defaults.is_unchanged(updated, old):
            return old
        related = None
        if not (finished or target.subresource):
            related = self._guards.of_relations(resource, updated, old)
        if related is not None:
            related(self._seen.look())
        updated["metadata"]["resourceVersion"] = str(entry.revision)
        if dry_run:
            return updated
        if finished:
            await self._store.delete(
                resource, namespace=entry.namespace, name=entry.name, expected=entry.revision
            )
            return updated
        stored = await self._store.update(resource, updated, expected=entry.revision, guard=related)
        return stored.parse()

    # -- delete

    async def delete(self, resource: Resource, target: Target, options: DeleteOptions) -> Deletion:
        """DELETE of one object. Raises NotFound, Forbidden, Conflict for a precondition that
        fails."""
        entry = self._store.get(resource, target.namespace, target.name)
        if entry is None:
            raise refusals.not_found(resource, target.name)
        return await self.remove(resource, entry, options)

    async def delete_collection(
        self, resource: Resource, entries: Sequence[Entry], options: DeleteOptions
    ) -> None:
        """Delete each of `entries` that is still there.

        What may not go before another has is tried again after it. Raises Forbidden when no more
        can go.
        """
        left = list(entries)
        while left:
            kept: list[Entry] = []
            refusal: Forbidden | None = None
            for entry in left:
                try:
                    await self.remove(resource, entry, options)
                except NotFound:
                    continue
                except Forbidden as error:
                    kept.append(entry)
                    refusal = refusal or error
            if refusal is not None and len(kept) == len(left):
                raise refusal
            left = kept

    async def remove(self, resource: Resource, entry: Entry, options: DeleteOptions) -> Deletion:
        """Delete one object by the rules of finalizers and grace periods (`deletion`), whatever
        others write meanwhile. Raises NotFound when it is gone already, Forbidden, Conflict."""
        if resource.gvr.group_resource == "namespaces" and entry.name in self._immortal:
            raise Forbidden.of(
                group="",
                resource="namespaces",
                name=entry.name,
                why="this namespace may not be deleted",
            )
        for attempt in range(CONFLICT_ATTEMPTS):
            refusals.check_delete(resource, entry, options)
            obj = entry.parse()
            needed = self._guards.of_release(resource, obj)
            if needed is not None:
                needed(self._store.look())
            outcome = deletion.begin(resource, obj, options, now=self._now())
            if options.dry_run or (not outcome.gone and outcome.obj == obj):
                return outcome
            try:
                if outcome.gone:
                    await self._store.delete(
                        resource,
                        namespace=entry.namespace,
                        name=entry.name,
                        expected=entry.revision,
                        guard=needed,
                    )
                    return outcome
                stored = await self._store.update(
                    resource, outcome.obj, expected=entry.revision, guard=needed
                )
            except Conflict:
                if attempt == CONFLICT_ATTEMPTS - 1:
                    raise
                present = self._store.get(resource, entry.namespace, entry.name)
                if present is None:
                    raise refusals.not_found(resource, entry.name) from None
                entry = present
                continue
            return deletion.Deletion(stored.parse(), gone=False)
        raise AssertionError("unreachable: the last attempt returns or raises")

    # -- shared

    def _decoded(self, request: Request, resource: Resource) -> tuple[Object, tuple[str, ...]]:
        gvr = resource.gvr
        schema = self._kinds.schema(resource)
        validation = FieldValidation.of(request.param("fieldValidation"))
        form = body_form(request.headers.get("content-type"))
        if form == "protobuf":
            obj = protobuf.decode(request.body, default=(resource.api_version, resource.kind))
            return (conform(obj, schema)[0] if schema is not None else obj), ()
        decoded = decode(
            request.body,
            schema=schema,
            kind=(gvr.group, gvr.version, resource.kind),
            media_type="application/yaml" if form == "yaml" else "application/json",
            validation=validation,
        )
        return decoded.object, tuple(decoded.warnings)

    async def _admit(
        self, resource: Resource, obj: Object, old: Object | None, user: UserInfo
    ) -> Object:
        for admission in self._admission:
            obj = await admission.admit(resource, obj, old, user)
        return obj


def _unstored(obj: Object) -> Object:
    """What a dry run answers: the object as it would be stored, without a revision."""
    obj["metadata"].pop("resourceVersion", None)
    return obj
