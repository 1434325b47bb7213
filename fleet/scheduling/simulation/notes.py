"""What is noted while a scenario is played: of each workload, and of what is in use.

Amounts over time are exact: whole units times milliseconds. `outcome` makes shares and sums of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from fleet.scheduling.simulation.inventory import counted_by_name, resources_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.scheduling.engine import Engine
    from fleet.scheduling.quota.tree import Key
    from fleet.scheduling.simulation.members import Members
    from fleet.scheduling.simulation.scenario import Scenario
    from fleet.scheduling.simulation.works import Work


class Stopped(Enum):
    ENDED = "ended"
    EVICTED = "evicted"
    RETURNED = "returned"
    """It was on loan, and had notice."""


class Run(NamedTuple):
    from_ms: int
    to_ms: int
    how: Stopped
    lost_ms: int


@dataclass(slots=True)
class History:
    """Of one workload."""

    work: Work
    quota: str
    arrives_ms: int
    policy: str = ""
    """As bills have it."""
    pods: int = 0
    amounts: Mapping[Key, int] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    first_ms: int | None = None
    """When it started for the first time."""
    running_since_ms: int | None = None
    clusters: Mapping[str, int] = field(default_factory=dict)
    """Where it ran last, pods by cluster."""
    present: bool = False
    """It ran already when it all began."""
    refused: bool = False
    invalid: bool = False
    """Nobody could place it, whatever there were: it never arrived."""
    runs_on: bool = False
    lent: int = 0
    waits: tuple[str, str] = ("", "")
    """Why it waited at the end: a word, and a sentence."""

    def start(self, at_ms: int, clusters: Mapping[str, int], *, present: bool = False) -> None:
        self.present = present
        if self.first_ms is None:
            self.first_ms = at_ms
        self.running_since_ms = at_ms
        self.clusters = clusters

    def stop(self, at_ms: int, how: Stopped, *, lost_ms: int) -> None:
        assert self.running_since_ms is not None
        self.runs.append(Run(self.running_since_ms, at_ms, how, lost_ms))
        self.running_since_ms = None

    @property
    def ended_ms(self) -> int | None:
        last = self.runs[-1] if self.runs else None
        return last.to_ms if last is not None and last.how is Stopped.ENDED else None

    @property
    def waited_ms(self) -> int | None:
        """Until it started for the first time; None where it never did, or ran already."""
        if self.first_ms is None or self.present:
            return None
        return self.first_ms - self.arrives_ms

    @property
    def evictions(self) -> int:
        return sum(each.how is not Stopped.ENDED for each in self.runs)


@dataclass(slots=True)
class Level:
    """An amount over time."""

    now: int = 0
    peak: int = 0
    area: int = 0
    """Times milliseconds."""

    def pass_by(self, amount: int, ms: int) -> None:
        self.now = amount
        self.peak = max(self.peak, amount)
        self.area += amount * ms


class Use:
    """What is in use, by cluster and resource, and by quota and key."""

    def __init__(self, scenario: Scenario) -> None:
        self.at_ms = 0
        self.totals = {each.name: resources_of(each.capacity) for each in scenario.clusters}
        self.clusters = {
            name: {resource: Level() for resource in counted_by_name(found)}
            for name, found in self.totals.items()
        }
        self.quotas: dict[tuple[str, Key], Level] = {
            (name, key): Level()
            for name in scenario.tree.nodes
            for key in scenario.tree.keys[scenario.tree.path(name)[-1].name]
        }

    def pass_to(self, at_ms: int, members: Members, engine: Engine) -> None:
        """What is in use was so since the last time."""
        ms = at_ms - self.at_ms
        if ms <= 0:
            return
        self.at_ms = at_ms
        for name, levels in self.clusters.items():
            used = members.used[name]
            for resource, level in levels.items():
                level.pass_by(used[resource], ms)
        held: dict[tuple[str, Key], int] = {}
        for run in engine.running().values():
            for path, amount in run.asked:
                for cell in path:
                    where = cell.node, cell.key
                    held[where] = held.get(where, 0) + amount
        for where, level in self.quotas.items():
            level.pass_by(held.get(where, 0), ms)
