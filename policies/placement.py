"""Kind Placement: the recorded decision where a workload runs, and why there.

Written by the fleet alone. `fleet.scheduling` decides what stands in it, `fleet.dispatch` moves it
through its states.
"""

from __future__ import annotations

from typing import Final, Literal

from policies.base import REQUIRED, Items, Model, by_key, setting
from policies.parts import Condition
from policies.scalars import Amount, Duration, Quantity, ResourceAmount, Time

Phase = Literal[
    "Queued",
    "QuotaHeld",
    "Holding",
    "Committed",
    "Running",
    "Succeeded",
    "Failed",
    "Evicted",
    "Lost",
]
ShardState = Literal[
    "Planned", "Holding", "Held", "Committed", "Running", "Succeeded", "Failed", "Evicted", "Lost"
]
Verdict = Literal["Used", "Unused", "Refused"]
Fencing = Literal["Confirmed", "Pod", "Controller"]


class WorkloadReference(Model):
    """The workload that was placed."""

    api_version: str = setting(REQUIRED, "API version of its kind.")
    kind: str = setting(REQUIRED, "Its kind.")
    name: str = setting(REQUIRED, "Its name.")
    uid: str = setting("", "Its UID: a workload made anew under the same name is another one.")


class PolicyReference(Model):
    """The policy that was applied."""

    name: str = setting(REQUIRED, "Its name.")
    namespace: str = setting(REQUIRED, "Its namespace.")


class PlacementSpec(Model):
    """What is placed."""

    workload: WorkloadReference = setting(REQUIRED, "The workload.")
    policy: PolicyReference | None = setting(None, "The policy that was applied.")


class Role(Model):
    """Pods that are alike."""

    name: str = setting(REQUIRED, "Name of the role.")
    pods: int = setting(REQUIRED, "How many pods it has.")
    min: int | None = setting(
        None, "Fewest of them that it runs with; absent where it is all or none."
    )
    unit: int = setting(1, "Pods that stay together.")
    network: str = setting("None", "Network that connects them.")
    request: dict[str, Quantity] = setting({}, "What one pod requests.")


class Interval(Model):
    """The pods of one role that a shard has: ranks `first` to `first + count - 1`."""

    name: str = setting(REQUIRED, "Name of the role.")
    first: int = setting(REQUIRED, "First rank within the role.")
    count: int = setting(REQUIRED, "Number of ranks.")


class Shard(Model):
    """The part of a workload that one cluster has."""

    cluster: str = setting(REQUIRED, "Name of the cluster.")
    index: int = setting(0, "Number of the shard; shard 0 has rank 0.")
    generation: int = setting(0, "The generation of the plan that put it there.")
    roles: Items[Interval] = setting((), "Its ranks, by role.", json_schema_extra=by_key("name"))
    blocks: Items[str] = setting((), "The blocks chosen for it.")
    tier: int = setting(1, "Tier of the policy that its cluster is in.")
    billing: str = setting("", "How its nodes are paid for.")
    per_hour: Amount | None = setting(None, "What it costs per hour; absent where not known.")
    data_cost: Amount = setting("0", "What it costs to bring the workload's data there, once.")
    priced_at: Time | None = setting(
        None, "Since when it costs that; absent means from its beginning."
    )
    state: ShardState = setting("Planned", "How far it is.")
    reason: str = setting("", "One word for programs: why it is in this state.")
    message: str = setting("", "The same for people.")
    held_at: Time | None = setting(None, "When all its pods were bound to nodes.")
    hold_expires_at: Time | None = setting(None, "When the hold lapses by itself.")
    committed_at: Time | None = setting(None, "When its gate was opened.")
    started_at: Time | None = setting(None, "When all its pods ran.")
    finished_at: Time | None = setting(None, "When it ended.")
    lost_at: Time | None = setting(None, "When its cluster was last heard of.")
    leased_until: Time | None = setting(
        None, "While its cluster is silent: when its lease there is over at the latest."
    )
    refused_at: Time | None = setting(
        None, "While its cluster refuses what it needs since it was committed: since when."
    )
    amiss_at: Time | None = setting(
        None, "While pods of it have no node, are not made or do not start: since when."
    )
    amiss_pods: int = setting(0, "How many of its pods that are, for its `reason`.")
    cluster_uid: str = setting(
        "", "Which cluster it is in, whatever is called so later: the UID of its kube-system."
    )


