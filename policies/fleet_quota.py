"""Kind FleetQuota: one node of the tree that shares the fleet's capacity among teams.

An object says what its node is entitled to; `policies.quota_tree` judges the nodes together and
makes plain values of them. Amounts are counted in the smallest unit of each resource: thousandths
of a CPU, whole ones of everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from policies.base import REQUIRED, Items, Model, setting
from policies.parts import Budget, Condition, Selector
from policies.scalars import MOST_PODS, Amount, Currency, Duration, ResourceAmount, Share, Time

if TYPE_CHECKING:
    from fleet.kube.quantity import Quantity

Within = Literal["Never", "LowerPriority"]
Reclaim = Literal["Never", "LowerPriority", "Any"]


class Line(Model):
    """What a node has of one resource, for one kind of accelerator."""

    name: str = setting(REQUIRED, "Name of the resource, e.g. nvidia.com/gpu or cpu.")
    accelerator: str = setting(
        "",
        "Kind of accelerator it counts (label fleet.dev/accelerator of nodes), e.g. h200, as pods "
        "ask for it by node selector or required affinity; empty counts all that no quota of the "
        "tree names, and pods that name no kind.",
    )
    guaranteed: ResourceAmount = setting(
        "0", "What the node can always have; others that borrowed it give it back."
    )
    limit: ResourceAmount | None = setting(
        None,
        "Most that the node and those below it may use, what they borrow included; absent means "
        "only the limits above it.",
    )
    lendable: ResourceAmount | None = setting(
        None,
        "Most of the guaranteed amount that others may use while it is idle; absent means all of "
        "it.",
    )


class Preemption(Model):
    """Which running work may be ended for work of this node, always as whole gangs."""

    within: Within = setting("LowerPriority", "Work of the same node.")
    reclaim: Reclaim = setting(
        "Any", "Work of other nodes that use what is guaranteed to this one: any, or lower ones."
    )
    min_run_time: Duration = setting(
        "0s", "How long work of this node runs before it may be ended for that of others."
    )
    max_reclaim_per_minute: int | None = setting(
        None,
        "Most accelerators (pods, where they have none) that this node takes back from others in a "
        "minute; absent means no bound.",
        ge=1,
        le=MOST_PODS,
    )


class FleetQuotaSpec(Model):
    """A node of the quota tree."""

    parent: str = setting(
        "", "Name of the FleetQuota above it; empty makes it the root of a tree of its own."
    )
    namespaces: Selector | None = setting(
        None,
        "Namespaces whose workloads it counts, by their labels; absent means none. Only a quota "
        "that is nobody's parent can have some.",
    )
    resources: Items[Line] = setting(
        (),
        "What it is entitled to. A resource in no line is not limited by it; of one in a line, "
        "kinds of accelerator that no line counts cannot be used.",
    )
    failover_reserve: Share = setting(
        "0%", "Share of the guaranteed amounts kept free for work whose cluster was lost."
    )
    preemption: Preemption = setting({}, "Which running work may be ended for its work.")
    budget: Budget | None = setting(
        None, "What its work, and that of all below it, may cost; absent means any cost."
    )


class Use(Model):
    """How much of one line is in use."""

    name: str = setting(REQUIRED, "Name of the resource.")
    accelerator: str = setting("", "Kind of accelerator.")
    used: ResourceAmount = setting("0", "In use by admitted work.")
    borrowed: ResourceAmount = setting("0", "Part of it above what is guaranteed.")
    lent: ResourceAmount = setting("0", "Part of what is guaranteed that others use.")
    unmanaged: ResourceAmount = setting(
        "0", "In use by work that members were given by others than the fleet."
    )
    waiting: ResourceAmount = setting("0", "Asked for by work that waits.")


class Spent(Model):
    """What was spent in a month."""

    month: str = setting(REQUIRED, "The month, e.g. 2026-11.")
    currency: Currency = setting(REQUIRED, "Currency of the amounts.")
    amount: Amount = setting("0", "Spent so far.")
    forecast: Amount = setting("0", "Expected for the whole month from what runs.")
    unknown: bool = setting(False, "Whether something ran whose price was not known.")


class TakenBack(Model):
    """What was taken back from others at one time."""

    at: Time = setting(REQUIRED, "When others were told to end for work of this node.")
    amount: int = setting(REQUIRED, "Accelerators (pods, where they have none).")


class QuotaSummary(Model):
    """What the columns of `kubectl get fleetquotas` show: amounts by accelerator, else resource."""

    guaranteed: str = setting("", "Guaranteed.")
    limit: str = setting("", "Limit.")
    used: str = setting("", "In use.")
    borrowed: str = setting("", "Borrowed.")
    lent: str = setting("", "Lent.")
    spent: str = setting("", "Spent this month.")


class FleetQuotaStatus(Model):
    """What is used of it."""

    resources: Items[Use] = setting((), "Use, by line.")
    admitted: int = setting(0, "Workloads that run or are to start.")
    waiting: int = setting(0, "Workloads that wait.")
    spent: Items[Spent] = setting((), "Money, by month and currency, latest month first.")
    taken_back: Items[TakenBack] = setting(
        (), "What it took back from others in the last minute, for maxReclaimPerMinute."
    )
    summary: QuotaSummary = setting({}, "The columns.")
    conditions: Items[Condition] = setting(
        (),
        "Valid (it and its neighbours make a sound tree), Overcommitted (more is used than it "
        "allows, which only shrinks).",
    )


class FleetQuota(Model):
    """A node of the quota tree: what a team is guaranteed, may borrow and lends."""

    spec: FleetQuotaSpec = setting({}, "What it is entitled to.")
    status: FleetQuotaStatus | None = setting(None, "What is used of it.")


def smallest(name: str, quantity: Quantity) -> int:
    """An amount of resource `name` in its smallest unit."""
    return quantity.milli_value if name == "cpu" else quantity.value
