"""What one decision is about, in integers: bins that pods go into, pools that units are bought in.

A bin is some like nodes of one block in equal states; a pool is what one role can have of a block
at one price. Reads the same values that `placement.place` is asked with and judges each hard
constraint by itself. Next step: `gang`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from fleet.scheduling.nodes import Toleration, untolerated
from fleet.scheduling.stranding import NO_MIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.demand import Demand, Role
    from fleet.scheduling.nodes import Node
    from fleet.scheduling.price import Prices
    from fleet.scheduling.requests import Amounts, Vector
    from fleet.scheduling.stranding import Mix


class Seat(NamedTuple):
    """What a running gang has on one node."""

    cluster: str
    node: str
    amounts: Vector


@dataclass(frozen=True, slots=True)
class Victim:
    """A running gang that may be evicted, as a whole. `cost` is what its lost work is worth, `size`
    what it counts for where not more may be evicted than is asked for."""

    uid: str
    cost: int
    seats: tuple[Seat, ...]
    size: int = 0


class Pool(NamedTuple):
    """What a role can have of a block alike: one kind of accelerator, one price, one billing."""

    role: int
    cluster: str
    block: str
    accelerator: str
    billing: str
    micro: int | None
    """Per unit and hour; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Bin:
    """`count` nodes of one block that are alike in everything that matters to the question."""

    cluster: str
    block: str
    count: int
    free: Amounts
    pools: tuple[int | None, ...]
    """By role: position of the pool that its pods on these nodes count for; None: not for it."""
    freed: tuple[tuple[int, Vector], ...] = ()
    """What each victim, by position, gives back on each of the nodes."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster that comes into question for at least one role."""

    name: str
    tiers: tuple[int | None, ...]
    """By role: its tier from 1; None where the role may not go there."""
    networks: tuple[str, ...]
    """By role: the network that its pods would be on; "" where the role asks for none."""


