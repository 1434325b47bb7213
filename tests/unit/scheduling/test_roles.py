"""Gangs of several roles: all of them count, all of them or none, each on its network."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asking import capacity_of
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.errors import Invalid
from fleet.scheduling.capacity import PodKind
from fleet.scheduling.clusters import Cluster
from fleet.scheduling.demand import Demand, Role, Workload, demand_of
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.placement import Plan, Refusal, place, replace_shards
from fleet.scheduling.requests import vector

GPU = PodKind(vector({"nvidia.com/gpu": 1, "pods": 1}))
NODE = PodKind(vector({"nvidia.com/gpu": 8, "cpu": 32_000, "pods": 1}))
CPU = PodKind(vector({"cpu": 16_000, "pods": 1}))
SPLIT = {"mode": "Split", "gang": {"maxClusters": 2}}


def gang(build, *roles, spec=None):
    """Each role as (name, pods) or (name, pods, unit, kind) or with its network besides."""
    defaults = (None, None, 1, GPU, "ParameterPlane")
    made = tuple(Role(*each, *defaults[len(each) :]) for each in roles)
    workload = Workload("batch/v1", "Job", "default", "train", "uid-train")
    return Demand(workload, made, build.policy(SPLIT if spec is None else spec).spec)


def ask(demand, fleet, **more):
    return place(demand, fleet, generation=1, now_s=0.0, **more)


def where(plan):
    """{cluster: {role: (first rank, pods)}}."""
    assert isinstance(plan, Plan), plan.message
    return {
        shard.cluster: {each.role: (each.first, each.count) for each in shard.intervals}
        for shard in plan.shards
    }


def machines(build, name, gpus, cpus=(), **more):
    """A member with nodes of 8 accelerators in blocks of `gpus`, and CPU nodes in one of theirs."""
    labels = [f"r{at}" for at, count in enumerate(gpus) for _ in range(count)]
    nodes = [build.node(f"g{at}", 8, labels={"rack": rack}) for at, rack in enumerate(labels)]
    nodes += [
        build.node(f"c{at}", 0, cpu=str(cpu), labels={"rack": "cpu", "fleet.dev/accelerator": ""})
        for at, cpu in enumerate(cpus)
    ]
    capacity = capacity_of(nodes, [], as_of_s=0.0, block_label="rack")
    return Cluster(name, {}, capacity, **{"parameter_plane": "roce-1", **more})


def test_the_gang_is_all_its_roles_with_head_and_submitter(build):
    """KAI#500, kuberay#4066: what is larger than the room by one head gets no part of itself."""
    roles = [("submitter", 1), ("head", 1), ("worker", 6)]
    assert isinstance(ask(gang(build, *roles), [build.cluster("a", 7)]), Refusal)
    assert where(ask(gang(build, *roles), [build.cluster("a", 8)])) == {
        "a": {"submitter": (0, 1), "head": (0, 1), "worker": (0, 6)}
    }


def test_roles_whose_pods_are_alike_are_searched_as_one_and_exactly(build):
    plan = ask(
        gang(build, ("head", 1), ("worker", 6)), [build.cluster("a", 4), build.cluster("b", 3)]
    )
    assert where(plan) == {"a": {"head": (0, 1), "worker": (0, 3)}, "b": {"worker": (3, 3)}}
    assert plan.exact


def test_the_demand_of_a_gang_is_a_vector_not_a_number(build):
    """karmada#7550: a role that needs what a member lacks is seen, however many others fit."""
    fleet = [machines(build, "gpus", [4]), machines(build, "cpus", [], [32, 32])]
    demand = gang(build, ("loader", 21, 1, CPU, "None"), ("worker", 2, 1, NODE))
    refusal = ask(demand, fleet)
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith("role loader: ")


def test_each_role_is_on_a_network_of_its_kind(build):
    """A loader may sit off the plane of the workers, but on one data plane with its like."""
    fleet = [
        machines(build, "a", [2], data_plane="net-1"),
        machines(build, "b", [2], parameter_plane="roce-2", data_plane="net-1"),
        machines(build, "cpu", [], [64], parameter_plane="", data_plane="net-1"),
        machines(build, "far", [], [64], parameter_plane="", data_plane="net-2"),
    ]
    loaders = ("loader", 8, 1, CPU, "DataPlane")
    plan = ask(gang(build, ("worker", 2, 1, NODE), loaders), fleet)
    # Two blocks: beside the workers there would be room for half of the loaders only.
    assert where(plan) == {"a": {"loader": (0, 8)}, "b": {"worker": (0, 2)}}
    assert plan.domain == "roce-2"
    assert isinstance(ask(gang(build, ("worker", 3, 1, NODE), loaders), fleet), Refusal)
    many = ("loader", 13, 1, CPU, "DataPlane")
    assert isinstance(ask(gang(build, ("worker", 2, 1, NODE), many), fleet), Refusal)


