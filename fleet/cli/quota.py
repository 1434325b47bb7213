"""`fleet quota`: the tree of quotas, what each node has and what is used of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from fleet.cli import output
from fleet.cli.target import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fleet.cli.client import Client

_QUOTAS: Final = "/apis/fleet.dev/v1alpha1/fleetquotas"
_HEAD: Final = ("NODE", "GUARANTEED", "LIMIT", "USED", "BORROWED", "LENT", "WAITING")
_NONE: Final = "–"

Object = dict[str, Any]


@click.command(
    epilog="\b\nExamples:\n"
    "  fleet quota\n"
    "  fleet quota research\n"
    "  fleet quota -o json | jq '.items[] | select(.waiting > 0)'"
)
@click.argument("node", required=False)
@output.option()
@gateway
def quota(client: Client, node: str | None, form: str) -> None:
    """Show the tree of FleetQuotas: what each node is guaranteed, may use, uses, borrows and lends.

    With NODE only that one and those below it. Amounts count everything below a node; where a node
    has several resources, each is named. A mark behind a row says that a node uses more than its
    limit: nothing is ended for that, and nothing more starts.
    """
    from fleet.errors import NotFound

    found = client.get(_QUOTAS)["items"]
    rows = list(_tree(found, node))
    if node is not None and not rows:
        raise NotFound(f"there is no FleetQuota {node}")
    if form != "table":
        output.document({"items": [_item(each, depth) for each, _, depth in rows]}, form)
    elif rows:
        output.table([_HEAD, *(_row(each, drawn) for each, drawn, _ in rows)])
    else:
        click.echo("There are no quotas: nothing limits what the fleet's work may use.", err=True)


def _tree(objects: Sequence[Object], node: str | None) -> Iterator[tuple[Object, str, int]]:
    """Each with the branches that lead to it, and its depth."""
    by_name = {each["metadata"]["name"]: each for each in objects}
    children: dict[str, list[str]] = {}
    for name in sorted(by_name):
        children.setdefault(_parent(by_name[name]), []).append(name)

    def below(name: str, drawn: str, trunk: str, depth: int) -> Iterator[tuple[Object, str, int]]:
        yield by_name[name], drawn, depth
        there = children.get(name, [])
        for each in there:
            last = each == there[-1]
            yield from below(
                each, trunk + ("└ " if last else "├ "), trunk + ("  " if last else "│ "), depth + 1
            )

    for root in [node] if node is not None else children.get("", []):
        if root in by_name:
            yield from below(root, "", "", 0)


def _parent(obj: Mapping[str, Any]) -> str:
    return str((obj.get("spec") or {}).get("parent") or "")


def _row(obj: Mapping[str, Any], drawn: str) -> list[str]:
    status = obj.get("status") or {}
    summary = status.get("summary") or {}
    cells = [
        str(summary.get(name) or _NONE)
        for name in ("guaranteed", "limit", "used", "borrowed", "lent")
    ]
    waiting = int(status.get("waiting") or 0)
    gangs = f"{waiting} gang{'s' if waiting > 1 else ''}" if waiting else _NONE
    over = _over(status)
    return [
        drawn + obj["metadata"]["name"], *cells, f"{gangs}   {over}" if over else gangs,
    ]  # fmt: skip


def _over(status: Mapping[str, Any]) -> str:
    """What does not hold of it."""
    told = [
        str(each.get("message") or each.get("reason"))
        for each in status.get("conditions") or ()
        if (each["type"], each["status"]) in (("Overcommitted", "True"), ("Valid", "False"))
    ]
    return "; ".join(told)


def _item(obj: Mapping[str, Any], depth: int) -> Object:
    status = obj.get("status") or {}
    found: Object = {"name": obj["metadata"]["name"], "depth": depth}
    if parent := _parent(obj):
        found["parent"] = parent
    return {
        **found,
        "guaranteed": [
            {key: line[key] for key in ("name", "accelerator", "guaranteed", "limit", "lendable")
             if key in line}
            for line in (obj.get("spec") or {}).get("resources") or ()
        ],
        "resources": status.get("resources") or [],
        "admitted": status.get("admitted", 0),
        "waiting": status.get("waiting", 0),
        "conditions": status.get("conditions") or [],
    }  # fmt: skip
