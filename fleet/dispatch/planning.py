"""Who starts, where, and who has to go: the one question that dispatch has for scheduling.

Implemented over `fleet.scheduling` and wired outside, so that the two know each other's values
only. The planner is asked about all that wait at once; it reads everything else – what runs, what
is promised to plans in flight, what is leaving – off what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from fleet.errors import Invalid
    from policies.placement import Fencing

Object = dict[str, Any]


def nobody() -> None:
    """Whom it does not concern that something is stored."""


@dataclass(frozen=True, slots=True)
class Said:
    """An Event about a workload."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


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
    stays: bool = False
    """Whether what else it has stays as it is: only what is missing is asked for."""
    grows: bool = False
    """Whether it runs with that, and can do without more."""
    barred: Mapping[str, str] = field(default_factory=dict)
    unsplittable: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The Placement's spec and status after the decision.

    `placed` says whether there is a plan: the status then has a higher generation, and its shards
    cover every rank. `offsets` is whether its program can add an offset to a local index.
    `retry_after_s` is when to ask again if nothing changes before. `final` is whether it is
    refused, and not to wait. Once the plan is stored, `said` is told of it and `stored` called.
    """

    spec: Object
    status: Object
    placed: bool
    final: bool = False
    lease_s: float = 300.0
    fencing: Fencing = "Controller"
    offsets: bool = False
    retry_after_s: float | None = None
    said: Said | None = None
    stored: Callable[[], None] = field(default=nobody, compare=False)


@dataclass(frozen=True, slots=True)
class Answered:
    """What was decided about one workload."""

    question: Question
    answer: Answer


@dataclass(frozen=True, slots=True)
class Refused:
    """A workload or a policy that nobody could place."""

    question: Question
    error: Invalid


@dataclass(frozen=True, slots=True)
class Evict:
    """A workload is to end, so that another can start, or because its loan goes back. `placement`
    is its Placement, as namespace and name, `uid` its own; `other` is what a Placement says of what
    it ends for, `said` what it is told. `stored` is called once that is so, and was not before."""

    placement: tuple[str, str]
    uid: str
    other: Object
    said: Said
    stored: Callable[[], None] = field(default=nobody, compare=False)


@dataclass(frozen=True, slots=True)
class OnLoan:
    """What stands at a workload that runs on loan: renewed, or called back; `loan` is None where
    its own quota covers it from here on. `stored` is called once that is so, and was not before."""

    placement: tuple[str, str]
    uid: str
    loan: Object | None
    said: Said
    stored: Callable[[], None] = field(default=nobody, compare=False)


@dataclass(frozen=True, slots=True)
class Retimed:
    """A workload that has a place is expected to run for another time: `run_time` as a Placement
    has it, None where nobody says any more."""

    placement: tuple[str, str]
    uid: str
    run_time: str | None


Barred = Callable[[str, str], Mapping[str, str]]
"""By namespace and UID of a workload that runs, for which clusters it is not ended, as they do not
take it, and why."""

Step = Answered | Refused | Evict | OnLoan | Retimed


class Planner(Protocol):
    def round(self, questions: Sequence[Question], *, barred: Barred) -> AsyncIterator[Step]:
        """Decide about all that wait, together, and about what runs, of which `barred` tells.
        What is told must be stored, or given up, before
        the next is asked for. What is not stored is decided anew in the next round."""

    def next_s(self) -> float | None:
        """In how many seconds to ask again although nothing changes."""

    def lets_save(self) -> bool:
        """Whether anybody waits until others have saved: what those say of it is news then."""
