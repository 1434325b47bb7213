"""Objects of the fleet's own, in plain namespaces, while members hold the same names and labels:
nothing native is ever met, overwritten or pruned."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

pytestmark = pytest.mark.controlplane

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, labels: {{group: {group}}}}}
data: {{v: "{value}"}}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, labels: {{group: {name}}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: main, image: "{image}"}}]}}
"""


def config(name: str, value: str, group: str = "none") -> str:
    return CONFIG.format(name=name, value=value, group=group)


@pytest.fixture
def native(kubectl: Any, space: str) -> Any:
    """What both members hold in their namespace of that name; must not change."""

    def state() -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for member in ("east", "west"):
            items = kubectl.at(member).json("get", "cm,deploy,secrets,jobs", "-n", space)["items"]
            found[member] = {
                f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["uid"]
                + "/" + str(item.get("data", item["metadata"].get("generation")))
                for item in items
            }  # fmt: skip
        return found

    return state


def test_apply_twice_with_an_edit(kubectl: Any, space: str, native: Any) -> None:
    for member in ("east", "west"):
        kubectl.at(member).apply(config("same", "native"), "-n", space)
    before = native()
    where = ("-n", space)
    assert kubectl.apply(config("same", "1"), *where) == "configmap/same created\n"
    assert kubectl.apply(config("same", "1"), *where) == "configmap/same unchanged\n"
    revision = kubectl.json("get", "cm", "same", *where)["metadata"]["resourceVersion"]
    assert kubectl.run("diff", "-f", "-", *where, stdin=config("same", "1")).code == 0
    different = kubectl.run("diff", "-f", "-", *where, stdin=config("same", "2"))
    assert different.code == 1
    assert '-  v: "1"' in different.out
    assert '+  v: "2"' in different.out
    assert kubectl.apply(config("same", "2"), *where) == "configmap/same configured\n"
    found = kubectl.json("get", "cm", "same", *where)
    assert found["data"] == {"v": "2"}
    assert int(found["metadata"]["resourceVersion"]) > int(revision)
    assert native() == before


def test_prune_in_a_plain_namespace_touches_nothing_native(
    kubectl: Any, space: str, native: Any
) -> None:
    two = config("kept", "1", "own") + "---" + config("dropped", "1", "own")
    for member in ("east", "west"):
        kubectl.at(member).apply(two, "-n", space)
    before = native()
    kubectl.apply(two, "-n", space)
    for prune in (("--prune-allowlist=core/v1/ConfigMap",), ()):
        out = kubectl.apply(
            config("kept", "2", "own"), "-n", space, "--prune", "-l", "group=own", *prune
        )
        assert ("configmap/dropped pruned" in out) is bool(prune), out
    names = kubectl("get", "cm", "-n", space, "-l", "group=own", "-o", "name").split()
    assert names == ["configmap/kept"]
    assert native() == before


def test_workloads_are_created_defaulted_and_edited(kubectl: Any, space: str, native: Any) -> None:
    where = ("-n", space)
    before = native()
    image = "--image=registry.example/a:1"
    made = kubectl.together(
        ("create", "deploy", "owned", image, "--replicas=3", *where),
        ("create", *where, "job", "owned", image, "--", "sleep", "1"),
        ("create", "cm", "owned", "--from-literal=a=1", *where),
        ("create", "sa", "owned", *where),
        ("create", "service", "clusterip", "owned", "--tcp=80:8080", *where),
        ("create", "cronjob", "owned", image, "--schedule=0 0 1 1 *", *where),
    )
    assert [text.split()[0] for text in made] == [
        "deployment.apps/owned", "job.batch/owned", "configmap/owned", "serviceaccount/owned",
        "service/owned", "cronjob.batch/owned",
    ]  # fmt: skip
    deployment = kubectl.json("get", "deploy", "owned", *where)
    assert deployment["spec"]["strategy"]["type"] == "RollingUpdate"
    assert deployment["metadata"]["generation"] == 1
    assert "fleet.dev/cluster" not in deployment["metadata"].get("labels", {})
    kubectl("scale", "deploy/owned", "--replicas=4", *where)
    kubectl("set", "image", "deploy/owned", "a=registry.example/a:2", *where)
    kubectl("label", "deploy", "owned", "tier=front", *where)
    kubectl("annotate", "deploy", "owned", "note=mine", *where)
    kubectl("patch", "deploy", "owned", *where, "--type=json", "-p",
            '[{"op":"add","path":"/spec/minReadySeconds","value":5}]')  # fmt: skip
    kubectl("patch", "deploy", "owned", *where, "--type=merge", "-p",
            '{"spec":{"revisionHistoryLimit":3}}')  # fmt: skip
    found = kubectl.json("get", "deploy", "owned", *where)
    assert found["spec"]["replicas"] == 4
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/a:2"
    assert found["spec"]["minReadySeconds"] == 5
    assert found["spec"]["revisionHistoryLimit"] == 3
    assert found["metadata"]["labels"]["tier"] == "front"
    # four changes of the spec and, as upstream counts for Deployments, one of annotations
    assert found["metadata"]["generation"] == 6
    shown = kubectl.table("get", "deploy", "-n", space)
    assert [(row["NAME"], row["CLUSTER"]) for row in shown if row["NAME"] == "owned"] == [
        ("owned", "fleet")
    ]
    kubectl("delete", "deploy,job,svc,cronjob", "owned", *where)
    assert kubectl("get", "deploy,job,svc,cronjob", *where, "-o", "name") == ""
    assert native() == before


