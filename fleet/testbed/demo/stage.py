"""The stage of the demo: three embedded members and a gateway, in this process.

They are put up for the story and taken down after it, whatever happens in between; with `keep` the
gateway stays until it is interrupted.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import fleet
from fleet import app
from fleet.errors import TestbedError
from fleet.gateway.config import Config
from fleet.testbed.demo.gateway_client import GatewayClient
from fleet.testbed.demo.story import Story, what_to_do, what_to_try
from fleet.testbed.embedded import EmbeddedCluster
from fleet.testbed.shape import ACCELERATOR, PRODUCT_LABEL, NodeShape

if TYPE_CHECKING:
    from fleet.testbed.demo.telling import Teller

LEASE_S = 15.0


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """A member of the demo: its nodes, its parameter plane, whose it is and what it costs."""

    name: str
    nodes: int
    accelerators_each: int
    plane: str
    provider: str
    price_per_hour: str = ""

    @property
    def accelerators(self) -> int:
        return self.nodes * self.accelerators_each

    def shape(self) -> NodeShape:
        return NodeShape(
            count=self.nodes,
            capacity={ACCELERATOR: str(self.accelerators_each)},
            labels={PRODUCT_LABEL: "h200"},
        )


MEMBERS = (
    MemberPlan("idc-a", 2, 2, plane="roce-1", provider="own"),
    MemberPlan("idc-b", 1, 2, plane="roce-1", provider="own"),
    MemberPlan("cloud-c", 8, 8, plane="vpc-9", provider="cloud", price_per_hour="1.90"),
)


async def play(
    teller: Teller,
    *,
    keep: bool = False,
    story: bool = True,
    directory: Path | None = None,
    port: int = 0,
    kubectl: bool = True,
) -> None:
    """Tell the story once; without `story` only put up the fleet, and keep it.

    `directory` holds the gateway's state, a temporary one without it; `kubectl` is whether the user
    has one, to be told what to try with it.

    Raises Untrue for a claim that does not hold, TestbedError for what did not happen in time.
    """
    async with AsyncExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-demo-")))
        _begin_in(directory)
        members = {}
        for plan in MEMBERS:
            cluster = EmbeddedCluster(plan.name, nodes=[plan.shape()], container_backoff_s=1.0)
            members[plan.name] = (plan, await stack.enter_async_context(cluster))
        kubeconfig = directory / "fleet.kubeconfig"
        config = Config(
            state_directory=directory / "state",
            kubeconfig=kubeconfig,
            port=port,
            lease_s=LEASE_S,
            log_level="error",
        )
        program = _program()
        gateway = asyncio.create_task(_gateway(config, ready := asyncio.Event()), name="gateway")
        stack.push_async_callback(_end, gateway)
        with teller.step("fleet gateway") as step:
            await _either(gateway, ready)
            client = await stack.enter_async_context(GatewayClient(kubeconfig))
            step.say(client.server)
        told = Story(client, members, program=program, lease_s=LEASE_S, teller=teller)
        if story:
            await told.tell()
            teller.end()
        else:
            await told.join()
            teller.finished = True
        if keep or not story:
            file = kubeconfig.absolute()
            teller.note(what_to_try(file, kubectl=kubectl) if story else what_to_do(file))
            teller.note("The gateway runs until you press Ctrl-C.")
            await gateway


async def _gateway(config: Config, ready: asyncio.Event) -> None:
    await app.serve(config, ready=lambda _: ready.set())


async def _either(gateway: asyncio.Task[None], ready: asyncio.Event) -> None:
    """Until the gateway serves; raises what kept it from it."""
    waiting = asyncio.create_task(ready.wait(), name="gateway ready")
    done, _ = await asyncio.wait({gateway, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if gateway in done:
        waiting.cancel()
        gateway.result()
        raise TestbedError("the gateway ended before it served")


async def _end(gateway: asyncio.Task[None]) -> None:
    gateway.cancel()
    with suppress(asyncio.CancelledError):
        await gateway


def _begin_in(directory: Path) -> None:
    """Raises TestbedError for a directory that cannot be used, or was."""
    other = "give another with --directory"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        used = (directory / "state").exists()
    except OSError as error:
        raise TestbedError(f"{directory} cannot be used: {error.strerror}; {other}") from error
    if used:
        raise TestbedError(
            f"{directory} has the fleet of an earlier demo, whose clusters are gone; {other}, or "
            "remove it"
        )


def _program() -> Path:
    """The all-reduce program: the example of the checkout, if this is one."""
    found = Path(fleet.__file__).parent.parent / "examples" / "allreduce.py"
    if not found.exists():
        raise TestbedError(
            f"{found} is missing: the demo runs the example of a checkout of the project"
        )
    return found
