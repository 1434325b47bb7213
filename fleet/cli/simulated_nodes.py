"""The outcome of a node-level simulation for people: how full nodes are, and who has no place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from fleet.cli import output
from fleet.cli.simulated import clock_time, side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fleet.cli.simulated import Measure

Object = dict[str, Any]

_NONE: Final = "–"
_LISTED: Final = 20
_FULL: Final = ["ALLOCATED", "STRANDED"]


def show(told: Object) -> None:
    """One outcome."""
    pods, timed = told["pods"], told["lastedSeconds"] > 0
    asked = told["gpusAskedFor"]
    share = f", {asked / told['gpus']:.1%} of them" if told["gpus"] and not timed else ""
    share = f" in {clock_time(told['lastedSeconds'])}" if timed else share
    click.echo(
        f"{pods['arrived']} pods on {told['nodes']} nodes with {told['gpus']} GPUs, by "
        f"{told['policy']}: {asked:g} GPUs asked for{share}"
    )
    waits = told["waitSeconds"]
    waited = (
        f", {pods['waited']} of them after a wait, {clock_time(waits['longest'])} at most"
        if pods["waited"]
        else ""
    )
    click.echo(f"{pods['placed']} were placed{waited}; {pods['notPlaced']} have no place")
    click.echo()
    head = ["NODES OF", "NODES", "GPUS", *(["MEAN", "PEAK", "AT END"] if timed else _FULL)]
    rows = [_kind(each, timed=timed) for each in told["nodeKinds"]]
    whole = _kind({**told, "name": "all"}, timed=timed)
    output.table([head, *rows, *([whole] if len(rows) > 1 else [])])
    lacking = told["notPlaced"]
    if lacking:
        click.echo()
        listed = [
            [
                str(each["pods"]),
                each["asks"],
                f"{each['gpus']:g}",
                f"{each['reason']}: {each['message']}",
            ]
            for each in lacking[:_LISTED]
        ]
        output.table([["NO PLACE", "EACH ASKS", "GPUS", "WHY"], *listed])
        if len(lacking) > _LISTED:
            click.echo(f"… and {len(lacking) - _LISTED} more lines; -o yaml has them all")


def _kind(each: Object, *, timed: bool) -> list[str]:
    allocated = each["allocated"]
    return [
        each["name"],
        str(each["nodes"]),
        str(each["gpus"]),
        *(_percent(allocated[name]) for name in (("mean", "peak") if timed else ())),
        _percent(allocated["atEnd"]),
        *([] if timed else [_percent(each["stranded"])]),
    ]


def compare(found: Sequence[tuple[str, Object]]) -> None:
    """Several outcomes side by side, with the change where there are two."""
    side_by_side(found, _measures([told for _, told in found]))


def _measures(all_told: Sequence[Object]) -> list[Measure]:
    timed = any(told["lastedSeconds"] > 0 for told in all_told)
    found: list[Measure] = [
        ("nodes", lambda told: told["nodes"], _plain),
        ("GPUs", lambda told: told["gpus"], _plain),
        ("GPUs asked for", lambda told: told["gpusAskedFor"], _plain),
        ("pods placed", lambda told: told["pods"]["placed"], _plain),
        ("pods without a place", lambda told: told["pods"]["notPlaced"], _plain),
    ]
    if timed:
        found += [
            ("allocated, mean", lambda told: told["allocated"]["mean"], _percent),
            ("allocated, peak", lambda told: told["allocated"]["peak"], _percent),
            ("longest wait", lambda told: told["waitSeconds"]["longest"], clock_time),
        ]
    else:
        found += [
            ("allocated", lambda told: told["allocated"]["atEnd"], _percent),
            ("stranded", lambda told: told["stranded"], _percent),
        ]
    which = "mean" if timed else "atEnd"
    names = dict.fromkeys(each["name"] for told in all_told for each in told["nodeKinds"])
    found += [(f"of {name}", _of(name, which), _percent) for name in names if name != "no GPU"]
    return found


def _of(name: str, which: str) -> Callable[[Object], float | None]:
    def found(told: Object) -> float | None:
        return next((e["allocated"][which] for e in told["nodeKinds"] if e["name"] == name), None)

    return found


def _plain(value: float) -> str:
    return f"{value:g}"


def _percent(share: float | None) -> str:
    return _NONE if share is None else f"{share:.2%}"
