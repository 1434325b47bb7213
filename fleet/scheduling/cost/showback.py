"""The bill: what work has cost, costs now, and is expected to cost, summed by whom it is for.

Made from Placements alone, and from the records of those that are gone (`months`). What is expected
reaches to the end of the month: a workload whose run time is not known is expected to run on.
Amounts of different currencies stand beside each other; they are never added.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from fleet.scheduling.cost.intervals import (
    Interval,
    Spent,
    added,
    intervals_of,
    month_of,
    next_month,
    policy_of,
    spent_until,
)
from policies.scalars import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fleet.scheduling.cost.months import Past

Object = dict[str, Any]
By = Literal["workload", "team", "policy", "namespace", "cluster"]

NO_TEAM: Final = "(no quota)"
NO_POLICY: Final = "(no policy)"
GONE: Final = "(deleted)"
_TO_COME: Final = frozenset({"Planned", "Holding", "Held"})


@dataclass(frozen=True, slots=True)
class Account:
    """What one Placement costs. `spent` are sums until the time it was read at."""

    namespace: str
    workload: str
    quota: str
    spent: tuple[Spent, ...]
    policy: str = ""
    running: tuple[Interval, ...] = ()
    ends_at: datetime | None = None

    def expected(self, now: datetime, until: datetime) -> tuple[Spent, ...]:
        """What is still to come until a time, or until it ends."""
        end = until if self.ends_at is None else min(self.ends_at, until)
        rest = (replace(each, start=max(each.start, now)) for each in self.running)
        return added(spent for each in rest for spent in each.spent(end))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the bill, in one currency ("" where no price is known at all).

    `unpriced` is the time that no known price covers: the amounts are then less than the truth.
    """

    name: str
    currency: str
    per_hour: int = 0
    so_far: int = 0
    forecast: int = 0
    unpriced: timedelta = timedelta()


def account_of(
    placement: Object,
    *,
    now: datetime,
    quotas: Mapping[str, str] | None = None,
    promised: bool = False,
) -> Account:
    """What a Placement costs at `now`. `quotas` says which FleetQuota counts a namespace, for
    Placements that do not say it themselves. With `promised`, shards that have no nodes yet cost
    what they will, as if they had them from now on."""
    status: Object = placement.get("status") or {}
    if promised:
        status = _as_promised(status, now)
    metadata, workload = placement["metadata"], placement["spec"]["workload"]
    running = tuple(each for each in intervals_of(status) if each.end is None)
    run_time = status.get("runTime")
    started = [
        datetime.fromisoformat(shard["startedAt"]).astimezone(UTC)
        for shard in status.get("shards") or ()
        if shard.get("startedAt")
    ]
    ends_at = None
    if run_time and running:
        begun = max(started, default=max(each.start for each in running))
        ends_at = begun + parse_duration(run_time)
    namespace = str(metadata.get("namespace", ""))
    return Account(
        namespace=namespace,
        workload=f"{workload['kind'].lower()}/{workload['name']}",
        quota=status.get("quota") or (quotas or {}).get(namespace, ""),
        spent=spent_until(status, now),
        policy=policy_of(placement),
        running=running,
        ends_at=ends_at,
    )


def _as_promised(status: Object, now: datetime) -> Object:
    text = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    shards = [
        {"heldAt": text, "committedAt": text, **each, "state": "Holding"}
        if each.get("state", "Planned") in _TO_COME
        else each
        for each in status.get("shards") or ()
    ]
    return {**status, "shards": shards} if shards else status


