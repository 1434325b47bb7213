"""Changes to what members own, made through the gateway: in `NAMESPACE.MEMBER` everything is as if
connected to the member, and no other member is touched."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.controlplane

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: main, image: "{image}"}}]}}
"""
CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, labels: {{prune: {group}}}}}
data: {{v: "{value}"}}
"""


def deployment(name: str, *, image: str = "registry.example/a:1", replicas: int = 1) -> str:
    return DEPLOYMENT.format(name=name, image=image, replicas=replicas)


def config(name: str, value: str, *, group: str = "none") -> str:
    return CONFIG.format(name=name, value=value, group=group)


def test_labels_and_annotations(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.east")
    there = kubectl.at("east")
    there("create", "cm", "marked", "-n", space, "--from-literal=v=1")
    assert kubectl("label", "cm", "marked", *where, "tier=front") == "configmap/marked labeled\n"
    kubectl("label", "cm", "marked", *where, "tier=back", "--overwrite")
    assert "already has a value" in kubectl.refused("label", "cm", "marked", *where, "tier=x")
    kubectl("annotate", "cm", "marked", *where, "owner=shop", "note=a b c")
    found = there.json("get", "cm", "marked", "-n", space)["metadata"]
    assert found["labels"] == {"tier": "back"}
    assert found["annotations"] == {"owner": "shop", "note": "a b c"}
    kubectl("label", "cm", "marked", *where, "tier-")
    kubectl("annotate", "cm", "marked", *where, "note-")
    found = there.json("get", "cm", "marked", "-n", space)["metadata"]
    assert "labels" not in found
    assert found["annotations"] == {"owner": "shop"}
    listed = kubectl("annotate", "cm", "marked", *where, "--list")
    assert "owner=shop" in listed


def test_the_three_types_of_patch(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.west")
    there = kubectl.at("west")
    there.apply(deployment("patched"), "-n", space)
    kubectl(
        "patch", "deploy", "patched", *where, "-p",
        '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"registry.example/b:1"}]}}}}',
    )  # fmt: skip
    kubectl(
        "patch", "deploy", "patched", *where, "--type=merge", "-p",
        '{"metadata":{"labels":{"kind-of":"merge"}},"spec":{"paused":true}}',
    )  # fmt: skip
    kubectl(
        "patch", "deploy", "patched", *where, "--type=json", "-p",
        '[{"op":"test","path":"/spec/paused","value":true},'
        '{"op":"replace","path":"/spec/replicas","value":3},'
        '{"op":"add","path":"/metadata/annotations/by","value":"json"}]',
    )  # fmt: skip
    found = there.json("get", "deploy", "patched", "-n", space)
    containers = found["spec"]["template"]["spec"]["containers"]
    assert [c["name"] for c in containers] == ["side", "main"]
    assert found["spec"]["paused"] is True
    assert found["spec"]["replicas"] == 3
    assert found["metadata"]["labels"]["kind-of"] == "merge"
    assert found["metadata"]["annotations"]["by"] == "json"
    assert not [key for key in found["metadata"]["labels"] if "fleet.dev" in key]
    failing = ("--type=json", "-p", '[{"op":"test","path":"/spec/replicas","value":9}]')
    err = kubectl.refused("patch", "deploy", "patched", *where, *failing)
    assert err == there.refused("patch", "deploy", "patched", "-n", space, *failing)
    kubectl("patch", "deploy", "patched", *where, "--subresource=scale", "--type=merge", "-p",
            '{"spec":{"replicas":0}}')  # fmt: skip
    assert there.json("get", "deploy", "patched", "-n", space)["spec"]["replicas"] == 0


def test_what_was_read_can_be_written_back(kubectl: Any, space: str) -> None:
    """`get -o yaml`, an editor, `replace`: what `kubectl edit` does for objects it cannot patch."""
    where = ("-n", f"{space}.east")
    there = kubectl.at("east")
    there.apply(config("written", "1"), "-n", space)
    read = kubectl("get", "cm", "written", *where, "-o", "yaml")
    changed = read.replace('v: "1"', 'v: "2"')
    assert changed != read
    assert kubectl("replace", "-f", "-", stdin=changed) == "configmap/written replaced\n"
    found = there.json("get", "cm", "written", "-n", space)
    assert found["data"] == {"v": "2"}
    assert "fleet.dev/cluster" not in found["metadata"]["labels"]
    assert "fleet.dev/member-resource-version" not in found["metadata"]["annotations"]
    # the revision that was read is a precondition
    err = kubectl.refused("replace", "-f", "-", stdin=changed)
    assert "(Conflict)" in err
    assert "the object has been modified" in err
    uid = found["metadata"]["uid"]
    kubectl("replace", "--force", "-f", "-", *where, stdin=config("written", "3"))
    again = there.json("get", "cm", "written", "-n", space)
    assert again["data"] == {"v": "3"}
    assert again["metadata"]["uid"] != uid


def test_edit_with_an_editor(kubectl: Any, space: str) -> None:
    kubectl.at("west").apply(config("edited", "old"), "-n", space)
    out = kubectl.run("edit", "cm", "edited", "-n", f"{space}.west", editor="sed -i s/old/new/")
    assert out.code == 0, out
    assert "configmap/edited edited" in out.out
    assert kubectl.at("west").json("get", "cm", "edited", "-n", space)["data"] == {"v": "new"}


def test_apply_twice_with_an_edit_and_diff(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.east")
    first, second = deployment("applied"), deployment("applied", image="registry.example/a:2")
    assert kubectl.apply(first, *where) == "deployment.apps/applied created\n"
    assert kubectl.apply(first, *where) == "deployment.apps/applied unchanged\n"
    assert kubectl.run("diff", "-f", "-", *where, stdin=first).code == 0
    different = kubectl.run("diff", "-f", "-", *where, stdin=second)
    assert different.code == 1
    changes = [line for line in different.out.splitlines() if line[:2] in ("- ", "+ ")]
    assert [line.strip("+- ") for line in changes if "image" in line] == [
        "image: registry.example/a:1",
        "image: registry.example/a:2",
    ]
    assert all("image" in line or "generation" in line for line in changes), different.out
    assert kubectl.apply(second, *where) == "deployment.apps/applied configured\n"
    found = kubectl.at("east").json("get", "deploy", "applied", "-n", space)
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/a:2"
    last = found["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    assert "registry.example/a:2" in last
    viewed = kubectl("apply", "view-last-applied", "deploy/applied", *where)
    assert yaml.safe_load(viewed)["spec"]["replicas"] == 1
    assert kubectl.at("west").run("get", "deploy", "applied", "-n", space).code == 1


def test_server_side_apply_keeps_owners_of_fields(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.west", "--server-side")
    first = deployment("served", replicas=2)
    out = kubectl.apply(first, *where, "--field-manager=one")
    assert out == "deployment.apps/served serverside-applied\n"
    other = deployment("served", replicas=5)
    err = kubectl.refused("apply", "-f", "-", *where, "--field-manager=two", stdin=other)
    assert 'conflict with "one": .spec.replicas' in err
    kubectl.apply(other, *where, "--field-manager=two", "--force-conflicts")
    found = kubectl.at("west").json("get", "deploy", "served", "-n", space, "--show-managed-fields")
    assert found["spec"]["replicas"] == 5
    owners = {m["manager"]: m["fieldsV1"] for m in found["metadata"]["managedFields"]}
    assert "f:replicas" in owners["two"]["f:spec"]
    assert "f:replicas" not in owners["one"]["f:spec"]
    # its diff reads twice: the controller must have nothing left to write in between
    kubectl("rollout", "status", "deploy/served", "-n", f"{space}.west", "--timeout=60s")
    same = kubectl.run("diff", "--server-side", "-f", "-", "-n", f"{space}.west",
                       "--field-manager=two", stdin=other)  # fmt: skip
    assert same.code == 0, same


def test_dry_run_changes_nothing(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.east", "--dry-run=server", "-o", "json")
    shown = json.loads(kubectl.apply(deployment("dry"), *where))
    assert shown["metadata"]["namespace"] == f"{space}.east"
    assert shown["spec"]["progressDeadlineSeconds"] == 600  # as the member would store it
    assert kubectl.at("east").run("get", "deploy", "dry", "-n", space).code == 1
    assert "not found" in kubectl.refused("get", "deploy", "dry", "-n", f"{space}.east")


def test_prune_in_a_members_namespace_takes_that_members_objects_alone(
    kubectl: Any, space: str
) -> None:
    two = config("kept", "1", group="p1") + "---" + config("dropped", "1", group="p1")
    for member in ("east", "west"):
        kubectl.at(member).apply(two, "-n", space)
    kubectl.at("east")("create", "cm", "unapplied", "-n", space)
    kubectl.at("east")("label", "cm", "unapplied", "-n", space, "prune=p1")
    out = kubectl.apply(
        config("kept", "2", group="p1"), "-n", f"{space}.east", "--prune", "-l", "prune=p1",
        "--prune-allowlist=core/v1/ConfigMap",
    )  # fmt: skip
    assert "configmap/kept configured" in out
    assert "configmap/dropped pruned" in out
    assert "unapplied" not in out
    names = kubectl.at("east")("get", "cm", "-n", space, "-l", "prune=p1", "-o", "name").split()
    assert names == ["configmap/kept", "configmap/unapplied"]
    names = kubectl.at("west")("get", "cm", "-n", space, "-l", "prune=p1", "-o", "name").split()
    assert names == ["configmap/dropped", "configmap/kept"]


def test_a_set_of_applied_objects_is_pruned_by_its_parent(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.west", "--prune", "--applyset=configmap/set")
    two = config("in-1", "1") + "---" + config("in-2", "1")
    out = kubectl.run("apply", "-f", "-", *where, stdin=two, applyset=True)
    assert out.out.splitlines() == ["configmap/in-1 created", "configmap/in-2 created"], out
    out = kubectl.run("apply", "-f", "-", *where, stdin=config("in-1", "1"), applyset=True)
    assert out.out.splitlines() == ["configmap/in-1 unchanged", "configmap/in-2 pruned"], out
    assert kubectl.at("west").run("get", "cm", "in-2", "-n", space).code == 1


def test_scale_set_and_expose(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.east")
    there = kubectl.at("east")
    there.apply(deployment("shop"), "-n", space)
    assert "scaled" in kubectl("scale", "deploy/shop", "--replicas=3", *where)
    refused = kubectl.refused(
        "scale", "deploy/shop", "--replicas=4", "--current-replicas=9", *where
    )
    assert "Expected replicas to be 9, was 3" in refused
    kubectl("set", "image", "deploy/shop", "main=registry.example/a:9", *where)
    kubectl("set", "env", "deploy/shop", "COLOUR=green", *where)
    kubectl("set", "resources", "deploy/shop", "--requests=cpu=10m", *where)
    kubectl("set", "serviceaccount", "deploy/shop", "default", *where)
    assert kubectl("set", "env", "deploy/shop", "--list", *where).splitlines()[-1] == "COLOUR=green"
    found = there.json("get", "deploy", "shop", "-n", space)
    container = found["spec"]["template"]["spec"]["containers"][0]
    assert found["spec"]["replicas"] == 3
    assert container["image"] == "registry.example/a:9"
    assert container["env"] == [{"name": "COLOUR", "value": "green"}]
    assert container["resources"] == {"requests": {"cpu": "10m"}}
    assert found["spec"]["template"]["spec"]["serviceAccountName"] == "default"
    kubectl("expose", "deploy/shop", "--port=80", "--target-port=8080", *where)
    service = there.json("get", "svc", "shop", "-n", space)
    assert service["spec"]["selector"] == {"app": "shop"}
    kubectl("set", "selector", "svc", "shop", "app=shop,tier=front", *where)
    service = there.json("get", "svc", "shop", "-n", space)
    assert service["spec"]["selector"] == {"app": "shop", "tier": "front"}
    kubectl("autoscale", "deploy/shop", "--min=1", "--max=4", "--cpu-percent=50", *where)
    scaler = there.json("get", "hpa", "shop", "-n", space)
    assert scaler["spec"]["maxReplicas"] == 4
    assert scaler["spec"]["scaleTargetRef"]["name"] == "shop"
    assert kubectl.at("west").run("get", "svc", "shop", "-n", space).code == 1


def test_debug_adds_a_container_to_a_pod(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.east")
    kubectl("run", "sick", "--image=registry.example/a:1", *where)
    kubectl("wait", "--for=condition=Ready", "pod/sick", *where, "--timeout=60s")
    with kubectl.running(
        "debug", "sick", *where, "--image=registry.example/tools:1", "-c", "doctor",
        "--attach=false", "--profile=general",
    ):  # fmt: skip
        found = kubectl.until(
            lambda: (
                kubectl.at("east")
                .json("get", "pod", "sick", "-n", space)["spec"]
                .get("ephemeralContainers")
            )
        )
    assert [(c["name"], c["image"]) for c in found] == [("doctor", "registry.example/tools:1")]


def test_bad_input_is_refused_in_the_members_words_with_projected_names(
    kubectl: Any, space: str
) -> None:
    where = ("-n", f"{space}.east")
    bad = deployment("bad").replace("replicas: 1", "replicas: -1")
    err = kubectl.refused("apply", "-f", "-", *where, stdin=bad)
    direct = kubectl.at("east").refused("apply", "-f", "-", "-n", space, stdin=bad)
    assert err == direct
    assert "spec.replicas: Invalid value: -1" in err
    err = kubectl.refused("apply", "-f", "-", *where, stdin=deployment("bad") + "  colour: green\n")
    assert 'unknown field "spec.colour"' in err
    kubectl.at("east").apply(deployment("fixed"), "-n", space)
    changed = deployment("fixed").replace("matchLabels: {app: fixed}", "matchLabels: {app: other}")
    assert "field is immutable" in kubectl.refused(
        "apply", "-f", "-", *where,
        stdin=changed.replace("labels: {app: fixed}}\n    spec", "labels: {app: other}}\n    spec"),
    )  # fmt: skip
    again = kubectl.refused("create", "deploy", "fixed", "--image=x", *where)
    assert again == 'error: failed to create deployment: deployments.apps "fixed" already exists\n'
