"""Pods: the table that is asked for most, and the one with the most rules.

Follows printPod of kubernetes pkg/printers/internalversion: how the phase, the containers' states,
init containers and sidecars, scheduling gates and deletion make up READY, STATUS and RESTARTS.
"""

from __future__ import annotations

from typing import Final

from fleet.kube.tables.columns import AGE, NAME, column
from fleet.kube.tables.reading import (
    Object,
    flag,
    items,
    mapping,
    number,
    text,
    within,
)
from fleet.kube.tables.rows import Cell, Cells, Printer, Since, instant, since
from fleet.kube.tables.wording import NONE

_COMPLETED: Final = (
    b',"conditions":[{"type":"Completed","status":"True","reason":"%s","message":"%s"}]'
)
_CONDITIONS: Final = {
    "Succeeded": _COMPLETED % (b"Succeeded", b"The pod has completed successfully."),
    "Failed": _COMPLETED % (b"Failed", b"The pod failed."),
}


class _Restarts:
    """How often containers were restarted, and when the last of them ended before."""

    __slots__ = ("count", "last_s")

    def __init__(self) -> None:
        self.count = 0
        self.last_s: float | None = None

    def add(self, status: Object) -> None:
        self.count += number(status, "restartCount")
        if status.get("lastState"):
            terminated = within(status, "lastState", "terminated")
            at_s = instant(terminated, "finishedAt")
            if at_s is not None and (self.last_s is None or self.last_s < at_s):
                self.last_s = at_s

    def cell(self) -> Cell:
        if self.count and self.last_s is not None:
            return Since(self.last_s, f"{self.count} (", " ago)")
        return str(self.count)


