"""Logs, exec, eviction and the like of the fleet's own Pods: served where they run, in a member.

A fleet Pod has one shard, and what is asked of its process goes there as the namespace's
dispatcher. Names in refusals are the fleet's. Before there is a shard that may run, the answer is
the one for a pod that no scheduler has placed, and says why it waits.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from fleet.apiserver import bodies, refusals
from fleet.errors import BadRequest, Conflict, MemberStatus
from fleet.kube.options import PatchOptions
from fleet.kube.patch import apply_patch
from fleet.kube.paths import path_of
from fleet.kube.resources import GroupVersionResource
from fleet.kube.schema import FieldValidation, schema_for
from fleet.kube.wire import Response
from fleet.view.forward import Call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.kube.paths import Target
    from fleet.kube.resources import Resource
    from fleet.kube.wire import Handler, Request
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore
    from fleet.view.forward import Forwarder
    from fleet.view.world import World

Object = dict[str, Any]

PODS: Final = GroupVersionResource("", "v1", "pods")
_STREAMED: Final = frozenset({"log", "exec", "attach", "portforward", "proxy"})
_EDITED: Final = frozenset({"ephemeralcontainers", "resize"})
_EVICTION: Final = "eviction"
_ENDED: Final = ("Succeeded", "Failed")
_CONTAINERS: Final = ("initContainers", "containers")


class PodSubresources:
    """Answers for the fleet's own Pods."""

    def __init__(
        self,
        world: World,
        store: ObjectStore,
        *,
        forwarder: Forwarder,
        own: Handler,
        patience_s: float = 5.0,
    ) -> None:
        """`own` serves the Pods themselves. A stream waits for `patience_s` at most while its Pod
        is being placed: a client that has just made it asks at once."""
        self._world = world
        self._store = store
        self._forwarder = forwarder
        self._own = own
        self._patience_s = patience_s

    async def answer(self, request: Request, target: Target, resource: Resource) -> Response | None:
        """The answer; None where it is the store's to give, or there is no such Pod."""
        subresource = target.subresource
        if target.gvr != PODS or subresource not in _STREAMED | _EDITED | {_EVICTION}:
            return None
        name = pod_in(target.name) if subresource == "proxy" else target.name
        entry = self._world.own(PODS).get(target.namespace, name)
        if entry is None:
            return None
        if subresource == _EVICTION and not self._runs(entry):
            return await self._delete(request, entry)
        if subresource in _EDITED and target.verb == "get":
            return await self._own.handle(replace(request, path=_path(entry)))
        call = await self._call(request, target, resource, entry)
        try:
            if subresource in _STREAMED:
                return await self._stream(call, entry)
            if subresource == _EVICTION:
                return await self._evict(call, entry)
            return await self._edit(call, resource, entry)
        except MemberStatus as error:
            renamed = _renamed(error.status, call, entry)
            raise MemberStatus(renamed, warnings=error.warnings) from error

    # -- where it runs

    async def _call(
        self, request: Request, target: Target, resource: Resource, entry: Entry
    ) -> Call:
        """The call to the member in which the Pod runs. Raises BadRequest while it runs in none."""
        name = entry.name
        if target.subresource in _STREAMED:
            entry = await self._placed(entry)
        seat = self._world.shards.seat("Pod", entry.namespace, name, entry.uid)
        if seat is None:
            raise BadRequest(f"pod {name} does not have a host assigned{_because(entry)}")
        member = self._world.members.get(seat.member)
        if member is None:
            raise BadRequest(
                f"pod {name} cannot be reached: {seat.member}, where it was placed, is no member "
                "of the fleet any more"
            )
        there = target.name.replace(name, seat.name, 1)
        # The target names the Pod itself: ports and schemes of a proxy are the member's to read.
        plain = replace(target, name=name)
        return Call(request, plain, resource, member, entry.namespace, there, part=True)

    async def _placed(self, entry: Entry) -> Entry:
        """The Pod once it has a place, or as it is when it is told that it has to wait."""
        changed = asyncio.Event()
        pods = self._world.own(PODS)
        unfollow = pods.follow(lambda _: changed.set())
        try:
            async with asyncio.timeout(self._patience_s):
                while self._is_on_its_way(entry):
                    await changed.wait()
                    changed.clear()
                    entry = pods.get(entry.namespace, entry.name) or entry
        except TimeoutError:
            pass
        finally:
            unfollow()
        return entry

    def _is_on_its_way(self, entry: Entry) -> bool:
        if self._world.shards.seat("Pod", entry.namespace, entry.name, entry.uid) is not None:
            return False
        waits = _condition(entry.parse(), "PodScheduled")
        return waits is None or waits.get("reason") == "Holding"

    def _runs(self, entry: Entry) -> bool:
        """Whether there is something of it that an eviction could end."""
        if (entry.parse().get("status") or {}).get("phase") in _ENDED:
            return False
        return self._world.shards.seat("Pod", entry.namespace, entry.name, entry.uid) is not None

    # -- what is asked

    async def _stream(self, call: Call, entry: Entry) -> Response:
        answer = await self._forwarder.stream(call)
        if answer.status < 400 or not isinstance(answer.body, bytes):
            return answer
        try:
            status = orjson.loads(answer.body)
        except orjson.JSONDecodeError:
            return answer
        if isinstance(status, dict) and status.get("kind") == "Status":
            answer.body = orjson.dumps(_renamed(status, call, entry))
        return answer

    async def _evict(self, call: Call, entry: Entry) -> Response:
        """The member decides, by its own disruption budgets; the Pod goes when its shard does."""
        kind = ("policy/v1", "Eviction")
        body = bodies.object_of(call.request, default=kind)
        options = body.get("deleteOptions")
        if isinstance(options, dict):
            _check_preconditions(options.pop("preconditions", None) or {}, entry)
        body["metadata"] = {"name": call.name, "namespace": call.namespace}
        answer = await self._forwarder.exchange(call, body)
        return Response(201, bodies.JSON_HEADERS, orjson.dumps(_renamed(answer, call, entry)))

    async def _delete(self, request: Request, entry: Entry) -> Response:
        """Nothing of it runs, so that its deletion disrupts nothing."""
        body = bodies.object_of(request, default=("policy/v1", "Eviction"))
        options = body.get("deleteOptions") or {}
        content = orjson.dumps({"apiVersion": "v1", "kind": "DeleteOptions", **options})
        await self._own.handle(replace(request, method="DELETE", path=_path(entry), body=content))
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return Response(201, bodies.JSON_HEADERS, orjson.dumps({**status, "code": 201}))

    async def _edit(self, call: Call, resource: Resource, entry: Entry) -> Response:
        """Change what only a subresource may change: there first, then here."""
        subresource, wanted = call.target.subresource, _edited(call.request, entry)
        given = (wanted.get("metadata") or {}).get("resourceVersion") or ""
        refusals.check_update(resource, entry, revision=given)
        reading = replace(
            call,
            request=replace(call.request, method="GET", query=(), body=b""),
            target=replace(call.target, subresource="", verb="get"),
        )
        pod = await self._forwarder.exchange(reading)
        _take_over(subresource, wanted["spec"], pod["spec"])
        writing = replace(
            call,
            request=replace(call.request, method="PUT"),
            target=replace(call.target, verb="update"),
        )
        made = await self._forwarder.exchange(writing, pod)
        if not PatchOptions.parse(call.request, apply=False).dry_run:

            def change(obj: Object) -> Object | None:
                if obj["metadata"]["uid"] != entry.uid:
                    return None
                _take_over(subresource, made["spec"], obj["spec"])
                return obj

            await self._store.rewrite(
                resource, namespace=entry.namespace, name=entry.name, change=change
            )
        return await self._own.handle(
            replace(call.request, method="GET", path=_path(entry), query=(), body=b"")
        )


