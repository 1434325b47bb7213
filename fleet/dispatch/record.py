"""The durable record of a dispatch: what a Placement's status says, as a value.

The reconciler writes it by compare-and-set before it acts on it, so whatever is done in a member is
foretold in the record. Explanations in the status that are the planner's (verdicts, cost) are kept
as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.budget import NOTHING, Budget
from fleet.dispatch.elastic import resized
from fleet.dispatch.marks import shard_name
from policies import LENDING_POLICY, PLACEMENT_POLICY
from policies.scalars import duration_text, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.placement import Fencing, Phase, ShardState

Object = dict[str, Any]

ENDED: Final = ("Succeeded", "Failed")
"""Phases that nothing leads out of."""
WAITING: Final = ("Queued", "Lost")
"""Phases that want a plan."""
LEASE_OVER: Final = "LeaseOver"
"""Why a shard is lost, and owed: its member was not heard of for longer than its lease."""
ON_LOAN: Final = "fleet.dev/OnLoan"
"""A condition of work that runs on loan: until when, and whether it was called back."""
_TO_COME: Final = frozenset({"Planned", "Holding", "Held"})
_LIVE: Final = frozenset({"Committed", "Running"})
_OF_A_PLAN: Final = ("usedClusters", "plane", "whySeveral", "overBudget", "cost")
_DEFAULT_LEASE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of the workload that one cluster has: ranks `first` to `first + count - 1`.

    Times are seconds since the epoch. `planned` is the planner's part of the entry, as it is.
    """

    cluster: str
    index: int
    generation: int
    first: int
    count: int
    state: ShardState = "Planned"
    reason: str = ""
    message: str = ""
    held_at: float | None = None
    committed_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    lost_at: float | None = None
    leased_until: float | None = None
    """Of a shard whose cluster is silent: when its lease there is over at the latest."""
    refused_at: float | None = None
    """Of a shard whose cluster refuses what it needs: since when."""
    amiss_at: float | None = None
    """Of a shard that was committed, while pods of it do not run: since when."""
    amiss: int = 0
    """How many of them that are, for its `reason`."""
    cluster_uid: str = ""
    """Which cluster has it: a name can pass to another one. "" before anything is asked of it."""
    planned: tuple[tuple[str, Any], ...] = ()

    @property
    def to_come(self) -> bool:
        """Whether it has still to be held or committed."""
        return self.state in _TO_COME

    @property
    def live(self) -> bool:
        """Whether it was committed and is not known to have ended."""
        return self.state in _LIVE

    @property
    def blocks(self) -> tuple[str, ...]:
        """Those that were chosen for it; empty where none were."""
        return tuple(dict(self.planned).get("blocks") or ())

    def name(self, workload: str) -> str:
        """Of its Job in the cluster."""
        return shard_name(workload, generation=self.generation, cluster=self.cluster)


@dataclass(frozen=True, slots=True)
class Debt:
    """A shard that is to be gone from a cluster. `fenced_at` is when its own lease has ended it
    there at the latest, None where only its absence counts."""

    cluster: str
    shard: str
    generation: int
    reason: str
    fenced_at: float | None
    cluster_uid: str = ""
    count: int = 0
    """Its ranks; 0 where that was not written down."""


@dataclass(frozen=True, slots=True)
class OnLoan:
    """What a workload is told of its loan; times as they are written."""

    donor: str
    until: str
    recalled_at: str = ""
    ends_at: str = ""
    why: str = ""

    @property
    def reason(self) -> str:
        return "Recalled" if self.recalled_at else "Lent"

    def file(self) -> dict[str, str]:
        """What its pods read of it."""
        times = {"recalledAt": self.recalled_at, "endsAt": self.ends_at, "why": self.why}
        return {"from": self.donor, "until": self.until} | (times if self.recalled_at else {})

    def __str__(self) -> str:
        told = f"on loan from {self.donor} until {self.until}"
        if not self.recalled_at:
            return told
        return f"{told}, called back at {self.recalled_at}, ends at {self.ends_at}: {self.why}"


@dataclass(frozen=True, slots=True)
class Apart:
    """How a workload is kept apart from others in members. `work` is its lending class; `exclusive`
    is whether its nodes run nothing else, `walled` whether a NetworkPolicy goes with it."""

    work: str = ""
    exclusive: bool = False
    walled: bool = False


