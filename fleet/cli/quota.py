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
_POLICIES: Final = "/apis/fleet.dev/v1alpha1/lendingpolicies"
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
    limit: nothing is ended for that, and nothing more starts. Another says what a node has on loan:
    to whom, and when the first of it ends or is renewed. A third says what cannot be read of its
    object, or of a LendingPolicy by which it lends.
    """
    from fleet.errors import NotFound

    found = client.get(_QUOTAS)["items"]
    rows = list(_tree(found, node))
    policies = _policies(client)
    loans, unread = _loans(policies), _unread(policies)
    if node is not None and not rows:
        raise NotFound(f"there is no FleetQuota {node}")
    if form != "table":
        items = [_item(each, depth, loans) for each, _, depth in rows]
        output.document({"items": items}, form)
    elif rows:
        output.table([_HEAD, *(_row(each, drawn, loans, unread) for each, drawn, _ in rows)])
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


def _policies(client: Client) -> list[Object]:
    """All LendingPolicies; none for those who may not see them."""
    from fleet.errors import Forbidden

    try:
        return list(client.get(_POLICIES)["items"])
    except Forbidden:
        return []


def _donor(policy: Object) -> str:
    """Who lends by it, "" where that cannot be read."""
    spec = policy.get("spec")
    lends = spec.get("from") if isinstance(spec, dict) else None
    return str(lends.get("quota") or "") if isinstance(lends, dict) else ""


def _unread(policies: Sequence[Object]) -> dict[str, list[str]]:
    """What is said of LendingPolicies that cannot be read, by donor."""
    from fleet.scheduling.explain import not_as_written

    found: dict[str, list[str]] = {}
    for policy in policies:
        if told := not_as_written(policy):
            found.setdefault(_donor(policy), []).append(told)
    return found


def _loans(policies: Sequence[Object]) -> dict[str, list[Object]]:
    """What is on loan, by donor."""
    found: dict[str, list[Object]] = {}
    for policy in policies:
        there = found.setdefault(_donor(policy), [])
        name = policy["metadata"]["name"]
        there += [
            {"policy": name, **each} for each in (policy.get("status") or {}).get("loans", ())
        ]
    return found


def _row(
    obj: Mapping[str, Any],
    drawn: str,
    loans: Mapping[str, Sequence[Object]],
    unread: Mapping[str, Sequence[str]],
) -> list[str]:
    name = obj["metadata"]["name"]
    status = obj.get("status") or {}
    summary = status.get("summary") or {}
    cells = [
        str(summary.get(name) or _NONE)
        for name in ("guaranteed", "limit", "used", "borrowed", "lent")
    ]
    waiting = int(status.get("waiting") or 0)
    gangs = f"{waiting} gang{'' if waiting == 1 else 's'}" if waiting else "0"
    marks = [_over(status), *_lent(loans.get(name, ())), *unread.get(name, ())]
    last = "   ".join([gangs, "; ".join(filter(None, marks))]).rstrip()
    return [drawn + name, *cells, last]


def _lent(loans: Sequence[Object]) -> Iterator[str]:
    """`8 on loan to nlp until 18:00`, of each borrower; what was called back apart."""
    from fleet.kube.quantity import Quantity
    from fleet.scheduling.explain import clock

    several = len({(each["name"], each.get("accelerator")) for each in loans}) > 1
    for to, recalled in sorted({(each["to"], "endsAt" in each) for each in loans}):
        mine = [each for each in loans if (each["to"], "endsAt" in each) == (to, recalled)]
        sums: dict[str, Quantity] = {}
        for each in mine:
            kind = each.get("accelerator") or each["name"]
            amount = Quantity.parse(str(each["amount"]))
            sums[kind] = sums[kind] + amount if kind in sums else amount
        told = ", ".join(f"{sums[k]} {k}" if several else str(sums[k]) for k in sorted(sums))
        ends = min(each["endsAt"] if recalled else each["until"] for each in mine)
        called = "called back from" if recalled else "on loan to"
        yield f"{told} {called} {to}, {'ends' if recalled else 'until'} {clock(ends)}"


def _over(status: Mapping[str, Any]) -> str:
    """What does not hold of it."""
    told = [
        str(each.get("message") or each.get("reason"))
        for each in status.get("conditions") or ()
        if (each["type"], each["status"]) in (("Overcommitted", "True"), ("Valid", "False"))
    ]
    return "; ".join(told)


def _item(obj: Mapping[str, Any], depth: int, loans: Mapping[str, Sequence[Object]]) -> Object:
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
        "loans": list(loans.get(obj["metadata"]["name"], ())),
        "conditions": status.get("conditions") or [],
    }  # fmt: skip
