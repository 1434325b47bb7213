"""Cluster objects: what the fleet knows of each member, as objects anybody can read.

A member has a Cluster object of its name from its join to its leave. Its spec is the operator's
(networks, taints, maintenance); its status is written here from the member's conditions and its
nodes: when news of the member comes, at most once a second when what it has free changes, and at a
slow beat besides. An unchanged status is not written again, so the beat makes no events.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from fleet.errors import AlreadyExists, ApiError, NotFound, StoreError
from fleet.kube.resources import GroupVersionResource
from fleet.kube.wire import Request, UserInfo
from fleet.scheduling.explain import money
from fleet.scheduling.price import prices_of
from fleet.scheduling.shapes import accelerator_kinds, free_accelerators, shapes_of
from policies import CLUSTER, PRICE_BOOK
from policies.scalars import amount_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection
    from datetime import datetime

    from fleet.apiserver.kernel import Kernel
    from fleet.gateway.books import Books
    from fleet.gateway.rulebook import Rulebook
    from fleet.kube.resources import Resource
    from fleet.members.member import Member
    from fleet.members.roster import Change, Members
    from fleet.scheduling.capacity import Capacity
    from fleet.store.collection import Event
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore

log = logging.getLogger(__name__)

CLUSTERS = GroupVersionResource("fleet.dev", "v1alpha1", "clusters")
BEAT_S = 10.0
SETTLE_S = 1.0
"""How long changes of pods and nodes are gathered: they come in crowds, and each write is an event
for whoever watches."""
_SELF = UserInfo("fleet:clusters", ("fleet:admins",))
_PATH = "/apis/fleet.dev/v1alpha1/clusters"


class Clusters:
    """Keeps one Cluster object for each member."""

    def __init__(
        self,
        *,
        kernel: Kernel,
        store: ObjectStore,
        resource: Resource,
        rulebook: Rulebook,
        members: Members,
        books: Books,
        now: Callable[[], datetime],
    ) -> None:
        self._kernel = kernel
        self._store = store
        self._resource = resource
        self._rulebook = rulebook
        self._members = members
        self._books = books
        self._now = now
        self._news = asyncio.Event()
        self._due: set[str] = set()  # members there is news of
        self._counted: set[str] = set()  # members whose capacity may have changed
        self._settling: asyncio.TimerHandle | None = None
        self._left: set[str] = set()  # members that went, whose objects are still to go
        self._writing = asyncio.Lock()

    async def changed(self, change: Change) -> None:
        """News of a member (a listener of `Members`)."""
        if change.kind == "left":
            self._left.add(change.member.name)
            await self._remove(change.member.name)
        elif change.kind == "joined":
            self._left.discard(change.member.name)
            await self._write(change.member)
        else:
            self._due.add(change.member.name)
            self._news.set()

    def counted(self, member: str) -> None:
        """What a member has free may have changed (a listener of the books)."""
        self._counted.add(member)
        if self._settling is None:
            self._settling = asyncio.get_running_loop().call_later(SETTLE_S, self._settled)

    def _settled(self) -> None:
        self._settling = None
        self._due |= self._counted
        self._counted.clear()
        self._news.set()

    async def run(self) -> None:
        """Write what changed, until cancelled."""
        loop = asyncio.get_running_loop()
        unfollow = self._store.collection(self._resource).follow(self._said)
        try:
            while True:
                beat_s = loop.time() + BEAT_S
                due: set[str] | None = {member.name for member in self._members}
                while due is not None:
                    await self._round(due)
                    due = await self._due_before(beat_s)
        finally:
            unfollow()
            if self._settling is not None:
                self._settling.cancel()

    def _said(self, event: Event) -> None:
        """Somebody said something else of a member."""
        before, entry = event.previous, event.entry
        if event.deleted or before is None or _spec(before) == _spec(entry):
            return
        self._due.add(entry.name)
        self._news.set()

    async def _due_before(self, beat_s: float) -> set[str] | None:
        """Of whom there is news, None at the beat: then it is everybody's turn."""
        if asyncio.get_running_loop().time() >= beat_s:
            return None
        try:
            async with asyncio.timeout_at(beat_s):
                await self._news.wait()
        except TimeoutError:
            return None
        self._news.clear()
        due, self._due = self._due, set()
        return due

    async def _round(self, due: Collection[str]) -> None:
        for name in sorted(self._left):
            await self._attempt(self._remove(name), f"cluster {name} is still to be removed")
        for member in self._members:
            if member.name in due:
                what = f"cluster {member.name}: its status was not written"
                await self._attempt(self._write(member), what)

    @staticmethod
    async def _attempt(step: Awaitable[None], failed: str) -> None:
        """One step of a round; what fails is tried again at the next beat."""
        try:
            await step
        except (ApiError, StoreError) as error:
            log.warning("%s: %s", failed, error)
        except Exception:
            log.exception("%s", failed)

    async def _write(self, member: Member) -> None:
        async with self._writing:  # or an object might be made after its member's leave
            if self._members.get(member.name) is not member:
                return
            if self._store.get(self._resource, "", member.name) is None:
                await self._create(member.name)
        status = self._status(member)
        ready = _word_of_ready(member)

        def change(obj: dict[str, Any]) -> dict[str, Any] | None:
            cordoned = ((obj.get("spec") or {}).get("maintenance") or {}).get("cordoned")
            status["summary"]["ready"] = f"{ready},Cordoned" if cordoned else ready
            present = obj.get("status") or {}
            if all(present.get(key) == value for key, value in status.items()):
                return None
            obj["status"] = {**present, **status}
            return obj

        try:
            await self._store.rewrite(self._resource, namespace="", name=member.name, change=change)
        except NotFound:
            return  # deleted meanwhile: the next beat makes it again, if the member still is one

    async def _create(self, name: str) -> None:
        body = (
            b'{"apiVersion":"fleet.dev/v1alpha1","kind":"Cluster","metadata":{"name":"%b"}}'
            % name.encode()
        )
        request = Request(
            "POST", _PATH, headers={"content-type": "application/json"}, body=body, user=_SELF
        )
        try:
            await self._kernel.handle(request)
        except AlreadyExists:
            return

    async def _remove(self, name: str) -> None:
        async with self._writing:
            try:
                await self._kernel.handle(Request("DELETE", f"{_PATH}/{name}", user=_SELF))
            except NotFound:
                pass  # it is gone
            self._left.discard(name)

    # -- what is known of a member

    def _status(self, member: Member) -> dict[str, Any]:
        conditions = {kind: each.as_dict() for kind, each in member.conditions.items()}
        reachable = conditions.get("Reachable", {}).get("status")
        fresh = conditions.get("WatchFresh", {})
        capacity = next(
            (each.capacity for each in self._books.clusters() if each.name == member.name), None
        )
        status: dict[str, Any] = {
            "conditions": list(conditions.values()),
            "version": member.version,
            "uid": member.uid,
            "localSchedulers": schedulers_of(member),
            "summary": {
                "api": _word(reachable, good="ok", bad="lost"),
                "data": _word(
                    conditions.get("DataPlaneHealthy", {}).get("status"), good="ok", bad="down"
                ),
                "fresh": _freshness(fresh),
                **self._priced(member.name, capacity),
            },
        }
        if capacity is not None:
            kinds = accelerator_kinds(capacity)
            free = str(free_accelerators(capacity)) if kinds else ""
            # what was free when the member was last seen is no more than a guess
            sure = fresh.get("status") == "True" or not free
            status["capacity"] = shapes_of(capacity)
            status["summary"] |= {
                "nodes": len(capacity.nodes),
                "accelerators": ",".join(kinds),
                "free": free if sure else f"{free}?",
            }
        return status

    def _priced(self, member: str, capacity: Capacity | None) -> dict[str, str]:
        """What an hour of the cheapest of its accelerators costs, "" where that is not known."""
        unknown = {"pricePerHour": "", "price": ""}
        if capacity is None:
            return unknown
        rules = self._rulebook.rules(PRICE_BOOK)
        prices = prices_of((each.left for each in rules if not each.closed), now=self._now())
        micro = prices.of_accelerator(member, capacity)
        if micro is None:
            return unknown
        amount = amount_text(micro)
        return {"pricePerHour": amount, "price": money(amount, prices.currency)}


