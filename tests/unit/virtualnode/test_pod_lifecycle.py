"""Which containers start when, and what a pod comes to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from virtualnode.kubelet.lifecycle import Alive, Ended, Run, Steps, Waiting, next_steps, phase

NOW = 1000.0


def pod(*, init=(), policy="Always", main=("a",)):
    containers = [
        {"name": name.rstrip("+"), **({"restartPolicy": "Always"} if name.endswith("+") else {})}
        for name in init
    ]
    spec = {"restartPolicy": policy, "containers": [{"name": name} for name in main]}
    return {"spec": {**spec, "initContainers": containers}}


def ended(code: int = 0, *, until: float = NOW) -> Run:
    return Run(Ended(code, 0, until - 1, until, "x"), hold=until)


UP = Run(Alive(NOW), started=True, ready=True)
SLOW = Run(Alive(NOW))
NEW = Run()


@pytest.mark.parametrize(
    ("subject", "runs", "start"),
    [
        (pod(main="ab"), {"a": NEW, "b": NEW}, ("a", "b")),
        (pod(init="ij"), {"i": NEW, "j": NEW, "a": NEW}, ("i",)),
        (pod(init="ij"), {"i": SLOW, "j": NEW, "a": NEW}, ()),
        (pod(init="ij"), {"i": ended(), "j": NEW, "a": NEW}, ("j",)),
        (pod(init="ij"), {"i": ended(), "j": ended(), "a": NEW}, ("a",)),
        (pod(init="i"), {"i": ended(1), "a": NEW}, ("i",)),
        (pod(init=["s+", "i"]), {"s": NEW, "i": NEW, "a": NEW}, ("s",)),
        (pod(init=["s+", "i"]), {"s": SLOW, "i": NEW, "a": NEW}, ()),
        (pod(init=["s+", "i"]), {"s": UP, "i": NEW, "a": NEW}, ("i",)),
        (pod(init=["s+"]), {"s": ended(), "a": UP}, ("s",)),
        (pod(init=["s+"]), {"s": ended(1), "a": ended()}, ("s", "a")),
        (pod(), {"a": ended()}, ("a",)),
        (pod(policy="OnFailure", main="ab"), {"a": ended(), "b": ended(1)}, ("b",)),
        (pod(policy="Never", main="ab"), {"a": ended(1), "b": UP}, ()),
    ],
)
def test_what_starts_next(subject, runs, start):
    steps = next_steps(subject, runs, now=NOW)
    assert steps.start == start and not steps.finished


@pytest.mark.parametrize(
    ("subject", "runs", "outcome"),
    [
        (pod(policy="Never"), {"a": ended()}, "Succeeded"),
        (pod(policy="OnFailure"), {"a": ended()}, "Succeeded"),
        (pod(policy="Never", main="ab"), {"a": ended(), "b": ended(3)}, "Failed"),
        (pod(policy="Never", init="i"), {"i": ended(1), "a": NEW}, "Failed"),
        (pod(policy="Never", init=["s+"]), {"s": ended(137), "a": ended()}, "Succeeded"),
    ],
)
def test_when_a_pod_is_over(subject, runs, outcome):
    assert next_steps(subject, runs, now=NOW).finished == outcome


def test_sidecars_end_after_the_others():
    subject = pod(policy="Never", init=["s+"])
    steps = next_steps(subject, {"s": UP, "a": ended()}, now=NOW)
    assert steps == Steps(stop=("s",))


def test_a_container_that_keeps_ending_waits_longer_and_longer():
    run, at = UP, NOW
    waits = []
    for _ in range(8):
        run = run.ended(Ended(1, 0, at, at + 1, "Error"), base_s=10)
        assert isinstance(run.state, Ended)
        waits.append(run.hold - run.state.until)
        at = run.hold
        run = replace(run.restarting(), state=Alive(at))
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]
    assert run.restarts == 8 and run.last is not None

    steady = run.ended(Ended(1, 0, at, at + 700, "Error"), base_s=10)
    assert steady.hold == at + 700, "a long run makes up for it"


def test_the_wait_is_told_and_kept():
    held = replace(ended(1), hold=NOW + 20)
    steps = next_steps(pod(), {"a": held}, now=NOW)
    assert steps.start == () and steps.wake == NOW + 20
    assert next_steps(pod(), {"a": held}, now=NOW + 20).start == ("a",)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ({"a": NEW, "b": UP}, "Pending"),
        ({"a": UP, "b": UP}, "Running"),
        ({"a": ended(1), "b": UP}, "Running"),
        ({"a": replace(NEW, last=ended(1).state), "b": UP}, "Running"),
    ],
)
def test_the_phase(runs, expected):
    subject = pod(main="ab")
    assert phase(subject, runs, next_steps(subject, runs, now=NOW)) == expected


def test_waiting_says_why():
    assert Waiting().reason == "PodInitializing"
