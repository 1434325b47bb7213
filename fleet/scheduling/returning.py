"""Running work back to the clusters it should have had: an earlier tier that has room again.

Only where its policy says so (`clusters.returnAfter`), one after the other, and never while
anything waits for room, or might get its quota. It is ended where it is and
begins anew, so it has to gain by that: it is let be where it would be done before it is as far
again, and each time that it was ended before it waits twice as long. Since when there was room is
remembered here alone: it counts anew after a restart. Next step: `fleet.gateway.placing` has
dispatch end it; then it waits where it stood.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from fleet.scheduling.placement import Plan
from policies import PLACEMENT_POLICY
from policies.scalars import duration_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from fleet.scheduling.decisions import Why
    from fleet.scheduling.engine import Engine
    from fleet.scheduling.placement import Refusal
    from fleet.scheduling.planner import Asked
    from fleet.scheduling.queue.running import Run

Object = dict[str, Any]

MARK: Final = PLACEMENT_POLICY.name
"""For whom work leaves that goes back to an earlier tier."""
_OF_PRICES: Final = frozenset({"TooDear", "OtherCurrency", "PriceUnknown"})
_AT_MOST: Final = 64
"""How many are asked about in a round, by who runs longest."""
_MOST_DOUBLED: Final = 6


@dataclass(frozen=True, slots=True)
class Away:
    """Work of one generation that runs in a later tier and may go back."""

    asked: Asked
    tier: int
    """The latest that it is in, from 1."""
    after_s: float
    """How long there has to be room."""
    started_s: float
    lost_s: float
    """How much time is lost by that."""
    ends_in_s: float | None
    """When it is done where it is, where that is known."""

    @property
    def uid(self) -> str:
        return self.asked.demand.workload.uid


class Back(NamedTuple):
    """Work that is to end where it is."""

    uid: str
    other: Object
    """`status.preemptedFor` of it."""


def tier_of(status: Object) -> int:
    """The latest tier that work with a Placement of that status is in, where it runs and nothing
    about it is under way; else 1."""
    shards = status.get("shards") or ()
    if (
        status.get("phase") != "Running"
        or any(status.get(name) for name in ("preemptedFor", "loan", "owed"))
        or any(each.get("state") != "Running" or each.get("lostAt") for each in shards)
    ):
        return 1
    return max((int(each.get("tier", 1)) for each in shards), default=1)


def away_of(asked: Asked, run: Run, tier: int, *, now_s: float) -> Away | None:
    """None for work that stays; `asked` is what would be asked if all of it were placed anew."""
    after = asked.policy.spec.clusters.return_after
    if after is None or tier < 2 or run.leaving_for:
        return None
    return Away(
        asked,
        tier,
        after.total_seconds() * 2 ** min(run.evictions, _MOST_DOUBLED),
        run.started_s,
        run.lost_s(now_s),
        None if run.ends_s is None else max(0.0, run.ends_s - now_s),
    )


class Spell(NamedTuple):
    """How long there has been room for work of one generation in an earlier tier."""

    generation: int
    since_s: float
    due_s: float
    """When it goes back if the room is still there then."""
    tier: int
    """From 1."""
    tier_name: str
    clusters: tuple[str, ...]


class Rooms(Protocol):
    """See `fleet.scheduling.rooms.Rooms`."""

    refusals: dict[str, Refusal]

    def choose(self, asked: Asked, *, without: Collection[str]) -> Plan | Refusal: ...


class Returns:
    """Who goes back, over the rounds of a gateway."""

    def __init__(self) -> None:
        self.spells: dict[str, Spell] = {}
        """By uid, of what would go back, as of the last round."""
        self._settled_s = 0.0

    def due(
        self,
        away: Iterable[Away],
        engine: Engine,
        rooms: Rooms,
        *,
        now_s: float,
    ) -> Back | None:
        """The one that goes now: the engine knows that it leaves."""
        before, self.spells = self.spells, {}
        self._settled_s = now_s
        if any(run.leaving_for == MARK for run in engine.running().values()):
            return None
        if any(_for_room(why, rooms.refusals.get(item.uid)) for item, why in engine.waiting()):
            return None
        found: Back | None = None
        in_order = sorted(away, key=lambda each: (each.started_s, each.uid))
        for each in in_order[:_AT_MOST]:
            if _gains_nothing(each) or engine.gives_way(each.uid, now_s):
                continue
            plan = rooms.choose(each.asked, without=(each.uid,))
            if not isinstance(plan, Plan) or max(e.tier for e in plan.shards) >= each.tier:
                continue
            spell = _spell(each, plan, before.get(each.uid), now_s)
            self.spells[each.uid] = spell
            if spell.due_s <= now_s and found is None:
                found = Back(each.uid, _why(each, spell, now_s))
                engine.running()[each.uid].leaving_for = MARK
        return found

    def next_s(self) -> float | None:
        """When somebody is due, if nothing changes until then."""
        due = (each.due_s for each in self.spells.values())
        return min((each for each in due if each > self._settled_s), default=None)


def _for_room(why: Why | None, refusal: Refusal | None) -> bool:
    """Whether one that waits may start when there is more room, as far as is known."""
    if why is None or why.reason in ("Behind", "Evicting"):
        return True
    return why.reason == "Capacity" and (refusal is None or refusal.awaits not in _OF_PRICES)


def _gains_nothing(each: Away) -> bool:
    """Whether it would be done where it is before it had come as far again in another place."""
    return each.ends_in_s is not None and each.ends_in_s <= each.lost_s


def _spell(each: Away, plan: Plan, before: Spell | None, now_s: float) -> Spell:
    known = before is not None and before.generation == each.asked.generation
    since_s = before.since_s if before is not None and known else now_s
    tier = max(shard.tier for shard in plan.shards)
    return Spell(
        each.asked.generation,
        since_s,
        since_s + each.after_s,
        tier,
        each.asked.policy.spec.clusters.tiers[tier - 1].name,
        tuple(shard.cluster for shard in plan.shards),
    )


def _why(each: Away, spell: Spell, now_s: float) -> Object:
    policy = each.asked.policy
    named = f"{spell.tier} ({spell.tier_name})" if spell.tier_name else str(spell.tier)
    for_ = duration_text(timedelta(seconds=int(now_s - spell.since_s)))
    used = ", ".join(spell.clusters)
    return {
        "kind": MARK,
        "namespace": policy.namespace,
        "name": policy.name,
        "uid": "",
        "why": f"tier {named} has had room for all of it for {for_}, in {used}",
    }
