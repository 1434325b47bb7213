"""The kinds: what is filled in, what is refused and in which words, what is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import policies
from fleet.errors import Invalid
from policies import (
    CLUSTER,
    FLEET_QUOTA,
    LENDING_POLICY,
    PLACEMENT,
    PLACEMENT_POLICY,
    PRICE_BOOK,
    builtin,
)
from policies.placement import name_of

SKETCHES = tuple(yaml.safe_load_all((Path(__file__).parent / "sketches.yaml").read_text()))
BY_NAME = {kind.name: kind for kind in policies.kinds()}


def made(kind, spec):
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": kind.name,
        "metadata": {"name": "x"},
        "spec": spec,
    }


def faults(kind, spec):
    """{field: message} of an object with this spec."""
    return {cause.field: cause.message for cause in kind.problems(made(kind, spec))}


@pytest.mark.parametrize("obj", SKETCHES, ids=lambda obj: obj["metadata"]["name"])
def test_files_as_a_user_writes_them(obj):
    kind = BY_NAME[obj["kind"]]
    kind.rules.default(obj)
    kind.rules.validate(obj, None)
    kind.parse(obj)


# -- defaults


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (
            PLACEMENT_POLICY,
            {
                "mode": "One",
                "gang": {"maxClusters": 2, "unit": 1, "indexMode": "Global"},
                "objective": {
                    "spot": "Never", "whenTooDear": "Queue",
                    "checkpoint": {"every": "30m", "restart": "5m"},
                },
                "failover": {
                    "tolerate": "5m", "fencing": "Controller", "neverBelow": "0%",
                    "warmReplacement": False,
                },
            },
        ),
        (CLUSTER, {"maintenance": {"cordoned": False}, "capacityMaxAge": "30s"}),
        (
            FLEET_QUOTA,
            {
                "failoverReserve": "0%",
                "preemption": {"within": "LowerPriority", "reclaim": "Any", "minRunTime": "0s"},
            },
        ),
        (PRICE_BOOK, {"currency": "USD", "maxAge": "24h"}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)  # fmt: skip
def test_what_is_left_out_is_filled_in(kind, spec):
    obj = {"kind": kind.name}
    kind.rules.default(obj)
    assert obj["spec"] == spec
    kind.rules.validate(obj, None)


def test_what_is_given_stays_as_it_is():
    obj = made(PLACEMENT_POLICY, {"gang": {"unit": 8}, "clusters": {"tiers": [{"name": "own"}]}})
    PLACEMENT_POLICY.rules.default(obj)
    assert obj["spec"]["gang"] == {"unit": 8, "maxClusters": 2, "indexMode": "Global"}
    assert obj["spec"]["clusters"]["tiers"] == [{"name": "own"}]


@pytest.mark.parametrize("spec", [None, "text", [], {"gang": "text"}, {"gang": None}])
def test_filling_in_leaves_nonsense_to_the_validation(spec):
    obj = made(PLACEMENT_POLICY, spec)
    PLACEMENT_POLICY.rules.default(obj)


def test_a_status_is_never_filled_in():
    obj = {"status": {}}
    PLACEMENT.rules.default(obj)
    assert obj == {"status": {}}


def test_filling_in_twice_changes_nothing():
    obj = made(PLACEMENT_POLICY, {"gang": {"roles": [{"name": "worker"}]}})
    PLACEMENT_POLICY.rules.default(obj)
    once = yaml.safe_dump(obj)
    PLACEMENT_POLICY.rules.default(obj)
    assert yaml.safe_dump(obj) == once


# -- faults


@pytest.mark.parametrize(
    ("kind", "spec", "field", "message"),
    [
        (
            PLACEMENT_POLICY, {"objective": {"maxPrice": "12"}}, "spec.objective.maxPrice",
            '"12" needs a currency, e.g. "12 USD/h"',
        ),
        (
            PLACEMENT_POLICY, {"gang": {"maxCluster": 3}}, "spec.gang.maxCluster",
            "unknown field, did you mean maxClusters?",
        ),
        (
            PLACEMENT_POLICY, {"gang": {"max_clusters": 3}}, "spec.gang.max_clusters",
            "unknown field, did you mean maxClusters?",
        ),
        (
            PLACEMENT_POLICY, {"failover": {"abc": 3}}, "spec.failover.abc",
            "unknown field; known here: tolerate, fencing, neverBelow, warmReplacement",
        ),
        (
            PLACEMENT_POLICY, {"mode": "split"}, "spec.mode",
            'Unsupported value: "split": supported values: "One", "Split"; did you mean Split?',
        ),
        (PLACEMENT_POLICY, {"gang": {"unit": 0}}, "spec.gang.unit", "must be at least 1, not 0"),
        (
            PLACEMENT_POLICY, {"gang": {"maxClusters": 65}}, "spec.gang.maxClusters",
            "must be at most 64, not 65",
        ),
        (
            PLACEMENT_POLICY, {"gang": {"unit": "3"}}, "spec.gang.unit",
            'must be a whole number, not "3": write 3 without quotes',
        ),
        (
            PLACEMENT_POLICY, {"gang": {"unit": True}}, "spec.gang.unit",
            "must be a whole number, not true",
        ),
        (
            PLACEMENT_POLICY, {"gang": {"plane": 5}}, "spec.gang.plane",
            "must be a text, not 5: write it in quotes",
        ),
        (PLACEMENT_POLICY, {"gang": []}, "spec.gang", "must be an object, not a list"),
        (
            PLACEMENT_POLICY, {"clusters": {"tiers": {"a": "b"}}}, "spec.clusters.tiers",
            "must be a list, not an object",
        ),
        (
            PLACEMENT_POLICY, {"failover": {"warmReplacement": "yes"}},
            "spec.failover.warmReplacement", 'must be true or false, not "yes"',
        ),
        (
            PLACEMENT_POLICY, {"gang": {"roles": [{}]}}, "spec.gang.roles[0].name",
            "must be given: name of the role, e.g. worker",
        ),
        (
            PLACEMENT_POLICY, {"failover": {"tolerate": "4999ms"}}, "spec.failover.tolerate",
            "must be at least 5s: it is the lease by which a part runs, and one that is shorter is "
            "over before the fleet can renew it",
        ),
        (
            PLACEMENT_POLICY, {"gang": {"plane": "roce-1"}}, "spec.gang.plane",
            '"roce-1" says which network it must be, but spec.gang.network is None; write '
            "ParameterPlane or DataPlane there",
        ),
        (
            PLACEMENT_POLICY, {"gang": {"roles": [{"name": "a"}, {"name": "a"}]}},
            "spec.gang.roles[1].name", '"a" is there twice',
        ),
        (
            PLACEMENT_POLICY,
            {"clusters": {"tiers": [{"name": "own"}]},
             "gang": {"roles": [{"name": "worker", "tiers": ["won"]}]}},
            "spec.gang.roles[0].tiers[0]", 'no tier of spec.clusters.tiers is called "won" (own)',
        ),
        (
            PLACEMENT_POLICY, {"clusters": {"tiers": [{"name": "a"}, {"name": "a"}]}},
            "spec.clusters.tiers[1].name", '"a" is the name of an earlier tier',
        ),
        (
            PLACEMENT_POLICY, {"clusters": {"tiers": [{"after": "5m"}]}},
            "spec.clusters.tiers[0].after", "the first tier has none before it to wait for",
        ),
        (
            PLACEMENT_POLICY, {"clusters": {"tolerations": [{"value": "x"}]}},
            "spec.clusters.tolerations[0].key",
            "must be given, or operator: Exists, which then tolerates every taint",
        ),
        (
            PLACEMENT_POLICY,
            {"clusters": {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]}},
            "spec.clusters.tolerations[0].value",
            "must be empty with operator Exists: the key alone counts",
        ),
        (
            CLUSTER,
            {"connection": {"kubeconfigSecretRef": {"name": "a"}, "virtual": {"adapter": "b"}}},
            "spec.connection",
            "has both kubeconfigSecretRef and virtual; write the one that is so",
        ),
        (
            CLUSTER, {"taints": [{"key": "a"}, {"key": "a"}]}, "spec.taints[1]",
            "a:NoSchedule is there twice",
        ),
        (CLUSTER, {"taints": [{"key": ""}]}, "spec.taints[0].key", "may not be empty"),
        (
            PRICE_BOOK, {"offers": [{"cluster": "a"}]}, "spec.offers[0].perHour",
            'must be given for billing OnDemand: a missing price is not free; write "98.32" '
            "(in USD), or billing: Owned",
        ),
        (
            PRICE_BOOK, {"offers": [{"cluster": "a", "billing": "Owned", "perHour": "0"}]},
            "spec.offers[0].perHour",
            "what is Owned has no price per hour; leave it out, or write billing: Reserved",
        ),
        (
            PRICE_BOOK, {"offers": [{"cluster": "a", "perHour": 5}]}, "spec.offers[0].perHour",
            '5 must be a text, so that it stays exact: "98.32"',
        ),
        (
            PRICE_BOOK,
            {"offers": [{"cluster": "a", "perHour": "1"}, {"cluster": "a", "perHour": "2"}]},
            "spec.offers[1]", "an earlier offer is for the same nodes and billing",
        ),
        (
            PRICE_BOOK, {"offers": [{"cluster": "a", "perHour": "1", "interruptionsPerHour": "1"}]},
            "spec.offers[0].interruptionsPerHour", "only Spot is interrupted, not OnDemand",
        ),
        (
            PRICE_BOOK, {"currency": "Dollar"}, "spec.currency",
            '"Dollar" is no currency, write its three letters, e.g. "USD"',
        ),
        (
            PRICE_BOOK, {"egress": [{"from": "a", "to": "b", "perGiB": "1", "toll": 1}]},
            "spec.egress[0].toll", "unknown field, did you mean to?",
        ),
        (
            PRICE_BOOK, {"offers": [{"cluster": "a", "perHour": "0"}]}, "spec.offers[0].perHour",
            "0 is no price for billing OnDemand: only what is Owned costs nothing, write billing: "
            "Owned",
        ),
        (
            PRICE_BOOK, {"offers": [{"cluster": "a", "billing": "Spot", "perHour": "0.00"}]},
            "spec.offers[0].perHour",
            "0 is no price for billing Spot: only what is Owned costs nothing, write billing: "
            "Owned",
        ),
        (
            PRICE_BOOK, {"offers": [{"cluster": "", "perHour": "1"}]}, "spec.offers[0].cluster",
            "may not be empty",
        ),
        (
            PRICE_BOOK, {"offers": [{"cluster": "a", "perHour": "-1"}]}, "spec.offers[0].perHour",
            '"-1" may not be negative, write e.g. "98.32" (at most 6 places)',
        ),
        (
            PRICE_BOOK, {"offers": [{"cluster": "a", "perHour": "1" + "0" * 12}]},
            "spec.offers[0].perHour",
            '"1000000000000" is more than can be counted: at most 12 digits before the point',
        ),
        (
            PRICE_BOOK, {"currency": "ABC"}, "spec.currency",
            '"ABC" is no currency there is (ISO 4217), write e.g. "USD"',
        ),
        (
            PRICE_BOOK,
            {"offers": [{"cluster": "a", "billing": "Spot", "perHour": "1",
                         "interruptionsPerHour": "-0.1"}]},
            "spec.offers[0].interruptionsPerHour",
            '"-0.1" may not be negative, write e.g. "98.32" (at most 6 places)',
        ),
        (
            PRICE_BOOK, {"egress": [{"from": "", "to": "b", "perGiB": "1"}]},
            "spec.egress[0].from", "may not be empty",
        ),
        (
            PRICE_BOOK,
            {"egress": [{"from": "a", "to": "b", "perGiB": "1"},
                        {"from": "a", "to": "b", "perGiB": "2"}]},
            "spec.egress[1]", "an earlier one is for a to b",
        ),
        (
            PLACEMENT_POLICY, {"objective": {"maxPrice": "12 ABC/h"}}, "spec.objective.maxPrice",
            '"ABC" is no currency there is (ISO 4217), write e.g. "USD"',
        ),
        (
            PLACEMENT_POLICY, {"objective": {"budget": {"perMonth": "0 USD"}}},
            "spec.objective.budget.perMonth",
            "nothing may be spent: to keep work from clusters that cost, do not select them",
        ),
        (
            PLACEMENT_POLICY, {"objective": {"budget": {"perMonth": "12"}}},
            "spec.objective.budget.perMonth", '"12" needs a currency, e.g. "12 USD"',
        ),
        (
            PLACEMENT_POLICY, {"objective": {"budget": {"perMonth": "12 USD/h"}}},
            "spec.objective.budget.perMonth",
            '"12 USD/h" is no sum of money, write e.g. "200000 USD"',
        ),
        (
            PLACEMENT_POLICY,
            {"objective": {"budget": {"perMonth": "12 EUR"}, "maxPrice": "1 USD/h"}},
            "spec.objective.budget.perMonth",
            "is in EUR, and spec.objective.maxPrice in USD: one currency is not made into "
            "another, write both in that of the PriceBooks",
        ),
        (
            PLACEMENT_POLICY, {"objective": {"deadline": "0s"}}, "spec.objective.deadline",
            "must be longer than nothing",
        ),
        (
            PLACEMENT_POLICY, {"objective": {"deadline": "1h", "runTime": "2h"}},
            "spec.objective.deadline",
            "1h is shorter than the expected run time of 2h: nothing could be done in time",
        ),
        (
            PLACEMENT_POLICY, {"gang": {"unit": 4, "min": 6}}, "spec.gang.min",
            "6 pods are no whole units of 4",
        ),
        (
            PLACEMENT_POLICY, {"gang": {"unit": 2**31}}, "spec.gang.unit",
            "must be at most 2147483647, not 2147483648",
        ),
        (
            PLACEMENT_POLICY, {"data": [{"at": [], "size": "1Gi"}]}, "spec.data[0].at",
            "must name the networks that have a copy, e.g. [dc-east] (networks.dataPlane of "
            "their clusters)",
        ),
        (
            PLACEMENT_POLICY, {"data": [{"at": ["a"], "size": "-1Gi"}]}, "spec.data[0].size",
            '"-1Gi" may not be negative',
        ),
        (
            FLEET_QUOTA, {"resources": [{"name": ""}]}, "spec.resources[0].name",
            "may not be empty, write e.g. nvidia.com/gpu",
        ),
        (
            FLEET_QUOTA, {"resources": [{"name": "cpu", "guaranteed": -1}]},
            "spec.resources[0].guaranteed", "-1 may not be negative",
        ),
        (
            FLEET_QUOTA, {"resources": [{"name": "cpu", "guaranteed": "-500m"}]},
            "spec.resources[0].guaranteed", '"-500m" may not be negative',
        ),
        (
            FLEET_QUOTA, {"resources": [{"name": "nvidia.com/gpu", "guaranteed": 2**63}]},
            "spec.resources[0].guaranteed",
            "9223372036854775808 is more than can be counted: it must be below 2^63 - 1",
        ),
        (
            FLEET_QUOTA, {"resources": [{"name": "memory", "guaranteed": "9000Ei"}]},
            "spec.resources[0].guaranteed",
            '"9000Ei" is more than can be counted: it must be below 2^63 - 1',
        ),
        (
            FLEET_QUOTA, {"resources": [{"name": "cpu", "guaranteed": 2**62}]},
            "spec.resources[0].guaranteed",
            "4611686018427387904 is more than can be counted: in thousandths it must be below "
            "2^63 - 1",
        ),
        (
            FLEET_QUOTA, {"resources": [{"name": "nvidia.com/gpu", "guaranteed": "1500m"}]},
            "spec.resources[0].guaranteed",
            "1500m is no whole number; of nvidia.com/gpu only whole ones are counted",
        ),
        (
            FLEET_QUOTA, {"resources": [{"name": "cpu", "guaranteed": "100u"}]},
            "spec.resources[0].guaranteed", "100u is no whole number of thousandths",
        ),
        (
            FLEET_QUOTA, {"resources": [{"name": "nvidia.com/gpu", "guaranteed": "many"}]},
            "spec.resources[0].guaranteed",
            '"many" is no quantity, write e.g. "500m", "4" or "16Gi"',
        ),
        (
            FLEET_QUOTA, {"resources": [{"name": "cpu", "guaranteed": 24, "limit": "23999m"}]},
            "spec.resources[0].limit", "23999m is less than the 24 guaranteed",
        ),
        (
            FLEET_QUOTA, {"resources": [{"name": "cpu", "guaranteed": 24, "lendable": 25}]},
            "spec.resources[0].lendable",
            "25 is more than the 24 guaranteed: only what is guaranteed can be lent",
        ),
        (
            FLEET_QUOTA,
            {"resources": [{"name": "nvidia.com/gpu", "accelerator": "h200"},
                           {"name": "nvidia.com/gpu", "accelerator": "h200"}]},
            "spec.resources[1]",
            "an earlier line is for nvidia.com/gpu of h200; write both as one",
        ),
        (
            FLEET_QUOTA, {"namespaces": {"matchLabels": {"a b": "c"}}},
            "spec.namespaces.matchLabels[a b]", None,
        ),
        (
            FLEET_QUOTA, {"failoverReserve": "101%"}, "spec.failoverReserve",
            '"101%" is no share, write "0%" to "100%"',
        ),
        (
            FLEET_QUOTA, {"preemption": {"reclaim": "any"}}, "spec.preemption.reclaim",
            'Unsupported value: "any": supported values: "Never", "LowerPriority", "Any"; did you '
            "mean Any?",
        ),
        (
            FLEET_QUOTA, {"preemption": {"minRunTime": "-1m"}}, "spec.preemption.minRunTime",
            '"-1m" is no duration, write e.g. "30s", "10m" or "72h"',
        ),
        (
            FLEET_QUOTA, {"preemption": {"maxReclaimPerMinute": 0}},
            "spec.preemption.maxReclaimPerMinute", "must be at least 1, not 0",
        ),
        (
            FLEET_QUOTA, {"budget": {"perMonth": "0 USD"}}, "spec.budget.perMonth",
            "nothing may be spent: to keep work from clusters that cost, do not select them",
        ),
        (
            FLEET_QUOTA, {"budget": {"whenSpent": "Warn"}}, "spec.budget.perMonth",
            'must be given: the ceiling with its currency, e.g. "200000 USD"',
        ),
        (
            LENDING_POLICY, {"from": {"quota": "a"}, "to": []}, "spec.to",
            "may not be empty: name the quotas that may borrow",
        ),
        (
            LENDING_POLICY, {"from": {"quota": ""}, "to": [{"quota": "b"}]}, "spec.from.quota",
            "may not be empty",
        ),
        (
            LENDING_POLICY, {"from": {"quota": "a"}, "to": [{"quota": "a"}]}, "spec.to[0].quota",
            '"a" is the donor itself',
        ),
        (
            LENDING_POLICY, {"from": {"quota": "a"}, "to": [{"quota": "b"}, {"quota": "b"}]},
            "spec.to[1].quota", '"b" is there twice',
        ),
        (
            LENDING_POLICY,
            {"from": {"quota": "a"}, "to": [{"quota": "b"}], "term": {"max": "5m"}},
            "spec.term.notice",
            "5m is no shorter than the term of 5m: work would be called back as it starts",
        ),
        (
            LENDING_POLICY,
            {"from": {"quota": "a"}, "to": [{"quota": "b"}], "term": {"max": "0s"}},
            "spec.term.max", "must be longer than nothing",
        ),
        (
            LENDING_POLICY,
            {"from": {"quota": "a"}, "to": [{"quota": "b"}],
             "recallOrder": ["Expired", "Expired"]},
            "spec.recallOrder", "names a step twice",
        ),
        (
            LENDING_POLICY,
            {"from": {"quota": "a", "expects": [
                {"name": "gpu", "accelerator": "h200", "amount": "1"}, {"name": "gpu", "amount": 2},
                {"name": "gpu", "accelerator": "h200", "amount": "3"}]},
             "to": [{"quota": "b"}]},
            "spec.from.expects[2]", '"gpu h200" is there twice',
        ),
        (
            LENDING_POLICY,
            {"from": {"quota": "a", "expects": [{"name": "gpu", "amount": "-1"}]},
             "to": [{"quota": "b"}]},
            "spec.from.expects[0].amount", '"-1" may not be negative',
        ),
        (LENDING_POLICY, {"to": [{"quota": "b"}]}, "spec.from", "must be given: the donor"),
        (PLACEMENT, {}, "spec.workload", "must be given: the workload"),
    ],
)  # fmt: skip
def test_a_wrong_field_says_what_to_write(kind, spec, field, message):
    found = faults(kind, spec)
    assert list(found) == [field]
    assert message is None or found[field] == message


@pytest.mark.parametrize(
    ("selector", "part", "words"),
    [
        (
            {"matchExpressions": [
                {"key": "b", "operator": "Exists"}, {"key": "a", "operator": "In"},
            ]},
            "matchExpressions[1]", "values set can't be empty",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
            "matchExpressions[0]", "must be empty",
        ),
        ({"matchLabels": {"a b": "c"}}, "matchLabels[a b]", "name part must consist of"),
        ({"matchLabels": {"c": "d", "a": "b c"}}, "matchLabels[a]", "a valid label must be"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["workloads", "selector", "tier", "quota"])
def test_selectors_are_judged_wherever_they_stand(selector, part, words, where):
    kind, spec, field = {
        "workloads": (PLACEMENT_POLICY, {"workloads": selector}, "spec.workloads"),
        "selector": (
            PLACEMENT_POLICY, {"clusters": {"selector": selector}}, "spec.clusters.selector",
        ),
        "tier": (
            PLACEMENT_POLICY, {"clusters": {"tiers": [{"selector": selector}]}},
            "spec.clusters.tiers[0].selector",
        ),
        "quota": (FLEET_QUOTA, {"namespaces": selector}, "spec.namespaces"),
    }[where]  # fmt: skip
    found = faults(kind, spec)
    assert list(found) == [f"{field}.{part}"]
    assert words in found[f"{field}.{part}"]


def test_every_wrong_field_is_named_at_once():
    spec = {
        "mode": "Both",
        "gang": {"unit": "3", "maxClusters": 0, "roles": [{"nam": "x"}]},
        "objective": {"maxPrice": "12"},
        "failover": {"tolerate": "5"},
        "extra": 1,
    }
    assert set(faults(PLACEMENT_POLICY, spec)) == {
        "spec.mode",
        "spec.gang.unit",
        "spec.gang.maxClusters",
        "spec.gang.roles[0].name",
        "spec.gang.roles[0].nam",
        "spec.objective.maxPrice",
        "spec.failover.tolerate",
        "spec.extra",
    }


def test_a_refusal_reads_like_one_of_kubernetes():
    with pytest.raises(Invalid) as caught:
        PLACEMENT_POLICY.rules.validate(made(PLACEMENT_POLICY, {"gang": {"unit": 0}}), None)
    assert str(caught.value) == (
        'PlacementPolicy.fleet.dev "x" is invalid: spec.gang.unit: must be at least 1, not 0'
    )
    assert caught.value.details.kind == "PlacementPolicy"


def test_a_field_beside_the_spec_is_unknown():
    obj = made(PLACEMENT_POLICY, {}) | {"spce": {}}
    (cause,) = PLACEMENT_POLICY.problems(obj)
    assert (cause.field, cause.message) == ("spce", "unknown field, did you mean spec?")


def test_a_placement_stays_with_its_workload():
    workload = {"apiVersion": "batch/v1", "kind": "Job", "name": "a"}
    old = made(PLACEMENT, {"workload": workload})
    new = made(PLACEMENT, {"workload": {**workload, "name": "b"}})
    (cause,) = PLACEMENT.problems(new, old)
    assert cause.field == "spec.workload"
    assert not PLACEMENT.problems(old, old)


def test_an_old_object_that_cannot_be_read_does_not_stop_its_mending():
    old = made(PLACEMENT, {"workload": "nonsense"})
    new = made(PLACEMENT, {"workload": {"apiVersion": "batch/v1", "kind": "Job", "name": "a"}})
    assert not PLACEMENT.problems(new, old)


def test_a_status_of_another_writer_does_not_stop_a_change_of_the_spec():
    obj = made(CLUSTER, {}) | {"status": {"of": "a later release"}}
    assert not CLUSTER.problems(obj)
    with pytest.raises(Invalid):
        CLUSTER.parse(obj)


# -- what is shipped


def test_the_shipped_policies_are_sound_and_each_call_gives_fresh_ones():
    (default,) = builtin.objects()
    assert (default["metadata"]["namespace"], default["metadata"]["name"]) == (
        "fleet-system", "default",
    )  # fmt: skip
    PLACEMENT_POLICY.rules.default(default)
    PLACEMENT_POLICY.rules.validate(default, None)
    assert builtin.objects()[0] != default


def test_a_name_of_a_placement_belongs_to_one_workload():
    assert name_of("Job", "train") == "job-train"
    assert name_of("Job", "a-b") != name_of("JobA", "b")
