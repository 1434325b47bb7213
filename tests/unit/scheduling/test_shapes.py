"""Capacity as a Cluster object shows it."""

from __future__ import annotations

from asking import capacity_of

from fleet.scheduling.shapes import accelerator_kinds, free_accelerators, shapes_of
from policies import CLUSTER


def fleet(build):
    nodes = [
        build.node("n0", 8, labels={"rack": "r1"}),
        build.node("n1", 8, labels={"rack": "r1"}),
        build.node("n2", 8, labels={"rack": "r1"}, unschedulable=True),
        build.node("n3", 4, labels={"rack": "r2", "fleet.dev/accelerator": "a100"}),
        build.node("n4", 0, labels={"rack": "r2"}),
        build.node("n5", 0, labels={"rack": "r2"}, ready="False"),
    ]
    pods = [
        build.pod("a", "n0", requests={"nvidia.com/gpu": "3"}),
        build.pod("b", "n3", requests={"nvidia.com/gpu": "9"}),
    ]
    return capacity_of(nodes, pods, as_of_s=0.0, block_label="rack")


def test_by_shape_and_block(build):
    shapes = shapes_of(fleet(build))
    told = [
        (
            s.get("block"),
            s.get("accelerator"),
            s["shape"].get("nvidia.com/gpu"),
            s["nodes"],
            s["free"],
        )
        for s in shapes
    ]  # fmt: skip
    assert told == [
        ("r1", "h200", "8", 3, 13),
        ("r2", "a100", "4", 1, 0),
        ("r2", None, None, 2, 1),
    ]
    assert shapes[0]["shape"] == {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8"}
    CLUSTER.parse({"status": {"capacity": shapes}})


def test_sums(build):
    assert free_accelerators(fleet(build)) == 13
    assert accelerator_kinds(fleet(build)) == ("a100", "h200")


def test_a_member_that_is_one_block_names_none(build):
    (shape,) = shapes_of(capacity_of([build.node("n0", 1)], [], as_of_s=0.0))
    assert "block" not in shape
