"""`GET /fleet/returns`: what the planner remembers of work that goes back."""

from __future__ import annotations

import orjson
import pytest

from fleet.errors import MethodNotAllowed
from fleet.gateway.returns import Spells
from fleet.kube.wire import Request
from fleet.scheduling.returning import Spell


async def test_it_tells_of_each_when_it_goes_and_where() -> None:
    spells = {
        "b": Spell(1, 0.0, 1800.0, 1, "own", ("east", "west")),
        "a": Spell(3, 60.5, 90.9, 2, "", ("east",)),
    }
    answer = await Spells(lambda: spells).handle(Request("GET", "/fleet/returns"))
    assert isinstance(answer.body, bytes)
    assert orjson.loads(answer.body) == {
        "items": [
            {
                "uid": "a", "tier": 2, "clusters": ["east"],
                "roomSince": "1970-01-01T00:01:00Z", "after": "1970-01-01T00:01:30Z",
            },
            {
                "uid": "b", "tier": 1, "tierName": "own", "clusters": ["east", "west"],
                "roomSince": "1970-01-01T00:00:00Z", "after": "1970-01-01T00:30:00Z",
            },
        ]
    }  # fmt: skip


async def test_it_takes_nothing() -> None:
    with pytest.raises(MethodNotAllowed):
        await Spells(dict).handle(Request("POST", "/fleet/returns", body=b"{}"))
