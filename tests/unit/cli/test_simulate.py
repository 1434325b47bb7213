"""`fleet simulate`: where its inputs come from, what it prints, how it ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from fleet.cli.client import Client
from fleet.cli.main import cli

if TYPE_CHECKING:
    from pathlib import Path

FLEET = """
apiVersion: fleet.dev/v1alpha1
kind: Cluster
metadata: {name: a}
status: {capacity: [{shape: {cpu: "8", nvidia.com/gpu: "8"}, nodes: 1}]}
"""
WORK = "name,runs,nvidia.com/gpu\none,1h,8\ntwo,1h,8\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    (tmp_path / "work.csv").write_text(WORK)
    (tmp_path / "notes.md").write_text("not read")
    return tmp_path


def run(*args: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["simulate", *args], prog_name="fleet", input=given)


def told(*args: str, given: str | None = None) -> Any:
    done = run(*args, "-o", "json", given=given)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_directory_is_its_files(folder: Path) -> None:
    assert told("-f", str(folder))["makespanSeconds"] == 7200
    shown = run("-f", str(folder), "-o", "yaml")
    assert yaml.safe_load(shown.stdout) == told("-f", str(folder))


def test_for_people(folder: Path) -> None:
    shown = run("-f", str(folder)).stdout.splitlines()
    assert shown == [
        "2 workloads from 2000-01-01 00:00 to 2000-01-01 02:00: 2 ended",
        "makespan 2h; 0 evictions; cost unknown",
        "",
        "CLASS        WORKLOADS   ENDED   MEAN WAIT   P50   P99   LONGEST   EVICTED",
        "priority 0   2           2       30m         0s    1h    1h        0",
        "",
        "CLUSTER   NODES   RESOURCE         TOTAL   PEAK   USE      COST",
        "a         1       nvidia.com/gpu   8       8      100.0%   unknown",
    ]


def test_side_by_side(folder: Path) -> None:
    more = folder / "more.yaml"
    more.write_text(FLEET.replace("nodes: 1", "nodes: 2"))
    base = ["-f", str(folder / "fleet.yaml"), "-f", str(folder / "work.csv")]
    rows = run(*base, "--compare", str(more)).stdout.splitlines()
    assert rows[0].split() == ["AS", "GIVEN", "MORE", "CHANGE"]
    assert rows[1].split() == ["makespan", "2h", "1h", "-50.0%"]
    items = told(*base, "--compare", str(more))["items"]
    assert [(each["name"], each["makespanSeconds"]) for each in items] == [
        ("as given", 7200), ("more", 3600),
    ]  # fmt: skip
    third = folder / "other" / "more.yaml"
    third.parent.mkdir()
    third.write_text(more.read_text())
    twice = run(*base, "--compare", str(more), "--compare", str(third))
    assert "must have different names" in twice.stderr


URGENT = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 10
"""


@pytest.mark.parametrize(("restart", "evictions"), [("5m", 1), ("3h", 0)])
def test_what_starting_again_takes_decides_who_is_ended(
    folder: Path, restart: str, evictions: int
) -> None:
    rules = {
        "apiVersion": "fleet.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": "p"},
        "spec": {"workloads": {}, "objective": {"checkpoint": {"restart": restart}}},
    }  # fmt: skip
    (folder / "urgent.yaml").write_text(URGENT + "---\n" + yaml.safe_dump(rules))
    (folder / "work.csv").write_text(
        "name,arrives,runs,nvidia.com/gpu,priorityClass\nlong,0s,2h,8,\nfix,1m,1m,8,urgent\n"
    )
    files = [f"-f{folder / name}" for name in ("fleet.yaml", "urgent.yaml", "work.csv")]
    assert told(*files)["evictions"]["times"] == evictions


