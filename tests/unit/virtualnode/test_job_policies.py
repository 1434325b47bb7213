"""Failure policy, success policy and backoff of a Job."""

from __future__ import annotations

import pytest

from virtualnode.jobs.indexes import Indexes
from virtualnode.jobs.policies import Failures, match_failure, match_success


def failed(code: int, *, container="main", conditions=(), finished="2026-01-01T00:00:10Z"):
    state = {"terminated": {"exitCode": code, "finishedAt": finished}}
    return {
        "metadata": {"namespace": "ns", "name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {
            "phase": "Failed",
            "conditions": list(conditions),
            "containerStatuses": [{"name": container, "state": state}],
        },
    }


def policy(*rules):
    return {"rules": list(rules)}


def codes(action, operator, *values, **more):
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


DISRUPTED = {"type": "DisruptionTarget", "status": "True"}


def test_without_a_policy_every_failure_counts():
    assert match_failure(None, failed(1)).counts


@pytest.mark.parametrize(
    ("rules", "pod", "counts", "message"),
    [
        ([codes("Ignore", "In", 3)], failed(3), False, ""),
        ([codes("Ignore", "In", 3)], failed(4), True, ""),
        ([codes("Count", "In", 3), codes("Ignore", "In", 3)], failed(3), True, ""),
        ([codes("Ignore", "In", 3, containerName="other")], failed(3), True, ""),
        (
            [codes("Ignore", "In", 9), codes("FailJob", "NotIn", 40)],
            failed(3),
            True,
            "Container main for pod ns/p failed with exit code 3 matching FailJob rule at index 1",
        ),
        ([codes("FailJob", "NotIn", 40)], failed(0), True, ""),
        (
            [{"action": "Ignore", "onPodConditions": [DISRUPTED]}],
            failed(1, conditions=[DISRUPTED]),
            False,
            "",
        ),
        (
            [{"action": "FailJob", "onPodConditions": [DISRUPTED]}],
            failed(1, conditions=[DISRUPTED]),
            True,
            "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 0",
        ),
    ],
)
def test_the_first_rule_that_matches_decides(rules, pod, counts, message):
    found = match_failure(policy(*rules), pod)
    assert (found.counts, found.fails_job) == (counts, message)


@pytest.mark.parametrize(
    ("rule", "succeeded", "met"),
    [
        ({"succeededIndexes": "0,2"}, [0, 2], True),
        ({"succeededIndexes": "0,2"}, [0, 1], False),
        ({"succeededIndexes": "0-3", "succeededCount": 2}, [1, 3], True),
        ({"succeededIndexes": "0-3", "succeededCount": 2}, [1, 5], False),
        ({"succeededCount": 2}, [4, 5], True),
        ({"succeededCount": 2}, [4], False),
        ({"succeededIndexes": "0"}, [], False),
    ],
)
def test_success_policy(rule, succeeded, met):
    found = match_success(policy(rule), Indexes.of(succeeded), completions=8)
    assert found == ("Matched rules at index 0" if met else "")


def test_failures_delay_the_next_pod_longer_and_longer_until_one_succeeds():
    failures = Failures()
    assert failures.remaining_s(now=0, base_s=10) == 0
    failures = failures.after([], [failed(1)])
    at = failures.last
    assert failures.remaining_s(now=at, base_s=10) == 10
    failures = failures.after([], [failed(1), failed(1)])
    assert failures.remaining_s(now=at, base_s=10) == 40
    assert failures.remaining_s(now=at + 41, base_s=10) == 0
    assert Failures(50, at).remaining_s(now=at, base_s=10) == 600
    success = failed(0, finished="2026-01-01T00:01:00Z")
    assert failures.after([success], []) == Failures()
    later = failed(1, finished="2026-01-01T00:02:00Z")
    assert failures.after([success], [failed(1), later]).count == 1