class Debt(Model):
    """A shard that is to be gone from its cluster, and is not known to be."""

    cluster: str = setting(REQUIRED, "Name of the cluster.")
    shard: str = setting(REQUIRED, "Name of the shard's object there.")
    generation: int = setting(0, "The generation of the plan that put it there.")
    ranks: int = setting(0, "How many ranks it has; 0 where that is not known.")
    reason: str = setting("", "One word for programs: why it has to go.")
    fenced_at: Time | None = setting(
        None, "From when on it is ended there by its own lease; absent: only once seen gone."
    )
    cluster_uid: str = setting("", "Which cluster it is in: the UID of its kube-system.")


class Preemption(Model):
    """What a workload was ended for: other work, the LendingPolicy that took its loan back, or the
    PlacementPolicy by which it goes back to an earlier tier."""

    kind: str = setting(
        REQUIRED, "Kind of the other workload, or LendingPolicy, or PlacementPolicy."
    )
    namespace: str = setting(REQUIRED, "Its namespace; empty for a LendingPolicy.")
    name: str = setting(REQUIRED, "Its name.")
    uid: str = setting(REQUIRED, "Its UID; empty where it is gone.")
    why: str = setting("", "What the other waited for, or why the loan, or it, went back.")


class LoanAmount(Model):
    """Part of a loan."""

    name: str = setting(REQUIRED, "Name of the resource.")
    accelerator: str = setting("", "Kind of accelerator.")
    amount: ResourceAmount = setting(REQUIRED, "How much of it.")


class Loan(Model):
    """What a workload has of a quota that is not its own, and until when."""

    policy: str = setting(REQUIRED, "The LendingPolicy that it was lent by.")
    donor: str = setting(REQUIRED, "The FleetQuota that lends.")
    to: str = setting(REQUIRED, "The FleetQuota that borrows.")
    resources: Items[LoanAmount] = setting(
        (), "What is on loan: what its own quota did not cover of what it asks for."
    )
    since: Time = setting(REQUIRED, "When it was lent.")
    until: Time = setting(REQUIRED, "When the term ends.")
    notice: Duration = setting(
        "0s", "Time between a recall and the end, as promised when it was lent."
    )
    renewals: int = setting(0, "How often the term was renewed.")
    recalled_at: Time | None = setting(None, "When it was called back.")
    ends_at: Time | None = setting(
        None, "When the notice is over: a workload that runs still is ended then."
    )
    why: str = setting("", "Why it was called back.")


class ClusterVerdict(Model):
    """Why a cluster was taken or not."""

    name: str = setting(REQUIRED, "Name of the cluster.")
    verdict: Verdict = setting(
        REQUIRED, "Used, Unused (it would do, others are preferred) or Refused (it will not do)."
    )
    reason: str = setting("", "One word for programs.")
    message: str = setting("", "The same for people.")
    tier: int = setting(0, "Tier of the policy that it is in; 0 means none.")
    plane: str = setting("", "Its parameter plane.")
    free_pods: int | None = setting(
        None, "Pods of the workload that it could take, in whole units; absent where not known."
    )
    per_hour: Amount | None = setting(
        None,
        "What the whole workload would cost there per hour, interruptions and moved data counted; "
        "absent where not known.",
    )


class Cost(Model):
    """What the workload costs where it is."""

    currency: str = setting("", "Currency of the amounts.")
    per_hour: Amount | None = setting(None, "Per hour; absent while a part is not known.")
    unknown: Items[str] = setting(
        (), "Clusters used whose price, or that of data moved there, is not known."
    )
    next_best: str = setting("", "The next best single cluster.")
    next_best_per_hour: Amount | None = setting(
        None, "What it would cost there per hour, interruptions and moved data counted."
    )


class Spent(Model):
    """What parts of the workload that have ended cost in one cluster and month."""

    month: str = setting(REQUIRED, "The month (UTC), e.g. 2026-11.")
    cluster: str = setting(REQUIRED, "Name of the cluster.")
    currency: str = setting("", "Currency of the amount; empty where no price was known.")
    amount: Amount = setting("0", "What they cost.")
    unpriced: Duration = setting("0s", "How long they ran at a price that was not known.")


class RestartBudget(Model):
    """Which failures of a gang's pods are held against its Job's `backoffLimit`."""

    counted: int = setting(0, "Failures looked at so far.")
    charged: int = setting(0, "Those of them that count: nothing had been taken away then.")
    fresh: int = setting(0, "Those that count since the gang was last whole.")
    free: int | None = setting(
        None,
        "How many more may fail for what was taken away; absent while the gang is whole.",
    )


