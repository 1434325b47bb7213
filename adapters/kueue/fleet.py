"""What a dispatcher asks of the fleet. Implemented by `fleet.gateway.guests`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    Mine = Callable[[Mapping[str, str], Callable[[], "Object"]], bool]
    """A choice of pods: by their labels, and by the whole pod where those do not tell."""

    from fleet.kube.resources import GroupVersionResource
    from fleet.kube.wire import Request

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """A gang that one cluster is to take whole. `barred` says which members cannot have it, and
    why; `since` is when it began to wait."""

    uid: str
    gang: Object
    since: str
    barred: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seat:
    """The best member for it. `shut` are those that rules keep it from, whatever room they have."""

    member: str
    message: str = ""
    shut: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NoSeat:
    """Why there is none now."""

    reason: str
    message: str
    shut: frozenset[str] = frozenset()
    again_s: float | None = None
    """When to ask again though nothing changes."""


@dataclass(frozen=True, slots=True)
class Promised:
    """Room that a gang is to have in a member; `seen` of its pods have taken theirs already."""

    gang: Object
    member: str
    seen: int = 0


class Fleet(Protocol):
    @property
    def members(self) -> Collection[str]:
        """By name."""

    async def call(self, member: str, request: Request) -> Object:
        """What a member answers. Raises ApiError for a refusal, TransportError for no answer."""

    def serves(self, member: str, resource: GroupVersionResource) -> bool | None:
        """Whether a member has a resource; None while it has not said."""

    def follow(
        self,
        resources: Sequence[GroupVersionResource],
        listener: Callable[[str, GroupVersionResource, Object, bool], None],
    ) -> Callable[[], None]:
        """Have `listener` told each object of `resources` in every member, as the member has it,
        and each change; the last argument is whether it is gone. Returns what ends that."""

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have `listener` told when an answer to `seat` may have become another one. Returns what
        ends that."""

    def seat(self, asks: Sequence[Ask]) -> Mapping[str, Seat | NoSeat]:
        """Where each is to go, by UID: decided together, so that no two get the same room."""

    def promise(self, uid: str, promised: Promised | None) -> None:
        """Have nobody else get that room, or end it."""

    def bound(self, member: str, namespace: str, mine: Mine) -> int:
        """How many pods there are on nodes of those that `mine` chooses."""
