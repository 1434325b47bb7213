"""The Job controller's decisions: a Job worked through by a made-up cluster, and single looks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virtualnode import conditions
from virtualnode.jobs import pods as jobpods
from virtualnode.jobs.decision import decide, is_finished, settle
from virtualnode.jobs.policies import Failures

START = datetime(2026, 1, 1, tzinfo=UTC)
Object = dict[str, Any]


def job(*, mode="Indexed", policy="Never", **spec: Any) -> Object:
    wanted = {
        "completionMode": mode,
        "parallelism": 2,
        "completions": 2,
        "backoffLimit": 6,
        "template": {"metadata": {}, "spec": {"restartPolicy": policy, "containers": []}},
        **spec,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "uid": "job"},
        "spec": {key: value for key, value in wanted.items() if value is not None},
        "status": {},
    }


class Cluster:
    """What the controller's edge does with a plan, on plain objects; pods end when told."""

    def __init__(self, subject: Object) -> None:
        self.job = subject
        self.pods: dict[str, Object] = {}
        self.failures = Failures()
        self.now = START
        self.notes: list[str] = []
        self.look_again_s: float | None = None
        self._serial = 0

    def look(self, *, interrupted: bool = False) -> None:
        """One pass; the pods that were deleted go on ending until `vanish`. An interrupted pass
        breaks off after the first write of the status, before pods are released."""
        if is_finished(self.job):
            return
        pods = list(self.pods.values())
        plan = decide(self.job, pods, self.failures, now=self.now, base_s=10)
        self.failures = plan.failures
        self.look_again_s = plan.look_again_s
        for pod in plan.delete:
            self.pods[pod["metadata"]["uid"]]["metadata"]["deletionTimestamp"] = "soon"
        for index in plan.create:
            self._make(index)
        if interrupted:
            self.job = {**self.job, "status": plan.status}
            return
        for pod in plan.release:
            self.pods[pod["metadata"]["uid"]]["metadata"]["finalizers"] = []
        held = {uid for uid, pod in self.pods.items() if jobpods.is_tracked(pod)}
        ending = sum(map(jobpods.is_terminating, self.pods.values()))
        status, notes = settle(
            plan.status, held, finish=plan.finish, terminating=ending, now=self.now
        )
        self.job = {**self.job, "status": status}
        self.notes += [note.reason for note in (*plan.notes, *notes)]

    def settle(self) -> None:
        """Look until nothing changes."""
        for _ in range(50):
            before = (repr(self.job), repr(self.pods))
            self.look()
            if (repr(self.job), repr(self.pods)) == before:
                return
        raise AssertionError("the controller does not come to rest")

    def _make(self, index: int | None) -> None:
        self._serial += 1
        pod = jobpods.pod_for(self.job, index)
        stamp = conditions.stamp(self.now)
        pod["metadata"] |= {
            "uid": f"p{self._serial}", "name": f"p{self._serial}", "creationTimestamp": stamp,
        }  # fmt: skip
        pod["status"] = {"phase": "Pending"}
        self.pods[f"p{self._serial}"] = pod

    def end(self, uid: str, phase: str) -> None:
        at = conditions.stamp(self.now)
        code = 0 if phase == "Succeeded" else 1
        state = {"terminated": {"exitCode": code, "finishedAt": at}}
        self.pods[uid]["status"] = {
            "phase": phase, "containerStatuses": [{"name": "c", "state": state}],
        }  # fmt: skip

    def vanish(self) -> None:
        """Pods in deletion that nothing holds are gone."""
        for uid, pod in list(self.pods.items()):
            metadata = pod["metadata"]
            if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
                del self.pods[uid]

    @property
    def active(self) -> list[str]:
        return [uid for uid, pod in self.pods.items() if jobpods.is_active(pod)]

    @property
    def status(self) -> Object:
        found: Object = self.job["status"]
        return found

    @property
    def said(self) -> list[tuple[str, str, str]]:
        return [
            (each["type"], each["status"], each["reason"])
            for each in self.status.get("conditions") or ()
        ]


def started(subject: Object) -> Cluster:
    cluster = Cluster(subject)
    cluster.settle()
    return cluster


COMPLETED = [
    ("SuccessCriteriaMet", "True", "CompletionsReached"),
    ("Complete", "True", "CompletionsReached"),
]


def failure(reason: str) -> list[tuple[str, str, str]]:
    return [("FailureTarget", "True", reason), ("Failed", "True", reason)]


