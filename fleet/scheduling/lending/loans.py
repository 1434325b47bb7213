"""A loan, and what is decided about it.

A loan is that part of one gang's charge which its own quota does not cover. Its start and term
stand beside the charge, at the work itself, so they are there again after a restart. The gang runs
or ends as a whole. Next step: `desk` decides, `fleet.dispatch` acts and writes them down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from policies import LENDING_POLICY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.scheduling.placer import Item, Placed
    from fleet.scheduling.quota.tree import Key

KIND: Final = LENDING_POLICY.name


def mark_of(policy: str) -> str:
    """For whom a run leaves whose loan goes back by that policy."""
    return f"{KIND}/{policy}"


@dataclass(frozen=True, slots=True)
class Loan:
    uid: str
    """Of the work that has it."""
    policy: str
    donor: str
    to: str
    """The quota node of the work."""
    amounts: Mapping[Key, int]
    since_s: float
    until_s: float
    """The end of the term."""
    notice_s: float
    """How long the work has to save what it did: as promised at the start, whatever the policy says
    by the time it is called back."""
    renewals: int = 0
    recalled_s: float | None = None
    ends_s: float | None = None
    """When its notice is over, once it was called back: the work ends then at the latest."""
    ending: bool = False
    """Its notice is over, and the work was told to end."""
    why: str = ""
    """Why it was called back."""

    @property
    def mark(self) -> str:
        return mark_of(self.policy)

    @property
    def recalled(self) -> bool:
        return self.ends_s is not None

    @property
    def due_s(self) -> float:
        """When its term has to be renewed, or the notice given."""
        return self.until_s - self.notice_s

    def is_expired(self, now: float) -> bool:
        """Whether its first term is over, but for the notice: what goes on is at the donor's
        pleasure.
        """
        return self.renewals > 0 or now >= self.due_s


@dataclass(frozen=True, slots=True)
class Lend:
    """Start the work here, on loan."""

    item: Item
    placed: Placed
    requests: Mapping[Key, int]
    loan: Loan

    @property
    def uid(self) -> str:
        return self.loan.uid


@dataclass(frozen=True, slots=True)
class Renew:
    loan: Loan

    @property
    def uid(self) -> str:
        return self.loan.uid


@dataclass(frozen=True, slots=True)
class Recall:
    """Tell the work to save what it has: it ends at `loan.ends_s`."""

    loan: Loan

    @property
    def why(self) -> str:
        return self.loan.why

    @property
    def uid(self) -> str:
        return self.loan.uid


@dataclass(frozen=True, slots=True)
class Return:
    """The notice is over: end the work, by the platform. It waits again where it stood."""

    loan: Loan

    @property
    def uid(self) -> str:
        return self.loan.uid


@dataclass(frozen=True, slots=True)
class Settle:
    """The borrower's own quota covers the work, which goes on; a recall is taken back."""

    loan: Loan
    covered: bool = True
    """False: no policy lends for the donor any more, which lends what it had on loan as any quota
    does."""

    @property
    def uid(self) -> str:
        return self.loan.uid


LoanDecision = Lend | Renew | Recall | Return | Settle
