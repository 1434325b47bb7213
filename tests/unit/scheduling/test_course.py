"""What a simulation plays: waits, evictions, tiers, money, loans, as the gateway would decide."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.queue.rules import Rules
from fleet.scheduling.simulation.course import Played, play
from fleet.scheduling.simulation.documents import Source, documents_of
from fleet.scheduling.simulation.outcome import outcome_of
from fleet.scheduling.simulation.scenario import scenario_of

Object = dict[str, Any]

EAGER = Rules(worth=None, patience_s=0)
H = 3600.0


def cluster(name: str = "a", nodes: int = 1, **more: Any) -> Object:
    shape = {"cpu": "64", "nvidia.com/gpu": "8"}
    capacity = [{"shape": shape, "accelerator": "h200", "nodes": nodes}]
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": {"tier": more.pop("tier", "own")}},
        "spec": {"networks": {"parameterPlane": "p"}, **more},
        "status": {"capacity": capacity},
    }


def policy(kind: str, name: str, spec: Object, namespace: str | None = None) -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    version = "fleet.dev/v1alpha1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def quota(name: str, gpus: int, *, namespace: str = "", parent: str = "", **more: Any) -> Object:
    spec: Object = {"resources": [{"name": "nvidia.com/gpu", "guaranteed": gpus}], **more}
    if parent:
        spec["parent"] = parent
    if namespace:
        spec["namespaces"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    return policy("FleetQuota", name, spec)


def table(*lines: str, head: str = "name,namespace,arrives,runs,nvidia.com/gpu,priority") -> str:
    return "\n".join([head, *lines]) + "\n"


def played(*parts: Object | str, rules: Rules | None = None, **how: Any) -> Played:
    objects = [each for each in parts if not isinstance(each, str)]
    sources = [Source("fleet.yaml", yaml.safe_dump_all(objects).encode())]
    sources += [Source("work.csv", each.encode()) for each in parts if isinstance(each, str)]
    return play(scenario_of(documents_of(sources)), rules=rules, **how)


def outcome(*parts: Object | str, **how: Any) -> Object:
    return outcome_of(played(*parts, **how))


def spans(found: Played) -> dict[str, list[tuple[float, float, str]]]:
    """By name of the workload, its runs in hours, and how each was over."""
    return {
        each.work.obj["metadata"]["name"]: [
            (run.from_ms / 3.6e6, run.to_ms / 3.6e6, run.how.value) for run in each.runs
        ]
        for each in found.histories
    }


def test_what_does_not_fit_waits_until_something_ends() -> None:
    work = table("one,n,0,2h,8,", "two,n,30m,1h,8,", "three,n,1h,1h,4,")
    told = outcome(cluster(), work)
    assert told["makespanSeconds"] == 4 * H
    assert told["workloads"] == {
        "arrived": 3, "started": 3, "ended": 3, "running": 0, "waiting": 0, "refused": 0,
        "invalid": 0, "later": 0,
    }  # fmt: skip
    assert told["waitSeconds"] == {
        "mean": round((0 + 1.5 + 2) * H / 3, 3), "p50": 1.5 * H, "p99": 2 * H, "longest": 2 * H
    }  # fmt: skip
    (there,) = told["clusters"]
    gpus = there["resources"][0]
    assert (gpus["total"], gpus["peak"], gpus["use"]) == ("8", "8", round(28 / 32, 4))


def test_a_gang_is_split_or_waits_as_a_whole() -> None:
    gang = policy("PlacementPolicy", "gang", {"workloads": {}, "mode": "Split"}, "n")
    work = table(
        "small,n,0,1h,1,8",
        "wide,n,0,1h,2,8",
        head="name,namespace,arrives,runs,pods,nvidia.com/gpu",
    )
    found = played(cluster("a"), cluster("b"), gang, work)
    assert spans(found) == {"small": [(0, 1, "ended")], "wide": [(1, 2, "ended")]}
    assert found.histories[1].clusters == {"a": 1, "b": 1}


def test_what_is_evicted_keeps_its_checkpoints_and_begins_again_later() -> None:
    saves = {"checkpoint": {"every": "20m", "restart": "6m"}}
    rules = policy("PlacementPolicy", "p", {"workloads": {}, "objective": saves}, "n")
    work = table("low,n,0,2h,8,0", "high,n,30m,1h,8,5")
    found = played(cluster(), rules, work, rules=EAGER)
    gone_h = 0.5 + 30 / 3600
    assert spans(found) == {
        "low": [
            (0, 0.5, "evicted"),
            # 20 of its 120 minutes are saved; it takes 6 to begin again.
            (gone_h + 1, pytest.approx(gone_h + 1 + 106 / 60), "ended"),
        ],
        "high": [(gone_h, gone_h + 1, "ended")],
    }
    told = outcome_of(found)
    assert told["evictions"] == {
        "workloads": 1, "times": 1, "loansReturned": 0, "lostAcceleratorHours": round(8 / 6, 3)
    }  # fmt: skip


def test_a_later_tier_is_tried_when_its_time_has_come() -> None:
    tiers = [
        {"selector": {"matchLabels": {"tier": "own"}}},
        {"selector": {"matchLabels": {"tier": "cloud"}}, "after": "45m"},
    ]
    rules = policy("PlacementPolicy", "p", {"workloads": {}, "clusters": {"tiers": tiers}}, "n")
    work = table("one,n,0,3h,8,", "two,n,1h,1h,8,")
    found = played(cluster(), cluster("cloud", tier="cloud"), rules, work)
    assert spans(found)["two"] == [(1.75, 2.75, "ended")]
    assert dict(found.histories[1].clusters) == {"cloud": 1}


PRICES = policy(
    "PriceBook",
    "prices",
    {"currency": "USD", "offers": [{"cluster": "a", "billing": "OnDemand", "per": "Accelerator",
                                    "perHour": "2.5", "asOf": "2026-11-30T22:00:00Z"}]},
)  # fmt: skip


def test_work_costs_what_its_nodes_cost_while_it_had_them() -> None:
    told = outcome(cluster(), PRICES, quota("q", 8, namespace="n"), table("one,n,0,90m,8,"))
    assert told["cost"] == [{"currency": "USD", "amount": "30"}]
    assert told["clusters"][0]["cost"] == told["quotas"][0]["cost"] == told["cost"]


def test_what_has_no_price_is_told_as_time() -> None:
    told = outcome(cluster(), table("one,n,0,90m,8,"))
    assert (told["cost"], told["unpriced"]) == ([], "1h30m")


def test_a_budget_makes_work_wait_for_the_next_month() -> None:
    """Time begins two hours before December."""
    spent = quota("q", 8, namespace="n", budget={"perMonth": "25 USD", "whenSpent": "Queue"})
    found = played(cluster(), PRICES, spent, table("one,n,0,1h,8,", "two,n,30m,1h,8,"))
    assert spans(found) == {"one": [(0, 1, "ended")], "two": [(2, 3, "ended")]}


def test_a_budget_may_refuse_work() -> None:
    spent = quota("q", 8, namespace="n", budget={"perMonth": "1 USD", "whenSpent": "Refuse"})
    told = outcome(cluster(), PRICES, spent, table("one,n,0,1h,8,"))
    assert told["workloads"]["refused"] == 1
    (never,) = told["neverStarted"]
    assert never["reason"] == "BudgetSpent"


def test_what_never_started_says_why() -> None:
    told = outcome(
        cluster(),
        quota("q", 8, namespace="small"),
        quota("r", 64, namespace="large"),
        table("over,small,0,1h,16,", "never,large,0,1h,16,", "fits,large,0,1h,8,"),
    )
    never = {each["name"]: (each["reason"], each["quota"]) for each in told["neverStarted"]}
    assert never == {"over": ("QuotaTooSmall", "q"), "never": ("Impossible", "r")}
    assert "would not fit even if nothing else ran" in told["neverStarted"][0]["message"] or (
        "would not fit even if nothing else ran" in told["neverStarted"][1]["message"]
    )


def test_work_that_names_no_policy_there_is_is_refused_with_the_field() -> None:
    text = "name,namespace,runs,policy\none,n,1h,gone\n"
    (never,) = outcome(cluster(), text)["neverStarted"]
    assert never["reason"] == "Invalid"
    assert never["message"].startswith("metadata.labels[fleet.dev/policy]: ")


def test_work_without_a_run_time_runs_on() -> None:
    told = outcome(cluster(), "name,nvidia.com/gpu\nweb,8\n")
    assert (told["workloads"]["running"], told["makespanSeconds"]) == (1, 0)
    assert (
        outcome(cluster(), "name,nvidia.com/gpu\nweb,8\n", until_ms=7_200_000)["clusters"][0][
            "resources"
        ][0]["use"]
        == 1.0
    )


def test_a_service_over_quota_is_refused_and_a_job_waits() -> None:
    service = {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "n"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {
                "limits": {"nvidia.com/gpu": "8"}}}]},
        }},
    }  # fmt: skip
    told = outcome(cluster(nodes=4), quota("q", 8, namespace="n"), service, table("job,n,0,1h,8,"))
    assert told["workloads"] | {} == {
        "arrived": 2, "started": 1, "ended": 1, "running": 0, "waiting": 0, "refused": 1,
        "invalid": 0, "later": 0,
    }  # fmt: skip


def test_idle_quota_is_lent_and_called_back_with_notice() -> None:
    tree = [
        quota("all", 16),
        quota("serving", 8, parent="all", namespace="s"),
        quota("research", 8, parent="all", namespace="r"),
    ]
    lends = policy(
        "LendingPolicy",
        "night",
        {
            "from": {"quota": "serving", "keepFloor": "None"},
            "to": [{"quota": "research"}],
            "term": {"max": "4h", "notice": "10m"},
        },
    )
    work = table("own,r,0,8h,8,", "lent,r,1m,3h,8,", "back,s,1h,1h,8,")
    found = played(cluster(nodes=2), *tree, lends, work)
    assert [each.lent for each in found.histories if each.lent] == [2]
    runs = spans(found)
    assert runs["back"][0][0] == pytest.approx(1 + 1 / 6, abs=0.01)
    assert runs["lent"][0] == (1 / 60, pytest.approx(1 + 1 / 6, abs=0.01), "returned")
    assert runs["lent"][1][2] == "ended"
    assert outcome_of(found)["evictions"]["loansReturned"] == 1


def test_what_is_lent_shares_no_node_with_its_donor_where_that_is_asked_for() -> None:
    tree = [
        quota("all", 16),
        quota("serving", 8, parent="all", namespace="s"),
        quota("research", 8, parent="all", namespace="r"),
    ]
    terms = {
        "from": {"quota": "serving", "keepFloor": "None"},
        "to": [{"quota": "research"}],
    }
    work = table("own,s,0,4h,4,", "guest,r,1m,1h,4,", "other,r,2m,1h,8,")
    shared = played(cluster(nodes=2), *tree, policy("LendingPolicy", "l", terms), work)
    assert spans(shared)["other"][0][0] == pytest.approx(2 / 60)
    apart = policy("LendingPolicy", "l", {**terms, "isolation": {"node": "Exclusive"}})
    found = played(cluster(nodes=2), *tree, apart, work)
    assert spans(found)["guest"][0][0] == pytest.approx(1 / 60)
    assert spans(found)["other"][0][0] == pytest.approx(1 + 1 / 60)


# -- what is there when it begins


def present(**status: Any) -> list[Object]:
    pods = [
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": f"train-{at}.a", "namespace": "n", "uid": f"p{at}",
                "labels": {
                    "fleet.dev/cluster": "a", "fleet.dev/workload-uid": "u1",
                    "fleet.dev/generation": "1",
                },
            },
            "spec": {"nodeName": "n1.a", "containers": [
                {"name": "main", "resources": {"requests": {"nvidia.com/gpu": "4"}}}
            ]},
            "status": {"phase": "Running"},
        }
        for at in range(2)
    ]  # fmt: skip
    node = {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1.a", "labels": {"fleet.dev/cluster": "a"}},
        "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "8"}},
    }  # fmt: skip
    template = {"spec": {"restartPolicy": "Never", "containers": [
        {"name": "main", "image": "x", "resources": {"requests": {"nvidia.com/gpu": "4"}}}
    ]}}  # fmt: skip
    job = {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train", "namespace": "n", "uid": "u1",
                     "annotations": {"fleet.dev/run-time": "3h"}},
        "spec": {"completionMode": "Indexed", "parallelism": 2, "completions": 2,
                 "template": template},
    }  # fmt: skip
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u1"}
    placement = policy("Placement", "job-train", {"workload": reference}, "n")
    placement["status"] = {
        "phase": "Running", "generation": 1, "runTime": "3h",
        "phaseSince": "1999-12-31T23:00:00Z",
        "cost": {"currency": "USD"},
        "shards": [{
            "cluster": "a", "index": 0, "generation": 1, "state": "Running", "perHour": "3",
            "committedAt": "1999-12-31T23:00:00Z",
            "roles": [{"name": "worker", "first": 0, "count": 2}],
        }],
        **status,
    }  # fmt: skip
    bare = cluster() | {"status": {}}
    return [bare, node, *pods, job, placement]


def test_what_runs_already_goes_on_for_the_rest_of_its_time() -> None:
    found = played(*present(), table("next,n,0,1h,8,"))
    assert spans(found) == {"train": [(0, 2, "ended")], "next": [(2, 3, "ended")]}
    told = outcome_of(found)
    assert told["clusters"][0]["resources"][0]["peak"] == "8"
    assert told["cost"] == [{"currency": "USD", "amount": "6"}]
    assert told["waitSeconds"]["mean"] == 2 * H


def test_what_was_in_a_cluster_that_is_gone_is_placed_anew() -> None:
    gone = cluster() | {"$patch": "delete"}
    objects = [each for each in present() if each["kind"] not in ("Node", "Pod")]
    sources = [
        Source("now.yaml", yaml.safe_dump_all([*objects, cluster("b")]).encode()),
        Source("what-if.yaml", yaml.safe_dump(gone).encode()),
    ]
    found = play(scenario_of(documents_of(sources)))
    assert spans(found) == {"train": [(0, 3, "ended")]}
    assert dict(found.histories[0].clusters) == {"b": 2}


def test_what_waits_already_keeps_its_place_in_line() -> None:
    waits = {"phase": "Queued", "shards": [], "queuedAt": "1999-12-31T22:00:00Z"}
    objects = [each for each in present(**waits) if each["kind"] != "Pod"]
    found = played(*objects, table("an-earlier-name,n,0,1h,8,"))
    assert spans(found)["train"] == [(0, 3, "ended")]


# -- always


WORK = st.tuples(
    st.sampled_from(["n", "m"]),
    st.integers(0, 600),
    st.integers(1, 240),
    st.integers(1, 3),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([0, 0, 10]),
)
FLEET = [
    cluster("a", 2),
    cluster("b", 1),
    quota("all", 24),
    quota("n", 16, parent="all", namespace="n"),
    quota("m", 8, parent="all", namespace="m"),
    policy("PlacementPolicy", "gang", {"workloads": {}, "mode": "Split"}, "n"),
    PRICES,
]


@settings(max_examples=25, deadline=None)
@given(st.lists(WORK, min_size=1, max_size=25), st.randoms(use_true_random=False))
def test_equal_files_in_any_order_give_equal_outcomes_and_no_more_runs_than_fits(
    drawn: list[tuple[str, int, int, int, int, int]], chance: Any
) -> None:
    head = "name,namespace,arrives,runs,pods,nvidia.com/gpu,priority"
    lines = [
        f"w{at},{namespace},{arrives}m,{runs}m,{pods},{gpus},{priority}"
        for at, (namespace, arrives, runs, pods, gpus, priority) in enumerate(drawn)
    ]
    told = outcome(*FLEET, table(*lines, head=head), rules=EAGER)
    fleet = list(FLEET)
    chance.shuffle(fleet)
    chance.shuffle(lines)
    again = outcome(*fleet, table(*lines, head=head), rules=EAGER)
    assert again == told
    counts = told["workloads"]
    assert counts["ended"] + len(told["neverStarted"]) == counts["arrived"] == len(drawn)
    for each in told["clusters"]:
        assert all(int(r["peak"]) <= int(r["total"]) for r in each["resources"] if "/" in r["name"])
    for each in told["quotas"]:
        if each["name"] == "all":
            assert all(int(r["peak"]) <= 24 for r in each["resources"])


def test_what_burst_to_the_cloud_goes_back_when_its_own_room_stays_free() -> None:
    tiers = [{"selector": {"matchLabels": {"tier": each}}} for each in ("own", "cloud")]
    spec = {"workloads": {}, "clusters": {"tiers": tiers, "returnAfter": "30m"}}
    objective = {"objective": {"checkpoint": {"every": "10m", "restart": "6m"}}}
    rules = policy("PlacementPolicy", "p", spec | objective, "n")
    rooms = cluster("a"), cluster("b", tier="cloud")
    work = table("first,n,0,1h,8,", "burst,n,30m,9h,8,", "last,n,8h30m,1h,8,")
    found = played(*rooms, rules, work)
    gone_h = 1.5 + 30 / 3600
    left_h = 9 - 1 + 0.1
    assert spans(found) == {
        "first": [(0, 1, "ended")],
        # Nothing waited from 1 h on, so it goes when there was room for half an hour.
        "burst": [(0.5, 1.5, "evicted"), (gone_h, pytest.approx(gone_h + left_h), "ended")],
        "last": [(8.5, 9.5, "ended")],
    }
    assert [each.clusters for each in found.histories] == [{"a": 1}, {"a": 1}, {"b": 1}]
