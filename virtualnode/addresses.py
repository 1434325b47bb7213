"""Cluster addresses and node ports of Services: which are free is read from the Services.

Nothing but the place to look next is remembered beside the objects, so nothing can leak.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Object = dict[str, Any]
NODE_PORTS: Final = range(30_000, 32_768)


class ServiceAddresses:
    """Addresses of `network` and node ports, as `services` use them."""

    def __init__(
        self, network: ipaddress.IPv4Network, services: Callable[[], Iterable[Object]]
    ) -> None:
        self._network = network
        self._services = services
        self._next_address = 0
        self._next_port = 0

    def next_address(self) -> str:
        """The free address after the last one given out, so that two Services that are created at
        the same time differ. Raises InternalError when there is none."""
        taken = self._taken()
        room = self._network.num_addresses - 2
        for _ in range(room):
            address = str(self._network[1 + self._next_address])
            self._next_address = (self._next_address + 1) % room
            if address not in taken:
                return address
        raise InternalError(
            f"Internal error occurred: failed to allocate a serviceIP: {self._network} is full"
        )

    def is_free(self, text: str) -> bool:
        return not self.why_not(text)

    def why_not(self, text: str) -> str:
        """Why `text` cannot be a Service's address, "" when it can."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return "must be a valid IP address"
        if address not in self._network:
            return (
                f"failed to allocate IP {text}: the provided network does not match {self._network}"
            )
        if text in self._taken():
            return f"failed to allocate IP {text}: provided IP is already allocated"
        return ""

    def next_port(self) -> int:
        """The free node port after the last one given out. Raises InternalError without one."""
        taken = self._ports()
        for _ in NODE_PORTS:
            port = NODE_PORTS[self._next_port]
            self._next_port = (self._next_port + 1) % len(NODE_PORTS)
            if port not in taken:
                return port
        raise InternalError("Internal error occurred: every node port is allocated")

    def is_free_port(self, port: int) -> bool:
        return port not in self._ports()

    def _taken(self) -> set[str]:
        return {
            address
            for service in self._services()
            for address in service["spec"].get("clusterIPs") or ()
        }

    def _ports(self) -> set[int]:
        return {
            port["nodePort"]
            for service in self._services()
            for port in service["spec"].get("ports") or ()
            if port.get("nodePort")
        }
