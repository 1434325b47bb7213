"""What ends or spares a Job besides its counts: failure and success policies, backoff. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from virtualnode.conditions import find, seconds
from virtualnode.jobs.indexes import Indexes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Object = dict[str, Any]

LAST_BACKOFF_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Match:
    """What a pod failure policy says of one failed pod: whether it counts as a failure, and the
    message with which it fails the whole Job ("" when it does not)."""

    counts: bool = True
    fails_job: str = ""


def match_failure(policy: Object | None, pod: Object) -> Match:
    """The first rule that matches decides (KEP-3329)."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        why = _rule_matches(rule, pod)
        if not why:
            continue
        if rule["action"] == "Ignore":
            return Match(counts=False)
        if rule["action"] == "FailJob":
            return Match(fails_job=f"{why} matching FailJob rule at index {number}")
        return Match()
    return Match()


def _rule_matches(rule: Object, pod: Object) -> str:
    """How the rule matches, in the words of its message; "" when it does not."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    place = f"{metadata['namespace']}/{metadata['name']}"
    wanted = rule.get("onExitCodes")
    if wanted is None:
        for condition in status.get("conditions") or ():
            for pattern in rule.get("onPodConditions") or ():
                if (condition["type"], condition["status"]) == (pattern["type"], pattern["status"]):
                    return f"Pod {place} has condition {condition['type']}"
        return ""
    for field in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(field) or ():
            code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
            if not code or wanted.get("containerName", container["name"]) != container["name"]:
                continue
            if (code in wanted["values"]) is (wanted["operator"] == "In"):
                return f"Container {container['name']} for pod {place} failed with exit code {code}"
    return ""


def match_success(policy: Object | None, succeeded: Indexes, *, completions: int) -> str:
    """The message of the first rule that is met (KEP-3998), "" when none is."""
    if not len(succeeded):
        return ""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        enough = rule.get("succeededCount")
        have = len(succeeded)
        if "succeededIndexes" in rule:
            required = Indexes.parse(rule["succeededIndexes"], below=completions)
            if not len(required):
                continue
            have = sum(index in succeeded for index in required)
            if have == len(required):
                return f"Matched rules at index {number}"
        if enough is not None and have >= enough:
            return f"Matched rules at index {number}"
    return ""


# -- backoff


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures since the last success, and when the last of them was (epoch seconds)."""

    count: int = 0
    last: float = 0.0

    def after(self, succeeded: Iterable[Object], failed: Iterable[Object]) -> Failures:
        """With pods that ended since."""
        failed_at = sorted(finished_at(pod) for pod in failed)
        succeeded_at = [finished_at(pod) for pod in succeeded]
        if succeeded_at:
            failed_at = [at for at in failed_at if at > max(succeeded_at)]
            return Failures(len(failed_at), failed_at[-1] if failed_at else 0.0)
        if not failed_at:
            return self
        return Failures(self.count + len(failed_at), failed_at[-1])

    def remaining_s(self, *, now: float, base_s: float) -> float:
        """How long no pod may be made yet."""
        if not self.count:
            return 0.0
        delay_s = min(base_s * float(2 ** min(self.count - 1, 30)), LAST_BACKOFF_S)
        return max(self.last + delay_s - now, 0.0)


def finished_at(pod: Object) -> float:
    """When a pod ended, as well as can be told (upstream's getFinishedTime)."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    ends: Sequence[float | None] = [
        seconds(((each.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for each in status.get("containerStatuses") or ()
    ]
    if ends and all(end is not None for end in ends):
        return max(end for end in ends if end is not None)
    ready = find(status.get("conditions"), "Ready")
    if ready is not None and ready.get("status") == "False":
        at = seconds(ready.get("lastTransitionTime"))
        if at is not None:
            return at
    marked = seconds(metadata.get("deletionTimestamp"))
    if marked is not None:
        return marked - float(metadata.get("deletionGracePeriodSeconds") or 0)
    return seconds(metadata.get("creationTimestamp")) or 0.0
