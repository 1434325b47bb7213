"""How commands print: tables for people, JSON and YAML for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Integer(click.IntRange):
    """A whole number within bounds, called so where something else is given."""

    name = "integer"


FORMATS = ("table", "json", "yaml")


def option(*more: str) -> Callable[[Any], Any]:
    """The option `-o`."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice([*FORMATS, *more]),
        default="table",
        show_default=True,
        help="How to print.",
    )


def document(value: Any, form: str) -> None:
    """Print `value` as JSON or YAML."""
    if form == "json":
        click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2))
        return
    import yaml

    click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1 << 20), nl=False)


def table(rows: Iterable[Sequence[str]]) -> None:
    """Print rows with their columns aligned, three spaces apart, as kubectl does."""
    lines = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("   ".join(padded).rstrip())
