from __future__ import annotations

import pytest

from fleet.errors import TestbedError
from fleet.testbed.shape import ACCELERATOR, DEFAULT, NodeShape, nodes, parse


def test_a_typed_shape_is_read_whole():
    assert parse("2*cpu=8,memory=64Gi,nvidia.com/gpu=4,label:rack=r1") == NodeShape(
        count=2,
        capacity={"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "4"},
        labels={"rack": "r1"},
    )


@pytest.mark.parametrize("text", ["cpu=8", "1xcpu=8", " 1 * cpu=8 "])
def test_the_count_may_be_left_out_and_spaced(text):
    assert parse(text) == NodeShape(count=1, capacity={"cpu": "8"})


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "empty"),
        ("2*", "'2*'"),
        ("cpu", "'cpu' is not KEY=VALUE"),
        ("cpu=", "'cpu=' is not KEY=VALUE"),
        ("cpu=8,,memory=1Gi", "'' is not KEY=VALUE"),
        ("cpu=eight", "'eight' is not a quantity"),
        ("memory=64GB", "'64GB' is not a quantity"),
        ("0*cpu=8", "at least one node"),
    ],
)
def test_a_wrong_shape_names_the_part(text, wrong):
    with pytest.raises(TestbedError) as caught:
        parse(text)
    assert wrong in str(caught.value)


def test_nodes_are_numbered_through_all_shapes():
    made = list(nodes([NodeShape(count=2), NodeShape(capacity={"cpu": "1"})], member="east"))

    assert [node["metadata"]["name"] for node in made] == ["n1", "n2", "n3"]
    assert made[2]["status"]["capacity"]["cpu"] == "1"


def test_a_node_offers_what_it_has_and_says_where_it_is():
    (node,) = nodes(
        [NodeShape(capacity={ACCELERATOR: "4"}, labels={"rack": "r1"}, taints=[{"key": "a"}])],
        member="east",
    )

    assert node["status"]["allocatable"] == node["status"]["capacity"]
    assert node["status"]["capacity"][ACCELERATOR] == "4"
    assert node["spec"]["taints"] == [{"key": "a"}]
    assert node["metadata"]["labels"]["rack"] == "r1"
    assert node["metadata"]["labels"]["topology.kubernetes.io/region"] == "east"


def test_members_have_accelerators_without_being_told():
    assert sum(1 for node in nodes(DEFAULT, member="m") if node["status"]["capacity"]) == 2
    assert all(ACCELERATOR in shape.capacity for shape in DEFAULT)
