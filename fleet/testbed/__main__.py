"""`python -m fleet.testbed`: what `fleet testbed` does, on argparse alone.

Commands in what it prints are those of this module: where it is used, `fleet` need not be on PATH.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shlex
import sys
from pathlib import Path

from fleet.errors import TestbedError
from fleet.testbed import commands, shape


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        sys.stdout.write(_pasteable(asyncio.run(_run(options))))
    except TestbedError as error:
        _tell(_pasteable(f"fleet: {error}"))
        return 1
    except KeyboardInterrupt:
        _tell("fleet: interrupted; what was being started is stopped again")
        return 130
    return 0


async def _run(options: argparse.Namespace) -> str:
    match options.command:
        case "up":
            members = await commands.up(
                options.provider,
                count=options.count,
                names=options.names,
                nodes=[shape.parse(text) for text in options.nodes] or None,
                home=options.home,
                progress=_tell,
            )
            return commands.up_text(members, home=options.home)
        case "down":
            gone = await commands.down(
                options.provider, names=options.names, home=options.home, progress=_tell
            )
            return "" if gone else "nothing to stop\n"
        case "build":
            paths = await commands.build(options.provider, progress=_tell)
            return "".join(f"{path}\n" for path in paths)
        case _:
            return commands.status_text(
                await commands.status(options.provider, names=options.names, home=options.home)
            )


def _pasteable(text: str) -> str:
    own = f"{shlex.quote(sys.executable)} -m fleet.testbed"
    return re.sub(r"(?<=[ `])fleet testbed(?= [a-z])", lambda _: own, text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="testbed", description="Member clusters on this machine, for trying and testing."
    )
    verbs = parser.add_subparsers(dest="command", required=True)
    for verb, text in (
        ("up", "start members; those that run are left alone"),
        ("down", "stop members and delete what they hold"),
        ("status", "show members and what they lack"),
        ("build", "build every program ahead of time, those of the tests too (15 min on 2 cores)"),
    ):
        command = verbs.add_parser(verb, help=text, description=text)
        made_here = verb in ("up", "build")
        command.add_argument(
            "--provider",
            default="local" if made_here else None,
            help=f"one of: {', '.join(commands.PROVIDERS)}" + ("" if made_here else " (any)"),
        )
        if verb != "build":
            command.add_argument("names", nargs="*", metavar="NAME", help="members (default: all)")
            command.add_argument(
                "--home", type=Path, help="where members live (default: the user's state folder)"
            )
        if verb == "up":
            command.add_argument(
                "-n", dest="count", type=int, default=3, help="how many, without names (default: 3)"
            )
            command.add_argument(
                "--nodes",
                action="append",
                default=[],
                metavar="SHAPE",
                help="nodes of each new member, e.g. 2*cpu=32,memory=256Gi,nvidia.com/gpu=8",
            )
    return parser


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
