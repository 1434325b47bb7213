"""A loan as it stands in the Placement of the work that has it, and in words.

What is written is read back as the same loan, so a gateway that is made anew goes on with it. Times
stand there in whole seconds: beginnings are rounded down and ends up, so that nobody is given less
than was promised. Next step: `fleet.gateway.lending` puts it into the store.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

from fleet.scheduling.lending.loans import KIND, Loan
from fleet.scheduling.quota.tree import Key
from fleet.scheduling.requests import amount, quantity_text
from policies.scalars import duration_text, parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]


def written(loan: Loan) -> Object:
    """`status.loan` of a Placement."""
    found: Object = {
        "policy": loan.policy,
        "donor": loan.donor,
        "to": loan.to,
        "resources": amounts_written(loan.amounts),
        "since": _text(int(loan.since_s)),
        "until": _text(ceil(loan.until_s)),
        "notice": duration_text(timedelta(seconds=loan.notice_s)),
    }
    if loan.renewals:
        found["renewals"] = loan.renewals
    if loan.recalled_s is not None and loan.ends_s is not None:
        found |= {"recalledAt": _text(int(loan.recalled_s)), "endsAt": _text(ceil(loan.ends_s))}
        found["why"] = loan.why
    return found


def loan_of(status: Mapping[str, Any], uid: str) -> Loan | None:
    """The loan that the Placement of a workload tells of; None where it has none."""
    told: Object | None = status.get("loan")
    if told is None:
        return None
    return Loan(
        uid=uid,
        policy=told["policy"],
        donor=told["donor"],
        to=told["to"],
        amounts={
            Key(each["name"], each.get("accelerator", "")): amount(each["name"], each["amount"])
            for each in told["resources"]
        },
        since_s=_seconds(told["since"]),
        until_s=_seconds(told["until"]),
        notice_s=parse_duration(told["notice"]).total_seconds(),
        renewals=int(told.get("renewals", 0)),
        recalled_s=_seconds(told["recalledAt"]) if "recalledAt" in told else None,
        ends_s=_seconds(told["endsAt"]) if "endsAt" in told else None,
        ending=_is_ending(status),
        why=told.get("why", ""),
    )


def _is_ending(status: Mapping[str, Any]) -> bool:
    """Whether nothing more can be said to the work: it was told to end, or is only to be gone."""
    over = status.get("phase") in ("Succeeded", "Failed") or not status.get("shards")
    return over or "preemptedFor" in status


def returned_to(loan: Loan, *, uid: str) -> Object:
    """`status.preemptedFor` of work that ends because its notice is over; `uid` is the policy's."""
    return {
        "kind": KIND,
        "namespace": "",
        "name": loan.policy,
        "uid": uid,
        "why": f"{recalled_words(loan)}; its notice is over",
    }


def amounts_written(amounts: Mapping[Key, int]) -> list[Object]:
    """Amounts by resource and kind, as objects have them."""
    return [
        {
            "name": key.resource,
            **({"accelerator": key.accelerator} if key.accelerator else {}),
            "amount": quantity_text(key.resource, value),
        }
        for key, value in sorted(amounts.items())
    ]


def words(loan: Loan) -> str:
    """`8 nvidia.com/gpu (h200) of serving, on loan until 2026-11-29T18:00:00Z`."""
    return f"{_amounts(loan)} of {loan.donor}, on loan until {_text(ceil(loan.until_s))}"


def recalled_words(loan: Loan) -> str:
    """What is called back, when and why."""
    at = _text(int(loan.recalled_s or 0))
    return f"the loan of {_amounts(loan)} of {loan.donor} was called back at {at}: {loan.why}"


def ends_words(loan: Loan) -> str:
    """The notice: what was called back, and until when work is to be saved."""
    ends = _text(ceil(loan.ends_s or 0))
    return f"{recalled_words(loan)}; save what is to be kept, it is ended at {ends}"


def _amounts(loan: Loan) -> str:
    return ", ".join(
        f"{quantity_text(key.resource, value)} {key.resource}"
        + (f" ({key.accelerator})" if key.accelerator else "")
        for key, value in sorted(loan.amounts.items())
    )


def _text(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
