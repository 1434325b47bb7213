"""Where work goes, asked of whoever decides: the one question that dispatch has for scheduling.

Implemented over `fleet.scheduling` and wired outside, so that the two know each other's values
only. The planner must have taken off what is promised to plans in flight; it is asked one workload
at a time, and the answer is stored before the next question.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from policies.placement import Fencing

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """A workload that waits for a place.

    `placement` is its Placement, with a status once there was a decision. `lost` are clusters
    whose shards are to be placed anew while the others stay. `barred` says why a cluster cannot
    take this workload now. `unsplittable` says why it has to stay in one cluster, "" where it
    need not.
    """

    workload: Object
    placement: Object
    lost: frozenset[str] = frozenset()
    barred: Mapping[str, str] = field(default_factory=dict)
    unsplittable: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The Placement's spec and status after the decision.

    `placed` says whether there is a plan: the status then has a higher generation, and its shards
    cover every rank. `offsets` is whether its program can add an offset to a local index.
    `retry_after_s` is when to ask again if nothing changes before.
    """

    spec: Object
    status: Object
    placed: bool
    lease_s: float = 300.0
    fencing: Fencing = "Controller"
    offsets: bool = False
    retry_after_s: float | None = None


class Planner(Protocol):
    async def plan(self, question: Question) -> Answer:
        """Decide. Raises Invalid for a workload or a policy that nobody could place."""

    def order(self, workloads: Collection[Object]) -> list[Object]:
        """The workloads that wait, most urgent first."""