@dataclass(frozen=True, slots=True)
class Question:
    roles: tuple[Role, ...]
    places: tuple[Place, ...]
    """In the order that breaks ties."""
    pools: tuple[Pool, ...]
    bins: tuple[Bin, ...]
    victims: tuple[Victim, ...]
    span: int
    """Most clusters."""
    ceiling: int | None
    """Most millionths per hour; every pool has a known price then."""
    mix: Mix = NO_MIX
    """The jobs that are expected; counts where all pods of the gang are of one kind."""
    free: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By (cluster, block): pods of that kind that would fit, payable or not. Empty without mix."""
    size: int | None = None
    """Those who are evicted, but for the largest, are not larger together. None: any."""


def question_of(
    demand: Demand,
    clusters: Iterable[Cluster],
    *,
    now_s: float,
    prices: Prices,
    waited_s: float = 0.0,
    incumbents: Collection[str] = (),
    victims: Iterable[Victim] = (),
    mix: Mix = NO_MIX,
    size: int | None = None,
) -> Question:
    """The question that `place` would be asked. Clusters that cannot be used are left out."""
    roles = demand.roles
    limit = demand.policy.objective.max_price
    payable = limit is None or not prices.currency or limit.currency == prices.currency
    able = tuple(sorted(victims, key=lambda each: each.uid))
    alone = len({role.kind for role in roles}) == 1 and not able
    places, pools, bins = [], dict[Pool, int](), list[Bin]()
    free: dict[tuple[str, str], int] = {}
    order = sorted(clusters, key=lambda each: (each.name not in incumbents, each.name))
    for cluster in order if payable else ():
        if not _open(demand, cluster, now_s):
            continue
        tiers = tuple(_tier(demand, role, cluster, waited_s) for role in roles)
        networks = tuple(_network(role, cluster) for role in roles)
        tiers = tuple(
            tier if _connected(demand, role, network) else None
            for tier, role, network in zip(tiers, roles, networks, strict=True)
        )
        if any(tiers):
            places.append(Place(cluster.name, tiers, networks))
            bins += _bins(demand, cluster, tiers, prices, pools, able)
            if alone and mix and cluster.capacity is not None:
                for room in cluster.capacity.rooms(roles[0].kind):
                    key = cluster.name, room.block
                    free[key] = free.get(key, 0) + room.pods
    policy = demand.policy
    return Question(
        roles=roles,
        places=tuple(places),
        pools=tuple(pools),
        bins=tuple(bins),
        victims=able,
        span=1 if policy.mode == "One" else policy.gang.max_clusters,
        ceiling=None if limit is None else limit.micro,
        mix=mix,
        free=free,
        size=size,
    )


def _open(demand: Demand, cluster: Cluster, now_s: float) -> bool:
    if cluster.cordoned or not cluster.ready or cluster.barred_because:
        return False
    if cluster.capacity is None or now_s - cluster.capacity.as_of_s > cluster.max_age_s:
        return False
    rules = demand.policy.clusters
    tolerations = tuple(
        Toleration(each.key, each.operator, each.value, each.effect) for each in rules.tolerations
    )
    return rules.selector.matches(cluster.labels) and not untolerated(cluster.taints, tolerations)


def _tier(demand: Demand, role: Role, cluster: Cluster, waited_s: float) -> int | None:
    tiers = demand.policy.clusters.tiers
    if not tiers:
        return 1
    opens_s = 0.0
    for number, tier in enumerate(tiers, start=1):
        opens_s += tier.after.total_seconds()
        if tier.selector.matches(cluster.labels):
            named = not role.tiers or tier.name in role.tiers
            return number if named and opens_s <= waited_s else None
    return None


def _network(role: Role, cluster: Cluster) -> str:
    if role.network == "None":
        return ""
    return cluster.parameter_plane if role.network == "ParameterPlane" else cluster.data_plane


def _connected(demand: Demand, role: Role, network: str) -> bool:
    if role.network == "None":
        return True
    return bool(network) and demand.policy.gang.plane in ("", network)


def _bins(
    demand: Demand,
    cluster: Cluster,
    tiers: Sequence[int | None],
    prices: Prices,
    pools: dict[Pool, int],
    victims: Sequence[Victim],
) -> Iterable[Bin]:
    assert cluster.capacity is not None
    offers = [
        _offers(demand, cluster, role, prices) if tier else {}
        for role, tier in zip(demand.roles, tiers, strict=True)
    ]
    seats = _seats(cluster.name, victims)
    asked = sorted({name for role in demand.roles for name, _ in role.kind.request})
    counts: Counter[tuple[str, tuple[int | None, ...], Vector, tuple[tuple[int, Vector], ...]]]
    counts = Counter()
    for node in cluster.capacity.nodes:
        usable = [
            offer.get(_room_key(node, role)) if _takes(node, role) else None
            for role, offer in zip(demand.roles, offers, strict=True)
        ]
        if any(usable):
            positions = tuple(
                None if pool is None else pools.setdefault(pool, len(pools)) for pool in usable
            )
            free = tuple((name, node.free.get(name, 0)) for name in asked)
            counts[node.block, positions, free, seats.get(node.name, ())] += 1
    return [
        Bin(cluster.name, block, count, dict(free), positions, freed)
        for (block, positions, free, freed), count in counts.items()
    ]


_RoomKey = tuple[str, str, str, str, "Vector"]


def _offers(
    demand: Demand, cluster: Cluster, role: Role, prices: Prices
) -> Mapping[_RoomKey, Pool]:
    """By shape of node: what the role pays there; nodes that it must not buy are left out."""
    assert cluster.capacity is not None
    found = {}
    objective = demand.policy.objective
    for room in cluster.capacity.rooms(role.kind):
        price = prices.of_pod(cluster.name, room, role.kind.request, spot=objective.spot)
        if not price.usable or (objective.max_price is not None and price.micro is None):
            continue
        key = (room.block, room.accelerator, room.instance_type, room.billing, room.shape)
        found[key] = Pool(
            demand.roles.index(role),
            cluster.name,
            room.block,
            room.accelerator,
            price.billing,
            None if price.micro is None else price.micro * role.unit,
        )
    return found


def _room_key(node: Node, role: Role) -> _RoomKey:
    shape = tuple((name, node.allocatable.get(name, 0)) for name, _ in role.kind.request)
    return node.block, node.accelerator, node.instance_type, node.billing, shape


def _takes(node: Node, role: Role) -> bool:
    if node.unusable or untolerated(node.taints, role.kind.tolerations):
        return False
    return role.kind.selector.matches(node)


def _seats(cluster: str, victims: Sequence[Victim]) -> dict[str, tuple[tuple[int, Vector], ...]]:
    found: dict[str, list[tuple[int, Vector]]] = {}
    for position, victim in enumerate(victims):
        for seat in victim.seats:
            if seat.cluster == cluster:
                found.setdefault(seat.node, []).append((position, seat.amounts))
    return {node: tuple(freed) for node, freed in found.items()}
