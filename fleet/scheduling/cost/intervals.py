"""When a workload had nodes and at which price, read off its Placement.

A shard costs from when its pods were bound – from there on nobody else can have the nodes – until
it ended, or its cluster was last heard of. What has left the status, and what was paid at another
price before, stands in `status.spent`: `carried` puts it there whenever a status is replaced, so
that the sum over a Placement never goes down and a restart loses nothing. `showback` adds up.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from policies.scalars import amount_text, duration_text, parse_amount, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Object = dict[str, Any]

_MS: Final = timedelta(milliseconds=1)
_HOUR_MS: Final = timedelta(hours=1) // _MS
_RUNS: Final = frozenset({"Holding", "Held", "Committed", "Running"})
_BEGINS: Final = ("heldAt", "committedAt", "startedAt")


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent in one cluster and month: millionths, and the time that has no known price."""

    month: str
    cluster: str
    currency: str = ""
    micro: int = 0
    unpriced: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class Interval:
    """Nodes in one cluster at one price, per hour; None where it is not known. Without `end` they
    are still in use."""

    cluster: str
    start: datetime
    end: datetime | None
    per_hour: int | None
    currency: str = ""

    def spent(self, until: datetime) -> Iterator[Spent]:
        """By month, what it cost until a time; each month rounded up to a millionth."""
        end = until if self.end is None else min(self.end, until)
        at = self.start
        while at < end:
            upto = min(end, next_month(at))
            if self.per_hour is None:
                yield Spent(month_of(at), self.cluster, unpriced=upto - at)
            else:
                micro = -(-self.per_hour * ((upto - at) // _MS) // _HOUR_MS)
                yield Spent(month_of(at), self.cluster, self.currency, micro)
            at = upto


def intervals_of(status: Mapping[str, Any]) -> tuple[Interval, ...]:
    """What the shards in a Placement's status have cost since their present prices began."""
    currency = str((status.get("cost") or {}).get("currency", ""))
    found = (_interval(shard, currency) for shard in status.get("shards") or ())
    return tuple(each for each in found if each is not None)


def _interval(shard: Mapping[str, Any], currency: str) -> Interval | None:
    begun = _begun(shard)
    if begun is None:
        return None
    start = _moment(shard.get("pricedAt") or begun)
    end: datetime | None = None
    if shard.get("finishedAt"):
        end = _moment(shard["finishedAt"])
    elif shard.get("state") not in _RUNS or shard.get("reason") == "MemberLeft":
        # What runs on where nobody sees it is not known.
        end = _moment(shard.get("lostAt") or begun)
    per_hour = parse_amount(shard["perHour"]) if shard.get("perHour") else None
    if per_hour and not currency:
        per_hour = None
    return Interval(str(shard["cluster"]), start, end, per_hour, currency)


def _fetched(shard: Mapping[str, Any], currency: str) -> Iterator[Spent]:
    """What was paid once for the data that a shard reads: when it was let start."""
    micro = parse_amount(shard.get("dataCost", "0"))
    if micro and currency and shard.get("committedAt"):
        month = month_of(_moment(shard["committedAt"]))
        yield Spent(month, str(shard["cluster"]), currency, micro)


def _begun(shard: Mapping[str, Any]) -> str | None:
    return next((shard[name] for name in _BEGINS if shard.get(name)), None)


def _leaving(shard: Mapping[str, Any], interval: Interval) -> Interval:
    """The interval of a shard that goes: of one in a silent cluster until that was heard of."""
    if interval.end is not None or not shard.get("lostAt"):
        return interval
    return replace(interval, end=_moment(shard["lostAt"]))


def settled(status: Mapping[str, Any]) -> tuple[Spent, ...]:
    """What stands in a Placement's status of what is over."""
    return tuple(
        Spent(
            month=str(each["month"]),
            cluster=str(each["cluster"]),
            currency=str(each.get("currency", "")),
            micro=parse_amount(each.get("amount", "0")),
            unpriced=parse_duration(each.get("unpriced", "0s")),
        )
        for each in status.get("spent") or ()
    )


def spent_until(status: Mapping[str, Any], now: datetime) -> tuple[Spent, ...]:
    """Everything that a Placement has cost, by month, cluster and currency."""
    running = (spent for each in intervals_of(status) for spent in each.spent(now))
    currency = str((status.get("cost") or {}).get("currency", ""))
    fetched = (spent for each in status.get("shards") or () for spent in _fetched(each, currency))
    return added((*settled(status), *running, *fetched))


def carried(before: Mapping[str, Any], after: Mapping[str, Any], *, now: datetime) -> Object:
    """`after`, which replaces `before`, with what it would lose: shards that are gone, and what
    those that stay cost at a price that has changed.

    Equal to `after` where nothing of the kind happened.
    """
    kept = {_key(shard): shard for shard in after.get("shards") or ()}
    currency = (before.get("cost") or {}).get("currency", "")
    same_currency = currency == (after.get("cost") or {}).get("currency", "")
    closed: list[Spent] = []
    repriced: dict[tuple[str, int], str] = {}
    for shard in before.get("shards") or ():
        interval, stays = _interval(shard, currency), kept.get(_key(shard))
        if interval is None:
            continue
        if stays is None:
            closed += _leaving(shard, interval).spent(now)
            closed += _fetched(shard, currency)
        elif _begun(stays) is None:
            closed += interval.spent(now)  # it let its nodes go, and may have them again
        elif same_currency and stays.get("perHour") == shard.get("perHour"):
            if shard.get("pricedAt"):
                repriced[_key(shard)] = shard["pricedAt"]
        else:
            closed += interval.spent(now)
            repriced[_key(shard)] = _text(max(now, interval.start))
    result = dict(after)
    if closed or before.get("spent"):
        result["spent"] = [_written(each) for each in added((*settled(before), *closed))]
    if repriced:
        result["shards"] = [
            {**shard, "pricedAt": repriced[_key(shard)]} if _key(shard) in repriced else shard
            for shard in after["shards"]
        ]
    return result


def added(amounts: Iterable[Spent]) -> tuple[Spent, ...]:
    """Summed by month, cluster and currency; sorted by these."""
    sums: dict[tuple[str, str, str], list[Any]] = defaultdict(lambda: [0, timedelta()])
    for each in amounts:
        total = sums[each.month, each.cluster, each.currency]
        total[0] += each.micro
        total[1] += each.unpriced
    return tuple(
        Spent(*key, micro, unpriced)
        for key, (micro, unpriced) in sorted(sums.items())
        if micro or unpriced
    )


def policy_of(placement: Mapping[str, Any]) -> str:
    """The policy that a Placement is under, as `namespace/name`; "" where it says none."""
    policy = placement["spec"].get("policy")
    return f"{policy['namespace']}/{policy['name']}" if policy else ""


def month_of(moment: datetime) -> str:
    """`2026-11`, of the calendar in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m")


def next_month(moment: datetime) -> datetime:
    """When the month after the one of `moment` begins."""
    utc = moment.astimezone(UTC)
    year, month = (utc.year + 1, 1) if utc.month == 12 else (utc.year, utc.month + 1)
    return datetime(year, month, 1, tzinfo=UTC)


def _written(spent: Spent) -> Object:
    written: Object = {"month": spent.month, "cluster": spent.cluster}
    if spent.currency:
        written |= {"currency": spent.currency, "amount": amount_text(spent.micro)}
    if spent.unpriced:
        written["unpriced"] = duration_text(spent.unpriced)
    return written


def _key(shard: Mapping[str, Any]) -> tuple[str, int]:
    return str(shard["cluster"]), int(shard.get("generation", 0))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
