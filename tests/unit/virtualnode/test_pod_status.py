"""The status that a kubelet writes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from virtualnode import conditions
from virtualnode.kubelet.lifecycle import Alive, Ended, Run, Waiting
from virtualnode.kubelet.status import Seen, pod_status

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
AT = NOW.timestamp()
POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": 2},
    "spec": {
        "restartPolicy": "Always",
        "containers": [{"name": "a", "image": "x"}],
        "initContainers": [{"name": "i", "image": "y"}],
    },
    "status": {
        "qosClass": "Burstable",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Mine", "status": "True"},
        ],
    },
}
DONE = Run(Ended(0, 0, AT - 9, AT - 8, "Completed"))
SEEN = Seen("Running", {"i": DONE, "a": Run(Alive(AT - 5), started=True, ready=True)},
            address="127.64.0.9", host_address="127.0.0.1", started="2026-01-01T00:00:00Z",
            runtime="process://1")  # fmt: skip


def said(status):
    return {each["type"]: (each["status"], each.get("reason", "")) for each in status["conditions"]}


def test_a_running_pod():
    status = pod_status(POD, SEEN, now=NOW)
    assert status["phase"] == "Running" and status["qosClass"] == "Burstable"
    assert status["podIP"] == "127.64.0.9" and status["podIPs"] == [{"ip": "127.64.0.9"}]
    assert status["observedGeneration"] == 2
    assert said(status) == {
        "PodReadyToStartContainers": ("True", ""), "Initialized": ("True", ""),
        "Ready": ("True", ""), "ContainersReady": ("True", ""), "PodScheduled": ("True", ""),
        "Mine": ("True", ""),
    }  # fmt: skip
    (container,) = status["containerStatuses"]
    assert container["state"] == {"running": {"startedAt": "2026-01-01T00:00:55Z"}}
    assert container["ready"] and container["started"] and container["restartCount"] == 0
    assert container["containerID"] == "process://u/a/0"
    (init,) = status["initContainerStatuses"]
    assert init["state"]["terminated"]["reason"] == "Completed"


def test_a_second_look_changes_nothing():
    once = pod_status(POD, SEEN, now=NOW)
    again = pod_status({**POD, "status": once}, SEEN, now=NOW.replace(minute=9))
    assert again == once


def test_a_condition_keeps_its_time_until_it_changes():
    once = pod_status(POD, SEEN, now=NOW)
    later = NOW.replace(minute=30)
    unready = replace(SEEN, runs={**SEEN.runs, "a": Run(Alive(AT), started=True)})
    changed = pod_status({**POD, "status": once}, unready, now=later)
    ready = conditions.find(changed["conditions"], "Ready")
    assert ready is not None and ready["lastTransitionTime"] == "2026-01-01T00:30:00Z"
    assert ready["message"] == "containers with unready status: [a]"
    initialized = conditions.find(changed["conditions"], "Initialized")
    assert initialized is not None
    assert initialized["lastTransitionTime"] == "2026-01-01T00:01:00Z"


def test_a_pod_that_waits_for_its_volumes_has_no_address():
    waiting = Run(Waiting("ContainerCreating"))
    seen = replace(SEEN, phase="Pending", address="", runs={"i": waiting, "a": waiting})
    status = pod_status(POD, seen, now=NOW)
    assert "podIP" not in status
    assert said(status)["PodReadyToStartContainers"] == ("False", "")
    assert said(status)["Initialized"] == ("False", "ContainersNotInitialized")
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert "containerID" not in status["containerStatuses"][0]


def test_a_pod_that_is_over():
    for phase, reason in (("Succeeded", "PodCompleted"), ("Failed", "PodFailed")):
        status = pod_status(POD, replace(SEEN, phase=phase, runs={"i": DONE, "a": DONE}), now=NOW)
        assert said(status)["Ready"] == ("False", reason)
        assert said(status)["ContainersReady"] == ("False", reason)
        assert said(status)["PodReadyToStartContainers"][0] == "False"
    assert said(status)["Initialized"][0] == "True"


def test_a_container_that_waits_to_be_restarted():
    crashed = Ended(137, 9, AT - 30, AT - 10, "Error", "boom")
    run = Run(crashed, restarts=2, hold=AT + 150)
    status = pod_status(POD, replace(SEEN, runs={"i": DONE, "a": run}), now=NOW)
    (container,) = status["containerStatuses"]
    assert container["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 2m40s restarting failed container=a pod=p_ns(u)",
    }
    told = container["lastState"]["terminated"]
    assert (told["exitCode"], told["signal"], told["message"]) == (137, 9, "boom")
    assert told["containerID"] == "process://u/a/2"

    never = {**POD, "spec": {**POD["spec"], "restartPolicy": "Never"}}
    status = pod_status(never, replace(SEEN, runs={"i": DONE, "a": run}), now=NOW)
    assert "terminated" in status["containerStatuses"][0]["state"]


def test_the_run_before_is_remembered_under_its_own_number():
    before = Ended(1, 0, AT - 30, AT - 20, "Error")
    run = Run(Alive(AT), restarts=1, last=before, started=True, ready=True)
    (container,) = pod_status(POD, replace(SEEN, runs={"i": DONE, "a": run}), now=NOW)[
        "containerStatuses"
    ]
    assert container["containerID"] == "process://u/a/1"
    assert container["lastState"]["terminated"]["containerID"] == "process://u/a/0"


def test_readiness_gates_count():
    gated = {**POD, "spec": {**POD["spec"], "readinessGates": [{"conditionType": "Extra"}]}}
    status = pod_status(gated, SEEN, now=NOW)
    assert said(status)["Ready"] == ("False", "ReadinessGatesNotReady")
    assert said(status)["ContainersReady"] == ("True", "")
