"""Machines with devices, and what a pod takes of one. Devices count in thousandths."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

WHOLE: Final = 1000
"""Thousandths of a device."""


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """What one pod takes: thousandths of a core, bytes (or any unit that machines are told in),
    devices, and thousandths of each. Who takes a part takes it of one device."""

    cpu: int
    memory: int = 0
    devices: int = 0
    share: int = WHOLE
    models: frozenset[str] = frozenset()
    """Models of device that will do; empty means any."""

    def __post_init__(self) -> None:
        if min(self.cpu, self.memory, self.devices) < 0:
            raise ValueError(f"{self} takes less than nothing")
        if self.devices and not 0 < self.share <= WHOLE:
            raise ValueError(f"{self}: of a device 1 to {WHOLE} thousandths can be had")
        if self.devices > 1 and self.share != WHOLE:
            raise ValueError(f"{self}: parts can be had of one device only")

    @property
    def taken(self) -> int:
        """Thousandths of devices, altogether."""
        return self.devices * self.share


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine and what is left of it; `left` is what is left of each device, by its number."""

    name: str
    cpu: int
    memory: int
    left: tuple[int, ...] = ()
    model: str = ""

    @classmethod
    def empty(cls, name: str, *, cpu: int, memory: int, devices: int, model: str = "") -> Machine:
        return cls(name, cpu, memory, (WHOLE,) * devices, model)

    def options(self, request: Request) -> list[tuple[int, ...]]:
        """The devices that the request can have, by number, once for each way that differs; none
        where it does not fit."""
        if (
            self.cpu < request.cpu
            or self.memory < request.memory
            or (request.models and self.model not in request.models)
        ):
            return []
        if not request.devices:
            return [()]
        able: dict[int, list[int]] = {}
        for number, part in enumerate(self.left):
            if part >= request.share:
                able.setdefault(part, []).append(number)
        if request.share < WHOLE:
            return [(numbers[0],) for _, numbers in sorted(able.items())]
        whole = able.get(WHOLE, [])
        return [tuple(whole[: request.devices])] if len(whole) >= request.devices else []

    def left_with(self, request: Request, devices: tuple[int, ...]) -> tuple[int, ...]:
        """What is left of the devices with the request on some of them."""
        left = list(self.left)
        for number in devices:
            left[number] -= request.share
        return tuple(left)

    def with_(self, request: Request, devices: tuple[int, ...]) -> Machine:
        return replace(
            self,
            cpu=self.cpu - request.cpu,
            memory=self.memory - request.memory,
            left=self.left_with(request, devices),
        )

    def without(self, request: Request, devices: tuple[int, ...]) -> Machine:
        """With the request gone from those devices."""
        left = list(self.left)
        for number in devices:
            left[number] += request.share
        return replace(
            self,
            cpu=self.cpu + request.cpu,
            memory=self.memory + request.memory,
            left=tuple(left),
        )
