"""`fleet testbed`: member clusters on this machine."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli import output
from fleet.cli.program import pasteable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fleet.testbed.commands import MemberStatus
    from fleet.testbed.shape import NodeShape

# As `fleet.testbed.commands` has them; a test compares.
PROVIDERS = ("local", "embedded")
MOST = 64


@click.group(
    epilog="\b\nExamples:\n  fleet testbed up -n 2\n  fleet testbed status\n  fleet testbed down"
)
def testbed() -> None:
    """Member clusters on this machine, for trying the fleet and testing it."""


def _common(*, default: str | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Names, provider and home; without a `default` members of any provider are meant."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorate in (
            click.argument("names", nargs=-1, metavar="[NAME]..."),
            click.option(
                "--provider",
                type=click.Choice(PROVIDERS),
                default=default,
                show_default=default is not None,
                help="What makes them." if default else "Only those that it made (default: any).",
            ),
            click.option(
                "--home",
                type=click.Path(path_type=Path, file_okay=False),
                help="Where members live (default: the user's state directory).",
            ),
        ):
            command = decorate(command)
        return command

    return decorated


def _say(line: str) -> None:
    click.echo(line, err=True)


def _shapes(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> list[NodeShape]:
    from fleet.errors import TestbedError
    from fleet.testbed import shape

    try:
        return [shape.parse(text) for text in texts]
    except TestbedError as error:
        raise click.BadParameter(str(error), context, option) from error


@testbed.command(
    epilog="\b\nExamples:\n"
    "  fleet testbed up\n"
    "  fleet testbed up -n 2 --nodes 4*cpu=32,memory=256Gi,nvidia.com/gpu=8"
)
@_common(default=PROVIDERS[0])
@click.option(
    "-n",
    "count",
    type=output.Integer(1, MOST),
    default=3,
    show_default=True,
    help="How many, where none is named.",
)
@click.option(
    "--nodes", callback=_shapes, multiple=True, metavar="SHAPE", help="Nodes of each new member."
)
@output.option()
def up(
    names: tuple[str, ...],
    provider: str,
    home: Path | None,
    count: int,
    nodes: list[NodeShape],
    form: str,
) -> None:
    """Start members; those that run are left alone."""
    from fleet.testbed import commands

    members = asyncio.run(
        commands.up(
            provider, count=count, names=names, nodes=nodes or None, home=home, progress=_say
        )
    )
    _print(members, form, partial(commands.up_text, home=home))


@testbed.command()
@_common(default=None)
def down(names: tuple[str, ...], provider: str | None, home: Path | None) -> None:
    """Stop members, all where none is named, and delete what they hold."""
    from fleet.testbed import commands

    gone = asyncio.run(commands.down(provider, names=names, home=home, progress=_say))
    if not gone:
        _say("nothing to stop")


@testbed.command()
@_common(default=None)
@output.option()
def status(names: tuple[str, ...], provider: str | None, home: Path | None, form: str) -> None:
    """Show members and what they lack."""
    from fleet.testbed import commands

    members = asyncio.run(commands.status(provider, names=names, home=home))
    _print(members, form, partial(commands.status_text, home=home))


def _print(
    members: Sequence[MemberStatus], form: str, text: Callable[[Sequence[MemberStatus]], str]
) -> None:
    if form == "table":
        click.echo(pasteable(text(members)), nl=False)
        return
    items = [
        {
            "name": member.name,
            "ready": member.ready,
            "status": member.summary,
            "server": member.server,
            "kubeconfig": str(member.kubeconfig),
            "components": dict(member.components),
        }
        for member in members
    ]
    output.document({"items": items}, form)