def test_an_indexed_job_from_beginning_to_end():
    cluster = started(job(completions=3, parallelism=2))
    assert [jobpods.index_of(pod) for pod in cluster.pods.values()] == [0, 1]
    assert cluster.status["active"] == 2 and cluster.status["startTime"] == "2026-01-01T00:00:00Z"

    cluster.end("p2", "Succeeded")
    cluster.settle()
    assert cluster.status["completedIndexes"] == "1"
    assert jobpods.index_of(cluster.pods["p3"]) == 2
    cluster.end("p1", "Succeeded")
    cluster.end("p3", "Succeeded")
    cluster.settle()

    status = cluster.status
    assert (status["succeeded"], status["completedIndexes"]) == (3, "0-2")
    assert "active" not in status and status["ready"] == 0 and status["terminating"] == 0
    assert status["uncountedTerminatedPods"] == {} and status["completionTime"]
    assert cluster.said == COMPLETED and cluster.notes == ["Completed"]
    assert not any(map(jobpods.is_tracked, cluster.pods.values()))


def test_without_indexes_successes_are_counted_by_pod():
    cluster = started(job(mode="NonIndexed", completions=3, parallelism=2))
    for uid in ("p1", "p2"):
        cluster.end(uid, "Succeeded")
    cluster.settle()
    assert cluster.status["succeeded"] == 2 and cluster.active == ["p3"]
    cluster.end("p3", "Succeeded")
    cluster.settle()
    assert cluster.said == COMPLETED


def test_a_work_queue_is_done_when_one_succeeded_and_none_is_left():
    cluster = started(job(mode="NonIndexed", completions=None, parallelism=3))
    cluster.end("p1", "Succeeded")
    cluster.settle()
    assert cluster.active == ["p2", "p3"], "nothing is begun after the first success"
    cluster.end("p2", "Failed")
    cluster.settle()
    assert not is_finished(cluster.job)
    cluster.end("p3", "Succeeded")
    cluster.settle()
    assert cluster.said == COMPLETED and cluster.status["succeeded"] == 2


def test_a_failed_pod_is_replaced_after_a_delay():
    cluster = started(job())
    cluster.end("p1", "Failed")
    cluster.settle()
    assert cluster.active == ["p2"] and cluster.status["failed"] == 1
    assert cluster.look_again_s == 10
    cluster.now += timedelta(seconds=10)
    cluster.settle()
    assert cluster.active == ["p2", "p3"]
    assert jobpods.index_of(cluster.pods["p3"]) == 0


def test_too_many_failures_end_the_job_once_its_pods_have_ended():
    cluster = started(job(backoffLimit=0))
    cluster.end("p1", "Failed")
    cluster.settle()
    assert cluster.said == [("FailureTarget", "True", "BackoffLimitExceeded")]
    assert cluster.status["terminating"] == 1 and "active" not in cluster.status
    cluster.vanish()
    cluster.settle()
    assert cluster.said == failure("BackoffLimitExceeded")
    assert cluster.status["failed"] == 2, "pods that were still running count as failed"
    assert "completionTime" not in cluster.status and cluster.notes == ["BackoffLimitExceeded"]


def test_restarts_in_place_count_against_the_limit():
    cluster = started(job(policy="OnFailure", backoffLimit=2))
    status = {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 2}]}
    cluster.pods["p1"]["status"] = status
    cluster.settle()
    assert cluster.said == [("FailureTarget", "True", "BackoffLimitExceeded")]


def test_a_deadline_ends_a_job_whose_pods_never_ran():
    cluster = started(job(activeDeadlineSeconds=15))
    assert cluster.look_again_s == 15
    cluster.now += timedelta(seconds=15)
    cluster.settle()
    cluster.vanish()
    cluster.settle()
    assert cluster.said == failure("DeadlineExceeded")
    assert cluster.pods == {} and cluster.status["failed"] == 2


def test_a_deadline_can_be_put_off_while_the_job_runs():
    cluster = started(job(activeDeadlineSeconds=15))
    cluster.now += timedelta(seconds=14)
    cluster.job["spec"]["activeDeadlineSeconds"] = 29
    cluster.settle()
    assert not is_finished(cluster.job) and cluster.look_again_s == 15


def test_a_suspended_job_has_no_pods_and_no_start_and_begins_anew():
    cluster = started(job(suspend=True, activeDeadlineSeconds=15))
    assert cluster.pods == {} and "startTime" not in cluster.status
    assert cluster.said == [("Suspended", "True", "JobSuspended")]
    cluster.now += timedelta(hours=1)
    cluster.job["spec"]["suspend"] = False
    cluster.settle()
    assert len(cluster.active) == 2 and cluster.status["startTime"] == "2026-01-01T01:00:00Z"
    assert cluster.said == [("Suspended", "False", "JobResumed")]
    cluster.job["spec"]["suspend"] = True
    cluster.settle()
    assert cluster.active == [] and cluster.notes == ["Suspended", "Resumed", "Suspended"]


