"""An embedded member in a program of its own, for the command line: it outlives `fleet testbed up`.

The program is `python -m fleet.testbed.embedded`; its record lies in the member's folder, so that
`down` and `status` treat it as a component like any other. What runs in the member goes with it.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from fleet.errors import TestbedError
from fleet.testbed import admin, embedded, layout, processes, shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from fleet.testbed.shape import NodeShape

_POLL_S: Final = 0.05
_STARTING_S: Final = 30.0
_LOG_TAIL_LINES: Final = 8


class HostedCluster:
    """One member in its folder `root`."""

    def __init__(
        self,
        name: str,
        *,
        root: Path,
        nodes: Sequence[NodeShape],
        network: int,
        progress: Callable[[str], None],
    ) -> None:
        self.name = name
        self._root = root.absolute()
        self._nodes = tuple(nodes)
        self._network = network
        self._progress = progress

    async def start(self, *, turn: asyncio.Semaphore) -> None:
        """Start the program unless it runs, and wait until its API is ready. Raises TestbedError
        with the end of its log when it does not come up; it is stopped then."""
        found = layout.load(self._root)
        if found is None:
            found = layout.create(
                self.name,
                root=self._root,
                network=self._network,
                components=(embedded.COMPONENT,),
            )
            shape.remember(self._root, self._nodes)
        async with turn:
            known = processes.recorded(found.run).get(embedded.COMPONENT)
            if known is None or not known.alive:
                known = processes.spawn(
                    embedded.COMPONENT,
                    embedded.arguments(self._root),
                    run=found.run,
                    log=found.log(embedded.COMPONENT),
                    env=dict(os.environ),
                )
            try:
                async with asyncio.timeout(_STARTING_S):
                    await self._ready(found, known)
            except BaseException as error:
                await processes.stop([known], grace_s=0)
                if isinstance(error, TimeoutError):
                    raise TestbedError(
                        f"member {self.name} was not ready after {_STARTING_S:.0f} s; "
                        f"its log is {found.log(embedded.COMPONENT)}"
                    ) from error
                raise

    async def _ready(self, found: layout.Layout, process: processes.Process) -> None:
        tls = admin.ssl_context(ca=found.ca, cert=found.cert("admin"), key=found.key("admin"))
        async with admin.AdminClient.connect(found.server, tls) as client:
            while why := await client.ready():
                if not process.alive:
                    log = found.log(embedded.COMPONENT)
                    tail = log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
                    raise TestbedError(
                        f"member {self.name} ended while starting ({why}). "
                        f"The end of {log}:\n  " + "\n  ".join(tail)
                    )
                await asyncio.sleep(_POLL_S)
