"""Defaults of workloads (upstream's `pkg/apis/apps/v1` and `batch/v1`).

Functions change their argument, which the caller has copied; its pod templates included.
"""

from __future__ import annotations

from typing import Any

from fleet.kube.defaults.pods import default_claim_spec, default_pod_template

Object = dict[str, Any]

_MAX_INT32 = 2**31 - 1


def default_job(job: Object) -> None:
    template = job["spec"].setdefault("template", {})
    # Shared, not copied: the labels that select its pods reach the job this way, too.
    labels = template.get("metadata", {}).get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = labels
    default_job_spec(job["spec"])


def default_job_spec(spec: Object) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    policy = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", policy)
    spec.setdefault("manualSelector", False)
    _failure_policy(spec)
    default_pod_template(spec.setdefault("template", {}))


def default_cron_job(cron_job: Object) -> None:
    spec = cron_job["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    # The Jobs it makes get a Job's own defaults when they are created.
    job_spec = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
    _failure_policy(job_spec)
    default_pod_template(job_spec.setdefault("template", {}))


def _failure_policy(job_spec: Object) -> None:
    for rule in (job_spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def default_deployment(deployment: Object) -> None:
    spec = deployment["spec"]
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    default_pod_template(spec.setdefault("template", {}))


def default_stateful_set(stateful_set: Object) -> None:
    spec = stateful_set["spec"]
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("status", {}).setdefault("phase", "Pending")
        default_claim_spec(claim.setdefault("spec", {}))
    default_pod_template(spec.setdefault("template", {}))


def default_daemon_set(daemon_set: Object) -> None:
    spec = daemon_set["spec"]
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    default_pod_template(spec.setdefault("template", {}))


def default_replica_set(replica_set: Object) -> None:
    spec = replica_set["spec"]
    spec.setdefault("replicas", 1)
    default_pod_template(spec.setdefault("template", {}))


def default_replication_controller(controller: Object) -> None:
    spec = controller["spec"]
    template = spec.get("template")
    labels = (template or {}).get("metadata", {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not controller["metadata"].get("labels"):
            controller["metadata"]["labels"] = dict(labels)
    spec.setdefault("replicas", 1)
    if template is not None:
        default_pod_template(template)


def default_pod_template_object(template: Object) -> None:
    default_pod_template(template.setdefault("template", {}))
