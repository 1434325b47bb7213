"""The command group: names, one line each, and where each command is found.

A command's module is loaded when the command runs, so that `fleet --help` and completion answer
at once whatever the other commands need.
"""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import fleet
from fleet.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Mapping

# name: (module below fleet.cli, one line for the overview)
COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("gateway", "Run a gateway in the foreground."),
    "join": ("members", "Take a cluster into the fleet."),
    "leave": ("members", "Let clusters go; they are not touched."),
    "members": ("members", "List the clusters of the fleet."),
    "get": ("objects", "Show objects of the fleet and its members."),
    "logs": ("objects", "Show what a pod's container wrote."),
    "explain": ("explaining", "Say where a workload was placed, and why."),
    "plan": ("planning", "Say what would be decided about workloads, and do nothing."),
    "simulate": ("simulating", "Play a trace or a what-if fleet in virtual time."),
    "quota": ("quota", "Show the tree of quotas and what is used of it."),
    "cost": ("cost", "Show what work has cost, and will cost."),
    "kubeconfig": ("gateway", "Say which kubeconfig leads to the gateway."),
    "testbed": ("testbed", "Member clusters on this machine, for trying."),
    "demo": ("demo", "Tell the story of a fleet on this machine."),
    "version": ("gateway", "Show the versions of this program and of the gateway."),
}


class Failure(click.ClickException):
    """An error that is said in one line, or the few that its message has."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        from fleet.cli.program import pasteable

        click.echo(f"fleet: {pasteable(self.message)}", file=file, err=file is None)


class Commands(click.Group):
    """Commands by name, loaded when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command = getattr(import_module(f"fleet.cli.{module}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean '{near[0]}'?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except FleetError as error:
            raise Failure(str(error)) from error
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # whoever read the output has seen enough
            what = f"{error.filename}: " if error.filename else ""
            raise Failure(f"{what}{error.strerror or error}") from error
        except KeyboardInterrupt as error:
            raise Failure("interrupted before it was done") from error


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="The first minute:\n\n"
    "\b\n"
    "  fleet run                                 in one terminal\n"
    "  fleet join ~/.kube/config --name east     in another, for each cluster\n"
    "  eval $(fleet kubeconfig --export)\n"
    "  kubectl get pods -A",
)
@click.version_option(fleet.__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """One kubeconfig for many Kubernetes clusters."""


def main() -> None:
    """The entry point of `fleet` and of `kubectl fleet`."""
    program = "kubectl fleet" if Path(sys.argv[0]).name == "kubectl-fleet" else "fleet"
    cli(prog_name=program)


if __name__ == "__main__":
    main()
