"""The reference of the command line as Markdown, made from the commands themselves.

`scripts/generate-reference` writes it to docs/reference; a test compares what stands there.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Final

import click

from fleet.cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM: Final = "fleet"
_INTRODUCTION: Final = """\
# Command line

`fleet`, installed as `kubectl-fleet` too, so that `kubectl fleet COMMAND` is the same. This page is
made from the commands by `scripts/generate-reference`; `fleet COMMAND --help` shows the same.

What is asked for goes to standard output, everything else – progress, warnings of the gateway,
errors – to standard error.

| Exit code | Meaning |
| --- | --- |
| 0 | What was asked for is done or shown. |
| 1 | It is not: somebody refused or did not answer, a file cannot be used, it was interrupted. \
One message says what happened, and what to do next. |
| 2 | The command line itself is wrong: an unknown command or option, a missing argument or two \
that exclude each other. Nothing was tried. |

`fleet run` ends with 0 when it is told to stop (SIGINT, SIGTERM).
"""


def files() -> dict[str, str]:
    """Path below docs/reference to content."""
    return {"cli.md": page()}


def page() -> str:
    """The reference page."""
    commands = list(walk(cli, root()))
    contents = [
        f"- [{name}](#{name.replace(' ', '-')}) – {_line(each)}" for name, each, _ in commands
    ]
    sections = [_section(*each) for each in commands]
    return "\n".join([_INTRODUCTION, *contents, "", "\n".join(sections)])


def root() -> click.Context:
    """The context that commands inherit what they have in common from."""
    return click.Context(cli, info_name=_PROGRAM, **cli.context_settings)


def walk(
    group: click.Group, context: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command that does something, by its whole name."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from walk(command, inner)
        else:
            yield inner.command_path, command, inner


def _line(command: click.Command) -> str:
    return (command.help or "").partition("\n\n")[0].replace("\n", " ")


def _section(name: str, command: click.Command, context: click.Context) -> str:
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    parts = [f"## {name}\n", f"```\n{usage}\n```\n", _prose(command.help or "")]
    parts += ["| Option | Meaning |\n| --- | --- |"]
    options = (each for each in command.get_params(context) if isinstance(each, click.Option))
    records = (each.get_help_record(context) for each in options)
    parts += [f"| `{_cell(option)}` | {_cell(told)} |" for option, told in filter(None, records)]
    parts.append("")
    if command.epilog:
        parts.append(_prose(command.epilog))
    return "\n".join(parts)


def _prose(text: str) -> str:
    """Paragraphs; one that click is told not to wrap (`\\b`) holds examples under their heading."""
    found = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        heading, verbatim, lines = paragraph.partition("\b\n")
        if not verbatim:
            found.append(f"{paragraph}\n")
            continue
        title, _, rest = (heading + lines).partition("\n")
        found.append(f"{title}\n\n```\n{inspect.cleandoc(rest)}\n```\n")
    return "\n".join(found)


def _cell(text: str) -> str:
    return re.sub(" +", " ", text).replace("|", "\\|")
