from __future__ import annotations

import copy
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadRequest, Invalid
from fleet.kube.defaults import (
    GENERATION_FIELDS,
    create,
    generate_name,
    is_unchanged,
    mark_deleted,
    prepare_create,
    prepare_update,
    update,
)
from fleet.kube.schema.documents import structural_schema

Object = dict[str, Any]

NOW = datetime(2024, 5, 6, 7, 8, 9, 654321, UTC)
UID = "6a3f0b1e-0000-4000-8000-000000000000"


def made(group: str, kind: str, body: Object, *, namespace: str = "default", **how: Any) -> Object:
    body = {"metadata": {"name": "x"}, **body}
    return create(
        group, "v1", kind, body,
        namespace=namespace, now=NOW, uid=UID, random=random.Random(1), **how,
    )  # fmt: skip


def job(**spec: Any) -> Object:
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "a", "image": "a", "resources": {}}],
    }
    return {"spec": {"template": {"spec": pod}, **spec}}


def test_a_generated_name_is_unambiguous_and_fits() -> None:
    name = generate_name("web-", random=random.Random(3))
    assert name.startswith("web-") and len(name) == 9
    assert set(name[4:]) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert len(generate_name("a" * 100, random=random.Random(3))) == 63
    assert generate_name("a", random=random.Random(3)) == generate_name(
        "a", random=random.Random(3)
    )


def test_the_server_owns_identity_and_times() -> None:
    mine = {
        "name": "x", "uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z", "generation": 9,
        "deletionTimestamp": "2000-01-01T00:00:00Z", "selfLink": "/x", "managedFields": [{}],
    }  # fmt: skip
    metadata = made("", "ConfigMap", {"metadata": mine})["metadata"]
    assert metadata == {
        "name": "x", "namespace": "default", "uid": UID,
        "creationTimestamp": "2024-05-06T07:08:09Z",
        "generation": 9,  # the server's only in kinds that count it
    }  # fmt: skip
    assert made("batch", "Job", job() | {"metadata": mine})["metadata"]["generation"] == 1


def test_a_new_job_selects_its_own_pods_and_nobody_elses() -> None:
    stored = made("batch", "Job", job())
    labels = stored["spec"]["template"]["metadata"]["labels"]
    assert labels == {
        "job-name": "x", "batch.kubernetes.io/job-name": "x",
        "controller-uid": UID, "batch.kubernetes.io/controller-uid": UID,
    }  # fmt: skip
    assert stored["spec"]["selector"] == {
        "matchLabels": {"batch.kubernetes.io/controller-uid": UID}
    }
    assert stored["metadata"]["generation"] == 1
    assert stored["status"] == {}
    stored["metadata"]["labels"]["changed"] = "yes"
    assert "changed" not in labels


def test_a_name_is_generated_where_none_is_given() -> None:
    stored = made("", "ConfigMap", {"metadata": {"generateName": "cm-"}})
    assert stored["metadata"]["name"].startswith("cm-")
    named = made("", "Namespace", {"metadata": {"generateName": "ns-"}}, namespace="")
    metadata = named["metadata"]
    assert metadata["labels"] == {"kubernetes.io/metadata.name": metadata["name"]}


def test_a_foreign_namespace_or_a_revision_is_refused() -> None:
    with pytest.raises(BadRequest, match="does not match the namespace"):
        made("", "ConfigMap", {"metadata": {"name": "x", "namespace": "other"}})
    with pytest.raises(BadRequest, match="resourceVersion"):
        made("", "ConfigMap", {"metadata": {"name": "x", "resourceVersion": "1"}})
    cluster = made("", "Namespace", {"metadata": {"name": "x", "namespace": "y"}}, namespace="")
    assert "namespace" not in cluster["metadata"]


