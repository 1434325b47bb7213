"""Free capacity by shape and block: what counts, what does not, and books kept step by step."""

from __future__ import annotations

from threading import Thread

import pytest
from asking import capacity_of
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling import stock
from fleet.scheduling.accounts import NodeAccounts
from fleet.scheduling.capacity import PodKind
from fleet.scheduling.nodes import node_selector_of, tolerations_of

GPU = PodKind((("nvidia.com/gpu", 1), ("pods", 1)))
SMALL = PodKind((("cpu", 1000), ("pods", 1)))
SHARD = {"fleet.dev/workload-uid": "u1", "fleet.dev/generation": "2"}


def free(capacity, kind=GPU):
    return sum(room.pods for room in capacity.rooms(kind))


def test_bound_pods_take_what_they_request(build):
    pods = [
        build.pod("a", "n0", requests={"nvidia.com/gpu": "2"}),
        build.pod("b", "n0", requests={"nvidia.com/gpu": "1"}, phase="Pending"),
        build.pod("c", "n1", requests={"nvidia.com/gpu": "8"}),
    ]
    capacity = capacity_of([build.node("n0"), build.node("n1")], pods, as_of_s=0.0)
    assert free(capacity) == 5


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param({"phase": "Succeeded"}, id="it succeeded"),
        pytest.param({"phase": "Failed"}, id="it failed"),
        pytest.param({"node": ""}, id="it is on no node"),
        pytest.param({"node": "gone"}, id="its node is gone"),
    ],
)
def test_pods_that_take_nothing(build, pod):
    made = build.pod(
        "a",
        pod.get("node", "n0"),
        requests={"nvidia.com/gpu": "8"},
        phase=pod.get("phase", "Running"),
    )
    assert free(capacity_of([build.node("n0")], [made], as_of_s=0.0)) == 8


@pytest.mark.parametrize(
    ("node", "why"),
    [
        pytest.param({"ready": "False"}, "not ready", id="not ready"),
        pytest.param({"ready": "Unknown"}, "not ready", id="lost"),
        pytest.param({"ready": None}, "readiness unknown", id="never heard of"),
        pytest.param({"unschedulable": True}, "cordoned", id="cordoned"),
    ],
)
def test_nodes_that_take_no_pods_say_why(build, node, why):
    capacity = capacity_of([build.node("n0", **node)], [], as_of_s=0.0)
    assert free(capacity) == 0
    assert capacity.nodes[0].unusable == why


def test_a_node_being_deleted_takes_no_pods(build):
    node = build.node("n0")
    node["metadata"]["deletionTimestamp"] = "2026-11-29T12:00:00Z"
    assert free(capacity_of([node], [], as_of_s=0.0)) == 0


@pytest.mark.parametrize(
    ("taint", "toleration", "fits"),
    [
        ({"key": "a", "effect": "NoSchedule"}, None, False),
        ({"key": "a", "effect": "NoExecute"}, None, False),
        ({"key": "a", "effect": "PreferNoSchedule"}, None, True),
        ({"key": "a", "effect": "NoSchedule"}, {"key": "a", "operator": "Exists"}, True),
        ({"key": "a", "effect": "NoSchedule"}, {"operator": "Exists"}, True),
        ({"key": "a", "value": "x", "effect": "NoSchedule"}, {"key": "a", "value": "x"}, True),
        ({"key": "a", "value": "x", "effect": "NoSchedule"}, {"key": "a", "value": "y"}, False),
        (
            {"key": "a", "effect": "NoExecute"},
            {"key": "a", "operator": "Exists", "effect": "NoSchedule"}, False,
        ),
        (
            {"key": "a", "value": "7", "effect": "NoSchedule"},
            {"key": "a", "operator": "Gt", "value": "5"}, True,
        ),
        (
            {"key": "a", "value": "5", "effect": "NoSchedule"},
            {"key": "a", "operator": "Lt", "value": "5"}, False,
        ),
        (
            {"key": "a", "value": "x", "effect": "NoSchedule"},
            {"key": "a", "operator": "Gt", "value": "5"}, False,
        ),
    ],
)  # fmt: skip
def test_taints(build, taint, toleration, fits):
    kind = PodKind(GPU.request, tolerations_of([toleration] if toleration else []))
    capacity = capacity_of([build.node("n0", taints=[taint])], [], as_of_s=0.0)
    assert (free(capacity, kind) > 0) is fits


