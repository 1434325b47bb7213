"""Pods of a Job: made from the template, numbered, and read again."""

from __future__ import annotations

from virtualnode.jobs import pods


def job(*, mode="Indexed", name="train", **spec):
    template = {
        "metadata": {"labels": {"app": "x"}, "annotations": {}},
        "spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ns", "uid": "u"},
        "spec": {"completionMode": mode, "completions": 4, "template": template, **spec},
    }


def variables(pod):
    return {each["name"]: each for each in pod["spec"]["containers"][0]["env"]}


def test_a_pod_without_an_index():
    pod = pods.pod_for(job(mode="NonIndexed"), None)
    assert pod["metadata"]["generateName"] == "train-"
    assert pod["metadata"]["finalizers"] == [pods.FINALIZER]
    assert pod["metadata"]["labels"] == {"app": "x"}
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", "u", True)
    assert "hostname" not in pod["spec"] and set(variables(pod)) == {"A"}


def test_an_indexed_pod_knows_its_index():
    pod = pods.pod_for(job(), 3)
    assert pod["metadata"]["generateName"] == "train-3-"
    assert pod["spec"]["hostname"] == "train-3"
    assert pod["metadata"]["labels"][pods.INDEX] == "3"
    assert pods.index_of(pod) == 3
    reference = variables(pod)["JOB_COMPLETION_INDEX"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert reference == f"metadata.labels['{pods.INDEX}']"


def test_the_template_is_not_changed():
    subject = job()
    before = repr(subject)
    pods.pod_for(subject, 0)
    assert repr(subject) == before


def test_an_index_of_the_templates_own_stays():
    subject = job()
    own = {"name": "JOB_COMPLETION_INDEX", "value": "mine"}
    subject["spec"]["template"]["spec"]["containers"][0]["env"].append(own)
    assert variables(pods.pod_for(subject, 1))["JOB_COMPLETION_INDEX"] == own


def test_a_long_name_leaves_room_for_the_index():
    made = pods.pod_for(job(name="n" * 63), 123)["metadata"]["generateName"]
    assert made.endswith("-123-") and len(made) == 58


def test_the_least_wanted_pods_go_first():
    def pod(name, *, node="n", phase="Running", ready=True, created="2026-01-01T00:00:00Z"):
        condition = {"type": "Ready", "status": str(ready)}
        return {
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"nodeName": node},
            "status": {"phase": phase, "conditions": [condition]},
        }

    ordered = pods.least_wanted_first([
        pod("good"),
        pod("younger", created="2026-01-02T00:00:00Z"),
        pod("unready", ready=False),
        pod("pending", phase="Pending"),
        pod("unbound", node=""),
    ])  # fmt: skip
    assert [each["metadata"]["name"] for each in ordered] == [
        "unbound", "pending", "unready", "younger", "good",
    ]  # fmt: skip
