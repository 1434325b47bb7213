"""What is left of an object that no write would let in."""

from __future__ import annotations

import pytest

from policies import FLEET_QUOTA, LENDING_POLICY, PLACEMENT_POLICY
from policies.salvage import salvaged

LINE = {"name": "nvidia.com/gpu", "guaranteed": "4"}


@pytest.mark.parametrize(
    ("kind", "spec", "left"),
    [
        (FLEET_QUOTA, {"parent": "top", "colour": "red"}, {"parent": "top"}),
        (FLEET_QUOTA, {"resources": [{**LINE, "limit": "x"}, LINE]}, {"resources": [LINE]}),
        (FLEET_QUOTA, {"resources": [LINE, LINE]}, {"resources": [LINE]}),
        (FLEET_QUOTA, {"resources": [{"limit": "1"}, {"x": 1}]}, {"resources": []}),
        (FLEET_QUOTA, {"namespaces": "all", "parent": "top"}, {"parent": "top"}),
        (
            FLEET_QUOTA,
            {
                "namespaces": {
                    "matchLabels": {"team": "nlp"},
                    "matchExpressions": [{"key": "a", "operator": "Like"}],
                }
            },
            {"namespaces": {"matchLabels": {"team": "nlp"}, "matchExpressions": []}},
        ),
        (FLEET_QUOTA, {"budget": {}, "parent": "top"}, {"parent": "top"}),
        (FLEET_QUOTA, "none", {}),
        (
            PLACEMENT_POLICY,
            {"mode": "Both", "workloads": {"matchLabels": {"app": "x"}}},
            {"workloads": {"matchLabels": {"app": "x"}}},
        ),
        (
            LENDING_POLICY,
            {"from": {"quota": "a", "keepShare": "much"}, "to": [{"quota": "b"}, {}]},
            {"from": {"quota": "a"}, "to": [{"quota": "b"}]},
        ),
        (LENDING_POLICY, {"to": [{"quota": "b"}]}, {"to": [{"quota": "b"}]}),
    ],
)
def test_each_wrong_part_is_left_out(kind, spec, left):
    obj = {"metadata": {"name": "x"}, "spec": spec}
    assert salvaged(kind, obj)["spec"] == left
    assert obj["spec"] == spec
