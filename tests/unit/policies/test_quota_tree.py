"""The tree of FleetQuotas as values: what is named, what follows, which namespaces it counts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.quota_tree import NOTHING, Amounts, charged, claims_of, nodes_of

GPU, H200, A100 = ("gpu.io/gpu", ""), ("gpu.io/gpu", "h200"), ("gpu.io/gpu", "a100")


def quota(name, parent="", *lines, **spec):
    resources = [
        {"name": resource, "accelerator": accelerator, **amounts}
        for (resource, accelerator), amounts in lines
    ]
    return {"metadata": {"name": name}, "spec": {"parent": parent, "resources": resources, **spec}}


def lines(*objects, keys=()):
    return {node.name: node.lines for node in nodes_of(objects, keys=keys)}


def test_amounts_are_whole_numbers_of_the_smallest_unit():
    found = lines(
        quota(
            "a", "",
            (("cpu", ""), {"guaranteed": "1500m", "limit": 2}),
            (("memory", ""), {"guaranteed": "1Gi", "lendable": 0}),
            (GPU, {"guaranteed": 8, "limit": "12", "lendable": 4}),
        )
    )  # fmt: skip
    assert found["a"] == {
        ("cpu", ""): Amounts(1500, 2000, 1500),
        ("memory", ""): Amounts(1 << 30, None, 0),
        GPU: Amounts(8, 12, 4),
    }


def test_parents_come_before_children_and_siblings_by_name():
    objects = [quota("c", "b"), quota("b", "z"), quota("a", "z"), quota("z"), quota("y")]
    assert [node.name for node in nodes_of(objects)] == ["y", "z", "a", "b", "c"]


def test_settings_come_along():
    (node,) = nodes_of(
        [
            quota(
                "a", failoverReserve="10%", budget={"perMonth": "5 USD"},
                preemption={"within": "Never", "reclaim": "LowerPriority", "minRunTime": "10m",
                            "maxReclaimPerMinute": 64},
            )
        ]
    )  # fmt: skip
    assert (node.failover_reserve_percent, node.within, node.reclaim) == (
        10, "Never", "LowerPriority",
    )  # fmt: skip
    assert (node.min_run_time_s, node.max_reclaim_per_minute) == (600, 64)
    assert node.budget is not None and str(node.budget.per_month) == "5 USD"


def test_a_node_that_names_nothing_has_what_its_children_have():
    found = lines(
        quota("root"),
        quota("a", "root", (H200, {"guaranteed": 3, "limit": 9, "lendable": 1})),
        quota("b", "root", (H200, {"guaranteed": 4})),
        quota("c", "root"),
    )
    assert found["root"][H200] == Amounts(7, None, 5)
    assert found["c"][H200] == Amounts()


def test_all_kinds_together_are_the_sum_of_the_kinds_named():
    found = lines(quota("a", "", (H200, {"guaranteed": 3, "limit": 5}), (A100, {"guaranteed": 4})))
    assert found["a"][GPU] == Amounts(7, None, 7)


def test_a_kind_that_a_node_does_not_name_is_nothing_to_it():
    found = lines(
        quota("root"),
        quota("a", "root", (H200, {"guaranteed": 3})),
        quota("b", "root", (A100, {"guaranteed": 4})),
        quota("c", "root", (GPU, {"guaranteed": 5})),
        keys=[("gpu.io/gpu", "mi300")],
    )
    assert found["a"][A100] == NOTHING and found["b"][H200] == NOTHING
    assert found["c"][H200] == Amounts(), "the line for all kinds counts it"
    assert found["a"]["gpu.io/gpu", "mi300"] == NOTHING
    assert found["root"]["gpu.io/gpu", "mi300"] == Amounts()
    assert found["root"][GPU] == Amounts(12, None, 12)


def test_trees_know_nothing_of_each_others_resources():
    found = lines(quota("a", "", (GPU, {})), quota("b", "", (("cpu", ""), {})))
    assert list(found["a"]) == [GPU] and list(found["b"]) == [("cpu", "")]


def test_what_no_root_is_above_makes_no_node():
    objects = [quota("a", "b"), quota("b", "a"), quota("c", "gone"), quota("d")]
    assert [node.name for node in nodes_of(objects)] == ["d"]
    assert nodes_of([{"metadata": {"name": "x"}, "spec": {"parent": 5}}]) == ()


def test_work_is_charged_under_its_kind_and_under_all_kinds():
    assert charged("gpu.io/gpu", "h200") == (H200, GPU)
    assert charged("cpu") == (("cpu", ""),)


def namespace(name, **labels):
    return {"metadata": {"name": name, "labels": labels}}


def test_a_namespace_belongs_to_the_quota_that_selects_it():
    objects = [
        quota("nlp", namespaces={"matchLabels": {"team": "nlp"}}),
        quota("cv", namespaces={"matchLabels": {"team": "cv"}}),
        quota("none"),
    ]
    claims = claims_of(objects, [namespace("a", team="nlp"), namespace("b"), {
        "metadata": {"name": "c"}
    }])  # fmt: skip
    assert (claims.quota, claims.contested) == ({"a": "nlp"}, {})


@pytest.mark.parametrize("seed", range(5))
def test_of_several_quotas_the_first_by_name_has_it_in_whatever_order_they_come(seed):
    objects = [quota(name, namespaces={"matchLabels": {"x": "y"}}) for name in "cab"]
    random.Random(seed).shuffle(objects)
    claims = claims_of(objects, [namespace("n", x="y")])
    assert (claims.quota, claims.contested) == ({"n": "a"}, {"n": ("b", "c")})


@st.composite
def trees(draw):
    names = [f"q{number}" for number in range(draw(st.integers(1, 7)))]
    keys = st.sampled_from([GPU, H200, A100, ("cpu", "")])
    found = []
    for number, name in enumerate(names):
        parent = draw(st.sampled_from(["", *names[:number]]))
        given = draw(st.lists(st.tuples(keys, st.integers(0, 9)), unique_by=lambda pair: pair[0]))
        found.append(quota(name, parent, *((key, {"guaranteed": amount}) for key, amount in given)))
    return found


@given(trees(), st.randoms(use_true_random=False))
def test_the_tree_does_not_depend_on_the_order_of_its_objects(objects, rng):
    shuffled = list(objects)
    rng.shuffle(shuffled)
    assert nodes_of(shuffled) == nodes_of(objects)


@given(trees())
def test_every_node_has_a_line_for_every_key_of_its_tree(objects):
    nodes = {node.name: node for node in nodes_of(objects)}
    for node in nodes.values():
        if node.parent:
            assert list(node.lines) == list(nodes[node.parent].lines)
