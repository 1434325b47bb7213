"""Why a member could never hold a pod: what is asked and what there is, or what rules nodes out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asking import capacity_of

from fleet.scheduling.demand import demand_of
from fleet.scheduling.placement import Refusal, place


def verdict(build, demand, nodes, *, used=(), block_label=""):
    """(reason, message) of the one member that there is."""
    capacity = capacity_of(nodes, list(used), as_of_s=0.0, block_label=block_label)
    cluster = replace(build.cluster("east"), capacity=capacity)
    refusal = place(demand, [cluster], generation=1, now_s=0.0)
    assert isinstance(refusal, Refusal)
    (found,) = refusal.verdicts
    return found.reason, found.message


def test_what_is_asked_and_what_the_best_node_has(build):
    nodes = [build.node("n0", 2), build.node("n1", 8), build.node("n2", 8, unschedulable=True)]
    demand = build.demand(requests={"nvidia.com/gpu": "1000", "cpu": "1"})
    assert verdict(build, demand, nodes) == (
        "NoShape",
        "none of its nodes could ever hold a pod of it: it asks 1000 nvidia.com/gpu, the best node "
        "has 8",
    )
    demand = build.demand(requests={"amd.com/gpu": "1", "memory": "1Ti"})
    assert verdict(build, demand, nodes)[1].endswith(
        "it asks 1 amd.com/gpu, the best node has none; it asks 1Ti memory, the best node has 256Gi"
    )


def test_what_no_node_has_together(build):
    nodes = [build.node("n0", 8, cpu="2"), build.node("n1", 0, cpu="64")]
    demand = build.demand(requests={"nvidia.com/gpu": "4", "cpu": "32"})
    assert verdict(build, demand, nodes)[1] == (
        "none of its nodes could ever hold a pod of it: it asks 32 cpu, 4 nvidia.com/gpu, and no "
        "node has all of that"
    )


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        ({"nodeName": "n9"}, "none of its nodes matches nodeName n9"),
        ({"nodeSelector": {"zone": "a"}}, "none of its nodes matches nodeSelector zone=a"),
        (
            {"nodeSelector": {"zone": "b"}},
            "none of its nodes that match nodeSelector zone=b could ever hold a pod of it: it asks "
            "4 nvidia.com/gpu, the best node has 2",
        ),
    ],
)
def test_a_selector_is_named_and_not_the_size(build, pod, said):
    nodes = [build.node("n0", 8), build.node("n1", 2, labels={"zone": "b"})]
    job = build.job(requests={"nvidia.com/gpu": "4"})
    job["spec"]["template"]["spec"] |= pod
    demand = demand_of(job, build.policy().spec)
    assert verdict(build, demand, nodes) == ("NoShape", said)


def test_nodes_that_take_nothing_are_not_too_small(build):
    taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
    nodes = [build.node("n0", unschedulable=True), build.node("n1", taints=[taint])]
    assert verdict(build, build.demand(), nodes)[1] == (
        "none of its nodes takes it: cordoned, taint team=x:NoSchedule is not tolerated"
    )
    assert verdict(build, build.demand(), [])[1] == "has no nodes"


def test_a_unit_that_no_block_holds(build):
    nodes = [build.node(f"n{i}", 2, labels={"rack": f"r{i}"}) for i in range(2)]
    demand = build.demand(4, {"gang": {"unit": 4}})
    assert verdict(build, demand, nodes, block_label="rack")[1] == (
        "a unit is 4 pods of one block, and none of its blocks could ever hold more than 2"
    )


def test_what_is_full_is_not_what_could_never_be(build):
    used = [build.pod("p", "n0", requests={"nvidia.com/gpu": "8"})]
    assert verdict(build, build.demand(), [build.node("n0")], used=used)[0] == "Full"
