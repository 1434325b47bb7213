"""Who am I, may I, what is there: `auth`, `api-resources`, `explain`, `cluster-info`, `version`."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

pytestmark = pytest.mark.controlplane


def test_who_the_caller_is(kubectl: Any) -> None:
    found = kubectl.json("auth", "whoami")["status"]["userInfo"]
    assert found["username"].startswith("fleet:")
    assert "fleet:admins" in found["groups"]


def test_what_the_caller_may_do_is_asked_of_whoever_decides(kubectl: Any, payments: str) -> None:
    answers = kubectl.together(
        ("auth", "can-i", "create", "deployments", "-n", payments),
        ("auth", "can-i", "create", "deployments", "-n", f"{payments}.east"),
        ("auth", "can-i", "get", "pods", "--subresource=log", "-n", f"{payments}.west"),
        ("auth", "can-i", "delete", "nodes"),
        ("auth", "can-i", "--list", "-n", f"{payments}.east"),
        ("auth", "can-i", "--list", "-n", payments),
    )
    assert [answer.strip() for answer in answers[:4]] == ["yes"] * 4
    for listed in answers[4:]:
        assert re.search(r"^\*\.\* +\[\] +\[\] +\[\*\]$", listed, re.MULTILINE), listed
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "LocalSubjectAccessReview",
        "metadata": {"namespace": f"{payments}.east"},
        "spec": {
            "user": "jane",
            "resourceAttributes": {
                "verb": "get", "resource": "secrets", "namespace": f"{payments}.east",
            },
        },
    }  # fmt: skip
    answer = json.loads(kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(review)))
    assert answer["status"]["allowed"] is False
    assert answer["spec"]["resourceAttributes"]["namespace"] == f"{payments}.east"


def test_nobody_acts_as_somebody_else(kubectl: Any, payments: str) -> None:
    for namespace in (payments, f"{payments}.east"):
        kubectl("get", "pods", "-n", namespace)  # kubectl words no refusal of its discovery
        err = kubectl.refused("get", "pods", "-n", namespace, "--as", "jane")
        assert "(Forbidden)" in err
        assert "--as" in err


def test_what_is_served_is_what_any_member_serves(kubectl: Any) -> None:
    def rows(client: Any) -> set[str]:
        """Names, short names, versions, scopes, kinds, verbs and categories."""
        text = client("api-resources", "--no-headers", "-o", "wide")
        return {re.sub(r"\s+", " ", line).strip() for line in text.splitlines()}

    assert rows(kubectl.at("east")) - rows(kubectl) == set()
    versions = set(kubectl("api-versions").split())
    assert set(kubectl.at("east")("api-versions").split()) <= versions
    assert {"v1", "apps/v1", "batch/v1"} <= versions
    namespaced = kubectl("api-resources", "--namespaced=false", "-o", "name").split()
    assert "nodes" in namespaced
    assert "pods" not in namespaced


def test_explain_reads_the_members_documents(kubectl: Any) -> None:
    for what in ("pods", "deployment.spec.template.spec.containers", "job.spec.completionMode"):
        assert kubectl("explain", what) == kubectl.at("east")("explain", what)
    recursive = kubectl("explain", "cronjob.spec", "--recursive")
    assert "jobTemplate" in recursive
    assert 'field "colour" does not exist' in kubectl.refused("explain", "pod.spec.colour")


def test_cluster_info_and_version(kubectl: Any, fleet: Any) -> None:
    info = re.sub(r"\x1b\[[0-9;]*m", "", kubectl("cluster-info"))
    assert f"Kubernetes control plane is running at {fleet.url}" in info
    found = kubectl.json("version")
    assert found["serverVersion"]["gitVersion"].startswith("v1.")
    assert found["clientVersion"]["gitVersion"].startswith(f"v{kubectl.version}.")


def test_each_root_is_a_context(kubectl: Any, payments: str) -> None:
    names = kubectl("config", "get-contexts", "-o", "name").split()
    assert sorted(names) == ["east", "fleet", "fleet-objects", "west"]
    assert kubectl("config", "current-context") == "fleet\n"
    inside = kubectl("get", "pods", "-n", payments, "--context=east", "-o", "name")
    assert inside == kubectl.at("east")("get", "pods", "-n", payments, "-o", "name")
    logs = kubectl("logs", "deploy/web", "-n", payments, "--context=west")
    assert logs.startswith("member west\n")
    run = kubectl("exec", "deploy/web", "-n", payments, "--context=east", "--",
                  "sh", "-c", "echo $FLEET_MEMBER")  # fmt: skip
    assert run == "east\n"
    own = kubectl("get", "pods,cm", "-A", "--context=fleet-objects", "-o",
                  "jsonpath={.items[*].metadata.namespace}")  # fmt: skip
    assert not [namespace for namespace in own.split() if "." in namespace]
