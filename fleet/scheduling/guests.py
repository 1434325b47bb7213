"""Where work goes that the fleet places and somebody else carries out: guests.

A guest has no Placement and counts at no FleetQuota; nothing is ended for it. It is submitted to a
fork of the engine beside all that waits, so that it gets no room that is kept for others or that
others come first to, and no two guests get the same. What was promised to it is one more entry of
the ledger from then on. Pure; next step: `fleet.gateway.placing` asks.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from fleet.scheduling.capacity import ShardKey
from fleet.scheduling.decisions import Admit, Why
from fleet.scheduling.demand import pod_kinds_of
from fleet.scheduling.ledger import Ledger, Reservation
from fleet.scheduling.placement import Plan
from fleet.scheduling.rooms import Rooms
from fleet.scheduling.workloads import read

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fleet.scheduling.engine import Engine
    from fleet.scheduling.foretelling import Wanted
    from fleet.scheduling.placement import Refusal
    from fleet.scheduling.planner import Asked
    from fleet.scheduling.rooms import Picture
    from fleet.scheduling.standing import Wish

    Object = dict[str, Any]


_UNTRIED: Final = Why("Capacity", text="it was not tried yet")


def seats(
    engine: Engine,
    picture: Picture,
    waiting: Mapping[str, tuple[Asked, Wish]],
    guests: Mapping[str, Wanted],
    kept: Mapping[str, Plan] = MappingProxyType({}),
) -> dict[str, Plan | Refusal | Why]:
    """By uid, where each guest goes, or why it goes nowhere now. `kept` is room that is kept for
    others, by uid."""
    now_s = picture.now.timestamp()
    rooms = Rooms()
    asked = {**waiting, **{uid: (each.asked, each.wish) for uid, each in guests.items()}}
    rooms.begin(picture, asked)
    forked = engine.fork(rooms)
    rooms.begin(picture, asked)  # what runs is told by the picture already
    for uid, plan in kept.items():
        rooms.reserve(uid, plan)
    for each in guests.values():
        forked.submit(each.item, now_s)
    found: dict[str, Plan | Refusal | Why] = {}
    for decision in forked.step(now_s):
        if isinstance(decision, Admit) and isinstance(decision.placed.plan, Plan):
            found[decision.uid] = decision.placed.plan
    for item, why in forked.waiting():
        found[item.uid] = rooms.refusals.get(item.uid) or why or _UNTRIED
    return {uid: found[uid] for uid in guests}


def promised(gang: Object, cluster: str, *, seen: int = 0) -> Ledger:
    """The room of a gang in a cluster, less what `seen` of its pods have taken, the first roles
    first. Raises Invalid for one that cannot be read."""
    kinds = pod_kinds_of(gang)
    reading = read(gang)
    entries = []
    for part in reading.parts if reading is not None else ():
        left = max(0, part.pods - seen)
        seen -= part.pods - left
        if left:
            entries.append(Reservation(left, kinds[part.role]))
    key = ShardKey(str(gang["metadata"]["uid"]), 1, cluster)
    return Ledger(MappingProxyType({key: tuple(entries)} if entries else {}))
