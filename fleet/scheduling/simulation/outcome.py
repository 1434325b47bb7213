"""What came of a scenario, as a document: waits, use, evictions, cost, and what never started.

Plain values for JSON and YAML, in a fixed order; times in seconds, money and shares as texts and
numbers that repeat exactly for equal inputs. Next step: `fleet simulate` prints it.
"""

from __future__ import annotations

from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from fleet.scheduling.cost.intervals import added
from fleet.scheduling.requests import is_accelerator, quantity_text
from fleet.scheduling.simulation.notes import History, Stopped
from policies.scalars import amount_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fleet.scheduling.quota.tree import Key
    from fleet.scheduling.simulation.bills import Charge
    from fleet.scheduling.simulation.course import Played
    from fleet.scheduling.simulation.notes import Level

Object = dict[str, Any]

_HOUR_MS: Final = 3_600_000
_SHOWN: Final = frozenset({"cpu", "memory"})
_NO_QUOTA: Final = "(no quota)"


def outcome_of(played: Played) -> Object:
    """The whole document."""
    scenario, charges, end_ms = played.scenario, played.bills.closed, played.end_ms
    histories = [each for each in played.histories if each.arrives_ms <= end_ms or each.invalid]
    ended = [each.ended_ms for each in histories if each.ended_ms is not None]
    return {
        "start": _moment(played, 0),
        "end": _moment(played, end_ms),
        "makespanSeconds": _seconds(max(ended, default=0)),
        "workloads": {**_counts(histories), "later": len(played.histories) - len(histories)},
        "waitSeconds": _waits(histories),
        "evictions": _evictions(histories),
        **_cost(charges),
        "classes": [
            {"name": name, **_counts(found), "waitSeconds": _waits(found),
             "evictions": _evictions(found)["workloads"]}
            for name, found in _grouped(histories, lambda each: each.work.class_name)
        ],
        "clusters": [_cluster(played, each.name) for each in scenario.clusters],
        "quotas": [*_quotas(played, histories)],
        "neverStarted": [_never(each) for each in histories if each.first_ms is None],
        "warnings": list(scenario.warnings),
    }  # fmt: skip


def _counts(histories: Sequence[History]) -> Object:
    return {
        "arrived": len(histories),
        "started": sum(each.first_ms is not None for each in histories),
        "ended": sum(each.ended_ms is not None for each in histories),
        "running": sum(each.runs_on for each in histories),
        "waiting": sum(
            each.running_since_ms is None and each.ended_ms is None and not each.refused
            for each in histories
        ),
        "refused": sum(each.refused for each in histories),
        "invalid": sum(each.invalid for each in histories),
    }


def _waits(histories: Iterable[History]) -> Object:
    """From arrival to the first start; of what ran already or never started there is none."""
    waits = sorted(each.waited_ms for each in histories if each.waited_ms is not None)
    if not waits:
        return {}
    return {
        "mean": round(sum(waits) / len(waits) / 1000, 3),
        "p50": _seconds(_rank(waits, 50)),
        "p99": _seconds(_rank(waits, 99)),
        "longest": _seconds(waits[-1]),
    }


def _rank(ordered: Sequence[int], percent: int) -> int:
    """The nearest rank: one of the values, never between two."""
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


def _evictions(histories: Iterable[History]) -> Object:
    """`lostAcceleratorHours`: what was thrown away, of work without accelerators nothing."""
    workloads = times = lost = 0
    returned = 0
    for each in histories:
        workloads += bool(each.evictions)
        times += sum(run.how is Stopped.EVICTED for run in each.runs)
        returned += sum(run.how is Stopped.RETURNED for run in each.runs)
        devices = sum(n for key, n in each.amounts.items() if is_accelerator(key.resource))
        lost += devices * sum(run.lost_ms for run in each.runs)
    return {
        "workloads": workloads,
        "times": times,
        "loansReturned": returned,
        "lostAcceleratorHours": round(lost / _HOUR_MS, 3),
    }


def _cost(charges: Sequence[Charge]) -> Object:
    """Amounts of different currencies stand beside each other; `unpriced` is node time without a
    known price."""
    sums: dict[str, int] = {}
    unpriced = timedelta()
    for charge in charges:
        for spent in charge.spent(_end(charge)):
            unpriced += spent.unpriced
            if spent.currency:
                sums[spent.currency] = sums.get(spent.currency, 0) + spent.micro
    found: Object = {"cost": [_money(currency, sums[currency]) for currency in sorted(sums)]}
    if unpriced:
        found["unpriced"] = duration_text(unpriced)
    return found


