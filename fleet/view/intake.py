"""From a member's events to a merged collection.

One intake stands between one reflector and one collection. It projects each object once, numbers
it and puts it in; a re-list becomes the difference. Writes that went through the gateway are
taken in from their response, so they are visible before the member's watch tells of them; what
the watch then tells is recognised by the member's own revision.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from cachetools import TTLCache

from fleet.kube.fields import extract
from fleet.store.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fleet.kube.revision import Revision
    from fleet.store.collection import Collection
    from fleet.view.parts import Sorting
    from fleet.view.projection import Projector

ECHO_S = 30.0  # how long events of a removed object may still be on their way
PORTION = 64  # objects taken in between two turns of the event loop


def hides_nothing(obj: dict[str, Any]) -> bool:
    """For intakes of what is all to be seen."""
    return False


class Intake:
    """The `fleet.members.sink.Sink` of one (member, resource)."""

    def __init__(
        self,
        projector: Projector | Sorting,
        collection: Collection,
        *,
        clock: Callable[[], float],
        hides: Callable[[dict[str, Any]], bool] = hides_nothing,
    ) -> None:
        """`hides` says of what a write answered whether it is not to be seen here: what a watch
        tells has been sifted before it comes."""
        self._hides = hides
        self._projector = projector
        self._collection = collection
        self._sequencer = collection.sequencer
        # Objects removed through the gateway whose DELETED event has not come yet: the uid.
        self._removed: TTLCache[tuple[str, str], str] = TTLCache(
            maxsize=4096, ttl=ECHO_S, timer=clock
        )
        self._over = False
        self.revision = 0  # everything of the member up to here is in

    @property
    def member(self) -> str:
        return self._projector.member

    def key(self, obj: dict[str, Any]) -> tuple[str, str]:
        """The projected (namespace, name) of a member's object."""
        return self._projector.key(obj)

    def replace(self, objects: Iterable[dict[str, Any]], revision: int) -> Iterator[None]:
        """The member's whole list; yields between portions of work.

        What was written through the gateway after the list was made stays as it is; a list from
        before what was known already means the member was put back, and counts in full.
        """
        put_back = revision < self.revision
        seen: set[tuple[str, str]] = set()
        for number, obj in enumerate(objects):
            key = self.key(obj)
            seen.add(key)
            self._removed.pop(key, None)
            if self._is_news(key, _revision_of(obj), put_back=put_back):
                self._sequencer.submit(_Put(self, obj, put_back=put_back))
            if number % PORTION == PORTION - 1:
                yield
        self._forget_all_but(seen, upto=None if put_back else revision)
        self.revision = revision

    def upsert(self, obj: dict[str, Any]) -> None:
        revision = _revision_of(obj)
        self.revision = max(self.revision, revision)
        key = self.key(obj)
        removed = self._removed.get(key)
        if removed is not None:
            if removed == obj["metadata"].get("uid"):
                return  # an echo of what was before the removal
            del self._removed[key]
        if self._is_news(key, revision):
            self._sequencer.submit(_Put(self, obj))

    def remove(self, obj: dict[str, Any]) -> None:
        revision = _revision_of(obj)
        self.revision = max(self.revision, revision)
        key = self.key(obj)
        self._removed.pop(key, None)
        self._sequencer.submit(_Remove(self, key, obj, upto=revision))

    def moved(self, key: tuple[str, str], *, revision: int) -> None:
        """At this revision the object that had this projected key has got another one."""
        self._sequencer.submit(_Remove(self, key, None, upto=revision))

    def progress(self, revision: int) -> None:
        self.revision = max(self.revision, revision)

    # -- what the gateway itself did

    async def written(self, obj: dict[str, Any]) -> Entry | None:
        """The object as the member answered a write; returns its entry once it is visible."""
        if self._hides(obj):
            return None
        key = self.key(obj)
        if self._is_news(key, _revision_of(obj)):
            await self._applied(_Put(self, obj))
        return self._mine(key)

    async def gone(self, namespace: str, name: str, *, uid: str) -> None:
        """The member confirmed that the object with this projected key is removed; returns when
        nobody sees it any more."""
        present = self._mine((namespace, name))
        if present is None:
            return
        present_uid = present.uid
        if uid and present_uid != uid:
            return
        self._removed[(namespace, name)] = present_uid
        await self._applied(_Remove(self, present.key, None, uid=present_uid))

    async def _applied(self, change: Callable[[Revision], None]) -> None:
        """Have a change numbered and applied, be it behind a write that the store makes durable."""
        done = asyncio.get_running_loop().create_future()

        def apply(revision: Revision) -> None:
            try:
                change(revision)
            finally:
                if not done.done():
                    done.set_result(None)

        self._sequencer.submit(apply)
        await done

    def forget(self) -> None:
        """The member left: everything of it is deleted from the merged collection, and what still
        waits for its number or comes in late is not taken in."""
        self._over = True
        self._removed.clear()
        self._forget_all_but(set(), upto=None)

    # -- the collection's side

    def _mine(self, key: tuple[str, str]) -> Entry | None:
        entry = self._collection.get(*key)
        return entry if entry is not None and entry.member == self.member else None

    def _is_news(self, key: tuple[str, str], revision: int, *, put_back: bool = False) -> bool:
        present = self._mine(key)
        if present is None or present.member_revision < revision:
            return True
        return put_back and present.member_revision != revision

    def _forget_all_but(self, kept: set[tuple[str, str]], *, upto: int | None) -> None:
        """Delete the member's objects not in `kept` and, with `upto`, not changed after it."""

        def forget(_: Revision) -> None:
            gone = [
                entry.key
                for entry in self._collection.snapshot().entries()
                if entry.member == self.member and entry.key not in kept
            ]
            for key in gone:
                self._sequencer.submit(_Remove(self, key, None, upto=upto))

        # in its turn: a put that waits for its number is not in the collection yet
        self._sequencer.submit(forget)

    def _entry(self, obj: dict[str, Any], revision: Revision) -> Entry:
        member_revision = _revision_of(obj)
        projected = self._projector.project(obj, revision=revision)
        return Entry(
            projected,
            revision=revision,
            fields=extract(self._collection.resource, projected),
            member=self.member,
            member_revision=member_revision,
        )