def test_standard_input_and_a_cluster_less(folder: Path) -> None:
    other = FLEET.replace("name: a", "name: b")
    work = str(folder / "work.csv")
    both = told("-f", "-", "-f", work, given=FLEET + "---" + other)
    assert both["makespanSeconds"] == 3600
    less = told("-f", "-", "-f", work, "--remove-cluster", "b", given=FLEET + "---" + other)
    assert less["makespanSeconds"] == 7200


def test_what_the_gateway_would_not_split_is_not_split(folder: Path) -> None:
    policy = {
        "apiVersion": "fleet.dev/v1alpha1", "kind": "PlacementPolicy",
        "metadata": {"name": "gang", "namespace": "default"},
        "spec": {"workloads": {}, "mode": "Split", "gang": {"network": "None"}},
    }  # fmt: skip
    main = {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    job = {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "sweep", "annotations": {"fleet.dev/run-time": "1h"}},
        "spec": {
            "parallelism": 2, "completions": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": [main]}},
        },
    }  # fmt: skip
    fleet = ["-f", str(folder / "fleet.yaml"), "-f", str(folder / "b.yaml"), "-f", "-"]
    (folder / "b.yaml").write_text(FLEET.replace("name: a", "name: b"))
    split = told(*fleet, given=yaml.safe_dump_all([policy, job]))
    assert split["workloads"]["ended"] == 1
    job["spec"]["completions"] = 4
    (never,) = told(*fleet, given=yaml.safe_dump_all([policy, job]))["neverStarted"]
    assert never["reason"] == "Impossible"


def test_a_start_and_an_end(folder: Path) -> None:
    found = told("-f", str(folder), "--start", "2026-11-29T00:00:00Z", "--until", "90m")
    assert (found["start"], found["end"]) == ("2026-11-29T00:00:00Z", "2026-11-29T01:30:00Z")
    assert found["workloads"]["running"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "Give the fleet and its work with -f"),
        (("-f", "nothing.yaml"), 1, "nothing.yaml cannot be read: No such file"),
        (("-f", "{}", "--start", "now"), 2, '"now" is no time'),
        (("-f", "{}", "--until", "ever"), 2, '"ever" is no duration'),
        (("-f", "{}", "--remove-cluster", "x"), 1, "--remove-cluster, document 1 (Cluster x): "),
        (("-f", "{}/empty"), 1, "has no file that ends in .yaml"),
    ],
)
def test_what_cannot_be(folder: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    (folder / "empty").mkdir()
    done = run(*(each.replace("{}", str(folder)) for each in arguments))
    assert done.exit_code == code
    assert words in " ".join(done.stderr.split())


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, list[Any]]:
    """What a gateway has, by path."""
    file = tmp_path / "fleet.kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "https://fleet"}}
    context = {"name": "fleet", "context": {"cluster": "c"}}
    file.write_text(json.dumps({"contexts": [context], "clusters": [cluster]}))
    monkeypatch.setenv("FLEET_KUBECONFIG", str(file))
    found: dict[str, list[Any]] = {}

    def get(_: Client, path: str, query: Any = (), **__: Any) -> Any:
        items = found.get(path, [])
        at = int(dict(query).get("continue") or 0)
        more = str(at + 1) if at + 1 < len(items) else ""
        kind = {"nodes": "NodeList", "pods": "PodList", "jobs": "JobList"}.get(
            path.rpartition("/")[2], "ClusterList"
        )
        version = "batch/v1" if kind == "JobList" else "v1"
        version = "fleet.dev/v1alpha1" if kind == "ClusterList" else version
        return {
            "apiVersion": version, "kind": kind,
            "metadata": {"continue": more}, "items": items[at : at + 1],
        }  # fmt: skip

    monkeypatch.setattr(Client, "get", get)
    return found


