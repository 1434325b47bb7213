"""What workloads ask for: roles that are never empty, and faults that are named."""

from __future__ import annotations

import pytest

from fleet.errors import Invalid
from fleet.scheduling.demand import demand_of


def deployment(**spec):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}, **spec},
    }


def pod():
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
    }


@pytest.mark.parametrize(
    ("job", "pods"),
    [
        pytest.param({}, 6, id="indexed"),
        pytest.param({"completions": 4}, 4, id="fewer completions than may run at a time"),
        pytest.param({"completions": 60}, 6, id="more completions than run at a time"),
        pytest.param({"completions": None, "completionMode": "NonIndexed"}, 6, id="work queue"),
    ],
)
def test_pods_of_a_job(build, job, pods):
    demand = build.demand(6, **job)
    assert (demand.role.name, demand.role.pods) == ("worker", pods)
    assert demand.indexed is (job.get("completionMode") != "NonIndexed")


def test_a_job_that_says_nothing_runs_one_pod(build):
    job = build.job(1)
    del job["spec"]["parallelism"], job["spec"]["completions"]
    assert demand_of(job, build.policy().spec).role.pods == 1


def test_deployments_and_pods(build):
    spec = build.policy().spec
    assert demand_of(deployment(replicas=3), spec).role.pods == 3
    assert demand_of(deployment(), spec).role.pods == 1
    single = demand_of(pod(), spec)
    assert single.role.pods == 1
    assert dict(single.role.kind.request) == {"cpu": 1000, "pods": 1}


@pytest.mark.parametrize(
    ("mode", "gang", "network"),
    [
        ("One", {}, "None"),
        ("Split", {}, "ParameterPlane"),
        ("Split", {"network": "None"}, "None"),
        ("One", {"network": "DataPlane"}, "DataPlane"),
        ("Split", {"roles": [{"name": "worker", "network": "DataPlane"}]}, "DataPlane"),
    ],
)
def test_the_network_follows_from_the_mode_unless_it_is_said(build, mode, gang, network):
    assert build.demand(2, {"mode": mode, "gang": gang}).role.network == network


def test_a_role_may_have_its_own_unit(build):
    gang = {"unit": 8, "roles": [{"name": "worker", "unit": 2}]}
    assert build.demand(6, {"gang": gang}).role.unit == 2


@pytest.mark.parametrize(
    ("pods", "spec", "job", "field", "words"),
    [
        (
            8, {"gang": {"unit": 3}}, {}, "spec.gang.unit",
            "3 does not divide 8 ranks of role worker",
        ),
        (
            8, {"gang": {"roles": [{"name": "worker", "unit": 3}]}}, {}, "spec.gang.roles[0].unit",
            "3 does not divide 8 ranks",
        ),
        (
            8, {"gang": {"roles": [{"name": "loader"}]}}, {}, "spec.gang.roles[0].name",
            "the workload has no role loader, its role is worker",
        ),
        (0, {}, {}, "spec.parallelism", "asks for no pods: nothing to place"),
        (
            1, {}, {"requests": {"cpu": "lots"}}, "spec.template.spec.containers",
            "quantities must match",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_placed_names_the_field(build, pods, spec, job, field, words):
    with pytest.raises(Invalid) as caught:
        build.demand(pods, spec, **job)
    (cause,) = caught.value.details.causes
    assert cause.field == field
    assert words in cause.message


def test_every_fault_is_named_at_once(build):
    with pytest.raises(Invalid) as caught:
        build.demand(8, {"gang": {"unit": 3, "roles": [{"name": "loader"}]}})
    assert [cause.field for cause in caught.value.details.causes] == [
        "spec.gang.roles[0].name",
        "spec.gang.unit",
    ]


def test_a_kind_that_cannot_be_counted_is_an_error_not_an_empty_demand(build):
    """karmada#7550: workloads of several roles must not pass for asking nothing."""
    obj = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"}, "spec": {}}
    with pytest.raises(Invalid, match=r"ray\.io/v1 RayCluster cannot be placed"):
        demand_of(obj, build.policy().spec)


def test_an_affinity_that_cannot_be_read_is_an_error(build):
    job = build.job(1)
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}]
    job["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }
    with pytest.raises(Invalid, match="'Near' is no operator"):
        demand_of(job, build.policy().spec)


def test_priority_is_one_for_the_gang(build):
    job = build.job(2)
    job["spec"]["template"]["spec"]["priorityClassName"] = "high"
    spec = build.policy().spec
    demand = demand_of(job, spec, priorities={"high": 1000, "low": 1})
    assert (demand.priority, demand.priority_class) == (1000, "high")
    with pytest.raises(Invalid, match=r'no PriorityClass is called "high" \(there is low\)'):
        demand_of(job, spec, priorities={"low": 1})
