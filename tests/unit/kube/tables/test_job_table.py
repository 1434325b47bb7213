"""STATUS of Jobs: upstream's word, and for the fleet's Jobs what they wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def job(*conditions: dict[str, str], **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "train"}, "status": {"conditions": list(conditions), **status}}


def so(kind: str, status: str = "True", **more: str) -> dict[str, str]:
    return {"type": kind, "status": status, **more}


def placed(status: str, reason: str) -> dict[str, str]:
    return so("fleet.dev/Placed", status, reason=reason)


@pytest.mark.parametrize(
    ("obj", "shown"),
    [
        (job(), "Running"),
        (job(placed("True", "Running")), "Running"),
        (job(placed("True", "Committed")), "Running"),
        (job(placed("Unknown", "NoRoom")), "Running"),
        (job(placed("False", "Waiting")), "Queued"),
        (job(placed("False", "NoRoom")), "Queued"),
        (job(placed("False", "Invalid"), failed=2), "Queued"),
        (job(placed("False", "QuotaHeld")), "Holding"),
        (job(placed("False", "Holding"), active=4), "Holding"),
        (job(placed("False", "LeaseOver"), active=4), "Lost"),
        (job(placed("False", "NoRoom"), succeeded=1), "Lost"),
        (job(placed("False", "Suspended"), active=4), "Suspended"),
        (job(placed("False", "NoRoom"), so("Suspended")), "Suspended"),
        (job(placed("False", "Failed"), so("FailureTarget")), "FailureTarget"),
        (job(placed("False", "Failed"), so("FailureTarget"), so("Failed")), "Failed"),
        (job(placed("True", "Succeeded"), so("Complete")), "Complete"),
    ],
)
def test_a_job_without_its_place_is_not_said_to_run(
    cells: Callable[..., list[Any]], obj: dict[str, Any], shown: str
) -> None:
    assert cells("batch", "jobs", obj)[1] == shown


def test_one_that_is_deleted_while_it_waits_is_terminating(
    cells: Callable[..., list[Any]], ago: Callable[[float], str]
) -> None:
    obj = job(placed("False", "NoRoom"))
    obj["metadata"]["deletionTimestamp"] = ago(3)
    assert cells("batch", "jobs", obj)[1] == "Terminating"
