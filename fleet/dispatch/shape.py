"""The Job that stands in a member for one shard of a fleet Job.

It is the user's Job with its part of the ranks, a selector of its own generation, a gate that its
pods wait at, and a deadline that is its lease. Pods keep the labels by which the fleet's Job
selects them, so `kubectl logs job/NAME` finds them at the gateway. Pure; `members` creates it.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from fleet.dispatch import environment
from fleet.dispatch.decisions import Ask
from fleet.dispatch.marks import (
    FLEET_ANNOTATION,
    GENERATION_LABEL,
    HOST_NAME_ANNOTATION,
    INDEX_OFFSET_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    gate_name,
)
from fleet.dispatch.sight import moment
from fleet.view.naming import (
    OWNER_REFERENCE_ANNOTATION,
    SHARD_LABEL,
    WORKLOAD_NAMESPACE_LABEL,
    WORKLOAD_UID_LABEL,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.dispatch.record import Shard

Object = dict[str, Any]

HOLD_CLASS: Final = "fleet-hold"
MARKS: Final = (WORKLOAD_NAMESPACE_LABEL, WORKLOAD_UID_LABEL, SHARD_LABEL, GENERATION_LABEL)
"""The labels that say which shard something belongs to."""
_SERVICE_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_JOB_NAME_LABELS: Final = ("batch.kubernetes.io/job-name", "job-name")
_LEFT_BEHIND: Final = frozenset({
    "kubectl.kubernetes.io/last-applied-configuration",
})  # fmt: skip
# What the fleet judges over all shards, or counts itself.
_FLEETS_OWN: Final = (
    "activeDeadlineSeconds", "backoffLimit", "completions", "managedBy", "manualSelector",
    "parallelism", "selector", "suspend", "ttlSecondsAfterFinished",
)  # fmt: skip
_OVER_ALL_PODS: Final = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")


@dataclass(frozen=True, slots=True)
class Workload:
    """A fleet Job, read once."""

    obj: Object

    @property
    def namespace(self) -> str:
        return str(self.obj["metadata"]["namespace"])

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.obj["metadata"]["uid"])

    @property
    def spec(self) -> Object:
        found: Object = self.obj["spec"]
        return found

    @property
    def pod_spec(self) -> Object:
        found: Object = self.spec["template"].get("spec") or {}
        return found

    @property
    def indexed(self) -> bool:
        return self.spec.get("completionMode") == "Indexed"

    @property
    def gang(self) -> bool:
        """Whether all its pods run together and are known by rank."""
        return self.indexed and self.spec.get("completions") == self.spec.get("parallelism")

    @property
    def nodes(self) -> int:
        """Pods that run at a time."""
        parallelism, completions = self.spec.get("parallelism", 1), self.spec.get("completions")
        return int(parallelism if completions is None else min(parallelism, completions))

    @property
    def service(self) -> str:
        """The Service that ranks are found by: a DNS label that begins with a letter."""
        name = str(self.pod_spec.get("subdomain") or self.name)
        return name if _SERVICE_NAME.fullmatch(name) else f"job-{name.replace('.', '-')}"[:63]

    @property
    def finished(self) -> bool:
        return self._end() is not None

    def expires_at(self) -> float | None:
        """When it is to go after its end, by `ttlSecondsAfterFinished`; None if never, or not
        yet known."""
        ttl_s, end = self.spec.get("ttlSecondsAfterFinished"), self._end()
        ended_at = moment(end.get("lastTransitionTime")) if end is not None else None
        return None if ttl_s is None or ended_at is None else ended_at + ttl_s

    def _end(self) -> Object | None:
        for each in (self.obj.get("status") or {}).get("conditions") or ():
            if each.get("type") in ("Complete", "Failed") and each.get("status") == "True":
                return dict(each)
        return None

    def ask(self) -> Ask:
        """What decisions need to know of it."""
        spec = self.spec
        return Ask(
            name=self.name,
            completions=spec.get("completions"),
            indexed=self.indexed,
            backoff_limit=int(spec.get("backoffLimit", 6)),
            deadline_s=spec.get("activeDeadlineSeconds"),
            started_at=moment((self.obj.get("status") or {}).get("startTime")),
            suspended=bool(spec.get("suspend")),
            deleting=bool(self.obj["metadata"].get("deletionTimestamp")),
        )

    def unsplittable(self) -> str:
        """Why it has to stay whole, "" when it may be split."""
        spec = self.spec
        completions, parallelism = spec.get("completions"), spec.get("parallelism")
        if completions is not None and completions != parallelism:
            return "a Job is split only where completions equal parallelism"
        for field in _OVER_ALL_PODS:
            if field in spec:
                return f"{field} counts over all pods of a Job, so it cannot be split"
        return ""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a shard stands in one member.

    `global_index` is whether the member numbers pods over all shards. `whole` is whether the
    shard is all there is of the workload. `priority_class` is the class that holds without
    preempting, "" where the member has no such thing. `names_from` gives the variable names that
    a source of `envFrom` brings, as far as the fleet knows them.
    """

    fleet: str
    deadline_s: int
    backoff_limit: int
    whole: bool
    global_index: bool
    priority_class: str
    names_from: Callable[[Mapping[str, Any]], list[str]]