class _Put:
    """A put waiting for its number. What was news when it was told may be none by then."""

    __slots__ = ("_intake", "_obj", "_put_back")

    def __init__(self, intake: Intake, obj: dict[str, Any], *, put_back: bool = False) -> None:
        self._intake = intake
        self._obj = obj
        self._put_back = put_back

    def __call__(self, revision: Revision) -> None:
        intake = self._intake
        if intake._over:
            return
        key = intake._projector.key(self._obj)
        if intake._is_news(key, _revision_of(self._obj), put_back=self._put_back):
            intake._collection.put(intake._entry(self._obj, revision))


class _Remove:
    """A removal waiting for its number; `last` is the final state, if the member told it.

    It is of the object as it was up to the member's revision `upto`, or of the one with `uid`.
    """

    __slots__ = ("_intake", "_key", "_last", "_uid", "_upto")

    def __init__(
        self,
        intake: Intake,
        key: tuple[str, str],
        last: dict[str, Any] | None,
        *,
        upto: int | None = None,
        uid: str = "",
    ) -> None:
        self._intake = intake
        self._key = key
        self._last = last
        self._upto = upto
        self._uid = uid

    def __call__(self, revision: Revision) -> None:
        intake = self._intake
        present = intake._mine(self._key)
        if present is None or (self._upto is not None and present.member_revision > self._upto):
            return
        if self._uid and present.uid != self._uid:
            return
        if self._last is not None:
            final = intake._entry(self._last, revision)
        else:
            final = present.restated(revision)
        intake._collection.remove(final)


def _revision_of(obj: dict[str, Any]) -> int:
    """The member's revision of an object; 0 when it is not the integer that Kubernetes sends."""
    text = obj["metadata"].get("resourceVersion", "")
    return int(text) if isinstance(text, str) and text.isdecimal() else 0