def test_status_is_not_for_creators() -> None:
    assert made("batch", "Job", {**job(), "status": {"active": 3}})["status"] == {}
    gated = made(
        "", "Pod",
        {"spec": {**job()["spec"]["template"]["spec"], "schedulingGates": [{"name": "a.b/c"}]}},
    )  # fmt: skip
    assert gated["status"]["phase"] == "Pending"
    assert gated["status"]["conditions"][0]["reason"] == "SchedulingGated"


def changed(old: Object, change: Object, **how: Any) -> Object:
    new = copy.deepcopy(old)
    for section, fields in change.items():
        new.setdefault(section, {}).update(fields)
    return update(
        how.pop("group", "batch"), "v1", how.pop("kind", "Job"), new, old,
        namespace="default", **how,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "generation"),
    [
        ({"spec": {"parallelism": 2}}, 2),
        ({"metadata": {"labels": {"a": "b"}}}, 1),
        ({"metadata": {"annotations": {"a": "b"}}}, 1),
        ({"metadata": {"generation": 7}}, 1),
        ({"status": {"active": 1}}, 1),
        ({}, 1),
    ],
)
def test_only_the_spec_makes_a_new_generation(change: Object, generation: int) -> None:
    old = made("batch", "Job", job())
    new = changed(old, change)
    assert new["metadata"]["generation"] == generation
    assert new["status"] == old["status"]


