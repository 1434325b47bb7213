"""The machine for a pod: the best by a rule, of all as they are.

Each kind of pod has its ranking of machines, which is brought up to date for the machines that
changed since that kind was last asked for. Next step: `filling` takes and gives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from fleet.scheduling.nodelevel.rules import Scale

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.scheduling.nodelevel.machines import Machine, Request
    from fleet.scheduling.nodelevel.rules import Rule


class Choice(NamedTuple):
    """A machine by name, and the numbers of the devices that the pod gets there."""

    machine: str
    devices: tuple[int, ...]


class _Rank(NamedTuple):
    """Least is best. `version` is that of the machine when it was ranked."""

    score: tuple[int, ...]
    position: int
    devices: tuple[int, ...]
    version: int


@dataclass(slots=True)
class _Ranking:
    ranks: list[_Rank] = field(default_factory=list)
    seen: int = 0
    """How many of the changes it has taken in."""


class Chooser:
    """Machines that fill up. The same machines in any order give the same choices."""

    def __init__(self, machines: Iterable[Machine], rule: Rule) -> None:
        self._rule = rule
        self._machines = sorted(machines, key=lambda machine: machine.name)
        self._position = {each.name: at for at, each in enumerate(self._machines)}
        if len(self._position) != len(self._machines):
            raise ValueError("two machines have one name")
        self._scale = Scale.of(self._machines)
        self._versions = [0] * len(self._machines)
        self._changes: list[int] = []
        self._rankings: dict[Request, _Ranking] = {}

    @property
    def machines(self) -> Sequence[Machine]:
        """As they are, by name."""
        return self._machines

    def machine(self, name: str) -> Machine:
        """As it is. Raises KeyError for a name that is no machine's."""
        return self._machines[self._position[name]]

    def choose(self, request: Request) -> Choice | None:
        """The best machine for a pod, None where none has room. Takes nothing."""
        ranking = self._up_to_date(request)
        while ranking.ranks:
            best = ranking.ranks[0]
            if best.version == self._versions[best.position]:
                return Choice(self._machines[best.position].name, best.devices)
            heappop(ranking.ranks)
        return None

    def take(self, request: Request, choice: Choice) -> None:
        """Put the pod there. Raises ValueError where it does not fit, as after another one."""
        position = self._position[choice.machine]
        changed = self._machines[position].with_(request, choice.devices)
        if min(changed.cpu, changed.memory, *changed.left) < 0:
            raise ValueError(f"{request} does not fit on {choice.machine} any more")
        self._change(position, changed)

    def give(self, request: Request, choice: Choice) -> None:
        """The pod is gone from there."""
        position = self._position[choice.machine]
        self._change(position, self._machines[position].without(request, choice.devices))

    def _change(self, position: int, machine: Machine) -> None:
        self._machines[position] = machine
        self._versions[position] += 1
        self._changes.append(position)

    def _up_to_date(self, request: Request) -> _Ranking:
        ranking = self._rankings.get(request)
        if ranking is None:
            ranking = self._rankings[request] = _Ranking(seen=len(self._changes))
            ranks = (self._rank(request, at) for at in range(len(self._machines)))
            ranking.ranks.extend(rank for rank in ranks if rank is not None)
            heapify(ranking.ranks)
            return ranking
        for position in sorted(set(self._changes[ranking.seen :])):
            rank = self._rank(request, position)
            if rank is not None:
                heappush(ranking.ranks, rank)
        ranking.seen = len(self._changes)
        return ranking

    def _rank(self, request: Request, position: int) -> _Rank | None:
        found = self._rule.judge(self._machines[position], request, self._scale)
        if found is None:
            return None
        return _Rank(found.score, position, found.devices, self._versions[position])
