"""One cluster of the fleet: the way to it, what it serves, how it is, and its watches.

A member is a `Handler`; whoever speaks to it meets `ApiError` and `TransportError` only, the
latter with the member's name. Its tasks live in `run`. Invariant: a member that cannot be reached
is kept with everything that was known of it. Next step: `fleet.view` starts watches and reads
the catalogue.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from fleet.errors import ApiError, ConfigError, TransportError, Unauthorized
from fleet.members import calls, health, metrics
from fleet.members.definitions import CRDS, Definitions, Tap
from fleet.members.discovery import Discovery
from fleet.members.openapi import OpenAPI
from fleet.members.reflector import Pace, Reflector
from fleet.members.transport import ForeignClusterError, Transport, Verified

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping
    from random import Random

    from fleet.kube.discovery import Catalogue
    from fleet.kube.resources import Resource
    from fleet.kube.wire import Handler, Request, Response
    from fleet.members.sink import Sink

log = logging.getLogger(__name__)

News = Literal["served", "schemas", "health"]
_READYZ = "/readyz"
_AFTER_CHANGE_S = (0.25, 1.0, 3.0)  # an API server takes a moment to serve what a CRD defines


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often a member is looked at, in seconds."""

    probe_every_s: float = 3.0
    probe_s: float = 3.0
    """For one health check, and for the proof of all watches."""
    discover_every_s: float = 30.0
    pace: Pace = field(default_factory=Pace)
    patience: health.Patience = field(default_factory=health.Patience)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every member shares."""

    clock: Callable[[], float]
    """Monotonic seconds."""
    wall: Callable[[], float]
    """Seconds since the epoch."""
    random: Random
    rhythm: Rhythm
    schemas: MutableMapping[str, bytes]
    """OpenAPI documents by hashed URL."""


class Watch:
    """A running reflector, and how to end it."""

    def __init__(self, reflector: Reflector, task: asyncio.Task[None]) -> None:
        self.reflector = reflector
        self._task = task

    @property
    def synced(self) -> asyncio.Event:
        return self.reflector.synced

    @property
    def failure(self) -> str:
        return self.reflector.failure

    @property
    def last_contact_s(self) -> float:
        return self.reflector.last_contact_s

    @property
    def running(self) -> bool:
        return not self._task.done()

    async def confirm(self, deadline_s: float, *, within_s: float = 1.0) -> bool:
        """See `fleet.members.freshness.Freshness.confirm`."""
        return await self.reflector.confirm(deadline_s, within_s=within_s)

    async def reached(self, revision: int, deadline_s: float) -> bool:
        """See `fleet.members.freshness.Freshness.reached`."""
        return await self.reflector.reached(revision, deadline_s)

    async def stop(self) -> None:
        """End it; the sink gets nothing more once this returns."""
        self._task.cancel()
        await asyncio.wait({self._task})


class Member:
    """A cluster that joined as `name` and has the UID `uid`."""

    def __init__(
        self,
        name: str,
        *,
        uid: str,
        transport: Transport,
        verified: bool,
        surroundings: Surroundings,
        tell: Callable[[Member, News], None],
    ) -> None:
        """`verified`: the transport was just seen to lead to the cluster with this UID."""
        self.name = name
        self.uid = uid
        self.health = health.Health.begun(surroundings.wall())
        self.definitions = Definitions()
        self.discovery = Discovery(self, self.definitions)
        self.openapi = OpenAPI(self, surroundings.schemas)
        self.started = asyncio.Event()
        self._to = surroundings
        self._tell = tell
        self._cluster = Verified(transport, uid=uid, verified=verified, clock=surroundings.clock)
        self._watches: set[Watch] = set()
        self._group: asyncio.TaskGroup | None = None
        self._look = asyncio.Event()
        self._discover = asyncio.Event()
        self.definitions.changed = self._discover.set

    # -- what others ask

    @property
    def handler(self) -> Handler:
        """Requests to the member, names as it has them: the member itself."""
        return self

    @property
    def catalogue(self) -> Catalogue:
        """What it serves; the last known, marked stale, while it cannot be asked."""
        return self.discovery.catalogue

    @property
    def version(self) -> str:
        """`gitVersion` of its API server, "" while it has never been asked."""
        return self.discovery.version

    @property
    def conditions(self) -> Mapping[health.Truth, health.Condition]:
        return self.health.conditions

    def observe(self, observation: health.Observation) -> None:
        """Take in an observation; tells when a condition changed."""
        before = self.health
        self.health = health.observe(
            before, observation, now=self._to.wall(), patience=self._to.rhythm.patience
        )
        if self.health.conditions != before.conditions:
            metrics.READY.labels(self.name).set(self.health.ready)
            self._tell(self, "health")

    async def handle(self, request: Request) -> Response:
        """The member's answer. Raises ApiError, and TransportError with the member's name."""
        try:
            return await self._cluster.handle(request)
        except (ConfigError, Unauthorized) as error:
            # of the gateway's own credentials: no caller is to take it for a word about theirs
            self._look.set()
            raise TransportError(str(error), member=self.name, sent=False) from error
        except TransportError as error:
            self._look.set()
            error.member = self.name
            raise

    def watch(self, resource: Resource, sink: Sink) -> Watch:
        """Begin to feed `sink` with the objects of a resource. Only while `run` runs."""
        if self._group is None:
            raise RuntimeError(f"member {self.name} is not running")
        reflector = Reflector(
            member=self.name,
            handler=self,
            resource=resource,
            sink=Tap(sink, self.definitions) if resource.gvr == CRDS else sink,
            random=self._to.random,
            clock=self._to.clock,
            pace=self._to.rhythm.pace,
        )
        name = f"watch {self.name}/{resource.gvr.group_resource}"
        task = self._group.create_task(reflector.run(), name=name)
        watch = Watch(reflector, task)
        self._watches.add(watch)
        task.add_done_callback(lambda _: self._watches.discard(watch))
        return watch

    async def reconnect(self, transport: Transport) -> None:
        """Go on over another transport to the same cluster."""
        await self._cluster.swap(transport)
        self._wake()

    # -- its own tasks

    async def run(self) -> None:
        """Look after the member until cancelled; closes the transport in the end."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._looking(), name=f"health of {self.name}")
                group.create_task(self._discovering(), name=f"discovery of {self.name}")
                self.started.set()
        finally:
            self._group = None
            await self._cluster.transport.aclose()

    async def _looking(self) -> None:
        rhythm = self._to.rhythm
        while True:
            try:
                await self._check()
                await self._prove()
            except Exception:
                log.exception("%s: the health check failed", self.name)
            await _either(self._look, rhythm.probe_every_s)
            # A failing request wakes the check; a hail of them must not make one of checks.
            await asyncio.sleep(rhythm.probe_every_s / 10)
            self._look.clear()

    async def _check(self) -> None:
        was_reached = self.health["Reachable"].status == "True"
        self.observe(await self._answer())
        if not was_reached and self.health["Reachable"].status == "True":
            self._wake()
        ends_at = self._cluster.transport.credentials_expire_at
        self.observe(health.CredentialEnds(ends_at.timestamp() if ends_at else None))

    async def _answer(self) -> health.Observation:
        try:
            await calls.get(self._cluster, _READYZ, timeout_s=self._to.rhythm.probe_s, parse=False)
        except ForeignClusterError as error:
            return health.Foreign(str(error))
        except TransportError as error:
            return health.Unreached(str(error))
        except ConfigError as error:
            return health.NoCredential(str(error))
        except ApiError as error:
            if error.http_code == 401:
                return health.Refused(str(error))
            # Not allowed to ask, or not served: it answered, that is all there is to know.
            return health.Answered(ready=error.http_code in (403, 404), message=str(error))
        return health.Answered()

    async def _prove(self) -> None:
        """Have every open watch proven, and say which was not."""
        # One that is taking in its first list is neither fresh nor stale yet.
        watches = sorted(
            (watch for watch in self._watches if watch.synced.is_set() or watch.failure),
            key=lambda watch: watch.reflector.resource.gvr,
        )
        if not watches:
            return
        rhythm = self._to.rhythm
        deadline_s = self._to.clock() + rhythm.probe_s
        async with asyncio.TaskGroup() as group:
            proofs = [
                group.create_task(
                    watch.confirm(deadline_s, within_s=rhythm.probe_every_s), name="proof"
                )
                for watch in watches
            ]
        doubtful = [
            watch
            for watch, proof in zip(watches, proofs, strict=True)
            if watch.running and not proof.result()
        ]
        message = "; ".join(
            f"{watch.reflector.resource.gvr.group_resource}: {watch.failure or 'no proof in time'}"
            for watch in doubtful[:3]
        )
        if len(doubtful) > 3:
            message += f"; and {len(doubtful) - 3} more"
        self.observe(health.Watched(not doubtful, message))

    def _wake(self) -> None:
        """The member is back: everything that waits for it is tried at once."""
        self._discover.set()
        for watch in self._watches:
            watch.reflector.freshness.retry.set()

    async def _discovering(self) -> None:
        soon = iter(_AFTER_CHANGE_S)
        while True:
            self._discover.clear()
            try:
                changed = await self.discover()
                if await self.openapi.refresh(served=self.discovery.documents()):
                    self._tell(self, "schemas")
            except (ApiError, TransportError) as error:
                log.debug("%s: discovery: %s", self.name, error)
                changed = self.discovery.mark_stale()
            except Exception:
                log.exception("%s: discovery failed", self.name)
                changed = False
            if changed:
                self._tell(self, "served")
                soon = iter(_AFTER_CHANGE_S)
            wait_s = self._to.rhythm.discover_every_s
            if not self.openapi.index.keys() >= set(self.discovery.documents()):
                wait_s = next(soon, wait_s)  # documents follow what they describe
            if await _either(self._discover, wait_s):
                await self._settle()
                soon = iter(_AFTER_CHANGE_S)

    async def discover(self) -> bool:
        """Ask what it serves; whether that changed. Raises ApiError, TransportError."""
        return await self.discovery.refresh()

    async def _settle(self) -> None:
        """After a CRD changed: look again until discovery shows it, or for a few seconds."""
        for wait_s in _AFTER_CHANGE_S:
            self._discover.clear()
            await asyncio.sleep(wait_s)
            try:
                if await self.discover():
                    self._tell(self, "served")
                    return
            except (ApiError, TransportError):
                return


async def _either(event: asyncio.Event, wait_s: float) -> bool:
    """Wait for `event`, at most `wait_s`; whether it came."""
    try:
        async with asyncio.timeout(wait_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