def member_since(store: ObjectStore, name: str) -> str:
    """Since when a member is one, "" where it has no Cluster object."""
    entry = store.get(CLUSTER.resource, "", name)
    return "" if entry is None else str(entry.parse()["metadata"].get("creationTimestamp", ""))


def schedulers_of(member: Member) -> list[str]:
    """Which local schedulers a member has, by the APIs it serves."""
    groups = {row.gvr.group for row in member.discovery.resources.values()}
    found = ["kube-scheduler"]
    for group, name in (
        ("kueue.x-k8s.io", "kueue"),
        ("scheduling.volcano.sh", "volcano"),
        ("jobset.x-k8s.io", "jobset"),
    ):
        if group in groups:
            found.append(name)
    return found


def _spec(entry: Entry) -> Any:
    return entry.parse().get("spec")


def _word_of_ready(member: Member) -> str:
    ready = member.conditions.get("Ready")
    return ready.status if ready is not None else ""


def _freshness(condition: dict[str, Any]) -> str:
    """`live`, or since when it is not; an age would make a write of every second."""
    if condition.get("status") != "False":
        return _word(condition.get("status"), good="live", bad="")
    since = str(condition.get("lastTransitionTime", ""))
    return f"not since {since[11:19]}" if len(since) >= 19 else "not live"


def _word(status: str | None, *, good: str, bad: str) -> str:
    return {"True": good, "False": bad}.get(status or "", "")
