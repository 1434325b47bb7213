"""Nodes of members: `n1.east` is node n1 of east, and maintenance of it stays in east."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.controlplane

NODE = "n2"


@pytest.fixture
def node(kubectl: Any) -> Iterator[str]:
    """A node of west, put back in order afterwards."""
    yield f"{NODE}.west"
    kubectl.at("west").run("uncordon", NODE)
    kubectl.at("west").run("taint", "node", NODE, "maintenance-")


def test_cordon_and_uncordon(kubectl: Any, node: str) -> None:
    assert kubectl("cordon", node) == f"node/{node} cordoned\n"
    assert kubectl.at("west").json("get", "node", NODE)["spec"]["unschedulable"] is True
    shown = {row["NAME"]: row["STATUS"] for row in kubectl.table("get", "nodes")}
    assert shown[node] == "Ready,SchedulingDisabled"
    assert shown[f"{NODE}.east"] == "Ready"
    listed = kubectl("get", "nodes", "-o", "name", "--field-selector", "spec.unschedulable=true")
    assert listed == f"node/{node}\n"
    assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"
    assert "unschedulable" not in kubectl.at("west").json("get", "node", NODE)["spec"]


def test_taints_and_labels(kubectl: Any, node: str) -> None:
    assert kubectl("taint", "node", node, "maintenance=soon:PreferNoSchedule") == (
        f"node/{node} tainted\n"
    )
    taints = kubectl.at("west").json("get", "node", NODE)["spec"]["taints"]
    assert {"key": "maintenance", "value": "soon", "effect": "PreferNoSchedule"} in taints
    assert kubectl("taint", "node", node, "maintenance-") == f"node/{node} untainted\n"
    kubectl("label", "node", node, "rack=r7")
    assert kubectl.at("west").json("get", "node", NODE)["metadata"]["labels"]["rack"] == "r7"
    assert kubectl("get", "nodes", "-l", "rack=r7", "-o", "name") == f"node/{node}\n"
    kubectl("label", "node", node, "rack-")


def test_draining_evicts_the_pods_of_that_node_alone(kubectl: Any, space: str, node: str) -> None:
    for member in ("east", "west"):
        there = kubectl.at(member)
        there.apply(json.dumps(_pod("drained", NODE)), "-n", space)
        there("wait", "--for=condition=Ready", "pod/drained", "-n", space, "--timeout=60s")
    out = kubectl(
        "drain", node, "--pod-selector=app=drained", "--force", "--ignore-daemonsets",
        "--timeout=60s",
    )  # fmt: skip
    assert f"evicting pod {space}.west/drained" in out
    assert f"node/{node} drained" in out
    assert kubectl.at("west").run("get", "pod", "drained", "-n", space).code == 1
    assert kubectl.at("east").run("get", "pod", "drained", "-n", space).code == 0


def test_an_eviction_that_a_budget_forbids_is_refused(kubectl: Any, space: str) -> None:
    there = kubectl.at("west")
    there.apply(json.dumps(_pod("guarded", NODE)), "-n", space)
    there("create", "pdb", "guarded", "-n", space, "--selector=app=guarded", "--min-available=1")
    there("wait", "--for=condition=Ready", "pod/guarded", "-n", space, "--timeout=60s")
    kubectl.until(
        lambda: there.json("get", "pdb", "guarded", "-n", space)["status"].get("currentHealthy")
    )
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "guarded", "namespace": f"{space}.west"},
    }
    path = f"/api/v1/namespaces/{space}.west/pods/guarded/eviction"
    err = kubectl.refused("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    assert "(TooManyRequests)" in err
    assert "disruption budget" in err
    assert kubectl.at("west").run("get", "pod", "guarded", "-n", space).code == 0


def test_a_node_without_its_member_is_none_of_the_fleets(kubectl: Any) -> None:
    assert 'nodes "n1" not found' in kubectl.refused("get", "node", "n1")
    err = kubectl.refused("cordon", "n1")
    assert 'nodes "n1" not found' in err
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n9"}}
    err = kubectl.refused("create", "-f", "-", stdin=json.dumps(node))
    assert "name a member" in err
    assert "n9.east" in err
    # one that names its member is made there
    node["metadata"] = {"name": "n9.east"}
    assert kubectl("create", "-f", "-", stdin=json.dumps(node)) == "node/n9.east created\n"
    assert kubectl.at("east")("get", "node", "n9", "-o", "name") == "node/n9\n"
    assert kubectl("delete", "node", "n9.east") == 'node "n9.east" deleted\n'
    assert kubectl.at("east").run("get", "node", "n9").code == 1


def _pod(name: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "registry.example/a:1"}],
        },
    }
