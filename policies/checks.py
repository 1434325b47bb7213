"""What one field alone cannot show to be wrong: names that must exist, parts that conflict.

Each check gets the typed object and the one it replaces, and returns one cause per wrong field.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import BadRequest
from fleet.kube.names import label_key_problems
from policies.faults import fault
from policies.parts import Selector
from policies.placement_policy import LEAST_LEASE
from policies.price_book import PriceBook
from policies.scalars import duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from fleet.errors import Cause
    from policies.cluster import Cluster
    from policies.kind import Others
    from policies.parts import Toleration
    from policies.placement import Placement
    from policies.placement_policy import Objective, PlacementPolicy

Object = dict[str, Any]

NOTHING_TO_SPEND: Final = (
    "nothing may be spent: to keep work from clusters that cost, do not select them"
)


def cluster(new: Cluster, old: Cluster | None) -> Sequence[Cause]:
    return tuple(_cluster(new))


def _cluster(new: Cluster) -> Iterator[Cause]:
    connection = new.spec.connection
    if connection.kubeconfig_secret_ref is not None and connection.virtual is not None:
        yield fault(
            "spec.connection", "has both kubeconfigSecretRef and virtual; write the one that is so"
        )
    yield from _label_key(new.spec.blocks.node_label, "spec.blocks.nodeLabel")
    seen = set()
    for index, taint in enumerate(new.spec.taints):
        key = (taint.key, taint.effect)
        if key in seen:
            yield fault(f"spec.taints[{index}]", f"{taint.key}:{taint.effect} is there twice")
        seen.add(key)
        yield from _label_key(taint.key, f"spec.taints[{index}].key", needed=True)


def placement_policy(new: PlacementPolicy, old: PlacementPolicy | None) -> Sequence[Cause]:
    return tuple(_placement_policy(new))


def _placement_policy(new: PlacementPolicy) -> Iterator[Cause]:
    spec = new.spec
    if spec.workloads is not None:
        yield from selector_faults(spec.workloads, "spec.workloads")
    yield from selector_faults(spec.clusters.selector, "spec.clusters.selector")
    for index, toleration in enumerate(spec.clusters.tolerations):
        yield from _toleration(toleration, f"spec.clusters.tolerations[{index}]")
    names: set[str] = set()
    for index, tier in enumerate(spec.clusters.tiers):
        where = f"spec.clusters.tiers[{index}]"
        yield from selector_faults(tier.selector, f"{where}.selector")
        if tier.name and tier.name in names:
            yield fault(f"{where}.name", f'"{tier.name}" is the name of an earlier tier')
        names.add(tier.name)
        if index == 0 and tier.after:
            yield fault(f"{where}.after", "the first tier has none before it to wait for")
    gang = spec.gang
    if gang.plane and spec.network == "None":
        yield fault(
            "spec.gang.plane",
            f'"{gang.plane}" says which network it must be, but spec.gang.network is None; '
            "write ParameterPlane or DataPlane there",
        )
    yield from _least(gang.min, gang.unit, "spec.gang.min")
    roles: set[str] = set()
    for index, role in enumerate(gang.roles):
        where = f"spec.gang.roles[{index}]"
        yield from _least(role.min, role.unit or gang.unit, f"{where}.min")
        if role.name in roles:
            yield fault(f"{where}.name", f'"{role.name}" is there twice')
        roles.add(role.name)
        for position, name in enumerate(role.tiers):
            if not name or name not in names:
                named = ", ".join(sorted(filter(None, names))) or "none has a name"
                yield fault(
                    f"{where}.tiers[{position}]",
                    f'no tier of spec.clusters.tiers is called "{name}" ({named})',
                )

    yield from _objective(spec.objective)
    if spec.failover.tolerate < LEAST_LEASE:
        yield fault(
            "spec.failover.tolerate",
            f"must be at least {duration_text(LEAST_LEASE)}: it is the lease by which a part runs, "
            "and one that is shorter is over before the fleet can renew it",
        )
    for index, data in enumerate(spec.data):
        if not data.at or not all(data.at):
            yield fault(
                f"spec.data[{index}].at",
                "must name the networks that have a copy, e.g. [dc-east] (networks.dataPlane of "
                "their clusters)",
            )


def _least(least: int | None, unit: int, where: str) -> Iterator[Cause]:
    if least is not None and least % unit:
        yield fault(where, f"{least} pods are no whole units of {unit}")


def _objective(objective: Objective) -> Iterator[Cause]:
    where = "spec.objective"
    if objective.budget is not None and objective.max_price is not None:
        budget, ceiling = objective.budget.per_month.currency, objective.max_price.currency
        if budget != ceiling:
            yield fault(
                f"{where}.budget.perMonth",
                f"is in {budget}, and {where}.maxPrice in {ceiling}: one currency is not made into "
                "another, write both in that of the PriceBooks",
            )
    if objective.budget is not None and not objective.budget.per_month.micro:
        yield fault(f"{where}.budget.perMonth", NOTHING_TO_SPEND)
    for field, duration in (("runTime", objective.run_time), ("deadline", objective.deadline)):
        if duration is not None and not duration:
            yield fault(f"{where}.{field}", "must be longer than nothing")
    if objective.run_time and objective.deadline and objective.run_time > objective.deadline:
        yield fault(
            f"{where}.deadline",
            f"{duration_text(objective.deadline)} is shorter than the expected run time of "
            f"{duration_text(objective.run_time)}: nothing could be done in time",
        )


def price_book(new: PriceBook, old: PriceBook | None) -> Sequence[Cause]:
    return tuple(_price_book(new))


def _price_book(new: PriceBook) -> Iterator[Cause]:
    currency, seen = new.spec.currency, set()
    for index, offer in enumerate(new.spec.offers):
        where = f"spec.offers[{index}]"
        if offer.billing == "Owned":
            if offer.per_hour is not None:
                yield fault(
                    f"{where}.perHour",
                    "what is Owned has no price per hour; leave it out, or write billing: Reserved",
                )
        elif offer.per_hour is None:
            yield fault(
                f"{where}.perHour",
                f"must be given for billing {offer.billing}: a missing price is not free; write "
                f'"98.32" (in {currency}), or billing: Owned',
            )
        elif not offer.per_hour:
            yield fault(
                f"{where}.perHour",
                f"0 is no price for billing {offer.billing}: only what is Owned costs nothing, "
                "write billing: Owned",
            )
        if offer.interruptions_per_hour is not None and offer.billing != "Spot":
            yield fault(
                f"{where}.interruptionsPerHour", f"only Spot is interrupted, not {offer.billing}"
            )
        if not offer.cluster:
            yield fault(f"{where}.cluster", "may not be empty")
        key = (offer.cluster, offer.accelerator, offer.instance_type, offer.billing)
        if key in seen:
            yield fault(where, "an earlier offer is for the same nodes and billing")
        seen.add(key)
    routes = set()
    for index, egress in enumerate(new.spec.egress):
        where = f"spec.egress[{index}]"
        for name, value in (("from", egress.from_), ("to", egress.to)):
            if not value:
                yield fault(f"{where}.{name}", "may not be empty")
        if (egress.from_, egress.to) in routes:
            yield fault(where, f"an earlier one is for {egress.from_} to {egress.to}")
        routes.add((egress.from_, egress.to))


# What a price may be ahead of the fleet's clock.
_SKEW: Final = timedelta(minutes=5)


def price_ages(
    obj: Object, old: Object | None, others: Others, *, now: datetime
) -> Sequence[Cause]:
    """Offers that a write puts in and that count as unknown at once, or would never grow old.

    What stands in the book already is left alone: prices grow old without anybody's doing, and a
    book can be mended offer by offer.
    """
    del others
    book = PriceBook.model_validate({"spec": obj["spec"]}).spec
    before = (old or {}).get("spec") or {}
    same_age = before.get("maxAge") == obj["spec"].get("maxAge")
    known = before.get("offers") or () if same_age else ()
    causes = []
    for index, offer in enumerate(book.offers):
        if offer.as_of is None or obj["spec"]["offers"][index] in known:
            continue
        where, age = f"spec.offers[{index}].asOf", now - offer.as_of
        if age > book.max_age:
            why = (
                f"the price is {duration_text(timedelta(seconds=age // timedelta(seconds=1)))} "
                f"old, and one older than {duration_text(book.max_age)} (spec.maxAge) counts as "
                "unknown; ask for it anew"
            )
            causes.append(fault(where, why))
        elif -age > _SKEW:
            causes.append(fault(where, "lies in the future: such a price would not grow old"))
    return causes


def placement(new: Placement, old: Placement | None) -> Sequence[Cause]:
    if old is not None and old.spec.workload != new.spec.workload:
        return (fault("spec.workload", "a Placement stays with its workload; it cannot change"),)
    return ()


def selector_faults(selector: Selector, where: str) -> Iterator[Cause]:
    """Each requirement by itself: the field of the one that is wrong."""
    nothing = Selector()
    parts = [
        (f"{where}.matchLabels[{key}]", nothing.model_copy(update={"match_labels": {key: value}}))
        for key, value in selector.match_labels.items()
    ]
    parts += [
        (
            f"{where}.matchExpressions[{index}]",
            nothing.model_copy(update={"match_expressions": (each,)}),
        )
        for index, each in enumerate(selector.match_expressions)
    ]
    for field, part in parts:
        try:
            part.compiled()
        except BadRequest as error:
            yield fault(field, error.message)


def _toleration(toleration: Toleration, where: str) -> Iterator[Cause]:
    if not toleration.key and toleration.operator != "Exists":
        yield fault(
            f"{where}.key", "must be given, or operator: Exists, which then tolerates every taint"
        )
    if toleration.operator == "Exists" and toleration.value:
        yield fault(f"{where}.value", "must be empty with operator Exists: the key alone counts")


def _label_key(key: str, where: str, *, needed: bool = False) -> Iterator[Cause]:
    if not key:
        if needed:
            yield fault(where, "may not be empty")
        return
    for problem in label_key_problems(key):
        yield fault(where, f'"{key}" is no label key: {problem}')