def test_fewer_parallel_pods_the_least_wanted_go():
    cluster = started(job(mode="NonIndexed", completions=5, parallelism=3))
    for uid in ("p1", "p3"):
        ready = {"type": "Ready", "status": "True"}
        cluster.pods[uid]["status"] = {"phase": "Running", "conditions": [ready]}
    cluster.job["spec"]["parallelism"] = 2
    cluster.settle()
    assert cluster.active == ["p1", "p3"]


def test_a_second_pod_of_an_index_and_one_too_high_go():
    cluster = started(job(completions=3, parallelism=3))
    cluster.job["spec"] |= {"completions": 2, "parallelism": 2}
    cluster.settle()
    assert [jobpods.index_of(cluster.pods[uid]) for uid in cluster.active] == [0, 1]


@pytest.mark.parametrize(("replacement", "replaced"), [(None, True), ("Failed", False)])
def test_a_pod_in_deletion_is_replaced_at_once_or_when_it_has_ended(replacement, replaced):
    cluster = started(job(podReplacementPolicy=replacement))
    cluster.pods["p1"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.now += timedelta(seconds=60)
    cluster.settle()
    assert (len(cluster.active) == 2) is replaced
    cluster.end("p1", "Failed")
    cluster.now += timedelta(seconds=60)
    cluster.settle()
    assert len(cluster.active) == 2


def test_a_failure_policy_ends_the_job_at_once_and_spares_what_it_ignores():
    rule = {"operator": "In", "values": [1]}
    ignoring = started(
        job(backoffLimit=0, podFailurePolicy={"rules": [{"action": "Ignore", "onExitCodes": rule}]})
    )
    ignoring.end("p1", "Failed")
    ignoring.now += timedelta(seconds=60)
    ignoring.settle()
    assert len(ignoring.active) == 2 and not ignoring.status.get("failed")

    failing = started(job(podFailurePolicy={"rules": [{"action": "FailJob", "onExitCodes": rule}]}))
    failing.end("p2", "Failed")
    failing.settle()
    failing.vanish()
    failing.settle()
    assert failing.said == failure("PodFailurePolicy")


def test_a_success_policy_ends_the_job_before_all_indexes_are_done():
    cluster = started(job(successPolicy={"rules": [{"succeededIndexes": "0"}]}))
    cluster.end("p1", "Succeeded")
    cluster.settle()
    cluster.vanish()
    cluster.settle()
    assert cluster.said == [
        ("SuccessCriteriaMet", "True", "SuccessPolicy"),
        ("Complete", "True", "SuccessPolicy"),
    ]
    assert cluster.status["succeeded"] == 1 and not cluster.status.get("failed")


def test_a_job_in_deletion_makes_nothing_and_lets_its_pods_go():
    cluster = started(job())
    cluster.job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.end("p1", "Failed")
    cluster.now += timedelta(seconds=60)
    cluster.settle()
    assert len(cluster.pods) == 2 and not any(map(jobpods.is_tracked, cluster.pods.values()))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_every_end_is_counted_once_whatever_happens(data):
    """Random ends, deletions and passes: counts agree with what happened, and a Job that can end
    does."""
    indexed = data.draw(st.booleans())
    completions = data.draw(st.integers(1, 4))
    cluster = started(
        job(
            mode="Indexed" if indexed else "NonIndexed",
            completions=completions,
            parallelism=data.draw(st.integers(1, 4)),
            backoffLimit=3,
        )
    )
    failed = succeeded = 0
    for _ in range(60):
        if is_finished(cluster.job):
            break
        active = cluster.active
        if active:
            uid = data.draw(st.sampled_from(active))
            match data.draw(st.sampled_from(["Succeeded", "Failed", "delete", "wait"])):
                case "delete":
                    stamp = conditions.stamp(cluster.now)
                    cluster.pods[uid]["metadata"]["deletionTimestamp"] = stamp
                    failed += 1
                case "wait":
                    pass
                case phase:
                    cluster.end(uid, phase)
                    failed += phase == "Failed"
                    succeeded += phase == "Succeeded"
        cluster.look(interrupted=data.draw(st.booleans()))
        cluster.vanish()
        cluster.now += timedelta(seconds=data.draw(st.sampled_from([1, 700])))
    while not is_finished(cluster.job):
        for uid in cluster.active:
            cluster.end(uid, "Succeeded")
            succeeded += 1
        cluster.settle()
        cluster.vanish()
        cluster.now += timedelta(seconds=700)
    status = cluster.status
    assert status.get("succeeded", 0) == succeeded
    if cluster.said[-1][0] == "Complete":
        assert status.get("failed", 0) == failed and succeeded == completions
    else:
        assert status["failed"] >= failed > 3
    assert status["uncountedTerminatedPods"] == {}
    assert not any(map(jobpods.is_tracked, cluster.pods.values()))