class Isolation(Model):
    """How it is kept apart from others, by the LendingPolicy that speaks of its quota."""

    class_: str = setting(
        REQUIRED, "Its lending class: only work of the same one is on its nodes.", alias="class"
    )
    node: Literal["Shared", "Exclusive"] = setting(
        "Shared", "Whether its nodes may run work of others."
    )
    network_policy: bool = setting(
        False, "Whether a NetworkPolicy lets its pods reach each other and nobody else."
    )


class PlacementStatus(Model):
    """The decision, and how far it is carried out."""

    generation: int = setting(0, "Counts the plans; a commit names the one it means.")
    phase: Phase = setting("Queued", "How far it is.")
    phase_since: Time | None = setting(None, "Since when it is that far.")
    reason: str = setting("", "One word for programs: why it is that far.")
    message: str = setting("", "Why it is there, or what it waits for.")
    mode: str = setting("", "Whether it is in one cluster or split.")
    plane: str = setting("", "The network that connects its clusters.")
    priority: str = setting("", "Its priority class.")
    queued_at: Time | None = setting(None, "When it began to wait.")
    arrival: int = setting(
        0,
        "The revision at which it was seen first: of what began to wait in the same second, the "
        "lowest comes first.",
    )
    roles: Items[Role] = setting(
        (), "What was asked for, by role.", json_schema_extra=by_key("name")
    )
    shards: Items[Shard] = setting(
        (), "Its parts, by cluster.", json_schema_extra=by_key("cluster")
    )
    ranks: str = setting(
        "", "How many run, of how many that were asked for; absent where it is all or none."
    )
    ranks_generation: int = setting(
        0, "The generation that those that run are told of; absent where it is all or none."
    )
    owed: Items[Debt] = setting(
        (),
        "Shards that are to be gone and are not known to be.",
        json_schema_extra=by_key("cluster", "shard"),
    )
    lease: Duration = setting("5m", "How long a shard runs on without hearing from the fleet.")
    fencing: Fencing = setting("Controller", "What must have ended a lost shard.")
    index_mode: Literal["Global", "Offset"] = setting(
        "Global", "Whether pods have to be numbered over all clusters."
    )
    failures: int = setting(
        0, "Failed pods of shards that are gone; they count against the restart budget."
    )
    budget: RestartBudget = setting({}, "The restart budget, of a Job whose ranks run together.")
    clusters: Items[ClusterVerdict] = setting(
        (),
        "Every cluster of the fleet, and why it was taken or not.",
        json_schema_extra=by_key("name"),
    )
    why_several: str = setting("", "Why more than one cluster was needed.")
    over_budget: str = setting(
        "", "Which budgets it goes above, that let such work run with a warning."
    )
    used_clusters: str = setting("", "The clusters used, for the column.")
    cost: Cost = setting({}, "What it costs.")
    spent: Items[Spent] = setting((), "What parts that have ended cost, by month and cluster.")
    quota: str = setting("", "The FleetQuota that it is counted in.")
    loan: Loan | None = setting(
        None, "What it has on loan; absent where its own quota covers all of it."
    )
    isolation: Isolation | None = setting(
        None, "How it is kept apart from others; absent where no policy asks for that."
    )
    preempted_for: Preemption | None = setting(
        None, "What it was told to end for; absent once it was placed again."
    )
    preemptions: int = setting(
        0,
        "How often it was ended for other work, gave a loan back, or went back to an earlier tier.",
    )
    run_time: Duration | None = setting(
        None, "How long it is expected to run; absent where not known."
    )
    conditions: Items[Condition] = setting(
        (), "Placed, QuotaReserved.", json_schema_extra=by_key("type")
    )


class Placement(Model):
    """Where a workload runs, and why there; written by the fleet."""

    spec: PlacementSpec = setting(REQUIRED, "What is placed.")
    status: PlacementStatus = setting({}, "The decision.")


RUN_TIME_ANNOTATION: Final = "fleet.dev/run-time"
"""On a workload: how long it is expected to run."""
CHECKPOINTED_ANNOTATION: Final = "fleet.dev/checkpointed-at"
"""On a workload, or on any of its pods: when its last checkpoint was complete."""


def name_of(kind: str, name: str) -> str:
    """The name of a workload's Placement: `job-train`. No two workloads share one, since no
    kind holds a dash."""
    return f"{kind.lower()}-{name}"
