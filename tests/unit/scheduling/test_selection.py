"""Which policy a workload is under."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import Invalid
from fleet.scheduling.selection import builtin_default, policy_of, select


def policy(name, *, namespace="research", **spec):
    return policy_of({"metadata": {"name": name, "namespace": namespace}, "spec": spec})


def workload(**labels):
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "research", "labels": labels},
    }


ALL = {"workloads": {}}
ONE = {"workloads": {"matchLabels": {"app": "a"}}}
TWO = {"workloads": {"matchLabels": {"app": "a", "team": "x"}}}


@pytest.mark.parametrize(
    ("labels", "policies", "chosen"),
    [
        pytest.param({}, [], ("fleet-system", "default"), id="the built-in default"),
        pytest.param(
            {}, [policy("named-only")], ("fleet-system", "default"),
            id="a policy without a selector is for those that name it",
        ),
        pytest.param({}, [policy("all", **ALL)], ("research", "all"), id="an empty selector"),
        pytest.param(
            {"app": "a"}, [policy("x", **ONE), policy("all", **ALL)], ("research", "x"),
            id="the most precise",
        ),
        pytest.param(
            {"app": "a"}, [policy("o", namespace="other", **ONE)], ("fleet-system", "default"),
            id="only of its own namespace",
        ),
        pytest.param(
            {"app": "a", "fleet.dev/policy": "named"}, [policy("x", **ONE), policy("named")],
            ("research", "named"), id="the label goes before selectors",
        ),
        pytest.param(
            {"fleet.dev/policy": "p"},
            [policy("p"), policy("p", namespace="fleet-system")],
            ("research", "p"), id="its own namespace first",
        ),
        pytest.param(
            {"fleet.dev/policy": "p"}, [policy("p", namespace="fleet-system")],
            ("fleet-system", "p"), id="then the shared one",
        ),
        pytest.param(
            {}, [policy("default", namespace="fleet-system", mode="Split")],
            ("fleet-system", "default"), id="a changed default",
        ),
    ],
)  # fmt: skip
def test_selection(labels, policies, chosen):
    selection = select(workload(**labels), policies)
    assert (selection.policy.namespace, selection.policy.name) == chosen
    assert not selection.warnings or len(policies) > 1, "a warning is for policies that compete"


@given(st.permutations([policy("b", **ONE), policy("a", **ONE), policy("c", **ALL)]))
def test_of_several_the_same_one_is_taken_in_any_order_with_a_warning(policies):
    selection = select(workload(app="a"), policies)
    assert selection.policy.name == "a"
    assert selection.warnings == (
        "several policies select this workload: a is applied, b, c are not; name one by the label "
        "fleet.dev/policy",
    )


def test_more_requirements_are_more_precise():
    policies = [policy("a", **ONE), policy("z", **TWO)]
    assert select(workload(app="a", team="x"), policies).policy.name == "z"


def test_a_named_policy_that_does_not_exist_is_an_error_not_the_default():
    policies = [policy("gang"), policy("elsewhere", namespace="other")]
    with pytest.raises(Invalid) as caught:
        select(workload(**{"fleet.dev/policy": "gagn"}), policies)
    (cause,) = caught.value.details.causes
    assert cause.field == "metadata.labels[fleet.dev/policy]"
    assert cause.message == (
        'no PlacementPolicy is called "gagn", neither in research nor in fleet-system; '
        "there is gang in research"
    )


def test_the_default_as_shipped_keeps_a_workload_whole():
    assert builtin_default().spec.mode == "One"
    assert builtin_default().spec.clusters.tiers == ()