def test_annotations_count_for_deployments() -> None:
    pod = {"containers": [{"name": "a", "image": "a", "resources": {}}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    body = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    old = made("apps", "Deployment", body)
    how = {"group": "apps", "kind": "Deployment"}
    assert (
        changed(old, {"metadata": {"annotations": {"x": "y"}}}, **how)["metadata"]["generation"]
        == 2
    )
    assert changed(old, {"metadata": {"labels": {"x": "y"}}}, **how)["metadata"]["generation"] == 1


def test_a_status_write_leaves_the_spec_alone() -> None:
    old = made("batch", "Job", job())
    change = {"status": {"active": 2}, "spec": {"parallelism": 9}}
    new = changed(old, change, subresource="status")
    assert (new["status"], new["spec"]) == ({"active": 2}, old["spec"])
    assert new["metadata"]["generation"] == 1


def test_a_write_that_changes_nothing_is_recognised() -> None:
    old = made("batch", "Job", job())
    old["metadata"]["resourceVersion"] = "5"
    again = copy.deepcopy(old)
    again["metadata"]["resourceVersion"] = "6"
    again["metadata"]["managedFields"] = [{"time": "later"}]
    assert is_unchanged(update("batch", "v1", "Job", again, old, namespace="default"), old)
    assert not is_unchanged(changed(old, {"metadata": {"labels": {"a": "b"}}}), old)


def test_an_update_keeps_what_the_server_owns() -> None:
    old = made("", "ConfigMap", {"data": {"a": "1"}})
    bare = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    new = update("", "v1", "ConfigMap", bare, old, namespace="default")
    assert new["metadata"] == old["metadata"]
    assert "data" not in new


@pytest.mark.parametrize("name", ["", "other"])
def test_an_update_needs_the_name_of_the_url(name: str) -> None:
    old = made("", "ConfigMap", {})
    with pytest.raises(BadRequest, match="the name of the object"):
        update("", "v1", "ConfigMap", {"metadata": {"name": name}}, old, namespace="default")


def test_a_deletion_time_is_neither_set_nor_removed_by_an_update() -> None:
    old = made("", "ConfigMap", {"metadata": {"name": "x", "finalizers": ["a.b/c"]}})
    with pytest.raises(Invalid, match=r"metadata\.deletionTimestamp"):
        changed(
            old, {"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}},
            group="", kind="ConfigMap",
        )  # fmt: skip
    marked = mark_deleted(old, now=NOW)
    assert "deletionTimestamp" not in old["metadata"]
    bare = {"metadata": {"name": "x", "finalizers": []}}
    kept = update("", "v1", "ConfigMap", bare, marked, namespace="default")
    assert kept["metadata"]["deletionTimestamp"] == "2024-05-06T07:08:09Z"
    assert not kept["metadata"]["finalizers"]
    with pytest.raises(Invalid, match="no new finalizers can be added"):
        update(
            "", "v1", "ConfigMap",
            {"metadata": {"name": "x", "finalizers": ["a.b/c", "d.e/f"]}}, marked,
            namespace="default",
        )  # fmt: skip


def test_marking_for_deletion_is_a_new_generation_once() -> None:
    old = made("batch", "Job", job())
    marked = mark_deleted(old, now=NOW, finalizers=["foregroundDeletion"])
    assert marked["metadata"]["generation"] == 2
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    later = mark_deleted(marked, now=NOW + timedelta(hours=1), finalizers=["foregroundDeletion"])
    assert later == marked


def test_a_grace_period_may_only_be_shortened() -> None:
    old = made("", "ConfigMap", {})
    marked = mark_deleted(old, now=NOW, grace_period_s=30)
    assert marked["metadata"]["deletionTimestamp"] == "2024-05-06T07:08:39Z"
    assert mark_deleted(marked, now=NOW, grace_period_s=60) == marked
    shorter = mark_deleted(marked, now=NOW, grace_period_s=5)
    assert shorter["metadata"]["deletionTimestamp"] == "2024-05-06T07:08:14Z"


CUSTOM = structural_schema(
    {"type": "object", "properties": {"spec": {"type": "object"}, "status": {"type": "object"}}}
)


def test_custom_resources_count_everything_but_metadata_and_status() -> None:
    old = made("example.com", "Thing", {"spec": {}, "extra": 1, "status": {"a": 1}}, schema=CUSTOM)
    assert "status" not in old
    how = {"group": "example.com", "kind": "Thing", "schema": CUSTOM}
    old["metadata"]["resourceVersion"] = "1"
    assert changed(old, {"spec": {"b": 1}}, **how)["metadata"]["generation"] == 2
    assert changed(old, {"metadata": {"labels": {"a": "b"}}}, **how)["metadata"]["generation"] == 1
    status = changed(
        old, {"status": {"a": 1}, "metadata": {"labels": {"a": "b"}}},
        subresource="status", **how,
    )  # fmt: skip
    assert status["status"] == {"a": 1}
    assert "labels" not in status["metadata"]


def test_without_a_status_subresource_status_is_a_field_like_any_other() -> None:
    thing = {"spec": {}, "status": {"a": 1}}
    stored = made("example.com", "Thing", thing, schema=CUSTOM, status_subresource=False)
    assert stored["status"] == {"a": 1}


def test_custom_resources_must_say_what_they_were_based_on() -> None:
    old = made("example.com", "Thing", {"spec": {}}, schema=CUSTOM)
    with pytest.raises(Invalid, match="must be specified for an update"):
        changed(old, {}, group="example.com", kind="Thing", schema=CUSTOM)


def test_the_registry_of_generations_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        GENERATION_FIELDS["", "ConfigMap"] = ()  # type: ignore[index]


metadata_drawn = st.fixed_dictionaries(
    {"name": st.just("x")},
    optional={
        "uid": st.just("forged"),
        "generation": st.integers(0, 9),
        "labels": st.dictionaries(st.sampled_from("ab"), st.sampled_from("cd")),
        "creationTimestamp": st.just("2000-01-01T00:00:00Z"),
        "selfLink": st.just("/x"),
    },
)


@given(metadata_drawn)
def test_preparing_looks_only_at_its_arguments(metadata: Object) -> None:
    body = {"kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}
    before = copy.deepcopy(body)
    first = prepare_create("", "v1", "ConfigMap", body, now=NOW, uid=UID)
    assert prepare_create("", "v1", "ConfigMap", body, now=NOW, uid=UID) == first
    second = prepare_update("", "v1", "ConfigMap", first, first)
    assert second == first
    assert body == before
