"""The seam between the engine, which decides who may, and the search, which knows where.

The engine asks for a place after the quota tree said yes and before anything is charged, so what
fits in no member never holds quota (kueue#8602). Plans and demands are opaque to it. Next step:
`engine` asks; a Placer over `placement` and the capacity of members answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from fleet.scheduling.checkpoints import USUAL_RESTART_S
from fleet.scheduling.requests import is_accelerator

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

    from fleet.scheduling.quota.tree import Key
    from fleet.scheduling.stock import PodKind


@dataclass(frozen=True, slots=True)
class Item:
    """One workload as the engine sees it: a gang, admitted as a whole or not at all."""

    uid: str
    quota: str
    """Name of the quota node it counts at; empty where no quota counts its namespace."""
    priority: int
    sequence: int
    """Who came first; not a clock."""
    requests: Mapping[Key, int]
    shape: Hashable
    """Equal shapes of one node and priority are admitted or refused alike."""
    run_time_s: float | None = None
    saves_every_s: float | None = None
    """The most of its run time that an eviction loses, where nobody says what was saved; None: all
    of it."""
    restart_s: float = USUAL_RESTART_S
    """What an eviction loses besides: the time until it is where it was."""
    least: Mapping[Key, int] | None = None
    """The smallest size an elastic gang runs at; None: only all of it."""
    demand: object = None
    generation: int = 1
    pods: int = 1
    latest_s: float | None = None
    """When it has to start to be done by its deadline."""
    queues: bool = True
    """A job waits for quota, a service is refused."""
    preempts: bool = True
    """Whether anything may be ended for it."""

    @property
    def pieces(self) -> int:
        """Its size where no quota counts it: accelerators, or pods where it asks for none."""
        counted = sum(v for key, v in self.requests.items() if is_accelerator(key.resource))
        return counted or self.pods


@dataclass(frozen=True, slots=True)
class Placed:
    plan: object
    clusters: Mapping[str, Mapping[Key, int]] = field(default_factory=lambda: MappingProxyType({}))
    """What it takes, by cluster."""
    amounts: Mapping[Key, int] | None = None
    """What it takes in all, where that is less than was asked for."""
    rank: tuple[int, ...] = ()
    """The better of two places for the same work has less, as the Placer orders them."""
    pods: Mapping[str, Mapping[PodKind, int]] = field(default_factory=lambda: MappingProxyType({}))
    """By cluster, its pods, of what runs; empty where they are not known, or the plan tells."""


@dataclass(frozen=True, slots=True)
class Unplaced:
    why: str
    ever: bool = True
    """Whether it would fit into some present member that had nothing else to do."""


class Placer(Protocol):
    def place(
        self, item: Item, *, without: Collection[str] = (), quick: bool = False
    ) -> Placed | Unplaced:
        """Takes nothing. `without`: uids of running gangs that are taken as gone. `quick`: to find
        out whether there is a place, and about how good it is; not to be taken.

        An elastic item comes with `requests` lowered to what its quota allows; what is placed is
        between that and `least`.
        """
        ...

    def take(self, uid: str, placed: Placed) -> None:
        """Deduct it. It may be more than is free, by what is about to leave."""
        ...

    def give(self, uid: str) -> None:
        """The work has ended or was evicted. Nothing happens where nothing was taken."""
        ...
