"""How a Workload stands in the clusters it may go to, and which of them stay nominated.

A cluster is taken off the list only for a rule, never for want of room: its Kueue may have given
quota a moment ago, and a Workload whose winner is not nominated hangs (`clusterName` must be one of
the names). What its Kueue refuses stays in line there while another is tried. Pure; `dispatcher`
asks the fleet for the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adapters.kueue.nominations import MOST

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from adapters.kueue.objects import Worker, Workload

PENDING = "Pending"
READY = "Ready"
KUEUE_SAYS = "its Kueue: "
SILENT = "its Kueue has not answered"


@dataclass(frozen=True, slots=True)
class Choice:
    """The clusters that a MultiKueueConfig offers, as the fleet knows them."""

    config: str
    members: Mapping[str, str] = field(default_factory=dict)
    """Member by name of the MultiKueueCluster."""
    inactive: Mapping[str, str] = field(default_factory=dict)
    """Why the manager does not reach some of them."""
    unknown: tuple[str, ...] = ()
    """Clusters that are no members: they are not asked, and keep what they were asked before."""

    def cluster_of(self, member: str) -> str:
        return next(name for name, each in self.members.items() if each == member)


def choice_of(
    config: str, clusters: Sequence[str], workers: Mapping[str, Worker], members: Collection[str]
) -> Choice:
    """`workers` are the MultiKueueClusters of the manager, `members` those of the fleet."""
    found: dict[str, str] = {}
    inactive: dict[str, str] = {}
    unknown = []
    for name in clusters:
        worker = workers.get(name)
        if worker is None:
            continue  # Kueue has none to send anything to
        if worker.member not in members or worker.member in found.values():
            unknown.append(name)
            continue
        found[name] = worker.member
        if worker.inactive:
            inactive[name] = worker.inactive
    return Choice(config, found, inactive, tuple(unknown))


@dataclass(frozen=True, slots=True)
class Standing:
    """Of the clusters that are nominated."""

    held: tuple[str, ...] = ()
    """Have given it quota: one of them will have it."""
    open: tuple[str, ...] = ()
    """Have not said anything yet."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Why the others do not take it now; it waits in line there."""

    @property
    def settled(self) -> bool:
        """Whether nobody else is to be asked now."""
        return bool(self.held or self.open)


def waits(workload: Workload, check: str) -> bool:
    """Whether it is a dispatcher's turn: the last one, after all other checks have passed."""
    others = (state for name, state in workload.checks.items() if name != check)
    return (
        workload.reserved
        and workload.checks.get(check) == PENDING
        and all(state == READY for state in others)
        and not (workload.cluster or workload.evicted or workload.over)
    )


def standing_of(
    workload: Workload,
    choice: Choice,
    copy_in: Callable[[str], Workload | None],
    *,
    mute: Collection[str] = (),
) -> Standing:
    """`copy_in` gives the Workload's copy in a member; `mute` are clusters that had time to answer
    and did not."""
    held, still = list[str](), list[str]()
    refused: dict[str, str] = {}
    refused |= {name: "no member" for name in workload.nominated if name in choice.unknown}
    named = [name for name in workload.nominated if name in choice.members]
    for name in dict.fromkeys([*named, *choice.members]):
        copy = copy_in(choice.members[name])
        if copy is not None and copy.reserved and not (copy.evicted or copy.over):
            held.append(name)
        elif name not in named:
            continue
        elif name in choice.inactive:
            refused[name] = f"the manager does not reach it: {choice.inactive[name]}"
        elif copy is not None and copy.refused:
            refused[name] = f"{KUEUE_SAYS}{copy.refused}"
        elif name in mute:
            refused[name] = SILENT
        else:
            still.append(name)
    return Standing(tuple(held), tuple(still), refused)


def nominated(
    workload: Workload, standing: Standing, choice: Choice, *, more: str = "",
    shut: Collection[str] = (),
) -> tuple[str, ...]:  # fmt: skip
    """The names that are to stand there: `more` first, then those from before that may stay.

    `shut` are members that rules keep it from.
    """
    lines = (*standing.held, *standing.open, *standing.refused)
    kept = [
        name
        for name in dict.fromkeys((*workload.nominated, *standing.held))
        if name in lines and (name in standing.held or choice.members.get(name) not in shut)
    ]
    named = list(dict.fromkeys(([more] if more else []) + kept))
    spare = [name for name in named if name not in standing.held and name != more]
    dropped = spare[len(spare) - max(0, len(named) - MOST) :]
    return tuple(name for name in named if name not in dropped)


def barred(
    choice: Choice, standing: Standing, members: Collection[str], left: Mapping[str, str]
) -> dict[str, str]:
    """Why members cannot have it now. `left` says so of those that it was put out of."""
    outside = f"not among the clusters of MultiKueueConfig {choice.config}"
    reachable = set(choice.members.values())
    found = {name: outside for name in members if name not in reachable}
    found |= {choice.members[n]: f"the manager does not reach it: {why}"
              for n, why in choice.inactive.items()}  # fmt: skip
    found |= {choice.members[name]: why for name, why in standing.refused.items()
              if name in choice.members}  # fmt: skip
    return found | {member: why for member, why in left.items() if member in reachable}
