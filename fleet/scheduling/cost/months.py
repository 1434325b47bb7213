"""What deleted workloads cost, kept by month in a ConfigMap each: `fleet-system/cost-2026-11`.

A Placement is taken in before it goes: `absorbed` adds what it cost and its UID in one write, and a
second time changes nothing, so that a crash between that write and the deletion counts nothing
twice. UIDs of Placements that are gone are forgotten by `forgotten`. Amounts are kept by namespace,
quota, policy, cluster and currency: bounded by what a fleet has, not by how many jobs it ran.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from fleet.scheduling.cost.intervals import Spent, policy_of, spent_until
from policies.scalars import amount_text, duration_text, parse_amount, parse_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

Object = dict[str, Any]

NAMESPACE: Final = "fleet-system"
PREFIX: Final = "cost-"
LABEL: Final = "fleet.dev/cost-of-month"
_AMOUNTS: Final = "amounts"
_TAKEN: Final = "taken"


@dataclass(frozen=True, slots=True)
class Past:
    """What workloads that are gone cost, of one namespace, quota and policy (`namespace/name`)."""

    namespace: str
    quota: str
    policy: str
    spent: Spent


def record_name(month: str) -> str:
    return f"{PREFIX}{month}"


def absorbed(
    records: Mapping[str, Object], placement: Object, *, quota: str, now: datetime
) -> dict[str, Object]:
    """The records, by month, that have to be written before `placement` may go.

    `records` are the ConfigMaps there are. Empty where all of it has been taken in.
    """
    metadata = placement["metadata"]
    by_month: dict[str, list[Spent]] = defaultdict(list)
    for spent in spent_until(placement.get("status") or {}, now):
        by_month[spent.month].append(spent)
    policy = policy_of(placement)
    changed: dict[str, Object] = {}
    for month, amounts in sorted(by_month.items()):
        before = records.get(month)
        taken = _taken(before)
        if metadata["uid"] in taken:
            continue
        mine = (Past(metadata["namespace"], quota, policy, each) for each in amounts)
        past = [*read(before), *mine]
        changed[month] = _record(month, past, {*taken, metadata["uid"]}, before)
    return changed


def forgotten(record: Object, present: Collection[str]) -> Object | None:
    """The record without UIDs of Placements that are gone; None where there are none."""
    taken = _taken(record)
    left = {uid for uid in taken if uid in present}
    if left == taken:
        return None
    month = record["metadata"]["name"].removeprefix(PREFIX)
    return _record(month, read(record), left, record)


def read(record: Mapping[str, Any] | None) -> tuple[Past, ...]:
    """What a record holds; nothing where there is none."""
    lines = json.loads(((record or {}).get("data") or {}).get(_AMOUNTS) or "[]")
    return tuple(
        Past(
            namespace=line["namespace"],
            quota=line.get("quota", ""),
            policy=line.get("policy", ""),
            spent=Spent(
                month=line["month"],
                cluster=line["cluster"],
                currency=line.get("currency", ""),
                micro=parse_amount(line.get("amount", "0")),
                unpriced=parse_duration(line.get("unpriced", "0s")),
            ),
        )
        for line in lines
    )


def by_month(config_maps: Iterable[Object]) -> dict[str, Object]:
    """Of all ConfigMaps in the fleet's own namespace, the records."""
    return {
        each["metadata"]["name"].removeprefix(PREFIX): each
        for each in config_maps
        if LABEL in (each["metadata"].get("labels") or {})
    }


def _record(
    month: str, past: Iterable[Past], taken: Collection[str], before: Object | None
) -> Object:
    sums: dict[tuple[str, str, str, str, str], list[Any]] = defaultdict(lambda: [0, timedelta()])
    for each in past:
        spent = each.spent
        total = sums[each.namespace, each.quota, each.policy, spent.cluster, spent.currency]
        total[0] += spent.micro
        total[1] += spent.unpriced
    lines = []
    for (namespace, quota, policy, cluster, currency), (micro, unpriced) in sorted(sums.items()):
        line = {"month": month, "namespace": namespace, "cluster": cluster}
        line |= {"quota": quota} if quota else {}
        line |= {"policy": policy} if policy else {}
        line |= {"currency": currency, "amount": amount_text(micro)} if currency else {}
        line |= {"unpriced": duration_text(unpriced)} if unpriced else {}
        lines.append(line)
    base: Object = before or {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": NAMESPACE,
            "name": record_name(month),
            "labels": {LABEL: month},
        },
    }
    data = {_AMOUNTS: json.dumps(lines), _TAKEN: json.dumps(sorted(taken))}
    return {**base, "data": {**(base.get("data") or {}), **data}}


def _taken(record: Mapping[str, Any] | None) -> set[str]:
    return set(json.loads(((record or {}).get("data") or {}).get(_TAKEN) or "[]"))
