"""FleetQuota objects on their way into the accounts, and the accounts on their way into a status.

`tree_of` makes of all FleetQuotas the tree that `fleet.scheduling.quota` keeps accounts of;
`status_of` writes down what these say of one node. Written again with nothing new, a status is
equal to the one before.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.scheduling.cost.intervals import month_of
from fleet.scheduling.quota.tree import Key, Node, Preemption, Share, Tree, faults
from fleet.scheduling.record import with_condition
from fleet.scheduling.requests import quantity_text
from policies.quota_tree import nodes_of
from policies.scalars import amount_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fleet.scheduling.cost.showback import Spending
    from fleet.scheduling.quota.report import Line
    from policies.quota_tree import Node as Stated

Object = dict[str, Any]

OVERCOMMITTED: Final = "Overcommitted"
VALID: Final = "Valid"
_NONE: Final = "–"
_EMPTY: Final = Tree()
_FOR_EVER_S: Final = 100 * 365 * 86400.0


class Wrong(NamedTuple):
    """Why an object is not acted on as it is: a word for programs, and a sentence."""

    reason: str
    message: str


class SoundTree(NamedTuple):
    """A tree, the quotas of it where nothing new starts, with why, and those that are what they
    were before, with why."""

    tree: Tree
    closed: Mapping[str, str]
    kept: Mapping[str, str]


def tree_of(objects: Iterable[Object]) -> Tree:
    """The tree of all FleetQuotas, in any order.

    Raises Invalid where they make none, which no write lets happen.
    """
    return Tree.of(map(_node, nodes_of(objects)))


def sound_tree_of(
    objects: Iterable[Object], unread: Mapping[str, str], *, before: Tree = _EMPTY
) -> SoundTree:
    """A tree of all FleetQuotas, whatever is wrong with one of them.

    `unread` says of those that cannot be read why; what stands for them in `objects` is what is
    left of them. One that is at odds with the others is what it was in the tree `before`, or else
    says nothing of any resource. Nothing new starts in a quota that is not what its object says,
    nor in any below it, and nothing that runs there is ended for others.
    """
    nodes = {node.name: node for node in map(_node, nodes_of(objects, strays=True))}
    closed = {name: why for name, why in unread.items() if name in nodes}
    kept: dict[str, str] = {}
    while found := faults(nodes.values()):
        name, where, message = found[0]
        why = f"FleetQuota {name} is at odds with others: {where}: {message}"
        earlier = before.nodes.get(name) if name not in {*kept, *closed} else None
        if earlier is not None and earlier != nodes[name]:
            nodes[name], kept[name] = earlier, why
            continue
        kept.pop(name, None)
        closed.setdefault(name, why)
        parent = "" if where == "spec.parent" else nodes[name].parent
        nodes[name] = replace(nodes[name], parent=parent, shares={}, reserve={})
    for name in closed:
        spared = replace(nodes[name].preemption, min_run_time_s=_FOR_EVER_S)
        nodes[name] = replace(nodes[name], preemption=spared)
    tree = Tree.of(nodes.values())
    for name in list(closed):
        for below in tree.under(name):
            closed.setdefault(below, closed[name])
    return SoundTree(tree, closed, kept)


def _node(node: Stated) -> Node:
    return Node(
        name=node.name,
        parent=node.parent,
        shares={
            Key(*key): Share(line.guaranteed, line.limit, line.lendable)
            for key, line in node.lines.items()
        },
        reserve={Key(*key): amount for key, amount in node.reserve.items()},
        preemption=Preemption(
            within=node.within,
            reclaim=node.reclaim,
            min_run_time_s=node.min_run_time_s,
            max_reclaim_per_minute=node.max_reclaim_per_minute,
        ),
    )


def status_of(
    lines: Sequence[Line],
    *,
    now: datetime,
    spending: Spending | None = None,
    contested: Mapping[str, Sequence[str]] | None = None,
    wrong: Wrong | None = None,
    before: Mapping[str, Any] | None = None,
) -> Object:
    """The status of the FleetQuota that `lines` are of.

    `contested` are namespaces that it shares with other quotas, by name; `wrong` is why it is not
    what its object says; `before` is the status it replaces. Keys of which the node has and uses
    nothing are left out.
    """
    before = before or {}
    shown = [each for each in lines if _says_something(each)]
    status: Object = {
        "resources": [_use(each) for each in shown],
        "waiting": max((each.waiting_gangs for each in lines), default=0),
        "summary": _summary(shown),
    }
    if spending is not None:
        month = month_of(now)
        past = [each for each in before.get("spent") or () if each["month"] != month]
        status["spent"] = [*_spent(spending, month), *past]
        if status["spent"] and status["spent"][0]["month"] == month:
            status["summary"]["spent"] = ", ".join(
                f"{each['amount']} {each['currency']}"
                for each in status["spent"]
                if each["month"] == month
            )
    over = {str(each.key): each for each in shown if each.overcommitted}
    told = ", ".join(
        f"{quantity_text(each.key.resource, each.overcommitted)} {name} above its limit"
        for name, each in over.items()
    )
    conditions = with_condition(
        before.get("conditions") or (),
        type=OVERCOMMITTED,
        status="True" if over else "False",
        reason="AboveLimit" if over else "WithinLimit",
        message=told,
        now=now,
    )
    if wrong is None and contested:
        told = "; ".join(
            f"namespace {name} is claimed by {', '.join(others)} as well"
            for name, others in sorted(contested.items())
        )
        wrong = Wrong("NamespaceTwice", told)
    status["conditions"] = with_condition(
        conditions,
        type=VALID,
        status="False" if wrong is not None else "True",
        reason=wrong.reason if wrong is not None else "Sound",
        message=wrong.message if wrong is not None else "",
        now=now,
    )
    return status


def taken_back_told(recent: Iterable[tuple[float, int]], now: datetime) -> list[Object]:
    """For the status of a FleetQuota. Times are whole seconds, the later ones: so a bound by the
    minute that is read back is never shorter than a minute."""
    return [
        {
            "at": datetime.fromtimestamp(ceil(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "amount": amount,
        }
        for at, amount in recent
        if at > now.timestamp() - 60
    ]


def taken_back_in(obj: Mapping[str, Any]) -> list[tuple[float, int]]:
    """What a FleetQuota's status says of that."""
    told = (obj.get("status") or {}).get("takenBack") or ()
    return [(datetime.fromisoformat(each["at"]).timestamp(), int(each["amount"])) for each in told]


