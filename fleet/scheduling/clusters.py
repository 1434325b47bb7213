"""Each cluster against each hard constraint: whether it comes into question, and if not, why.

Unknown is not zero and not unlimited: a member whose capacity is not known, or was last confirmed
too long ago, has none to give, and the reason says so. Its verdict carries what it would have had
wherever that is known, for the sentence that tells a user what would help. Next step: `placement`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fleet.scheduling.fit import NOTHING, Cost, Curve, Offered, offered
from fleet.scheduling.never import why_never
from fleet.scheduling.nodes import Taint, Toleration, taints_of, untolerated
from fleet.scheduling.stranding import NO_MIX
from policies import CLUSTER
from policies.scalars import duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.scheduling.capacity import Capacity
    from fleet.scheduling.demand import Demand, Role
    from fleet.scheduling.price import Prices
    from fleet.scheduling.stranding import Mix

Object = dict[str, Any]
Reason = tuple[str, str]
"""A word for programs, and a sentence."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A member as placement sees it. `capacity` is None where it is not known."""

    name: str
    labels: Mapping[str, str]
    capacity: Capacity | None
    parameter_plane: str = ""
    data_plane: str = ""
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    not_ready_because: str = ""
    cordoned: bool = False
    cordoned_because: str = ""
    barred_because: str = ""
    """Why it cannot take this very workload now, as dispatch knows; "" where it can."""
    filtered_because: str = ""
    """Why a filter (`extension`) keeps this very workload out; "" where none does."""
    max_age_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cluster judged for one role.

    `reason` is "" where it comes into question; `curve` then prices its units. `pods` is what it
    has free in whole units, None where that is not known.
    """

    cluster: str
    tier: int
    domain: str
    reason: str
    message: str
    curve: Curve
    pods: int | None
    pods_if_empty: int | None

    @property
    def usable(self) -> bool:
        return not self.reason


def cluster_of(obj: Object, capacity: Capacity | None) -> Cluster:
    """The member that a Cluster object describes. Raises Invalid for an unsound object."""
    metadata: Object = obj.get("metadata") or {}
    typed = CLUSTER.parse(obj)
    spec, conditions = typed.spec, typed.status.conditions if typed.status else ()
    ready = next((each for each in conditions if each.type == "Ready"), None)
    return Cluster(
        name=str(metadata.get("name", "")),
        labels=metadata.get("labels") or {},
        capacity=capacity,
        parameter_plane=spec.networks.parameter_plane,
        data_plane=spec.networks.data_plane,
        taints=taints_of(each.model_dump() for each in spec.taints),
        ready=ready is not None and ready.status == "True",
        not_ready_because=(ready.message or ready.reason) if ready else "its health is not known",
        cordoned=spec.maintenance.cordoned,
        cordoned_because=spec.maintenance.reason,
        max_age_s=spec.capacity_max_age.total_seconds(),
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """What a cluster is to a role, whatever room it has.

    `shut` speaks against it before its room is looked at, `apart` does after.
    """

    tier: int
    domain: str
    shut: Reason | None
    apart: Reason | None


def standing(
    demand: Demand, role: Role, cluster: Cluster, *, waited_s: float, domain: str = ""
) -> Standing:
    """See `judge`."""
    tier, tier_reason = _tier(demand, role, cluster, waited_s)
    mine = domain_of(cluster, role)
    return Standing(
        tier=tier,
        domain=mine,
        shut=_selected(demand, cluster)
        or (tier_reason if not tier else None)
        or _tainted(demand, cluster)
        or _open(cluster),
        apart=_network(demand, role, mine, domain) or tier_reason,
    )


def judge(
    demand: Demand,
    role: Role,
    cluster: Cluster,
    *,
    prices: Prices,
    now_s: float,
    waited_s: float,
    domain: str = "",
    mix: Mix = NO_MIX,
    known: tuple[Standing, tuple[Offered, Curve] | None] | None = None,
) -> Candidate:
    """The cluster against the policy of `demand` for one role.

    `domain`, where given, is the network it must be on besides: that of pods already placed. `mix`
    are the jobs that are expected, for what a choice of blocks strands. `known`, where given, is
    what `standing` and `room` would answer.
    """
    if known is None:
        known = standing(demand, role, cluster, waited_s=waited_s, domain=domain), None
    stands, has_room = known
    unknown = _known(cluster, now_s)
    if unknown or cluster.capacity is None:
        has, curve = _NO_ROOM
    else:
        has, curve = has_room or room(demand, role, cluster, prices, mix)
    reason, message = (
        stands.shut or unknown or stands.apart or _room(role, cluster, has, curve) or ("", "")
    )
    free = has.pods if reason else curve.units * role.unit
    return Candidate(
        cluster=cluster.name,
        tier=stands.tier,
        domain=stands.domain,
        reason=reason,
        message=message,
        curve=curve,
        pods=None if unknown else free,
        pods_if_empty=None if unknown else has.pods_if_empty,
    )


_NO_ROOM = Offered((), 0, 0, {}), NOTHING


def room(
    demand: Demand, role: Role, cluster: Cluster, prices: Prices, mix: Mix
) -> tuple[Offered, Curve]:
    """What a cluster of known capacity has for a role: all that `judge` needs of its nodes."""
    assert cluster.capacity is not None
    objective, prices = demand.policy.objective, prices.seen_by(demand)
    priced = objective.max_price is not None
    has = offered(
        cluster.name, cluster.capacity, role, prices, spot=objective.spot, priced=priced
    )  # fmt: skip
    moved = prices.of_data(cluster=cluster.name, network=cluster.data_plane)
    hourly = prices.hourly(moved)
    if priced and hourly is None:
        has = replace(has, pools=(), why=moved.why, payable_if_empty=False)
    once = Cost(hourly is None, hourly or 0, 0).packed
    return has, Curve(has.pools, has.free, unit=role.unit, mix=mix, once=once)


def domain_of(cluster: Cluster, role: Role) -> str:
    """The network of the kind that the role needs; "" where it is not known or none is needed."""
    match role.network:
        case "ParameterPlane":
            return cluster.parameter_plane
        case "DataPlane":
            return cluster.data_plane
    return ""


def opens_after_s(demand: Demand, tier: int) -> float:
    """How long a workload waits until a tier (from 1) is tried: its own time and those before, but
    no longer than it can wait for its deadline."""
    after_s = sum(each.after.total_seconds() for each in demand.policy.clusters.tiers[:tier])
    return after_s if demand.slack_s is None else min(after_s, demand.slack_s)


def _selected(demand: Demand, cluster: Cluster) -> Reason | None:
    if demand.policy.clusters.selector.matches(cluster.labels):
        return None
    return "NotSelected", "the policy does not select it"


def _tier(
    demand: Demand, role: Role, cluster: Cluster, waited_s: float
) -> tuple[int, Reason | None]:
    """The cluster's tier from 1, 0 for none, and what speaks against using it."""
    tiers = demand.policy.clusters.tiers
    if not tiers:
        return 1, None
    for number, tier in enumerate(tiers, start=1):
        if not tier.selector.matches(cluster.labels):
            continue
        if role.tiers and tier.name not in role.tiers:
            wanted = ", ".join(sorted(role.tiers))
            return 0, ("OtherTier", f"in tier {number}, role {role.name} wants {wanted}")
        if opens_after_s(demand, number) > waited_s:
            wait = duration_text(tier.after)
            return number, ("TierNotYet", f"tier {number} is tried after {wait} in the one before")
        return number, None
    return 0, ("NoTier", "in no tier of the policy")


