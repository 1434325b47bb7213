"""Loopback addresses for pods: each gets one of its own, which its processes can bind to."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


class Addresses:
    """The addresses of one network in 127.0.0.0/8, given out in turn from a random start.

    Gateways on one machine know nothing of each other; a random start keeps their pods apart.
    """

    def __init__(self, network: str, *, rng: Random) -> None:
        """Raises ValueError unless `network` lies in 127.0.0.0/8 and has room."""
        self._network = ipaddress.IPv4Network(network)
        if not self._network.is_loopback or self._network.num_addresses < 4:
            raise ValueError(f"{network} is no part of 127.0.0.0/8 with room for pods")
        self._room = self._network.num_addresses - 2
        self._next = rng.randrange(self._room)
        self._taken: set[str] = set()

    def take(self) -> str:
        """A free address. Raises OSError when there is none."""
        for _ in range(self._room):
            address = str(self._network[1 + self._next])
            self._next = (self._next + 1) % self._room
            if address not in self._taken:
                self._taken.add(address)
                return address
        raise OSError(f"every address of {self._network} is taken by a pod")

    def give_back(self, address: str) -> None:
        self._taken.discard(address)
