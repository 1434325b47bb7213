"""What the engine answers: start it here, end these for it, wait and why, no.

Values for `fleet explain`, conditions and Placements. Next step: `fleet.dispatch` acts on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.scheduling.placer import Item, Placed
    from fleet.scheduling.quota.tree import Key

Reason = Literal[
    "NoSuchQuota", "AboveLimit", "Quota", "NoSuchCapacity", "Capacity", "Evicting", "Behind"
]
OF_A_PLACE: Final[frozenset[Reason]] = frozenset({"Capacity", "NoSuchCapacity"})
"""What waits for these was let through by its quota, and found no place."""
SENTENCES: Final[Mapping[Reason, str]] = {
    "NoSuchQuota": "there is no quota {node}",
    "AboveLimit": "it asks for more {key} than node {node} may ever use",
    "Quota": "node {node} is short of {short} {key}",
    "NoSuchCapacity": "no member could hold it: {text}",
    "Capacity": "no member has room: {text}",
    "Evicting": "what was evicted for it has not ended",
    "Behind": "it would delay {text}, for which room is kept",
}


@dataclass(frozen=True, slots=True)
class Admit:
    item: Item
    placed: Placed
    requests: Mapping[Key, int]
    """What was charged: less than was asked for where an elastic gang starts smaller."""
    ahead: bool = False
    """It runs on what is held for others and is due to end before they start."""

    @property
    def uid(self) -> str:
        return self.item.uid


@dataclass(frozen=True, slots=True)
class Preempt:
    item: Item
    victims: tuple[str, ...]
    """Uids of whole gangs to be ended, by the platform: nobody's restart budget is used."""
    placed: Placed
    """Where the item starts when they have ended."""
    why: str

    @property
    def uid(self) -> str:
        return self.item.uid


@dataclass(frozen=True, slots=True)
class Why:
    reason: Reason
    node: str = ""
    key: Key | None = None
    short: int = 0
    text: str = ""
    starts_s: float | None = None
    """When it would start if all ends as declared, where that is known."""
    spared: str = ""
    """Uid of what may be ended for it, though not before `spared_s`."""
    spared_s: float | None = None
    saves: bool = False
    """Whether it is because it will have saved by then."""

    def __str__(self) -> str:
        return SENTENCES[self.reason].format(
            node=self.node, key=self.key, short=self.short, text=self.text
        )


@dataclass(frozen=True, slots=True)
class Wait:
    item: Item
    why: Why

    @property
    def uid(self) -> str:
        return self.item.uid


@dataclass(frozen=True, slots=True)
class Refuse:
    """Of a service: it is not tried again."""

    item: Item
    why: Why

    @property
    def uid(self) -> str:
        return self.item.uid


Decision = Admit | Preempt | Wait | Refuse
