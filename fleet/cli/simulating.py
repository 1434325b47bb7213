"""`fleet simulate`: a trace or a what-if fleet, played through the engine in virtual time; and
tables of nodes and pods, placed down to the GPU (`simulating_nodes`)."""

from __future__ import annotations

import gzip
import sys
import zlib
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import click

from fleet.cli import output, simulating_nodes
from fleet.cli.target import gateway_if_asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from fleet.cli.client import Client
    from fleet.scheduling.simulation.documents import Source

Object = dict[str, Any]

_READ: Final = (".yaml", ".yml", ".json", ".csv", ".csv.gz")
_BASE: Final = "as given"


def _duration(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    from policies.scalars import parse_duration

    if value is None:
        return None
    try:
        return round(parse_duration(value).total_seconds() * 1000)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def _time(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    from policies.scalars import parse_time

    try:
        return None if value is None else parse_time(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


@click.command(
    epilog="\b\nExamples:\n"
    "  fleet simulate -f fleet.yaml -f day.csv\n"
    "  fleet simulate -f fleet.yaml -f day.csv --compare more-nodes.yaml\n"
    "  kubectl get jobs -A -o yaml > week.yaml; fleet simulate -f fleet.yaml -f week.yaml\n"
    "  fleet simulate --from-gateway -f tomorrow.csv --remove-cluster idc-b\n"
    "  fleet simulate -f fleet.yaml -f day.csv -o json | jq .waitSeconds.p99\n"
    "  fleet simulate -f nodes.csv -f pods.csv.gz --fill 130 --node-policy FGD"
)
@click.option(
    "-f",
    "--filename",
    "files",
    type=click.Path(path_type=Path, allow_dash=True),
    multiple=True,
    help="Objects as YAML or JSON, work as CSV, or a directory of such files; - reads YAML from "
    "standard input. A later one overrides objects of the same name.",
)
@click.option(
    "--compare",
    "others",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Play it once more with this file or directory on top, and show both side by side.",
)
@click.option(
    "--from-gateway",
    is_flag=True,
    help="Begin with what the gateway has now: clusters and what runs in them, rules, prices, work "
    "that runs or waits. Files come on top.",
)
@click.option(
    "--remove-cluster",
    "removed",
    metavar="NAME",
    multiple=True,
    help="Play it without this cluster.",
)
@click.option(
    "--start",
    metavar="TIME",
    callback=_time,
    help="When it begins, e.g. 2026-11-29T06:00:00Z (default: now, with --from-gateway; else when "
    "the first work arrived or the newest price was true).",
)
@click.option(
    "--until",
    metavar="DURATION",
    callback=_duration,
    help="Stop after so long, e.g. 168h (default: when nothing more happens).",
)
@click.option(
    "-n", "--namespace", default="default", show_default=True,
    help="Namespace of objects that name none.",
)  # fmt: skip
@simulating_nodes.options
@output.option()
@gateway_if_asked
def simulate(
    client: Callable[[], Client],
    files: tuple[Path, ...],
    others: tuple[Path, ...],
    from_gateway: bool,
    removed: tuple[str, ...],
    start: datetime | None,
    until: int | None,
    namespace: str,
    node_policies: tuple[str, ...],
    fill: float | None,
    seed: int | None,
    form: str,
) -> None:
    """Play a trace, or a what-if fleet, through the engine of the gateway in virtual time.

    The files hold the fleet as it is known to a gateway – Clusters, PlacementPolicies, FleetQuotas,
    PriceBooks, LendingPolicies, PriorityClasses, Namespaces – and the work: Jobs and Pods with the
    annotations simulation.fleet.dev/arrives and /runs, or a table. Shown are waits, use, evictions
    and cost, and what never started and why. Equal inputs give equal answers; nothing is changed.

    Tables of nodes and of pods with the columns of Alibaba's GPU trace of 2023 are placed node by
    node instead, down to parts of a GPU: shown are the share of GPUs allocated by kind of node, and
    what has no place and why.
    """
    from fleet.errors import ConfigError

    if not files and not from_gateway:
        raise click.UsageError("Give the fleet and its work with -f, or --from-gateway.")
    base: list[Source] = []
    if from_gateway:
        from fleet.cli.snapshot import snapshot

        there, now = snapshot(client())
        base.append(there)
        start = start or now
    base += [source for file in files for source in _sources(file)]
    here = [*base, *(source for other in others for source in _sources(other))]
    if not from_gateway and simulating_nodes.are_tables(here):
        if removed or start is not None:
            raise click.UsageError(
                "Tables of nodes and pods have no clusters, and times of their own."
            )
        given = [(_BASE, base), *((other.stem, [*base, *_sources(other)]) for other in others)]
        simulating_nodes.simulate(
            given, names=node_policies, fill=fill, seed=seed, until_ms=until, form=form
        )
        return
    if node_policies or fill is not None or seed is not None:
        raise click.UsageError("--node-policy, --fill and --seed are of tables of nodes and pods.")
    base += _without(removed)
    variants = [(_BASE, base)]
    variants += [(other.stem, [*base, *_sources(other)]) for other in others]
    if len({name for name, _ in variants}) < len(variants):
        raise ConfigError("what is compared must have different names")
    found = [
        (
            name,
            _played(sources, start=start, until=until, namespace=namespace),
        )
        for name, sources in variants
    ]
    _print(found, form)
    for _, told in found:
        if count := told["workloads"]["invalid"]:
            raise ConfigError(_invalid(told, count))


def _print(found: Sequence[tuple[str, Object]], form: str) -> None:
    if form != "table":
        items = [{"name": name, **each} for name, each in found]
        output.document({"items": items} if len(items) > 1 else found[0][1], form)
        return
    from fleet.cli import simulated

    for _, told in found:
        for warning in told["warnings"]:
            click.echo(f"Warning: {warning}", err=True)
    if len(found) > 1:
        simulated.compare(found)
    else:
        simulated.show(found[0][1])


def _invalid(told: Object, count: int) -> str:
    """What was left out, by the first of it."""
    first = next(each for each in told["neverStarted"] if each["reason"] == "Invalid")
    all_ = told["workloads"]["arrived"]
    return (
        f"{count} of {all_} workloads could not be placed by anybody and were left out, "
        f"{first['kind'].lower()} {first['namespace']}/{first['name']} for one: {first['message']}"
    )


def _played(
    sources: Sequence[Source],
    *,
    start: datetime | None,
    until: int | None,
    namespace: str,
) -> Object:
    from fleet.scheduling.simulation.course import play
    from fleet.scheduling.simulation.documents import documents_of
    from fleet.scheduling.simulation.outcome import outcome_of
    from fleet.scheduling.simulation.scenario import scenario_of

    documents = documents_of(sources, namespace=namespace)
    scenario = scenario_of(documents, start=start, unsplittable=_unsplittable)
    with _waiting() as tell:
        return outcome_of(play(scenario, until_ms=until, tell=tell))


@contextmanager
def _waiting() -> Iterator[Callable[[int], None]]:
    """Says on a terminal how far it is, once a second."""
    if not sys.stderr.isatty():
        yield lambda at_ms: None
        return
    from policies.scalars import duration_text

    told_s = monotonic()

    def tell(at_ms: int) -> None:
        nonlocal told_s
        if monotonic() - told_s >= 1:
            told_s = monotonic()
            passed = duration_text(timedelta(seconds=at_ms // 1000))
            click.echo(f"\r{passed} are played\x1b[K", nl=False, err=True)

    try:
        yield tell
    finally:
        click.echo("\r\x1b[K", nl=False, err=True)


def _unsplittable(workload: Object) -> str:
    from fleet.dispatch import kinds

    kind = kinds.kind_of(workload)
    return "" if kind is None else kind.read(workload).unsplittable()


def _sources(path: Path) -> Iterator[Source]:
    from fleet.errors import ConfigError
    from fleet.scheduling.simulation.documents import Source

    if str(path) == "-":
        yield Source("standard input", sys.stdin.buffer.read())
        return
    try:
        if not path.is_dir():
            yield _source(path)
            return
        inside = sorted(each for each in path.iterdir() if each.name.endswith(_READ))
        for each in inside:
            yield _source(each)
    except (OSError, EOFError, zlib.error) as error:
        name = getattr(error, "filename", None) or path
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"{name} cannot be read: {why}") from error
    if not inside:
        raise ConfigError(f"{path} has no file that ends in {', '.join(_READ)}")


def _source(path: Path) -> Source:
    from fleet.scheduling.simulation.documents import Source

    data = path.read_bytes()
    if path.suffix == ".gz":
        return Source(str(path.with_suffix("")), gzip.decompress(data))
    return Source(str(path), data)


def _without(clusters: Sequence[str]) -> Iterator[Source]:
    import orjson

    from fleet.scheduling.simulation.documents import Source

    for name in clusters:
        patch = {
            "apiVersion": "fleet.dev/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": name},
            "$patch": "delete",
        }
        yield Source("--remove-cluster", orjson.dumps(patch))
