"""The fleet, as somebody sees it who carries work out himself and asks only where it should go.

Members' objects are given as the members have them; the names that the merged view gives are taken
off here. Seats are the planner's, and what is promised is an entry of its ledger. Next step: an
adapter decides what to do with the answers (`adapters.kueue`); `fleet.app` puts the two together.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from adapters.kueue.fleet import NoSeat, Seat
from fleet.dispatch.planning import Question
from fleet.errors import Invalid, TransportError
from fleet.gateway.books import PODS
from fleet.members import calls
from fleet.scheduling.guests import promised as room_of
from fleet.scheduling.placement import Plan, Refusal
from fleet.scheduling.reasons import reason_of
from fleet.view.naming import CLUSTER_LABEL, join

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from adapters.kueue.fleet import Ask, Mine, Promised
    from fleet.gateway.books import Books
    from fleet.gateway.placing import Placing
    from fleet.kube.resources import GroupVersionResource
    from fleet.kube.wire import Request
    from fleet.scheduling.decisions import Why
    from fleet.scheduling.placement import Verdict
    from fleet.store.collection import Event
    from fleet.store.entry import Entry
    from fleet.view.world import World

    Object = dict[str, Any]
    Listener = Callable[[str, GroupVersionResource, Object, bool], None]

_ANSWER_S: Final = 5.0
_WHOLE: Final = "one cluster takes all of it"
_BY_RULE: Final = frozenset(
    {
        "NotSelected", "NoTier", "OtherTier", "Tainted", "Cordoned", "NoNetwork", "OtherNetwork",
        "Filtered", "NotPayable", "NoShape",
    }
)  # fmt: skip
"""Reasons of verdicts that are no want of room, and no news of a member's health."""


class Guests:
    """See `adapters.kueue.fleet.Fleet`. One event loop owns it."""

    def __init__(
        self, world: World, books: Books, placing: Placing, *, freed: Callable[[], None]
    ) -> None:
        """`freed` is called when room that was promised is free again."""
        self._world = world
        self._placing = placing
        self._freed = freed
        self._listeners: list[Callable[[], None]] = []
        self._follows: list[_Follow] = []
        books.on_change(lambda _: self.changed())
        placing.on_round(self.changed)

    @property
    def members(self) -> Collection[str]:
        return self._world.members

    def serves(self, member: str, resource: GroupVersionResource) -> bool | None:
        if member not in self._world.members or self._world.unheard([member]):
            return None
        return any(each.name == member for each in self._world.serving(resource))

    async def call(self, member: str, request: Request) -> Object:
        port = self._world.members.get(member)
        if port is None:
            raise TransportError(f"{member} is no member of the fleet", member=member)
        found: Object = (await calls.ask(port.handler, request, timeout_s=_ANSWER_S)).value
        return found

    # -- news

    def follow(
        self, resources: Sequence[GroupVersionResource], listener: Listener
    ) -> Callable[[], None]:
        follow = _Follow(self._world, resources, listener)
        self._follows.append(follow)
        follow.begin()

        def end() -> None:
            self._follows.remove(follow)
            follow.close()

        return end

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def changed(self) -> None:
        """Room, members, rules or what waits may be other than they were."""
        for listener in self._listeners:
            listener()

    def member_changed(self) -> None:
        """A member joined, left, or serves other resources than before."""
        for follow in self._follows:
            follow.begin()
        self.changed()

    # -- room

    def seat(self, asks: Sequence[Ask]) -> Mapping[str, Seat | NoSeat]:
        found = self._placing.seats([_question(each) for each in asks])
        return {each.uid: _answer(found.get(each.uid)) for each in asks}

    def promise(self, uid: str, promised: Promised | None) -> None:
        ledgers = self._placing.guests
        if promised is None:
            if ledgers.pop(uid, None) is not None:
                self._freed()
            return
        try:
            ledgers[uid] = room_of(promised.gang, promised.member, seen=promised.seen)
        except Invalid:
            ledgers.pop(uid, None)  # nobody could be asked about it either

    def bound(self, member: str, namespace: str, mine: Mine) -> int:
        merged = self._world.running(PODS)
        if merged is None:
            return 0
        there = merged.collection.snapshot().namespace(join(namespace, member)).entries()
        return sum(mine(each.labels, each.parse) and _on_a_node(each) for each in there)


class _Follow:
    """Objects of some resources in every member, as those have them."""

    def __init__(
        self, world: World, resources: Iterable[GroupVersionResource], listener: Listener
    ) -> None:
        self._world = world
        self._missing = list(resources)
        self._listener = listener
        self._ends = ExitStack()

    def begin(self) -> None:
        """Follow what somebody serves by now; it is kept alive until `close`."""
        for gvr in list(self._missing):
            merged = self._world.merged(gvr)
            if merged is None:
                continue
            self._missing.remove(gvr)
            self._ends.enter_context(merged.reading())
            namespaced = merged.resource.namespaced
            for entry in merged.collection.snapshot().entries():
                self._tell(gvr, entry, namespaced=namespaced, gone=False)

            def follow(
                event: Event, gvr: GroupVersionResource = gvr, namespaced: bool = namespaced
            ) -> None:
                self._tell(gvr, event.entry, namespaced=namespaced, gone=event.deleted)

            self._ends.callback(merged.collection.follow(follow))

    def close(self) -> None:
        self._ends.close()

    def _tell(
        self, gvr: GroupVersionResource, entry: Entry, *, namespaced: bool, gone: bool
    ) -> None:
        if not entry.member:
            return
        obj = entry.parse()
        metadata = obj["metadata"]
        coordinate = "namespace" if namespaced else "name"
        metadata[coordinate] = metadata[coordinate].removesuffix(f".{entry.member}")
        metadata["resourceVersion"] = str(entry.member_revision)
        (metadata.get("labels") or {}).pop(CLUSTER_LABEL, None)
        self._listener(entry.member, gvr, obj, gone)


def _question(ask: Ask) -> Question:
    status = {"queuedAt": ask.since} if ask.since else {}
    return Question(
        workload=ask.gang,
        placement={"status": status},
        barred=ask.barred,
        unsplittable=_WHOLE,
    )


def _answer(found: Plan | Refusal | Why | Invalid | None) -> Seat | NoSeat:
    match found:
        case Plan():
            (shard,) = found.shards
            tier = f", tier {shard.tier} of policy" if shard.tier > 1 else ""
            told = f"{shard.cluster} has room for all of it ({shard.pods} pods{tier})"
            return Seat(shard.cluster, told, _shut(found.verdicts))
        case Refusal():
            return NoSeat(found.word, found.message, _shut(found.verdicts), found.retry_after_s)
        case Invalid():
            return NoSeat("Invalid", found.message)
        case None:
            return NoSeat("Invalid", "its pod sets ask for nothing: nothing to place")
    return NoSeat(reason_of(found), str(found))


def _shut(verdicts: Iterable[Verdict]) -> frozenset[str]:
    return frozenset(each.cluster for each in verdicts if each.reason in _BY_RULE)


def _on_a_node(pod: Entry) -> bool:
    return bool((pod.parse().get("spec") or {}).get("nodeName"))