def _exit(terminated: Object) -> str:
    """Why a container ended: its reason, else its signal, else its exit code."""
    if reason := text(terminated, "reason"):
        return reason
    if signal := number(terminated, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{number(terminated, 'exitCode')}"


def _is_true(conditions: list[Object], kind: str) -> bool:
    """Whether the first condition of that type holds."""
    for each in conditions:
        if each.get("type") == kind:
            return each.get("status") == "True"
    return False


def _is_ready(conditions: list[Object]) -> bool:
    """Whether any Ready condition holds."""
    for each in conditions:
        if each.get("type") == "Ready" and each.get("status") == "True":
            return True
    return False


def _is_gated(conditions: list[Object]) -> bool:
    for each in conditions:
        if each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated":
            return True
    return False


def _initializing(
    status: Object, sidecars: set[str], declared: int
) -> tuple[str | None, int, _Restarts, _Restarts]:
    """Walk the init containers up to the first that is not done.

    Returns what STATUS says while one is not done (else None), how many sidecars are ready, and
    the restarts of all of them and of the sidecars alone.
    """
    ready, restarts, sidecar_restarts = 0, _Restarts(), _Restarts()
    for index, each in enumerate(items(status, "initContainerStatuses")):
        restarts.add(each)
        is_sidecar = text(each, "name") in sidecars
        if is_sidecar:
            sidecar_restarts.add(each)
        state = mapping(each, "state")
        terminated = state.get("terminated")
        if isinstance(terminated, dict):
            if number(terminated, "exitCode") == 0:
                continue
            # A sidecar may have ended and still count as started.
            if not (is_sidecar and flag(each, "started")):
                return f"Init:{_exit(terminated)}", ready, restarts, sidecar_restarts
        if is_sidecar and flag(each, "started"):
            ready += flag(each, "ready")
            continue
        waiting = text(mapping(state, "waiting"), "reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}", ready, restarts, sidecar_restarts
        return f"Init:{index}/{declared}", ready, restarts, sidecar_restarts
    return None, ready, restarts, sidecar_restarts


def _running(
    status: Object, conditions: list[Object], reason: str, restarts: _Restarts
) -> tuple[str, int]:
    """STATUS as the containers tell it, the first one last; and how many of them are ready."""
    ready, running, failure = 0, False, ""
    for each in reversed(items(status, "containerStatuses")):
        restarts.add(each)
        state = mapping(each, "state")
        waiting, terminated = state.get("waiting"), state.get("terminated")
        if waiting and (stuck := text(mapping(state, "waiting"), "reason")):
            reason = stuck
        elif isinstance(terminated, dict):
            reason = _exit(terminated)
            if number(terminated, "exitCode") != 0:
                failure = reason
        elif each.get("ready") is True and isinstance(state.get("running"), dict):
            running = True
            ready += 1
    if reason == "Completed":
        if running and _is_ready(conditions):
            reason = "Running"
        elif failure:
            reason = failure
        elif running:
            reason = "NotReady"
    return reason, ready


def _pod_ip(status: Object) -> str:
    """The first address. `podIP` wins where the two fields differ, as old kubelets set only it."""
    single = text(status, "podIP")
    if single:
        return single
    addresses = items(status, "podIPs")
    return (text(addresses[0], "ip") if addresses else "") or NONE


def _readiness_gates(spec: Object, conditions: list[Object]) -> str:
    gates = items(spec, "readinessGates")
    if not gates:
        return NONE
    passed = sum(_is_true(conditions, text(gate, "conditionType")) for gate in gates)
    return f"{passed}/{len(gates)}"


def _pod(obj: Object) -> Cells:
    metadata, spec, status = mapping(obj, "metadata"), mapping(obj, "spec"), mapping(obj, "status")
    phase = text(status, "phase")
    reason = text(status, "reason") or phase
    conditions = items(status, "conditions")
    if _is_gated(conditions):
        reason = "SchedulingGated"

    containers = len(items(spec, "containers"))
    ready = 0
    restarts = _Restarts()
    init_containers = items(spec, "initContainers")
    if init_containers or "initContainerStatuses" in status:
        sidecars = {
            text(each, "name") for each in init_containers if each.get("restartPolicy") == "Always"
        }
        containers += sum(each.get("restartPolicy") == "Always" for each in init_containers)
        waiting, ready, restarts, sidecar_restarts = _initializing(
            status, sidecars, len(init_containers)
        )
        if waiting is None or _is_true(conditions, "Initialized"):
            restarts = sidecar_restarts
            reason, running = _running(status, conditions, waiting or reason, restarts)
            ready += running
        else:
            reason = waiting
    else:
        reason, ready = _running(status, conditions, reason, restarts)

    if metadata.get("deletionTimestamp") is not None:
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in ("Failed", "Succeeded"):
            reason = "Terminating"
    return (
        text(metadata, "name"),
        f"{ready}/{containers}",
        reason,
        restarts.cell(),
        since(metadata, "creationTimestamp"),
        _pod_ip(status),
        text(spec, "nodeName") or NONE,
        text(status, "nominatedNodeName") or NONE,
        _readiness_gates(spec, conditions),
    )


def _row_conditions(obj: Object) -> bytes:
    return _CONDITIONS.get(text(mapping(obj, "status"), "phase"), b"")


PODS: Final = Printer(
    columns=(
        NAME,
        column("Ready", "The aggregate readiness state of this pod for accepting traffic."),
        column("Status", "The aggregate status of the containers in this pod."),
        column(
            "Restarts",
            "The number of times the containers in this pod have been restarted"
            " and when the last container in this pod has restarted.",
        ),
        AGE,
        column("IP", doc="core/v1.PodStatus.podIP", priority=1),
        column("Node", doc="core/v1.PodSpec.nodeName", priority=1),
        column("Nominated Node", doc="core/v1.PodStatus.nominatedNodeName", priority=1),
        column("Readiness Gates", doc="core/v1.PodSpec.readinessGates", priority=1),
    ),
    render=_pod,
    row_conditions=_row_conditions,
)

PRINTERS: Final = {("", "pods"): PODS}
