"""What is known of a member's health: four truths, kept apart, and what follows from them.

- Reachable: its API answers. Only the member's own silence speaks against it; a fault on our side
  does not (karmada#7408).
- CredentialsValid: it accepts who we are.
- WatchFresh: what we show of it is up to date.
- DataPlaneHealthy: its workloads serve; measured elsewhere, Unknown until then.
- Ready: the first three together. Nothing is evicted because of it: leases decide that.

`observe` is a pure function of the state and one observation; one lost packet changes nothing,
several in a row do. Next step: `fleet.members.member` makes the observations.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Truth = Literal["Reachable", "CredentialsValid", "WatchFresh", "DataPlaneHealthy", "Ready"]
Status = Literal["True", "False", "Unknown"]
TRUTHS: tuple[Truth, ...] = (
    "Reachable",
    "CredentialsValid",
    "WatchFresh",
    "DataPlaneHealthy",
    "Ready",
)
_NEEDED: tuple[Truth, ...] = ("Reachable", "CredentialsValid", "WatchFresh")


@dataclass(frozen=True, slots=True)
class Condition:
    """One truth. `since` is when its status last changed, in seconds of wall-clock time."""

    type: Truth
    status: Status = "Unknown"
    reason: str = "NotMeasured"
    message: str = ""
    since: float = 0.0

    def as_dict(self) -> dict[str, str]:
        """In the form of `metav1.Condition`."""
        return {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": _time(self.since),
        }


@dataclass(frozen=True, slots=True)
class Answered:
    """The API server answered its health check; `ready` is what it said of itself."""

    ready: bool = True
    message: str = ""


@dataclass(frozen=True, slots=True)
class Unreached:
    """No answer came."""

    message: str


@dataclass(frozen=True, slots=True)
class Foreign:
    """Another cluster answered under the member's address."""

    message: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It answered, and does not accept our credential."""

    message: str


@dataclass(frozen=True, slots=True)
class NoCredential:
    """No credential could be made on our side, so nothing was asked."""

    message: str


@dataclass(frozen=True, slots=True)
class CredentialEnds:
    """When the credential in use ends (wall-clock seconds); None where that is not known."""

    at: float | None


@dataclass(frozen=True, slots=True)
class Watched:
    """Whether every open watch was just proven live; `message` says which was not."""

    fresh: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class Served:
    """The data plane, as measured."""

    ok: bool
    message: str = ""


Observation = (
    Answered | Unreached | Foreign | Refused | NoCredential | CredentialEnds | Watched | Served
)


@dataclass(frozen=True, slots=True)
class Patience:
    """How many observations in a row change a truth that stands, and when an end is near."""

    lost_after: int = 3
    back_after: int = 2
    refused_after: int = 2
    ends_soon_s: float = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class Health:
    """The conditions and the counts that lead to the next change."""

    conditions: Mapping[Truth, Condition] = field(
        default_factory=lambda: {truth: Condition(truth) for truth in TRUTHS}
    )
    unreached: int = 0
    reached: int = 0
    refused: int = 0
    api_ready: bool = True
    ends_at: float | None = None

    @classmethod
    def begun(cls, now: float) -> Health:
        """Of a member that nothing is known of yet: since now."""
        return cls({truth: Condition(truth, since=now) for truth in TRUTHS})

    def __getitem__(self, truth: Truth) -> Condition:
        return self.conditions[truth]

    @property
    def ready(self) -> bool:
        return self["Ready"].status == "True"


def observe(health: Health, observation: Observation, *, now: float, patience: Patience) -> Health:
    """The health after one observation at wall-clock time `now`."""
    match observation:
        case Answered():
            health = _reached(health, observation, now, patience)
            health = replace(health, refused=0)
            health = _accepted(health, now, patience)
        case Refused(message):
            health = _reached(health, Answered(), now, patience)
            health = _refused(health, "Refused", message, now, patience)
        case NoCredential(message):
            health = _refused(health, "NoCredential", message, now, patience)
        case Unreached(message):
            health = replace(health, unreached=health.unreached + 1, reached=0)
            if health["Reachable"].status != "True" or health.unreached >= patience.lost_after:
                health = _set(health, "Reachable", "False", "NoAnswer", message, now)
        case Foreign(message):
            health = replace(health, unreached=patience.lost_after, reached=0)
            health = _set(health, "Reachable", "False", "AnotherCluster", message, now)
        case CredentialEnds(at):
            health = replace(health, ends_at=at)
            if health["CredentialsValid"].status == "True":
                health = _accepted(health, now, patience)
        case Watched(fresh, message):
            status: Status = "True" if fresh else "False"
            reason = "Proven" if fresh else "NotProven"
            health = _set(health, "WatchFresh", status, reason, message, now)
        case Served(ok, message):
            status = "True" if ok else "False"
            reason = "Serving" if ok else "NotServing"
            health = _set(health, "DataPlaneHealthy", status, reason, message, now)
    return _ready(health, now)


def _reached(health: Health, answered: Answered, now: float, patience: Patience) -> Health:
    health = replace(health, unreached=0, reached=health.reached + 1, api_ready=answered.ready)
    if health["Reachable"].status == "False" and health.reached < patience.back_after:
        return health
    reason = "Answers" if answered.ready else "AnswersNotReady"
    return _set(health, "Reachable", "True", reason, answered.message, now)


def _accepted(health: Health, now: float, patience: Patience) -> Health:
    reason, message = "Accepted", ""
    if health.ends_at is not None and health.ends_at - now <= patience.ends_soon_s:
        reason, message = "EndsSoon", f"the credential ends at {_time(health.ends_at)}; renew it"
    return _set(health, "CredentialsValid", "True", reason, message, now)


def _refused(health: Health, reason: str, message: str, now: float, patience: Patience) -> Health:
    health = replace(health, refused=health.refused + 1)
    if health["CredentialsValid"].status == "True" and health.refused < patience.refused_after:
        return health
    return _set(health, "CredentialsValid", "False", reason, message, now)


def _ready(health: Health, now: float) -> Health:
    for truth in _NEEDED:
        condition = health[truth]
        if condition.status != "True":
            message = condition.message or f"{truth} is {condition.status}"
            reason = f"{truth}Unknown" if condition.status == "Unknown" else condition.reason
            return _set(health, "Ready", condition.status, reason, message, now)
    if not health.api_ready:
        return _set(health, "Ready", "False", "APIServerNotReady", health["Reachable"].message, now)
    return _set(health, "Ready", "True", "Ready", "", now)


def _set(
    health: Health, truth: Truth, status: Status, reason: str, message: str, now: float
) -> Health:
    before = health[truth]
    since = before.since if before.status == status and before.since else now
    condition = Condition(truth, status, reason, message, since)
    if condition == before:
        return health
    return replace(health, conditions={**health.conditions, truth: condition})


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
