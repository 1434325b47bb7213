"""Revisions of a Deployment: numbered in its sets' annotations, so that history can be read and
gone back to. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from virtualnode.deployments.sizes import DESIRED, MOST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from virtualnode.deployments.sizes import Sets, Sized

Object = dict[str, Any]

REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
_NOT_COPIED: Final = frozenset({
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION, HISTORY, DESIRED, MOST,
})  # fmt: skip
_LONGEST_HISTORY: Final = 2000
_UNLIMITED: Final = 2**31 - 1
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")


def of(annotations: Mapping[str, str]) -> int | None:
    """The revision in annotations; 0 when they name none, None when it is not a number."""
    text = annotations.get(REVISION, "")
    if not text:
        return 0
    return int(text) if _NUMBER.fullmatch(text) else None


def annotations_for(
    deployment: Object, present: Mapping[str, str], old: Sequence[Sized]
) -> Mapping[str, str]:
    """The annotations of the set with the Deployment's template, from those it has.

    It takes over the Deployment's own and has the highest revision of all; one that had a lower
    revision before keeps that in its history (upstream's SetNewReplicaSetAnnotations).
    """
    given = deployment["metadata"].get("annotations") or {}
    wanted = {**present, **{k: v for k, v in given.items() if k not in _NOT_COPIED}}
    own = of(present)
    following = max((of(each.annotations) or 0 for each in old), default=0) + 1
    if own is None or own >= following:
        return wanted
    wanted[REVISION] = str(following)
    if REVISION in present:
        wanted[HISTORY] = _with(present.get(HISTORY, ""), present[REVISION])
    return wanted


def _with(history: str, revision: str) -> str:
    """A history with one more revision, the first ones dropped where it gets too long."""
    entries = [*(history.split(",") if history else ()), revision]
    while len(",".join(entries)) > _LONGEST_HISTORY:
        del entries[0]
    return ",".join(entries)


def superfluous(deployment: Object, sets: Sets) -> tuple[Sized, ...]:
    """Old sets beyond the history limit that have no pods, the lowest revisions first."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    if limit is None or limit == _UNLIMITED:
        return ()
    kept = [each for each in sets.old if not each.seen["metadata"].get("deletionTimestamp")]
    kept.sort(key=lambda each: of(each.annotations) or 0)
    surplus = max(len(kept) - limit, 0)
    return tuple(each for each in kept[:surplus] if _is_empty(each))


def _is_empty(sized: Sized) -> bool:
    observed = sized.count("observedGeneration")
    generation = sized.seen["metadata"].get("generation", 0)
    return not sized.replicas and not sized.actual and observed >= generation
