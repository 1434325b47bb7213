"""`fleet simulate` over tables of nodes and pods: placed node by node, down to parts of a GPU."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fleet.cli import output
from fleet.scheduling.nodelevel.rules import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fleet.scheduling.nodelevel.trace import Trace
    from fleet.scheduling.simulation.documents import Source

Object = dict[str, Any]
Command = TypeVar("Command", bound="Callable[..., Any]")

_SEED: Final = 42


def options(command: Command) -> Command:
    """Those that only such tables have."""
    for option in (
        click.option(
            "--seed",
            type=click.IntRange(min=0),
            metavar="NUMBER",
            help=f"Another order with --fill, other choices of Random (default: {_SEED}).",
        ),
        click.option(
            "--fill",
            type=click.FloatRange(min=0, max=1000, min_open=True),
            metavar="PERCENT",
            help="Of tables of nodes and pods: draw pods in random order until so much of the GPUs "
            "was asked for, and have none leave.",
        ),
        click.option(
            "--node-policy",
            "node_policies",
            type=click.Choice(NAMES, case_sensitive=False),
            multiple=True,
            help="Of tables of nodes and pods: how a node is chosen (default: FGD). Several are "
            "shown side by side.",
        ),
    ):
        command = option(command)
    return command


def are_tables(sources: Iterable[Source]) -> bool:
    """Whether these are tables of nodes and pods; raises ConfigError where some only are."""
    from fleet.errors import ConfigError
    from fleet.scheduling.nodelevel.trace import is_table

    sources = [*sources]
    tables = [each for each in sources if each.name.endswith(".csv") and is_table(each.data)]
    if tables and len(tables) < len(sources):
        other = next(each.name for each in sources if each not in tables)
        raise ConfigError(
            f"{tables[0].name} is a table of nodes or pods, which are placed without clusters: "
            f"{other} cannot be played with it"
        )
    return bool(tables)


def simulate(
    variants: Sequence[tuple[str, Sequence[Source]]],
    *,
    names: Sequence[str],
    fill: float | None,
    seed: int | None,
    until_ms: int | None,
    form: str,
) -> None:
    """Each variant by each of the policies in `names`, printed alone or side by side."""
    from fleet.cli import simulated_nodes
    from fleet.errors import ConfigError
    from fleet.scheduling.nodelevel.trace import trace_of

    if fill is not None and until_ms is not None:
        raise click.UsageError(
            "Nothing passes with --fill; --until is of pods that come and leave."
        )
    policies = [*dict.fromkeys(names)] or [NAMES[0]]
    found: list[tuple[str, Object]] = []
    for name, sources in variants:
        trace = trace_of((each.name, each.data) for each in sources)
        if fill is not None and not any(pod.request.taken for pod in trace.pods):
            raise ConfigError("no pod asks for a GPU: there is nothing to fill with")
        for policy in policies:
            title = policy if len(variants) == 1 else f"{name}, {policy}"
            title = title if len(policies) > 1 else name
            told = _played(trace, policy, fill, _SEED if seed is None else seed, until_ms)
            found.append((title, told))
    if len({name for name, _ in found}) < len(found):
        raise ConfigError("what is compared must have different names")
    if form != "table":
        items = [{"name": name, **told} for name, told in found]
        output.document({"items": items} if len(found) > 1 else found[0][1], form)
    elif len(found) > 1:
        simulated_nodes.compare(found)
    else:
        simulated_nodes.show(found[0][1])


def _played(
    trace: Trace, policy: str, fill: float | None, seed: int, until_ms: int | None
) -> Object:
    from fleet.scheduling.nodelevel.filling import filled, played
    from fleet.scheduling.nodelevel.mix import Mix
    from fleet.scheduling.nodelevel.rules import rule_of
    from fleet.scheduling.nodelevel.told import told

    mix = Mix.of(pod.request for pod in trace.pods)
    rule = rule_of(policy, mix=mix, chance=random.Random(f"choices {seed}"))
    if fill is not None:
        found = filled(trace, rule, asked=fill / 100, chance=random.Random(seed))
    else:
        found = played(trace, rule, until_s=None if until_ms is None else until_ms / 1000)
    return told(found, policy=policy, mix=mix)