def test_from_what_a_gateway_has(gateway: dict[str, list[Any]], folder: Path) -> None:
    cluster = {key: yaml.safe_load(FLEET)[key] for key in ("metadata", "status")}
    gateway["/fleet/apis/fleet.dev/v1alpha1/clusters"] = [cluster]
    labels = {"fleet.dev/cluster": "a"}
    allocatable = {"cpu": "8", "nvidia.com/gpu": "8"}
    gateway["/api/v1/nodes"] = [
        {"metadata": {"name": f"n{at}.a", "labels": labels}, "status": {"allocatable": allocatable}}
        for at in range(2)
    ]
    gpus = {"resources": {"requests": {"nvidia.com/gpu": "8"}}, "name": "c", "image": "i"}
    gateway["/api/v1/pods"] = [
        {
            "metadata": {"name": "theirs", "namespace": "x.a", "labels": labels, "uid": "1"},
            "spec": {"nodeName": "n0.a", "containers": [gpus]},
        },
        {"metadata": {"name": "pending", "namespace": "x.a"}, "spec": {"containers": [gpus]}},
    ]
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}
    template = {"spec": {"restartPolicy": "Never", "containers": [gpus]}}
    gateway["/fleet/apis/batch/v1/jobs"] = [
        {
            "metadata": {"name": name, "namespace": "x", "uid": name},
            "spec": {"template": template, "activeDeadlineSeconds": 600},
            "status": status,
        }
        for name, status in (("done", ended), ("waits", {}))
    ]
    found = told("--from-gateway", "-f", str(folder / "work.csv"))
    other = {**cluster, "metadata": {"name": "b"}}
    gateway["/fleet/apis/fleet.dev/v1alpha1/clusters"].append(other)
    elsewhere = {"name": "n0", "labels": {"fleet.dev/cluster": "b"}}
    gateway["/api/v1/nodes"].append({"metadata": elsewhere, "status": {"allocatable": allocatable}})
    arguments = ("--from-gateway", "-f", str(folder / "work.csv"))
    assert len(told(*arguments)["clusters"]) == 2
    less = told(*arguments, "--remove-cluster", "b")
    assert {k: less[k] for k in ("makespanSeconds", "clusters")} == {
        k: found[k] for k in ("makespanSeconds", "clusters")
    }
    # One of two nodes is somebody else's: the job that waits goes first, then the two of the file.
    assert found["workloads"]["ended"] == 3
    assert found["makespanSeconds"] == 600 + 7200
    assert found["clusters"][0]["nodes"] == 2


def test_work_that_nobody_could_place_is_counted_told_and_an_error(folder: Path) -> None:
    """Whenever it would have arrived, and beside what is played."""
    work = "name,arrives,runs,nvidia.com/gpu,policy\n"
    rows = [f"{name},{at},1h,1,{policy}" for name, at, policy in (
        ("early", "0", "nope"), ("good", "1h", ""), ("late", "9h", "nope"),
    )]  # fmt: skip
    (folder / "work.csv").write_text(work + "\n".join(rows) + "\n")
    done = run("-f", str(folder))
    assert done.exit_code == 1
    assert done.stdout.startswith("3 workloads from ")
    assert "1 ended, 2 refused" in done.stdout
    assert "job default/early and 1 more: Invalid: metadata.labels[fleet.dev/policy]" in done.stdout
    assert done.stderr.startswith("fleet: 2 of 3 workloads could not be placed by anybody")
    found = run("-f", str(folder), "-o", "json")
    assert found.exit_code == 1
    assert json.loads(found.stdout)["workloads"]["invalid"] == 2


def test_work_that_is_not_there_yet_when_it_stops_is_counted(folder: Path) -> None:
    (folder / "work.csv").write_text("name,arrives,runs,nvidia.com/gpu\none,0,1h,8\ntwo,3h,1h,8\n")
    shown = run("-f", str(folder), "--until", "2h").stdout.splitlines()
    assert shown[0].endswith(": 1 ended, 1 not there yet")
    assert shown[0].startswith("1 workload from")


def test_an_interruption_is_told_and_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fleet.scheduling.simulation.course.play", interrupted)
    done = run("-f", str(folder))
    assert (done.exit_code, done.stderr) == (1, "fleet: interrupted before it was done\n")
