"""A small cluster, composed: store, kernel, controllers, scheduler, kubelet.

    async with Cluster(ClusterSpec("idc-a", nodes=[NodeSpec("n1")]), runtime) as cluster:
        await cluster.handle(request)

Everything lives in this process and ends with the `async with`. Callers are authenticated before
`handle` (`access.ClientCertificates` over TLS); an in-process caller says who it is in the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import random
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import orjson

from fleet.apiserver.controllers import Controllers
from fleet.apiserver.kernel import Kernel
from fleet.apiserver.kinds import Kinds
from fleet.apiserver.writing import Writer
from fleet.errors import AlreadyExists, MethodNotAllowed
from fleet.kube import builtin
from fleet.kube.defaults.validation.policies import SYSTEM_PRIORITIES
from fleet.kube.wire import Response
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from virtualnode import deployments, resources, services
from virtualnode.access import Audit, Everything, impersonated
from virtualnode.actions import PodActions
from virtualnode.addresses import ServiceAddresses
from virtualnode.admission import JobAdmission, PodAdmission, ServiceAdmission
from virtualnode.events import Recorder
from virtualnode.jobs.controller import JobController
from virtualnode.kubelet.kubelet import Kubelet
from virtualnode.kubelet.worker import BACKOFF_S, Surroundings
from virtualnode.nodes import Machine, node
from virtualnode.objects import Objects
from virtualnode.openapi import ReleasedOpenApi
from virtualnode.reviews import Reviews
from virtualnode.scheduler import Scheduler
from virtualnode.streams.endpoints import PodStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from fleet.kube.wire import Request
    from virtualnode.access import Authorizer
    from virtualnode.kubelet.runtime import Runtime
    from virtualnode.nodes import NodeSpec

Object = dict[str, Any]

NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_HEALTH: Final = ("livez", "readyz", "healthz")


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """What a cluster is to be. `service_network` is where Services get their addresses from;
    `host_address` what nodes and pods give as their host's. The delays are upstream's; tests
    shorten them."""

    name: str
    nodes: Sequence[NodeSpec] = ()
    service_network: str = "127.128.0.0/16"
    host_address: str = "127.0.0.1"
    machine: Machine = field(default_factory=Machine)
    root_ca: str = ""
    server_address: str = "127.0.0.1:6443"
    container_backoff_s: float = BACKOFF_S
    pod_failure_backoff_s: float = 10.0


class _Part(Protocol):
    """Something that runs as long as the cluster does."""

    async def run(self) -> None: ...


class Cluster:
    """The cluster as a `fleet.kube.wire.Handler`."""

    def __init__(
        self,
        spec: ClusterSpec,
        runtime: Runtime,
        *,
        authorizer: Authorizer | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        uid: Callable[[], str] = lambda: str(uuid.uuid4()),
        rng: random.Random | None = None,
    ) -> None:
        self._spec = spec
        self._runtime = runtime
        self._now = now
        self.audit = Audit()
        rng = rng or random.SystemRandom()
        self._store = ObjectStore(MemoryBackend(), Sequencer(epoch=1))
        kinds = Kinds()
        writer = Writer(
            self._store,
            kinds,
            now=now,
            uid=uid,
            random=rng,
            admission=(
                JobAdmission(),
                PodAdmission(lambda: self.objects.list(resources.PRIORITY_CLASSES)),
                ServiceAdmission(
                    ServiceAddresses(
                        ipaddress.IPv4Network(spec.service_network),
                        lambda: self.objects.list(resources.SERVICES),
                    )
                ),
            ),
            namespaces=resources.NAMESPACES,
        )
        self.objects = Objects(self._store, writer)
        self._controllers = Controllers(
            self._store, lambda: resources.ALL, writer, now=now, root_ca=spec.root_ca
        )
        self._streams = PodStreams(
            self.objects, lambda: self.kubelet, now=lambda: now().timestamp()
        )
        self._kernel = Kernel(
            self._store,
            resources.ALL,
            kinds=kinds,
            writer=writer,
            openapi=ReleasedOpenApi(resources.ALL),
            wall_clock=lambda: now().timestamp(),
            rng=rng,
            special=(
                Reviews(authorizer or Everything()),
                self._streams,
                PodActions(self.objects, now=now),
            ),
            server_address=spec.server_address,
        )
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._store)
            await self._first_objects()
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            stack.callback(self._begin(tasks))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            await self._stack.__aexit__(kind, error, trace)
        else:
            await self._stack.aclose()  # what the body raised leaves as it is, in no group

    def _begin(self, tasks: asyncio.TaskGroup) -> Callable[[], None]:
        """Start everything that follows the store; returns what ends it."""
        objects, now = self.objects, self._now
        recorder = Recorder(objects, now=now, host=self._spec.name)
        around = Surroundings(
            objects,
            self._runtime,
            recorder,
            now,
            host_address=self._spec.host_address,
            backoff_s=self._spec.container_backoff_s,
        )
        self.kubelet = Kubelet(around)
        jobs = JobController(objects, recorder, now=now, backoff_s=self._spec.pod_failure_backoff_s)
        parts: list[tuple[str, _Part]] = [
            ("events", recorder),
            ("controllers", self._controllers),
            ("jobs", jobs),
            ("scheduler", Scheduler(objects, recorder, now=now)),
            ("kubelet", self.kubelet),
            ("streams", self._streams),
            *deployments.controllers(objects, recorder, now=now),
            *services.controllers(objects),
        ]
        running = [
            tasks.create_task(part.run(), name=f"{self._spec.name}: {name}") for name, part in parts
        ]

        def end() -> None:
            for task in running:
                task.cancel()

        return end

    async def handle(self, request: Request) -> Response:
        """Answer an API request of an authenticated caller."""
        if request.path == "/version" or request.path.split("/")[1] in _HEALTH:
            return self._about(request)
        caller = request.user
        request = impersonated(request)
        self.audit.note(request, by=caller)
        return await self._kernel.handle(request)

    def _about(self, request: Request) -> Response:
        if request.method != "GET":
            raise MethodNotAllowed(f"{request.method} is not supported on {request.path}")
        if request.path == "/version":
            headers = {"content-type": "application/json"}
            return Response(200, headers, orjson.dumps(self._version()))
        return Response(200, {"content-type": "text/plain; charset=utf-8"}, b"ok")

    def _version(self) -> Object:
        release = builtin.release()
        major, minor, _ = release.removeprefix("v").split(".", 2)
        return {
            "major": major,
            "minor": minor,
            "gitVersion": f"{release}+embedded",
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "",
            "platform": f"linux/{self._spec.machine.architecture}",
        }

    async def _first_objects(self) -> None:
        """What a cluster has from its beginning."""
        for name in NAMESPACES:
            await self._make(resources.NAMESPACES, "v1", "Namespace", name)
        for name, value in SYSTEM_PRIORITIES.items():
            kind = "PriorityClass"
            await self._make(
                resources.PRIORITY_CLASSES, "scheduling.k8s.io/v1", kind, name, value=value
            )
        rules = [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ]
        cluster_roles = next(r for r in resources.STORED if r.gvr.resource == "clusterroles")
        await self._make(
            cluster_roles, cluster_roles.api_version, "ClusterRole", "cluster-admin", rules=rules
        )
        for wanted in self._spec.nodes:
            made = node(
                wanted,
                runtime=self._runtime.name,
                isolation=self._runtime.isolation,
                version=builtin.release(),
                address=self._spec.host_address,
                machine=self._spec.machine,
                now=self._now(),
            )
            await self.objects.create(resources.NODES, made)

    async def _make(
        self, resource: Any, api_version: str, kind: str, name: str, **fields: Any
    ) -> None:
        obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}
        with contextlib.suppress(AlreadyExists):
            await self.objects.create(resource, obj)
