"""What goes along with a workload: found wherever a pod refers to it, copied without its past."""

from __future__ import annotations

from fleet.dispatch import carrying
from fleet.dispatch.carrying import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, Reference

POD = {
    "serviceAccountName": "runner",
    "imagePullSecrets": [{"name": "pull"}],
    "volumes": [
        {"name": "a", "configMap": {"name": "cm-volume"}},
        {"name": "b", "secret": {"secretName": "secret-volume"}},
        {
            "name": "c",
            "projected": {
                "sources": [
                    {"configMap": {"name": "cm-projected"}},
                    {"secret": {"name": "secret-projected"}},
                    {"serviceAccountToken": {"path": "token"}},
                ]
            },
        },
        {"name": "d", "emptyDir": {}},
        {"name": "e", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "secret-csi"}}},
        {"name": "f", "configMap": {"name": "kube-root-ca.crt"}},
    ],
    "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "cm-from"}}]}],
    "containers": [
        {
            "name": "main",
            "envFrom": [{"secretRef": {"name": "secret-from"}}],
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm-key", "key": "k"}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "secret-key", "key": "k"}}},
                {"name": "C", "value": "plain"},
                {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
        }
    ],
}


def test_everything_a_pod_refers_to_is_found():
    found = carrying.references(POD)
    assert {e.name for e in found if e.gvr == CONFIG_MAPS} == {
        "cm-volume", "cm-projected", "cm-from", "cm-key",
    }  # fmt: skip
    assert {e.name for e in found if e.gvr == SECRETS} == {
        "pull", "secret-volume", "secret-projected", "secret-csi", "secret-from", "secret-key",
    }  # fmt: skip
    assert {e.name for e in found if e.gvr == SERVICE_ACCOUNTS} == {"runner"}


def test_what_every_namespace_has_is_not_carried():
    assert carrying.references({"serviceAccountName": "default"}) == set()
    assert carrying.references({}) == set()


def test_a_service_account_brings_its_pull_secrets():
    account = {"imagePullSecrets": [{"name": "registry"}], "secrets": [{"name": "token"}]}
    assert carrying.pull_secrets(account) == {Reference(SECRETS, "registry")}


def source(**more):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "cfg",
            "namespace": "payments",
            "uid": "u1",
            "resourceVersion": "17",
            "creationTimestamp": "2026-11-29T00:00:00Z",
            "labels": {"app": "x"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "n"},
            "managedFields": [{}],
            "ownerReferences": [{"uid": "gateway's"}],
            "finalizers": ["gateway/x"],
        },
        "immutable": True,
        "data": {"a": "1"},
        **more,
    }


def test_a_copy_has_the_content_and_our_marks_and_nothing_of_the_gateways():
    copy = carrying.copy_of(source(), CONFIG_MAPS, fleet="f1e")
    assert copy == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "cfg",
            "namespace": "payments",
            "labels": {"app": "x", "app.kubernetes.io/managed-by": "fleet"},
            "annotations": {"note": "n", "fleet.dev/fleet": "f1e", "fleet.dev/copy-of": "u1"},
        },
        "data": {"a": "1"},
    }
    assert carrying.is_copy(copy, fleet="f1e")
    assert not carrying.is_copy(copy, fleet="another")
    assert not carrying.is_copy(source(), fleet="f1e")


def test_tokens_are_good_at_the_gateway_only():
    token = source(type="kubernetes.io/service-account-token", kind="Secret")
    assert carrying.copy_of(token, SECRETS, fleet="f1e") is None


def test_a_copy_follows_its_source_and_collects_owners():
    wanted = carrying.copy_of(source(), CONFIG_MAPS, fleet="f1e")
    present = {**wanted, "metadata": {**wanted["metadata"], "uid": "m", "resourceVersion": "3"}}
    owner = {"kind": "Job", "name": "train-g1-east", "uid": "j1"}
    assert carrying.updated(present, wanted, CONFIG_MAPS, owner=None) is None
    owned = carrying.updated(present, wanted, CONFIG_MAPS, owner=owner)
    assert owned["metadata"]["ownerReferences"] == [owner]
    assert carrying.updated(owned, wanted, CONFIG_MAPS, owner=owner) is None
    second = carrying.updated(owned, wanted, CONFIG_MAPS, owner={**owner, "uid": "j2"})
    assert [e["uid"] for e in second["metadata"]["ownerReferences"]] == ["j1", "j2"]
    changed = carrying.copy_of(source(data={"a": "2"}), CONFIG_MAPS, fleet="f1e")
    assert carrying.updated(owned, changed, CONFIG_MAPS, owner=owner)["data"] == {"a": "2"}
    emptied = carrying.copy_of({**source(), "data": {}}, CONFIG_MAPS, fleet="f1e")
    assert carrying.updated(owned, emptied, CONFIG_MAPS, owner=owner)["data"] == {}


def test_what_a_member_adds_to_a_copy_stays():
    wanted = carrying.copy_of(source(), CONFIG_MAPS, fleet="f1e")
    metadata = {**wanted["metadata"], "labels": {**wanted["metadata"]["labels"], "theirs": "1"}}
    assert (
        carrying.updated({**wanted, "metadata": metadata}, wanted, CONFIG_MAPS, owner=None) is None
    )
