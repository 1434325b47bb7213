"""The outcome of a simulation for people: tables, or two outcomes side by side."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from fleet.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Object = dict[str, Any]

_NONE: Final = "–"
_LISTED: Final = 20
_WAITS: Final = (("mean", "MEAN WAIT"), ("p50", "P50"), ("p99", "P99"), ("longest", "LONGEST"))


def show(told: Object) -> None:
    """One outcome."""
    counts = told["workloads"]
    arrived, since = _count(counts["arrived"], "workload"), _clock(told["start"])
    click.echo(f"{arrived} from {since} to {_clock(told['end'])}: {_what_became(counts)}")
    evicted = told["evictions"]
    lost, returned = evicted["lostAcceleratorHours"], evicted["loansReturned"]
    click.echo(
        f"makespan {clock_time(told['makespanSeconds'])}; {_count(evicted['times'], 'eviction')}"
        + (f", {lost:g} accelerator-hours lost" if lost else "")
        + (f"; {_count(returned, 'loan')} called back" if returned else "")
        + f"; cost {_cost(told)}"
    )
    click.echo()
    head = ["CLASS", "WORKLOADS", "ENDED", *(title for _, title in _WAITS), "EVICTED"]
    output.table([head, *(_class(each) for each in told["classes"])])
    click.echo()
    rows = [row for each in told["clusters"] for row in _cluster(each)]
    output.table([["CLUSTER", "NODES", "RESOURCE", "TOTAL", "PEAK", "USE", "COST"], *rows])
    if told["quotas"]:
        click.echo()
        rows = [row for each in told["quotas"] for row in _quota(each)]
        head = ["QUOTA", "RESOURCE", "GUARANTEED", "LIMIT", "PEAK", "USE", "MEAN WAIT", "COST"]
        output.table([head, *rows])
    grouped: dict[tuple[str, str], list[str]] = {}
    for each in told["neverStarted"]:
        name = f"{each['kind'].lower()} {each['namespace']}/{each['name']}"
        grouped.setdefault((each["reason"], each["message"]), []).append(name)
    if grouped:
        click.echo("\nNever started:")
    for (reason, message), names in [*grouped.items()][:_LISTED]:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        click.echo(f"  {names[0]}{more}: {reason}" + (f": {message}" if message else ""))
    if len(grouped) > _LISTED:
        click.echo(f"  … for {len(grouped) - _LISTED} more reasons; -o yaml has them all")


def compare(found: Sequence[tuple[str, Object]]) -> None:
    """Several outcomes side by side, with the change where there are two."""
    side_by_side(found, _measures([told for _, told in found]))


def side_by_side(found: Sequence[tuple[str, Object]], measures: Iterable[Measure]) -> None:
    """A line for each measure that any outcome has."""
    two = len(found) == 2
    rows = [["", *(name.upper() for name, _ in found), *(["CHANGE"] if two else [])]]
    for title, value, say in measures:
        values = [value(told) for _, told in found]
        if all(each is None for each in values):
            continue
        row = [title, *(_NONE if each is None else say(each) for each in values)]
        rows.append([*row, *([change(*values)] if two else [])])
    output.table(rows)


Measure = tuple[str, "Callable[[Object], float | None]", "Callable[[float], str]"]


def _measures(all_told: Sequence[Object]) -> Iterator[Measure]:
    def plain(value: float) -> str:
        return f"{value:g}"

    yield "makespan", lambda told: told["makespanSeconds"], clock_time
    for name in ("ended", "waiting", "refused", "running"):
        if any(told["workloads"][name] for told in all_told):
            yield name, lambda told, name=name: told["workloads"][name], plain  # type: ignore[misc]
    for name, title in (("mean", "mean wait"), ("p99", "p99 wait"), ("longest", "longest wait")):
        yield title, lambda told, name=name: told["waitSeconds"].get(name), clock_time  # type: ignore[misc]
    for name in _names(all_told, "classes"):
        yield (
            f"mean wait, {name}",
            _of("classes", name, lambda e: e["waitSeconds"].get("mean")),
            clock_time,
        )
    yield "evictions", lambda told: told["evictions"]["times"], plain
    yield (
        "accelerator-hours lost",
        lambda told: told["evictions"]["lostAcceleratorHours"] or None,
        plain,
    )
    for name in _names(all_told, "clusters"):
        yield f"use of {name}", _of("clusters", name, _use), _percent
    for name in _names(all_told, "quotas"):
        yield f"use of quota {name}", _of("quotas", name, _use), _percent
    currencies = sorted({each["currency"] for told in all_told for each in told["cost"]})
    for currency in currencies:
        yield f"cost, {currency}", _cost_of(currency), plain


def _names(all_told: Sequence[Object], part: str) -> list[str]:
    return list(dict.fromkeys(each["name"] for told in all_told for each in told[part]))


def _of(
    part: str, name: str, value: Callable[[Object], float | None]
) -> Callable[[Object], float | None]:
    def found(told: Object) -> float | None:
        return next((value(each) for each in told[part] if each["name"] == name), None)

    return found


def _use(each: Object) -> float | None:
    resources = each["resources"]
    return resources[0]["use"] if resources else None


def _cost_of(currency: str) -> Callable[[Object], float | None]:
    def found(told: Object) -> float | None:
        return next((float(e["amount"]) for e in told["cost"] if e["currency"] == currency), 0.0)

    return found


def change(before: float | None, after: float | None) -> str:
    """In per cent of what was before."""
    if before is None or after is None:
        return ""
    if before == after:
        return "="
    if not before:
        return "new"
    return f"{(after - before) / before:+.1%}"


def _class(each: Object) -> list[str]:
    waits = each["waitSeconds"]
    told = [clock_time(waits[name]) if waits else _NONE for name, _ in _WAITS]
    return [each["name"], str(each["arrived"]), str(each["ended"]), *told, str(each["evictions"])]


def _cluster(each: Object) -> Iterator[list[str]]:
    first = True
    for resource in each["resources"] or [{"name": _NONE, "total": _NONE, "peak": _NONE}]:
        if not first and resource["peak"] == "0":
            continue
        kind = ", ".join(resource.get("accelerators") or ())
        yield [
            each["name"] if first else "",
            str(each["nodes"]) if first else "",
            f"{resource['name']} ({kind})" if kind else resource["name"],
            resource["total"],
            resource["peak"],
            _percent(resource.get("use")),
            (_cost(each) or "0") if first else "",
        ]
        first = False


def _quota(each: Object) -> Iterator[list[str]]:
    waits = each["waitSeconds"]
    nothing = dict.fromkeys(("name", "guaranteed", "peak"), _NONE)
    for at, resource in enumerate(each["resources"] or [nothing]):
        kind = resource.get("accelerator")
        yield [
            "" if at else "  " * each["depth"] + each["name"],
            f"{resource['name']} ({kind})" if kind else resource["name"],
            resource["guaranteed"],
            resource.get("limit", _NONE),
            resource["peak"],
            _percent(resource.get("use")),
            "" if at else (clock_time(waits["mean"]) if waits else _NONE),
            "" if at else _cost(each),
        ]


def _what_became(counts: Object) -> str:
    told = [f"{counts['ended']} ended"]
    told += [
        f"{counts[name]} {words}"
        for name, words in (
            ("running", "running"), ("waiting", "waiting"), ("refused", "refused"),
            ("later", "not there yet"),
        )
        if counts[name]
    ]  # fmt: skip
    return ", ".join(told)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _cost(told: Object) -> str:
    amounts = [f"{float(each['amount']):.2f} {each['currency']}" for each in told["cost"]]
    if told.get("unpriced") and not amounts:
        return "unknown"
    if told.get("unpriced"):
        amounts.append(f"{told['unpriced']} without a price")
    return ", ".join(amounts) or "0"


def _percent(share: float | None) -> str:
    return _NONE if share is None else f"{share:.1%}"


def clock_time(seconds: float) -> str:
    """To a second; what is shorter than a minute to a hundredth."""
    from policies.scalars import duration_text

    if seconds < 60:
        return f"{seconds:.2f}".rstrip("0").rstrip(".") + "s"
    return duration_text(timedelta(seconds=round(seconds)))


def _clock(moment: str) -> str:
    return moment.replace("T", " ").replace(":00Z", "").rstrip("Z")
