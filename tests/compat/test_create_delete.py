"""`create`, `run` and `delete` in a member's namespace: typed bodies, protobuf among them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

pytestmark = pytest.mark.controlplane


def test_kubectl_creates_each_kind_it_has_a_command_for(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.east")
    image = "--image=registry.example/a:1"
    commands: dict[str, tuple[str, ...]] = {
        "configmap/made": ("configmap", "made", "--from-literal=a=1"),
        "secret/made": ("secret", "generic", "made", "--from-literal=password=hunter2"),
        "secret/made-tls": ("secret", "docker-registry", "made-tls", "--docker-username=u",
                            "--docker-password=p", "--docker-server=registry.example"),
        "deployment.apps/made": ("deployment", "made", image, "--replicas=2", "--port=80"),
        "job.batch/made": ("job", "made", image, "--", "sleep", "1"),
        "cronjob.batch/made": ("cronjob", "made", image, "--schedule=0 0 1 1 *"),
        "service/made": ("service", "clusterip", "made", "--tcp=80:8080"),
        "serviceaccount/made": ("serviceaccount", "made"),
        "role.rbac.authorization.k8s.io/made": ("role", "made", "--verb=get", "--resource=pods"),
        "rolebinding.rbac.authorization.k8s.io/made": (
            "rolebinding", "made", "--role=made", f"--serviceaccount={space}.east:made"),
        "ingress.networking.k8s.io/made": ("ingress", "made", "--rule=made.example/=made:80"),
        "poddisruptionbudget.policy/made": (
            "pdb", "made", "--selector=app=made", "--min-available=1"),
        "resourcequota/made": ("quota", "made", "--hard=count/configmaps=100"),
    }  # fmt: skip
    made = kubectl.together(*(("create", *where, *command) for command in commands.values()))
    assert made == [f"{name} created\n" for name in commands]
    there = kubectl.at("east")
    names = there("get", *[",".join(n.split("/")[0] for n in commands)], "-n", space, "-o", "name")
    assert set(commands) - set(names.split()) == set()
    secret = there.json("get", "secret", "made", "-n", space)
    assert base64.b64decode(secret["data"]["password"]) == b"hunter2"
    binding = there.json("get", "rolebinding", "made", "-n", space)
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "made", "namespace": space}]
    seen = kubectl.json("get", "rolebinding", "made", *where)
    assert seen["subjects"][0]["namespace"] == f"{space}.east"
    deployment = there.json("get", "deploy", "made", "-n", space)
    assert deployment["spec"]["replicas"] == 2
    job = kubectl("create", "job", "from-cron", "--from=cronjob/made", *where)
    assert job == "job.batch/from-cron created\n"
    again = kubectl.refused("create", "configmap", "made", *where)
    assert 'configmaps "made" already exists' in again
    twice = json.loads(kubectl("create", "cm", "dry", *where, "--dry-run=server", "-o", "json"))
    assert twice["metadata"]["namespace"] == f"{space}.east"


def test_objects_of_the_cluster_go_to_the_member_they_name(kubectl: Any) -> None:
    suffix = kubectl.version.replace(".", "-")
    there = kubectl.at("west")
    name = f"made-{suffix}"
    assert kubectl("create", "namespace", f"{name}.west") == f"namespace/{name}.west created\n"
    assert there("get", "ns", name, "-o", "name") == f"namespace/{name}\n"
    kubectl("create", "clusterrole", f"{name}.west", "--verb=get", "--resource=nodes")
    kubectl(
        "create", "clusterrolebinding", f"{name}.west", f"--clusterrole={name}.west",
        f"--serviceaccount={name}.west:default",
    )  # fmt: skip
    binding = there.json("get", "clusterrolebinding", name)
    assert binding["roleRef"]["name"] == name
    assert binding["subjects"][0]["namespace"] == name
    kubectl("create", "priorityclass", f"{name}.west", "--value=5")
    assert there.json("get", "priorityclass", name)["value"] == 5
    deleted = kubectl(
        "delete", "--wait=false", f"ns/{name}.west", f"clusterrole/{name}.west",
        f"clusterrolebinding/{name}.west", f"priorityclass/{name}.west",
    )  # fmt: skip
    assert deleted.count("deleted") == 4
    assert there.run("get", "clusterrole", name).code == 1


def test_a_namespace_of_a_member_goes_with_all_that_is_in_it(kubectl: Any) -> None:
    name = f"going-{kubectl.version.replace('.', '-')}"
    kubectl("create", "namespace", f"{name}.east")
    kubectl("create", "cm", "inside", "-n", f"{name}.east")
    kubectl("delete", "namespace", f"{name}.east", "--timeout=60s")
    assert kubectl.at("east").run("get", "ns", name).code == 1
    assert kubectl("get", "cm", "-n", f"{name}.east", "-o", "name") == ""
    assert "not found" in kubectl.refused("get", "ns", f"{name}.east")


def test_run_a_pod(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.west")
    image = "--image=registry.example/a:1"
    assert kubectl("run", "ran", image, *where, "--labels=app=ran", "--port=80") == (
        "pod/ran created\n"
    )
    kubectl("wait", "--for=condition=Ready", "pod/ran", *where, "--timeout=60s")
    pod = kubectl.at("west").json("get", "pod", "ran", "-n", space)
    assert pod["metadata"]["labels"]["app"] == "ran"
    assert not [key for key in pod["metadata"]["labels"] if key.startswith("fleet.dev/")]
    assert kubectl("logs", "ran", *where).startswith("member west\n")
    shown = kubectl("run", "dry", image, *where, "--dry-run=client", "-o", "yaml")
    assert "image: registry.example/a:1" in shown


def test_delete_by_name_by_selector_and_all(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.east")
    for member in ("east", "west"):
        for name in ("gone-1", "gone-2", "gone-3"):
            kubectl.at(member)("create", "cm", name, "-n", space)
            kubectl.at(member)("label", "cm", name, "-n", space, f"n={name[-1]}", "batch=gone")
    assert kubectl("delete", "cm", "gone-1", *where) == (
        f'configmap "gone-1" deleted from {space}.east namespace\n'
        if kubectl.version == "1.36"
        else 'configmap "gone-1" deleted\n'
    )
    assert "not found" in kubectl.refused("get", "cm", "gone-1", *where)
    assert 'configmaps "gone-1" not found' in kubectl.refused("delete", "cm", "gone-1", *where)
    assert kubectl("delete", "cm", "gone-1", *where, "--ignore-not-found") == ""
    assert kubectl("delete", "cm", "-l", "batch=gone,n in (2,3)", *where).count("deleted") == 2
    assert kubectl("get", "cm", "-l", "batch=gone", *where, "-o", "name") == ""
    left = kubectl.at("west")("get", "cm", "-l", "batch=gone", "-n", space, "-o", "name")
    assert left.split() == [
        "configmap/gone-1", "configmap/gone-2", "configmap/gone-3",
    ]  # fmt: skip
    out = kubectl("delete", "cm", "--field-selector", "metadata.name=gone-2", "-n", f"{space}.west")
    assert out.count("deleted") == 1


def test_deletion_waits_for_finalizers(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.west")
    there = kubectl.at("west")
    there("create", "cm", "held", "-n", space)
    there("patch", "cm", "held", "-n", space, "-p", '{"metadata":{"finalizers":["test/hold"]}}')
    with kubectl.running("delete", "cm", "held", *where) as deleting:
        deleting.line("deleted")
        found = kubectl.until(
            lambda: kubectl.json("get", "cm", "held", *where)["metadata"].get("deletionTimestamp")
        )
        assert found
        kubectl("patch", "cm", "held", *where, "--type=merge", "-p",
                '{"metadata":{"finalizers":null}}')  # fmt: skip
        deleting.ended(0)
    assert "not found" in kubectl.refused("get", "cm", "held", *where)


def test_what_belongs_to_a_deployment_goes_with_it_or_stays(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.east")
    kubectl.together(
        ("create", "deploy", "orphaning", "--image=registry.example/a:1", *where),
        ("create", "deploy", "cascading", "--image=registry.example/a:1", *where),
    )
    for name in ("orphaning", "cascading"):
        kubectl("rollout", "status", f"deploy/{name}", *where, "--timeout=60s")
    kubectl("delete", "deploy", "orphaning", *where, "--cascade=orphan")
    kubectl("delete", "deploy", "cascading", *where, "--cascade=foreground")
    assert kubectl("get", "rs", "-l", "app=orphaning", *where, "-o", "name") != ""
    assert kubectl("get", "rs", "-l", "app=cascading", *where, "-o", "name") == ""
    kubectl("delete", "rs,pods", "-l", "app=orphaning", *where, "--now")


def test_tokens_of_a_members_service_account(kubectl: Any, space: str) -> None:
    token = kubectl("create", "token", "default", "-n", f"{space}.east", "--duration=1h").strip()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == f"system:serviceaccount:{space}:default"
    err = kubectl.refused("create", "token", "nobody", "-n", f"{space}.east")
    assert 'serviceaccounts "nobody" not found' in err