def expression(key, operator, *values, terms="matchExpressions"):
    term = {terms: [{"key": key, "operator": operator, "values": list(values)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        ({"nodeSelector": {"zone": "a"}}, {"n0"}),
        ({"nodeSelector": {"zone": "c"}}, set()),
        ({"nodeName": "n1"}, {"n1"}),
        (expression("zone", "In", "a", "b"), {"n0", "n1"}),
        (expression("zone", "NotIn", "a"), {"n1", "n2"}),
        (expression("zone", "Exists"), {"n0", "n1"}),
        (expression("zone", "DoesNotExist"), {"n2"}),
        (expression("size", "Gt", "4"), {"n1"}),
        (expression("size", "Lt", "4"), {"n0"}),
        (expression("metadata.name", "In", "n2", terms="matchFields"), {"n2"}),
        (
            {"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}
            }}},
            set(),
        ),
        ({"nodeSelector": {"zone": "a"}, **expression("size", "Gt", "4")}, set()),
    ],
)  # fmt: skip
def test_node_selectors_and_required_affinity(build, spec, nodes):
    there = [
        build.node("n0", 1, labels={"zone": "a", "size": "3"}),
        build.node("n1", 10, labels={"zone": "b", "size": "5"}),
        build.node("n2", 100),
    ]
    kind = PodKind(GPU.request, selector=node_selector_of(spec))
    sizes = {"n0": 1, "n1": 10, "n2": 100}
    assert free(capacity_of(there, [], as_of_s=0.0), kind) == sum(sizes[n] for n in nodes)


def test_equal_selectors_are_one_kind_of_pod():
    one, other = (node_selector_of({"nodeSelector": {"zone": "a"}}) for _ in range(2))
    assert PodKind((), selector=one) == PodKind((), selector=other)
    assert one != node_selector_of({"nodeSelector": {"zone": "b"}})


def test_the_number_of_pods_on_a_node_is_a_bound(build):
    node = build.node("n0", cpu="100", pods="3")
    capacity = capacity_of([node], [build.pod("a", "n0")], as_of_s=0.0)
    assert free(capacity, SMALL) == 2


def test_whole_pods_fit_never_sums(build):
    """Four nodes with one free accelerator each hold no pod that wants two."""
    nodes = [build.node(f"n{i}", 1) for i in range(4)]
    pair = PodKind((("nvidia.com/gpu", 2), ("pods", 1)))
    assert free(capacity_of(nodes, [], as_of_s=0.0), pair) == 0


def test_a_resource_that_a_node_does_not_have_is_not_there(build):
    assert free(capacity_of([build.node("n0", 0)], [], as_of_s=0.0)) == 0


def test_overcommitted_nodes_have_nothing_and_take_nothing_from_others(build):
    pods = [build.pod("a", "n0", requests={"nvidia.com/gpu": "12"})]
    nodes = [build.node("n0", 8), build.node("n1", 8)]
    assert free(capacity_of(nodes, pods, as_of_s=0.0)) == 8


