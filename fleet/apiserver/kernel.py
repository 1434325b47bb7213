"""A Kubernetes API over one object store, as a `Handler`.

The gateway serves the fleet's own objects with it; embedded members and virtual nodes serve a
whole cluster. It has no authentication (whoever calls `handle` has settled the user) and runs no
controllers: those follow the store beside it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from fleet.apiserver import bodies, reading, scales, strategies
from fleet.apiserver.documents import Documents, shell_v2
from fleet.apiserver.reading import Scope
from fleet.apiserver.representation import Representations
from fleet.errors import Details, InternalError, MethodNotAllowed, NotFound, StoreError
from fleet.kube import discovery, paths
from fleet.kube.options import DeleteOptions, GetOptions, ListOptions, WatchOptions
from fleet.kube.patch import MERGE_PATCH, apply_patch
from fleet.kube.schema import schema_for
from fleet.kube.status import success
from fleet.kube.wire import Request, Response
from fleet.store.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from fleet.apiserver.documents import OpenApi
    from fleet.apiserver.kinds import CustomKind, Kinds
    from fleet.apiserver.writing import Writer, Written
    from fleet.kube.paths import Target
    from fleet.kube.resources import Resource
    from fleet.store.collection import Collection
    from fleet.store.objects import Draft, ObjectStore


class Special(Protocol):
    """Answers requests that are not about stored objects: reviews, logs, exec, bindings."""

    async def answer(self, request: Request, target: Target, resource: Resource) -> Response | None:
        """None leaves the request to the kernel."""


class Kernel:
    """Serves `resources` out of `store`."""

    def __init__(
        self,
        store: ObjectStore,
        resources: Sequence[Resource],
        *,
        kinds: Kinds,
        writer: Writer,
        openapi: OpenApi,
        wall_clock: Callable[[], float],
        rng: Random,
        special: Sequence[Special] = (),
        server_address: str = "127.0.0.1:6443",
    ) -> None:
        self._store = store
        self._fixed = tuple(resources)
        self._kinds = kinds
        self._listeners: list[Callable[[], None]] = []
        self._serve(())
        self._writer = writer
        self._rng = rng
        self._special = special
        self._represent = Representations(now=wall_clock, columns_of=kinds.columns)
        self._documents = Documents(self._gather, openapi, server_address=server_address)

    def define(self, defined: Sequence[CustomKind]) -> None:
        """Serve these kinds besides those it was made with, and no others. A resource that it
        serves anyway stays what it is."""
        fixed = {row.gvr.group_resource for row in self._fixed}
        new = [kind for kind in defined if kind.resource.gvr.group_resource not in fixed]
        for kind in new:
            self._store.redefine(kind.resource)
        self._kinds.define(new)
        self._serve([kind.resource for kind in new])
        for listener in tuple(self._listeners):
            listener()

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when what is served has changed; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _serve(self, defined: Sequence[Resource]) -> None:
        rows = (*self._fixed, *defined)
        self._rows = {row.gvr: row for row in rows}
        self._catalogue = discovery.union([discovery.catalogue(rows)])

    @property
    def catalogue(self) -> discovery.Catalogue:
        """What is served."""
        return self._catalogue

    @property
    def fixed(self) -> Sequence[Resource]:
        """The rows it was made with."""
        return self._fixed

    @property
    def kinds(self) -> Kinds:
        """What is known of its kinds."""
        return self._kinds

    @property
    def resources(self) -> Sequence[Resource]:
        """Its rows."""
        return tuple(self._rows.values())

    @property
    def writer(self) -> Writer:
        """What writes to its store, for controllers beside it."""
        return self._writer

    def over(self, draft: Draft) -> Kernel:
        """The same with what `draft` has on top of the store, for dry runs; what is read of it is
        the store's."""
        found = copy.copy(self)
        found._writer = self._writer.over(draft)
        return found

    async def _gather(self) -> discovery.Catalogue:
        return self._catalogue

    async def handle(self, request: Request) -> Response:
        try:
            return await self._handle(request)
        except StoreError as error:
            raise InternalError(f"Internal error occurred: {error}") from error

    async def _handle(self, request: Request) -> Response:
        answer = await self._documents.answer(request)
        if answer is not None:
            return answer
        if request.path == "/openapi/v2":
            return shell_v2(request)
        target = paths.parse_target(request.method, request.path, request.query)
        resource = self._rows.get(target.gvr) if target is not None else None
        if target is None or resource is None:
            raise NotFound.path()
        paths.check(target, resource)
        for special in self._special:
            answer = await special.answer(request, target, resource)
            if answer is not None:
                return answer
        if target.subresource == "scale":
            return await self._scale(request, target, resource)
        match target.verb:
            case "list":
                return self._list(request, target, resource)
            case "watch":
                return self._watch(request, target, resource)
            case "get":
                return self._get(request, target, resource)
            case "create" if not target.name:
                self._refuse_ending(resource)
                written = await self._writer.create(request, target, resource)
                return self._written(request, resource, written)
            case "update" if target.subresource in ("", "status", "finalize"):
                written = await self._writer.update(request, target, resource)
                return self._written(request, resource, written)
            case "patch" if target.subresource in ("", "status"):
                written = await self._writer.patch(request, target, resource)
                return self._written(request, resource, written)
            case "delete":
                return await self._delete(request, target, resource)
            case "deletecollection":
                return await self._delete_collection(request, target, resource)
        raise MethodNotAllowed.of(
            group=target.gvr.group, resource=target.gvr.resource, verb=target.verb
        )

    def _refuse_ending(self, resource: Resource) -> None:
        kind = self._kinds.custom(resource.gvr)
        if kind is not None and kind.ending:
            raise MethodNotAllowed(
                "create not allowed while custom resource definition is terminating",
                details=Details(group=resource.gvr.group, kind=resource.gvr.resource),
            )

    # -- reads

    def _collection(self, resource: Resource) -> Collection:
        return self._store.collection(resource)

    def _list(self, request: Request, target: Target, resource: Resource) -> Response:
        options = ListOptions.parse(request, resource=resource)
        shown = self._represent.asked(request, listing=True)
        response = reading.list_response(
            self._collection(resource),
            options,
            self._represent.rendering(shown, resource),
            scope=_scope(target),
            path=request.path,
            gzip=bodies.may_compress(request, shown),
        )
        return bodies.encoded(response, shown)

    def _watch(self, request: Request, target: Target, resource: Resource) -> Response:
        options = WatchOptions.parse(request, resource=resource, name=target.name)
        shown = self._represent.asked(request, watch=True)
        return reading.watch_response(
            self._collection(resource),
            options,
            self._represent.rendering(shown, resource),
            scope=_scope(target),
            rng=self._rng,
        )

    def _get(self, request: Request, target: Target, resource: Resource) -> Response:
        GetOptions.parse(request)
        shown = self._represent.asked(request, listing=False)
        gvr = target.gvr
        response = reading.get_response(
            self._collection(resource).get(target.namespace, target.name),
            self._represent.rendering(shown, resource),
            missing=NotFound.of(group=gvr.group, resource=gvr.resource, name=target.name),
        )
        return bodies.encoded(response, shown)

    # -- writes that answer something of their own

    async def _delete(self, request: Request, target: Target, resource: Resource) -> Response:
        self._represent.asked(request, listing=False)
        options = DeleteOptions.parse(request, bodies.options_of(request))
        outcome = await self._writer.delete(resource, target, options)
        warnings = _deletion_warnings(resource, options)
        if outcome.gone and not strategies.returns_deleted(resource):
            metadata = outcome.obj["metadata"]
            gvr = resource.gvr
            status = success(
                group=gvr.group, kind=gvr.resource, name=target.name, uid=metadata.get("uid", "")
            )
            return Response(200, bodies.JSON_HEADERS, orjson.dumps(status), warnings)
        code = 202 if not outcome.gone and options.orphan_dependents is False else 200
        return self._shown(request, resource, outcome.obj, code, warnings)

    async def _delete_collection(
        self, request: Request, target: Target, resource: Resource
    ) -> Response:
        listed = ListOptions.parse(request, resource=resource)
        options = DeleteOptions.parse(request, bodies.options_of(request))
        shown = self._represent.asked(request, listing=True)
        runs, metadata = reading.select(
            self._collection(resource), listed, scope=_scope(target), path=request.path
        )
        await self._writer.delete_collection(
            resource, [entry for run in runs for entry in run.entries], options
        )
        rendering = self._represent.rendering(shown, resource)
        body = reading.Pieces(rendering.head(orjson.dumps(metadata)), runs, rendering)
        warnings = _deletion_warnings(resource, options)
        return bodies.encoded(Response(200, bodies.JSON_HEADERS, body, warnings), shown)

    async def _scale(self, request: Request, target: Target, resource: Resource) -> Response:
        gvr = target.gvr
        entry = self._collection(resource).get(target.namespace, target.name)
        if entry is None:
            raise NotFound.of(group=gvr.group, resource=gvr.resource, name=target.name)
        kind = self._kinds.custom(gvr)
        paths_in = kind.scale if kind is not None else None
        current = scales.scale_of(entry.parse(), paths_in)
        if target.verb == "get":
            return bodies.json_response(200, current)
        if target.verb == "patch":
            scale = apply_patch(
                request.headers.get("content-type", ""),
                current,
                request.body,
                schema=schema_for("autoscaling", "v1", "Scale"),
            )
        else:
            scale = bodies.object_of(request, default=("autoscaling/v1", "Scale"))
        patch = Request(
            "PATCH",
            paths.path_of(gvr, namespace=target.namespace, name=target.name),
            request.query,
            headers={"content-type": MERGE_PATCH},
            body=orjson.dumps(scales.patch_of(scale, name=target.name, paths=paths_in)),
            user=request.user,
        )
        whole = paths.parse_target(patch.method, patch.path)
        assert whole is not None
        written = await self._writer.patch(patch, whole, resource)
        return bodies.json_response(200, scales.scale_of(written.obj, paths_in))

    def _written(self, request: Request, resource: Resource, written: Written) -> Response:
        status = 201 if written.created else 200
        return self._shown(request, resource, written.obj, status, written.warnings)

    def _shown(
        self,
        request: Request,
        resource: Resource,
        obj: Mapping[str, Any],
        status: int,
        warnings: tuple[str, ...],
    ) -> Response:
        shown = self._represent.asked(request, listing=False)
        rendering = self._represent.rendering(shown, resource)
        entry = Entry(obj, revision=self._store.sequencer.current)
        response = Response(status, bodies.JSON_HEADERS, rendering.single(entry), warnings)
        return bodies.encoded(response, shown)


def _deletion_warnings(resource: Resource, options: DeleteOptions) -> tuple[str, ...]:
    if resource.gvr.group_resource == "jobs.batch" and not options.propagation:
        return (strategies.PODS_PRESERVED,)
    return ()


def _scope(target: Target) -> Scope:
    return Scope((target.namespace,)) if target.namespace else Scope()
