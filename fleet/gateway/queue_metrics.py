"""What the queue counts: who waits and why, what was decided, how long that took."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

WAITING = Gauge(
    "fleet_queue_waiting",
    "Workloads that wait, by quota and by why.",
    ["quota", "reason"],
)
ADMITTED = Counter("fleet_queue_admitted_total", "Workloads that were given a place.")
PREEMPTED = Counter("fleet_queue_preempted_total", "Workloads that were ended for others.")
ROUND_S = Histogram(
    "fleet_queue_round_duration_seconds",
    "Deciding about all that wait, once.",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
)
USED = Gauge(
    "fleet_quota_used",
    "In use by admitted work, in the resource's own unit.",
    ["quota", "resource", "accelerator"],
)
LOANS = Gauge(
    "fleet_loans",
    "Workloads that run on loan, by policy and by quota; recalled: those that were given notice.",
    ["policy", "donor", "borrower", "recalled"],
)
LENT = Gauge(
    "fleet_loans_lent",
    "On loan, in the resource's own unit.",
    ["donor", "resource", "accelerator"],
)
KEPT = Gauge(
    "fleet_loans_floor",
    "What a donor keeps of what it is guaranteed, in the resource's own unit.",
    ["donor", "resource", "accelerator"],
)
LOANS_MADE = Counter("fleet_loans_made_total", "Loans that were made.")
LOANS_RENEWED = Counter("fleet_loans_renewed_total", "Terms of loans that were renewed.")
LOANS_RECALLED = Counter("fleet_loans_recalled_total", "Loans that were called back.")
LOANS_RETURNED = Counter(
    "fleet_loans_returned_total", "Workloads that were ended when their notice was over."
)
LOANS_SETTLED = Counter(
    "fleet_loans_settled_total", "Loans that the borrower's own quota came to cover."
)
OVERCOMMITTED = Gauge(
    "fleet_quota_overcommitted",
    "In use beyond the limit.",
    ["quota", "resource", "accelerator"],
)
UNREADABLE = Gauge(
    "fleet_policies_unreadable",
    "Policies that are stored in a form that no write would let in.",
    ["kind", "namespace", "name"],
)
