"""The kinds there are. Adding one is a file with its model, a check, and an entry here."""

from __future__ import annotations

from typing import Any, Final

from policies import checks, quota_checks, quota_relations
from policies.cluster import Cluster
from policies.fleet_quota import FleetQuota
from policies.kind import AGE, Kind, column
from policies.lending_policy import LendingPolicy
from policies.placement import Placement
from policies.placement_policy import PlacementPolicy
from policies.price_book import PriceBook

CLUSTER: Final = Kind(
    Cluster,
    plural="clusters",
    namespaced=False,
    check=checks.cluster,
    columns=(
        column("Ready", ".status.summary.ready", "Whether it takes work."),
        column("API", ".status.summary.api", "Whether its API answers."),
        column("Data", ".status.summary.data", "Whether its workloads serve."),
        column("Fresh", ".status.summary.fresh", "Age of what is known of it."),
        column("Version", ".status.version", "Version of its API server."),
        column("Nodes", ".status.summary.nodes", "Number of nodes.", type="integer"),
        column("Accelerators", ".status.summary.accelerators", "Kinds of accelerator."),
        column("Free", ".status.summary.free", "Unused accelerators."),
        column("Price/H", ".status.summary.price", "Price of an accelerator hour."),
        column("Plane", ".spec.networks.parameterPlane", "Its parameter plane."),
        AGE,
    ),
)
PLACEMENT_POLICY: Final = Kind(
    PlacementPolicy,
    plural="placementpolicies",
    namespaced=True,
    short_names=("pp",),
    check=checks.placement_policy,
    columns=(
        column("Mode", ".spec.mode", "One cluster, or split among several."),
        column("Network", ".spec.gang.network", "What must connect the pods."),
        column("Unit", ".spec.gang.unit", "Pods that stay together.", type="integer"),
        column("Tiers", ".spec.clusters.tiers[*].name", "Names of the tiers.", priority=1),
        column("Max-Price", ".spec.objective.maxPrice", "Ceiling per hour."),
        column("Fencing", ".spec.failover.fencing", "What ends a lost copy.", priority=1),
        AGE,
    ),
)
PRICE_BOOK: Final = Kind(
    PriceBook,
    plural="pricebooks",
    namespaced=False,
    check=checks.price_book,
    relation=checks.price_ages,
    columns=(
        column("Currency", ".spec.currency", "Currency of its prices."),
        column("Max-Age", ".spec.maxAge", "When a price counts as unknown."),
        AGE,
    ),
)
FLEET_QUOTA: Final = Kind(
    FleetQuota,
    plural="fleetquotas",
    namespaced=False,
    short_names=("fq",),
    check=quota_checks.fleet_quota,
    relation=quota_relations.fleet_quota,
    in_use=quota_relations.quota_in_use,
    columns=(
        column("Parent", ".spec.parent", "The quota above it."),
        column("Guaranteed", ".status.summary.guaranteed", "What it can always have."),
        column("Limit", ".status.summary.limit", "Most that it may use."),
        column("Used", ".status.summary.used", "In use."),
        column("Borrowed", ".status.summary.borrowed", "In use above what is guaranteed."),
        column("Lent", ".status.summary.lent", "Guaranteed, and used by others."),
        column("Waiting", ".status.waiting", "Workloads that wait.", type="integer"),
        column("Spent", ".status.summary.spent", "Money spent this month.", priority=1),
        column("Budget", ".spec.budget.perMonth", "Ceiling per month.", priority=1),
        AGE,
    ),
)
LENDING_POLICY: Final = Kind(
    LendingPolicy,
    plural="lendingpolicies",
    namespaced=False,
    short_names=("lp",),
    check=quota_checks.lending_policy,
    relation=quota_relations.lending_policy,
    columns=(
        column("From", ".spec.from.quota", "The quota that lends."),
        column("To", ".spec.to[0].quota", "The quota that may borrow first."),
        column("Term", ".spec.term.max", "How long a loan runs."),
        column("Notice", ".spec.term.notice", "Time to save work when it is called back."),
        column("Lent", ".status.lent", "What is on loan."),
        column("Next-End", ".status.nextEnd", "When the next loan ends or is renewed.", priority=1),
        AGE,
    ),
)
PLACEMENT: Final = Kind(
    Placement,
    plural="placements",
    namespaced=True,
    check=checks.placement,
    written_by_users=False,
    selectable_fields=("spec.workload.uid",),
    columns=(
        column("Workload", ".spec.workload.name", "What is placed."),
        column("Phase", ".status.phase", "How far it is."),
        column("Clusters", ".status.usedClusters", "Where it is."),
        column("Plane", ".status.plane", "What connects its clusters."),
        column("Generation", ".status.generation", "Plans so far.", type="integer"),
        column("Policy", ".spec.policy.name", "The policy applied.", priority=1),
        column("Why", ".status.message", "Why, or what it waits for.", priority=1),
        AGE,
    ),
)

KINDS: Final[tuple[Kind[Any], ...]] = (
    CLUSTER, PLACEMENT_POLICY, FLEET_QUOTA, LENDING_POLICY, PRICE_BOOK, PLACEMENT,
)  # fmt: skip


def kinds() -> tuple[Kind[Any], ...]:
    """Every kind of `fleet.dev/v1alpha1`, in the order of the reference."""
    return KINDS
