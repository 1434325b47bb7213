"""Scheduling: who fits where, and the words when nobody does."""

from __future__ import annotations

from typing import Any

import pytest

from virtualnode import scheduling
from virtualnode.scheduling import choose, demand, view

GPU = "nvidia.com/gpu"


def node(name: str = "n1", *, taints=(), labels=None, unschedulable=False, **capacity: str):
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"} | {
        key.replace("gpu", GPU): value for key, value in capacity.items()
    }
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {"allocatable": amounts},
    }


def pod(*, requests: dict[str, str] | None = None, phase: str = "Pending", **spec: Any):
    return {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests or {}}}], **spec},
        "status": {"phase": phase},
    }


HOST = "kubernetes.io/hostname"


def away(*terms: Any) -> dict[str, Any]:
    """The part of a pod's spec that keeps it from others."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    return {"affinity": {"podAntiAffinity": required}}


def chosen(subject, *nodes):
    """Each node is a Node, or (Node, its pods)."""
    pairs = [each if isinstance(each, tuple) else (each, ()) for each in nodes]
    return choose(subject, [view(found, pods) for found, pods in pairs])


def test_a_pod_needs_the_sum_of_its_containers_or_its_largest_init_container_and_a_place():
    subject = pod(requests={"cpu": "1"}, overhead={"cpu": "100m"})
    subject["spec"]["containers"].append({"name": "d", "resources": {"requests": {"cpu": "500m"}}})
    subject["spec"]["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "i", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
    ]
    needed = demand(subject)
    assert needed["cpu"] == 4_100_000_000  # 3 beside the sidecar's 1, and the overhead
    assert needed["memory"] == (1 << 30) * 10**9
    assert needed["pods"] == 10**9


def test_the_resources_of_the_pod_as_a_whole_win():
    subject = pod(requests={"cpu": "1"}, resources={"requests": {"cpu": "2"}})
    assert demand(subject)["cpu"] == 2 * 10**9


def test_the_emptier_node_wins_and_then_the_first_by_name():
    taken = pod(requests={"cpu": "2"}, phase="Running")
    assert chosen(pod(), (node("a"), [taken]), node("b")).node == "b"
    assert chosen(pod(), node("b"), node("a")).node == "a"


def test_pods_that_ended_take_no_room():
    ended = pod(requests={"cpu": "4"}, phase="Succeeded")
    assert chosen(pod(requests={"cpu": "4"}), (node(), [ended])).node == "n1"


@pytest.mark.parametrize("name", ["cpu", "memory", GPU, "example.com/fpga"])
def test_any_resource_counts(name):
    asked = pod(requests={name: "5Gi"})
    assert chosen(asked, node(**{"gpu" if name == GPU else name: "4Gi"})).node == ""
    assert chosen(asked, node(**{"gpu" if name == GPU else name: "5Gi"})).node == "n1"


def test_a_full_node_takes_no_pod():
    others = [pod(phase="Running")] * 10
    assert chosen(pod(), (node(), others)).message.startswith(
        "0/1 nodes are available: 1 Too many pods."
    )


NEVER = {"preemptionPolicy": "Never"}
TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("subject", "nodes", "message"),
    [
        (pod(), [], "no nodes available to schedule pods"),
        (
            pod(requests={GPU: "3"}),
            [node("a", gpu="2"), node("b", gpu="2")],
            f"0/2 nodes are available: 2 Insufficient {GPU}. no new claims to deallocate, "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
        (
            pod(requests={"cpu": "3"}),
            [(node("a"), [pod(requests={"cpu": "2"})]), node("b", cpu="1")],
            "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling.",
        ),
        (
            pod(requests={"cpu": "9", "memory": "9Gi"}, **NEVER),
            [node()],
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. "
            "preemption: not eligible due to preemptionPolicy=Never.",
        ),
        (
            pod(nodeSelector={"disk": "ssd"}, **NEVER),
            [node(taints=[TAINT]), node("b"), node("c", unschedulable=True)],
            "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
            "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. "
            "preemption: not eligible due to preemptionPolicy=Never.",
        ),
        (
            pod(requests={"cpu": "4"}, priority=5),
            [(node(), [pod(requests={"cpu": "1"}, priority=1)])],
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: "
            "1 This cluster's scheduler does not preempt.",
        ),
    ],
)
def test_the_message_is_kube_schedulers(subject, nodes, message):
    assert chosen(subject, *nodes) == scheduling.Choice("", message)


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"key": "dedicated", "value": "x", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "operator": "Equal", "value": "y"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration, fits):
    assert bool(chosen(pod(tolerations=[toleration]), node(taints=[TAINT])).node) is fits


def test_a_soft_taint_is_avoided_and_not_forbidden():
    soft = {"key": "k", "effect": "PreferNoSchedule"}
    assert chosen(pod(), node("a", taints=[soft]), node("b")).node == "b"
    assert chosen(pod(), node("a", taints=[soft])).node == "a"


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "zone", "operator": "DoesNotExist"}, False),
        ({"key": "size", "operator": "Gt", "values": ["3"]}, True),
        ({"key": "size", "operator": "Lt", "values": ["3"]}, False),
        ({"key": "zone", "operator": "Gt", "values": ["3"]}, False),
    ],
)
def test_node_affinity(expression, fits):
    def asked(kind, value):
        return pod(affinity={"nodeAffinity": {kind: value}})

    found = node(labels={"zone": "a", "size": "4"})
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    hard = asked("requiredDuringSchedulingIgnoredDuringExecution", terms)
    assert bool(chosen(hard, found).node) is fits
    soft = asked(
        "preferredDuringSchedulingIgnoredDuringExecution",
        [{"weight": 1, "preference": {"matchExpressions": [expression]}}],
    )
    assert chosen(soft, node("a"), {**found, "metadata": {**found["metadata"], "name": "b"}}).node


def test_a_term_that_says_nothing_matches_nothing_and_a_field_names_a_node():
    def hard(term):
        kind = "requiredDuringSchedulingIgnoredDuringExecution"
        return pod(affinity={"nodeAffinity": {kind: {"nodeSelectorTerms": [term]}}})

    assert not chosen(hard({}), node()).node
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    assert chosen(hard(by_name), node("a"), node("b")).node == "b"


def test_a_port_of_the_node_is_given_once():
    wants = pod()
    wants["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    assert chosen(wants, node()).node == "n1"
    assert "didn't have free ports" in chosen(wants, (node(), [wants])).message
    other = pod()
    other["spec"]["containers"][0]["ports"] = [{"hostPort": 80, "protocol": "UDP"}]
    assert chosen(wants, (node(), [other])).node == "n1"


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            "podAffinity",
        ),
        (
            away({"topologyKey": HOST, "namespaceSelector": {"matchLabels": {"a": "b"}}}),
            "not empty",
        ),
        (away({"topologyKey": HOST, "matchLabelKeys": ["a"]}), "matchLabelKeys"),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, "topologySpread"),
        ({"resourceClaims": [{"name": "x"}]}, "resourceClaims"),
    ],
)
def test_what_is_not_known_is_not_ignored(spec, word):
    found = chosen(pod(**spec), node())
    assert not found.node and word in found.message
    assert chosen(
        pod(topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}]), node()
    ).node


def of_class(name: str, *, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    found = pod(phase="Running", **spec)
    found["metadata"] |= {"labels": {"class": name}, "namespace": namespace}
    return found


def apart(name: str, **more: Any) -> dict[str, Any]:
    """A pod that shares no node with any other class, in any namespace."""
    expressions = [
        {"key": "class", "operator": "Exists"},
        {"key": "class", "operator": "NotIn", "values": [name]},
    ]
    term = {
        "topologyKey": HOST, "namespaceSelector": {},
        "labelSelector": {"matchExpressions": expressions},
    }  # fmt: skip
    return of_class(name, **away(term), **more)


def on(host: str) -> dict[str, Any]:
    return node(host, labels={HOST: host, "zone": "z"})


def test_a_pod_goes_to_no_node_of_those_that_it_keeps_away_from():
    found = chosen(apart("a"), (on("n1"), [of_class("b", namespace="other")]), on("n2"))
    assert found.node == "n2"
    found = chosen(apart("a"), (on("n1"), [of_class("b")]))
    assert "1 node(s) didn't match pod anti-affinity rules" in found.message
    assert chosen(apart("a"), (on("n1"), [of_class("a"), pod(phase="Running")])).node == "n1"


def test_a_pod_goes_to_no_node_of_those_that_keep_away_from_it():
    found = chosen(of_class("b"), (on("n1"), [apart("a")]))
    assert "1 node(s) didn't satisfy existing pods anti-affinity rules" in found.message
    assert chosen(of_class("a"), (on("n1"), [apart("a")])).node == "n1"
    assert chosen(pod(), (on("n1"), [apart("a")])).node == "n1"


def test_what_is_over_keeps_nobody_away():
    over = {**of_class("b"), "status": {"phase": "Succeeded"}}
    assert chosen(apart("a"), (on("n1"), [over])).node == "n1"


def test_a_domain_is_as_wide_as_the_label_of_its_nodes():
    term = {"labelSelector": {"matchLabels": {"class": "b"}}}
    zone = of_class("a", **away({**term, "topologyKey": "zone"}))
    host = of_class("a", **away({**term, "topologyKey": HOST}))
    beside = (on("n1"), [of_class("b")])
    assert not chosen(zone, beside, on("n2")).node
    assert chosen(host, beside, on("n2")).node == "n2"
    assert chosen(host, (node("n1"), [of_class("b")])).node == "n1", "it has no such label"


@pytest.mark.parametrize(
    ("more", "away_from"),
    [({}, "default"), ({"namespaces": ["x"]}, "x"), ({"namespaceSelector": {}}, "x")],
)
def test_whose_pods_a_term_speaks_of(more, away_from):
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"class": "b"}}, **more}
    subject = of_class("a", **away(term))
    assert not chosen(subject, (on("n1"), [of_class("b", namespace=away_from)])).node
    elsewhere = chosen(subject, (on("n1"), [of_class("b", namespace="y")])).node
    assert elsewhere == ("" if "namespaceSelector" in more else "n1")
