"""What Kueue's objects say, as far as a dispatcher has to know (API `kueue.x-k8s.io/v1beta2`).

Field rules: kueue `apis/kueue/v1beta2/workload_types.go` and KEP-693. Pure; `standing` sets the
values against each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fleet.kube.resources import GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""

GROUP: Final = "kueue.x-k8s.io"
VERSION: Final = "v1beta2"
API_VERSION: Final = f"{GROUP}/{VERSION}"
WORKLOADS: Final = GroupVersionResource(GROUP, VERSION, "workloads")
CHECKS: Final = GroupVersionResource(GROUP, VERSION, "admissionchecks")
CONFIGS: Final = GroupVersionResource(GROUP, VERSION, "multikueueconfigs")
CLUSTERS: Final = GroupVersionResource(GROUP, VERSION, "multikueueclusters")
RESOURCES: Final = (WORKLOADS, CHECKS, CONFIGS, CLUSTERS)

CONTROLLER: Final = "kueue.x-k8s.io/multikueue"
"""The controller of the admission checks that send work elsewhere."""
MEMBER_ANNOTATION: Final = "fleet.dev/member"
"""On a MultiKueueCluster: which member it is, where that has another name."""

_JOB_LABELS: Final = ("batch.kubernetes.io/job-name", "jobset.sigs.k8s.io/jobset-name")
_POD_SET_LABEL: Final = f"{GROUP}/podset"
_WORKLOAD_ANNOTATION: Final = f"{GROUP}/workload"
_COPIED: Final = ("labels", "annotations")


@dataclass(frozen=True, slots=True)
class Workload:
    """A Workload, in the manager or as its copy in a worker."""

    namespace: str
    name: str
    uid: str
    revision: int
    """Its cluster's."""
    checks: Mapping[str, str] = field(default_factory=dict)
    """States of its admission checks, by name."""
    reserved: bool = False
    """Whether it has quota there."""
    reserved_at: str = ""
    refused: str = ""
    """Why it has none, as Kueue said when it tried; "" while it has not."""
    admitted_at: str = ""
    evicted: bool = False
    """Whether it is being put back."""
    over: bool = False
    """Finished, or being deleted."""
    cluster: str = ""
    """The MultiKueueCluster that has it."""
    nominated: tuple[str, ...] = ()
    owner: str = ""
    """Name of what it was made for."""
    pods: int = 0
    priority: int = 0

    @property
    def key(self) -> Key:
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Worker:
    """A MultiKueueCluster."""

    name: str
    uid: str
    member: str
    """Which member it is to be, by annotation or by name."""
    inactive: str = ""
    """Why the manager does not reach it; "" while it does, or has not said."""


def read_workload(obj: Object) -> Workload:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    checks = {each["name"]: each.get("state", "") for each in status.get("admissionChecks") or ()}
    quota = conditions.get("QuotaReserved") or {}
    admitted = conditions.get("Admitted") or {}
    return Workload(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata["name"]),
        uid=str(metadata.get("uid", "")),
        revision=revision_of(obj),
        checks=checks,
        reserved=quota.get("status") == "True",
        reserved_at=str(quota.get("lastTransitionTime", "")),
        refused=_refusal(quota),
        admitted_at=_since(admitted),
        evicted=(conditions.get("Evicted") or {}).get("status") == "True",
        over=(conditions.get("Finished") or {}).get("status") == "True"
        or bool(metadata.get("deletionTimestamp"))
        or spec.get("active") is False,
        cluster=str(status.get("clusterName") or ""),
        nominated=tuple(status.get("nominatedClusterNames") or ()),
        owner=_owner(metadata.get("ownerReferences") or ()),
        pods=sum(int(each.get("count", 1)) for each in spec.get("podSets") or ()),
        priority=int(spec.get("priority") or 0),
    )


def revision_of(obj: Object) -> int:
    text = str(obj["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdecimal() else 0


def gang_of(obj: Object) -> Object:
    """A Workload as the fleet's placement is asked about it.

    Its priority is the Workload's, whatever class its pods name: classes are the manager's, and the
    fleet need not know them.
    """
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    priority = int(spec.get("priority") or 0)
    kept = {name: metadata[name] for name in _COPIED if metadata.get(name)}
    named = {name: metadata.get(name, "") for name in ("namespace", "name", "uid")}
    pod_sets = [_prioritised(each, priority) for each in spec.get("podSets") or ()]
    limits = {
        name: spec[name] for name in ("maximumExecutionTimeSeconds",) if spec.get(name) is not None
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {**named, **kept},
        "spec": {"podSets": pod_sets, **limits},
    }


def has_pod(workload: Workload, labels: Mapping[str, str], pod: Callable[[], Object]) -> bool:
    """Whether a pod in a worker is one of the Workload's. Labels tell for most kinds; of others
    Kueue leaves an annotation."""
    if any(labels.get(name) == workload.owner for name in _JOB_LABELS):
        return True
    if _POD_SET_LABEL not in labels:
        return False
    annotations = pod()["metadata"].get("annotations") or {}
    return bool(annotations.get(_WORKLOAD_ANNOTATION) == workload.name)


def read_worker(obj: Object) -> Worker:
    metadata = obj["metadata"]
    name = str(metadata["name"])
    inactive = ""
    for each in (obj.get("status") or {}).get("conditions") or ():
        if each["type"] == "Active" and each.get("status") == "False":
            inactive = str(each.get("message") or each.get("reason") or "it is not active")
    return Worker(
        name=name,
        uid=str(metadata.get("uid", "")),
        member=(metadata.get("annotations") or {}).get(MEMBER_ANNOTATION) or name,
        inactive=inactive,
    )


def config_of(check: Object) -> str | None:
    """The MultiKueueConfig of an admission check; None where it is another controller's."""
    spec = check.get("spec") or {}
    if spec.get("controllerName") != CONTROLLER:
        return None
    return str((spec.get("parameters") or {}).get("name", ""))


def clusters_of(config: Object) -> tuple[str, ...]:
    return tuple((config.get("spec") or {}).get("clusters") or ())


def _refusal(quota: Object) -> str:
    if quota.get("status") != "False" or quota.get("reason") not in ("Pending", "Inadmissible"):
        return ""
    return str(quota.get("message") or quota["reason"])


def _since(condition: Object) -> str:
    return str(condition.get("lastTransitionTime", "")) if condition.get("status") == "True" else ""


def _owner(references: Iterable[Object]) -> str:
    found = list(references)
    chosen = next((each for each in found if each.get("controller")), found[0] if found else {})
    return str(chosen.get("name", ""))


def _prioritised(pod_set: Object, priority: int) -> Object:
    template: Object = pod_set.get("template") or {}
    spec = {k: v for k, v in (template.get("spec") or {}).items() if k != "priorityClassName"}
    return {**pod_set, "template": {**template, "spec": {**spec, "priority": priority}}}
