"""How each kind of workload says which pods it is made of: one reader per kind.

A reader gives the roles in the order of their ranks: a launcher, head or leader first. It counts
all pods of the gang, those that only start or watch the others too (KAI#500, kuberay#4066). A kind
without a reader cannot be placed and is never taken for one without pods. `demand` makes roles of
the parts, under the rules of a policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Object = dict[str, Any]

WORKER: Final = "worker"
LEADER: Final = "leader"
_OVER_ALL_INDEXES: Final = ("successPolicy", "backoffLimitPerIndex", "maxFailedIndexes")


@dataclass(frozen=True, slots=True)
class Part:
    """Pods of one template."""

    role: str
    pods: int
    template: Object
    field: str
    """Where their number is said, for messages."""
    template_field: str
    whole: int = 1
    """Pods that the kind itself keeps together: fewer of them are of no use."""


@dataclass(frozen=True, slots=True)
class Reading:
    """All pods of a workload. `whole` says why it cannot be divided, "" where it can."""

    parts: tuple[Part, ...]
    indexed: bool = False
    whole: str = ""
    rigid: str = ""
    """Why fewer pods than it asks for would not do its work, "" where they may."""
    deadline_s: int | None = None
    """When it is ended at the latest, counted from its start."""


def read(obj: Object) -> Reading | None:
    """None for a kind that nobody can count. Raises ValueError for numbers that are none."""
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    reader = _READERS.get((group, str(obj.get("kind", ""))))
    return None if reader is None else reader(obj)


def kinds() -> tuple[str, ...]:
    """As messages name them."""
    return tuple(_NAMES[key] for key in _READERS)


def _job(obj: Object) -> Reading:
    spec = _spec(obj)
    part = Part(
        WORKER,
        _job_pods(spec),
        spec.get("template") or {},
        "spec.parallelism",
        "spec.template",
    )
    return Reading(
        (part,),
        indexed=spec.get("completionMode") == "Indexed",
        rigid=_rigid(spec),
        deadline_s=_optional(spec.get("activeDeadlineSeconds")),
    )


def _rigid(job: Object) -> str:
    """Ranks, and the pods of a work queue, share the work among those that run. Other completions
    are a piece of work each: with fewer pods some would never be done."""
    completions = job.get("completions")
    if completions is None:
        return ""
    if job.get("completionMode") != "Indexed":
        return "each of its completions is to be reached"
    if completions != job.get("parallelism", 1):
        return "its completions do not equal its parallelism"
    counted = next((field for field in _OVER_ALL_INDEXES if field in job), "")
    return counted and f"{counted} counts over all its indexes"


def _deployment(obj: Object) -> Reading:
    spec = _spec(obj)
    pods = int(spec.get("replicas", 1))
    template: Object = spec.get("template") or {}
    return Reading((Part(WORKER, pods, template, "spec.replicas", "spec.template"),))


def _pod(obj: Object) -> Reading:
    deadline = _optional(_spec(obj).get("activeDeadlineSeconds"))
    return Reading((Part(WORKER, 1, obj, "spec", ""),), deadline_s=deadline)


def _job_set(obj: Object) -> Reading:
    """One role per replicated job. Several children of one job stay whole, each by itself."""
    spec = _spec(obj)
    coordinator = str((spec.get("coordinator") or {}).get("replicatedJob") or "")
    parts = []
    for index, each in enumerate(spec.get("replicatedJobs") or ()):
        where = f"spec.replicatedJobs[{index}]"
        replicas = int(each.get("replicas", 1))
        job: Object = (each.get("template") or {}).get("spec") or {}
        pods = _job_pods(job)
        parts.append(
            Part(
                str(each.get("name", "")),
                replicas * pods,
                job.get("template") or {},
                f"{where}.replicas",
                f"{where}.template.spec.template",
                whole=pods if replicas > 1 else 1,
            )
        )
    return Reading(tuple(_first(parts, {coordinator})), indexed=True)


def _leader_worker_set(obj: Object) -> Reading:
    """Groups of a leader and its workers. A leader of its own template makes groups whole only
    inside one cluster: which leader goes with which workers cannot be told from counts."""
    spec = _spec(obj)
    groups, template = int(spec.get("replicas", 1)), spec.get("leaderWorkerTemplate") or {}
    size = int(template.get("size", 1))
    worker: Object = template.get("workerTemplate") or {}
    leader: Object | None = template.get("leaderTemplate")
    where = "spec.leaderWorkerTemplate"
    if leader is None:
        part = Part(
            WORKER, groups * size, worker, "spec.replicas", f"{where}.workerTemplate", whole=size
        )
        return Reading((part,), indexed=True)
    parts = [Part(LEADER, groups, leader, "spec.replicas", f"{where}.leaderTemplate")]
    if size > 1:
        parts.append(
            Part(
                WORKER,
                groups * (size - 1),
                worker,
                f"{where}.size",
                f"{where}.workerTemplate",
                whole=size - 1,
            )
        )
    why = "" if groups == 1 else "its leaders have a template of their own"
    return Reading(tuple(parts), indexed=True, whole=why)


def _kueue(obj: Object) -> Reading:
    """One role per pod set; sets that are scaled to nothing ask for nothing."""
    spec = _spec(obj)
    parts = []
    for index, each in enumerate(spec.get("podSets") or ()):
        pods = int(each.get("count", 1))
        if pods:
            where = f"spec.podSets[{index}]"
            template = each.get("template") or {}
            name = str(each.get("name") or WORKER)
            parts.append(Part(name, pods, template, f"{where}.count", f"{where}.template"))
    deadline = _optional(spec.get("maximumExecutionTimeSeconds"))
    return Reading(tuple(parts), deadline_s=deadline)


def _first(parts: Iterable[Part], names: set[str]) -> list[Part]:
    return sorted(parts, key=lambda part: part.role not in names)


def _job_pods(spec: Object) -> int:
    """Pods that run at a time: a Job with fewer completions never starts more."""
    parallelism = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    return parallelism if completions is None else min(parallelism, int(completions))


def _spec(obj: Object) -> Object:
    spec: Object = obj.get("spec") or {}
    return spec


def _optional(value: Any) -> int | None:
    return None if value is None else int(value)


_READERS: Final[Mapping[tuple[str, str], Callable[[Object], Reading]]] = {
    ("batch", "Job"): _job,
    ("apps", "Deployment"): _deployment,
    ("", "Pod"): _pod,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    ("kueue.x-k8s.io", "Workload"): _kueue,
}
_NAMES: Final[Mapping[tuple[str, str], str]] = {
    ("batch", "Job"): "batch/v1 Job",
    ("apps", "Deployment"): "apps/v1 Deployment",
    ("", "Pod"): "v1 Pod",
    ("jobset.x-k8s.io", "JobSet"): "jobset.x-k8s.io JobSet",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "leaderworkerset.x-k8s.io LeaderWorkerSet",
    ("kueue.x-k8s.io", "Workload"): "kueue.x-k8s.io Workload",
}