TOGETHER: Final = Apart()


@dataclass(frozen=True, slots=True)
class Record:
    """How far a workload is. `since` is when `phase` began; `plane` is the planner's word."""

    generation: int = 0
    phase: Phase = "Queued"
    since: float = 0.0
    reason: str = ""
    message: str = ""
    shards: tuple[Shard, ...] = ()
    owed: tuple[Debt, ...] = ()
    lease_s: float = _DEFAULT_LEASE_S
    fencing: Fencing = "Controller"
    failures: int = 0
    budget: Budget = NOTHING
    plane: str = ""
    offsets: bool = False
    """Whether programs add the offset to their index where a member cannot."""
    preempted_for: str = ""
    """`job payments/train`: it was told to end for that one; "" once it was placed again."""
    ended_by: str = ""
    """The kind of that."""
    loan: OnLoan | None = None
    """What it has on loan: the planner's word."""
    apart: Apart = TOGETHER
    """How it is kept apart from others: the planner's word."""
    least: int | None = None
    """Fewest ranks that an elastic workload runs with; None where it is all or none. The planner's
    word, as is `most`."""
    most: int = 0
    """Ranks that were asked for, as the planner knows it."""
    unit: int = 1
    """Ranks that come and go together. The planner's word."""
    known: int = 0
    """The generation that those of an elastic workload that run are told; 0 before there were any.
    """

    @property
    def elastic(self) -> bool:
        return self.least is not None

    @property
    def world(self) -> tuple[Shard, ...]:
        """The shards whose ranks are told of each other: all; of an elastic workload those that may
        run, since what is still to come may not."""
        if not self.elastic:
            return self.shards
        return tuple(each for each in self.shards if each.live or each.state == "Succeeded")

    @property
    def ranks(self) -> int:
        """In its world."""
        return sum(each.count for each in self.world)

    @property
    def told(self) -> int:
        """The generation of the world. Plans to grow by what does not come in the end are none."""
        return self.known if self.elastic and self.known else self.generation

    @property
    def lead(self) -> Shard | None:
        """The shard that the others find each other by, with its lowest rank: that with rank 0. An
        elastic workload goes on without it, and what joins comes to those that are there."""
        if not self.elastic:
            return next((each for each in self.shards if each.first == 0), None)
        return min(self.world, key=lambda each: (each.generation, each.first), default=None)

    @property
    def goes(self) -> tuple[str, str]:
        """Why it ends, of one that was told to: a word, and a sentence."""
        if self.ended_by == LENDING_POLICY.name:
            told = f"the loan that it ran on went back by {self.preempted_for}, and it waits again"
            return "LoanReturned", told
        if self.ended_by == PLACEMENT_POLICY.name:
            return "MovesBack", "goes back to an earlier tier, where it begins anew"
        return "Preempted", f"ended for {self.preempted_for}, and waits again"

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    @property
    def waiting(self) -> bool:
        return self.phase in WAITING

    @property
    def unheard(self) -> dict[str, str]:
        """Clusters that fell silent until a part was lost there, and that were not seen to be rid
        of it since: a plan could not begin in them. In the words of a planner."""
        why = "it was not heard of for longer than a lease, and has not shown since that {} is gone"
        return {d.cluster: why.format(d.shard) for d in self.owed if d.reason == LEASE_OVER}

    def unfenced(self, now: float) -> tuple[Debt, ...]:
        """What may still run somewhere: nothing is to be placed anew before it cannot."""
        return tuple(d for d in self.owed if d.fenced_at is None or d.fenced_at > now)

    def with_phase(
        self, phase: Phase, now: float, *, reason: str = "", message: str = ""
    ) -> Record:
        """In another phase, and why."""
        since = self.since if phase == self.phase else now
        return replace(self, phase=phase, since=since, reason=reason, message=message)

    def with_shards(self, changed: Iterable[Shard]) -> Record:
        """With these shards in the place of those of the same cluster and generation."""
        by_key = {(each.cluster, each.generation): each for each in changed}
        shards = tuple(by_key.get((each.cluster, each.generation), each) for each in self.shards)
        return self if shards == self.shards else replace(self, shards=shards)


