"""Kind PlacementPolicy: which workloads may go to which clusters, in which form, at what price."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Literal

from policies.base import LATER, REQUIRED, Items, Model, by_key, setting
from policies.parts import Budget, Condition, Selector, Toleration
from policies.scalars import MOST_PODS, Duration, PerHour, ResourceAmount, Share

Mode = Literal["One", "Split"]
Network = Literal["ParameterPlane", "DataPlane", "None"]
WhenTooDear = Literal["Queue", "Refuse"]

LEAST_LEASE: Final = timedelta(seconds=5)
"""A lease is renewed when a third of it is over, and a hold stands while all others are made."""


class Tier(Model):
    """Clusters of equal preference."""

    name: str = setting("", "Name by which roles refer to the tier.")
    selector: Selector = setting({}, "The clusters in it, by their labels.")
    after: Duration = setting(
        "0s", "How long a workload waits for the tier before until this one is tried as well."
    )


class Clusters(Model):
    """Which clusters come into question, and in which order."""

    selector: Selector = setting({}, "Only these, by their labels; empty means all.")
    tolerations: Items[Toleration] = setting((), "Taints of clusters that do not keep it away.")
    tiers: Items[Tier] = setting(
        (),
        "Tried in order: clusters of a later tier only when the earlier ones do not suffice; a "
        "cluster in no tier is not used.",
    )
    return_after: Duration | None = setting(
        None,
        "How long an earlier tier must have had room for all of a running workload until that is "
        "ended, and begins anew there; absent means that it runs where it is until it is done. "
        "Bare Pods stay.",
    )


class RoleRule(Model):
    """What differs for one role of the workload."""

    name: str = setting(REQUIRED, "Name of the role, e.g. worker.")
    network: Network | None = setting(None, "Network between its pods; absent as for the gang.")
    unit: int | None = setting(
        None, "Pods of the role that stay together; absent as for the gang.", ge=1, le=MOST_PODS
    )
    min: int | None = setting(
        None,
        "Fewest pods of the role to run with; absent as for the gang.",
        ge=1,
        le=MOST_PODS,
    )
    tiers: Items[str] = setting((), "Only these tiers, by name; empty means all.")


class Gang(Model):
    """Which pods belong together, and what must connect them."""

    network: Network | None = setting(
        None,
        "Network that must be common to all clusters used: ParameterPlane where mode is Split, "
        "else None.",
    )
    plane: str = setting(
        "", "Name of the one network of that kind that will do; empty means any, but one for all."
    )
    max_clusters: int = setting(2, "Most clusters that mode Split may use.", ge=1, le=64)
    unit: int = setting(
        1,
        "Pods that stay together in one block, e.g. one tensor-parallel group.",
        ge=1,
        le=MOST_PODS,
    )
    min: int | None = setting(
        None,
        "Fewest pods that an elastic workload runs with, in whole units, where not all find room; "
        "absent means all or none. For Jobs whose pods share the work among those that run: "
        "Indexed with as many completions as parallelism, and work queues; others run with all.",
        ge=1,
        le=MOST_PODS,
    )
    index_mode: Literal["Global", "Offset"] = setting(
        "Global",
        "What a split Indexed Job asks of clusters: Global takes only those that number its pods "
        "over all clusters; with Offset the program adds FLEET_INDEX_OFFSET itself where they do "
        "not.",
    )
    roles: Items[RoleRule] = setting(
        (), "Exceptions for single roles.", json_schema_extra=by_key("name")
    )


class Checkpoint(Model):
    """How much work an interruption costs."""

    every: Duration = setting(
        "30m",
        "How often the workload saves its state: the most that counts as lost where nobody says by "
        "the annotation fleet.dev/checkpointed-at when that was.",
    )
    restart: Duration = setting(
        "5m", "How long it takes to go on from there; an interruption costs that much besides."
    )


class Objective(Model):
    """What a placement may cost, and when it should be done."""

    max_price: PerHour | None = setting(
        None,
        "Ceiling for the whole workload, e.g. 120 USD/h; clusters without a known price are then "
        "left out.",
    )
    when_too_dear: WhenTooDear = setting(
        "Queue",
        "What becomes of a workload that finds room only above the ceiling: it waits for lower "
        "prices or other room, or is refused at once. A part that has to be placed anew waits.",
    )
    budget: Budget | None = setting(
        None,
        "What all workloads under this policy may cost together; absent means only what their "
        "quota may.",
    )
    spot: Literal["Never", "Allowed", "Preferred"] = setting(
        "Never",
        "Whether spot offers count; Preferred takes them where they cost no more than others, "
        "interruptions included.",
    )
    checkpoint: Checkpoint = setting(
        {},
        "What an interruption costs: of spot nodes where offers are compared, of evictions, and in "
        "simulations.",
    )
    run_time: Duration | None = setting(
        None,
        "Expected run time of workloads that have neither the annotation fleet.dev/run-time nor "
        "activeDeadlineSeconds; absent means that it is not known.",
    )
    deadline: Duration | None = setting(
        None,
        "How long after it began to wait it should be done. Where its run time is known, later "
        "tiers are tried in time for that, and at the last moment to start it goes before others "
        "of its priority in its quota.",
    )


class DataSet(Model):
    """Data that the workload reads, and where copies of it are."""

    name: str = setting("", "Name of it, for people.")
    at: Items[str] = setting(
        REQUIRED, "Networks that have a copy (networks.dataPlane of their clusters)."
    )
    size: ResourceAmount = setting(
        REQUIRED, "How much is read from there by a cluster of another network, e.g. 500Gi."
    )


class Failover(Model):
    """What happens when a cluster is lost."""

    tolerate: Duration = setting(
        "5m",
        "How long a cluster may be silent until its share is placed anew: the lease, at least 5s. "
        "Pods may be without a node there for as long; then it is placed anew if there is another "
        "place.",
    )
    fencing: Literal["Confirmed", "Pod", "Controller"] = setting(
        "Controller",
        "What must have ended the lost copy before: proof, a guard in the pod, or the lease held "
        "in the cluster.",
    )
    never_below: Share = setting("0%", f"Share of the pods that must always run. {LATER}")
    warm_replacement: bool = setting(
        False, f"Whether the replacement must run before the old copy is stopped. {LATER}"
    )


class PlacementPolicySpec(Model):
    """The rules for the workloads it is for."""

    workloads: Selector | None = setting(
        None,
        "Workloads of this namespace it is for, by their labels; absent means only those that "
        "name it by the label fleet.dev/policy.",
    )
    clusters: Clusters = setting({}, "Where they may go.")
    mode: Mode = setting(
        "One", "One keeps a workload in one cluster, Split may divide it among several."
    )
    gang: Gang = setting({}, "Which pods belong together.")
    objective: Objective = setting({}, "What it may cost, and when it should be done.")
    data: Items[DataSet] = setting(
        (), "Data it reads; clusters that have to fetch it cost what PriceBooks say."
    )
    failover: Failover = setting({}, "What happens when a cluster is lost.")

    @property
    def network(self) -> Network:
        """What must connect the pods, the mode considered."""
        if self.gang.network is not None:
            return self.gang.network
        return "ParameterPlane" if self.mode == "Split" else "None"


class PlacementPolicyStatus(Model):
    """Whether it is acted on."""

    conditions: Items[Condition] = setting(
        (), "Valid (it can be read); absent where it always could be."
    )


class PlacementPolicy(Model):
    """Says which clusters workloads may go to, in which order, whole or split."""

    spec: PlacementPolicySpec = setting({}, "The rules.")
    status: PlacementPolicyStatus | None = setting(None, "Whether it is acted on.")
