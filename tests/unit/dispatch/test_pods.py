"""Pods as a kind of workload: the shard, what follows later, and what the fleet's Pod shows."""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.dispatch.acts import Hold, Meet, Open, Remove, Renew
from fleet.dispatch.decisions import decide
from fleet.dispatch.pods import PODS
from fleet.dispatch.pods.following import patch_of
from fleet.dispatch.pods.sight import shard_view
from fleet.dispatch.record import Debt, Record, Shard
from fleet.dispatch.shape import Terms
from fleet.dispatch.sight import Sight, pod_view
from fleet.dispatch.situation import Situation
from fleet.kube import defaults
from fleet.kube.patch import apply_patch

NOW = datetime(2026, 11, 29, tzinfo=UTC).timestamp()
EAST = Shard("east", 0, 1, first=0, count=1, state="Running")
TERMS = Terms(
    fleet="f1ee", deadline_s=30, backoff_limit=0, whole=True, global_index=False,
    priority_class="fleet-hold", names_from=lambda _: [],
)  # fmt: skip
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def workload(name="web", *, metadata=None, status=None, **spec):
    obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [{"name": "main", "image": "x"}], **spec},
    }
    made = defaults.create(
        "", "v1", "Pod", obj, namespace="payments", now=datetime.fromtimestamp(NOW, UTC),
        uid="5b0c1a4e", random=random.Random(1),
    )  # fmt: skip
    if status:
        made["status"] = status
    return PODS.read(made)


def shard(of=None, *, status=None, **metadata):
    """The shard as its member has it."""
    pod = PODS.shape(of or workload(), EAST, TERMS)
    pod["metadata"] |= {"uid": "there", "resourceVersion": "7", "generation": 1, **metadata}
    pod["spec"]["nodeName"] = "n1"
    pod["status"] = status or {"phase": "Running", "podIP": "10.0.0.7"}
    return pod


def sight(pod):
    return Sight("east", reached=True, view=shard_view(pod), pods=(pod_view(pod),))


def condition(obj, kind):
    found = (obj.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind), None)


# -- its shard


def test_the_shard_is_the_users_pod_at_a_gate():
    pod = PODS.shape(workload(metadata={"labels": {"app": "web"}}), EAST, TERMS)
    assert pod["metadata"]["name"] == "web-g1-east"
    assert pod["metadata"]["labels"]["app"] == "web"
    spec = pod["spec"]
    assert spec["volumes"][-1]["configMap"] == {"name": "web-g1-east.pod-gate"}
    assert spec["hostname"] == "web"
    assert spec["priorityClassName"] == "fleet-hold"
    assert "activeDeadlineSeconds" not in spec


def test_its_gate_is_not_that_of_a_job_of_the_same_name(make_job):
    job = make_job("web")
    name = EAST.name("web")
    assert job.kind.gate_name(name) != PODS.gate_name(name)


@pytest.mark.parametrize(
    ("spec", "field", "there"),
    [
        ({"nodeName": "n1.east"}, "nodeName", "n1"),
        ({"nodeName": "n1.west"}, "nodeName", None),
        ({"schedulingGates": [{"name": "a"}]}, "schedulingGates", None),
        ({"hostname": "mine"}, "hostname", "mine"),
    ],
)
def test_what_is_the_members_to_decide_is_not_carried(spec, field, there):
    assert PODS.shape(workload(**spec), EAST, TERMS)["spec"].get(field) == there


