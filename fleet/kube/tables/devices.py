"""Devices and gangs: `resource.k8s.io` and the workload API of `scheduling.k8s.io`."""

from __future__ import annotations

from typing import Final

from fleet.kube.tables.cluster import name_and_age
from fleet.kube.tables.columns import AGE, NAME, column
from fleet.kube.tables.reading import (
    Object,
    items,
    mapping,
    number,
    sequence,
    text,
    within,
)
from fleet.kube.tables.rows import Cell, Cells, Printer, since
from fleet.kube.tables.wording import NONE


def _claim_state(obj: Object) -> str:
    status = mapping(obj, "status")
    deleted = mapping(obj, "metadata").get("deletionTimestamp") is not None
    states = ["deleted"] if deleted else []
    if isinstance(status.get("allocation"), dict):
        states.append("allocated")
        if sequence(status, "reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def _claim(obj: Object) -> Cells:
    metadata = mapping(obj, "metadata")
    return text(metadata, "name"), _claim_state(obj), since(metadata, "creationTimestamp")


def _slice(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    return (
        text(metadata, "name"),
        text(spec, "nodeName"),
        text(spec, "driver"),
        text(mapping(spec, "pool"), "name"),
        since(metadata, "creationTimestamp"),
    )


def _taint_rule(obj: Object) -> Cells:
    metadata, taint = mapping(obj, "metadata"), within(obj, "spec", "taint")
    added: Cell = "" if taint.get("timeAdded") is None else since(taint, "timeAdded")
    return (
        text(metadata, "name"),
        text(taint, "key"),
        text(taint, "value"),
        text(taint, "effect"),
        added,
        since(metadata, "creationTimestamp"),
    )


def _pool_request(obj: Object) -> Cells:
    name, driver = text(mapping(obj, "metadata"), "name"), text(mapping(obj, "spec"), "driver")
    if not isinstance(obj.get("status"), dict):
        return name, driver, "-", "-", "-", "-", "-", 0, "Pending", NONE
    status = mapping(obj, "status")
    pools = items(status, "pools")
    pool_count = number(status, "poolCount")
    state = "Pending"
    completed: Cell = NONE
    for each in items(status, "conditions"):
        if each.get("status") == "True" and each.get("type") in ("Complete", "Failed"):
            state = text(each, "type")
            if state == "Complete":
                completed = since(each, "lastTransitionTime")
            break
    totals = ["-"] * 5
    if state != "Failed":
        totals = [
            str(sum(number(pool, f"{kind}Devices") for pool in pools))
            for kind in ("total", "available", "allocated", "unavailable")
        ]
        totals.append(str(sum(pool.get("validationError") is not None for pool in pools)))
    if state == "Complete" and pool_count > len(pools):
        state = f"Complete ({len(pools)}/{pool_count} pools)"
    return name, driver, *totals, pool_count, state, completed


def _pod_group(obj: Object) -> Cells:
    metadata, spec = mapping(obj, "metadata"), mapping(obj, "spec")
    gang = isinstance(mapping(spec, "schedulingPolicy").get("gang"), dict)
    # The last condition of a type counts.
    conditions = {text(each, "type"): each for each in items(mapping(obj, "status"), "conditions")}
    status = "Pending"
    if scheduled := conditions.get("PodGroupScheduled"):
        status = "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    if disrupted := conditions.get("DisruptionTarget"):
        status = text(disrupted, "reason")
    workload = NONE
    if isinstance(spec.get("podGroupTemplateRef"), dict):
        workload = text(within(spec, "podGroupTemplateRef", "workload"), "workloadName")
    return (
        text(metadata, "name"),
        "Gang" if gang else "Basic",
        workload,
        status,
        since(metadata, "creationTimestamp"),
    )


_NAME_AND_AGE: Final = Printer(columns=(NAME, AGE), render=name_and_age)
_SLICE: Final = "resource/v1.ResourceSliceSpec"
_TAINT: Final = "resource/v1.DeviceTaint"

PRINTERS: Final = {
    ("resource.k8s.io", "deviceclasses"): _NAME_AND_AGE,
    ("resource.k8s.io", "resourceclaimtemplates"): _NAME_AND_AGE,
    ("scheduling.k8s.io", "workloads"): _NAME_AND_AGE,
    ("resource.k8s.io", "resourceclaims"): Printer(
        columns=(
            NAME,
            column("State", "A summary of the current state (allocated, pending, reserved, etc.)."),
            AGE,
        ),
        render=_claim,
    ),
    ("resource.k8s.io", "resourceslices"): Printer(
        columns=(
            NAME,
            column("Node", doc=f"{_SLICE}.nodeName"),
            column("Driver", doc=f"{_SLICE}.driver"),
            column("Pool", doc="resource/v1.ResourcePool.name"),
            AGE,
        ),
        render=_slice,
    ),
    ("resource.k8s.io", "devicetaintrules"): Printer(
        columns=(
            NAME,
            column("Key", doc=f"{_TAINT}.key"),
            column("Value", doc=f"{_TAINT}.value"),
            column("Effect", doc=f"{_TAINT}.effect"),
            column("TimeAdded", doc=f"{_TAINT}.timeAdded"),
            AGE,
        ),
        render=_taint_rule,
    ),
    ("resource.k8s.io", "resourcepoolstatusrequests"): Printer(
        columns=(
            NAME,
            column("Driver", "The driver to query pools for."),
            column("Total", "Total number of devices across all pools."),
            column("Available", "Number of available devices across all pools."),
            column("Allocated", "Number of allocated devices across all pools."),
            column("Unavailable", "Number of unavailable devices across all pools."),
            column("Errors", "Number of pools with validation errors."),
            column("Pools", "Total number of matching pools.", type="integer"),
            column("Status", "Processing status."),
            column("Completed", "Time since the observation completed."),
        ),
        render=_pool_request,
    ),
    ("scheduling.k8s.io", "podgroups"): Printer(
        columns=(
            NAME,
            column("Policy", doc="scheduling/v1alpha2.PodGroupSpec.schedulingPolicy"),
            column("Workload", "Name of the referenced Workload object"),
            column("Status", "Status of the PodGroup"),
            AGE,
        ),
        render=_pod_group,
    ),
}