def read(status: Mapping[str, Any]) -> Record:
    """The record that a Placement's status holds."""
    return Record(
        generation=int(status.get("generation", 0)),
        phase=status.get("phase", "Queued"),
        since=_moment(status.get("phaseSince")) or 0.0,
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        shards=tuple(
            sorted(map(_read_shard, status.get("shards") or ()), key=lambda each: each.index)
        ),
        owed=tuple(
            Debt(
                cluster=each["cluster"],
                shard=each["shard"],
                generation=int(each.get("generation", 0)),
                reason=each.get("reason", ""),
                fenced_at=_moment(each.get("fencedAt")),
                cluster_uid=each.get("clusterUid", ""),
                count=int(each.get("ranks", 0)),
            )
            for each in status.get("owed") or ()
        ),
        lease_s=seconds(status.get("lease")) or _DEFAULT_LEASE_S,
        fencing=status.get("fencing", "Controller"),
        failures=int(status.get("failures", 0)),
        budget=_read_budget(status.get("budget") or {}),
        plane=status.get("plane", ""),
        offsets=status.get("indexMode") == "Offset",
        preempted_for=_other(status.get("preemptedFor")),
        ended_by=(status.get("preemptedFor") or {}).get("kind", ""),
        loan=_read_loan(status.get("loan")),
        apart=_read_apart(status.get("isolation")),
        least=_least(status),
        most=sum(int(each["pods"]) for each in status.get("roles") or ()),
        unit=_unit(status),
        known=int(status.get("ranksGeneration", 0)),
    )


def write(record: Record, status: Mapping[str, Any]) -> Object:
    """`status` with the record's part of it replaced; equal to `status` when nothing changed."""
    written = dict(status)
    written |= {"generation": record.generation, "phase": record.phase}
    _set(written, "phaseSince", text_of(record.since) if record.since else None)
    _set(written, "reason", record.reason or None)
    _set(written, "message", record.message or None)
    _set(written, "shards", [_written_shard(each) for each in record.shards] or None)
    _set(written, "owed", [_written_debt(each) for each in record.owed] or None)
    _set(written, "ranks", f"{record.ranks} of {record.most}" if record.elastic else None)
    _set(written, "ranksGeneration", record.known or None)
    _set(written, "failures", record.failures or None)
    _set(written, "budget", _written_budget(record.budget))
    if not record.preempted_for:
        written.pop("preemptedFor", None)
    if record.phase == "Queued":
        for field in _OF_A_PLAN if record.owed else (*_OF_A_PLAN, "loan"):
            written.pop(field, None)
    lease = duration_text(timedelta(seconds=record.lease_s))
    _set(written, "indexMode", "Offset" if record.offsets else None)
    written |= {"lease": lease, "fencing": record.fencing}
    return _sized(record, written, status) if record.elastic else written


def _sized(record: Record, written: Object, before: Mapping[str, Any]) -> Object:
    (role,) = written["roles"]
    if role["pods"] != record.most:
        written = {**written, "roles": [{**role, "pods": record.most}]}
    return resized(written, before)


def on_loan(status: Mapping[str, Any], loan: Object | None) -> Object:
    """`status` of a workload with another loan, or none."""
    without = {field: value for field, value in status.items() if field != "loan"}
    return without if loan is None else {**without, "loan": loan}


def retimed(status: Mapping[str, Any], run_time: str | None) -> Object:
    """`status` of a workload that is expected to run for another time."""
    without = {field: value for field, value in status.items() if field != "runTime"}
    return without if run_time is None else {**without, "runTime": run_time}


def preempted(status: Mapping[str, Any], other: Object) -> Object:
    """`status` of a workload that is to end for another; the record does not say more than whom."""
    return {
        **status,
        "preemptedFor": other,
        "preemptions": int(status.get("preemptions") or 0) + 1,
    }


def _other(told: Mapping[str, Any] | None) -> str:
    if not told:
        return ""
    return f"{told['kind'].lower()} " + "/".join(filter(None, (told["namespace"], told["name"])))


def _unit(status: Mapping[str, Any]) -> int:
    roles: Sequence[Object] = status.get("roles") or ()
    return int(roles[0].get("unit", 1)) if len(roles) == 1 else 1


