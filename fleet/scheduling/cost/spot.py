"""What an hour on nodes that can be taken away costs, the work that is lost with them included.

An interruption throws a workload back to its last checkpoint and makes it start again. That time is
paid for and yields nothing, so an hour's work costs its price times 1 + interruptions per hour ×
time lost. A spot offer that is cheaper on paper can be the dearer one (skypilot#1437, #4914). The
whole interval between two checkpoints counts as lost: the worst case, not the mean.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from policies.placement_policy import Checkpoint
from policies.scalars import MICRO

if TYPE_CHECKING:
    from policies.price_book import Offer

_MS: Final = timedelta(milliseconds=1)
_HOUR_MS: Final = timedelta(hours=1) // _MS


def lost_per_interruption(checkpoint: Checkpoint) -> timedelta:
    """The time that an interruption costs a workload."""
    return checkpoint.every + checkpoint.restart


USUAL_LOSS: Final = lost_per_interruption(Checkpoint.model_validate({}))
"""Of a workload whose policy does not say how often it saves its state."""


def expected(micro: int, offer: Offer, *, lost: timedelta) -> int:
    """What an hour's work costs where an hour of nodes costs `micro`, rounded up.

    `lost` is the time that one interruption costs.
    """
    often = offer.interruptions_per_hour
    if offer.billing != "Spot" or not often:
        return micro
    return micro + -(-micro * often * (lost // _MS) // (MICRO * _HOUR_MS))