def bill(
    accounts: Iterable[Account],
    past: Iterable[Past] = (),
    *,
    by: By,
    now: datetime,
    month: str | None = None,
) -> tuple[Row, ...]:
    """The rows, dearest forecast first, then by name.

    `month` takes what was spent in it alone; else all that is known. What is to come counts where
    the month is the present one.
    """
    sums: dict[tuple[str, str], _Sum] = {}

    def into(name: str, currency: str) -> _Sum:
        return sums.setdefault((name, currency), _Sum())

    for account in accounts:
        for spent in account.spent:
            if month in (None, spent.month):
                into(_name(account, spent.cluster, by), spent.currency).take(spent)
        if month not in (None, month_of(now)):
            continue
        for spent in account.expected(now, next_month(now)):
            name = _name(account, spent.cluster, by)
            into(name, spent.currency).forecast += spent.micro
        for each in account.running:
            ended = account.ends_at is not None and account.ends_at <= now
            total = into(
                _name(account, each.cluster, by), each.currency if each.per_hour is not None else ""
            )
            total.per_hour += 0 if ended else each.per_hour or 0
    for gone in past:
        if month in (None, gone.spent.month):
            account = Account(gone.namespace, GONE, gone.quota, (), gone.policy)
            into(_name(account, gone.spent.cluster, by), gone.spent.currency).take(gone.spent)
    _merge_unpriced(sums)
    rows = [
        Row(name, currency, total.per_hour, total.so_far, total.so_far + total.forecast,
            total.unpriced)
        for (name, currency), total in sums.items()
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (-row.forecast, row.name, row.currency)))


def _merge_unpriced(sums: dict[tuple[str, str], _Sum]) -> None:
    """Time without a price belongs to the row of the same name, where there is just one."""
    for name in [name for name, currency in sums if not currency]:
        others = [key for key in sums if key[0] == name and key[1]]
        if len(others) == 1:
            sums[others[0]].unpriced += sums.pop((name, "")).unpriced


@dataclass(frozen=True, slots=True)
class Spending:
    """What was spent in a month, and is expected on top until its end, by currency."""

    spent: Mapping[str, int] = field(default_factory=dict)
    to_come: Mapping[str, int] = field(default_factory=dict)
    unpriced: bool = False


def spending(
    accounts: Iterable[Account],
    past: Iterable[Past],
    *,
    by: Literal["team", "policy"],
    now: datetime,
) -> dict[str, Spending]:
    """The present month, by FleetQuota (each as far as it is counted there itself) or by policy."""
    rows = bill(accounts, past, by=by, now=now, month=month_of(now))
    return {
        name: _spending([row for row in rows if row.name == name])
        for name in sorted({row.name for row in rows} - {NO_TEAM, NO_POLICY})
    }


def below(name: str, own: Mapping[str, Spending], parents: Mapping[str, str]) -> Spending:
    """What a quota and all below it spend together; `parents` says what is above each."""
    found = [spent for each, spent in own.items() if name in _upwards(each, parents)]
    return Spending(
        spent=_joined(each.spent for each in found),
        to_come=_joined(each.to_come for each in found),
        unpriced=any(each.unpriced for each in found),
    )


def _upwards(name: str, parents: Mapping[str, str]) -> list[str]:
    found = [name]
    while (name := parents.get(name, "")) and name not in found:
        found.append(name)
    return found


def _joined(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in amounts:
        for currency, micro in each.items():
            total[currency] = total.get(currency, 0) + micro
    return dict(sorted(total.items()))


def _spending(rows: Sequence[Row]) -> Spending:
    priced = [row for row in rows if row.currency]
    return Spending(
        spent={row.currency: row.so_far for row in priced},
        to_come={row.currency: row.forecast - row.so_far for row in priced},
        unpriced=any(row.unpriced for row in rows),
    )


def _name(account: Account, cluster: str, by: By) -> str:
    match by:
        case "workload":
            return f"{account.namespace}/{account.workload}"
        case "team":
            return account.quota or NO_TEAM
        case "policy":
            return account.policy or NO_POLICY
        case "namespace":
            return account.namespace
        case _:
            return cluster


@dataclass(slots=True)
class _Sum:
    per_hour: int = 0
    so_far: int = 0
    forecast: int = 0
    unpriced: timedelta = timedelta()

    def take(self, spent: Spent) -> None:
        self.so_far += spent.micro
        self.unpriced += spent.unpriced