def _least(status: Mapping[str, Any]) -> int | None:
    """Of a workload of one role: no other is carried out."""
    roles: Sequence[Object] = status.get("roles") or ()
    return int(roles[0]["min"]) if len(roles) == 1 and "min" in roles[0] else None


def _read_apart(told: Mapping[str, Any] | None) -> Apart:
    if told is None:
        return TOGETHER
    return Apart(told["class"], told.get("node") == "Exclusive", bool(told.get("networkPolicy")))


def _read_loan(told: Mapping[str, Any] | None) -> OnLoan | None:
    if told is None:
        return None
    fields = ("donor", "until", "recalledAt", "endsAt", "why")
    return OnLoan(*(told.get(field, "") for field in fields))


def seconds(duration: Any) -> float:
    """A duration as policies write it (`1m30s`), in seconds; 0 for none."""
    return parse_duration(duration).total_seconds() if duration else 0.0


def text_of(moment: float) -> str:
    """A time as Kubernetes writes it, to the second."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(text: Any) -> float | None:
    return datetime.fromisoformat(text).timestamp() if isinstance(text, str) and text else None


_TIMES: Final = {
    "heldAt": "held_at",
    "committedAt": "committed_at",
    "startedAt": "started_at",
    "finishedAt": "finished_at",
    "lostAt": "lost_at",
    "leasedUntil": "leased_until",
    "refusedAt": "refused_at",
    "amissAt": "amiss_at",
}
_OURS: Final = frozenset({
    "cluster", "clusterUid", "index", "generation", "state", "reason", "message",
    "amissPods", *_TIMES,
})  # fmt: skip


def _read_shard(entry: Mapping[str, Any]) -> Shard:
    roles = entry.get("roles") or ({"first": 0, "count": 0},)
    return Shard(
        cluster=entry["cluster"],
        index=int(entry.get("index", 0)),
        generation=int(entry.get("generation", 0)),
        first=int(roles[0]["first"]),
        count=int(roles[0]["count"]),
        state=entry.get("state", "Planned"),
        reason=entry.get("reason", ""),
        message=entry.get("message", ""),
        cluster_uid=entry.get("clusterUid", ""),
        amiss=int(entry.get("amissPods", 0)),
        planned=tuple((key, value) for key, value in entry.items() if key not in _OURS),
        **{name: _moment(entry.get(field)) for field, name in _TIMES.items()},
    )


def _written_shard(shard: Shard) -> Object:
    entry: Object = {
        "cluster": shard.cluster,
        "index": shard.index,
        "generation": shard.generation,
        **dict(shard.planned),
        "state": shard.state,
    }
    _set(entry, "clusterUid", shard.cluster_uid or None)
    _set(entry, "reason", shard.reason or None)
    _set(entry, "message", shard.message or None)
    _set(entry, "amissPods", shard.amiss or None)
    for field, name in _TIMES.items():
        moment = getattr(shard, name)
        _set(entry, field, None if moment is None else text_of(moment))
    return entry


def _read_budget(entry: Mapping[str, Any]) -> Budget:
    return Budget(
        counted=int(entry.get("counted", 0)),
        charged=int(entry.get("charged", 0)),
        fresh=int(entry.get("fresh", 0)),
        free=int(entry["free"]) if "free" in entry else None,
    )


def _written_budget(budget: Budget) -> Object | None:
    entry: Object = {}
    for field in ("counted", "charged", "fresh"):
        _set(entry, field, getattr(budget, field) or None)
    _set(entry, "free", budget.free)
    return entry or None


def _written_debt(debt: Debt) -> Object:
    entry: Object = {
        "cluster": debt.cluster,
        "shard": debt.shard,
        "generation": debt.generation,
        "reason": debt.reason,
    }
    _set(entry, "clusterUid", debt.cluster_uid or None)
    _set(entry, "ranks", debt.count or None)
    _set(entry, "fencedAt", None if debt.fenced_at is None else text_of(debt.fenced_at))
    return entry


def _set(obj: Object, key: str, value: Any) -> None:
    if value is None:
        obj.pop(key, None)
    else:
        obj[key] = value
