"""CREATE, UPDATE, PATCH and DELETE over an object store, as a kube-apiserver does them.

Each write goes the same way: decode, default, prepare, validate (all pure, in `fleet.kube`),
admit, store by compare-and-set. A write that changes nothing stores nothing. What a caller may do
has been decided before; what an object sets in motion is for controllers that follow the store.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Protocol

from fleet.apiserver import bodies
from fleet.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    UnsupportedMediaType,
)
from fleet.kube import defaults, protobuf
from fleet.kube.negotiation import body_form
from fleet.kube.options import (
    CreateOptions,
    DeleteOptions,
    ListOptions,
    PatchOptions,
    UpdateOptions,
)
from fleet.kube.patch import accepted_types, apply_patch
from fleet.kube.revision import parse as parse_revision
from fleet.kube.schema import FieldValidation, decode
from fleet.kube.schema.fields import conform
from fleet.store.objects import MODIFIED_MEANWHILE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from random import Random

    from fleet.apiserver.kinds import Kinds
    from fleet.kube.paths import Target
    from fleet.kube.resources import Resource
    from fleet.kube.wire import Request, UserInfo
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore

Object = dict[str, Any]

NAME_ATTEMPTS = 8  # generated names that may collide before the client is told
CONFLICT_ATTEMPTS = 5
_APPLY = "application/apply-patch+yaml"


class Admission(Protocol):
    """What may look at an object, change it or refuse it, between validation and the store."""

    async def admit(
        self, resource: Resource, obj: Object, old: Object | None, user: UserInfo
    ) -> Object:
        """The object to store; `old` is None for a create. Raises an ApiError to refuse."""


class Written:
    """The outcome of a write: the object as stored (or as it would be), and warnings."""

    __slots__ = ("created", "obj", "warnings")

    def __init__(self, obj: Object, *, created: bool = False, warnings: Sequence[str] = ()) -> None:
        self.obj = obj
        self.created = created
        self.warnings = tuple(warnings)


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
    ) -> None:
        """`namespaces` is the row of Namespace, when creates must find theirs."""
        self._store = store
        self._kinds = kinds
        self._now = now
        self._uid = uid
        self._random = random
        self._admission = admission
        self._namespaces = namespaces

    # -- create

    async def create(self, request: Request, target: Target, resource: Resource) -> Written:
        """Raises BadRequest, Invalid, Forbidden, NotFound (the namespace), AlreadyExists."""
        options = CreateOptions.parse(request)
        obj, warnings = self._decoded(request, resource)
        self._check_namespace(target.namespace, obj, resource)
        for attempt in range(NAME_ATTEMPTS):
            new = self._created(obj, target, resource)
            new = await self._admit(resource, new, None, request.user)
            if options.dry_run:
                self._refuse_taken(resource, new)
                return Written(_shown(new), created=True, warnings=warnings)
            try:
                entry = await self._store.create(resource, new)
            except AlreadyExists:
                generated = not (obj.get("metadata") or {}).get("name")
                if generated and attempt < NAME_ATTEMPTS - 1:
                    continue
                raise
            return Written(entry.parse(), created=True, warnings=warnings)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _created(self, obj: Object, target: Target, resource: Resource) -> Object:
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
            namespace=target.namespace if resource.namespaced else "",
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
        if self._store.get(resource, metadata.get("namespace", ""), metadata["name"]):
            raise AlreadyExists.of(
                group=resource.gvr.group, resource=resource.gvr.resource, name=metadata["name"]
            )

    def _check_namespace(self, namespace: str, obj: Object, resource: Resource) -> None:
        if not resource.namespaced or self._namespaces is None:
            return
        found = self._store.get(self._namespaces, "", namespace)
        if found is None:
            raise NotFound.of(group="", resource="namespaces", name=namespace)
        if b'"deletionTimestamp"' in found.metadata:
            name = str((obj.get("metadata") or {}).get("name", ""))
            gvr = resource.gvr
            raise Forbidden.of(
                group=gvr.group,
                resource=gvr.resource,
                name=name,
                why=f"unable to create new content in namespace {namespace} because it is being "
                "terminated",
            )

    # -- update and patch

    async def update(self, request: Request, target: Target, resource: Resource) -> Written:
        """PUT of an object or its status. Raises as `create`, and Conflict."""
        options = UpdateOptions.parse(request)
        obj, warnings = self._decoded(request, resource)
        metadata = obj.get("metadata") or {}
        name = metadata.get("name")
        if name and name != target.name:
            raise BadRequest(
                f"the name of the object ({name}) does not match the name on the URL "
                f"({target.name})"
            )
        given = metadata.get("resourceVersion") or ""
        for attempt in range(CONFLICT_ATTEMPTS):
            entry = self._existing(target, resource)
            self._expect(resource, entry, revision=given, uid=metadata.get("uid") or "")
            new = copy.deepcopy(obj)
            new.setdefault("metadata", {})["name"] = target.name
            try:
                stored = await self._replace(
                    target, resource, entry, new, request.user, dry_run=options.dry_run
                )
            except Conflict:
                if given or attempt == CONFLICT_ATTEMPTS - 1:
                    raise
                continue
            return Written(stored, warnings=warnings)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def patch(self, request: Request, target: Target, resource: Resource) -> Written:
        """PATCH of an object or its status. Without a revision in the patch, tried again when
        somebody else wrote in between. Raises as `update`, and UnsupportedMediaType."""
        content_type = request.headers.get("content-type", "")
        schema = self._kinds.schema(resource)
        if content_type.partition(";")[0].strip().lower() == _APPLY:
            raise UnsupportedMediaType.of(accepted_types(schema))
        options = PatchOptions.parse(request, apply=False)
        for attempt in range(CONFLICT_ATTEMPTS):
            entry = self._existing(target, resource)
            warnings: list[str] = []
            current = entry.parse()
            new = apply_patch(
                content_type,
                current,
                request.body,
                schema=schema,
                validation=FieldValidation(options.field_validation),
                warn=warnings.append,
            )
            metadata = new.get("metadata") or {}
            if metadata.get("name") != target.name:
                raise BadRequest("the name of the object may not be changed by a patch")
            given = metadata.get("resourceVersion") or ""
            self._expect(resource, entry, revision=given, uid=metadata.get("uid") or "")
            try:
                stored = await self._replace(
                    target, resource, entry, new, request.user, dry_run=options.dry_run
                )
            except Conflict:
                if attempt == CONFLICT_ATTEMPTS - 1:
                    raise
                continue
            return Written(stored, warnings=warnings)
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
        if custom is not None and custom.rules is not None and not target.subresource:
            custom.rules.validate(updated, old)
        updated = await self._admit(resource, updated, old, user)
        if defaults.is_unchanged(updated, old):
            return old
        metadata = updated["metadata"]
        finished = metadata.get("deletionTimestamp") and not _held(updated)
        if dry_run:
            metadata["resourceVersion"] = str(entry.revision)
            return updated
        if finished:
            await self._store.delete(
                resource, namespace=entry.namespace, name=entry.name, expected=entry.revision
            )
            return updated
        stored = await self._store.update(resource, updated, expected=entry.revision)
        return stored.parse()

    # -- delete

    async def delete(self, request: Request, target: Target, resource: Resource) -> Written | None:
        """Mark or remove an object. Returns it while it lingers, None when it is gone.

        Raises NotFound, Conflict for a precondition that fails.
        """
        options = DeleteOptions.parse(request, bodies.options_of(request))
        entry = self._existing(target, resource)
        return await self.remove(resource, entry, options)

    async def delete_collection(
        self, request: Request, resource: Resource, entries: Sequence[Entry]
    ) -> list[Object]:
        """Delete each of `entries`; returns them as they were."""
        options = DeleteOptions.parse(request, bodies.options_of(request))
        ListOptions.parse(request, resource=resource)
        removed = []
        for entry in entries:
            try:
                await self.remove(resource, entry, options)
            except NotFound:
                continue
            removed.append(entry.parse())
        return removed

    async def remove(
        self, resource: Resource, entry: Entry, options: DeleteOptions
    ) -> Written | None:
        """Delete one object by the rules of finalizers and grace periods."""
        for attempt in range(CONFLICT_ATTEMPTS):
            obj = entry.parse()
            self._expect(resource, entry, revision=options.resource_version, uid=options.uid)
            grace_s = _grace(resource, obj, options)
            finalizers = _FINALIZERS.get(options.propagation, ())
            marked = defaults.mark_deleted(
                obj, now=self._now(), grace_period_s=grace_s, finalizers=finalizers
            )
            if resource.gvr.group_resource == "namespaces":
                marked["status"] = {**(marked.get("status") or {}), "phase": "Terminating"}
            lingers = bool(_held(marked)) or grace_s > 0
            if options.dry_run:
                return Written(_shown(marked)) if lingers else None
            try:
                if not lingers:
                    await self._store.delete(
                        resource,
                        namespace=entry.namespace,
                        name=entry.name,
                        expected=entry.revision,
                    )
                    return None
                if defaults.is_unchanged(marked, obj):
                    return Written(obj)
                stored = await self._store.update(resource, marked, expected=entry.revision)
            except Conflict:
                if options.resource_version or attempt == CONFLICT_ATTEMPTS - 1:
                    raise
                found = self._store.get(resource, entry.namespace, entry.name)
                if found is None:
                    return None
                entry = found
                continue
            return Written(stored.parse())
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
        return decoded.object, decoded.warnings

    def _existing(self, target: Target, resource: Resource) -> Entry:
        entry = self._store.get(resource, target.namespace, target.name)
        if entry is None:
            gvr = resource.gvr
            raise NotFound.of(group=gvr.group, resource=gvr.resource, name=target.name)
        return entry

    def _expect(self, resource: Resource, entry: Entry, *, revision: str, uid: str) -> None:
        """Raises Conflict unless the object is the one the caller means."""
        gvr = resource.gvr
        if uid and uid != entry.uid:
            raise Conflict.of(
                group=gvr.group,
                resource=gvr.resource,
                name=entry.name,
                why=f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
                f"{entry.uid}",
            )
        if revision and parse_revision(revision) not in (0, entry.revision):
            raise Conflict.of(
                group=gvr.group, resource=gvr.resource, name=entry.name, why=MODIFIED_MEANWHILE
            )

    async def _admit(
        self, resource: Resource, obj: Object, old: Object | None, user: UserInfo
    ) -> Object:
        for admission in self._admission:
            obj = await admission.admit(resource, obj, old, user)
        return obj


_FINALIZERS = {"Orphan": ("orphan",), "Foreground": ("foregroundDeletion",)}


def _held(obj: Object) -> bool:
    """Whether finalizers keep the object: its own, and a Namespace's in its spec."""
    if obj["metadata"].get("finalizers"):
        return True
    return obj.get("kind") == "Namespace" and bool((obj.get("spec") or {}).get("finalizers"))


def _grace(resource: Resource, obj: Object, options: DeleteOptions) -> int:
    """Seconds a pod on a node has to end; anything else goes at once."""
    if resource.gvr.group_resource != "pods":
        return 0
    spec = obj.get("spec") or {}
    phase = (obj.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    if options.grace_period_s is not None:
        return options.grace_period_s
    return int(spec.get("terminationGracePeriodSeconds") or 0)


def _shown(obj: Object) -> Object:
    """What a dry run answers: the object as it would be stored, without a revision."""
    obj["metadata"].pop("resourceVersion", None)
    return obj
