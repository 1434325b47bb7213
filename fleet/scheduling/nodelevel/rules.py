"""Which machine is the better one for a pod, by the rules that clusters are run with.

A rule judges one machine for one request: the lower the better. `FGD` strands the least of what the
usual work could use, `BestFit` fills the fullest machine, `LeastAllocated` the emptiest, as
kube-scheduler does unless told otherwise, and `Random` any. Next step: `chooser` ranks by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from fleet.scheduling.nodelevel.machines import Machine, Request
    from fleet.scheduling.nodelevel.mix import Mix

EQUAL: Final = 40
"""Thousandths of a device below which two machines are equal."""
_PER_MACHINE: Final = 1000
NAMES: Final = ("FGD", "BestFit", "LeastAllocated", "Random")


class Scale(NamedTuple):
    """The most cores and devices that a machine has, in thousandths."""

    cpu: int
    devices: int

    @classmethod
    def of(cls, machines: Iterable[Machine]) -> Scale:
        machines = [*machines]
        cpu = max((each.cpu for each in machines), default=0) or 1
        return cls(cpu, max((sum(each.left) for each in machines), default=0) or 1)

    def room(self, machine: Machine) -> int:
        """How empty a machine is, its cores and its devices counting alike."""
        cores = machine.cpu * _PER_MACHINE // self.cpu
        return cores + sum(machine.left) * _PER_MACHINE // self.devices


class Verdict(NamedTuple):
    score: tuple[int, ...]
    devices: tuple[int, ...]
    """Those that the pod gets, by number."""


class Rule(Protocol):
    def judge(self, machine: Machine, request: Request, scale: Scale) -> Verdict | None:
        """None where the request does not fit."""
        ...


@dataclass(frozen=True, slots=True)
class Fgd:
    """What is stranded first, of about equal ones the fullest.

    Differences below a twenty-fifth of a device are taken for equal: below that the mix says
    nothing, and filling machines up leaves others whole. Measured on the 2023 trace of Alibaba,
    this is worth a point of allocation.
    """

    mix: Mix

    def judge(self, machine: Machine, request: Request, scale: Scale) -> Verdict | None:
        cpu = machine.cpu - request.cpu
        ways = [
            (self.mix.stranded(cpu, machine.left_with(request, devices)), devices)
            for devices in machine.options(request)
        ]
        if not ways:
            return None
        after, devices = min(ways)
        strands = after - self.mix.stranded(machine.cpu, machine.left)
        about = strands // max(EQUAL * self.mix.weight, 1)
        return Verdict((about, scale.room(machine)), devices)


@dataclass(frozen=True, slots=True)
class BestFit:
    """The fullest machine, there the device with the least left that suffices."""

    def judge(self, machine: Machine, request: Request, scale: Scale) -> Verdict | None:
        ways = machine.options(request)
        return Verdict((scale.room(machine),), ways[0]) if ways else None


@dataclass(frozen=True, slots=True)
class LeastAllocated:
    """The emptiest machine, there the device with the most left."""

    def judge(self, machine: Machine, request: Request, scale: Scale) -> Verdict | None:
        ways = machine.options(request)
        return Verdict((-scale.room(machine),), ways[-1]) if ways else None


@dataclass(frozen=True, slots=True)
class Random:
    """Any machine; another one as it changes."""

    chance: random.Random

    def judge(self, machine: Machine, request: Request, scale: Scale) -> Verdict | None:
        ways = machine.options(request)
        return Verdict((self.chance.getrandbits(32),), self.chance.choice(ways)) if ways else None


def rule_of(name: str, *, mix: Mix, chance: random.Random) -> Rule:
    """By one of `NAMES`."""
    match name:
        case "FGD":
            return Fgd(mix)
        case "BestFit":
            return BestFit()
        case "LeastAllocated":
            return LeastAllocated()
        case "Random":
            return Random(chance)
    raise ValueError(f"{name} is none of {', '.join(NAMES)}")
