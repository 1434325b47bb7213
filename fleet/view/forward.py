"""A call on an object that a member owns, carried to that member and back.

The body is un-projected, the call is sent as the caller (by impersonation) or, for a part of a
fleet workload, as its namespace's dispatcher, and the answer is projected. An object that a write
answers is taken into the merged collection at once, so the next read through the gateway sees it
without waiting for the member's watch.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from fleet.apiserver import bodies
from fleet.errors import (
    ApiError,
    MemberStatus,
    NotFound,
    ServerTimeout,
    TransportError,
    Unavailable,
)
from fleet.kube.options import request_timeout_s
from fleet.kube.paths import path_of
from fleet.kube.wire import Request, Response
from fleet.members.calls import body_of
from fleet.view import crossing, strictness
from fleet.view.parts import PartBodies
from fleet.view.projection import patches
from fleet.view.projection.patches import PatchTarget
from fleet.view.selectors import unproject_field_selector, unproject_label_selector
from fleet.view.world import UNHEARD, silence_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fleet.kube.paths import Target
    from fleet.kube.resources import Resource
    from fleet.kube.revision import Revision
    from fleet.store.entry import Entry
    from fleet.view.intake import Intake
    from fleet.view.projection import Projector
    from fleet.view.world import MemberPort, World

# What a client may say to a member; who it is and how it is connected is the gateway's to say.
_CROSSING_HEADERS = frozenset({
    "accept", "content-type", "user-agent", "kubectl-command", "kubectl-session",
    "upgrade", "connection", "x-stream-protocol-version",
})  # fmt: skip
_WEBSOCKET = "sec-websocket-"
ANSWER_S = 34.0  # for an exchange that is no stream; an API server gives up on a write as late
_SELECTING = frozenset({"labelSelector", "fieldSelector"})


@dataclass(frozen=True, slots=True)
class Call:
    """One request about something in one member.

    `namespace` and `name` are the member's own; the target has the projected ones. `part` says
    that those are of a fleet workload's part.
    """

    request: Request
    target: Target
    resource: Resource
    member: MemberPort
    namespace: str
    name: str
    part: bool = False

    @property
    def path(self) -> str:
        target = self.target
        path = path_of(
            target.gvr,
            namespace=self.namespace,
            name=self.name,
            subresource=target.subresource,
        )
        return path + target.rest

    @property
    def raw_target(self) -> str:
        """The same with the query, escaped as the caller did, where that matters: what is behind a
        proxy is no path of the API. "" elsewhere."""
        rest = self.target.rest
        below = self.request.below(rest).raw_target if rest else ""
        return quote(self.path.removesuffix(rest), safe="/:") + below if below else ""


class Forwarder:
    """Carries calls to members."""

    def __init__(self, world: World, *, answer_s: float = ANSWER_S) -> None:
        """`answer_s`: how long a member may take for what is no stream, and the caller asks for no
        shorter a time."""
        self._world = world
        self._answer_s = answer_s

    async def write(self, call: Call) -> Response:
        """Create, update, patch, delete of an object or a subresource, or of a collection.

        Raises MemberStatus for the member's refusal (names projected), Unavailable when it could
        not be reached or is known to be silent, ServerTimeout when it did not answer in time or
        may or may not have acted.
        """
        projector = self._projector(call)
        warnings: tuple[str, ...] = ()
        if call.target.verb in ("create", "update", "patch"):
            warnings = strictness.check(call.request, call.resource)
        body, content_type = await self._body(call, projector)
        answer = await self._send(call, body=body, content_type=content_type)
        value = await self._value(call, projector, answer)
        await self._take_in(call, value)
        await self._project(call, projector, value)
        warnings += tuple(answer.warnings)
        return Response(answer.status, bodies.JSON_HEADERS, orjson.dumps(value), warnings)

    async def read(self, call: Call) -> dict[str, Any]:
        """GET of an object or subresource, straight from the member; projected."""
        projector = self._projector(call)
        answer = await self._send(call, body=b"", content_type="")
        value = await self._value(call, projector, answer)
        return await self._project(call, projector, value)

    async def stream(self, call: Call) -> Response:
        """Logs, exec, attach, port-forward, proxy: bytes as they come, in both directions.

        An answer that is an error is given back as such, so that a client can fall back to
        another protocol; the member's Status is projected.
        """
        answer = await self._send(call, body=call.request.body, content_type="", raw=True)
        if answer.status < 400 or call.target.subresource == "proxy":
            return answer
        raw = await body_of(answer)
        try:
            status = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return Response(answer.status, answer.headers, raw, answer.warnings)
        if isinstance(status, dict) and status.get("kind") == "Status":
            status = self._projector(call).project_status(status)
        return Response(answer.status, bodies.JSON_HEADERS, orjson.dumps(status), answer.warnings)

    async def exchange(self, call: Call, obj: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a body as it is and return the answer as the member has it: for who knows both.

        Raises as `write`.
        """
        body = b"" if obj is None else orjson.dumps(obj)
        answer = await self._send(call, body=body, content_type="application/json" if body else "")
        return await self._value(call, self._projector(call), answer)

    async def document(self, member: MemberPort, request: Request) -> Response:
        """What the member publishes at this very path; to the caller as it is."""
        kept = ("accept", "accept-encoding", "if-none-match")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        headers |= crossing.headers(request.user)
        sent = Request("GET", request.path, request.query, headers=headers)
        return await member.handler.handle(sent)

    # -- there

    def _projector(self, call: Call) -> Projector | PartBodies:
        projector = self._world.projector(call.member.name, call.target.gvr)
        if projector is None:
            if self._world.unheard([call.member.name]):
                raise Unavailable.member(call.member.name, UNHEARD, retry_after_s=1)
            raise NotFound.path()
        if call.part:
            return self._part(call, projector)
        if call.target.subresource:
            return projector.subresource(call.target.subresource)
        return projector

    def _part(self, call: Call, projector: Projector) -> PartBodies:
        entry = self._entry(call)
        if entry is None:
            gvr = call.target.gvr
            raise NotFound.of(group=gvr.group, resource=gvr.resource, name=call.target.name)
        return PartBodies(
            projector,
            self._world.shards,
            subresource=call.target.subresource,
            name=call.name,
            current=entry.parse(),
        )

    async def _body(self, call: Call, projector: Projector | PartBodies) -> tuple[bytes, str]:
        request, target = call.request, call.target
        revision_of = self._revision_of(call)
        if target.verb in ("delete", "deletecollection"):
            options = bodies.options_of(request)
            if options is None:
                return b"", ""
            projector.unproject_delete_options(options, name=target.name, revision_of=revision_of)
            return orjson.dumps(options), "application/json"
        if target.verb == "patch":
            content_type = request.headers.get("content-type", "")
            if isinstance(projector, PartBodies):
                body = projector.unproject_patch(
                    content_type, request.body, revision_of=revision_of
                )
                return body, content_type
            entry = self._entry(call)
            current: Mapping[str, Any] | None = entry.parse() if entry is not None else None
            if current is None and patches.hangs_on_maps(content_type, request.body):
                current = await self._seen(call)
            patched = PatchTarget(
                namespace=target.namespace,
                name=target.name,
                revision_of=revision_of,
                current=current,
            )
            return patches.unproject(
                projector, content_type, request.body, target=patched
            ), content_type
        kind = projector.resource
        obj = bodies.object_of(request, default=(kind.api_version, kind.kind))
        projector.unproject(
            obj, namespace=target.namespace, name=target.name, revision_of=revision_of
        )
        return orjson.dumps(obj), "application/json"

    async def _seen(self, call: Call) -> Mapping[str, Any] | None:
        """What is patched, where no collection has it; None for who may patch and not look.

        Raises as `read`: what cannot be read for another reason cannot be patched either.
        """
        query = tuple(pair for pair in call.request.query if pair[0] == "timeout")
        try:
            return await self.read(
                replace(call, request=replace(call.request, method="GET", query=query, body=b""))
            )
        except MemberStatus as refusal:
            if refusal.http_code == 403:
                return None
            raise

    async def _send(
        self, call: Call, *, body: bytes, content_type: str, raw: bool = False
    ) -> Response:
        request, member = call.request, call.member
        if why := silence_of(member):
            # It may hold what is sent, and act on it when nobody waits any more.
            raise Unavailable.member(member.name, why)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name in _CROSSING_HEADERS or name.startswith(_WEBSOCKET)
        }
        if not raw:
            headers["accept"] = "application/json"
            headers.pop("content-type", None)
            if content_type:
                headers["content-type"] = content_type
        if call.part:
            headers |= crossing.as_dispatcher(call.namespace, request.user)
        else:
            headers |= crossing.headers(request.user)
        sent = Request(
            request.method,
            call.path,
            self._query(call),
            headers=headers,
            body=body,
            raw_target=call.raw_target,
        )
        within_s = self._answer_s if raw else request_timeout_s(request, limit_s=self._answer_s)
        try:
            if raw:
                return await self._begun(member, sent, within_s)
            async with asyncio.timeout(within_s):
                answer = await member.handler.handle(sent)
                return replace(answer, body=await body_of(answer))
        except TimeoutError as error:
            raise late(member.name, request.method, within_s) from error
        except TransportError as error:
            raise unanswered(member.name, request.method, error) from error

    @staticmethod
    async def _begun(member: MemberPort, sent: Request, within_s: float) -> Response:
        """An answer once it has begun. A log that is followed begins with its first line, however
        long that takes: it is waited for as long as its member is heard of. Raises TimeoutError
        when that was not so for `within_s`."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None
        async with asyncio.timeout(within_s) as limit:

            def heard() -> None:
                nonlocal timer
                if not limit.expired() and not silence_of(member):
                    limit.reschedule(loop.time() + within_s)
                timer = loop.call_later(within_s / 4, heard)

            heard()
            try:
                return await member.handler.handle(sent)
            finally:
                if timer is not None:
                    timer.cancel()

    def _query(self, call: Call) -> tuple[tuple[str, str], ...]:
        query = call.request.query
        if call.target.verb != "deletecollection":
            return query
        translated = []
        for name, value in query:
            if name == "fieldSelector":
                value = unproject_field_selector(value, call.resource, call.member.name)
            elif name == "labelSelector":
                value = unproject_label_selector(value, call.member.name)
            translated.append((name, value))
        return tuple(translated)

    def _entry(self, call: Call) -> Entry | None:
        merged = self._world.running(call.target.gvr)
        if merged is None:
            return None
        return merged.collection.get(call.target.namespace, call.target.name)

    def _revision_of(self, call: Call) -> Callable[[Revision], str | None]:
        """The member's revision that this object had at a fleet revision, from the cache."""
        entry = self._entry(call)

        key = (call.target.gvr, call.target.namespace, call.target.name)

        def revision_of(revision: Revision) -> str | None:
            if entry is not None and entry.revision == revision:
                return str(entry.member_revision)
            return self._world.glimpses.member_revision(key, revision)

        return revision_of

    # -- and back

    async def _value(
        self, call: Call, projector: Projector | PartBodies, answer: Response
    ) -> dict[str, Any]:
        raw = await body_of(answer)
        try:
            value = orjson.loads(raw)
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            value = {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure" if answer.status >= 400 else "Success",
                "message": raw[:256].decode(errors="replace"),
                "code": answer.status,
            }
        if answer.status == 401:
            # it is the gateway that is not known there; the caller's own credentials are good
            why = f"it does not accept the fleet's credentials ({value.get('message', '')})"
            raise Unavailable.member(call.member.name, why)
        if answer.status >= 400:
            raise MemberStatus(projector.project_status(value), warnings=answer.warnings)
        return value

    def _intake(self, call: Call) -> Intake | None:
        merged = self._world.running(call.target.gvr)
        source = merged.sources.get(call.member.name) if merged is not None else None
        return source.intake if source is not None else None

    async def _take_in(self, call: Call, value: dict[str, Any]) -> None:
        """Make what the write did visible before it is answered."""
        target = call.target
        intake = self._intake(call)
        if intake is None or _dry_run(call.request, target.verb):
            return
        if target.verb == "deletecollection":
            await self._take_out(call, intake, value.get("items") or ())
        elif target.verb == "delete" and not target.subresource and _is_gone(value):
            details = value.get("details") or {}
            uid = (value.get("metadata") or {}).get("uid") or details.get("uid") or ""
            await intake.gone(target.namespace, target.name, uid=uid)
        elif value.get("kind") == call.resource.kind and "metadata" in value:
            if target.verb in ("update", "patch") and _is_finished(value):
                await intake.gone(target.namespace, target.name, uid=value["metadata"]["uid"])
            else:
                await intake.written(orjson.loads(orjson.dumps(value)))

    async def _take_out(self, call: Call, intake: Intake, items: Iterable[Any]) -> None:
        """Of the objects that a collection's deletion answers – as they were before it – take out
        those that are gone; the others, which wait for something, are taken in as they are now."""
        kind = {"kind": call.resource.kind, "apiVersion": call.resource.api_version}
        doomed = {intake.key(item): item["metadata"].get("uid", "") for item in items}
        if not doomed:
            return
        query = tuple(pair for pair in call.request.query if pair[0] in _SELECTING)
        asking = replace(call, request=replace(call.request, method="GET", query=query, body=b""))
        try:
            answer = await self._send(asking, body=b"", content_type="")
            value = await self._value(call, self._projector(call), answer)
        except ApiError:
            return  # the deletion stands; the member's watch tells of it
        for item in value.get("items") or ():
            doomed.pop(intake.key(item), None)
            await intake.written(kind | item)
        for (namespace, name), uid in doomed.items():
            await intake.gone(namespace, name, uid=uid)

    async def _project(
        self, call: Call, projector: Projector | PartBodies, value: dict[str, Any]
    ) -> dict[str, Any]:
        kind = value.get("kind")
        if kind == "Status":
            return projector.project_status(value)
        if isinstance(items := value.get("items"), list) and str(kind).endswith("List"):
            for item in items:
                projector.project(item, revision=await self._revision_at(call, item))
            value["metadata"] = {"resourceVersion": str(self._world.sequencer.current)}
            return value
        return projector.project(value, revision=await self._revision_at(call, value))

    async def _revision_at(self, call: Call, value: Mapping[str, Any]) -> Revision:
        """The fleet revision of what a member answered."""
        metadata = value.get("metadata") or {}
        told, name = metadata.get("resourceVersion"), metadata.get("name")
        if not told or not name:
            return self._world.sequencer.current
        projector = self._world.projector(call.member.name, call.target.gvr)
        assert projector is not None
        key = projector.key({"metadata": metadata})
        if call.part:
            key = (call.target.namespace, call.target.name)
        return await self._world.revision_at(call.target.gvr, key, told)