def test_roles_that_need_each_other_are_refused_where_no_plane_has_both(build):
    """skypilot#10297: told at once, with the network that is missing, not by hanging later."""
    large = PodKind(vector({"cpu": 100_000, "pods": 1}))
    fleet = [
        machines(build, "a", [2], parameter_plane="roce-1"),
        machines(build, "b", [], [128], parameter_plane="roce-2"),
    ]
    together = gang(build, ("head", 1, 1, large), ("worker", 2, 1, NODE))
    assert isinstance(ask(together, fleet), Refusal)
    apart = gang(build, ("head", 1, 1, large, "None"), ("worker", 2, 1, NODE))
    assert set(where(ask(apart, fleet))) == {"a", "b"}
    refusal = ask(together, [replace(each, parameter_plane="") for each in fleet])
    assert isinstance(refusal, Refusal)
    assert "not known to be on any plane" in refusal.message


def test_a_network_that_is_named_and_nobody_has_is_an_answer_not_ignored(build):
    """volcano#5189: an unsatisfied constraint is never dropped."""
    spec = {"mode": "Split", "gang": {"plane": "roce-9"}}
    demand = gang(build, ("head", 1), ("worker", 2), spec=spec)
    refusal = ask(demand, [build.cluster("a", 8)])
    assert isinstance(refusal, Refusal)
    assert "plane roce-1 is not roce-9" in refusal.message


def test_the_span_counts_the_clusters_of_all_roles(build):
    fleet = [
        machines(build, "a", [1]), machines(build, "b", [1]), machines(build, "c", [], [64]),
    ]  # fmt: skip
    roles = [("worker", 2, 1, NODE), ("loader", 5, 1, CPU, "None")]
    refusal = ask(gang(build, *roles), fleet)
    assert isinstance(refusal, Refusal)
    assert "not all of them at once in 2 clusters" in refusal.message
    wide = {"mode": "Split", "gang": {"maxClusters": 3}}
    assert set(where(ask(gang(build, *roles, spec=wide), fleet))) == {"a", "b", "c"}


def test_small_roles_go_where_they_cost_no_accelerator(build):
    """A head on a CPU node leaves the accelerator nodes to the workers."""
    whole = PodKind(vector({"nvidia.com/gpu": 8, "cpu": 64_000, "pods": 1}))
    demand = gang(build, ("head", 1, 1, CPU), ("worker", 2, 1, whole))
    plan = ask(demand, [machines(build, "a", [2], [16])])
    assert dict(plan.shards[0].by_role)["head"] == (("cpu", 1),)


def test_the_head_has_rank_zero_in_shard_zero_wherever_it_is(build):
    fleet = [
        machines(build, "a", [2]),
        machines(build, "z", [], [48], data_plane=""),
    ]
    head = PodKind(vector({"cpu": 40_000, "pods": 1}))
    tight = PodKind(vector({"nvidia.com/gpu": 8, "cpu": 60_000, "pods": 1}))
    plan = ask(gang(build, ("head", 1, 1, head, "None"), ("worker", 2, 1, tight)), fleet)
    assert [(s.index, s.cluster) for s in plan.shards] == [(0, "z"), (1, "a")]
    assert where(plan) == {"z": {"head": (0, 1)}, "a": {"worker": (0, 2)}}


def test_a_lost_shard_with_several_roles_is_placed_anew_as_it_was(build):
    wide = {"mode": "Split", "gang": {"maxClusters": 3}}
    fleet = [machines(build, "a", [2], [16]), machines(build, "b", [2], [16])]
    demand = gang(build, ("loader", 2, 1, CPU, "None"), ("worker", 4, 1, NODE), spec=wide)
    plan = ask(demand, fleet)
    before = where(plan)
    spare = machines(build, "c", [3], [64])
    again = replace_shards(plan, {"a"}, [fleet[1], spare], generation=2, now_s=0.0)
    after = where(again)
    assert after["b"] == before["b"]
    assert after["c"] == before["a"]
    assert {s.cluster: s.generation for s in again.shards} == {"b": 1, "c": 2}


