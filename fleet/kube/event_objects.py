"""What an Event says of an object (core/v1), as the programs of the fleet write theirs.

Pure: names, times and whether it is told again are the writer's. `kubectl describe` shows them by
what they are about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]

MOST_CHARACTERS: Final = 1024
"""Of a message: longer ones are refused."""


def event_of(
    about: Object,
    *,
    metadata: Mapping[str, Any],
    type: str,
    reason: str,
    message: str,
    at: str,
    component: str,
    host: str = "",
) -> Object:
    """The Event that tells once, at `at`, of the object that `about` refers to; `type` is Normal or
    Warning."""
    source = {"component": component, **({"host": host} if host else {})}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": dict(metadata),
        "involvedObject": about,
        "type": type,
        "reason": reason,
        "message": message[:MOST_CHARACTERS],
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": source,
        "reportingComponent": component,
        "reportingInstance": host,
    }
