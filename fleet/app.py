"""The composition root: the only place that builds the gateway's parts and wires them.

Everything that touches the machine is made here – state directory, certificates, sockets, clocks,
randomness, transports – and handed to parts that know none of it. `serve` runs a gateway until it
is cancelled; the CLI calls it.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import random
import signal
import time
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import uvloop

import adapters.kubernetes
import policies
from adapters.kueue import Dispatcher
from fleet.apiserver.controllers import Controllers
from fleet.apiserver.http import Limits, Options, Server
from fleet.apiserver.kinds import CustomKind
from fleet.dispatch.marks import FINALIZER
from fleet.dispatch.parts import Parts
from fleet.dispatch.situation import Timing
from fleet.errors import ConfigError
from fleet.gateway import own
from fleet.gateway.assembly import Assembly
from fleet.gateway.authentication import Authentication
from fleet.gateway.authority import Authority, server_names
from fleet.gateway.clusters import member_since
from fleet.gateway.declared import Declared
from fleet.gateway.edge import Edge
from fleet.gateway.extensions import Complaints
from fleet.gateway.health import Health
from fleet.gateway.kubeconfig import KubeconfigFile, url_of
from fleet.gateway.logs import log_exchange
from fleet.gateway.metrics import RequestMetrics, watch_long_running
from fleet.gateway.priority_classes import OneDefault
from fleet.gateway.probes import FirstLists, Running, add_store
from fleet.gateway.sizes import GangSizes
from fleet.gateway.state import StateDirectory
from fleet.members.binding import bind
from fleet.members.credentials import CredentialStore
from fleet.members.roster import Members
from fleet.scheduling import extension
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from fleet.store.sqlite import SqliteBackend
from fleet.view.merged import Freshness

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from fleet.apiserver.http import Exchange
    from fleet.gateway.config import Config
    from fleet.members.roster import Change

log = logging.getLogger(__name__)

# Tens of thousands of entries live long; looking through them for cycles at the default pace
# costs more than anything they could leak.
_GC_THRESHOLDS = (50_000, 20, 100)
_TRIM_EVERY_S = 10.0
_RENEW_EVERY_S = 12 * 3600.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway that serves. `url` is where, `kubeconfig` the file that leads there."""

    url: str
    kubeconfig: Path
    members: Members
    assembly: Assembly
    server: Server