def unanswered(member: str, method: str, error: TransportError) -> Unavailable | ServerTimeout:
    """The error for a call that a member did not answer: what is known of its effect is said."""
    if method in ("GET", "HEAD") or not error.sent:
        return Unavailable.member(member, str(error))
    return ServerTimeout(
        f"member {member} broke off before it answered ({error}): whether the change was made is "
        "not known, look before you repeat it"
    )


def late(member: str, method: str, within_s: float) -> ServerTimeout:
    """The error for a call that was given up when its time was over."""
    effect = (
        "nothing was changed there, try again"
        if method in ("GET", "HEAD")
        else "whether the change was made is not known, look before you repeat it"
    )
    return ServerTimeout(
        f"Timeout: request did not complete within requested timeout: member {member} has not "
        f"answered within {within_s:g} s; {effect}"
    )


def _dry_run(request: Request, verb: str) -> bool:
    if request.param("dryRun") is not None:
        return True
    if verb in ("delete", "deletecollection") and request.body:
        options = bodies.options_of(request) or {}
        return bool(options.get("dryRun"))
    return False


def _is_gone(value: Mapping[str, Any]) -> bool:
    """Whether the answer to a DELETE says that the object is there no more."""
    if value.get("kind") == "Status":
        return value.get("status") == "Success"
    metadata = value.get("metadata") or {}
    if not metadata.get("deletionTimestamp"):
        return True
    return metadata.get("deletionGracePeriodSeconds") == 0 and not metadata.get("finalizers")


def _is_finished(value: Mapping[str, Any]) -> bool:
    """Whether a write took away the last thing that a deletion waited for: the member answers the
    object once more, and has removed it."""
    metadata = value.get("metadata") or {}
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    spec = value.get("spec") or {}
    return not (value.get("kind") == "Namespace" and spec.get("finalizers"))
