"""Controllers of pods, and what guards them: from ReplicaSets to disruption budgets."""

from __future__ import annotations

from typing import Final

from fleet.kube.tables.columns import AGE, CONTAINERS, IMAGES, NAME, column
from fleet.kube.tables.durations import human_duration
from fleet.kube.tables.reading import (
    Object,
    condition,
    flag,
    items,
    mapping,
    number,
    optional_number,
    string_map,
    text,
    within,
)
from fleet.kube.tables.rows import Cell, Cells, Printer, Since, instant, since
from fleet.kube.tables.wording import (
    NONE,
    UNSET,
    containers,
    count,
    label_selector,
    labels,
    selector_cell,
)


def _template_containers(spec: Object) -> tuple[str, str]:
    return containers(within(spec, "template", "spec"))


def _replication_controller(obj: Object) -> Cells:
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    return (
        text(metadata, "name"),
        number(spec, "replicas"),
        number(status, "replicas"),
        number(status, "readyReplicas"),
        since(metadata, "creationTimestamp"),
        *_template_containers(spec),
        labels(string_map(spec, "selector")),
    )


def _replica_set(obj: Object) -> Cells:
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    return (
        text(metadata, "name"),
        number(spec, "replicas"),
        number(status, "replicas"),
        number(status, "readyReplicas"),
        since(metadata, "creationTimestamp"),
        *_template_containers(spec),
        selector_cell(spec),
    )


def _deployment(obj: Object) -> Cells:
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    selector = label_selector(spec, "selector")
    return (
        text(metadata, "name"),
        f"{number(status, 'readyReplicas')}/{number(spec, 'replicas')}",
        number(status, "updatedReplicas"),
        number(status, "availableReplicas"),
        since(metadata, "creationTimestamp"),
        *_template_containers(spec),
        "<invalid>" if selector is None else selector,
    )


def _stateful_set(obj: Object) -> Cells:
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    return (
        text(metadata, "name"),
        f"{number(status, 'readyReplicas')}/{number(spec, 'replicas')}",
        since(metadata, "creationTimestamp"),
        *_template_containers(spec),
    )


def _daemon_set(obj: Object) -> Cells:
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    return (
        text(metadata, "name"),
        number(status, "desiredNumberScheduled"),
        number(status, "currentNumberScheduled"),
        number(status, "numberReady"),
        number(status, "updatedNumberScheduled"),
        number(status, "numberAvailable"),
        labels(string_map(within(spec, "template", "spec"), "nodeSelector")),
        since(metadata, "creationTimestamp"),
        *_template_containers(spec),
        selector_cell(spec),
    )


