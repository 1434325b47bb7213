"""Chosen blocks as node affinity: judged by the rules that nodes are judged by."""

from __future__ import annotations

import copy

import pytest
from asking import capacity_of
from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduling.blocks import on_blocks
from fleet.scheduling.nodes import node_selector_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity(*terms):
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def term(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


USERS = [
    pytest.param({}, id="nothing"),
    pytest.param({"nodeSelector": {"zone": "a"}}, id="labels"),
    pytest.param(affinity(term("zone", "In", "a")), id="a term"),
    pytest.param(affinity(term("zone", "In", "a"), term("size", "Gt", "4")), id="alternatives"),
    pytest.param(
        affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}),
        id="a node",
    ),
    pytest.param(affinity({}), id="a term that matches nothing"),
    pytest.param(affinity(term("rack", "NotIn", "r1")), id="blocks of its own"),
]


@pytest.fixture
def nodes(build):
    labels = [
        {"zone": zone, "size": size, "rack": rack}
        for zone in "ab"
        for size in ("3", "5")
        for rack in ("r1", "r2", "r3")
    ]
    made = [build.node(f"n{at}", 1, labels=each) for at, each in enumerate(labels)]
    return capacity_of(made, [], as_of_s=0.0).nodes


@pytest.mark.parametrize("spec", USERS)
def test_pods_go_where_the_user_and_the_plan_both_let_them(nodes, spec):
    before = copy.deepcopy(spec)
    bound = on_blocks(spec, label="rack", blocks=["r2", "r1"])
    assert spec == before, "the spec that is given stays as it is"
    mine, both = node_selector_of(spec), node_selector_of(bound)
    assert {n.name for n in nodes if both.matches(n)} == {
        n.name for n in nodes if mine.matches(n) and n.labels["rack"] in ("r1", "r2")
    }


@pytest.mark.parametrize("spec", USERS)
def test_saying_it_twice_is_saying_it_once(spec):
    once = on_blocks(spec, label="rack", blocks=["r1"])
    assert on_blocks(once, label="rack", blocks=["r1"]) == once


@given(st.permutations(["r1", "r2", "r3"]))
def test_the_order_of_blocks_changes_nothing(blocks):
    assert on_blocks({}, label="rack", blocks=blocks) == on_blocks(
        {}, label="rack", blocks=["r1", "r2", "r3"]
    )


@pytest.mark.parametrize(
    ("label", "blocks"),
    [
        pytest.param("", ["r1"], id="the member has no block label"),
        pytest.param("rack", [], id="no block was chosen"),
        pytest.param("rack", [""], id="nodes of no block"),
        pytest.param("rack", ["r1", ""], id="nodes of no block among others"),
    ],
)
def test_where_blocks_have_no_name_totals_are_all_that_counts(label, blocks):
    spec = affinity(term("zone", "In", "a"))
    assert on_blocks(spec, label=label, blocks=blocks) is spec


def test_other_affinities_stay(build):
    spec = {
        "affinity": {
            "podAffinity": {"x": 1},
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]},
        }
    }
    bound = on_blocks(spec, label="rack", blocks=["r1"])["affinity"]
    assert bound["podAffinity"] == {"x": 1}
    assert bound["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == [
        {"weight": 1}
    ]
    assert bound["nodeAffinity"][REQUIRED] == {"nodeSelectorTerms": [term("rack", "In", "r1")]}
