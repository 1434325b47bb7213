"""All members of the fleet: joining, leaving, rotation of credentials, and news about them.

Joining is all or nothing: a cluster is checked – reachable, credentials accepted, not a member
already under another name, discovery readable – before anything is written, and what was written
is taken back if the rest fails. Leaving is written down first, so that a leave that is broken off
is ended later. A member that is down when the gateway starts is a member all the same. Next step:
`fleet.app` brings the news to `fleet.view`.
"""

from __future__ import annotations

import asyncio
import logging
import random as random_module
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from cachetools import LRUCache

from fleet.errors import ApiError, ConfigError, FleetError, JoinError, StoreError, TransportError
from fleet.members import metrics
from fleet.members.identity import check_name, cluster_uid, gateway_version
from fleet.members.member import Member, Rhythm, Surroundings
from fleet.members.transport import CHECK_S, ForeignClusterError, Transport

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from random import Random
    from types import TracebackType

    from fleet.kube.wire import Handler, Request, Response
    from fleet.members.credentials import CredentialStore
    from fleet.members.member import News

log = logging.getLogger(__name__)

Connect = Callable[[bytes], Transport]
"""Makes a transport of a kubeconfig that stands alone; raises ConfigError; dials nothing."""

_SCHEMA_BYTES = 64 << 20
_FILES_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Change:
    """News about one member: it joined or left, or what it serves, its OpenAPI documents or its
    conditions changed."""

    kind: Literal["joined", "left"] | News
    member: Member


Listener = Callable[[Change], Awaitable[None]]


