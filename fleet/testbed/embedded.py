"""One member inside this process: its API on loopback, its pods real local processes.

    async with EmbeddedCluster("idc-a", nodes=[NodeShape(count=2)]) as idc_a:
        idc_a.kubeconfig, idc_a.server, idc_a.handler

It is joined by its kubeconfig as any cluster is. Nothing is kept: a member begins empty and ends
with its `async with`, and when this program is killed its processes end too.
`python -m fleet.testbed.embedded ROOT` hosts one for the command line.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import random
import signal
import ssl
import sys
import tempfile
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from adapters.process.runtime import ProcessRuntime
from fleet.apiserver.http import Options, Server
from fleet.errors import TestbedError
from fleet.testbed import admin, layout, shape
from virtualnode.access import ClientCertificates
from virtualnode.cluster import Cluster, ClusterSpec
from virtualnode.nodes import Machine, NodeSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from fleet.gateway import pki
    from fleet.kube.wire import Handler, Request, Response

COMPONENT = "embedded"
PLANE_LABEL = "fleet.dev/parameter-plane"
"""Which parameter-plane network a node is on, for people who look at nodes; the fleet reads the
Cluster object."""

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_networks_in_use: set[int] = set()


class EmbeddedCluster:
    """A member with its folder under `root` (a temporary one without it).

    `network` (0..63) numbers the member's addresses: pods in 127.(64+network).0.0/16, Services in
    127.(128+network).0.0/16; without it one that no other member of this process has. With `mount`
    volumes are mounted if the kernel lets us, else paths are rewritten. The backoffs are
    upstream's and can be shortened.
    """

    def __init__(
        self,
        name: str,
        *,
        nodes: Sequence[shape.NodeShape] = shape.DEFAULT,
        parameter_plane: str = "",
        root: Path | None = None,
        network: int | None = None,
        mount: bool = True,
        container_backoff_s: float = 10.0,
        pod_failure_backoff_s: float = 10.0,
    ) -> None:
        self.name = name
        self.parameter_plane = parameter_plane
        self._nodes = tuple(nodes)
        self._root = root
        self._network = network
        self._mount = mount
        self._container_backoff_s = container_backoff_s
        self._pod_failure_backoff_s = pod_failure_backoff_s
        self._layout: layout.Layout | None = None
        self._cluster: Cluster | None = None
        self._runtime: ProcessRuntime | None = None
        self._server: Server | None = None
        self._tls: ssl.SSLContext | None = None
        self._gate = _Gate()
        self._stack = contextlib.AsyncExitStack()

    # What a user of the member needs.

    @property
    def layout(self) -> layout.Layout:
        """Ports, files and address ranges. Raises TestbedError outside `async with`."""
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
    def cluster(self) -> Cluster:
        """The cluster behind the API, for tests that look inside."""
        if self._cluster is None:
            raise TestbedError(f"member {self.name} has not been started")
        return self._cluster

    @property
    def mounted(self) -> bool:
        """Whether volumes are mounted here, and a hosts file shown to pods."""
        return self._runtime is not None and bool(self._runtime.volumes)

    @property
    def handler(self) -> Handler:
        """The API without a socket; callers say who they are."""
        return self.cluster

    def ssl_context(self) -> ssl.SSLContext:
        """TLS as the admin, for aiohttp and the standard library."""
        files = self.layout
        return admin.ssl_context(ca=files.ca, cert=files.cert("admin"), key=files.key("admin"))

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[admin.AdminClient]:
        async with admin.AdminClient.connect(self.server, self.ssl_context()) as client:
            yield client

    def issue(self, user: str, *, groups: Sequence[str] = ()) -> pki.KeyPair:
        """A client certificate of the member's own authority, for tests of other users."""
        return self.layout.authority().client(user, groups=groups)

    def kubeconfig_for(self, user: str, *, groups: Sequence[str] = ()) -> str:
        """The text of a kubeconfig for `user`."""
        return self.layout.kubeconfig_text(self.issue(user, groups=groups), user=user)

    # Life.

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            root = self._root
            if root is None:
                folder = tempfile.TemporaryDirectory(prefix=f"fleet-{self.name}-")
                root = Path(stack.enter_context(folder))
            network = stack.enter_context(_network(self._network, self.name))
            self._layout = layout.load(root) or layout.create(
                self.name, root=root, network=network, components=(COMPONENT,)
            )
            runtime = ProcessRuntime(
                network=f"127.{64 + network}.0.0/16",
                rng=random.SystemRandom(),
                root=root / "pods",
                mount=self._mount,
            )
            self._runtime = await stack.enter_async_context(runtime)
            self._cluster = Cluster(self._spec(network), runtime)
            await stack.enter_async_context(self._cluster)
            self._tls = _server_context(self._layout)
            stack.push_async_callback(self.stop_api)
            await self.start_api()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._gate.open()
        try:
            await self._stack.__aexit__(kind, error, trace)
        finally:
            self._cluster = self._layout = None

    # Faults.

    async def stop_api(self) -> None:
        """Cut the API: connections break and new ones are refused. Pods go on."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace_s=0)

    async def start_api(self) -> None:
        """Undo `stop_api`, at the same address."""
        if self._server is not None:
            return
        self._gate.serves = self.cluster
        server = Server(self._gate, Options(authenticator=ClientCertificates()))
        await server.start(layout.LOOPBACK, self.layout.ports.api, tls=self._tls)
        self._server = server

    async def pause_api(self) -> None:
        """Freeze the API: connections stay open and nothing answers. Pods go on."""
        self._gate.close()

    async def resume_api(self) -> None:
        """Undo `pause_api`."""
        self._gate.open()

    def _spec(self, network: int) -> ClusterSpec:
        machine = platform.machine()
        return ClusterSpec(
            self.name,
            nodes=list(self._node_specs()),
            service_network=f"127.{128 + network}.0.0/16",
            host_address=layout.LOOPBACK,
            machine=Machine(_MACHINES.get(machine, machine), platform.release()),
            root_ca=self.layout.ca.read_text(),
            server_address=self.server.removeprefix("https://"),
            container_backoff_s=self._container_backoff_s,
            pod_failure_backoff_s=self._pod_failure_backoff_s,
        )

    def _node_specs(self) -> Iterator[NodeSpec]:
        number = 0
        plane = {PLANE_LABEL: self.parameter_plane} if self.parameter_plane else {}
        for each in self._nodes:
            for _ in range(each.count):
                number += 1
                labels = {
                    "topology.kubernetes.io/region": self.name,
                    "topology.kubernetes.io/zone": f"{self.name}-a",
                    **plane,
                    **each.labels,
                }
                yield NodeSpec(f"n{number}", each.full_capacity, labels, each.taints)


class _Gate:
    """Passes requests on while it is open; while it is closed they wait, and so do streams."""

    def __init__(self) -> None:
        self.serves: Handler | None = None
        self._opened = asyncio.Event()
        self._opened.set()

    def open(self) -> None:
        self._opened.set()

    def close(self) -> None:
        self._opened.clear()

    async def handle(self, request: Request) -> Response:
        await self._opened.wait()
        assert self.serves is not None
        response = await self.serves.handle(request)
        if isinstance(response.body, AsyncIterator):
            response.body = self._held_back(response.body)
        return response

    async def _held_back(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            async for piece in stream:
                await self._opened.wait()
                yield piece
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()


@contextlib.contextmanager
def _network(wanted: int | None, name: str) -> Iterator[int]:
    """A number for the member's addresses, its own in this process while it lives."""
    if wanted is None:
        first = zlib.crc32(name.encode())
        numbers = ((first + step) % layout.NETWORKS for step in range(layout.NETWORKS))
        wanted = next((number for number in numbers if number not in _networks_in_use), None)
        if wanted is None:
            raise TestbedError(f"{layout.NETWORKS} embedded members live in this process, the most")
    _networks_in_use.add(wanted)
    try:
        yield wanted
    finally:
        _networks_in_use.discard(wanted)


def _server_context(files: layout.Layout) -> ssl.SSLContext:
    """TLS with the member's own certificate, asking for a client's of the same authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cafile=files.ca)
    context.load_cert_chain(files.cert("kube-apiserver"), files.key("kube-apiserver"))
    return context


# For the command line: a program of its own that hosts one member.


def arguments(root: Path) -> list[str]:
    """The command that hosts the member of `root`."""
    return [sys.executable, "-m", "fleet.testbed.embedded", str(root)]


async def host(root: Path) -> None:
    """Host the member of `root` until SIGTERM or SIGINT. Raises TestbedError."""
    found = layout.load(root)
    if found is None:
        raise TestbedError(f"there is no member in {root}")
    nodes = shape.remembered(root) or ()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with EmbeddedCluster(found.name, nodes=nodes, root=root, network=found.network):
        await stop.wait()


def main() -> int:
    try:
        asyncio.run(host(Path(sys.argv[1])))
    except (TestbedError, OSError) as error:
        sys.stderr.write(f"fleet: {error}\n")
        return os.EX_SOFTWARE
    return 0


if __name__ == "__main__":
    sys.exit(main())
