"""The machine for a pod: the one on which it strands the least, of about equal ones the fullest.

Differences below a twenty-fifth of a device are taken for equal: below that the mix says nothing,
and filling machines up leaves others whole. Measured on the 2023 trace of Alibaba, this is worth a
point of allocation. Each kind of pod has its ranking of machines, which is brought up to date for
the machines that changed since that kind was last asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.scheduling.nodelevel.machines import Machine, Request
    from fleet.scheduling.nodelevel.mix import Mix

EQUAL: Final = 40
"""Thousandths of a device below which two machines are equal."""
_PER_MACHINE: Final = 1000


class Choice(NamedTuple):
    """A machine by name, and the numbers of the devices that the pod gets there."""

    machine: str
    devices: tuple[int, ...]


class _Rank(NamedTuple):
    """Least is best. `version` is that of the machine when it was ranked."""

    strands: int
    room: int
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

    def __init__(self, machines: Iterable[Machine], mix: Mix) -> None:
        self._mix = mix
        self._machines = sorted(machines, key=lambda machine: machine.name)
        self._position = {each.name: at for at, each in enumerate(self._machines)}
        if len(self._position) != len(self._machines):
            raise ValueError("two machines have one name")
        self._most_cpu = max((each.cpu for each in self._machines), default=0) or 1
        self._most_devices = max((sum(each.left) for each in self._machines), default=0) or 1
        self._versions = [0] * len(self._machines)
        self._changes: list[int] = []
        self._rankings: dict[Request, _Ranking] = {}

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
        machine = self._machines[position]
        cpu = machine.cpu - request.cpu
        ways = [
            (self._mix.stranded(cpu, machine.left_with(request, devices)), devices)
            for devices in machine.options(request)
        ]
        if not ways:
            return None
        after, devices = min(ways)
        strands = after - self._mix.stranded(machine.cpu, machine.left)
        about = strands // max(EQUAL * self._mix.weight, 1)
        return _Rank(about, self._room(machine), position, devices, self._versions[position])

    def _room(self, machine: Machine) -> int:
        """How empty a machine is, its cores and its devices counting alike."""
        cores = machine.cpu * _PER_MACHINE // self._most_cpu
        return cores + sum(machine.left) * _PER_MACHINE // self._most_devices