class Members:
    """The members, by name. An async context: members live inside it."""

    def __init__(
        self,
        store: CredentialStore,
        connect: Connect,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        random: Random | None = None,
        rhythm: Rhythm | None = None,
        name_taken: Callable[[str], str] | None = None,
        since: Callable[[str], str] | None = None,
        prepare: Callable[[str, Handler], Awaitable[None]] | None = None,
        files_every_s: float = _FILES_EVERY_S,
    ) -> None:
        """`name_taken` says why a name cannot be given to a member, "" when it can; `since` when
        one became a member, "" when that is not known; `prepare` does in a cluster what a join
        leaves there, or raises JoinError."""
        self._store = store
        self._connect = connect
        self._surroundings = Surroundings(
            clock=clock,
            wall=wall,
            random=random or random_module.SystemRandom(),
            rhythm=rhythm or Rhythm(),
            schemas=LRUCache(maxsize=_SCHEMA_BYTES, getsizeof=len),
        )
        self._name_taken = name_taken or (lambda _: "")
        self._since = since or (lambda _: "")
        self._prepare = prepare or _leave_as_it_is
        self._files_every_s = files_every_s
        self._members: dict[str, Member] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._joining: dict[str, str] = {}
        self._leaving: set[str] = set()  # left, and not everybody has taken it
        self._listeners: list[Listener] = []
        self._news: dict[tuple[str, str], Change] = {}
        self._is_news = asyncio.Event()
        self._telling = asyncio.Lock()
        self._untold: set[Member] = set()  # joined, and nobody has heard of it yet
        self._own: list[asyncio.Task[None]] = []
        self._group = asyncio.TaskGroup()

    # -- the roster

    def __iter__(self) -> Iterator[Member]:
        """The members, by name."""
        return iter([self._members[name] for name in sorted(self._members)])

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def get(self, name: str) -> Member | None:
        return self._members.get(name)

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Have `listener` awaited for every change, one at a time; returns how to end that.

        Members that are here already are not told of.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # -- life

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._store.open)
        names = await asyncio.to_thread(self._store.names)
        group = await self._group.__aenter__()
        self._own = [
            group.create_task(self._spread_news(), name="news of members"),
            group.create_task(self._follow_files(), name="files of members"),
        ]
        for name in names:
            await self._start_stored(name)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in (*self._own, *self._tasks.values()):
            task.cancel()
        if error is None or isinstance(error, asyncio.CancelledError):
            await self._group.__aexit__(kind, error, trace)
        else:
            # What the body raised leaves as it is, not wrapped with the ends of tasks.
            await self._group.__aexit__(None, None, None)

    async def _start_stored(self, name: str) -> None:
        try:
            check_name(name)
            stored = await asyncio.to_thread(self._store.load, name)
        except (JoinError, StoreError) as error:
            log.error("%s is left out: %s", name, error)
            return
        holder = self._holder(stored.uid)
        if not stored.uid or holder:
            why = f"the cluster is {holder} already" if holder else "it was not written by a join"
            log.error("%s is left out: %s; remove its file, or join it again", name, why)
            return
        try:
            transport: Transport = self._connect(stored.kubeconfig)
        except ConfigError as error:
            log.error("%s cannot be reached: %s", name, error)
            transport = _Unusable(error)
        await self._start(self._member(name, stored.uid, transport, verified=False))

    def _member(self, name: str, uid: str, transport: Transport, *, verified: bool) -> Member:
        return Member(
            name,
            uid=uid,
            transport=transport,
            verified=verified,
            surroundings=self._surroundings,
            tell=self._tell,
        )

    async def _start(self, member: Member) -> None:
        task = self._group.create_task(member.run(), name=f"member {member.name}")
        try:
            await member.started.wait()
        except BaseException:
            task.cancel()
            raise
        self._members[member.name] = member
        self._tasks[member.name] = task

    # -- joining and leaving

    async def join(self, name: str, kubeconfig: bytes, *, replace: bool = False) -> Member:
        """Take the cluster of a self-contained kubeconfig into the fleet as `name`.

        With `replace` an existing member is reached by this kubeconfig from now on; it has to be
        the same cluster. Raises JoinError and ConfigError; the fleet is then as it was.
        """
        check_name(name)
        present = self._members.get(name)
        if name in self._joining:
            raise JoinError(f"{name} is being joined at this moment; wait for it to end")
        if present is not None and not replace:
            raise JoinError(
                f"{name} is a member already{self._since_text(name)}.\n"
                f"  To change how it is reached:  fleet join … --name {name} --replace\n"
                "  To take in another cluster: choose another name"
            )
        if present is None and replace:
            known = ", ".join(sorted(self._members)) or "there are none"
            raise JoinError(
                f"{name} is no member, so there is nothing to replace (members: {known}); to take "
                "it in, leave out --replace"
            )
        if present is None and (why := self._name_taken(name)):
            raise JoinError(f"{name} cannot name a member: {why}; choose another with --name")
        self._joining[name] = ""
        transport = None
        try:
            transport = self._connect(kubeconfig)
            uid = await self._identify(name, transport)
            self._refuse_twice(name, uid, present)
            self._joining[name] = uid
            # Blocking for a moment: a cancelled join must not have a thread write its file later.
            if present is not None:
                self._store.save(name, kubeconfig, uid=uid)
                swapped, transport = transport, None
                await present.reconnect(swapped)
                return present
            member = self._member(name, uid, transport, verified=True)
            await self._read_catalogue(member)
            await self._prepare(name, transport)
            try:
                self._store.save(name, kubeconfig, uid=uid)
                self._leaving.discard(name)
                await self._start(member)
            except BaseException:
                self._store.delete(name)
                raise
            transport = None
            self._untold.add(member)
            await self._carried_out(self._told(Change("joined", member)), f"join of {name}")
            return member
        finally:
            del self._joining[name]
            if transport is not None:
                await transport.aclose()

    async def _identify(self, name: str, transport: Transport) -> str:
        """The UID of the cluster, once it is seen to answer and to accept us."""
        try:
            return await cluster_uid(transport, timeout_s=CHECK_S)
        except TransportError as error:
            raise JoinError(
                f"{name} cannot be reached: {error}\n  Check the server's address, and the proxy "
                "and firewall between here and there; nothing was changed"
            ) from error
        except ApiError as error:
            if error.http_code == 404 and (version := await gateway_version(transport)):
                raise JoinError(
                    f"{name} is no cluster: a fleet gateway answers there ({version}), and a fleet "
                    "is no member of another\n  To have its clusters here, join each of them by "
                    "its own kubeconfig; nothing was changed"
                ) from error
            _refuse(name, error)

    def _refuse_twice(self, name: str, uid: str, present: Member | None) -> None:
        if present is not None and present.uid != uid:
            raise JoinError(
                f"this is not {name}: its kube-system UID is {_short(uid)}, that of {name} is "
                f"{_short(present.uid)}.\n  To put another cluster in its place:  fleet leave "
                f"{name}, then join it again"
            )
        holder = self._holder(uid, but=name)
        if holder:
            raise JoinError(
                f"this cluster is a member already: it is {holder}{self._since_text(holder)} (same "
                f"kube-system UID {_short(uid)}).\n"
                f"  To see it:  fleet get cluster {holder}\n"
                f"  To change how it is reached:  fleet join … --name {holder} --replace\n"
                f"  To have it as {name} instead:  fleet leave {holder}, then join it again"
            )

    def _since_text(self, name: str) -> str:
        since = self._since(name)
        return f", since {since}" if since else ""

    def _holder(self, uid: str, *, but: str = "") -> str:
        """Under which other name a cluster is a member, or about to be."""
        known = {member.name: member.uid for member in self._members.values()} | self._joining
        return next((n for n, u in sorted(known.items()) if n != but and uid and u == uid), "")

    async def _read_catalogue(self, member: Member) -> None:
        try:
            await member.discover()
        except (ApiError, TransportError) as error:
            raise JoinError(
                f"{member.name} answers, but what it serves cannot be read: {error}; "
                "nothing was changed"
            ) from error
        if not member.version:
            raise JoinError(
                f"{member.name} does not say its version at /version: is this a Kubernetes API? "
                "Nothing was changed"
            )

    async def leave(self, name: str) -> None:
        """Let a member go: its credentials are forgotten, its tasks end. Raises JoinError for a
        name that is no member's, StoreError when it is one still. The cluster itself is not
        touched. A leave that was broken off is ended."""
        member = self._members.get(name)
        if name in self._joining:
            raise JoinError(f"{name} is being joined at this moment; wait for it to end")
        if member is None:
            if name in self._leaving:
                await self._carried_out(self._end_leave(name), f"leave of {name}")
                return
            known = ", ".join(sorted(self._members)) or "there are none"
            raise JoinError(f"{name} is no member (members: {known})")
        self._store.retire(name)
        del self._members[name]
        letting_go = self._let_go(member, self._tasks.pop(name))
        await self._carried_out(letting_go, f"leave of {name}")

    async def end_leaves(self) -> None:
        """End every leave that was broken off in an earlier life. Call it when all listeners are
        there, before members come or go."""
        self._leaving |= set(await asyncio.to_thread(self._store.leaving))
        await self._end_leaves()

    async def _end_leaves(self) -> None:
        for name in sorted(self._leaving):
            await self._carried_out(self._end_leave(name), f"leave of {name}")

    async def _end_leave(self, name: str) -> None:
        """Tell of it again: whoever has taken it already does nothing."""
        if name in self._members or name in self._joining:
            return
        transport = _Unusable(ConfigError(f"{name} has left"))
        await self._tell_of_leave(self._member(name, "", transport, verified=False))

    async def _let_go(self, member: Member, task: asyncio.Task[None]) -> None:
        await self._tell_of_leave(member)
        task.cancel()
        await asyncio.wait({task})
        try:
            metrics.READY.remove(member.name)
        except KeyError:
            return

    async def _tell_of_leave(self, member: Member) -> None:
        name = member.name
        if not await self._told(Change("left", member)):
            self._leaving.add(name)  # it is told of again
            return
        try:
            self._store.end(name)
        except StoreError as error:
            log.warning("%s left, and is told of at the next start again: %s", name, error)
        self._leaving.discard(name)

    async def _carried_out(self, step: Coroutine[Any, Any, object], name: str) -> None:
        """Await a step that is taken whole even when who asked for it goes away."""
        await asyncio.shield(self._group.create_task(step, name=name))

    # -- news

    def _tell(self, member: Member, kind: News) -> None:
        """Keep news until it is spread. Equal news that waits already is enough: listeners look at
        the member, so there is at most one of each kind and member."""
        self._news.setdefault((member.name, kind), Change(kind, member))
        self._is_news.set()

    async def _spread_news(self) -> None:
        while True:
            await self._is_news.wait()
            self._is_news.clear()
            while self._news:
                change = self._news.pop(next(iter(self._news)))
                member = change.member
                # whoever hears of a join looks at the member as it is by then
                if self._members.get(member.name) is member and member not in self._untold:
                    await self._told(change)

    async def _told(self, change: Change) -> bool:
        """Tell every listener; whether all have taken it."""
        taken = True
        async with self._telling:
            self._untold.discard(change.member)
            for listener in list(self._listeners):
                try:
                    await listener(change)
                except Exception:
                    taken = False
                    log.exception(
                        "%s: news that it %s was not taken", change.member.name, change.kind
                    )
        return taken

    # -- rotation

    async def _follow_files(self) -> None:
        """Take up kubeconfigs that were replaced on disk, and leaves that not everybody took."""
        pending: set[str] = set()
        while True:
            await asyncio.sleep(self._files_every_s)
            try:
                pending |= set(await asyncio.to_thread(self._store.replaced))
                for name in sorted(pending):
                    if name in self._joining or await self._reload(name):
                        pending.discard(name)
                await self._end_leaves()
            except Exception:
                log.exception("credentials of members cannot be followed")

    async def _reload(self, name: str) -> bool:
        """Reach a member by the kubeconfig now on disk; False to try again later."""
        member = self._members.get(name)
        if member is None:
            return True
        transport = None
        try:
            stored = await asyncio.to_thread(self._store.load, name)
            transport = self._connect(stored.kubeconfig)
            uid = await cluster_uid(transport, timeout_s=CHECK_S)
            if uid != member.uid:
                raise ForeignClusterError(f"it leads to another cluster (kube-system UID {uid})")
            if self._members.get(name) is not member or name in self._joining:
                await transport.aclose()
                return True
            if stored.uid != uid:
                self._store.save(name, stored.kubeconfig, uid=uid)
        except FleetError as error:
            log.warning("%s: the kubeconfig on disk is not used: %s", name, error)
            if transport is not None:
                await transport.aclose()
            return isinstance(error, ConfigError | ForeignClusterError)
        await member.reconnect(transport)
        log.info("%s: reached by the kubeconfig that was put on disk", name)
        return True


async def _leave_as_it_is(name: str, handler: Handler) -> None:
    """A join that leaves nothing in the cluster."""


class _Unusable:
    """The transport of a member whose kubeconfig cannot be used."""

    credentials_expire_at: datetime | None = None

    def __init__(self, error: ConfigError) -> None:
        self._error = error

    async def handle(self, request: Request) -> Response:
        raise ConfigError(str(self._error))

    async def aclose(self) -> None:
        """There is nothing to close."""


def _refuse(name: str, error: ApiError) -> NoReturn:
    nothing = "nothing was changed"
    if error.http_code == 401:
        raise JoinError(
            f"{name} does not accept the credentials: {error}\n  Get a kubeconfig that is valid "
            f"now; {nothing}"
        ) from error
    if error.http_code == 403:
        raise JoinError(
            f"{name} does not let these credentials read its namespace kube-system, by which a "
            f"cluster is known: {error}\n  Join with the kubeconfig of an administrator; {nothing}"
        ) from error
    raise JoinError(
        f"{name} answers {error.http_code} where a Kubernetes API has its namespace kube-system: "
        f"{error}\n  Check the server's address; {nothing}"
    ) from error


def _short(uid: str) -> str:
    return f"{uid[:8]}…" if len(uid) > 12 else uid
