"""The options that say which gateway a command speaks to."""

from __future__ import annotations

from functools import update_wrapper, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.cli.client import Client

P = ParamSpec("P")


def gateway(command: Callable[Concatenate[Client, P], None]) -> Callable[..., None]:
    """Give a command `--kubeconfig` and `--context`, and a client for what they name."""

    def with_client(client: Callable[[], Client], /, *args: P.args, **kwargs: P.kwargs) -> None:
        command(client(), *args, **kwargs)

    return gateway_if_asked(update_wrapper(with_client, command))


def gateway_if_asked(
    command: Callable[Concatenate[Callable[[], Client], P], None],
) -> Callable[..., None]:
    """The same for a command that may do without: it has a client once it asks for one."""

    @click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Kubeconfig that leads to the gateway (default: KUBECONFIG, where its current context "
        "is one that a gateway wrote, else the one of the gateway on this machine).",
    )
    @click.option("--context", help="Context in it (default: fleet).")
    @wraps(command)
    def with_client(
        *args: Any, kubeconfig: Path | None, context: str | None, **kwargs: Any
    ) -> None:
        def client() -> Client:
            from fleet.cli.client import Client, read_access
            from fleet.cli.finding import find_kubeconfig

            return Client(read_access(find_kubeconfig(kubeconfig), context))

        command(client, *args, **kwargs)

    return with_client