def test_nodes_of_an_affinity_are_named_as_their_member_does():
    fields = {"key": "metadata.name", "operator": "In", "values": ["n1.east", "n1.west"]}
    labels = {"key": "zone", "operator": "In", "values": ["a.east"]}
    term = {"matchFields": [fields], "matchExpressions": [labels]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}],
        }
    }
    of = workload(affinity=affinity)
    there = PODS.shape(of, EAST, TERMS)["spec"]["affinity"]["nodeAffinity"]
    (required,) = there["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (preferred,) = there["preferredDuringSchedulingIgnoredDuringExecution"]
    for each in (required, preferred["preference"]):
        assert each["matchFields"][0]["values"] == ["n1", "n1.west"]
        assert each["matchExpressions"] == [labels]
    assert of.spec["affinity"] == affinity


def test_a_name_that_is_no_host_name_is_none():
    assert "hostname" not in PODS.shape(workload("web.v1"), EAST, TERMS)["spec"]


def test_marks_of_the_fleet_are_not_the_users():
    labels = {"fleet.dev/cluster": "west", "fleet.dev/shard": "another"}
    metadata = PODS.shape(workload(metadata={"labels": labels}), EAST, TERMS)["metadata"]
    assert metadata["labels"]["fleet.dev/shard"] == "web-g1-east"
    assert "fleet.dev/cluster" not in metadata["labels"]


# -- what follows


def applied(pod, patch):
    return apply_patch("application/merge-patch+json", pod, orjson.dumps(patch), schema=None)


def test_a_shard_as_it_was_made_has_nothing_to_follow():
    of = workload(metadata={"labels": {"a": "1"}, "annotations": {"b": "2", LAST_APPLIED: "{}"}})
    assert patch_of(of.obj, shard(of)) is None


keys = st.sampled_from(["a", "b", "c", "fleet.dev/shard", "app.kubernetes.io/managed-by"])
marks = st.dictionaries(keys, st.sampled_from(["1", "2"]))


@given(before=marks, after=marks, others=st.dictionaries(st.sampled_from("xyz"), st.just("0")))
def test_marks_follow_and_others_stay(before, after, others):
    of = workload(metadata={"labels": dict(before), "annotations": dict(before)})
    there = shard(of)
    ours = {k: v for k, v in there["metadata"]["labels"].items() if k not in before}
    for field in ("labels", "annotations"):
        there["metadata"][field] |= others
    changed = deepcopy(of.obj)
    changed["metadata"] |= {"labels": dict(after), "annotations": dict(after)}
    patch = patch_of(changed, there)
    follows = there if patch is None else applied(there, patch)
    users = {k: v for k, v in after.items() if "/" not in k}
    assert {k: follows["metadata"]["labels"].get(k) for k in "abc" if k in users} == users
    assert not {"a", "b", "c"} & follows["metadata"]["labels"].keys() - users.keys()
    for field in ("labels", "annotations"):
        assert others.items() <= follows["metadata"][field].items()
    assert ours.items() <= follows["metadata"]["labels"].items()
    assert patch_of(changed, follows) is None


def test_of_the_spec_what_may_change_follows():
    of = workload(tolerations=[{"key": "a", "operator": "Exists"}])
    there = shard(of)
    there["spec"]["tolerations"].append({"key": "members-own", "operator": "Exists"})
    changed = deepcopy(of.obj)
    changed["spec"]["containers"][0]["image"] = "y"
    changed["spec"]["activeDeadlineSeconds"] = 60
    changed["spec"]["tolerations"].append({"key": "b", "operator": "Exists"})
    follows = applied(there, patch_of(changed, there))
    spec = follows["spec"]
    assert spec["containers"][0] == {**there["spec"]["containers"][0], "image": "y"}
    assert spec["activeDeadlineSeconds"] == 60
    assert [each["key"] for each in spec["tolerations"]] == ["a", "members-own", "b"]
    assert patch_of(changed, follows) is None


def test_a_note_of_what_was_brought_that_cannot_be_read_takes_nothing_away():
    of = workload()
    there = shard(of)
    there["metadata"]["annotations"]["fleet.dev/carried"] = "[1"
    there["metadata"]["labels"]["a"] = "1"
    assert patch_of(of.obj, there) is None
    of.obj["metadata"]["labels"] = {"b": "2"}
    follows = applied(there, patch_of(of.obj, there))
    assert follows["metadata"]["labels"].items() >= {"a": "1", "b": "2"}.items()


# -- what it shows


def fold(of, record, sights=None):
    return PODS.fold(of, record, sights or {}, now=NOW)


RUNNING = Record(generation=1, phase="Running", since=NOW, shards=(EAST,), fencing="Confirmed")


def test_once_placed_it_shows_what_the_member_says():
    pod = shard(status={"phase": "Running", "podIP": "10.0.0.7", "nominatedNodeName": "n2"})
    pod["spec"]["ephemeralContainers"] = [{"name": "look"}]
    shown = fold(workload(), RUNNING, {"east": sight(pod)})
    assert shown["status"]["podIP"] == "10.0.0.7"
    assert shown["status"]["nominatedNodeName"] == "n2.east"
    assert shown["spec"]["nodeName"] == "n1.east"
    assert shown["spec"]["ephemeralContainers"] == [{"name": "look"}]
    assert shown["metadata"]["labels"] == {"fleet.dev/cluster": "east"}
    assert shown["spec"]["containers"] == workload().spec["containers"]
    again = fold(PODS.read(shown), RUNNING, {"east": sight(pod)})
    assert again == shown


def test_what_was_observed_is_told_of_the_fleets_generations():
    """Else clients that wait for a generation wait for ever, or not at all."""
    of = workload()
    of.obj["metadata"]["generation"] = 5
    ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
    pod = shard(of, status={"phase": "Running", "observedGeneration": 1, "conditions": [ready]})
    shown = fold(of, RUNNING, {"east": sight(pod)})
    assert shown["status"]["observedGeneration"] == 5
    assert condition(shown, "Ready")["observedGeneration"] == 5
    changed = deepcopy(of.obj)
    changed["spec"]["containers"][0]["image"] = "y"
    behind = fold(PODS.read(changed), RUNNING, {"east": sight(pod)})
    assert behind["status"]["observedGeneration"] == 4
    pod["metadata"]["generation"] = 2
    unseen = fold(of, RUNNING, {"east": sight(pod)})
    assert unseen["status"]["observedGeneration"] == 4


def test_silence_keeps_what_was_shown_and_says_so():
    shown = fold(workload(), RUNNING, {"east": sight(shard())})
    lost = replace(EAST, lost_at=NOW, message="east does not answer: refused")
    silent = replace(RUNNING, shards=(lost,))
    kept = fold(PODS.read(shown), silent, {"east": Sight("east", why="timed out")})
    told = condition(kept, "fleet.dev/Reachable")
    assert told["message"] == "east does not answer: refused; shown as it was last"
    assert kept["status"]["podIP"] == "10.0.0.7"
    later = fold(PODS.read(kept), silent, {"east": Sight("east", why="another word")})
    assert later == kept


@pytest.mark.parametrize(
    ("record", "reason", "message"),
    [
        (Record(phase="Queued", message="no room"), "Unschedulable", "no room"),
        (
            Record(phase="Holding", shards=(replace(EAST, state="Holding"),)),
            "Unschedulable",
            "its place in east is being held: 0/2 nodes are available",
        ),
    ],
)
def test_while_it_waits_it_says_why(record, reason, message):
    refused = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
    pod = shard(status={"phase": "Pending", "conditions": [refused]})
    del pod["spec"]["nodeName"]
    shown = fold(workload(), record, {"east": sight(pod)})
    told = condition(shown, "PodScheduled")
    assert (told["status"], told["reason"], told["message"]) == ("False", reason, message)
    assert shown["status"]["phase"] == "Pending"
    assert "nodeName" not in shown["spec"]
    assert fold(PODS.read(shown), record, {"east": sight(pod)}) == shown


def test_nothing_is_said_before_anything_is_known():
    of = workload()
    assert fold(of, Record()) == of.obj


def test_an_end_that_was_written_down_counts_without_its_shard():
    record = replace(RUNNING, phase="Failed", reason="Evicted", message="the node was low on disk")
    of = workload(status={"phase": "Running"})
    shown = fold(of, record, {"east": Sight("east", reached=True)})
    assert (shown["status"]["phase"], shown["status"]["reason"]) == ("Failed", "Evicted")
    assert fold(PODS.read(shown), record, {"east": sight(shard())}) == shown


# -- what follows from what is seen


def decided(record, *sights, of=None, debts=None):
    seen = {each.cluster: each for each in sights}
    ask = (of or workload()).ask()
    return decide(Situation(ask=ask, record=record, now=NOW, sights=seen, debts=debts or {}))


def test_a_hold_has_no_lease_to_renew_and_is_committed_as_soon_as_it_stands():
    holding = Record(
        generation=1, phase="Holding", since=NOW, shards=(replace(EAST, state="Holding"),)
    )
    first = decided(holding, Sight("east", reached=True))
    assert [type(act) for act in first.acts] == [Hold]
    pod = shard(status={"phase": "Pending"})
    del pod["spec"]["nodeName"]
    waits = decided(holding, sight(pod))
    assert (waits.record.phase, waits.acts) == ("Holding", ())
    stands = decided(holding, sight(shard(status={"phase": "Pending"})))
    assert stands.record.phase == "Committed"


def test_what_runs_is_served_and_never_renewed():
    acts = decided(RUNNING, sight(shard())).acts
    assert [type(act) for act in acts] == [Meet, Open]
    assert not [act for act in acts if isinstance(act, Renew)]


def test_a_pod_whose_member_left_is_shown_as_lost_until_that_is_back():
    there = shard()
    there["status"]["containerStatuses"] = [{"name": "main", "ready": True}]
    shown = fold(workload(), RUNNING, {"east": sight(there)})
    left = fold(PODS.read(shown), RUNNING, {"east": Sight("east", member=False)})
    # kubectl prints the reason as the status of a pod that has one
    assert (left["status"]["phase"], left["status"]["reason"]) == ("Unknown", "MemberLeft")
    assert "no member of the fleet any more" in left["status"]["message"]
    assert condition(left, "Ready")["status"] == "False"
    assert [each["ready"] for each in left["status"]["containerStatuses"]] == [False]
    assert fold(PODS.read(left), RUNNING, {"east": Sight("east", member=False)}) == left
    assert fold(PODS.read(left), RUNNING, {"east": sight(there)})["status"] == shown["status"]


@pytest.mark.parametrize("silent", [Sight("east", why="x"), Sight("east", member=False)])
def test_silence_is_no_reason_to_move_it(silent):
    decision = decided(RUNNING, silent)
    assert decision.record.phase == "Running"
    assert decision.taken_s is None
    late = decide(
        Situation(ask=workload().ask(), record=RUNNING, now=NOW + 1e6, sights={"east": silent})
    )
    assert late.record.phase == "Running"


@pytest.mark.parametrize(
    ("seen", "taken_s"),
    [
        (Sight("east", reached=True), 0),
        (sight(shard(deletionTimestamp="x", deletionGracePeriodSeconds=30)), 30),
        (
            sight(
                shard(
                    status={"phase": "Failed"},
                    deletionTimestamp="x",
                    deletionGracePeriodSeconds=1,
                )
            ),
            1,
        ),
    ],
)
def test_what_is_taken_away_there_goes(seen, taken_s):
    decision = decided(RUNNING, seen)
    assert decision.taken_s == taken_s
    assert decision.record.phase == "Running"


@pytest.mark.parametrize(
    ("grace_s", "there", "removed"),
    [(30, None, [30]), (30, 30, []), (5, 30, [5]), (30, 5, []), (0, 30, [0])],
)
def test_the_time_to_end_is_passed_on_and_may_become_shorter(grace_s, there, removed):
    of = workload(nodeName="n1.east")
    of.obj["metadata"] |= {"deletionTimestamp": "x", "deletionGracePeriodSeconds": grace_s}
    marks = {} if there is None else {
        "deletionTimestamp": "x", "deletionGracePeriodSeconds": there}  # fmt: skip
    debt = Debt("east", "web-g1-east", 1, "Deleted", None)
    record = replace(RUNNING, shards=(), owed=(debt,))
    acts = decided(record, of=of, debts={("east", "web-g1-east"): sight(shard(**marks))}).acts
    assert [act.grace_s for act in acts if isinstance(act, Remove)] == removed


def test_one_that_never_had_a_place_leaves_the_time_open():
    of = workload()
    of.obj["metadata"] |= {"deletionTimestamp": "x", "deletionGracePeriodSeconds": 0}
    assert of.ask().grace_s is None
