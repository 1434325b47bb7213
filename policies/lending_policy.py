"""Kind LendingPolicy: what a quota lends while it is idle, to whom, and how it comes back.

Every loan is a lease: it ends by itself unless it is renewed, and recalling it takes no longer than
the notice.
"""

from __future__ import annotations

from typing import Literal

from policies.base import REQUIRED, Items, Model, setting
from policies.parts import Condition
from policies.scalars import Duration, ResourceAmount, Share, Time

KeepFloor = Literal["None", "SurvivesLossOfOneCluster"]
RecallStep = Literal["Expired", "CheapestCheckpoint", "LowestPriority"]


class Expected(Model):
    """What a donor is about to need of one resource."""

    name: str = setting(REQUIRED, "Name of the resource, e.g. nvidia.com/gpu.")
    accelerator: str = setting("", "Kind of accelerator.")
    amount: ResourceAmount = setting(REQUIRED, "How much.")


class Donor(Model):
    """The quota that lends, and what it never lends."""

    quota: str = setting(REQUIRED, "Name of the FleetQuota that lends.")
    keep_floor: KeepFloor = setting(
        "SurvivesLossOfOneCluster",
        "What stays with it whatever is idle: nothing, or what it needs to go on when one cluster "
        "is lost.",
    )
    keep_share: Share = setting("0%", "Share of its guaranteed amounts that it never lends.")
    expects: Items[Expected] = setting(
        (),
        "What it is about to need beyond what its work has and waits for, as whoever foresees it "
        "says. It is kept as if it waited, and called back in time if written a notice before.",
    )


class Borrower(Model):
    """A quota that may borrow."""

    quota: str = setting(REQUIRED, "Name of the FleetQuota.")


class Term(Model):
    """How long a loan runs, and how it ends."""

    max: Duration = setting("4h", "How long a loan runs before it ends or is renewed.")
    renew: bool = setting(
        True, "Whether a loan whose end comes is renewed while the donor does not need it."
    )
    notice: Duration = setting(
        "5m", "How long the borrower has to save its work once the loan is called back."
    )


class Isolation(Model):
    """What borrower and donor share of the nodes lent."""

    node: Literal["Shared", "Exclusive"] = setting(
        "Shared", "Whether a node may run work of both at a time."
    )
    network_policy: bool = setting(
        False, "Whether a NetworkPolicy comes with the work that keeps both from each other."
    )


class LendingPolicySpec(Model):
    """Who lends to whom, and on which terms."""

    from_: Donor = setting(REQUIRED, "The donor.", alias="from")
    to: Items[Borrower] = setting(REQUIRED, "Who may borrow, the first in the list first.")
    term: Term = setting({}, "How long a loan runs, and how it ends.")
    recall_order: Items[RecallStep] = setting(
        ("Expired", "CheapestCheckpoint", "LowestPriority"),
        "Which loans are called back first: those past their term, those that lose least work, "
        "those of the lowest priority.",
    )
    isolation: Isolation = setting({}, "What both share of the nodes lent.")


class Loan(Model):
    """What one workload has of one resource."""

    to: str = setting(REQUIRED, "The FleetQuota that has it.")
    workload: str = setting("", "The workload that uses it, as namespace/kind/name.")
    clusters: Items[str] = setting((), "The clusters that the workload is in.")
    name: str = setting(REQUIRED, "Name of the resource.")
    accelerator: str = setting("", "Kind of accelerator.")
    amount: ResourceAmount = setting(REQUIRED, "How much.")
    since: Time | None = setting(None, "When it was lent.")
    until: Time | None = setting(None, "When the term ends.")
    recalled_at: Time | None = setting(None, "When it was called back.")
    ends_at: Time | None = setting(None, "When the notice is over that it was given.")


class Lendable(Model):
    """What the donor is guaranteed of one resource, and what becomes of it."""

    name: str = setting(REQUIRED, "Name of the resource.")
    accelerator: str = setting("", "Kind of accelerator.")
    guaranteed: ResourceAmount = setting("0", "What it is guaranteed.")
    floor: ResourceAmount = setting("0", "What it keeps of that: its need, and the spare.")
    lendable: ResourceAmount = setting("0", "The most that may be on loan at present.")
    lent: ResourceAmount = setting("0", "What is on loan of it, by whichever policy.")


class LendingPolicyStatus(Model):
    """What is on loan."""

    loans: Items[Loan] = setting((), "The loans.")
    resources: Items[Lendable] = setting((), "What the donor keeps and could lend.")
    lent: str = setting("", "Sum of the loans, for the column.")
    next_end: Time | None = setting(
        None, "When the next of them ends or is to be renewed; absent where nothing is lent."
    )
    observed_generation: int = setting(0, "The generation of the spec that is acted on.")
    conditions: Items[Condition] = setting(
        (),
        "Valid (what it names is there), FloorKept (the donor has what it keeps).",
    )


class LendingPolicy(Model):
    """Says which quota lends idle capacity to which, for how long, and who gives back first."""

    spec: LendingPolicySpec = setting(REQUIRED, "Who lends to whom.")
    status: LendingPolicyStatus | None = setting(None, "What is on loan.")