def _tainted(demand: Demand, cluster: Cluster) -> Reason | None:
    tolerations = tuple(
        Toleration(each.key, each.operator, each.value, each.effect)
        for each in demand.policy.clusters.tolerations
    )
    taint = untolerated(cluster.taints, tolerations)
    if taint is None:
        return None
    value = f"={taint.value}" if taint.value else ""
    return "Tainted", f"taint {taint.key}{value}:{taint.effect} is not tolerated"


def _open(cluster: Cluster) -> Reason | None:
    if cluster.cordoned:
        why = f": {cluster.cordoned_because}" if cluster.cordoned_because else ""
        return "Cordoned", f"takes no new work{why}"
    if not cluster.ready:
        why = f": {cluster.not_ready_because}" if cluster.not_ready_because else ""
        return "NotReady", f"not ready{why}"
    if cluster.barred_because:
        return "Barred", cluster.barred_because
    if cluster.filtered_because:
        return "Filtered", cluster.filtered_because
    return None


def _known(cluster: Cluster, now_s: float) -> Reason | None:
    if cluster.capacity is None:
        return "CapacityUnknown", "its capacity is not known"
    if stale(cluster, now_s):
        # No age: what is told stays the same as long as this does.
        bound = f"{cluster.max_age_s:.0f} s"
        return "CapacityStale", f"its capacity was last confirmed more than {bound} ago"
    return None


def stale(cluster: Cluster, now_s: float) -> bool:
    """Whether its capacity was last confirmed too long ago."""
    capacity = cluster.capacity
    return capacity is not None and now_s - capacity.as_of_s > cluster.max_age_s


def _network(demand: Demand, role: Role, mine: str, domain: str) -> Reason | None:
    if role.network == "None":
        return None
    kind = network_word(role)
    if not mine:
        return "NoNetwork", f"not known to be on any {kind}"
    wanted = domain or demand.policy.gang.plane
    if wanted and mine != wanted:
        return "OtherNetwork", f"{kind} {mine} is not {wanted}"
    return None


def network_word(role: Role) -> str:
    return "plane" if role.network == "ParameterPlane" else "data plane"


def _room(role: Role, cluster: Cluster, has: Offered, curve: Curve) -> Reason | None:
    if curve.units:
        return None
    if has.pods and has.why and not has.payable_if_empty:
        return "NotPayable", has.why
    if not has.pods_if_empty:
        assert cluster.capacity is not None  # or it would be unknown
        return "NoShape", why_never(role, cluster.capacity)
    rest = f" but where it may not go: {has.why}" if has.pods and has.why else ""
    return "Full", f"has no room for {_unit(role)}{rest}"


def _unit(role: Role) -> str:
    return "a pod of it" if role.unit == 1 else f"a unit of {role.unit} pods in one block"