def test_what_a_plan_promises_is_promised_for_every_role(build):
    cluster = machines(build, "a", [2], [16])
    demand = gang(build, ("head", 1, 1, CPU), ("worker", 2, 1, NODE))
    plan = ask(demand, [cluster])
    kinds = {role.name: role.kind for role in demand.roles}
    ledger = Ledger().reserve("uid-train", kinds, plan.shards)
    (left,) = ledger.deducted([cluster])
    assert sum(room.pods for room in left.capacity.rooms(NODE)) == 0
    before = sum(room.pods for room in cluster.capacity.rooms(CPU))
    assert sum(room.pods for room in left.capacity.rooms(CPU)) == before - 1 - 2 * 2


@pytest.mark.parametrize(
    ("least", "pods", "clusters"),
    [
        pytest.param(2, 6, {"a", "b"}, id="as many as find room"),
        pytest.param(8, None, set(), id="not fewer than the least"),
        pytest.param(None, None, set(), id="all or none"),
    ],
)
def test_an_elastic_gang_is_placed_at_the_largest_size_that_finds_room(
    build, least, pods, clusters
):
    fleet = [build.cluster("a", 4), build.cluster("b", 3), build.cluster("c", 5, plane="roce-2")]
    elastic = {} if least is None else {"min": least}
    demand = build.demand(10, {"mode": "Split", "gang": {"maxClusters": 2, "unit": 2, **elastic}})
    plan = ask(demand, fleet, elastic=True)
    if pods is None:
        assert isinstance(plan, Refusal)
        return
    assert sum(shard.pods for shard in plan.shards) == plan.demand.role.pods == pods
    assert {shard.cluster for shard in plan.shards} == clusters
    assert isinstance(ask(demand, fleet), Refusal)


# -- properties

MEMBERS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 3), min_size=1, max_size=2),
        st.lists(st.sampled_from([16, 32]), max_size=2),
        st.sampled_from(["roce-1", "roce-2"]),
        st.sampled_from(["net-1", "net-2"]),
    ),
    min_size=1,
    max_size=4,
)
ROLES = st.tuples(
    st.tuples(st.just("head"), st.integers(1, 3), st.just(1), st.sampled_from([CPU, NODE, GPU]),
              st.sampled_from(["None", "DataPlane", "ParameterPlane"])),
    st.tuples(st.just("worker"), st.sampled_from([2, 4]), st.sampled_from([1, 2]),
              st.sampled_from([NODE, GPU]), st.sampled_from(["None", "ParameterPlane"])),
)  # fmt: skip


def made(build, members, names="abcd"):
    return [
        machines(build, name, gpus, cpus, parameter_plane=plane, data_plane=net)
        for name, (gpus, cpus, plane, net) in zip(names, members, strict=False)
    ]


@given(MEMBERS, ROLES, st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_the_order_of_clusters_changes_nothing(build, members, roles, random):
    """karmada#7382: what a member gets hangs on its name alone."""
    fleet, demand = made(build, members), gang(build, *roles)
    shuffled = list(fleet)
    random.shuffle(shuffled)
    assert ask(demand, fleet) == ask(demand, shuffled)


@given(MEMBERS, ROLES)
@settings(max_examples=150, deadline=None)
def test_no_gang_is_partial_and_every_block_holds_its_part(build, members, roles):
    fleet, demand = made(build, members), gang(build, *roles)
    plan = ask(demand, fleet)
    if isinstance(plan, Refusal):
        return
    assert len(plan.shards) <= 2
    for role in demand.roles:
        ranks = sorted(
            rank
            for shard in plan.shards
            for each in shard.intervals
            if each.role == role.name
            for rank in range(each.first, each.end)
        )
        assert ranks == list(range(role.pods))
        used = [c for c in fleet if (s := plan.shard(c.name)) and s.interval(role.name)]
        if role.network == "ParameterPlane":
            assert len({c.parameter_plane for c in used}) == 1
        if role.network == "DataPlane":
            assert len({c.data_plane for c in used}) == 1
    kinds = {role.name: role for role in demand.roles}
    for cluster in fleet:
        shard, capacity = plan.shard(cluster.name), cluster.capacity
        for name, blocks in shard.by_role if shard else ():
            for block, pods in blocks:
                assert pods % kinds[name].unit == 0
                capacity, taken = capacity.take(kinds[name].kind, pods, blocks={block: pods})
                assert taken.pods == pods
                assert {where for where, _ in taken.seats} == {block}


# -- kinds


def template(gpus=1, **spec):
    requests = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], **spec}}


