"""Pods: how state adds up to READY, STATUS and RESTARTS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fleet.kube.tables import printer_for

if TYPE_CHECKING:
    from collections.abc import Callable

RUNNING = {"running": {}}
WAITING: dict[str, Any] = {"waiting": {}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
ENDED: dict[str, Any] = {"terminated": {"exitCode": 0}}
CRASHED = {"terminated": {"exitCode": 1, "reason": "podCrash"}}
READY = {"type": "Ready", "status": "True"}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def ended_before(seconds: int) -> dict[str, Any]:
    """A last state; the fixture puts the time in."""
    return {"terminated": {"finishedAt": seconds}}


def container(
    state: dict[str, Any] | None = None, *, ready: bool = False, restarts: int = 0, **more: Any
) -> dict[str, Any]:
    return {"state": state or {}, "ready": ready, "restartCount": restarts, **more}


def pod(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    spec_init: list[dict[str, Any]] | None = None,
    phase: str = "Running",
    **status: Any,
) -> dict[str, Any]:
    """A pod with these container statuses; its spec has as many containers of each sort."""
    return {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{} for _ in containers] or [{}],
            "initContainers": [{} for _ in init] if spec_init is None else spec_init,
        },
        "status": {
            "phase": phase,
            "containerStatuses": list(containers),
            "initContainerStatuses": list(init),
            **status,
        },
    }


def deleted(obj: dict[str, Any]) -> dict[str, Any]:
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return obj


UP = container(RUNNING, ready=True)
SIDECARS = [{"name": "s1", "restartPolicy": "Always"}, {"name": "s2", "restartPolicy": "Always"}]

CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing known": ({"metadata": {"name": "p"}}, ["0/0", "", "0"]),
    "phase is the status": (
        pod(container(RUNNING, ready=True, restarts=3), container(restarts=3), phase="podPhase"),
        ["1/2", "podPhase", "6"],
    ),
    "a waiting container outweighs the phase": (
        pod(UP, container(waiting("ImagePullBackOff"), restarts=3)),
        ["1/2", "ImagePullBackOff", "3"],
    ),
    "a wait without a reason does not": (pod(UP, container(WAITING)), ["1/2", "Running", "0"]),
    "the first container outweighs the others": (
        pod(container(waiting("First")), container(CRASHED)),
        ["0/2", "First", "0"],
    ),
    "ready but not running is not ready": (
        pod(UP, container(ready=True), phase="podPhase"),
        ["1/2", "podPhase", "0"],
    ),
    "the status's reason outweighs the phase": (
        pod(UP, container(ready=True), reason="podReason"),
        ["1/2", "podReason", "0"],
    ),
    "completed beside running, not ready": (
        pod(container(DONE, ready=True), UP),
        ["1/2", "NotReady", "0"],
    ),
    "completed beside running, ready": (
        pod(container(DONE, ready=True), UP, conditions=[READY]),
        ["1/2", "Running", "0"],
    ),
    "completed beside failed": (
        pod(container(DONE), container(CRASHED), phase="Failed"),
        ["0/2", "podCrash", "0"],
    ),
    "a failure before a success": (
        pod(UP, container(CRASHED), container(ENDED, ready=True), phase="Failed"),
        ["1/3", "podCrash", "0"],
    ),
    "exit code when there is no reason": (
        pod(container({"terminated": {"exitCode": 137}})),
        ["0/1", "ExitCode:137", "0"],
    ),
    "signal before exit code": (
        pod(container({"terminated": {"exitCode": 137, "signal": 9}})),
        ["0/1", "Signal:9", "0"],
    ),
    "scheduling gate": (
        pod(
            phase="Pending",
            conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
        ),
        ["0/1", "SchedulingGated", "0"],
    ),
    "init container runs": (
        pod(container(WAITING), init=(container(RUNNING, restarts=3, lastState=ended_before(10)),)),
        ["0/1", "Init:0/1", "3 (10s ago)"],
    ),
    "second init container runs": (
        pod(
            container(WAITING),
            init=(
                container(ENDED, restarts=2, lastState=ended_before(120)),
                container(RUNNING, restarts=3, lastState=ended_before(10)),
            ),
        ),
        ["0/1", "Init:1/2", "5 (10s ago)"],
    ),
    "init container waits": (
        pod(init=(container(waiting("CrashLoopBackOff")),)),
        ["0/1", "Init:CrashLoopBackOff", "0"],
    ),
    "init container is being initialized": (
        pod(init=(container(waiting("PodInitializing")),)),
        ["0/1", "Init:0/1", "0"],
    ),
    "init container failed with a reason": (
        pod(init=(container(CRASHED),)),
        ["0/1", "Init:podCrash", "0"],
    ),
    "init container failed without": (
        pod(init=(container({"terminated": {"exitCode": 7}}),)),
        ["0/1", "Init:ExitCode:7", "0"],
    ),
    "init container was killed": (
        pod(init=(container({"terminated": {"exitCode": 7, "signal": 9}}),)),
        ["0/1", "Init:Signal:9", "0"],
    ),
    "restarts of finished init containers do not count": (
        pod(
            container(RUNNING, restarts=4, lastState=ended_before(20)),
            init=(container(ENDED, restarts=2, lastState=ended_before(5)),),
        ),
        ["0/1", "Running", "4 (20s ago)"],
    ),
    "Initialized outweighs an init container that is not done": (
        pod(
            UP,
            init=(container(RUNNING),),
            conditions=[{"type": "Initialized", "status": "True"}],
        ),
        ["1/1", "Init:0/1", "0"],
    ),
    "sidecar not started": (
        pod(
            container(WAITING),
            init=(
                container(RUNNING, name="s1", started=False, restarts=3, lastState=ended_before(9)),
                container(WAITING, name="s2", started=False),
            ),
            spec_init=SIDECARS,
        ),
        ["0/3", "Init:0/2", "3 (9s ago)"],
    ),
    "sidecar started, the next one not": (
        pod(
            container(WAITING),
            init=(
                container(RUNNING, name="s1", started=True, ready=True),
                container(RUNNING, name="s2", started=False),
            ),
            spec_init=SIDECARS,
        ),
        ["1/3", "Init:1/2", "0"],
    ),
    "restarts of sidecars count": (
        pod(
            container(RUNNING, ready=True, restarts=4, lastState=ended_before(20)),
            init=(
                container(RUNNING, name="s1", started=True, restarts=3, lastState=ended_before(10)),
                container(RUNNING, name="s2", started=True, ready=True),
            ),
            spec_init=SIDECARS,
        ),
        ["2/3", "Running", "7 (10s ago)"],
    ),
    "sidecars ended last, the pod is done": (
        pod(
            container(DONE),
            init=(
                container(CRASHED, name="s1", started=False),
                container(CRASHED, name="s2", started=False),
            ),
            spec_init=SIDECARS,
            phase="Succeeded",
            conditions=[{"type": "Initialized", "status": "True"}],
        ),
        ["0/3", "Completed", "0"],
    ),
    "the newest restart counts": (
        pod(
            container(RUNNING, ready=True, restarts=6, lastState=ended_before(432_000)),
            container(RUNNING, ready=True, restarts=3, lastState=ended_before(1_728_000)),
        ),
        ["2/2", "Running", "9 (5d ago)"],
    ),
    "restarts without a time": (pod(container(RUNNING, restarts=3)), ["0/1", "Running", "3"]),
    "a last state without restarts": (
        pod(container(RUNNING, lastState=ended_before(20))),
        ["0/1", "Running", "0"],
    ),
    "being deleted": (deleted(pod(UP)), ["1/1", "Terminating", "0"]),
    "being deleted, pending": (deleted(pod(phase="Pending")), ["0/1", "Terminating", "0"]),
    "being deleted, done": (
        deleted(pod(container(DONE), phase="Succeeded")),
        ["0/1", "Completed", "0"],
    ),
    "being deleted on a lost node": (deleted(pod(UP, reason="NodeLost")), ["1/1", "Unknown", "0"]),
    "on a lost node": (pod(UP, reason="NodeLost"), ["1/1", "NodeLost", "0"]),
}


def with_times(value: Any, ago: Callable[[float], str]) -> Any:
    if isinstance(value, dict):
        return {
            key: ago(each) if key == "finishedAt" else with_times(each, ago)
            for key, each in value.items()
        }
    return [with_times(each, ago) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", CASES)
def test_ready_status_and_restarts(
    case: str, cells: Callable[..., list[Any]], ago: Callable[[float], str]
) -> None:
    obj, shown = CASES[case]
    name, *row = cells("", "pods", with_times(obj, ago))
    assert name == "p"
    assert row[:3] == shown
    assert row[3] == "<unknown>"


def test_wide_columns(cells: Callable[..., list[Any]]) -> None:
    obj = {
        "spec": {
            "nodeName": "n1.east",
            "readinessGates": [{"conditionType": c} for c in ("one", "two", "three")],
        },
        "status": {
            "podIPs": [{"ip": "1.1.1.1"}, {"ip": "fd00::1"}],
            "nominatedNodeName": "n2.east",
            "conditions": [
                {"type": "one", "status": "False"},
                {"type": "two", "status": "True"},
                {"type": "one", "status": "True"},
            ],
        },
    }
    assert cells("", "pods", obj)[5:] == ["1.1.1.1", "n1.east", "n2.east", "1/3"]
    assert cells("", "pods", {})[5:] == ["<none>"] * 4


def test_an_old_kubelets_address_wins(cells: Callable[..., list[Any]]) -> None:
    status = {"podIP": "2.2.2.2", "podIPs": [{"ip": "1.1.1.1"}]}
    assert cells("", "pods", {"status": status})[5] == "2.2.2.2"


@pytest.mark.parametrize(
    ("phase", "condition"),
    [
        ("Running", b""),
        (
            "Succeeded",
            b',"conditions":[{"type":"Completed","status":"True","reason":"Succeeded",'
            b'"message":"The pod has completed successfully."}]',
        ),
        (
            "Failed",
            b',"conditions":[{"type":"Completed","status":"True","reason":"Failed",'
            b'"message":"The pod failed."}]',
        ),
    ],
)
def test_rows_of_ended_pods_say_so(phase: str, condition: bytes) -> None:
    row = printer_for(group="", resource="pods").row({"status": {"phase": phase}})
    assert row.conditions == condition


def test_restarts_and_age_go_on_ageing(ago: Callable[[float], str], now_s: float) -> None:
    obj = with_times(pod(container(restarts=2, lastState=ended_before(50))), ago)
    obj["metadata"]["creationTimestamp"] = ago(3_599)
    row = printer_for(group="", resource="pods").row(obj)
    before = b'["p","0/1","Running","2 (50s ago)","59m","<none>","<none>","<none>","<none>"]'
    after = b'["p","0/1","Running","2 (2m50s ago)","61m","<none>","<none>","<none>","<none>"]'
    assert row.cells(now_s) == before
    assert row.cells(now_s + 120) == after
    assert row.cells(now_s) == before