def _edited(request: Request, entry: Entry) -> Object:
    """The Pod as the caller wants it."""
    if request.method != "PATCH":
        return bodies.object_of(request, default=("v1", "Pod"))
    options = PatchOptions.parse(request, apply=False)
    return apply_patch(
        request.headers.get("content-type", ""),
        entry.parse(),
        request.body,
        schema=schema_for("", "v1", "Pod"),
        validation=FieldValidation(options.field_validation),
        warn=lambda _: None,
    )


def _take_over(subresource: str, wanted: Mapping[str, Any], spec: Object) -> None:
    """Bring one spec to what another says of the subresource's fields."""
    if subresource == "ephemeralcontainers":
        spec["ephemeralContainers"] = wanted.get("ephemeralContainers") or []
        return
    for field in _CONTAINERS:
        resources = {each["name"]: each.get("resources") for each in wanted.get(field) or ()}
        for container in spec.get(field) or ():
            if (asked := resources.get(container["name"])) is not None:
                container["resources"] = asked


def _check_preconditions(preconditions: Mapping[str, Any], entry: Entry) -> None:
    """Raises Conflict where they speak of another Pod, or of another state of it."""
    uid, revision = preconditions.get("uid"), preconditions.get("resourceVersion")
    if uid not in (None, entry.uid) or revision not in (None, str(entry.revision)):
        raise Conflict(
            f'Operation cannot be fulfilled on pods "{entry.name}": the preconditions '
            f"({dict(preconditions)}) are not those of the object that is there"
        )


def _renamed(status: Mapping[str, Any], call: Call, entry: Entry) -> Object:
    """A Status of the member that speaks of the fleet's Pod."""
    there = call.name.rpartition(":")[0] or call.name
    there = there.removeprefix("http:").removeprefix("https:")
    changed = dict(status)
    if isinstance(message := changed.get("message"), str):
        changed["message"] = message.replace(there, entry.name)
    details = changed.get("details")
    if isinstance(details, dict) and details.get("name") == there:
        changed["details"] = {**details, "name": entry.name}
    return changed


def pod_in(text: str) -> str:
    """The Pod's name in `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`."""
    parts = text.split(":")
    return parts[1] if len(parts) == 3 else parts[0]


def _because(entry: Entry) -> str:
    waits = _condition(entry.parse(), "PodScheduled")
    message = (waits or {}).get("message")
    return f": {message}" if message else ": it is being placed"


def _condition(pod: Mapping[str, Any], kind: str) -> Object | None:
    """A condition that is False."""
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == kind and each.get("status") == "False":
            return dict(each)
    return None


def _path(entry: Entry) -> str:
    return path_of(PODS, namespace=entry.namespace, name=entry.name)