def test_rooms_are_by_block_and_shape(build):
    nodes = [
        build.node("n0", 8, labels={"rack": "r1"}),
        build.node("n1", 8, labels={"rack": "r1"}),
        build.node("n2", 4, labels={"rack": "r1", "fleet.dev/accelerator": "a100"}),
        build.node("n3", 8, labels={"rack": "r2", "fleet.dev/billing": "Spot"}),
    ]
    pods = [build.pod("a", "n1", requests={"nvidia.com/gpu": "3"})]
    rooms = capacity_of(nodes, pods, as_of_s=0.0, block_label="rack").rooms(GPU)
    assert [(r.block, r.accelerator, r.billing, r.pods, r.pods_if_empty) for r in rooms] == [
        ("r1", "a100", "", 4, 4),
        ("r1", "h200", "", 13, 16),
        ("r2", "h200", "Spot", 8, 8),
    ]


@pytest.mark.parametrize(
    ("labels", "accelerator", "billing"),
    [
        ({"fleet.dev/accelerator": "", "nvidia.com/gpu.product": "NVIDIA-H200"}, "NVIDIA-H200", ""),
        ({"nvidia.com/gpu.product": "x", "karpenter.sh/capacity-type": "spot"}, "h200", "Spot"),
        ({"karpenter.sh/capacity-type": "on-demand"}, "h200", "OnDemand"),
        ({"fleet.dev/billing": "Owned", "karpenter.sh/capacity-type": "spot"}, "h200", "Owned"),
    ],
)
def test_labels_of_nodes(build, labels, accelerator, billing):
    (node,) = capacity_of([build.node("n0", labels=labels)], [], as_of_s=0.0).nodes
    assert (node.accelerator, node.billing) == (accelerator, billing)


# -- promised pods


def test_promised_pods_are_packed_into_their_blocks_first(build):
    nodes = [build.node(f"n{i}", 4, labels={"rack": f"r{i // 2}"}) for i in range(4)]
    capacity = capacity_of(nodes, [], as_of_s=0.0, block_label="rack")
    left = capacity.without(GPU, 6, blocks={"r1": 6})
    assert {room.block: room.pods for room in left.rooms(GPU)} == {"r0": 8, "r1": 2}
    assert free(capacity) == 16, "the picture itself does not change"


def test_no_block_gets_more_promised_pods_than_are_meant_for_it(build):
    nodes = [build.node(f"n{i}", 4, labels={"rack": f"r{i // 2}"}) for i in range(4)]
    capacity = capacity_of(nodes, [], as_of_s=0.0, block_label="rack")
    left = capacity.without(GPU, 7, blocks={"r0": 2, "r1": 5})
    assert {room.block: room.pods for room in left.rooms(GPU)} == {"r0": 6, "r1": 3}


def test_promised_pods_that_outgrow_their_blocks_go_elsewhere(build):
    nodes = [build.node(f"n{i}", 4, labels={"rack": f"r{i}"}) for i in range(2)]
    left = capacity_of(nodes, [], as_of_s=0.0, block_label="rack").without(GPU, 6, blocks={"r1": 6})
    assert {room.block: room.pods for room in left.rooms(GPU)} == {"r0": 2, "r1": 0}
    assert free(left.without(GPU, 99)) == 0


# -- books


NODES = st.lists(st.integers(0, 4), min_size=1, max_size=4)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["pod", "pod", "unpod", "node", "unnode"]),
        st.integers(0, 4),
        st.integers(0, 3),
        st.integers(0, 3),
        st.sampled_from(["Running", "Succeeded"]),
        st.booleans(),
    ),
    max_size=25,
)