def job_set(*jobs, **spec):
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "default", "uid": "u"},
        "spec": {
            "replicatedJobs": [
                {"name": n, "replicas": r, "template": {"spec": {"parallelism": p, "template": t}}}
                for n, r, p, t in jobs
            ],
            **spec,
        },
    }


def leader_worker_set(replicas, size, leader=None):
    groups = {"size": size, "workerTemplate": template(8)}
    if leader is not None:
        groups["leaderTemplate"] = leader
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", "namespace": "default", "uid": "u"},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": groups},
    }


def roles_of(obj, build, spec=None):
    demand = demand_of(obj, build.policy(spec or {}).spec)
    return [(role.name, role.pods, role.unit) for role in demand.roles]


def test_a_job_set_has_a_role_for_each_of_its_jobs_and_counts_all_children(build):
    jobs = [("worker", 3, 4, template()), ("launcher", 1, 1, template(0))]
    assert roles_of(job_set(*jobs), build) == [("worker", 12, 4), ("launcher", 1, 1)]
    coordinator = {"coordinator": {"replicatedJob": "launcher"}}
    assert roles_of(job_set(*jobs, **coordinator), build) == [
        ("launcher", 1, 1), ("worker", 12, 4),
    ]  # fmt: skip


def test_a_unit_does_not_cut_through_a_child_job(build):
    with pytest.raises(Invalid, match="cuts through the 4 pods of role worker"):
        roles_of(job_set(("worker", 3, 4, template())), build, {"gang": {"unit": 6}})
    assert roles_of(job_set(("worker", 3, 4, template())), build, {"gang": {"unit": 2}}) == [
        ("worker", 12, 2)
    ]


@pytest.mark.parametrize(
    ("leader", "roles", "mode"),
    [
        pytest.param(None, [("worker", 6, 3)], "Split", id="groups of like pods"),
        pytest.param(template(0), [("leader", 2, 1), ("worker", 4, 2)], "One", id="own leader"),
    ],
)
def test_groups_of_a_leader_and_workers_stay_whole(build, leader, roles, mode):
    demand = demand_of(leader_worker_set(2, 3, leader), build.policy(SPLIT).spec)
    assert [(r.name, r.pods, r.unit) for r in demand.roles] == roles
    assert demand.policy.mode == mode


def test_pods_of_one_gang_have_one_priority(build):
    """armada#4625: judged once, on the gang."""
    jobs = [
        ("worker", 1, 2, template(priorityClassName="high")),
        ("head", 1, 1, template(0, priorityClassName="low")),
    ]
    with pytest.raises(
        Invalid, match="role head has priority 1, role worker has 9: a gang has one"
    ):
        demand_of(job_set(*jobs), build.policy({}).spec, priorities={"high": 9, "low": 1})


def test_rules_for_roles_name_roles_that_there_are(build):
    spec = {"gang": {"roles": [{"name": "head", "network": "DataPlane"}, {"name": "tail"}]}}
    jobs = job_set(("worker", 1, 2, template()), ("head", 1, 1, template(0)))
    with pytest.raises(Invalid, match="has no role tail, it has worker, head"):
        demand_of(jobs, build.policy(spec).spec)
    spec["gang"]["roles"].pop()
    networks = {r.name: r.network for r in demand_of(jobs, build.policy(spec).spec).roles}
    assert networks == {"worker": "None", "head": "DataPlane"}


@pytest.mark.parametrize(
    ("job", "spec", "expected"),
    [
        pytest.param({}, {}, None, id="nobody said"),
        pytest.param({}, {"objective": {"runTime": "2h"}}, 7200.0, id="the policy"),
        pytest.param({"activeDeadlineSeconds": 60}, {"objective": {"runTime": "2h"}}, 60.0,
                     id="when it is ended"),
    ],
)  # fmt: skip
def test_how_long_it_is_expected_to_run(build, job, spec, expected):
    made = build.job(1, **job)
    assert demand_of(made, build.policy(spec).spec).run_time_s == expected
    made["metadata"]["annotations"] = {"fleet.dev/run-time": "90s"}
    assert demand_of(made, build.policy(spec).spec).run_time_s == 90.0
    made["metadata"]["annotations"] = {"fleet.dev/run-time": "soon"}
    with pytest.raises(Invalid, match="is no duration"):
        demand_of(made, build.policy(spec).spec)
