"""Sockets that notice a vanished peer, for all connections to members."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

_OPTIONS = (
    ("TCP_KEEPIDLE", 15),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 4),
    ("TCP_USER_TIMEOUT", 30_000),  # ms, for what was sent and never acknowledged
)


def watchful(handle: socket.socket) -> None:
    """Keepalive, so that a watch through a dead network path breaks within about 35 s, and no
    delay for small writes."""
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in _OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:
            handle.setsockopt(socket.IPPROTO_TCP, option, value)


def pause_whole(transport: asyncio.BaseTransport) -> None:
    """Have a pause of reading stop at the socket itself, not only at what TLS has decrypted.

    uvloop throws away what a paused TLS connection still holds when the peer's end arrives behind
    it; with nothing held there is nothing to lose.
    """
    limits = getattr(transport, "set_read_buffer_limits", None)  # transports of TLS have it
    if limits is not None:
        limits(high=1, low=0)


def made(address: tuple[Any, ...]) -> socket.socket:
    """A socket for an entry of `getaddrinfo`, as aiohttp's connector asks for it."""
    family, kind, protocol, *_ = address
    handle = socket.socket(family, kind, protocol)
    watchful(handle)
    return handle
