"""The way to one cluster, and the proof that it leads to that cluster.

An address can come to lead elsewhere: a cluster is rebuilt, a proxy is pointed at another one.
Whatever then answers must not be taken for the member, or its objects would replace the member's
(karmada#6298). So after every broken connection, and from time to time, the UID is asked for
before anything else is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from fleet.errors import FleetError, TransportError
from fleet.members.identity import cluster_uid

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from fleet.kube.wire import Request, Response

CHECK_S = 10.0
RECHECK_S = 60.0


class Transport(Protocol):
    """What `connect` gives: a `Handler` with an end.

    Beyond what a `Handler` raises, `handle` may raise ConfigError: the credential to use cannot
    be made, so nothing was sent.
    """

    @property
    def credentials_expire_at(self) -> datetime | None:
        """When the credential in use ends, where that is known."""

    async def handle(self, request: Request) -> Response: ...

    async def aclose(self) -> None: ...


class ForeignClusterError(TransportError):
    """Another cluster answers under the member's address."""


class Verified:
    """Hands requests to a transport once it is known to lead to the cluster with `uid`."""

    def __init__(
        self, transport: Transport, *, uid: str, verified: bool, clock: Callable[[], float]
    ) -> None:
        """`verified`: it was just seen to be that cluster."""
        self.transport = transport
        self.uid = uid
        self._clock = clock
        self._trusted_until_s = clock() + (RECHECK_S if verified else 0.0)
        self._check: asyncio.Future[None] | None = None
        self._outcome: FleetError | None = None

    def doubt(self) -> None:
        """Ask who it is before the next request."""
        self._trusted_until_s = self._clock()

    async def swap(self, transport: Transport) -> None:
        """Go on with another transport, known to lead to the same cluster; the last is closed."""
        self.transport, last = transport, self.transport
        self._trusted_until_s = self._clock() + RECHECK_S
        await last.aclose()

    async def handle(self, request: Request) -> Response:
        """The cluster's answer. Raises as the transport, and ForeignClusterError."""
        if self._clock() >= self._trusted_until_s:
            await self._verify()
        transport = self.transport
        try:
            return await transport.handle(request)
        except TransportError:
            if transport is self.transport:
                self.doubt()
            raise

    async def _verify(self) -> None:
        """One check for all that wait; whoever began it may be cancelled, then another does."""
        while self._check is not None:
            await asyncio.wait({self._check})
            if self._clock() < self._trusted_until_s:
                return
            if self._outcome is not None:
                raise self._outcome.with_traceback(None)
        self._check = check = asyncio.get_running_loop().create_future()
        self._outcome = None
        try:
            found = await cluster_uid(self.transport, timeout_s=CHECK_S)
            if found != self.uid:
                raise ForeignClusterError(
                    f"another cluster answers there (kube-system UID {found}, joined as "
                    f"{self.uid}); if it is meant to take its place: leave, then join it",
                    sent=False,
                )
            self._trusted_until_s = self._clock() + RECHECK_S
        except FleetError as error:
            self._outcome = error
            raise
        finally:
            self._check = None
            check.set_result(None)
