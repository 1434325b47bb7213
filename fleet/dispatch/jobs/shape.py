"""The Job that stands in a member for one shard of a fleet Job.

It is the user's Job with its part of the ranks, a selector of its own generation, a gate that its
pods wait at, and a deadline that is its lease. Pods keep the labels by which the fleet's Job
selects them, so `kubectl logs job/NAME` finds them at the gateway. Pure.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from fleet.dispatch import environment, shape
from fleet.dispatch.marks import (
    HOST_NAME_ANNOTATION,
    INDEX_OFFSET_ANNOTATION,
    gate_name,
)
from fleet.view.naming import OWNER_REFERENCE_ANNOTATION, SHARD_LABEL, WORKLOAD_UID_LABEL

if TYPE_CHECKING:
    from fleet.dispatch.record import Shard
    from fleet.dispatch.shape import Terms, Workload

Object = dict[str, Any]

_JOB_NAME_LABELS: Final = ("batch.kubernetes.io/job-name", "job-name")
# What the fleet judges over all shards, or counts itself.
_FLEETS_OWN: Final = (
    "activeDeadlineSeconds", "backoffLimit", "completions", "managedBy", "manualSelector",
    "parallelism", "selector", "suspend", "ttlSecondsAfterFinished",
)  # fmt: skip


def job_of(workload: Workload, shard: Shard, terms: Terms) -> Object:
    """The shard's Job."""
    marks = shape.labels_of(workload, shard)
    spec = {k: copy.deepcopy(v) for k, v in workload.spec.items() if k not in _FLEETS_OWN}
    spec |= {
        "parallelism": shard.count,
        "activeDeadlineSeconds": terms.deadline_s,
        "backoffLimit": terms.backoff_limit,
        "manualSelector": True,
        "selector": {"matchLabels": {k: marks[k] for k in (WORKLOAD_UID_LABEL, SHARD_LABEL)}},
        "template": _template(workload, shard, terms),
    }
    completions = workload.spec.get("completions")
    if completions is not None:
        whole = terms.whole and shard.count == workload.nodes
        spec["completions"] = completions if whole else shard.count
    _forgive_disruptions(spec)
    metadata = shape.metadata_of(workload, shard, terms)
    for label in _JOB_NAME_LABELS:
        metadata["labels"].pop(label, None)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _template(workload: Workload, shard: Shard, terms: Terms) -> Object:
    template = copy.deepcopy(workload.template)
    metadata = template.setdefault("metadata", {})
    name = shard.name(workload.name)
    labels = {**(metadata.get("labels") or {}), **shape.labels_of(workload, shard)}
    metadata["labels"] = labels | {key: name for key in _JOB_NAME_LABELS if key in labels}
    annotations = {
        **shape.crossing(metadata.get("annotations") or {}),
        OWNER_REFERENCE_ANNOTATION: shape.owner_text(workload),
    }
    if workload.indexed:
        annotations[INDEX_OFFSET_ANNOTATION] = str(shard.first)
        annotations[HOST_NAME_ANNOTATION] = workload.name
    metadata["annotations"] = annotations
    pod_spec = template.setdefault("spec", {})
    if workload.gang:
        pod_spec.setdefault("subdomain", workload.service)
    shape.hold(pod_spec, workload, terms, gate=gate_name(name), ranks=_ranks(workload, terms))
    return terms.alone(template)


def _ranks(workload: Workload, terms: Terms) -> environment.Ranks:
    if not workload.indexed:
        return "None"
    if terms.global_index:
        return "Global"
    return "Own" if terms.whole else "None"


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
