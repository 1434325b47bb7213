"""Running work that goes back to an earlier tier, on its way from Placements to dispatch.

`fleet.scheduling.returning` decides; here Placements and workloads are read for it, once in a
round, and what it decides becomes a step. Until who goes back is there, its room is kept: by what
its Placement says, so a restart changes nothing. Next step: `placing` yields it, dispatch stores
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.dispatch.planning import Evict, Said
from fleet.errors import Invalid
from fleet.scheduling.placement import Plan
from fleet.scheduling.planner import asked_of
from fleet.scheduling.returning import Away, Returns, away_of, tier_of
from fleet.scheduling.selection import by_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from fleet.dispatch.planning import Barred
    from fleet.gateway.placements import Placements, Reading
    from fleet.scheduling.engine import Engine
    from fleet.scheduling.planner import Asked, Fleet
    from fleet.scheduling.returning import Spell
    from fleet.scheduling.rooms import Rooms


Object = dict[str, Any]


class Returning:
    def __init__(
        self,
        placements: Placements,
        engine: Engine,
        rooms: Rooms,
        *,
        admit: Callable[[Object], None],
    ) -> None:
        """`admit` raises Invalid for work whose quota lets nothing new start."""
        self._admit = admit
        self._placements = placements
        self._engine = engine
        self._rooms = rooms
        self._returns = Returns()
        self.kept: dict[str, Plan] = {}
        """Where those go that are on their way back, as of the last round, by uid."""

    def decide(self, fleet: Fleet, now: datetime, barred: Barred) -> Evict | None:
        """After the engine's step of a round. `barred` says of a namespace and a uid which
        clusters do not take that work, and why."""
        away = self._away(fleet, now, barred)
        back = self._returns.due(away, self._engine, self._rooms, now_s=now.timestamp())
        if back is None:
            return None
        read = self._placements.by_uid[back.uid]
        self._keep_room(read, fleet, now, barred)
        place = read.placement.key
        return Evict(place, back.uid, back.other, Said("Normal", "MovesBack", back.other["why"]))

    def keep_room(self, fleet: Fleet, now: datetime, barred: Barred) -> None:
        """Before the engine's step: nobody that comes after them takes the room of those that are
        on their way back, or they would be ended for nothing."""
        self.kept.clear()
        for read in self._placements.going_back():
            self._keep_room(read, fleet, now, barred)

    def _keep_room(self, read: Reading, fleet: Fleet, now: datetime, barred: Barred) -> None:
        run = self._engine.running().get(read.uid)
        if run is None or read.workload is None:
            return  # it stands in line itself
        if any(item.priority > run.item.priority for item, _ in self._engine.waiting()):
            return
        asked = self._asked(read, read.workload.parse(), read.placement.parse(), fleet, now, barred)
        plan = self._rooms.choose(asked) if asked is not None else None
        if isinstance(plan, Plan):
            self._rooms.reserve(read.uid, plan)
            self.kept[read.uid] = plan

    @property
    def spells(self) -> Mapping[str, Spell]:
        """By uid, of what would go back, as of the last round."""
        return self._returns.spells

    def next_s(self) -> float | None:
        """When somebody is due, if nothing changes until then."""
        return self._returns.next_s()

    def _away(self, fleet: Fleet, now: datetime, barred: Barred) -> Iterator[Away]:
        policies = by_name(fleet.policies)
        for read in self._placements.in_later_tiers():
            tier, run = tier_of(read.status), self._engine.running().get(read.uid)
            if run is None or read.workload is None or read.told["kind"] != "Job":
                continue
            placement, workload = read.placement.parse(), read.workload.parse()
            told = placement["spec"].get("policy") or {}
            policy = policies.get((told.get("namespace", ""), told.get("name", "")))
            if policy is None or policy.clusters.return_after is None:
                continue
            asked = self._asked(read, workload, placement, fleet, now, barred)
            if asked is None:
                continue  # nobody could place it anew: it runs on where it is
            found = away_of(asked, run, tier, now_s=now.timestamp())
            if found is not None:
                yield found

    def _asked(
        self,
        read: Reading,
        workload: Object,
        placement: Object,
        fleet: Fleet,
        now: datetime,
        barred: Barred,
    ) -> Asked | None:
        """What is asked for where all of it is placed anew; None where that cannot be."""
        one = "it was placed in one cluster" if read.status.get("mode") == "One" else ""
        try:
            self._admit(workload)
            return asked_of(
                workload,
                placement,
                fleet,
                now=now,
                barred=barred(read.placement.namespace, read.uid),
                unsplittable=one,
            )
        except Invalid:
            return None