def _completions(spec: Object, status: Object) -> str:
    succeeded = number(status, "succeeded")
    completions = optional_number(spec, "completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = number(spec, "parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(status: Object) -> Cell:
    started_s, completed_s = instant(status, "startTime"), instant(status, "completionTime")
    if started_s is None:
        return ""
    if completed_s is None:
        return Since(started_s)
    return human_duration(completed_s - started_s)


def _job_status(metadata: Object, status: Object) -> str:
    def holds(kind: str) -> bool:
        found = condition(status, kind)
        return found is not None and found.get("status") == "True"

    for kind in ("Complete", "Failed"):
        if holds(kind):
            return kind
    if metadata.get("deletionTimestamp") is not None:
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if holds(kind):
            return kind
    return _without_place(status) or "Running"


def _without_place(status: Object) -> str:
    """What a Job of the fleet waits for, "" when it has its place or is no fleet's.

    Upstream's printer knows a Job that runs, since upstream starts every one. Only a fleet writes
    this condition, so the Jobs of members print as their own API servers print them.
    """
    placed = condition(status, "fleet.dev/Placed")
    if placed is None or placed.get("status") != "False":
        return ""
    reason = placed.get("reason")
    if reason in ("QuotaHeld", "Holding"):
        return "Holding"
    if reason == "Suspended":
        return "Suspended"
    # what has a part that runs, or has done its part, is there but for the rest
    return "Lost" if number(status, "active") or number(status, "succeeded") else "Queued"


def _job(obj: Object) -> Cells:
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    return (
        text(metadata, "name"),
        _job_status(metadata, status),
        _completions(spec, status),
        _job_duration(status),
        since(metadata, "creationTimestamp"),
        *_template_containers(spec),
        selector_cell(spec),
    )


def _cron_job(obj: Object) -> Cells:
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    job_spec = within(spec, "jobTemplate", "spec")
    suspend = spec.get("suspend")
    time_zone = spec.get("timeZone")
    last = status.get("lastScheduleTime")
    return (
        text(metadata, "name"),
        text(spec, "schedule"),
        time_zone if isinstance(time_zone, str) else NONE,
        str(suspend) if isinstance(suspend, bool) else UNSET,
        count(status.get("active")),
        NONE if last is None else since(status, "lastScheduleTime"),
        since(metadata, "creationTimestamp"),
        *_template_containers(job_spec),
        selector_cell(job_spec),
    )


def _pod_template(obj: Object) -> Cells:
    template = mapping(obj, "template")
    return (
        text(mapping(obj, "metadata"), "name"),
        *containers(mapping(template, "spec")),
        labels(string_map(mapping(template, "metadata"), "labels")),
    )


def _controller_revision(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    controller = NONE
    for owner in items(metadata, "ownerReferences"):
        if flag(owner, "controller"):
            group, slash, _ = text(owner, "apiVersion").partition("/")
            kind = text(owner, "kind")
            group_kind = f"{kind}.{group}" if slash and group else kind
            name = text(owner, "name")
            controller = f"{group_kind.lower()}/{name}" if group_kind else name
            break
    return (
        text(metadata, "name"),
        controller,
        number(obj, "revision"),
        since(metadata, "creationTimestamp"),
    )


def _disruption_budget(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")

    def limit(key: str) -> str:
        value = spec.get(key)
        return "N/A" if value is None else str(value)

    return (
        text(metadata, "name"),
        limit("minAvailable"),
        limit("maxUnavailable"),
        number(mapping(obj, "status"), "disruptionsAllowed"),
        since(metadata, "creationTimestamp"),
    )


def _scale(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return (
        text(metadata, "name"),
        number(mapping(obj, "spec"), "replicas"),
        number(mapping(obj, "status"), "replicas"),
        since(metadata, "creationTimestamp"),
    )


SCALE: Final = Printer(
    columns=(
        column("Name", doc="meta/v1.ObjectMeta.name"),
        column("Desired", doc="autoscaling/v1.ScaleSpec.replicas", type="integer"),
        column("Available", doc="autoscaling/v1.ScaleStatus.replicas", type="integer"),
        AGE,
    ),
    render=_scale,
)

PRINTERS: Final = {
    ("", "replicationcontrollers"): Printer(
        columns=(
            NAME,
            column("Desired", doc="core/v1.ReplicationControllerSpec.replicas", type="integer"),
            column("Current", doc="core/v1.ReplicationControllerStatus.replicas", type="integer"),
            column(
                "Ready", doc="core/v1.ReplicationControllerStatus.readyReplicas", type="integer"
            ),
            AGE,
            CONTAINERS,
            IMAGES,
            column("Selector", doc="core/v1.ReplicationControllerSpec.selector", priority=1),
        ),
        render=_replication_controller,
    ),
    ("apps", "replicasets"): Printer(
        columns=(
            NAME,
            column("Desired", doc="apps/v1.ReplicaSetSpec.replicas", type="integer"),
            column("Current", doc="apps/v1.ReplicaSetStatus.replicas", type="integer"),
            column("Ready", doc="apps/v1.ReplicaSetStatus.readyReplicas", type="integer"),
            AGE,
            CONTAINERS,
            IMAGES,
            column("Selector", doc="apps/v1.ReplicaSetSpec.selector", priority=1),
        ),
        render=_replica_set,
    ),
    ("apps", "deployments"): Printer(
        columns=(
            NAME,
            column("Ready", "Number of the pod with ready state"),
            column("Up-to-date", doc="apps/v1.DeploymentStatus.updatedReplicas"),
            column("Available", doc="apps/v1.DeploymentStatus.availableReplicas"),
            AGE,
            CONTAINERS,
            IMAGES,
            column("Selector", doc="apps/v1.DeploymentSpec.selector", priority=1),
        ),
        render=_deployment,
    ),
    ("apps", "statefulsets"): Printer(
        columns=(
            NAME,
            column("Ready", "Number of the pod with ready state"),
            AGE,
            CONTAINERS,
            IMAGES,
        ),
        render=_stateful_set,
    ),
    ("apps", "daemonsets"): Printer(
        columns=(
            NAME,
            column("Desired", doc="apps/v1.DaemonSetStatus.desiredNumberScheduled", type="integer"),
            column("Current", doc="apps/v1.DaemonSetStatus.currentNumberScheduled", type="integer"),
            column("Ready", doc="apps/v1.DaemonSetStatus.numberReady", type="integer"),
            column(
                "Up-to-date", doc="apps/v1.DaemonSetStatus.updatedNumberScheduled", type="integer"
            ),
            column("Available", doc="apps/v1.DaemonSetStatus.numberAvailable", type="integer"),
            column("Node Selector", doc="core/v1.PodSpec.nodeSelector"),
            AGE,
            CONTAINERS,
            IMAGES,
            column("Selector", doc="apps/v1.DaemonSetSpec.selector", priority=1),
        ),
        render=_daemon_set,
    ),
    ("apps", "controllerrevisions"): Printer(
        columns=(
            NAME,
            column("Controller", "Controller of the object"),
            column("Revision", doc="apps/v1.ControllerRevision.revision"),
            AGE,
        ),
        render=_controller_revision,
    ),
    ("batch", "jobs"): Printer(
        columns=(
            NAME,
            column("Status", "Status of the job."),
            column("Completions", doc="batch/v1.JobStatus.succeeded"),
            column("Duration", "Time required to complete the job."),
            AGE,
            CONTAINERS,
            IMAGES,
            column("Selector", doc="batch/v1.JobSpec.selector", priority=1),
        ),
        render=_job,
    ),
    ("batch", "cronjobs"): Printer(
        columns=(
            NAME,
            column("Schedule", doc="batch/v1.CronJobSpec.schedule"),
            column("Timezone", doc="batch/v1.CronJobSpec.timeZone"),
            column("Suspend", doc="batch/v1.CronJobSpec.suspend", type="boolean"),
            column("Active", doc="batch/v1.CronJobStatus.active", type="integer"),
            column("Last Schedule", doc="batch/v1.CronJobStatus.lastScheduleTime"),
            AGE,
            CONTAINERS,
            IMAGES,
            column("Selector", doc="batch/v1.JobSpec.selector", priority=1),
        ),
        render=_cron_job,
    ),
    ("", "podtemplates"): Printer(
        columns=(
            NAME,
            column("Containers", "Names of each container in the template."),
            column("Images", "Images referenced by each container in the template."),
            column("Pod Labels", "The labels for the pod template."),
        ),
        render=_pod_template,
    ),
    ("policy", "poddisruptionbudgets"): Printer(
        columns=(
            NAME,
            column("Min Available", "The minimum number of pods that must be available."),
            column("Max Unavailable", "The maximum number of pods that may be unavailable."),
            column(
                "Allowed Disruptions",
                "Calculated number of pods that may be disrupted at this time.",
                type="integer",
            ),
            AGE,
        ),
        render=_disruption_budget,
    ),
}