@given(NODES, EVENTS)
@settings(deadline=None)
def test_books_kept_step_by_step_equal_a_count_from_scratch(build, sizes, events):
    nodes = {f"n{i}": build.node(f"n{i}", size) for i, size in enumerate(sizes)}
    pods: dict[str, dict] = {}
    accounts = NodeAccounts()
    for node in nodes.values():
        accounts.upsert_node(node)
    for what, which, node, gpus, phase, ours in events:
        if what == "pod":
            made = build.pod(
                f"p{which}",
                f"n{node}",
                requests={"nvidia.com/gpu": str(gpus)},
                phase=phase,
                labels=SHARD if ours else {},
            )
            pods[f"p{which}"] = made
            accounts.upsert_pod(made)
        elif what == "unpod" and f"p{which}" in pods:
            accounts.remove_pod(pods.pop(f"p{which}"))
        elif what == "node":
            nodes[f"n{node}"] = build.node(f"n{node}", gpus)
            accounts.upsert_node(nodes[f"n{node}"])
        elif what == "unnode" and f"n{node}" in nodes:
            accounts.remove_node(nodes.pop(f"n{node}"))
        scratch = capacity_of(nodes.values(), pods.values(), as_of_s=1.0)
        assert accounts.capacity(1.0) == scratch
        assert accounts.capacity(1.0).rooms(GPU) == scratch.rooms(GPU)


def test_pods_of_shards_are_counted_as_seen_even_when_they_are_over(build):
    pods = [
        build.pod("a", "n0", labels=SHARD),
        build.pod("b", "n0", labels=SHARD, phase="Succeeded"),
        build.pod("c", "", labels=SHARD),
        build.pod("d", "n0"),
    ]
    assert capacity_of([build.node("n0")], pods, as_of_s=0.0).seen == {("u1", 2): 2}


def test_a_heartbeat_of_a_node_keeps_what_was_counted(build):
    accounts = NodeAccounts()
    accounts.upsert_node(build.node("n0"))
    first = accounts.capacity(1.0)
    rooms = first.rooms(GPU)
    beat = build.node("n0")
    beat["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-11-29T12:00:00Z"
    accounts.upsert_node(beat)
    later = accounts.capacity(2.0)
    assert later.as_of_s == 2.0
    assert later.nodes is first.nodes
    assert later.rooms(GPU) is rooms


def test_a_member_nothing_is_known_of_has_no_books():
    assert not NodeAccounts().known


def test_what_others_take_is_told_by_namespace_and_kind(build):
    accounts = NodeAccounts()
    accounts.upsert_node(build.node("n0", 8))
    shard = {"fleet.dev/workload-uid": "u", "fleet.dev/generation": "1"}
    requests = {"nvidia.com/gpu": "2", "cpu": "1"}
    pods = [build.pod("a", "n0", requests=requests), build.pod("b", "n0", requests=requests),
            build.pod("c", "n0", requests=requests, labels=shard)]  # fmt: skip
    for pod in pods:
        accounts.upsert_pod(pod)
    assert accounts.taken_by_others("default") == {
        ("nvidia.com/gpu", "h200"): 4, ("cpu", ""): 2000, ("pods", ""): 2,
    }  # fmt: skip
    (taken,) = accounts.taken_by("u").values()
    assert taken == {"n0": 1}
    accounts.upsert_pod({**pods[0], "status": {"phase": "Succeeded"}})
    accounts.remove_pod(pods[2])
    assert accounts.taken_by_others("default")["nvidia.com/gpu", "h200"] == 2
    assert accounts.taken_by("u") == {}
    accounts.remove_pod(pods[1])
    assert accounts.taken_by_others("default") == accounts.taken_by_others("other") == {}


def test_two_threads_number_the_states_of_a_site_alike(build, monkeypatch):
    """What would be placed together is asked in another thread, over the sites that rounds use."""
    (block,) = build.cluster("east", 8).capacity.blocks.values()
    site, (node, *_) = block.site, block.site.nodes
    one, other = [{**node.free, "cpu": cpu} for cpu in (1, 2)]
    make, threads = stock._State, []

    def interrupted(node, free):
        if not threads:
            threads.append(Thread(target=site.state_of, args=(node, other)))
            threads[0].start()
            threads[0].join(0.2)  # comes to its end at once where nothing holds it up
        return make(node, free)

    monkeypatch.setattr(stock, "_State", interrupted)
    number = site.state_of(node, one)
    threads[0].join()
    assert site.states[number].free == one
    assert site.states[site.state_of(node, other)].free == other