def _says_something(line: Line) -> bool:
    amounts = (line.guaranteed, line.used, line.borrowed, line.lent, line.waiting, line.unmanaged)
    return bool(line.limit) or any(amounts)


def _use(line: Line) -> Object:
    found: Object = {"name": line.key.resource}
    if line.key.accelerator:
        found["accelerator"] = line.key.accelerator
    for name in ("used", "borrowed", "lent", "unmanaged", "waiting"):
        found[name] = quantity_text(line.key.resource, _amount(line, name))
    return found


def _amount(line: Line, name: str) -> int:
    """What is held for work that has not started is in use by nobody."""
    amount: int = getattr(line, name)
    return amount - line.earmarked if name == "used" else amount


def _summary(lines: Sequence[Line]) -> Object:
    """The columns; the kind or resource is named where there are several."""
    found: Object = {}
    for name in ("guaranteed", "limit", "used", "borrowed", "lent"):
        parts = []
        for line in lines:
            amount = None if getattr(line, name) is None else _amount(line, name)
            if amount is None or (not amount and name in ("borrowed", "lent")):
                text = _NONE
            else:
                text = quantity_text(line.key.resource, amount)
            kind = line.key.accelerator or line.key.resource
            parts.append(f"{text} {kind}" if len(lines) > 1 else text)
        found[name] = ", ".join(parts)
    return found


def _spent(spending: Spending, month: str) -> list[Object]:
    currencies = sorted({*spending.spent, *spending.to_come})
    return [
        {
            "month": month,
            "currency": currency,
            "amount": amount_text(spending.spent.get(currency, 0)),
            "forecast": amount_text(
                spending.spent.get(currency, 0) + spending.to_come.get(currency, 0)
            ),
            **({"unknown": True} if spending.unpriced else {}),
        }
        for currency in currencies
    ]
