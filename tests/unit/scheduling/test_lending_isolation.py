"""Lent nodes are used by one class of work, and lent work reaches nobody else."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from fleet.kube.selectors import LabelSelector
from fleet.scheduling.lending.isolation import (
    CLASS_LABEL,
    alone,
    classes_by_node,
    network_policy,
)

Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(node: str, work: str = "", *, phase: str = "Running", gpus: int = 1) -> Object:
    return {
        "metadata": {"labels": {CLASS_LABEL: work} if work else {}},
        "spec": {"nodeName": node, "gpus": gpus},
        "status": {"phase": phase},
    }


def terms(template: Object) -> list[Object]:
    found: list[Object] = template["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
    return found


def test_pods_keep_away_from_nodes_of_other_classes_and_only_from_those() -> None:
    made = alone({"spec": {"containers": []}}, work="research")
    assert made["metadata"]["labels"] == {CLASS_LABEL: "research"}
    (term,) = terms(made)
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["namespaceSelector"] == {}
    selector = LabelSelector.from_object(term["labelSelector"])
    assert selector.matches({CLASS_LABEL: "serving"})
    assert not selector.matches({CLASS_LABEL: "research"})
    # Agents that run on every node carry no class.
    assert not selector.matches({"app": "node-exporter"})


def test_nodes_that_others_use_without_a_label_are_left_out_by_name() -> None:
    user = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    template = {
        "spec": {
            "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [user, user, {}]}}},
            "tolerations": [{"key": "spot", "operator": "Exists"}],
        }
    }
    before = deepcopy(template)
    made = alone(template, work="research", others={"n2", "n1"})
    wanted = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1", "n2"]}
    both = {"matchExpressions": [*user["matchExpressions"], wanted]}
    found = made["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    # Terms are alternatives; an empty one matches nothing, and would match all with it.
    assert found == [both, both, {}]
    assert len(made["spec"]["tolerations"]) == 2
    assert template == before
    assert alone(made, work="research", others={"n1", "n2"}) == made


def test_only_its_class_tolerates_a_node_that_is_set_aside() -> None:
    toleration = alone({}, work="research")["spec"]["tolerations"][-1]
    for work, fits in (("research", True), ("serving", False)):
        mark = {"key": "fleet.dev/lent-to", "value": work, "effect": "NoSchedule"}
        assert fits == all(toleration[k] == mark[k] for k in ("key", "value", "effect"))


def test_which_classes_use_which_node_is_read_from_the_pods_on_it() -> None:
    pods = [
        pod("n1", "serving"),
        pod("n1", "serving"),
        pod("n2", "research"),
        pod("n2", "serving"),
        pod("n3", "research", phase="Succeeded"),
        pod("", "research"),
        pod("n4"),
        pod("n2", gpus=0),
    ]
    found = classes_by_node(pods, counts=lambda each: each["spec"]["gpus"] > 0)
    assert found == {
        "n1": frozenset({"serving"}),
        "n2": frozenset({"research", "serving"}),
        "n4": frozenset({""}),
    }


def test_lent_work_reaches_its_own_pods_and_dns_and_nothing_else() -> None:
    made = network_policy(
        namespace="nlp", workload="train", uid="u1", work="research",
        elsewhere=["10.9.0.7/32", "10.9.0.6/32", "10.9.0.6/32"],
    )  # fmt: skip
    spec = made["spec"]
    own = {"podSelector": {"matchLabels": {"fleet.dev/workload-uid": "u1"}}}
    away = [{"ipBlock": {"cidr": "10.9.0.6/32"}}, {"ipBlock": {"cidr": "10.9.0.7/32"}}]
    assert spec["podSelector"] == own["podSelector"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [{"from": [own, *away]}]
    peers, dns = spec["egress"]
    assert peers == {"to": [own, *away]}
    assert {port["port"] for port in dns["ports"]} == {53} and len(dns["to"]) == 2
    # An empty list of peers or ports would open everything.
    assert all(rule.get("from") or rule.get("to") for rule in [*spec["ingress"], *spec["egress"]])
    assert made["metadata"]["labels"][CLASS_LABEL] == "research"
