"""Jobs: split by rank over clusters, held and run under a lease, judged over all shards.

A shard is a Job with its part of the ranks (`shape`); the member's Job controller makes its pods
and keeps its lease, the Job's `activeDeadlineSeconds`. `sight` reads it, `fold` adds the shards up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch.jobs import fold, shape, sight
from fleet.dispatch.marks import FINALIZER, gate_name
from fleet.dispatch.shape import Workload
from fleet.dispatch.sight import moment
from fleet.dispatch.situation import Ask
from fleet.kube.resources import GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.dispatch.kind import Kind, Propagation
    from fleet.dispatch.record import Record, Shard
    from fleet.dispatch.shape import Terms
    from fleet.dispatch.sight import PodView, ShardView, Sight

Object = dict[str, Any]

_OVER_ALL_PODS: Final = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")


@dataclass(frozen=True, slots=True)
class JobWorkload(Workload):
    """A fleet Job, read once."""

    @property
    def kind(self) -> Kind:
        return JOBS

    @property
    def template(self) -> Object:
        found: Object = self.spec["template"]
        return found

    @property
    def others(self) -> bool:
        manager = self.spec.get("managedBy")
        return manager not in (None, FINALIZER, "kubernetes.io/job-controller")

    @property
    def indexed(self) -> bool:
        return self.spec.get("completionMode") == "Indexed"

    @property
    def gang(self) -> bool:
        return self.indexed and self.spec.get("completions") == self.spec.get("parallelism")

    @property
    def nodes(self) -> int:
        parallelism, completions = self.spec.get("parallelism", 1), self.spec.get("completions")
        return int(parallelism if completions is None else min(parallelism, completions))

    @property
    def finished(self) -> bool:
        return self._end() is not None

    def expires_at(self) -> float | None:
        """By `ttlSecondsAfterFinished`."""
        ttl_s, end = self.spec.get("ttlSecondsAfterFinished"), self._end()
        ended_at = moment(end.get("lastTransitionTime")) if end is not None else None
        return None if ttl_s is None or ended_at is None else ended_at + ttl_s

    def _end(self) -> Object | None:
        for each in (self.obj.get("status") or {}).get("conditions") or ():
            if each.get("type") in ("Complete", "Failed") and each.get("status") == "True":
                return dict(each)
        return None

    def ask(self) -> Ask:
        spec = self.spec
        return Ask(
            name=self.name,
            completions=spec.get("completions"),
            indexed=self.indexed,
            gang=self.gang,
            nodes=self.nodes if self.gang or spec.get("completions") is None else 0,
            backoff_limit=int(spec.get("backoffLimit", 6)),
            deadline_s=spec.get("activeDeadlineSeconds"),
            started_at=moment((self.obj.get("status") or {}).get("startTime")),
            suspended=bool(spec.get("suspend")),
            deleting=self.deleting,
            orphaned=self.orphaned,
        )

    def unsplittable(self) -> str:
        spec = self.spec
        completions, parallelism = spec.get("completions"), spec.get("parallelism")
        if completions is not None and completions != parallelism:
            return "a Job is split only where completions equal parallelism"
        for field in _OVER_ALL_PODS:
            if field in spec:
                return f"{field} counts over all pods of a Job, so it cannot be split"
        return ""


class Jobs:
    """The kind Job. See `fleet.dispatch.kind.Kind`."""

    name: Final = "Job"
    gvr: Final = GroupVersionResource("batch", "v1", "jobs")
    lapses: Final = True
    propagation: Final[Propagation] = "Foreground"

    def read(self, obj: Object) -> Workload:
        return JobWorkload(obj)

    def stub(self, metadata: Object) -> Workload:
        spec: Object = {"template": {}}
        return JobWorkload(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
        )

    def gate_name(self, shard: str) -> str:
        return gate_name(shard)

    def shape(self, workload: Workload, shard: Shard, terms: Terms) -> Object:
        return shape.job_of(workload, shard, terms)

    def view(self, obj: Mapping[str, Any]) -> ShardView:
        return sight.job_view(obj)

    def pods_in(self, obj: Mapping[str, Any]) -> tuple[PodView, ...] | None:
        return None

    def deadline(self, seconds: int) -> Object:
        return {"spec": {"activeDeadlineSeconds": seconds}}

    def unleased(self, workload: Workload) -> Object:
        return {"spec": {"activeDeadlineSeconds": workload.spec.get("activeDeadlineSeconds")}}

    def sized(self, workload: Workload, count: int) -> Object:
        spec = {"parallelism": count}
        if workload.spec.get("completions") is not None:
            spec["completions"] = count
        return {"spec": spec}

    def followed(self, workload: Workload, view: ShardView) -> Object | None:
        return None

    def fold(
        self, workload: Workload, record: Record, sights: Mapping[str, Sight], *, now: float
    ) -> Object:
        obj = workload.obj
        status = fold.fold(workload, record, sights, now=now)
        return obj if status == (obj.get("status") or {}) else {**obj, "status": status}


JOBS: Final = Jobs()
