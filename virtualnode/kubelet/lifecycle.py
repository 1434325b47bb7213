"""What to do next with the containers of a pod. Pure.

The order of containers, restarts and backoff of a kubelet (pkg/kubelet/kuberuntime): init
containers one by one, sidecars among them beside the rest, then all containers at once; whatever
ended is restarted as the pod's policy says, after a delay that doubles while it keeps ending.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Object = dict[str, Any]

LAST_BACKOFF_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not started; `reason` as `kubectl get pods` shows it."""

    reason: str = "PodInitializing"
    message: str = ""


@dataclass(frozen=True, slots=True)
class Alive:
    """Running since `since` (epoch seconds)."""

    since: float


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    signal: int
    since: float
    until: float
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """A container as it is now.

    `started` is whether it passed its startup probe (or has none), `ready` whether it serves;
    `delay_s` is the backoff after its next end, `hold` until when (epoch seconds) it may not be
    restarted.
    """

    state: Waiting | Alive | Ended = Waiting()
    restarts: int = 0
    last: Ended | None = None
    started: bool = False
    ready: bool = False
    delay_s: float = 0.0
    hold: float = 0.0

    def ended(self, how: Ended, *, base_s: float) -> Run:
        """After its process ended: the first restart is at once, later ones wait longer and
        longer, and a long good run makes up for it."""
        delay_s = self.delay_s
        if how.until - how.since >= 2 * LAST_BACKOFF_S:
            delay_s = 0.0
        longer_s = min(max(base_s, 2 * delay_s), LAST_BACKOFF_S)
        return replace(
            self, state=how, started=False, ready=False, hold=how.until + delay_s, delay_s=longer_s
        )

    def restarting(self) -> Run:
        """About to be started again, its last end remembered."""
        last = self.state if isinstance(self.state, Ended) else self.last
        return replace(self, restarts=self.restarts + 1, last=last, started=False, ready=False)


@dataclass(frozen=True, slots=True)
class Steps:
    """What comes next: containers to start, sidecars to stop, and when to look again whatever
    happens. `finished` is `Succeeded` or `Failed` once nothing is left to do."""

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    wake: float | None = None
    finished: str = ""


def next_steps(pod: Object, runs: Mapping[str, Run], *, now: float) -> Steps:
    """The next steps for a pod that is to run; `runs` has every container of it."""
    spec = pod["spec"]
    policy = spec.get("restartPolicy", "Always")
    start: list[str] = []
    holds: list[float] = []

    def begin(name: str) -> None:
        run = runs[name]
        if isinstance(run.state, Ended) and run.hold > now:
            holds.append(run.hold)
        else:
            start.append(name)

    # A main container that was ever started proves that initialization was done.
    initialized = any(not _untouched(runs[name]) for name in names(spec, "containers"))
    for container in spec.get("initContainers") or ():
        name, run = container["name"], runs[container["name"]]
        if is_sidecar(container):
            if not isinstance(run.state, Alive):
                begin(name)
            if not run.started and not initialized:
                return Steps(tuple(start), wake=_earliest(holds))
            continue
        if initialized or (isinstance(run.state, Ended) and run.state.code == 0):
            continue
        if isinstance(run.state, Ended) and policy == "Never":
            return _finish(spec, runs, "Failed")
        if not isinstance(run.state, Alive):
            begin(name)
        return Steps(tuple(start), wake=_earliest(holds))

    main = list(names(spec, "containers"))
    for name in main:
        run = runs[name]
        if isinstance(run.state, Waiting) or (
            isinstance(run.state, Ended) and _restarts(policy, run.state)
        ):
            begin(name)
    states = [runs[name].state for name in main]
    if all(isinstance(state, Ended) and not _restarts(policy, state) for state in states):
        bad = any(isinstance(state, Ended) and state.code != 0 for state in states)
        return _finish(spec, runs, "Failed" if bad else "Succeeded")
    return Steps(tuple(start), wake=_earliest(holds))


def phase(pod: Object, runs: Mapping[str, Run], steps: Steps) -> str:
    """The pod's phase (pkg/kubelet getPhase)."""
    if steps.finished:
        return steps.finished
    spec = pod["spec"]
    policy = spec.get("restartPolicy", "Always")
    main = [runs[name] for name in names(spec, "containers")]
    if any(isinstance(run.state, Waiting) and run.last is None for run in main):
        return "Pending"
    if any(isinstance(run.state, Alive) for run in main):
        return "Running"
    if any(
        isinstance(run.state, Waiting)
        or (isinstance(run.state, Ended) and _restarts(policy, run.state))
        for run in main
    ):
        return "Running"
    return "Running"  # sidecars still end


def names(spec: Object, field: str) -> Iterator[str]:
    for container in spec.get(field) or ():
        yield container["name"]


def is_sidecar(container: Object) -> bool:
    return container.get("restartPolicy") == "Always"


def sidecars(spec: Object) -> list[str]:
    """Init containers that run beside the others."""
    return [each["name"] for each in spec.get("initContainers") or () if is_sidecar(each)]


def _finish(spec: Object, runs: Mapping[str, Run], outcome: str) -> Steps:
    """Sidecars end before the pod does; they do not count in its outcome."""
    left = tuple(name for name in sidecars(spec) if isinstance(runs[name].state, Alive))
    return Steps(stop=left) if left else Steps(finished=outcome)


def _restarts(policy: str, state: Ended) -> bool:
    return policy == "Always" or (policy == "OnFailure" and state.code != 0)


def _untouched(run: Run) -> bool:
    return isinstance(run.state, Waiting) and run.restarts == 0 and run.last is None


def _earliest(moments: list[float]) -> float | None:
    return min(moments, default=None)
