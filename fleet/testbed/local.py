"""One member: a real control plane on loopback, its nodes and pods played by kwok.

    async with LocalCluster("east", nodes=[NodeShape(count=2)]) as east:
        east.kubeconfig, east.server, east.ca, east.admin_cert, east.admin_key

Invariant: `start` and `stop` look at what is so and do the rest; either may be called at any time,
after a crash or a reboot as well. With `components=API_ONLY` there are etcd and kube-apiserver
alone: a real API to compare with, ready in about 3 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fleet.errors import TestbedError
from fleet.testbed import admin, binaries, components, kwok, layout, processes, shape
from fleet.testbed.components import (
    ALL,
    API_ONLY,
    API_SERVER,
    CONTROLLER_MANAGER,
    GATEKEEPER,
    KWOK,
)
from fleet.testbed.leash import Leash

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from types import TracebackType

    from fleet.gateway import pki

__all__ = ["ALL", "API_ONLY", "LocalCluster"]

_POLL_S = 0.05
_LOG_TAIL_LINES = 8


class LocalCluster:
    """A member with its folder under `root` (a temporary one, deleted at the end, without it).

    `extra_args` adds flags to a component: `{"kube-apiserver": ["--v=4"]}`. `network` (0..63)
    numbers the member's pod and service addresses; give distinct ones to members that meet.
    With `outlive` the processes go on after this program; otherwise they end with it, even if it
    is killed. A start that fails leaves the folder, for its logs.
    """

    def __init__(
        self,
        name: str,
        *,
        root: Path | None = None,
        nodes: Sequence[shape.NodeShape] | None = None,
        components: Sequence[str] = ALL,
        network: int | None = None,
        extra_args: Mapping[str, Sequence[str]] | None = None,
        outlive: bool = False,
        timeout_s: float = 120,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self._root = root.absolute() if root is not None else None
        self._temporary: str | None = None
        if nodes is None:
            nodes = shape.DEFAULT if KWOK in components else ()
        self._nodes = tuple(nodes)
        self._components = tuple(components)
        self._network = network
        self._extra_args = dict(extra_args or {})
        self._outlive = outlive
        self._timeout_s = timeout_s
        self._progress = progress
        self._layout: layout.Layout | None = None
        self._leash: Leash | None = None
        self._binaries: dict[str, Path] = {}

    # What a user of the member needs.

    @property
    def layout(self) -> layout.Layout:
        """Ports, files and address ranges. Raises TestbedError before the first `start`."""
        if self._layout is None:
            raise TestbedError(f"member {self.name} has not been started")
        return self._layout

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig; it needs no other file."""
        return self.layout.kubeconfig

    @property
    def server(self) -> str:
        return self.layout.server

    @property
    def ca(self) -> Path:
        return self.layout.ca

    @property
    def admin_cert(self) -> Path:
        return self.layout.cert("admin")

    @property
    def admin_key(self) -> Path:
        return self.layout.key("admin")

    def ssl_context(self) -> ssl.SSLContext:
        """TLS as the admin, for aiohttp and the standard library."""
        return admin.ssl_context(ca=self.ca, cert=self.admin_cert, key=self.admin_key)

    def issue(self, user: str, *, groups: Sequence[str] = ()) -> pki.KeyPair:
        """A client certificate of the member's own authority, for tests of other users."""
        return self.layout.authority().client(user, groups=groups)

    def kubeconfig_for(self, user: str, *, groups: Sequence[str] = ()) -> str:
        """The text of a kubeconfig for `user`."""
        return self.layout.kubeconfig_text(self.issue(user, groups=groups), user=user)

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[admin.AdminClient]:
        async with admin.AdminClient.connect(self.server, self.ssl_context()) as client:
            yield client

    # Life.

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self, *, turn: asyncio.Semaphore | None = None) -> None:
        """Start what is not running and wait until the member is ready for use.

        `turn` bounds how many members go through the heavy first seconds at once. Raises
        TestbedError with the end of a component's log when that component does not come up;
        nothing is left running then.
        """
        for component in self._components:
            if component != GATEKEEPER:
                self._binaries[component] = await binaries.ensure(
                    component, progress=self._progress
                )
        if self._root is None:
            self._temporary = tempfile.mkdtemp(prefix=f"fleet-{self.name}-")
            self._root = Path(self._temporary)
        self._layout = layout.load(self._root) or layout.create(
            self.name, root=self._root, network=self._network, components=self._components
        )
        known = shape.remembered(self._root)
        if known is None:
            shape.remember(self._root, self._nodes)
        else:
            self._nodes = known
        before = self.running()
        if self._leash is None and not before.keys() >= set(self._components):
            self._leash = Leash(self.layout.run)
        try:
            async with asyncio.timeout(self._timeout_s):
                async with turn or contextlib.nullcontext():
                    for component in API_ONLY:
                        self._run(component)
                    await self._api_ready()
                self._write_kwok_files()
                for component in self._components:
                    self._run(component)
                await self._member_ready()
        except BaseException as error:
            await self._stop_all_but(before)
            if isinstance(error, TimeoutError):
                raise TestbedError(
                    f"member {self.name} was not ready after {self._timeout_s:.0f} s; "
                    f"its logs are in {self.layout.root / 'log'}"
                ) from error
            raise
        if self._outlive:
            self._let_go()

    async def stop(self) -> None:
        """End every process of the member; a temporary folder goes as well."""
        if self._root is None:
            return
        self._layout = self._layout or layout.load(self._root)
        if self._layout is not None:
            await self._stop_all_but({})
        if self._temporary is not None:
            shutil.rmtree(self._temporary)
            self._root = self._layout = self._temporary = None

    async def _stop_all_but(self, kept: Mapping[str, processes.Process]) -> None:
        ending = {
            name: process
            for name, process in processes.recorded(self.layout.run).items()
            if process != kept.get(name)
        }
        await processes.stop(ending.values(), grace_s=0)
        processes.forget(self.layout.run, ending)
        self._let_go()

    def _let_go(self) -> None:
        if self._leash is not None:
            self._leash.release()
            self._leash = None

    # Faults.

    async def pause_api(self) -> None:
        """Freeze the API server: connections stay open and nothing answers."""
        await processes.pause(self._api_process())

    async def resume_api(self) -> None:
        """Undo `pause_api`."""
        self._api_process().send(signal.SIGCONT)
        await self._api_ready()

    async def stop_api(self, *, grace_s: float = 0) -> None:
        """End the API server: connections break and new ones are refused; etcd keeps the data.

        With `grace_s` it is asked to end first, and finishes what it is doing.
        """
        await processes.stop([self._api_process()], grace_s=grace_s)

    async def start_api(self) -> None:
        """Undo `stop_api`, at the same address."""
        self._run(API_SERVER)
        await self._api_ready()

    def running(self) -> dict[str, processes.Process]:
        """The processes of this member that are alive, by component; paused ones as well."""
        found = processes.recorded(self.layout.run)
        return {name: process for name, process in found.items() if process.alive}

    def _api_process(self) -> processes.Process:
        process = self.running().get(API_SERVER)
        if process is None:
            raise TestbedError(f"member {self.name}: kube-apiserver is not running")
        return process

    # The parts of a start.

    def _run(self, component: str) -> None:
        """Start `component` unless it runs; a paused one goes on."""
        known = processes.recorded(self.layout.run).get(component)
        if known is not None and known.alive:
            if known.paused:
                known.send(signal.SIGCONT)
            return
        if component == GATEKEEPER:
            argv = [sys.executable, "-m", "fleet.testbed.gatekeeper", str(self.layout.root)]
            env = dict(os.environ)
        else:
            flags = components.arguments(component, self.layout)
            argv = [str(self._binaries[component]), *flags, *self._extra_args.get(component, ())]
            # Nothing of the user's surroundings gets into a component or an exec in its pods.
            env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.layout.root)}
        processes.spawn(
            component, argv, run=self.layout.run, log=self.layout.log(component), env=env
        )

    async def _api_ready(self) -> None:
        """Wait until the API server says so and has made the namespace `default`."""
        async with self.client() as client:

            async def furnished() -> str:
                found = await client.get("/api/v1/namespaces/default")
                return "" if found else "the namespace default is missing"

            await self._until(client.ready, of=API_ONLY)
            await self._until(furnished, of=API_ONLY)

    async def _member_ready(self) -> None:
        """Make the nodes; wait until they are Ready and `default` has its ServiceAccount."""
        async with self.client() as client:

            async def nodes_ready() -> str:
                found = await client.get("/api/v1/nodes")
                return "" if found and all(map(_ready, found["items"])) else "nodes are not Ready"

            async def account() -> str:
                path = "/api/v1/namespaces/default/serviceaccounts/default"
                return "" if await client.get(path) else "the default ServiceAccount is missing"

            for node in shape.nodes(self._nodes, member=self.name):
                await client.create("/api/v1/nodes", node)
            if KWOK in self._components:
                await self._until(nodes_ready, of=self._components)
            if CONTROLLER_MANAGER in self._components:
                await self._until(account, of=self._components)

    async def _until(self, lacking: Callable[[], Awaitable[str]], *, of: Sequence[str]) -> None:
        """Ask until `lacking` answers nothing; stop asking when a component of `of` has ended."""
        while why := await lacking():
            self._check_alive(of, why)
            await asyncio.sleep(_POLL_S)

    def _check_alive(self, wanted: Sequence[str], why: str) -> None:
        alive = self.running()
        for component in wanted:
            if component not in alive:
                log = self.layout.log(component)
                tail = log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
                raise TestbedError(
                    f"member {self.name}: {component} ended while starting ({why}). "
                    f"The end of {log}:\n  " + "\n  ".join(tail)
                )

    def _write_kwok_files(self) -> None:
        (self.layout.root / "kwok.yaml").write_text(kwok.configuration(self.layout))
        kwok.log_file(self.layout).write_text(kwok.log_lines(self.name))


def _ready(node: Mapping[str, Any]) -> bool:
    conditions = node["status"].get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
