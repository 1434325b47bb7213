"""What is made of files for a simulation, and everything that can be wrong with them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from fleet.errors import ConfigError
from fleet.scheduling.quota.tree import Key
from fleet.scheduling.requests import accelerators
from fleet.scheduling.simulation.documents import Source, documents_of
from fleet.scheduling.simulation.scenario import LONG_AGO, Scenario, scenario_of
from fleet.scheduling.simulation.table import job, rows

Object = dict[str, Any]

CLUSTER = """
apiVersion: fleet.dev/v1alpha1
kind: Cluster
metadata: {name: a}
status:
  capacity:
  - {shape: {cpu: "64", nvidia.com/gpu: "8"}, accelerator: h200, block: r1, nodes: 2}
"""
WORK = "name,runs,nvidia.com/gpu\none,1h,8\n"


def scenario(*texts: str, **how: Any) -> Scenario:
    """Texts that look like tables are tables."""
    sources = [
        Source(f"{at}.csv" if text.startswith("name,") else f"{at}.yaml", text.encode())
        for at, text in enumerate(texts)
    ]
    return scenario_of(documents_of(sources), **how)


def wrong(*texts: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        scenario(*texts)
    return [line.strip() for line in str(caught.value).split("\n")]


def nodes(found: Scenario, cluster: str = "a") -> int:
    capacity = next(each.capacity for each in found.clusters if each.name == cluster)
    return len(capacity.nodes) if capacity is not None else 0


# -- clusters


def test_a_cluster_has_the_nodes_of_its_status_and_is_ready_where_it_says_nothing() -> None:
    (cluster,) = scenario(CLUSTER, WORK).clusters
    assert cluster.ready
    assert cluster.capacity is not None
    assert list(cluster.capacity.blocks) == ["r1"]
    assert sum(accelerators(node.free) for node in cluster.capacity.nodes) == 16
    assert {node.labels["fleet.dev/accelerator"] for node in cluster.capacity.nodes} == {"h200"}


def test_a_cluster_that_is_not_ready_stays_so() -> None:
    obj = yaml.safe_load(CLUSTER)
    obj["status"]["conditions"] = [
        {"type": "Ready", "status": "False", "reason": "Lost", "message": "silent"}
    ]
    (cluster,) = scenario(yaml.safe_dump(obj), WORK).clusters
    assert not cluster.ready


NODE = """
apiVersion: v1
kind: Node
metadata:
  name: n1.a
  labels: {fleet.dev/accelerator: h100, fleet.dev/billing: Spot}
  annotations: {simulation.fleet.dev/count: "3"}
spec: {taints: [{key: gpu, effect: NoSchedule}]}
status: {allocatable: {cpu: "8", nvidia.com/gpu: "4"}}
"""


def test_nodes_say_more_than_the_status_of_their_cluster() -> None:
    (cluster,) = scenario(CLUSTER + "---" + NODE, WORK).clusters
    assert cluster.capacity is not None
    found = cluster.capacity.nodes
    assert [node.name for node in found] == ["n1.a-0", "n1.a-1", "n1.a-2"]
    assert {(node.accelerator, node.billing, node.unusable) for node in found} == {
        ("h100", "Spot", "")
    }
    assert found[0].taints


def test_what_a_later_source_says_of_a_cluster_counts_instead_of_its_nodes() -> None:
    assert nodes(scenario(CLUSTER + "---" + NODE, CLUSTER, WORK)) == 2


def test_what_members_run_is_not_free() -> None:
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default.a", "uid": "u"},
        "spec": {"nodeName": "n1.a", "containers": [
            {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "3"}}}
        ]},
    }  # fmt: skip
    node = NODE.replace('  annotations: {simulation.fleet.dev/count: "3"}\n', "")
    (cluster,) = scenario(CLUSTER + "---" + node + "---\n" + yaml.safe_dump(pod), WORK).clusters
    assert cluster.capacity is not None
    assert [accelerators(each.free) for each in cluster.capacity.nodes] == [1]


def test_a_cluster_of_which_nothing_is_known_is_told_of() -> None:
    bare = "apiVersion: fleet.dev/v1alpha1\nkind: Cluster\nmetadata: {name: b}\n"
    (told,) = scenario(CLUSTER, bare, WORK).warnings
    assert "nothing is known of the nodes of b" in told


# -- which of two counts


def test_a_later_file_overrides_by_name_and_takes_away() -> None:
    more = CLUSTER.replace("nodes: 2", "nodes: 5")
    assert nodes(scenario(CLUSTER, WORK, more)) == 5
    other = CLUSTER.replace("name: a", "name: b")
    gone = CLUSTER.replace("status:", "$patch: delete\nstatus:")
    assert [each.name for each in scenario(CLUSTER, other, WORK, gone).clusters] == ["b"]


def test_a_typed_list_is_its_items() -> None:
    item = yaml.safe_load(CLUSTER)
    listed = {"apiVersion": item.pop("apiVersion"), "kind": f"{item.pop('kind')}List"}
    listed["items"] = [item]
    assert nodes(scenario(yaml.safe_dump(listed), WORK)) == 2


# -- work


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, annotations: {%s}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x}]
"""


