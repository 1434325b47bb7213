"""One resource over the whole fleet: every member's objects and the fleet's own.

A merged resource starts with its first reader and ends when nobody has read it for a while. It
knows how fresh each member's part is: a reader that asks for the most recent state waits until
every member's watch is proven live or known not to be, and is told which members' parts are old.
A member that cannot be confirmed never blocks the others and is never dropped.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from fleet.kube.fields import extract
from fleet.store.collection import Collection
from fleet.view.intake import Intake, hides_nothing
from fleet.view.parts import Sorting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fleet.kube.resources import Resource
    from fleet.store.collection import Event
    from fleet.store.sequencer import Sequencer
    from fleet.view.projection import Projector

PATIENCE_S = 1.0  # without a byte from a member that has not given its first list yet
FIRST_LIST_S = 30.0


class Watching(Protocol):
    """One member's watch of one resource, as `fleet.members` keeps it."""

    @property
    def synced(self) -> asyncio.Event: ...

    @property
    def failure(self) -> str:
        """Why the watch is not to be trusted; "" while nothing speaks against it."""

    @property
    def last_contact_s(self) -> float:
        """Clock time of the last proof that it is live."""

    async def confirm(self, deadline_s: float, *, within_s: float) -> bool:
        """Whether it was proven live at most `within_s` ago; probes until `deadline_s`."""

    async def stop(self) -> None:
        """End it; returns when nothing more will be given."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """What "the most recent" means here, in seconds."""

    bound_s: float = 1.0
    """A proof this old still counts."""
    probe_s: float = 1.0
    """How long an answer waits for a proof before it marks the member as stale."""


class Source:
    """One member's part of a merged resource."""

    def __init__(self, intake: Intake, watching: Watching, *, hidden: Intake | None = None) -> None:
        self.intake = intake
        self.hidden = hidden
        self.watching = watching

    def forget(self) -> None:
        """Delete everything of the member."""
        self.intake.forget()
        if self.hidden is not None:
            self.hidden.forget()


class Merged:
    """The collection of one resource, and the sources that feed it."""

    def __init__(
        self,
        resource: Resource,
        sequencer: Sequencer,
        *,
        clock: Callable[[], float],
        own: Collection | None = None,
    ) -> None:
        """`own` holds the fleet's own objects of the resource, if it may have any."""
        self.resource = resource
        self.collection = Collection(resource, sequencer)
        # What no list shows and takes room in members all the same: pods that are shards.
        self.hidden = Collection(resource, sequencer)
        self.sources: dict[str, Source] = {}
        self.last_read_s = clock()
        self._clock = clock
        self._readers = 0
        self._own: Collection | None = None
        self._unfollow: Callable[[], None] = _nothing
        if own is not None:
            self.collection.load(own.snapshot().entries())
            self.adopt(own)

    def adopt(self, own: Collection) -> None:
        """The fleet itself may have objects of the resource from here on; it has none yet that are
        not here. Nothing happens when that is so already."""
        if self._own is None:
            self._own = own
            self._unfollow = own.follow(self._own_change)

    def widen(self, row: Resource) -> None:
        """Take up selectable fields that became known after the start: a CustomResourceDefinition
        is read a moment after what it defines is discovered."""
        known = self.resource.selectable_fields
        more = tuple(name for name in row.selectable_fields if name not in known)
        if not more:
            return
        resource = replace(row, selectable_fields=known + more)
        self.resource = resource
        self.collection.widen(resource, lambda obj: extract(resource, obj))

    def attach(
        self,
        projector: Projector | Sorting,
        start: Callable[[Intake, Intake], Watching],
    ) -> None:
        """Begin to take in a member's objects; `start` begins the watch that feeds the intake, and
        the one of what is hidden."""
        hides = projector.hides if isinstance(projector, Sorting) else hides_nothing
        intake = Intake(projector, self.collection, clock=self._clock, hides=hides)
        hidden = Intake(projector, self.hidden, clock=self._clock)
        self.sources[projector.member] = Source(intake, start(intake, hidden), hidden=hidden)

    async def detach(self, member: str) -> None:
        """The member left, or serves the resource no more: its objects are deleted here."""
        source = self.sources.pop(member, None)
        if source is not None:
            await source.watching.stop()
            source.forget()

    async def close(self) -> None:
        """End every watch. Open client watches are woken by their own end."""
        self._unfollow()
        sources, self.sources = self.sources, {}
        for source in sources.values():
            await source.watching.stop()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keeps the resource alive while a client reads or watches it."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1
            self.last_read_s = self._clock()

    def knows(self, member: str) -> bool:
        """Whether the member's part is in; "" is the fleet's own."""
        source = self.sources.get(member)
        return not member or (source is not None and source.watching.synced.is_set())

    def idle_since(self) -> float | None:
        """Clock time since when nobody reads it; None while somebody does."""
        return None if self._readers else self.last_read_s

    async def settle(
        self,
        freshness: Freshness,
        *,
        recent: bool,
        members: Iterable[str] | None = None,
    ) -> tuple[str, ...]:
        """Wait until the collection may be read; returns a warning for each stale member.

        `recent` asks for proof that each watch is live; without it only a first list is waited
        for. `members` restricts both to some members.
        """
        wanted = self.sources if members is None else members
        watched = {name: self.sources[name].watching for name in wanted if name in self.sources}
        after_s = self._clock() - freshness.bound_s
        doubtful = {
            name: watching
            for name, watching in watched.items()
            if not watching.synced.is_set()
            or watching.failure
            or (recent and watching.last_contact_s < after_s)
        }
        if not doubtful:
            return ()
        async with asyncio.TaskGroup() as group:
            proofs = {
                name: group.create_task(
                    self._prove(watching, freshness, recent=recent),
                    name=f"settle {name}/{self.resource.gvr.group_resource}",
                )
                for name, watching in doubtful.items()
            }
        return tuple(
            self._warning(name, doubtful[name])
            for name, proof in sorted(proofs.items())
            if not proof.result()
        )

    async def _prove(self, watching: Watching, freshness: Freshness, *, recent: bool) -> bool:
        """Whether what the member's part shows is as fresh as asked."""
        if not watching.synced.is_set():
            await self._first_list(watching)
            return watching.synced.is_set()
        if not recent:
            return not watching.failure
        deadline_s = self._clock() + freshness.probe_s
        return await watching.confirm(deadline_s, within_s=freshness.bound_s)

    async def _first_list(self, watching: Watching) -> None:
        """Until the member's first list is in, it is known to fail, or it falls silent."""
        started_s = self._clock()
        while not watching.synced.is_set() and not watching.failure:
            now_s = self._clock()
            silent_s = now_s - max(started_s, watching.last_contact_s)
            if silent_s > PATIENCE_S or now_s - started_s > FIRST_LIST_S:
                return
            try:
                async with asyncio.timeout(0.05):
                    await watching.synced.wait()
            except TimeoutError:
                continue

    def _warning(self, name: str, watching: Watching) -> str:
        if not watching.synced.is_set():
            why = f" ({watching.failure})" if watching.failure else ""
            return f"{name}: not heard from yet, its objects are missing{why}"
        age_s = self._clock() - watching.last_contact_s
        return f"{name}: last seen {_age(age_s)} ago, shown as it was then"

    def _own_change(self, event: Event) -> None:
        if event.deleted:
            self.collection.remove(event.entry)
        else:
            self.collection.put(event.entry)


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{max(seconds, 0):.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


def _nothing() -> None:
    """What ends a following that never began."""
