"""The three roots: what a path below each means and who answers it.

`/` is the merged view: a namespace or cluster-scoped name that ends in a member's name is that
member's, anything else the fleet's own. `/clusters/NAME/` is a member as it is. `/fleet/` is the
fleet's own store alone. Each root is a `Handler`; `edge` has authenticated the caller and cut the
root's prefix off the path.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fleet.apiserver import bodies
from fleet.apiserver.documents import shell_v2
from fleet.apiserver.reading import Scope
from fleet.errors import (
    ApiError,
    BadRequest,
    Cause,
    Details,
    Invalid,
    MethodNotAllowed,
    NotFound,
    TransportError,
)
from fleet.gateway.subresources import PODS, pod_in
from fleet.kube import paths
from fleet.kube.options import request_timeout_s
from fleet.view import crossing, naming
from fleet.view.forward import Call, late, unanswered
from fleet.view.reads import Read

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.apiserver.documents import Documents
    from fleet.gateway.subresources import PodSubresources
    from fleet.kube.paths import Target
    from fleet.kube.resources import Resource
    from fleet.kube.wire import Handler, Request, Response
    from fleet.view.forward import Forwarder
    from fleet.view.reads import Reads
    from fleet.view.world import MemberPort, World

_STREAMED = frozenset({"log", "exec", "attach", "portforward", "proxy"})
# Reviews are asked of whoever decides about the namespace they name.
_REVIEWS = frozenset({"authorization.k8s.io", "authentication.k8s.io"})


class MergedRoot:
    """`/`: one API over all members and the fleet's own objects."""

    def __init__(
        self,
        world: World,
        *,
        documents: Documents,
        reads: Reads,
        forwarder: Forwarder,
        own: Handler,
        pods: PodSubresources,
    ) -> None:
        """`own` answers everything about the fleet's own objects but what its Pods' members do:
        that is for `pods`."""
        self._world = world
        self._documents = documents
        self._reads = reads
        self._forwarder = forwarder
        self._own = own
        self._pods = pods

    async def handle(self, request: Request) -> Response:
        answer = await self._documents.answer(request)
        if answer is not None:
            return answer
        if request.path == "/openapi/v2" and request.method == "GET":
            return await self._openapi_v2(request)
        target = paths.parse_target(request.method, request.path, request.query)
        resource = self._world.resource(target.gvr) if target is not None else None
        if target is None or resource is None:
            raise NotFound.path()
        paths.check(target, resource)
        if target.gvr.group in _REVIEWS:
            return await self._review(request, target, resource)
        if target.verb in ("list", "watch") and not target.subresource:
            return await self._collection(request, target, resource)
        if target.namespace and naming.union_of(target.namespace):
            raise MethodNotAllowed(
                f'"{target.namespace}" is a union of namespaces and read-only: name one of them, '
                f"{target.namespace[:-2]} or {target.namespace[:-1]}MEMBER"
            )
        call = self._call(request, target, resource) or self._part(request, target, resource)
        if call is None:
            answer = await self._pods.answer(request, target, resource)
            return answer or await self._fleet(request, target, resource)
        return await self._member(call)

    async def _openapi_v2(self, request: Request) -> Response:
        """A member's document, of the members' kinds alone, or one without any: clients that read
        version 3 come here only for kinds that cannot be patched, which are the same everywhere."""
        for name in sorted(self._world.members):
            try:
                answer = await self._forwarder.document(self._world.members[name], request)
            except (ApiError, TransportError):
                continue
            if answer.status in (200, 304):
                return answer
            await answer.aclose()
        return shell_v2(request)

    # -- whose it is

    def _call(self, request: Request, target: Target, resource: Resource) -> Call | None:
        """The call to the member that owns what the target names; None for the fleet's own."""
        members = self._world.members
        if resource.namespaced:
            namespace, member = naming.split_namespace(target.namespace, members)
            name = target.name
        else:
            named = target.name
            if target.verb == "create" and not target.name:
                named = self._name_in(request, resource)
            name, member = naming.split_name(named, members)
            if target.verb == "create" and target.gvr.group_resource == "namespaces":
                naming.split_namespace(named, members)  # says which member may have been meant
            namespace = ""
            if not target.name:
                name = ""
        if member is None:
            return None
        return Call(request, target, resource, members[member], namespace, name)

    def _part(self, request: Request, target: Target, resource: Resource) -> Call | None:
        """The call to the member that has a part of a fleet workload: `train-0-x7k2p.east` in the
        fleet's `payments`. None where there is no such part."""
        world = self._world
        name, member = naming.split_name(target.name, world.members)
        if member is None or member not in world.shards.hosts(target.namespace):
            return None
        merged = world.running(target.gvr)
        entry = merged.collection.get(target.namespace, target.name) if merged else None
        if entry is None:
            # It may be on its way here. Only what is known to be a part is acted on: anything
            # else of that name is the member's own.
            if merged is None or target.verb != "get" or target.subresource:
                return None
        elif entry.member != member:
            return None
        # A shard stands in the member's namespace of the same name.
        return Call(
            request, target, resource, world.members[member], target.namespace, name, part=True
        )

    @staticmethod
    def _name_in(request: Request, resource: Resource) -> str:
        """The name in the body of a create, which alone says whose object it will be."""
        obj = _object_of(request, resource)
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return name if isinstance(name, str) else ""

    # -- reading

    async def _collection(self, request: Request, target: Target, resource: Resource) -> Response:
        scope, members = self._scope(target, resource)
        read = Read(request, target, resource, scope, members)
        if target.verb == "watch":
            return await self._reads.watch_objects(read)
        response = await self._reads.list_objects(read)
        if text := request.param("labelSelector"):
            response.warnings += naming.label_hint(text, self._world.members)
        return response

    def _scope(self, target: Target, resource: Resource) -> tuple[Scope, tuple[str, ...] | None]:
        namespace = target.namespace
        if not namespace or not resource.namespaced:
            return Scope(), None
        world = self._world
        union = naming.union_of(namespace)
        if union is not None:
            every = sorted([union, *(naming.join(union, name) for name in world.members)])
            # a member that joins brings its namespace into an open watch
            return Scope(tuple(every), grows=lambda n: n.rpartition(".")[0] == union), None
        _, member = naming.split_namespace(namespace, world.members)
        if member is None:
            return Scope((namespace,)), tuple(sorted(world.shards.hosts(namespace)))
        return Scope((namespace,)), (member,)

    async def _member(self, call: Call) -> Response:
        target = call.target
        if target.subresource in _STREAMED:
            return await self._forwarder.stream(call)
        if target.verb == "create" and not target.subresource:
            self._refuse_fleets_own(call)
        if target.verb != "get":
            return await self._forwarder.write(call)
        scope = Scope((target.namespace,)) if call.resource.namespaced else Scope()
        read = Read(call.request, target, call.resource, scope, (call.member.name,))
        if target.subresource:
            return self._reads.shown(await self._forwarder.read(call), read)
        direct = None if call.part else lambda: self._forwarder.read(call)
        return await self._reads.get_object(read, direct=direct)

    def _refuse_fleets_own(self, call: Call) -> None:
        """Raises Invalid for a new object of a kind that the fleet has, in a member that has not:
        what was meant is the fleet's namespace."""
        gvr, member = call.target.gvr, call.member.name
        heard = not self._world.unheard((member,))
        if not heard or self._world.projector(member, gvr) or not self._world.owned(gvr):
            return
        namespaced = call.resource.namespaced
        field = "metadata.namespace" if namespaced else "metadata.name"
        given = call.target.namespace if namespaced else naming.join(call.name, member)
        where = f"-n {call.namespace}" if namespaced else call.name or "NAME"
        why = (
            f"{member} has no {gvr.group_resource}, they are the fleet's own; to create it in the "
            f"fleet: {where}"
        )
        cause = Cause("FieldValueInvalid", f'Invalid value: "{given}": {why}', field)
        name = self._name_in(call.request, call.resource) if call.request.body else ""
        raise Invalid.of(group=gvr.group, kind=call.resource.kind, name=name, causes=[cause])

    # -- the fleet's own

    async def _fleet(self, request: Request, target: Target, resource: Resource) -> Response:
        if target.verb == "get" and not target.subresource:
            scope = Scope((target.namespace,)) if resource.namespaced else Scope()
            read = Read(request, target, resource, scope, ())
            return await self._reads.get_object(read, direct=None)
        if not self._world.owned(target.gvr):
            raise self._name_a_member(request, target, resource)
        if target.gvr == PODS and target.subresource in _STREAMED:
            # Of a Pod that is there `pods` has answered.
            name = pod_in(target.name) if target.subresource == "proxy" else target.name
            raise self._reads.missing(replace(target, name=name))
        try:
            return await self._own.handle(request)
        except NotFound as error:
            if error.details != _details(target):
                raise
            raise self._reads.missing(target) from error

    def _name_a_member(self, request: Request, target: Target, resource: Resource) -> ApiError:
        """The refusal of a write to a kind that only members have, outside of any member."""
        members = sorted(self._world.members)
        example = members[0] if members else "MEMBER"
        name = target.name or (self._name_in(request, resource) if request.body else "")
        if resource.namespaced:
            field, given = "metadata.namespace", target.namespace
            how = f"-n {naming.join(given or 'NAMESPACE', example)}"
        else:
            field, given = "metadata.name", name
            how = naming.join(given or "NAME", example)
        other = self._world.other_version(target.gvr)
        what = target.gvr.group_resource
        has = f"has its own {what} in {other} alone" if other else f"has no {what} of its own"
        why = f"the fleet {has}; name a member: {how}"
        if target.verb == "create" and not target.name:
            cause = Cause("FieldValueInvalid", f'Invalid value: "{given}": {why}', field)
            return Invalid.of(group=target.gvr.group, kind=resource.kind, name=name, causes=[cause])
        if target.name:
            return self._reads.missing(target)
        return BadRequest(why)

    # -- reviews

    async def _review(self, request: Request, target: Target, resource: Resource) -> Response:
        namespace = target.namespace or _reviewed_namespace(_object_of(request, resource))
        members = self._world.members
        if not namespace or "." not in namespace:
            return await self._own.handle(request)
        _, member = naming.split_namespace(namespace, members)
        if member is None:
            return await self._own.handle(request)
        inside, _ = naming.split_namespace(target.namespace, members)
        return await self._forwarder.write(
            Call(request, target, resource, members[member], inside, target.name)
        )