def test_a_read_edit_write_cycle_guards_against_lost_updates(kubectl: Any, space: str) -> None:
    where = ("-n", space)
    kubectl.apply(config("guarded", "1"), *where)
    read = kubectl("get", "cm", "guarded", *where, "-o", "yaml")
    changed = read.replace('v: "1"', 'v: "2"')
    kubectl("replace", "-f", "-", stdin=changed)
    err = kubectl.refused("replace", "-f", "-", stdin=changed)
    assert "(Conflict)" in err
    edited = kubectl.run("edit", "cm", "guarded", *where, editor='sed -i s/\\"2\\"/\\"3\\"/')
    assert "configmap/guarded edited" in edited.out, edited
    assert kubectl.json("get", "cm", "guarded", *where)["data"] == {"v": "3"}


def test_deletion_waits_for_finalizers(kubectl: Any, space: str) -> None:
    where = ("-n", space)
    kubectl.apply(config("held", "1"), *where)
    kubectl("patch", "cm", "held", *where, "-p", '{"metadata":{"finalizers":["test/hold"]}}')
    with kubectl.running("delete", "cm", "held", *where) as deleting:
        deleting.line("deleted")
        assert kubectl.json("get", "cm", "held", *where)["metadata"]["deletionTimestamp"]
        kubectl("patch", "cm", "held", *where, "--type=merge", "-p",
                '{"metadata":{"finalizers":null}}')  # fmt: skip
        deleting.ended(0)
    assert "not found" in kubectl.refused("get", "cm", "held", *where)


def test_a_new_namespace_is_furnished(kubectl: Any) -> None:
    name = f"fresh-{kubectl.version.replace('.', '-')}"
    kubectl("create", "namespace", name)
    kubectl("wait", "--for=create", "sa/default", "-n", name, "--timeout=60s")
    kubectl("wait", "--for=create", "cm/kube-root-ca.crt", "-n", name, "--timeout=60s")
    kubectl("create", "cm", "inside", "-n", name)
    kubectl("delete", "namespace", name, "--timeout=60s")
    assert "not found" in kubectl.refused("get", "namespace", name)


def test_server_side_apply_is_refused_with_what_is_accepted(kubectl: Any, space: str) -> None:
    """The fleet's own objects take the three other patch types; a member's take all four."""
    manifest = config("served", "1")
    err = kubectl.refused("apply", "--server-side", "-f", "-", "-n", space, stdin=manifest)
    assert "accepted media types include: application/json-patch+json" in err
    assert kubectl.apply(manifest, "-n", space) == "configmap/served created\n"


def test_a_name_of_the_fleets_may_not_end_like_a_members(kubectl: Any) -> None:
    err = kubectl.refused("create", "namespace", "plain.nowhere")
    assert "nowhere" in err


@pytest.mark.parametrize("suffix", ["", ".east"])
def test_releases_as_helm_keeps_them(kubectl: Any, space: str, suffix: str) -> None:
    where = ("-n", space + suffix)
    release = base64.b64encode(gzip.compress(json.dumps({"name": "shop"}).encode())).decode()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "helm.sh/release.v1",
        "metadata": {
            "name": "sh.helm.release.v1.shop.v1",
            "labels": {
                "owner": "helm",
                "name": "shop",
                "status": "pending-install",
                "version": "1",
            },
        },
        "stringData": {"release": release},
    }
    kubectl("create", "-f", "-", *where, stdin=json.dumps(secret))
    selector = ("-l", "owner=helm,name=shop", "--field-selector", "type=helm.sh/release.v1")
    found = kubectl.json("get", "secrets", *where, *selector)["items"]
    assert [item["metadata"]["name"] for item in found] == ["sh.helm.release.v1.shop.v1"]
    assert base64.b64decode(found[0]["data"]["release"]).decode() == release
    read = found[0]
    read["metadata"]["labels"]["status"] = "deployed"
    kubectl("replace", "-f", "-", stdin=json.dumps(read))
    deployed = ("get", "secrets", *where, "-l", "owner=helm,status=deployed", "-o", "name")
    assert kubectl(*deployed) == "secret/sh.helm.release.v1.shop.v1\n"
    kubectl("delete", "secret", "sh.helm.release.v1.shop.v1", *where)
    assert kubectl(*deployed) == ""
