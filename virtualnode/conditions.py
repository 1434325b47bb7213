"""Conditions in a status, and timestamps. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]


def find(conditions: Iterable[Object] | None, kind: str) -> Object | None:
    """The condition of type `kind`, or None."""
    return next((each for each in conditions or () if each.get("type") == kind), None)


def is_true(obj: Object, kind: str) -> bool:
    """Whether `obj` says `kind` of itself."""
    found = find((obj.get("status") or {}).get("conditions"), kind)
    return found is not None and found.get("status") == "True"


def settle(conditions: Iterable[Object] | None, wanted: Object, *, now: datetime) -> list[Object]:
    """The conditions with `wanted` among them, in the place of an older one of its type.

    `lastTransitionTime` moves only when the status changes.
    """
    settled: list[Object] = []
    fresh = {"lastTransitionTime": stamp(now), **wanted}
    replaced = False
    for each in conditions or ():
        if each.get("type") != wanted["type"]:
            settled.append(each)
            continue
        replaced = True
        if each.get("status") == wanted["status"] and "lastTransitionTime" in each:
            fresh["lastTransitionTime"] = each["lastTransitionTime"]
        settled.append({**each, **fresh})
    if not replaced:
        settled.append(fresh)
    return settled


def stamp(moment: datetime) -> str:
    """RFC 3339 in UTC with whole seconds, as `metav1.Time` is written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(text: str | None) -> float | None:
    """A timestamp as seconds since the epoch; None when there is none or it cannot be read."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def moment(epoch_s: float) -> datetime:
    """Seconds since the epoch as a moment in UTC."""
    return datetime.fromtimestamp(epoch_s, UTC)