def test_work_arrives_and_runs_as_it_says() -> None:
    says = (
        "simulation.fleet.dev/arrives: 90m, simulation.fleet.dev/runs: 2h, "
        'simulation.fleet.dev/count: "3", simulation.fleet.dev/every: 10m'
    )
    found = scenario(CLUSTER, JOB % says)
    assert [(work.uid, work.arrives, work.runs_ms) for work in found.works] == [
        (f"default/job/train-{at}", (90 + 10 * at) * 60_000, 7_200_000) for at in range(3)
    ]
    assert {work.class_name for work in found.works} == {"train"}
    assert found.start == LONG_AGO


def test_work_of_a_cluster_arrives_when_it_was_created_and_runs_as_long_as_it_ran() -> None:
    obj = yaml.safe_load(JOB % "")
    obj["metadata"] |= {"creationTimestamp": "2026-11-01T00:00:00Z", "uid": "u-1"}
    obj["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}
    obj["status"] = {
        "startTime": "2026-11-01T00:10:00Z", "completionTime": "2026-11-01T01:10:00Z"
    }  # fmt: skip
    found = scenario(CLUSTER, yaml.safe_dump(obj))
    assert found.start == datetime(2026, 11, 1, tzinfo=UTC)
    (work,) = found.works
    assert (work.runs_ms, work.real_uid, work.uid) == (3_600_000, "u-1", "default/job/train")


def test_a_table_is_a_job_for_each_line() -> None:
    text = (
        b"name,namespace,arrives,runs,pods,accelerator,policy,priority,class,cpu,nvidia.com/gpu\n"
        b"one,nlp,600,1.5,4,h200,gang,7,big,2,8\n\n"
        b"two,,,10m,,,,,,,\n"
    )
    (first, row), (second, other) = rows("work.csv", text)
    assert (first, second) == (2, 4)
    made = job(row, namespace="default")
    assert made["metadata"]["namespace"] == "nlp"
    assert made["metadata"]["labels"] == {"fleet.dev/policy": "gang"}
    assert made["metadata"]["annotations"] == {
        "simulation.fleet.dev/arrives": "10m",
        "simulation.fleet.dev/runs": "1s500ms",
        "simulation.fleet.dev/class": "big",
        "fleet.dev/run-time": "1s500ms",
    }
    spec = made["spec"]["template"]["spec"]
    assert made["spec"]["parallelism"] == made["spec"]["completions"] == 4
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "2", "nvidia.com/gpu": "8"}
    assert (spec["priority"], spec["nodeSelector"]) == (7, {"fleet.dev/accelerator": "h200"})
    assert job(other, namespace="default")["metadata"]["namespace"] == "default"


# -- rules


QUOTA = """
apiVersion: fleet.dev/v1alpha1
kind: FleetQuota
metadata: {name: %s}
spec:
  %s
  resources: [{name: nvidia.com/gpu, guaranteed: %d}]
"""


def test_quotas_make_a_tree_and_count_the_namespaces_of_work() -> None:
    root = QUOTA % ("root", "", 8)
    leaf = QUOTA % (
        "leaf",
        "{parent: root, namespaces: {matchLabels: {kubernetes.io/metadata.name: default}}}",
        8,
    )
    leaf = leaf.replace("  {parent: root, ", "  parent: root\n  ").replace("}}}\n", "}}\n")
    found = scenario(CLUSTER, leaf, root, WORK)
    assert found.tree.shares["leaf", Key("nvidia.com/gpu")].guaranteed == 8
    assert found.quota_of == {"default": "leaf"}


def test_work_that_no_quota_counts_is_told_of() -> None:
    (told,) = scenario(CLUSTER, QUOTA % ("root", "", 8), WORK).warnings
    assert "no FleetQuota counts namespace default" in told


def test_names_that_nothing_has_are_told_of_and_so_is_what_has_no_part() -> None:
    book = """
apiVersion: fleet.dev/v1alpha1
kind: PriceBook
metadata: {name: p}
spec: {currency: USD, offers: [{cluster: idc, billing: Owned}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
"""
    first, second = scenario(CLUSTER, book, WORK).warnings
    assert '"idc" is no member of the fleet' in first
    assert second == "no part of a simulation: ConfigMap settings"


OFFER = """
apiVersion: fleet.dev/v1alpha1
kind: PriceBook
metadata: {name: p%d}
spec:
  currency: USD
  offers: [{cluster: a, billing: OnDemand, perHour: "1", asOf: %s}]
"""


def test_time_begins_with_the_newest_price_and_older_ones_are_unknown() -> None:
    found = scenario(
        CLUSTER, OFFER % (1, "2026-11-29T00:00:00Z"), OFFER % (2, "2026-11-01T00:00:00Z"), WORK
    )
    assert found.start == datetime(2026, 11, 29, tzinfo=UTC)
    assert len(found.fleet.prices.outdated) == 1
    assert "1 offer is older at the start" in found.warnings[0]


