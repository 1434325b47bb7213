"""The tree of FleetQuotas as values: what is named, what follows, which namespaces it counts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.quota_tree import Amounts, claims_of, nodes_of

GPU, H200, A100 = ("gpu.io/gpu", ""), ("gpu.io/gpu", "h200"), ("gpu.io/gpu", "a100")


def quota(name, parent="", *lines, **spec):
    resources = [
        {"name": resource, "accelerator": accelerator, **amounts}
        for (resource, accelerator), amounts in lines
    ]
    return {"metadata": {"name": name}, "spec": {"parent": parent, "resources": resources, **spec}}


def lines(*objects):
    return {node.name: node.lines for node in nodes_of(objects)}


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
        ("cpu", ""): Amounts(1500, 2000, None),
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
                "a", "", (GPU, {"guaranteed": 11}), (H200, {}),
                failoverReserve="10%", budget={"perMonth": "5 USD"},
                preemption={"within": "Never", "reclaim": "LowerPriority", "minRunTime": "10m",
                            "maxReclaimPerMinute": 64},
            )
        ]
    )  # fmt: skip
    assert (node.within, node.reclaim) == ("Never", "LowerPriority")
    assert node.reserve == {GPU: 2}, "a floor: rounded up"
    assert (node.min_run_time_s, node.max_reclaim_per_minute) == (600, 64)
    assert node.budget is not None and str(node.budget.per_month) == "5 USD"


def test_what_no_root_is_above_makes_no_node():
    objects = [quota("a", "b"), quota("b", "a"), quota("c", "gone"), quota("d")]
    assert [node.name for node in nodes_of(objects)] == ["d"]
    assert nodes_of([{"metadata": {"name": "x"}, "spec": {"parent": 5}}]) == ()


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