def owner_reference(workload: Workload) -> Object:
    """The ownerReference that parts show at the gateway."""
    return {
        "apiVersion": workload.obj["apiVersion"],
        "kind": workload.obj["kind"],
        "name": workload.name,
        "uid": workload.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def labels_of(workload: Workload, shard: Shard) -> dict[str, str]:
    """The labels that say which shard something belongs to."""
    values = (
        workload.namespace,
        workload.uid,
        shard.name(workload.name),
        str(shard.generation),
    )
    return dict(zip(MARKS, values, strict=True))


def job_of(workload: Workload, shard: Shard, terms: Terms) -> Object:
    """The shard's Job."""
    name = shard.name(workload.name)
    marks = labels_of(workload, shard)
    owner = orjson.dumps(owner_reference(workload)).decode()
    metadata = workload.obj["metadata"]
    spec = {k: copy.deepcopy(v) for k, v in workload.spec.items() if k not in _FLEETS_OWN}
    spec |= {
        "parallelism": shard.count,
        "activeDeadlineSeconds": terms.deadline_s,
        "backoffLimit": terms.backoff_limit,
        "manualSelector": True,
        "selector": {"matchLabels": {k: marks[k] for k in (WORKLOAD_UID_LABEL, SHARD_LABEL)}},
        "template": _template(workload, shard, terms, marks, owner),
    }
    completions = workload.spec.get("completions")
    if completions is not None:
        spec["completions"] = completions if terms.whole else shard.count
    _forgive_disruptions(spec)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": workload.namespace,
            "labels": {
                **_without_job_names(metadata.get("labels") or {}),
                **marks,
                MANAGED_BY_LABEL: MANAGED_BY,
            },
            "annotations": {
                **_crossing(metadata.get("annotations") or {}),
                FLEET_ANNOTATION: terms.fleet,
                OWNER_REFERENCE_ANNOTATION: owner,
            },
        },
        "spec": spec,
    }


def _template(
    workload: Workload, shard: Shard, terms: Terms, marks: Mapping[str, str], owner: str
) -> Object:
    template = copy.deepcopy(workload.spec["template"])
    metadata = template.setdefault("metadata", {})
    name = shard.name(workload.name)
    labels = {**(metadata.get("labels") or {}), **marks}
    metadata["labels"] = labels | {key: name for key in _JOB_NAME_LABELS if key in labels}
    annotations = {
        **_crossing(metadata.get("annotations") or {}),
        OWNER_REFERENCE_ANNOTATION: owner,
    }
    if workload.indexed:
        annotations[INDEX_OFFSET_ANNOTATION] = str(shard.first)
        annotations[HOST_NAME_ANNOTATION] = workload.name
    metadata["annotations"] = annotations
    pod_spec = template.setdefault("spec", {})
    for field in ("priority", "preemptionPolicy"):  # admission takes them from the class
        pod_spec.pop(field, None)
    if terms.priority_class:
        pod_spec["priorityClassName"] = terms.priority_class
    if workload.gang:
        pod_spec.setdefault("subdomain", workload.service)
    _gate(workload, terms, pod_spec, gate_name(name))
    return dict(template)


def _gate(workload: Workload, terms: Terms, pod_spec: Object, gate: str) -> None:
    """Have every pod wait for the gate, and every container read it."""
    volumes = pod_spec["volumes"] = [*(pod_spec.get("volumes") or ())]
    volumes.append({"name": environment.GATE_VOLUME, "configMap": {"name": gate}})
    processes = processes_of(pod_spec)
    for container in environment.containers(pod_spec):
        mounts = container["volumeMounts"] = [*(container.get("volumeMounts") or ())]
        mounts.append(
            {
                "name": environment.GATE_VOLUME,
                "mountPath": environment.GATE_PATH,
                "readOnly": True,
            }
        )
        sources = [
            name for each in container.get("envFrom") or () for name in terms.names_from(each)
        ]
        taken = environment.set_by_user(container, sources)
        added = environment.variables(
            gate=gate,
            gang=workload.gang,
            ranks=_ranks(workload, terms),
            processes=processes,
            taken=taken,
        )
        # First, so that the user's own may refer to them.
        container["env"] = [*added, *(container.get("env") or ())]


def _ranks(workload: Workload, terms: Terms) -> environment.Ranks:
    if not workload.indexed:
        return "None"
    if terms.global_index:
        return "Global"
    return "Own" if terms.whole else "None"


def processes_of(pod_spec: Mapping[str, Any]) -> int:
    """Processes of one node, as torchrun would be told."""
    return environment.number(environment.literal(pod_spec, "PET_NPROC_PER_NODE"), 1)


def port_of(pod_spec: Mapping[str, Any]) -> int:
    text = environment.literal(pod_spec, "MASTER_PORT")
    return environment.number(text, environment.DEFAULT_PORT)


def _forgive_disruptions(spec: Object) -> None:
    """Pods that the member took away do not count as failures of the user's.

    Only Jobs whose pods do not restart in place may have such a policy; one of the user's stays.
    """
    restarts = spec["template"]["spec"].get("restartPolicy")
    if restarts != "Never" or "podFailurePolicy" in spec:
        return
    condition = {"type": "DisruptionTarget", "status": "True"}
    spec["podFailurePolicy"] = {"rules": [{"action": "Ignore", "onPodConditions": [condition]}]}
    spec["podReplacementPolicy"] = "Failed"


def _without_job_names(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key not in _JOB_NAME_LABELS}


def _crossing(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key not in _LEFT_BEHIND}


def hold_class(workload: Workload) -> str:
    """The PriorityClass of the shard's pods in a member: as the user's, but it never preempts."""
    name = workload.pod_spec.get("priorityClassName")
    return f"{HOLD_CLASS}-{name}" if name else HOLD_CLASS


def priority_class(name: str, *, value: int, metadata: Object) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {**metadata, "name": name},
        "value": value,
        "preemptionPolicy": "Never",
        "description": "Shards of fleet workloads: a hold never preempts.",
    }
