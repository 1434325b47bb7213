"""The status of a pod, from what its containers do. Pure.

Follows pkg/kubelet `generateAPIPodStatus` and `status/generate.go`: phases, conditions and the
three states of a container, in the words that kubectl and controllers look for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from virtualnode import conditions
from virtualnode.conditions import stamp
from virtualnode.kubelet import lifecycle
from virtualnode.kubelet.lifecycle import Alive, Ended, Run, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

Object = dict[str, Any]

_OWN_CONDITIONS: Final = (
    "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """What the kubelet knows of a pod. `address` is "" before there is a sandbox; `reason` and
    `message` are the pod's own (`DeadlineExceeded`)."""

    phase: str
    runs: Mapping[str, Run]
    address: str = ""
    host_address: str = ""
    started: str = ""
    reason: str = ""
    message: str = ""
    runtime: str = ""


def pod_status(pod: Object, seen: Seen, *, now: datetime) -> Object:
    """The whole status; conditions that others wrote are kept."""
    spec, before = pod["spec"], pod.get("status") or {}
    status: Object = {"phase": seen.phase}
    if pod["metadata"].get("generation"):
        status["observedGeneration"] = pod["metadata"]["generation"]
    status["conditions"] = _conditions(pod, seen, now=now)
    if seen.reason:
        status["reason"] = seen.reason
    if seen.message:
        status["message"] = seen.message
    if seen.host_address:
        status["hostIP"] = seen.host_address
        status["hostIPs"] = [{"ip": seen.host_address}]
    if seen.address:
        status["podIP"] = seen.address
        status["podIPs"] = [{"ip": seen.address}]
    if seen.started:
        status["startTime"] = seen.started
    for field, kind in (
        ("initContainerStatuses", "initContainers"),
        ("containerStatuses", "containers"),
    ):
        if spec.get(kind):
            status[field] = [_container(pod, each, seen, now=now) for each in spec[kind]]
    status["qosClass"] = before.get("qosClass", "BestEffort")
    return status


# -- containers


def _container(pod: Object, container: Object, seen: Seen, *, now: datetime) -> Object:
    name = container["name"]
    run = seen.runs[name]
    serial = f"{pod['metadata']['uid']}/{name}/{run.restarts}"
    identity = f"{seen.runtime.partition(':')[0]}://{serial}"
    state, last = _states(pod, container, run, identity, seen, now=now)
    return {
        "name": name,
        "state": state,
        "lastState": last,
        "ready": run.ready,
        "restartCount": run.restarts,
        "image": container.get("image", ""),
        "imageID": "",
        "started": run.started and isinstance(run.state, Alive),
        **(
            {} if isinstance(run.state, Waiting) and not run.restarts else {"containerID": identity}
        ),
    }


def _states(
    pod: Object, container: Object, run: Run, identity: str, seen: Seen, *, now: datetime
) -> tuple[Object, Object]:
    """`state` and `lastState`."""
    last = _terminated(run.last, _previous(identity)) if run.last is not None else {}
    match run.state:
        case Alive(since):
            return {"running": {"startedAt": _time(since)}}, last
        case Waiting(reason, message):
            waiting = {"reason": reason}
            if message:
                waiting["message"] = message
            return {"waiting": waiting}, last
        case Ended() as ended:
            told = _terminated(ended, identity)
            backing_off = (
                seen.phase in ("Pending", "Running")
                and run.hold > now.timestamp()
                and _comes_back(pod, container, ended)
            )
            if not backing_off:
                return told, last
            metadata = pod["metadata"]
            delay_s = max(round(run.hold - ended.until), 1)
            message = (
                f"back-off {_duration(delay_s)} restarting failed container={container['name']} "
                f"pod={metadata['name']}_{metadata['namespace']}({metadata['uid']})"
            )
            return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}, told


def _comes_back(pod: Object, container: Object, ended: Ended) -> bool:
    policy = pod["spec"].get("restartPolicy", "Always")
    return (
        lifecycle.is_sidecar(container)
        or policy == "Always"
        or (policy == "OnFailure" and ended.code != 0)
    )