def _cost_in(charges: Sequence[Charge], cluster: str) -> Object:
    spent = added(
        each for charge in charges for each in charge.spent(_end(charge)) if each.cluster == cluster
    )
    sums: dict[str, int] = {}
    unpriced = timedelta()
    for each in spent:
        unpriced += each.unpriced
        if each.currency:
            sums[each.currency] = sums.get(each.currency, 0) + each.micro
    found: Object = {"cost": [_money(currency, sums[currency]) for currency in sorted(sums)]}
    return found | ({"unpriced": duration_text(unpriced)} if unpriced else {})


def _end(charge: Charge) -> Any:
    return max(each.end for each in charge.intervals if each.end is not None)


def _money(currency: str, micro: int) -> Object:
    return {"currency": currency, "amount": amount_text(micro)}


def _cluster(played: Played, name: str) -> Object:
    use, totals = played.use.clusters[name], played.use.totals[name]
    capacity = next(e.capacity for e in played.scenario.clusters if e.name == name)
    kinds: dict[str, list[str]] = {}
    for resource, kind in sorted(totals):
        kinds.setdefault(resource, []).append(kind)
    resources = []
    for resource, levels in sorted(use.items(), key=lambda each: (_order(each[0]), each[0])):
        there = sum(value for (of, _), value in totals.items() if of == resource)
        if not there or not (is_accelerator(resource) or resource in _SHOWN):
            continue
        accelerators = [kind for kind in kinds[resource] if kind]
        resources.append(
            {
                "name": resource,
                **({"accelerators": accelerators} if accelerators else {}),
                "total": quantity_text(resource, there),
                "peak": quantity_text(resource, levels.peak),
                "use": _share(levels, there, played.end_ms),
            }
        )
    return {
        "name": name,
        "nodes": len(capacity.nodes) if capacity is not None else 0,
        "resources": resources,
        **_cost_in(played.bills.closed, name),
    }


def _quotas(played: Played, histories: Iterable[History]) -> Iterator[Object]:
    tree, by_node = played.scenario.tree, dict[str, list[History]]()
    for each in histories:
        by_node.setdefault(each.quota, []).append(each)
    for name, node in tree.nodes.items():
        path = tree.path(name)
        lines = []
        for (of, key), level in sorted(played.use.quotas.items(), key=lambda e: str(e[0][1])):
            share = tree.shares.get((name, key))
            if of != name or share is None:
                continue
            limit = share.limit
            lines.append(_quota_line(key, share.guaranteed, limit, level, played.end_ms))
        below = [each for n in tree.under(name) for each in by_node.get(n, [])]
        charges = [each for each in played.bills.closed if each.quota in tree.under(name)]
        yield {
            "name": name,
            **({"parent": node.parent} if node.parent else {}),
            "depth": len(path) - 1,
            "resources": lines,
            "workloads": _counts(below),
            "waitSeconds": _waits(below),
            "evictions": _evictions(below)["workloads"],
            **_cost(charges),
        }
    uncounted = by_node.get("", [])
    if uncounted and tree.nodes:
        yield {
            "name": _NO_QUOTA, "depth": 0, "resources": [], "workloads": _counts(uncounted),
            "waitSeconds": _waits(uncounted), "evictions": _evictions(uncounted)["workloads"],
            **_cost([each for each in played.bills.closed if not each.quota]),
        }  # fmt: skip


def _quota_line(key: Key, guaranteed: int, limit: int | None, level: Level, ms: int) -> Object:
    return {
        "name": key.resource,
        **({"accelerator": key.accelerator} if key.accelerator else {}),
        "guaranteed": quantity_text(key.resource, guaranteed),
        **({"limit": quantity_text(key.resource, limit)} if limit is not None else {}),
        "peak": quantity_text(key.resource, level.peak),
        "use": _share(level, guaranteed, ms),
    }


def _never(history: History) -> Object:
    metadata = history.work.obj["metadata"]
    reason, message = history.waits
    return {
        "kind": history.work.obj["kind"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "class": history.work.class_name,
        **({"quota": history.quota} if history.quota else {}),
        "reason": reason,
        "message": message,
    }


def _grouped(
    histories: Iterable[History], of: Callable[[History], str]
) -> list[tuple[str, list[History]]]:
    found: dict[str, list[History]] = {}
    for each in histories:
        found.setdefault(of(each), []).append(each)
    return sorted(found.items())


def _share(level: Level, whole: int, ms: int) -> float | None:
    """Of what there is, over all the time; None where there is none."""
    return round(level.area / (whole * ms), 4) if whole and ms else None


def _order(resource: str) -> int:
    return 0 if is_accelerator(resource) else 1


def _seconds(ms: int) -> float:
    return ms / 1000


def _moment(played: Played, ms: int) -> str:
    moment = played.scenario.start + timedelta(milliseconds=ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