class MemberRoot:
    """`/clusters/NAME/`: one member as it is; every verb and every byte crosses unchanged."""

    def __init__(self, member: Callable[[str], MemberPort | None]) -> None:
        self._member = member

    async def handle(self, request: Request) -> Response:
        """The path begins with the member's name: `/east/api/v1/pods`."""
        name, _, rest = request.path.removeprefix("/").partition("/")
        member = self._member(name)
        if member is None:
            raise NotFound.of(group="fleet.dev", resource="clusters", name=name)
        headers = {
            key: value
            for key, value in request.headers.items()
            if not key.startswith("impersonate-")
        }
        sent = replace(request.below("/" + rest), headers=headers | crossing.headers(request.user))
        target = paths.parse_target(sent.method, sent.path, sent.query)
        within_s = None
        if target is not None:
            if target.verb != "watch" and target.subresource not in _STREAMED:
                within_s = request_timeout_s(request)
        try:
            async with asyncio.timeout(within_s):
                return await member.handler.handle(sent)
        except TimeoutError as error:
            raise late(name, request.method, within_s or 0.0) from error
        except TransportError as error:
            raise unanswered(name, request.method, error) from error


def _details(target: Target) -> Details:
    return Details(group=target.gvr.group, kind=target.gvr.resource, name=target.name)


def _object_of(request: Request, resource: Resource) -> dict[str, Any]:
    return bodies.object_of(request, default=(resource.api_version, resource.kind))


def _reviewed_namespace(review: dict[str, Any]) -> str:
    spec = review.get("spec")
    if not isinstance(spec, dict):
        return ""
    attributes = spec.get("resourceAttributes")
    if isinstance(attributes, dict):
        namespace = attributes.get("namespace")
    else:
        namespace = spec.get("namespace")  # SelfSubjectRulesReview
    return namespace if isinstance(namespace, str) else ""
