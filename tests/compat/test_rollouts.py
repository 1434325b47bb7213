"""Rollouts of a member's workloads, followed to their end through the gateway."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytestmark = pytest.mark.controlplane

SET = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  {extra}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{{name: main, image: "registry.example/a:1"}}]
"""


def test_a_deployment_is_rolled_out_restarted_and_undone(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.east")
    there = kubectl.at("east")
    kubectl.apply(SET.format(kind="Deployment", name="rolled", extra="replicas: 2"), *where)
    status = kubectl("rollout", "status", "deploy/rolled", *where, "--timeout=60s")
    assert 'deployment "rolled" successfully rolled out' in status
    kubectl("set", "image", "deploy/rolled", "main=registry.example/a:2", *where)
    kubectl("annotate", "deploy/rolled", "kubernetes.io/change-cause=second image", *where)
    kubectl("rollout", "status", "deploy/rolled", *where, "--timeout=60s")

    def history(of: Any, *where: str) -> str:
        return str(of("rollout", "history", "deploy/rolled", *where))

    # a cause is no part of the rollout: its controller copies it when it comes to it
    caused = re.compile(r"^2 +second image$", re.MULTILINE)
    kubectl.until(lambda: caused.search(history(kubectl, *where)))
    kubectl.agree(lambda: history(kubectl, *where), lambda: history(there, "-n", space))
    one = kubectl("rollout", "history", "deploy/rolled", "--revision=1", *where)
    assert "registry.example/a:1" in one
    assert "rolled back" in kubectl("rollout", "undo", "deploy/rolled", *where)
    assert _image(there, space) == "registry.example/a:1"
    kubectl("rollout", "undo", "deploy/rolled", "--to-revision=2", *where)
    assert _image(there, space) == "registry.example/a:2"
    assert "restarted" in kubectl("rollout", "restart", "deploy/rolled", *where)
    kubectl("rollout", "status", "deploy/rolled", *where, "--timeout=60s")
    template = there.json("get", "deploy", "rolled", "-n", space)["spec"]["template"]
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]


def test_a_rollout_is_paused_and_resumed(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.west")
    there = kubectl.at("west")
    there.apply(SET.format(kind="Deployment", name="halted", extra="replicas: 1"), "-n", space)
    assert "paused" in kubectl("rollout", "pause", "deploy/halted", *where)
    assert there.json("get", "deploy", "halted", "-n", space)["spec"]["paused"] is True
    assert "can't restart paused" in kubectl.refused("rollout", "restart", "deploy/halted", *where)
    assert "resumed" in kubectl("rollout", "resume", "deploy/halted", *where)
    assert "paused" not in there.json("get", "deploy", "halted", "-n", space)["spec"]


@pytest.mark.parametrize(
    ("kind", "extra"), [("StatefulSet", "serviceName: x"), ("DaemonSet", "minReadySeconds: 0")]
)
def test_other_sets_have_a_history_as_well(kubectl: Any, space: str, kind: str, extra: str) -> None:
    what = f"{kind.lower()}/hist"
    where = ("-n", f"{space}.east")
    kubectl.apply(SET.format(kind=kind, name="hist", extra=extra), *where)
    kubectl("rollout", "status", what, *where, "--timeout=60s")
    kubectl("set", "image", what, "main=registry.example/a:2", *where)
    kubectl("rollout", "status", what, *where, "--timeout=60s")
    history = kubectl("rollout", "history", what, *where)
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
    kubectl("rollout", "undo", what, *where)
    found = kubectl.at("east").json("get", what, "-n", space)["spec"]["template"]["spec"]
    assert found["containers"][0]["image"] == "registry.example/a:1"


def test_waiting_for_conditions_values_and_deletion(kubectl: Any, space: str) -> None:
    where = ("-n", f"{space}.west")
    kubectl("create", "job", "awaited", "--image=registry.example/j:1", *where)
    done = kubectl("wait", "--for=condition=complete", "job/awaited", *where, "--timeout=60s")
    assert done == "job.batch/awaited condition met\n"
    value = kubectl("wait", "--for=jsonpath={.status.succeeded}=1", "job/awaited", *where)
    assert "condition met" in value
    late = kubectl.refused("wait", "--for=condition=failed", "job/awaited", *where, "--timeout=1s")
    assert "timed out waiting for the condition" in late
    with kubectl.running("wait", "--for=delete", "job/awaited", *where, "--timeout=60s") as wait:
        kubectl.at("west")("delete", "job", "awaited", "-n", space)
        wait.ended(0)


def _image(there: Any, space: str) -> str:
    spec = there.json("get", "deploy", "rolled", "-n", space)["spec"]["template"]["spec"]
    return str(spec["containers"][0]["image"])
