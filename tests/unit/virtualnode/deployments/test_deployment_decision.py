"""What a Deployment does next and says of itself: templates, revisions, conditions."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from virtualnode.conditions import find, stamp
from virtualnode.deployments import claims, decision, revisions, templates
from virtualnode.deployments.sizes import DESIRED, MOST, Sized

Object = dict[str, Any]
NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
REVISION = revisions.REVISION


def deployment(version: int = 1, **spec: Any) -> Object:
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "d1", "generation": 4},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "progressDeadlineSeconds": 60,
            "revisionHistoryLimit": 10,
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": f"web:{version}"}]},
            },
            **spec,
        },
    }


def replica_set(
    version: int, replicas: int, *, revision: int, created: int = 0, **status: int
) -> Object:
    """A set of `deployment(version)`; its pods are there and available unless said otherwise."""
    annotations = {REVISION: str(revision), DESIRED: "2", MOST: "3"}
    made = templates.replica_set_of(deployment(version), replicas=replicas, annotations=annotations)
    made["metadata"].update(
        uid=f"s{version}",
        generation=1,
        creationTimestamp=stamp(NOW - timedelta(days=30 - version, seconds=created)),
    )
    made["status"] = {
        "replicas": replicas,
        "readyReplicas": replicas,
        "availableReplicas": replicas,
        "observedGeneration": 1,
        "terminatingReplicas": 0,
        **status,
    }
    return made


def said(status: Object, kind: str = "Progressing") -> tuple[str, str]:
    found = find(status["conditions"], kind)
    assert found is not None
    return found["status"], found["reason"]


# -- templates


def test_the_first_set() -> None:
    step = decision.decide(deployment(minReadySeconds=5), [], {}, now=NOW)
    made = step.make
    assert made is not None
    marked = made["metadata"]["labels"][templates.HASH_LABEL]
    assert made["metadata"]["name"] == f"web-{marked}"
    assert made["metadata"]["annotations"] == {REVISION: "1", DESIRED: "2", MOST: "3"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "d1"
    assert made["spec"]["selector"] == {"matchLabels": {"app": "web", templates.HASH_LABEL: marked}}
    assert made["spec"]["template"]["metadata"]["labels"] == made["metadata"]["labels"]
    assert (made["spec"]["replicas"], made["spec"]["minReadySeconds"]) == (2, 5)
    assert step.revision == "1"
    assert said(step.status) == ("True", "NewReplicaSetCreated")
    assert said(step.status, "Available") == ("False", "MinimumReplicasUnavailable")
    assert step.status["observedGeneration"] == 4


def test_the_hash_is_stable_and_tells_templates_and_collisions_apart() -> None:
    one, two = (deployment(version)["spec"]["template"] for version in (1, 2))
    assert templates.template_hash(one, 0) == templates.template_hash(copy.deepcopy(one), 0)
    assert templates.template_hash(one, 0) != templates.template_hash(two, 0)
    assert templates.template_hash(one, 0) != templates.template_hash(one, 1)
    assert len(templates.template_hash(one, 0)) == 10


def test_a_long_name_keeps_its_hash() -> None:
    long = deployment()
    long["metadata"]["name"] = "w" * 253
    made = templates.replica_set_of(long, replicas=1, annotations={})
    name, _, marked = made["metadata"]["name"].rpartition("-")
    assert (len(name) + 1 + len(marked), len(marked)) == (253, 10)


SAME = {
    "the hash": lambda t: t["metadata"]["labels"].update({templates.HASH_LABEL: "x"}),
    "a null": lambda t: t["metadata"].update(creationTimestamp=None),
    "an empty map": lambda t: t["metadata"].update(annotations={}),
    "an empty list": lambda t: t["spec"].update(volumes=[]),
}


@pytest.mark.parametrize("what", SAME)
def test_a_template_is_the_same_but_for(what: str) -> None:
    other = replica_set(1, 2, revision=1)
    SAME[what](other["spec"]["template"])
    assert templates.current(deployment(1), [other]) is other


def test_a_volume_without_options_is_not_nothing() -> None:
    other = replica_set(1, 2, revision=1)
    other["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    assert templates.current(deployment(1), [other]) is None


def test_of_two_sets_with_the_template_the_older_is_it() -> None:
    younger, older = replica_set(1, 2, revision=1), replica_set(1, 0, revision=1, created=60)
    older["metadata"]["name"] = "web-z"
    assert templates.current(deployment(1), [younger, older]) is older


# -- revisions


def test_going_back_gives_the_old_set_a_new_revision() -> None:
    sets = [replica_set(1, 0, revision=1), replica_set(2, 2, revision=2)]
    step = decision.decide(deployment(1), sets, {}, now=NOW)
    assert step.make is None
    (first,) = [each for each in step.change if each.seen is sets[0]]
    assert first.annotations[REVISION] == step.revision == "3"
    assert first.annotations[revisions.HISTORY] == "1"
    assert first.replicas == 1


@pytest.mark.parametrize(
    ("present", "old", "expected"),
    [
        ({}, [], {REVISION: "1"}),
        ({}, ["4", "x", ""], {REVISION: "5"}),
        ({REVISION: "7"}, ["4"], {REVISION: "7"}),
        ({REVISION: "2"}, ["4"], {REVISION: "5", revisions.HISTORY: "2"}),
        (
            {REVISION: "2", revisions.HISTORY: "1"},
            ["4"],
            {REVISION: "5", revisions.HISTORY: "1,2"},
        ),
        ({REVISION: "x"}, ["4"], {REVISION: "x"}),
    ],
)
def test_the_highest_revision(present: Object, old: list[str], expected: Object) -> None:
    others = [
        Sized.of({"metadata": {"name": f"o{i}", "annotations": {REVISION: r}}, "spec": {}})
        for i, r in enumerate(old)
    ]
    assert revisions.annotations_for(deployment(), present, others) == expected


def test_history_stays_short() -> None:
    history = ",".join(str(n) for n in range(1, 521))
    others = [Sized.of({"metadata": {"name": "o", "annotations": {REVISION: "900"}}, "spec": {}})]
    present = {REVISION: "899", revisions.HISTORY: history}
    kept = revisions.annotations_for(deployment(), present, others)[revisions.HISTORY]
    assert len(kept) <= 2000
    assert kept.endswith(",520,899")
    assert kept.split(",")[0].isdigit()


def test_the_deployments_own_annotations_are_copied_but_for_some() -> None:
    noted = deployment()
    noted["metadata"]["annotations"] = {
        "kubernetes.io/change-cause": "why",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        REVISION: "9",
        DESIRED: "9",
    }
    assert revisions.annotations_for(noted, {"kept": "1"}, []) == {
        "kept": "1", "kubernetes.io/change-cause": "why", REVISION: "1"
    }  # fmt: skip


def test_history_is_cut_when_all_is_done() -> None:
    sets = [replica_set(v, 0, revision=v) for v in (1, 2, 3)] + [replica_set(4, 2, revision=4)]
    sets[1]["metadata"]["annotations"][REVISION] = "12"  # gone back to and left again
    sets[2]["status"]["replicas"] = 1  # one of its pods is still there
    done = deployment(4, revisionHistoryLimit=1)
    done["status"] = {"conditions": []}
    step = decision.decide(done, [*sets[:2], sets[3]], {}, now=NOW)
    assert [each["metadata"]["uid"] for each in step.delete] == ["s1"]
    unlimited = deployment(4, revisionHistoryLimit=2**31 - 1)
    assert decision.decide(unlimited, [*sets[:2], sets[3]], {}, now=NOW).delete == ()
    running = decision.decide(done, sets, {}, now=NOW)
    assert running.delete == ()  # not all pods are new
    paused = decision.decide(deployment(4, revisionHistoryLimit=1, paused=True), sets, {}, now=NOW)
    assert [each["metadata"]["uid"] for each in paused.delete] == ["s1"]


# -- progress


def test_a_rollout_from_beginning_to_end() -> None:
    it = deployment()
    step = decision.decide(it, [], {}, now=NOW)
    it["status"] = step.status
    fresh = replica_set(1, 2, revision=1, readyReplicas=0, availableReplicas=0)
    at = NOW + timedelta(seconds=5)
    step = decision.decide(it, [fresh], {}, now=at)
    assert said(step.status) == ("True", "ReplicaSetUpdated")
    assert step.after_s == 61
    it["status"] = step.status
    assert decision.decide(it, [fresh], {}, now=at + timedelta(seconds=9)).status == step.status
    at += timedelta(seconds=10)
    done = replica_set(1, 2, revision=1)
    step = decision.decide(it, [done], {}, now=at)
    assert said(step.status) == ("True", "NewReplicaSetAvailable")
    assert said(step.status, "Available") == ("True", "MinimumReplicasAvailable")
    assert step.after_s is None
    assert step.status["updatedReplicas"] == step.status["availableReplicas"] == 2
    assert "unavailableReplicas" not in step.status
    progressing = find(step.status["conditions"], "Progressing")
    assert progressing is not None
    assert progressing["lastTransitionTime"] == stamp(NOW)
    assert progressing["lastUpdateTime"] == stamp(at)
    it["status"] = step.status
    assert decision.decide(it, [done], {}, now=at + timedelta(days=9)).status == step.status


def test_a_rollout_that_gets_stuck_is_late_and_may_still_end_well() -> None:
    it = deployment(2)
    sets = [
        replica_set(1, 2, revision=1),
        replica_set(2, 1, revision=2, readyReplicas=0, availableReplicas=0),
    ]
    it["status"] = decision.decide(it, sets, {}, now=NOW).status
    assert said(it["status"]) == ("True", "ReplicaSetUpdated")
    at = NOW + timedelta(seconds=60)
    assert decision.decide(it, sets, {}, now=at).status == it["status"]
    step = decision.decide(it, sets, {}, now=at + timedelta(seconds=1))
    assert said(step.status) == ("False", "ProgressDeadlineExceeded")
    assert said(step.status, "Available") == ("True", "MinimumReplicasAvailable")
    assert step.after_s is None
    it["status"] = step.status
    assert decision.decide(it, sets, {}, now=at + timedelta(hours=1)).status == step.status
    sets[1]["status"].update(readyReplicas=1, availableReplicas=1)
    assert said(decision.decide(it, sets, {}, now=at).status) == ("True", "ReplicaSetUpdated")


def test_without_a_deadline_nothing_is_said_of_progress() -> None:
    for spec in ({"progressDeadlineSeconds": 2**31 - 1}, {"progressDeadlineSeconds": None}):
        step = decision.decide(deployment(**spec), [replica_set(1, 2, revision=1)], {}, now=NOW)
        assert find(step.status["conditions"], "Progressing") is None
        assert step.after_s is None


def test_a_pause_holds_the_rollout_and_its_clock() -> None:
    it = deployment(2, paused=True)
    sets = [replica_set(1, 2, revision=1)]
    step = decision.decide(it, sets, {}, now=NOW)
    assert (step.make, step.change) == (None, ())
    assert said(step.status) == ("Unknown", "DeploymentPaused")
    assert step.after_s is None
    it["status"] = step.status
    it["spec"]["paused"] = False
    step = decision.decide(it, sets, {}, now=NOW + timedelta(hours=1))
    assert step.make is not None
    assert said(step.status) == ("True", "NewReplicaSetCreated")


def test_what_a_set_could_not_do_is_said_of_the_deployment() -> None:
    failing = replica_set(1, 2, revision=1, availableReplicas=0)
    failing["status"]["conditions"] = [
        {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreate",
            "message": "no quota",
            "lastTransitionTime": stamp(NOW),
        }
    ]
    it = deployment()
    it["status"] = decision.decide(it, [failing], {}, now=NOW).status
    assert said(it["status"], "ReplicaFailure") == ("True", "FailedCreate")
    healthy = decision.decide(it, [replica_set(1, 2, revision=1)], {}, now=NOW)
    assert find(healthy.status["conditions"], "ReplicaFailure") is None


def test_a_deployment_that_goes_away_only_counts() -> None:
    gone = deployment(2)
    gone["metadata"]["deletionTimestamp"] = stamp(NOW)
    step = decision.decide(gone, [replica_set(1, 2, revision=1)], {}, now=NOW)
    assert (step.make, step.change, step.delete) == (None, (), ())
    assert step.status["replicas"] == 2


# -- Recreate


def test_a_recreation_waits_for_the_last_old_pod_to_end() -> None:
    it = deployment(2, strategy={"type": "Recreate"})
    old = replica_set(1, 2, revision=1)
    step = decision.decide(it, [old], {}, now=NOW)
    assert [each.replicas for each in step.change] == [0]
    assert step.make is None
    emptied = replica_set(1, 0, revision=1)
    ending = {"metadata": {"name": "p", "deletionTimestamp": stamp(NOW)}, "status": {}}
    step = decision.decide(it, [emptied], {"s1": [ending]}, now=NOW)
    assert (step.make, step.change) == (None, ())
    ended = {**ending, "status": {"phase": "Failed"}}
    step = decision.decide(it, [emptied], {"s1": [ended]}, now=NOW)
    assert step.make is not None
    assert step.make["spec"]["replicas"] == 2


# -- whose is what


def owned(name: str, *, by: str = "", labels: Object | None = None, ending: bool = False) -> Object:
    metadata: Object = {"name": name, "namespace": "shop", "labels": labels or {"app": "web"}}
    if by:
        metadata["ownerReferences"] = [{"uid": by, "controller": True}]
    if ending:
        metadata["deletionTimestamp"] = stamp(NOW)
    return {"metadata": metadata}


def test_who_belongs_to_whom() -> None:
    objs = {
        "held": owned("held", by="d1"),
        "held ending": owned("held ending", by="d1", ending=True),
        "released": owned("released", by="d1", labels={"app": "other"}),
        "adopted": owned("adopted"),
        "ending": owned("ending", ending=True),
        "other": owned("other", labels={"app": "other"}),
        "foreign": owned("foreign", by="d2"),
    }
    it = claims.claim(deployment(), objs.values())
    assert it.held == (objs["held"], objs["held ending"])
    assert it.adopt == (objs["adopted"],)
    assert it.release == (objs["released"],)
    gone = deployment()
    gone["metadata"]["deletionTimestamp"] = stamp(NOW)
    assert claims.claim(gone, objs.values()) == claims.Claim(held=it.held)


@pytest.mark.parametrize(
    "selector", [None, {}, {"matchExpressions": [{"key": "a", "operator": "?"}]}]
)
def test_a_selector_that_says_nothing_selects_nothing(selector: Any) -> None:
    it = claims.claim(deployment(selector=selector), [owned("a"), owned("b", by="d1")])
    assert it == claims.Claim()