# -- what is wrong


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "2.yaml: is no YAML: while parsing"),
        ("- 1", "2.yaml, document 1: is no object"),
        ("kind: Cluster", "2.yaml, document 1: apiVersion: must be given"),
        ("apiVersion: v1\nkind: Node\nmetadata: {}", "document 1: metadata.name: must be given"),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: n, labels: {a: 1}}",
            "metadata.labels: must be texts by name; write numbers and times in quotes",
        ),
        (
            CLUSTER.replace("kind: Cluster", "kind: Clusters"),
            "document 1 (Clusters a): kind: fleet.dev/v1alpha1 has no Clusters, it has Cluster,",
        ),
        (
            CLUSTER + "---" + CLUSTER,
            "document 2 (Cluster a): there is one of that name in 2.yaml, document 1 already",
        ),
        (
            CLUSTER.replace("name: a", "name: x").replace("status:", "$patch: delete\nstatus:"),
            "there is no Cluster x to take away",
        ),
        (
            CLUSTER.replace("nodes: 2", "nodes: two"),
            "(Cluster a): status.capacity[0].nodes: must be a whole number",
        ),
        (
            CLUSTER.replace("nodes: 2", "nodes: -2"),
            "(Cluster a): status.capacity[0].nodes: -2 is no number from 0 to 100000",
        ),
        (
            CLUSTER.replace('"64"', '"-64"'),
            'status.capacity[0].shape[cpu]: "-64" may not be negative',
        ),
        (
            CLUSTER.replace("status:", "spec: {networks: {paramPlane: x}}\nstatus:"),
            "spec.networks.paramPlane: unknown field, did you mean parameterPlane?",
        ),
        (CLUSTER.replace("{name: a", "{name: a, labls: {}"), 'unknown field "metadata.labls"'),
        (CLUSTER.replace("{name: a", "{name: a, finalizers: 1"), "cannot unmarshal number into Go"),
        (NODE.replace("n1.a", "n1.z"), "says no cluster that is there"),
        (NODE.replace('"3"', '"no"'), 'metadata.annotations[simulation.fleet.dev/count]: "no"'),
        (NODE.replace('cpu: "8"', "cpu: eight"), "(Node n1.a): "),
        (JOB % "simulation.fleet.dev/arrives: soon", '/arrives]: "soon" is neither a time'),
        (JOB % "simulation.fleet.dev/runs: long", '/runs]: "long" is no duration'),
        (JOB % 'simulation.fleet.dev/count: "0"', '/count]: "0" is no number from 1'),
        ((JOB % "").replace("template:", "parallelism: many\n  template:"), "(Job train): "),
        ((JOB % "").replace("image: x", "immage: x"), "immage"),
        ((JOB % "").replace(", image: x", ""), "spec.template.spec.containers[0].image: Required"),
        (QUOTA % ("q", "parent: nobody", 1), 'spec.parent: no FleetQuota is called "nobody"'),
        (
            QUOTA % ("top", "", 1) + "---" + QUOTA % ("low", "parent: top", 2),
            "is less than what those below it are guaranteed together",
        ),
        (
            QUOTA % ("p", "parent: q", 1) + "---" + QUOTA % ("q", "parent: p", 1),
            "a quota cannot be above itself",
        ),
        (
            "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec: 3",
            "(JobSet s): spec: has not the form of a JobSet",
        ),
        (
            "apiVersion: fleet.dev/v1alpha1\nkind: Placement\nmetadata: {name: p}\nspec: {}",
            "(Placement p): spec.workload: must be given",
        ),
        ("name,runs,gpu\nx,1h,8", 'line 1: column "gpu" is none of name,'),
        ("name,runs\nx,1h,3,4", "2.csv, line 2: has more fields than columns"),
        ("name,runs\nx,soon", 'line 2: column runs: "soon" is no duration'),
        ("name,runs,pods\nx,1h,0", 'column pods: "0" is no whole number from 1 on'),
        ("name,runs,cpu\nx,1h,-1", 'column cpu: "-1" may not be negative'),
        ("name,runs,cpu\nx,1h,lots", 'column cpu: "lots" is no quantity'),
        ("name,runs\n,1h", "line 2: column name: must be given"),
        ("name,runs\none,1h\none,1h", "there is one of that name in 2.csv, line 2 already"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, told: str) -> None:
    lines = wrong(CLUSTER, WORK, text)
    assert any(told in line for line in lines), lines


def test_everything_that_is_wrong_is_said_at_once() -> None:
    lines = wrong(
        CLUSTER.replace("nodes: 2", "nodes: two"), "name,runs\nx,1h", QUOTA % ("q", "parents: r", 1)
    )
    assert [line.partition(":")[0] for line in lines] == [
        "0.yaml, document 1 (Cluster a)", "2.yaml, document 1 (FleetQuota q)"
    ]  # fmt: skip


def test_there_must_be_a_fleet_and_work() -> None:
    assert wrong(WORK) == ["nothing to simulate: there is no Cluster among the objects"]
    assert wrong(CLUSTER) == ["nothing to simulate: there is no Job or Pod, and no table of work"]
