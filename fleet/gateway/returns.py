"""`GET /fleet/returns`: which running work goes back to an earlier tier, and when.

What is told is what the planner remembers as of its last round (`returning`), and nothing of it is
stored: room comes and goes more often than anybody asks. `fleet explain` shows it of its workload.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fleet.apiserver.bodies import json_response
from fleet.errors import MethodNotAllowed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.kube.wire import Request, Response
    from fleet.scheduling.returning import Spell

Object = dict[str, Any]


class Spells:
    """See the module."""

    def __init__(self, spells: Callable[[], Mapping[str, Spell]]) -> None:
        """`spells` gives them by UID of the workload."""
        self._spells = spells

    async def handle(self, request: Request) -> Response:
        if request.method != "GET":
            raise MethodNotAllowed(f"{request.method} is not allowed here, only GET")
        items = [_told(uid, each) for uid, each in sorted(self._spells().items())]
        return json_response(200, {"items": items})


def _told(uid: str, spell: Spell) -> Object:
    """`after` is when it goes back if the room is still there then."""
    return {
        "uid": uid,
        "tier": spell.tier,
        **({"tierName": spell.tier_name} if spell.tier_name else {}),
        "clusters": list(spell.clusters),
        "roomSince": _time(spell.since_s),
        "after": _time(spell.due_s),
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
