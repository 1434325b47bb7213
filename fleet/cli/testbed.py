"""`fleet testbed`: member clusters on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable


@click.group(
    epilog="\b\nExamples:\n  fleet testbed up -n 2\n  fleet testbed status\n  fleet testbed down"
)
def testbed() -> None:
    """Member clusters on this machine, for trying the fleet and testing it."""


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    for decorate in (
        click.argument("names", nargs=-1, metavar="[NAME]..."),
        click.option("--provider", default="local", show_default=True, help="What makes them."),
        click.option(
            "--home",
            type=click.Path(path_type=Path, file_okay=False),
            help="Where members live (default: the user's state directory).",
        ),
    ):
        command = decorate(command)
    return command


def _say(line: str) -> None:
    click.echo(line, err=True)


@testbed.command(
    epilog="\b\nExamples:\n"
    "  fleet testbed up\n"
    "  fleet testbed up -n 2 --nodes 4*cpu=32,memory=256Gi,nvidia.com/gpu=8"
)
@_common
@click.option("-n", "count", default=3, show_default=True, help="How many, where none is named.")
@click.option("--nodes", multiple=True, metavar="SHAPE", help="Nodes of each new member.")
def up(
    names: tuple[str, ...], provider: str, home: Path | None, count: int, nodes: tuple[str, ...]
) -> None:
    """Start members; those that run are left alone."""
    from fleet.testbed import commands, shape

    members = asyncio.run(
        commands.up(
            provider,
            count=count,
            names=names,
            nodes=[shape.parse(text) for text in nodes] or None,
            home=home,
            progress=_say,
        )
    )
    click.echo(commands.up_text(members), nl=False)


@testbed.command()
@_common
def down(names: tuple[str, ...], provider: str, home: Path | None) -> None:
    """Stop members and delete what they hold."""
    from fleet.testbed import commands

    gone = asyncio.run(commands.down(provider, names=names, home=home, progress=_say))
    if not gone:
        click.echo("nothing to stop")


@testbed.command()
@_common
def status(names: tuple[str, ...], provider: str, home: Path | None) -> None:
    """Show members and what they lack."""
    from fleet.testbed import commands

    members = asyncio.run(commands.status(provider, names=names, home=home))
    click.echo(commands.status_text(members), nl=False)