async def serve(config: Config, *, ready: Callable[[Gateway], None] = lambda _: None) -> None:
    """Run a gateway until cancelled; `ready` is called once it serves.

    Raises ConfigError and StoreError when it cannot start, OSError for a file of its state that it
    cannot read or write.
    """
    gc.set_threshold(*_GC_THRESHOLDS)
    extensions = extension.load(failed=Complaints(time.monotonic))
    async with AsyncExitStack() as stack:
        state = stack.enter_context(StateDirectory.open(config.state_directory))
        authority = Authority.open(state.pki)
        names = server_names(config.address, config.tls_names)
        rng = random.SystemRandom()
        store = await stack.enter_async_context(
            ObjectStore(SqliteBackend(state.objects), Sequencer(epoch=state.next_epoch()))
        )
        await own.first_objects(store, now=_now(), uid=_uid, rng=rng)
        members = Members(
            CredentialStore(state.members),
            partial(adapters.kubernetes.connect, allow_exec=config.exec_plugins_allowed),
            prepare=bind,
            name_taken=lambda name: own.ending_in(name, store, assembly.own.resources),
            since=lambda name: member_since(store, name),
        )
        await stack.enter_async_context(members)
        address = url_of(config.address, config.port)
        not_a_members = own.NotAMembers(lambda: {member.name for member in members})
        nodes = own.NodesOfMembers(lambda: {member.name for member in members})
        sizes = GangSizes(lambda *key: store.get(policies.PLACEMENT.resource, *key))
        fleet = own.fleet_uid(store)
        shards = Parts(fleet=fleet)
        assembly = Assembly(
            store=store,
            members=members,
            custom=[
                CustomKind(
                    kind.resource,
                    kind.openapi,
                    kind.columns,
                    kind.status,
                    kind.rules,
                    relations=kind.relations,
                )
                for kind in policies.kinds()
            ],
            documents=policies.openapi_document(),
            freshness=Freshness(bound_s=config.freshness_s),
            clock=time.monotonic,
            now=_now,
            uid=_uid,
            rng=rng,
            server_address=address.removeprefix("https://"),
            admission=(not_a_members, nodes, Declared(), sizes, OneDefault(store)),
            shards=shards,
            extensions=extensions,
        )
        stack.callback(shards.follow(store.collection(policies.PLACEMENT.resource)))
        controllers = Controllers(
            store,
            lambda: assembly.own.resources,
            assembly.own.writer,
            now=_now,
            root_ca=authority.certificate.decode(),
            elsewhere=not_a_members.named,
            orphaned_first=(FINALIZER,),
            kernel=assembly.own,
        )
        controllers.start()
        stack.push_async_callback(assembly.world.close)
        await assembly.first_policies(policies.builtin.objects())
        stack.callback(assembly.begin())
        dispatch = assembly.dispatch(
            store,
            shards,
            fleet=fleet,
            timing=Timing(hold_limit_s=config.hold_s),
            lease_s=config.lease_s,
        )
        clusters = assembly.clusters(store)
        stack.callback(members.on_change(clusters.changed))
        price_sources = assembly.price_sources(store)
        await members.end_leaves()
        health = Health()
        add_store(health, store, clock=time.monotonic)
        dispatching, controlling = Running(), Running()
        health.add("dispatch", dispatching)
        health.add("controllers", controlling)
        health.add("informer-sync", FirstLists(assembly.world), live=False)
        server = Server(
            Edge(assembly.roots, health=health),
            Options(
                authenticator=Authentication(),
                limits=Limits(body_bytes=config.body_limit_bytes),
                observe=_observer(),
            ),
        )
        watch_long_running(lambda: server.long_running)
        context = authority.server_context(names)
        try:
            host, port = await server.start(config.address, config.port, tls=context)
        except OSError as error:
            raise ConfigError(
                f"cannot serve on {config.address} port {config.port}: {error.strerror or error}; "
                "choose others with --address and --port, or stop what is there"
            ) from error
        url = url_of(host, port)
        file = KubeconfigFile(
            config.kubeconfig, url=url, authority=authority.certificate, admin=authority.admin
        )
        try:
            file.write(member.name for member in members)
        except OSError as error:
            raise ConfigError(
                f"the kubeconfig {config.kubeconfig} cannot be written: {error.strerror or error}; "
                "choose another with --kubeconfig, or make it possible"
            ) from error

        async def rewrite(change: Change) -> None:
            if change.kind in ("joined", "left"):
                await asyncio.to_thread(file.write, [member.name for member in members])

        async def renew() -> None:
            await asyncio.to_thread(authority.renew, context, names)
            await asyncio.to_thread(file.write, [member.name for member in members])

        stack.callback(members.on_change(rewrite))
        gateway = Gateway(url, config.kubeconfig, members, assembly, server)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(assembly.world.run(), name="idle resources")
                group.create_task(controlling.run(controllers.run()), name="controllers")
                group.create_task(clusters.run(), name="clusters")
                group.create_task(dispatching.run(dispatch.run()), name="dispatch")
                for statuses in assembly.statuses:
                    group.create_task(statuses.run(), name=statuses.what)
                if config.multi_kueue_managers:
                    kueue = Dispatcher(
                        assembly.guests,
                        config.multi_kueue_managers,
                        clock=time.monotonic,
                        now=time.time,
                    )
                    group.create_task(kueue.run(), name="MultiKueue")
                group.create_task(price_sources.run(), name="price sources")
                group.create_task(_renewing(renew), name="certificates")
                group.create_task(_trimming(), name="memory")
                log.info("serving on %s, kubeconfig %s", url, config.kubeconfig)
                ready(gateway)
        finally:
            health.stop()
            await server.stop(grace_s=config.shutdown_grace_s)


def run(config: Config, *, ready: Callable[[Gateway], None] = lambda _: None) -> None:
    """`serve` on an event loop of its own until SIGINT or SIGTERM, which end open streams in order
    and let requests finish; a second signal ends the process at once. Raises what `serve` raises.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_told(config, ready))


async def _until_told(config: Config, ready: Callable[[Gateway], None]) -> None:
    loop = asyncio.get_running_loop()
    serving = asyncio.current_task()
    assert serving is not None
    told = False

    def stop(number: signal.Signals) -> None:
        nonlocal told
        told = True
        log.info("stopping on %s", number.name)
        for each in _STOP_SIGNALS:
            loop.remove_signal_handler(each)
        serving.cancel()

    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        await serve(config, ready=ready)
    except asyncio.CancelledError:
        if not told:
            raise


def _observer() -> Callable[[Exchange], None]:
    """Everything that wants to know of each finished request."""
    metrics = RequestMetrics()

    def observe(exchange: Exchange) -> None:
        metrics.observe(exchange)
        log_exchange(exchange)

    return observe


async def _renewing(
    renew: Callable[[], Awaitable[None]], *, every_s: float = _RENEW_EVERY_S
) -> None:
    """Keep certificates, the server's and the admin's, from expiring under a gateway that runs for
    years. They are renewed long before their end: a time that fails is made up for by the next."""
    while True:
        await asyncio.sleep(every_s)
        try:
            await renew()
        except Exception:
            log.exception("certificates could not be renewed; the next try is in %g s", every_s)


async def _trimming() -> None:
    """Give freed memory back to the system.

    A member's first list passes through as text before it is kept; glibc holds on to the pages
    that text took, up to the size of everything that is kept, unless asked to let go.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return
    while True:
        await asyncio.sleep(_TRIM_EVERY_S)
        await asyncio.to_thread(trim, 0)


def _now() -> datetime:
    return datetime.now(UTC)


def _uid() -> str:
    return str(uuid.uuid4())