def _terminated(ended: Ended, identity: str) -> Object:
    told: Object = {"exitCode": ended.code}
    if ended.signal:
        told["signal"] = ended.signal
    told["reason"] = ended.reason
    if ended.message:
        told["message"] = ended.message
    told["startedAt"] = _time(ended.since)
    told["finishedAt"] = _time(ended.until)
    told["containerID"] = identity
    return {"terminated": told}


def _previous(identity: str) -> str:
    head, _, serial = identity.rpartition("/")
    return f"{head}/{max(int(serial) - 1, 0)}"


def _duration(seconds: int) -> str:
    """As Go prints a duration of whole seconds: `40s`, `2m40s`, `5m0s`."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _time(moment: float) -> str:
    from_epoch = conditions.moment(moment)
    return stamp(from_epoch)


# -- conditions


def _conditions(pod: Object, seen: Seen, *, now: datetime) -> list[Object]:
    present = (pod.get("status") or {}).get("conditions") or []
    settled: list[Object] = []
    for wanted in _wanted(pod, seen):
        condition: Object = {"lastProbeTime": None, **wanted}
        old = conditions.find(present, wanted["type"])
        kept = [] if old is None else [{**old, "reason": None, "message": None}]
        fresh = conditions.settle(kept, condition, now=now)[0]
        settled.append(
            {
                key: value
                for key, value in fresh.items()
                if value is not None or key == "lastProbeTime"
            }
        )
    scheduled = conditions.find(present, "PodScheduled")
    if scheduled is not None:
        settled.append(scheduled)
    return settled + [each for each in present if each["type"] not in _OWN_CONDITIONS]


def _wanted(pod: Object, seen: Seen) -> Iterator[Object]:
    spec = pod["spec"]
    running = bool(seen.address) and seen.phase not in ("Succeeded", "Failed")
    yield _condition("PodReadyToStartContainers", running)
    yield _initialized(spec, seen)
    unready = _unready(spec, seen)
    if seen.phase in ("Succeeded", "Failed"):
        reason = "PodCompleted" if seen.phase == "Succeeded" else "PodFailed"
        yield _condition("Ready", False, reason)
        yield _condition("ContainersReady", False, reason)
        return
    gates = [
        gate["conditionType"]
        for gate in spec.get("readinessGates") or ()
        if not conditions.is_true(pod, gate["conditionType"])
    ]
    if unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        yield _condition("Ready", False, "ContainersNotReady", message)
        yield _condition("ContainersReady", False, "ContainersNotReady", message)
        return
    if gates:
        message = f'corresponding condition of pod readiness gate "{gates[0]}" does not exist.'
        yield _condition("Ready", False, "ReadinessGatesNotReady", message)
    else:
        yield _condition("Ready", True)
    yield _condition("ContainersReady", True)


def _initialized(spec: Object, seen: Seen) -> Object:
    if seen.phase == "Succeeded":
        return _condition("Initialized", True, "PodCompleted")
    incomplete = []
    for container in spec.get("initContainers") or ():
        run = seen.runs[container["name"]]
        if lifecycle.is_sidecar(container):
            done = run.started
        else:
            done = isinstance(run.state, Ended) and run.state.code == 0
        if not done:
            incomplete.append(container["name"])
    main = [seen.runs[name] for name in lifecycle.names(spec, "containers")]
    if not incomplete or any(not isinstance(run.state, Waiting) or run.restarts for run in main):
        return _condition("Initialized", True)
    message = f"containers with incomplete status: [{' '.join(incomplete)}]"
    return _condition("Initialized", False, "ContainersNotInitialized", message)


def _unready(spec: Object, seen: Seen) -> list[str]:
    counted: Sequence[str] = [*lifecycle.sidecars(spec), *lifecycle.names(spec, "containers")]
    return [name for name in counted if not seen.runs[name].ready]


def _condition(kind: str, status: bool, reason: str = "", message: str = "") -> Object:
    told: Object = {"type": kind, "status": "True" if status else "False"}
    if reason:
        told["reason"] = reason
    if message:
        told["message"] = message
    return told
