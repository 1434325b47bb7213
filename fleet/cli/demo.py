"""`fleet demo`: the story of a fleet, on this machine."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli import output

if TYPE_CHECKING:
    from collections.abc import Coroutine


@click.command(epilog="\b\nExamples:\n  fleet demo\n  fleet demo --keep\n  fleet demo --no-story")
@click.option("--keep", is_flag=True, help="Leave the gateway running, and say what to try.")
@click.option(
    "--story/--no-story",
    default=True,
    help="Tell the story, or only put up its clusters and gateway and leave them running.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the gateway keeps its state (default: a temporary directory).",
)
@click.option(
    "--port",
    type=output.Integer(0, 65535),
    default=0,
    show_default="a free one",
    help="Port of the gateway.",
)
def demo(keep: bool, story: bool, directory: Path | None, port: int) -> None:
    """Put up three small clusters and a gateway in this process, and tell a story on them.

    Every line ends with what was read back from the gateway; the command fails at the first claim
    that does not hold. The clusters run containers as local processes, without isolation.
    """
    import shutil

    import uvloop

    from fleet.cli.program import callers_path, pasteable
    from fleet.gateway import logs
    from fleet.testbed.demo.stage import play
    from fleet.testbed.demo.telling import Teller

    logs.configure("error")
    teller = Teller(as_typed=pasteable)
    told = play(
        teller,
        keep=keep,
        story=story,
        directory=directory,
        port=port,
        kubectl=shutil.which("kubectl", path=callers_path()) is not None,
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_until_told(told))
    except BaseExceptionGroup as group:
        # members and gateway run in task groups; the story's own error is the one to say
        raise _first(group) from group
    if not teller.finished:
        raise click.exceptions.Exit(1)  # the step that was interrupted says so


async def _until_told(story: Coroutine[Any, Any, None]) -> None:
    """Run the story; SIGINT and SIGTERM end it in order, once, however often they come."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(story, name="story")
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: None if task.cancelling() else task.cancel())
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that says what went wrong, wherever it is nested."""
    from fleet.errors import FleetError

    found = group.subgroup(FleetError) or group
    error: BaseException = found
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
