"""`fleet cost`: what work has cost, costs now and will cost, and whom it is for."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from fleet.cli import output
from fleet.cli.target import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fleet.cli.client import Client
    from fleet.scheduling.cost.showback import By, Row

_PLACEMENTS: Final = "/apis/fleet.dev/v1alpha1/placements"
_PLACEMENTS_OF: Final = "/apis/fleet.dev/v1alpha1/namespaces/{}/placements"
_QUOTAS: Final = "/apis/fleet.dev/v1alpha1/fleetquotas"
_NAMESPACES: Final = "/api/v1/namespaces"
_RECORDS: Final = "/api/v1/namespaces/fleet-system/configmaps"
_PAGE: Final = 500
_UNKNOWN: Final = "unknown"
_SECOND: Final = timedelta(seconds=1)

Object = dict[str, Any]


def _month(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", value) is None:
        raise click.BadParameter(f"{value} is no month, write e.g. 2026-11.", context, parameter)
    return value


@click.command(
    epilog="\b\nExamples:\n"
    "  fleet cost\n"
    "  fleet cost --by team --month 2026-11\n"
    "  fleet cost -n research --by cluster -o json"
)
@click.option(
    "--by",
    type=click.Choice(["workload", "team", "policy", "namespace", "cluster"]),
    default="workload",
    show_default=True,
    help="What to sum by; a team is a FleetQuota.",
)
@click.option("-n", "--namespace", help="Workloads of this namespace only (default: of all).")
@click.option("--month", callback=_month, help="This month only, e.g. 2026-11 (default: all).")
@output.option()
@gateway
def cost(client: Client, by: By, namespace: str | None, month: str | None, form: str) -> None:
    """Show what work has cost, costs now, and will have cost.

    The forecast reaches to the end of this month, or to the expected end of what runs; work that
    does not say how long it runs is expected to run on. Workloads that were deleted count in sums,
    not one by one. Amounts of different currencies stand beside each other. UNPRICED is how long
    parts of work ran in clusters without a known price, all parts added up.
    """
    from fleet.scheduling.cost import months
    from fleet.scheduling.cost.showback import account_of, bill
    from policies.quota_tree import claims_of

    now = _now()
    path = _PLACEMENTS_OF.format(namespace) if namespace else _PLACEMENTS
    quotas = {}
    if by == "team":
        quotas = dict(claims_of(_all(client, _QUOTAS), _all(client, _NAMESPACES)).quota)
    accounts = [account_of(each, now=now, quotas=quotas) for each in _all(client, path)]
    records = _all(client, _RECORDS, [("labelSelector", months.LABEL)])
    past = [
        each
        for record in months.by_month(records).values()
        for each in months.read(record)
        if namespace in (None, each.namespace)
    ]
    if namespace and not accounts and not past:  # one that was deleted may have cost something
        client.get(f"{_NAMESPACES}/{namespace}")
    rows = bill(accounts, past, by=by, now=now, month=month)
    if form != "table":
        output.document(_document(rows, by=by, month=month, now=now), form)
    elif rows:
        output.table(_table(rows, by))
    else:
        click.echo("Nothing has cost anything yet.", err=True)


def _all(client: Client, path: str, query: Sequence[tuple[str, str]] = ()) -> Iterator[Object]:
    page, more = list(query), "more"
    while more:
        document = client.get(path, [*page, ("limit", str(_PAGE))])
        yield from document.get("items") or ()
        more = (document.get("metadata") or {}).get("continue") or ""
        page = [*query, ("continue", more)]


def _table(rows: Sequence[Row], by: By) -> list[list[str]]:
    unpriced = any(row.unpriced for row in rows)
    head = [by.upper(), "PER HOUR", "SO FAR", "FORECAST", "CURRENCY"]
    shown = [*rows, *(_totals(rows) if len(rows) > 1 else ())]
    lines = [_line(row, unpriced=unpriced) for row in shown]
    return [[*head, "UNPRICED"] if unpriced else head, *lines]


def _line(row: Row, *, unpriced: bool) -> list[str]:
    from fleet.scheduling.cost.showback import GONE
    from policies.scalars import duration_text

    # Seconds are enough for people.
    time = row.unpriced - row.unpriced % _SECOND
    line = [row.name, _money(row.per_hour), _money(row.so_far), _money(row.forecast), row.currency]
    if not row.currency:
        line[1:] = [_UNKNOWN] * 4
    if row.name == GONE:
        line[1] = _money(0)  # nothing of it runs
    return [*line, duration_text(time) if row.unpriced else ""] if unpriced else line


def _totals(rows: Sequence[Row]) -> Iterator[Row]:
    from fleet.scheduling.cost.showback import Row

    known = {row.currency for row in rows if row.currency}
    for currency in sorted({row.currency for row in rows}):
        if not currency and len(known) == 1:
            continue  # its time is in the one total
        of_it = [
            row
            for row in rows
            if row.currency == currency or (len(known) == 1 and not row.currency)
        ]
        yield Row(
            "total",
            currency,
            sum(row.per_hour for row in of_it),
            sum(row.so_far for row in of_it),
            sum(row.forecast for row in of_it),
            sum((row.unpriced for row in of_it), start=_SECOND * 0),
        )


def _money(micro: int) -> str:
    """With two places, rounded up: what costs something is not shown as nothing."""
    whole, cents = divmod(-(-micro // 10_000), 100)
    return f"{whole}.{cents:02}"


def _document(rows: Sequence[Row], *, by: By, month: str | None, now: datetime) -> Object:
    from policies.scalars import amount_text, duration_text

    found: Object = {"by": by, "asOf": now.strftime("%Y-%m-%dT%H:%M:%SZ")}
    if month is not None:
        found["month"] = month
    items = []
    for row in rows:
        item: Object = {"name": row.name}
        if row.currency:
            item |= {
                "currency": row.currency,
                "perHour": amount_text(row.per_hour),
                "soFar": amount_text(row.so_far),
                "forecast": amount_text(row.forecast),
            }
        if row.unpriced:
            item["unpriced"] = duration_text(row.unpriced)
        items.append(item)
    return {**found, "items": items}


def _now() -> datetime:
    return datetime.now(UTC)
