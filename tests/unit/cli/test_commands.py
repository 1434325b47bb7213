"""The command line: what it says, what it loads, and how it ends."""

from __future__ import annotations

import errno
import json
import os
import shlex
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from fleet import __version__
from fleet.cli import explaining, output, program, testbed
from fleet.cli.client import Client
from fleet.cli.main import COMMANDS, cli
from fleet.dispatch import remains
from fleet.errors import AlreadyExists, Forbidden, NotFound, Unavailable
from policies import CLUSTER

if TYPE_CHECKING:
    from pathlib import Path

DISCOVERY = {
    "/api": [
        {
            "metadata": {},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        {
                            "resource": "pods",
                            "responseKind": {"kind": "Pod"},
                            "scope": "Namespaced",
                            "singularResource": "pod",
                            "shortNames": ["po"],
                        },
                        {
                            "resource": "nodes",
                            "responseKind": {"kind": "Node"},
                            "scope": "Cluster",
                            "singularResource": "node",
                            "shortNames": ["no"],
                        },
                    ],
                }
            ],
        }
    ],
    "/apis": [
        {
            "metadata": {"name": "batch"},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        {
                            "resource": "jobs",
                            "responseKind": {"kind": "Job"},
                            "scope": "Namespaced",
                        },
                        {
                            "resource": "cronjobs",
                            "responseKind": {"kind": "CronJob"},
                            "scope": "Namespaced",
                        },
                    ],
                }
            ],
        },
        {
            "metadata": {"name": "metrics.k8s.io"},
            "versions": [
                {
                    "version": "v1beta1",
                    "resources": [
                        {
                            "resource": "pods",
                            "responseKind": {"kind": "PodMetrics"},
                            "scope": "Namespaced",
                        }
                    ],
                }
            ],
        },
        {
            "metadata": {"name": "fleet.dev"},
            "versions": [
                {
                    "version": "v1alpha1",
                    "resources": [
                        {
                            "resource": "placements",
                            "responseKind": {"kind": "Placement"},
                            "scope": "Namespaced",
                        },
                        {
                            "resource": "clusters",
                            "responseKind": {"kind": "Cluster"},
                            "scope": "Cluster",
                        },
                    ],
                }
            ],
        },
    ],
}


class Gateway:
    """Stands in for a gateway: remembers what was asked, answers from a table."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.answers: dict[str, Any] = {
            path: {"kind": "APIGroupDiscoveryList", "items": groups}
            for path, groups in DISCOVERY.items()
        }

    def answer(self, method: str, path: str, detail: Any) -> Any:
        if path not in DISCOVERY:
            self.asked.append((method, path, detail))
        found = self.answers.get(path)
        if found is None:
            raise NotFound.path()
        if isinstance(found, list):
            found = found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture(autouse=True)
def typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that has `fleet` on its PATH."""
    monkeypatch.setattr(program, "command", lambda: "fleet")


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Gateway:
    gateway = Gateway()
    file = tmp_path / "fleet.kubeconfig"
    file.write_text(
        json.dumps(
            {
                "contexts": [{"name": "fleet", "context": {"cluster": "c", "namespace": "shop"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://fleet"}}],
            }
        )
    )
    monkeypatch.setenv("FLEET_KUBECONFIG", str(file))
    monkeypatch.setattr(
        Client, "get", lambda _, path, query=(), **__: gateway.answer("GET", path, list(query))
    )
    monkeypatch.setattr(
        Client, "post", lambda _, path, body, **__: gateway.answer("POST", path, body)
    )
    monkeypatch.setattr(
        Client,
        "stream",
        lambda _, path, query=(): iter(gateway.answer("STREAM", path, list(query))),
    )
    return gateway


def fleet(*args: str) -> Result:
    return CliRunner().invoke(cli, args, prog_name="fleet")


def table(rows: list[tuple[Any, ...]], *columns: str, more: str = "") -> dict[str, Any]:
    return {
        "kind": "Table",
        "metadata": {"continue": more} if more else {},
        "columnDefinitions": [
            {"name": name.strip("+"), "priority": int(name.endswith("+"))} for name in columns
        ],
        "rows": [
            {
                "cells": list(cells),
                "object": {"metadata": {"name": cells[0], "namespace": "payments.east"}},
            }
            for cells in rows
        ],
    }


# -- the group


def test_the_overview_says_what_each_command_says_of_itself() -> None:
    context = click.Context(cli)
    for name, (_, line) in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None and command.name == name
        assert command.help is not None
        assert f"{name} " in fleet("--help").output
        assert line[0].isupper() and line.endswith(".") and len(line) < 60


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(name: str) -> None:
    result = fleet(name, "--help")
    assert result.exit_code == 0
    if name != "version":
        assert "Examples:" in result.output and f"fleet {name}" in result.output


def test_help_loads_no_command_and_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "sys.argv = ['fleet', '--help']\n"
        "from fleet.cli.main import main\n"
        "try:\n    main()\n"
        "except SystemExit: pass\n"
        "print(sorted(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = done.stderr.decode()
    for heavy in ("aiohttp", "cryptography", "yaml", "orjson", "fleet.cli.members", "asyncio"):
        assert f"'{heavy}'" not in loaded


def test_an_unknown_command_is_a_usage_error_with_a_suggestion() -> None:
    result = fleet("joyn")
    assert result.exit_code == 2
    assert "No such command 'joyn'. Did you mean 'join'?" in result.output


@pytest.mark.parametrize(
    "args",
    [
        ("get",),
        ("get", "pods", "-A", "-n", "x"),
        ("get", "pods", "web", "-A"),
        ("get", "pods", "web", "-l", "a=b"),
        ("get", "pod/web", "x"),
        ("get", "pods", "-o", "xml"),
        ("logs", "deployment/train"),
        ("logs", "p", "--tail", "-1"),
        ("explain", "train"),
        ("join",),
        ("leave",),
        ("kubeconfig", "--raw", "--export"),
        ("get", ""),
        ("get", ","),
        ("get", "pods", ""),
        ("run", "--port", "x"),
        ("run", "--port", "70000"),
        ("run", "--log-level", "loud"),
        ("demo", "--port", "99999"),
        ("testbed",),
        ("testbed", "up", "-n", "x"),
        ("testbed", "up", "-n", "0"),
        ("testbed", "up", "--nodes", "cpu"),
        ("testbed", "up", "--provider", "kind"),
    ],
)
def test_a_command_line_that_makes_no_sense_ends_with_2(
    gateway: Gateway, args: tuple[str, ...]
) -> None:
    result = fleet(*args)
    assert result.exit_code == 2, result.output
    assert "Usage: fleet" in result.output


# -- objects


def test_get_prints_a_table(gateway: Gateway) -> None:
    gateway.answers["/api/v1/pods"] = table(
        [("web-1", 1, None, "a"), ("db", 0, True, "b\nc")], "Name", "Restarts", "Ready", "Node+"
    )
    result = fleet("get", "po", "-A")
    assert result.output == (
        "NAMESPACE       NAME    RESTARTS   READY\n"
        "payments.east   web-1   1\n"
        "payments.east   db      0          true\n"
    )
    assert fleet("get", "po", "-A", "-o", "wide").output.splitlines()[2].endswith("true    b")
    assert fleet("get", "pods", "-A", "-o", "name").output == "pod/web-1\npod/db\n"


def test_get_takes_the_contexts_namespace_and_selectors(gateway: Gateway) -> None:
    gateway.answers["/api/v1/namespaces/shop/pods"] = table([], "Name")
    result = fleet("get", "Pod", "-l", "a=b", "--field-selector", "x=y")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "No resources found in shop namespace.\n"
    query = [("labelSelector", "a=b"), ("fieldSelector", "x=y"), ("limit", "500")]
    assert gateway.asked == [("GET", "/api/v1/namespaces/shop/pods", query)]


def test_get_reads_every_page(gateway: Gateway) -> None:
    gateway.answers["/api/v1/nodes"] = [
        table([("a",)], "Name", more="token"),
        table([("b",)], "Name"),
    ]
    assert fleet("get", "no").output == "NAME\na\nb\n"
    assert gateway.asked[1][2] == [("continue", "token"), ("limit", "500")]


def test_get_names_several_kinds(gateway: Gateway) -> None:
    gateway.answers["/api/v1/namespaces/payments.east/pods/web"] = table([("web",)], "Name")
    gateway.answers["/api/v1/nodes/n1.east"] = table([("n1.east",)], "Name")
    result = fleet("get", "pod/web", "no/n1.east", "-n", "payments.east")
    assert result.output == "NAME\npod/web\nNAME\nnode/n1.east\n"


@pytest.mark.parametrize("form", ["table", "name", "json"])
def test_get_goes_on_where_one_of_several_is_missing(gateway: Gateway, form: str) -> None:
    """In one table, as kubectl does; that something was missing is how it ends."""
    for name in ("a", "c"):
        found = {"kind": "Pod", "metadata": {"name": name}}
        gateway.answers[f"/api/v1/namespaces/shop/pods/{name}"] = (
            found if form == "json" else table([(name,)], "Name")
        )
    result = fleet("get", "pods", "a", "b", "c", "-n", "shop", "-o", form)
    assert result.exit_code == 1
    assert result.stderr.startswith("fleet: ") and len(result.stderr.splitlines()) == 1
    if form == "json":
        items = json.loads(result.stdout)["items"]
        assert [each["metadata"]["name"] for each in items] == ["a", "c"]
    else:
        told = {"table": "NAME\na\nc\n", "name": "pod/a\npod/c\n"}
        assert result.stdout == told[form]
    assert fleet("get", "pods", "a", "c", "-n", "shop", "-o", form).exit_code == 0
    gone = fleet("get", "pod/x", "pod/y", "-n", "shop", "-o", form)
    assert (gone.exit_code, len(gone.stderr.splitlines())) == (1, 2)
    assert "No resources" not in gone.stderr


def test_names_are_those_of_one_object(gateway: Gateway) -> None:
    gateway.answers["/apis/batch/v1/namespaces/shop/cronjobs"] = table([("x",)], "Name")
    assert fleet("get", "cronjobs", "-n", "shop", "-o", "name").output == "cronjob.batch/x\n"


def test_what_is_no_number_is_called_that(gateway: Gateway) -> None:
    result = fleet("logs", "x", "--tail", "80x")
    assert result.exit_code == 2
    assert "'80x' is not a valid integer." in result.stderr


def test_a_union_of_namespaces_shows_each_objects_own(gateway: Gateway) -> None:
    gateway.answers["/api/v1/namespaces/payments.*/pods"] = table([("web",)], "Name")
    assert "payments.east   web" in fleet("get", "pods", "-n", "payments.*").output


def test_a_group_tells_kinds_apart(gateway: Gateway) -> None:
    gateway.answers["/apis/metrics.k8s.io/v1beta1/pods"] = table([("web",)], "Name")
    assert fleet("get", "pods.metrics.k8s.io", "-A").exit_code == 0
    assert gateway.asked[0][1] == "/apis/metrics.k8s.io/v1beta1/pods"


def test_documents_are_printed_whole(gateway: Gateway) -> None:
    pod, node = {"kind": "Pod", "note": "grün"}, {"kind": "NodeList", "items": [{"kind": "Node"}]}
    gateway.answers["/api/v1/namespaces/shop/pods/web"] = pod
    gateway.answers["/api/v1/nodes"] = node
    assert json.loads(fleet("get", "pod", "web", "-o", "json").output) == pod
    assert fleet("get", "pod", "web", "-o", "yaml").output == "kind: Pod\nnote: grün\n"
    assert json.loads(fleet("get", "nodes", "-o", "json").output) == node
    gateway.answers["/api/v1/nodes/web"] = {"kind": "Node"}
    several = yaml.safe_load(fleet("get", "pods,nodes", "web", "-o", "yaml").output)
    assert several["kind"] == "List" and several["items"] == [pod, {"kind": "Node"}]


def test_an_unknown_type_says_what_was_meant(gateway: Gateway) -> None:
    result = fleet("get", "podz")
    assert result.exit_code == 1
    assert result.stderr == ('fleet: the server has no resource type "podz"; did you mean pod?\n')


def test_an_error_of_the_gateway_is_one_line_and_exit_code_1(gateway: Gateway) -> None:
    gateway.answers["/api/v1/namespaces/shop/pods/web"] = NotFound.of(
        group="", resource="pods", name="web"
    )
    result = fleet("get", "pod", "web")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == 'fleet: pods "web" not found\n'


def test_logs_pass_their_options_and_bytes(gateway: Gateway) -> None:
    path = "/api/v1/namespaces/payments.east/pods/web/log"
    gateway.answers[path] = (b"one\n", b"\xfftwo\n")
    options = ["-f", "--tail", "0", "--since", "60", "-c", "proxy", "-p", "--timestamps"]
    result = fleet("logs", "pod/web", "-n", "payments.east", *options)
    assert result.stdout_bytes == b"one\n\xfftwo\n"
    assert dict(gateway.asked[0][2]) == {
        "container": "proxy",
        "follow": "true",
        "tailLines": "0",
        "sinceSeconds": "60",
        "previous": "true",
        "timestamps": "true",
    }


def rank(name: str, index: int, cluster: str, at: str = "10", **annotations: str) -> dict[str, Any]:
    annotations = annotations or {"fleet.dev/global-index": str(index)}
    return {
        "metadata": {
            "name": name,
            "labels": {"fleet.dev/cluster": cluster},
            "annotations": annotations,
            "creationTimestamp": f"2026-11-29T12:00:{at}Z",
        }
    }


@pytest.fixture
def ranks(gateway: Gateway) -> Gateway:
    """Three ranks in two clusters; rank 0 began twice, the log of rank 1 cannot be read."""
    spec = {"completionMode": "Indexed", "completions": 4}
    gateway.answers["/apis/batch/v1/namespaces/shop/jobs/train"] = {
        "metadata": {"name": "train", "namespace": "shop"}, "spec": spec,
    }  # fmt: skip
    offset = {
        "fleet.dev/index-offset": "2", "batch.kubernetes.io/job-completion-index": "0",
    }  # fmt: skip
    pods = [
        rank("c.west", 2, "west", **offset),
        rank("new.east", 0, "east", "20"),
        rank("old.east", 0, "east", "10"),
        rank("b.east", 1, "east"),
    ]
    gateway.answers["/api/v1/namespaces/shop/pods"] = {"items": pods}
    for name, text in (
        ("c.west", "2026-11-29T12:00:01Z two\n2026-11-29T12:00:04Z end"),
        ("new.east", "2026-11-29T12:00:03Z zero\n"),
    ):
        gateway.answers[f"/api/v1/namespaces/shop/pods/{name}/log"] = (text.encode(),)
    gateway.answers["/api/v1/namespaces/shop/pods/b.east/log"] = Unavailable("east is away")
    return gateway


def test_logs_of_all_ranks_are_in_their_order_and_gaps_are_named(ranks: Gateway) -> None:
    result = fleet("logs", "job/train", "--tail", "5")
    assert result.stdout.splitlines() == [
        "[0 east] 2026-11-29T12:00:03Z zero", "[2 west] 2026-11-29T12:00:01Z two",
        "[2 west] 2026-11-29T12:00:04Z end",
    ]  # fmt: skip
    assert result.stderr.splitlines() == [
        "rank 1: no log: east is away", "rank 3: no log: it has no pod",
    ]  # fmt: skip
    assert result.exit_code == 1
    selector = [("labelSelector", "batch.kubernetes.io/job-name=train")]
    assert ("GET", "/api/v1/namespaces/shop/pods", selector) in ranks.asked
    assert "old.east" not in str(ranks.asked)
    assert ("tailLines", "5") in ranks.asked[-1][2]


def test_lines_of_ranks_end_where_the_log_ends_them_and_times_count_in_any_zone(
    ranks: Gateway,
) -> None:
    logs = {
        "new.east": b"2026-11-29T12:00:02.000000001Z 10%\r20%\nand more\n",
        "b.east": b"",
        "c.west": b"2026-11-29T13:00:01.9+01:00 first\n2026-11-29T13:00:03+01:00 last\n",
    }
    for name, text in logs.items():
        ranks.answers[f"/api/v1/namespaces/shop/pods/{name}/log"] = (text,)
    shown = fleet("logs", "jobs/train", "--timestamps").stdout_bytes.split(b"\n")
    assert [line.rpartition(b" ")[2] for line in shown if line] == [
        b"first", b"10%\r20%", b"more", b"last",
    ]  # fmt: skip


def test_logs_of_a_job_without_pods_say_where_to_look(ranks: Gateway) -> None:
    ranks.answers["/api/v1/namespaces/shop/pods"] = {"items": []}
    job = ranks.answers["/apis/batch/v1/namespaces/shop/jobs/train"]
    assert "rank 3: no log: it has no pod" in fleet("logs", "job/train").stderr
    job["spec"] = {"parallelism": 2}
    result = fleet("logs", "job/train")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "fleet: job/train in shop has no pods", "  Why:  fleet explain job/train -n shop",
    ]  # fmt: skip


def test_logs_of_all_ranks_are_merged_by_time(ranks: Gateway) -> None:
    lines = fleet("logs", "jobs/train", "--timestamps").stdout.splitlines()
    assert [line.split()[-1] for line in lines] == ["two", "zero", "end"]
    refused = fleet("logs", "job/train", "-f")
    assert refused.exit_code == 2
    assert "name one pod" in refused.output


PLACEMENTS = "/apis/fleet.dev/v1alpha1/namespaces/shop/placements"
CLUSTERS = "/apis/fleet.dev/v1alpha1/clusters"


def test_explain_shows_the_placement_of_a_workload(gateway: Gateway) -> None:
    gateway.answers["/api/v1/namespaces/shop/pods/train"] = {"metadata": {"uid": "7"}}
    verdict = {"name": "east", "verdict": "Refused", "reason": "Full", "message": "no room"}
    status = {"phase": "Queued", "clusters": [verdict]}
    placement = {"spec": {"workload": {"name": "train"}}, "status": status}
    gateway.answers[PLACEMENTS] = {"items": [placement]}
    gateway.answers[CLUSTERS] = {"items": [{"metadata": {"name": "west"}}]}
    assert fleet("explain", "pod/train").output.splitlines() == [
        "train  Queued  generation 0",
        "  east   not used    has left the fleet",
        "  west   not asked   joined after this was last asked about",
    ]
    assert gateway.asked[1] == ("GET", PLACEMENTS, [("fieldSelector", "spec.workload.uid=7")])
    assert json.loads(fleet("explain", "pod/train", "-o", "json").output) == placement


def test_explain_says_that_a_workload_waits_for_an_earlier_one_of_its_name(
    gateway: Gateway,
) -> None:
    pod = {"kind": "Pod", "metadata": {"uid": "8", "name": "web"}}
    gateway.answers["/api/v1/namespaces/shop/pods/web"] = pod
    owed = [{"cluster": "east", "shard": "web-g1-east"}]
    other = {"spec": {"workload": {"kind": "Job", "name": "web"}}}
    earlier = {"spec": {"workload": {"kind": "Pod", "name": "web"}}, "status": {"owed": owed}}
    gateway.answers[PLACEMENTS] = [{"items": []}, {"items": [other, earlier]}]
    gateway.answers[CLUSTERS] = {"items": [{"metadata": {"name": "east"}}]}
    assert fleet("explain", "pod/web").output.splitlines() == [
        "web  Queued",
        "  waits until an earlier Pod of this name is seen gone from east",
        "  east   no rank any more   leaving   web-g1-east: not seen gone yet",
    ]
    gateway.answers[PLACEMENTS] = [{"items": []}, {"items": [other]}]
    assert "has no placement yet" in fleet("explain", "pod/web").stderr


def test_explain_says_that_the_quota_and_the_policy_of_a_workload_are_gone(
    gateway: Gateway,
) -> None:
    gateway.answers["/api/v1/namespaces/shop/pods/train"] = {"metadata": {"uid": "7"}}
    gateway.answers[CLUSTERS] = {"items": []}
    policy = {"namespace": "shop", "name": "split"}
    spec = {"workload": {"name": "train"}, "policy": policy}
    status = {"phase": "Running", "quota": "red"}
    gateway.answers[PLACEMENTS] = {"items": [{"spec": spec, "status": status}]}
    last = fleet("explain", "pod/train").output.splitlines()[-2:]
    assert [line.partition(";")[0] for line in last] == [
        "  FleetQuota red: is there no more",
        "  PlacementPolicy split: is there no more",
    ]
    refused = Forbidden("nobody says")
    gateway.answers["/apis/fleet.dev/v1alpha1/fleetquotas/red"] = refused
    policy.update(namespace="fleet-system", name="default")  # the one that is built in
    assert "is there no more" not in fleet("explain", "pod/train").output
    policy.update(name="other")
    assert "PlacementPolicy other" in fleet("explain", "pod/train").output
    status["phase"] = "Succeeded"
    assert "is there no more" not in fleet("explain", "pod/train").output


@pytest.mark.parametrize(
    ("phase", "tier", "told"), [("Running", 2, True), ("Running", 1, False), ("Queued", 2, False)]
)
def test_explain_says_when_work_moves_back_to_an_earlier_tier(
    gateway: Gateway, phase: str, tier: int, told: bool
) -> None:
    gateway.answers["/api/v1/namespaces/shop/pods/train"] = {"metadata": {"uid": "7"}}
    gateway.answers[CLUSTERS] = {"items": []}
    shard = {"cluster": "cloud", "state": "Running", "tier": tier}
    placement = {"spec": {"workload": {"name": "train"}}, "status": {"phase": phase}}
    placement["status"]["shards"] = [shard]
    gateway.answers[PLACEMENTS] = {"items": [placement]}
    spell = {"clusters": ["east"], "roomSince": "noon", "after": "one"}
    gateway.answers["/fleet/returns"] = {
        "items": [
            {"uid": "6", "tier": 1, "tierName": "other", **spell},
            {"uid": "7", "tier": 1, "tierName": "own", **spell},
        ]
    }
    line = (
        '  moves back to tier "own" (east) after one if the room is still there, which it is '
        "since noon"
    )
    lines = fleet("explain", "pod/train").output.splitlines()
    assert [each for each in lines if "moves back" in each] == ([line] if told else [])
    del gateway.answers["/fleet/returns"]
    assert "moves back" not in fleet("explain", "pod/train").output


@pytest.mark.parametrize(
    ("phase", "was", "team", "told"),
    [
        ("Running", "green", "red", "quota green when it was placed; red counts it now"),
        ("Queued", "green", "red", "quota green when this was decided; red counts it now"),
        ("Running", "", "red", "quota none when it was placed; red counts it now"),
        ("Running", "green", "blue", "quota green when it was placed; none counts it now"),
        ("Running", "old", "red", "FleetQuota old: is there no more; red counts this workload"),
        (
            "Running",
            "old",
            "blue",
            "FleetQuota old: is there no more; no quota counts this workload",
        ),
        ("Running", "green", "green", ""),
        ("Running", "", "blue", ""),
        ("Queued", "", "red", ""),
        ("Succeeded", "green", "red", ""),
    ],
)
def test_explain_says_that_another_quota_counts_a_workload_now(
    gateway: Gateway, phase: str, was: str, team: str, told: str
) -> None:
    gateway.answers["/api/v1/namespaces/shop/pods/train"] = {"metadata": {"uid": "7"}}
    gateway.answers[CLUSTERS] = {"items": []}
    status = {"phase": phase, "quota": was}
    placement = {"spec": {"workload": {"name": "train"}}, "status": status}
    gateway.answers[PLACEMENTS] = {"items": [placement]}
    quotas = [
        {"metadata": {"name": each}, "spec": {"namespaces": {"matchLabels": {"team": each}}}}
        for each in ("green", "red")
    ]
    for each in quotas:
        gateway.answers[f"/apis/fleet.dev/v1alpha1/fleetquotas/{each['metadata']['name']}"] = each
    gateway.answers["/apis/fleet.dev/v1alpha1/fleetquotas"] = {"items": quotas}
    inside = {"metadata": {"name": "shop", "labels": {"team": team}}}
    gateway.answers["/api/v1/namespaces/shop"] = inside
    _, *rest = fleet("explain", "pod/train").output.splitlines()
    assert [line.strip() for line in rest if "counts" in line] == ([told] if told else [])
    unread = {"type": "Valid", "reason": "Unreadable", "message": "is not what it was"}
    quotas[1]["status"] = {"conditions": [unread]}
    assert "counts it" not in fleet("explain", "pod/train").output
    del quotas[1]["status"]
    for hidden in ("/apis/fleet.dev/v1alpha1/fleetquotas", "/api/v1/namespaces/shop"):
        before = gateway.answers[hidden]
        gateway.answers[hidden] = Forbidden("not for you")
        assert "counts it" not in fleet("explain", "pod/train").output
        gateway.answers[hidden] = before


def test_explain_takes_type_and_name_as_get_does(gateway: Gateway) -> None:
    gateway.answers["/api/v1/namespaces/shop/pods/train"] = {"metadata": {"uid": "7"}}
    gateway.answers[PLACEMENTS] = {
        "items": [{"spec": {"workload": {"name": "train"}}, "status": {"phase": "Queued"}}]
    }
    gateway.answers[CLUSTERS] = {"items": []}
    together, apart = fleet("explain", "pod/train"), fleet("explain", "pod", "train")
    assert (apart.exit_code, apart.output) == (0, together.output)
    assert fleet("explain", "pod/train", "train").exit_code == 2


def test_the_version_is_an_option_too() -> None:
    result = fleet("--version")
    assert (result.exit_code, result.output) == (0, f"fleet {__version__}\n")


def test_explain_of_a_name_that_is_elsewhere_says_where(gateway: Gateway) -> None:
    gateway.answers["/apis/batch/v1/jobs"] = {
        "items": [{"metadata": {"namespace": space}} for space in ("research", "shop.east")]
    }
    result = fleet("explain", "job/train")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        'fleet: jobs.batch "train" not found in namespace shop\n'
        "  There is one in:  -n research  -n shop.east\n"
    )
    assert gateway.asked[-1][2] == [("fieldSelector", "metadata.name=train")]
    gateway.answers["/apis/batch/v1/jobs"] = {"items": []}
    assert "What there is:  fleet get jobs -n shop" in fleet("explain", "job/train").stderr


@pytest.mark.parametrize(
    ("path", "metadata", "args", "words"),
    [
        (
            "/apis/batch/v1/namespaces/shop/jobs/train",
            {},
            ("job/train",),
            ["has no placement yet", "kubectl describe jobs.batch train -n shop"],
        ),
        (
            "/apis/batch/v1/namespaces/shop/cronjobs/web",
            {},
            ("cronjob/web",),
            ["cronjob/web in shop is stored and not placed", "places: jobs.batch, pods"],
        ),
        (
            "/api/v1/namespaces/shop.east/pods/web",
            {},
            ("po/web", "-n", "shop.east"),
            ["is east's own"],
        ),
        (
            "/api/v1/namespaces/shop/pods/train-0.east",
            {
                "labels": {"fleet.dev/cluster": "east"},
                "ownerReferences": [{"kind": "Job", "name": "train", "controller": True}],
            },
            ("po/train-0.east",),
            ["is a part of job/train", "fleet explain job/train -n shop"],
        ),
    ],
)
def test_explain_says_why_there_is_nothing_to_explain(
    gateway: Gateway,
    path: str,
    metadata: dict[str, Any],
    args: tuple[str, ...],
    words: list[str],
) -> None:
    name = path.rpartition("/")[2]
    gateway.answers[path] = {"metadata": {"uid": "7", "name": name, **metadata}}
    gateway.answers[PLACEMENTS] = gateway.answers[PLACEMENTS.replace("/shop/", "/shop.east/")] = {
        "items": []
    }
    result = fleet("explain", *args)
    assert (result.exit_code, result.stdout) == (1, "")
    assert all(word in result.stderr for word in words), result.stderr


def test_what_is_said_to_be_placed_is() -> None:
    from fleet.dispatch.kinds import KINDS

    placed = sorted(kind.gvr.group_resource for kind in KINDS.values())
    assert placed == sorted(explaining.PLACED)


def test_what_is_no_workload_is_not_asked_about(gateway: Gateway) -> None:
    result = fleet("explain", "node/n1.east")
    assert result.exit_code == 1
    assert result.stderr == (
        "fleet: the fleet does not place nodes; what the fleet places: jobs.batch, pods\n"
    )


def test_logs_of_a_pod_that_is_elsewhere_say_where(gateway: Gateway) -> None:
    gateway.answers["/api/v1/pods"] = {"items": [{"metadata": {"namespace": "shop.east"}}]}
    result = fleet("logs", "web")
    assert (result.exit_code, result.stdout) == (1, "")
    assert '"web" not found in namespace shop\n  There is one in:  -n shop.east' in result.stderr
    gateway.answers["/api/v1/namespaces/shop/pods/web"] = {"metadata": {}}
    assert fleet("logs", "web").stderr == (
        "fleet: the server could not find the requested resource\n"
    )


# -- members


def kubeconfig(tmp_path: Path) -> Path:
    file = tmp_path / "east.yaml"
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    file.write_text(
        yaml.safe_dump(
            {
                "current-context": "east",
                "contexts": [{"name": "east", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {
                            "server": "https://east.example",
                            "certificate-authority": "ca.pem",
                        },
                    }
                ],
                "users": [{"name": "u", "user": {"token": "secret"}}],
            }
        )
    )
    return file


def test_join_sends_a_kubeconfig_that_stands_alone(gateway: Gateway, tmp_path: Path) -> None:
    joined = {"name": "east", "uid": "4f0c", "version": "v1.36.3"}
    gateway.answers["/fleet/join"] = joined
    result = fleet("join", str(kubeconfig(tmp_path)))
    assert result.exit_code == 0, result.stderr
    assert result.output.startswith("east joined (v1.36.3, kube-system UID 4f0c)")
    _, path, body = gateway.asked[0]
    assert (path, body["name"], body["replace"]) == ("/fleet/join", "east", False)
    sent = yaml.safe_load(body["kubeconfig"])
    assert "certificate-authority" not in sent["clusters"][0]["cluster"]
    assert sent["users"][0]["user"]["token"] == "secret"
    result = fleet("join", str(kubeconfig(tmp_path)), "--name", "e", "--replace", "-o", "json")
    assert json.loads(result.output) == joined
    assert gateway.asked[1][2]["name"] == "e" and gateway.asked[1][2]["replace"] is True


def test_a_member_whose_file_is_missing_is_not_mistaken_for_the_gateways(
    gateway: Gateway, tmp_path: Path
) -> None:
    result = fleet("join", str(tmp_path / "nope"))
    assert (result.exit_code, gateway.asked) == (1, [])
    assert f"{tmp_path / 'nope'}: there is no such file" in result.stderr
    assert "--kubeconfig" not in result.stderr


@pytest.mark.parametrize("user", [None, {}, {"as": "admin"}, {"token": ""}])
def test_a_user_without_credentials_is_refused_here(
    gateway: Gateway, tmp_path: Path, user: dict[str, str] | None
) -> None:
    file = kubeconfig(tmp_path)
    document = yaml.safe_load(file.read_text())
    document["users"][0]["user"] = user
    file.write_text(yaml.safe_dump(document))
    result = fleet("join", str(file))
    assert result.exit_code == 1 and gateway.asked == []
    assert "the user of context 'east' has no credentials" in result.stderr
    # a proxy on this machine adds them: kubectl proxy
    document["clusters"] = [{"name": "c", "cluster": {"server": "http://127.0.0.1:8001"}}]
    file.write_text(yaml.safe_dump(document))
    gateway.answers["/fleet/join"] = {"name": "east", "uid": "4f0c", "version": "v1.36.3"}
    assert fleet("join", str(file)).exit_code == 0


def test_a_refused_join_says_why_and_how_to_go_on(gateway: Gateway, tmp_path: Path) -> None:
    why = "idc-x is idc-a under another address.\n  To change how idc-a is reached:  fleet join …"
    gateway.answers["/fleet/join"] = AlreadyExists(why)
    result = fleet("join", str(kubeconfig(tmp_path)), "--name", "idc-x")
    assert (result.exit_code, result.stderr) == (1, f"fleet: {why}\n")


def test_a_kubeconfig_that_is_none_never_leaves_this_machine(
    gateway: Gateway, tmp_path: Path
) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("kind: Pod")
    result = fleet("join", str(file))
    assert result.exit_code == 1 and "not a kubeconfig" in result.stderr
    assert gateway.asked == []


def test_leave_stops_at_the_first_refusal(gateway: Gateway) -> None:
    gateway.answers["/fleet/leave"] = [{"name": "east"}, NotFound("west is no member")]
    result = fleet("leave", "east", "west", "north")
    assert (result.exit_code, result.stdout) == (1, "east left\n")
    assert result.stderr.endswith("fleet: west is no member\n")


def printed_commands(result: Result) -> list[list[str]]:
    """The words of each kubectl command that is printed to be pasted."""
    whole = result.output.replace(" \\\n", " ")
    lines = [line for line in whole.splitlines() if line.startswith("  kubectl ")]
    return [shlex.split(line, comments=True) for line in lines]


def test_leave_says_what_stays_in_the_cluster_and_how_to_remove_it(gateway: Gateway) -> None:
    gateway.answers["/fleet/leave"] = {"name": "east"}
    result = fleet("leave", "east")
    assert (result.exit_code, result.stdout) == (0, "east left\n")
    assert result.stderr.startswith("Nothing in east is touched")
    assert [shlex.split(each, comments=True) for each in remains.commands("FILE")] == (
        printed_commands(result)
    )
    assert max(map(len, result.stderr.splitlines())) <= 100
    gateway.answers["/fleet/leave"] = NotFound("east is no member")
    assert fleet("leave", "east").stderr == "fleet: east is no member\n"


def test_no_command_for_a_member_can_reach_the_gateway(gateway: Gateway) -> None:
    """A shell has the gateway in KUBECONFIG: there the same command is for all members."""
    gateway.answers["/fleet/leave"] = {"name": "east"}
    gateway.answers[f"{CLUSTERS}/east"] = {"status": {"uid": "4f0c-1"}}
    result = fleet("leave", "east")
    assert printed_commands(result)
    for words in printed_commands(result):
        assert words[1:3] == ["--kubeconfig", "FILE"], words
    assert "says 4f0c-1 if FILE leads to east" in result.stderr


def test_leave_says_how_to_set_again_what_goes_with_the_cluster(gateway: Gateway) -> None:
    spec = {"networks": {"parameterPlane": "it's roce-1"}}
    gateway.answers["/fleet/leave"] = {"name": "east"}
    gateway.answers[f"{CLUSTERS}/east"] = {"spec": spec, "status": {"uid": "4f0c-1"}}
    (patch,) = [each for each in printed_commands(fleet("leave", "east")) if "patch" in each]
    assert patch[:-1] == ["kubectl", "patch", "cluster", "east", "--type", "merge", "-p"]
    assert json.loads(patch[-1]) == {"spec": spec}
    labels = {"fleet.dev/provider": "own", "note": ""}
    gateway.answers[f"{CLUSTERS}/east"] = {
        "metadata": {"labels": labels, "annotations": {"owner": "the team"}}
    }
    label, annotate = printed_commands(fleet("leave", "east"))[-2:]
    assert label == ["kubectl", "label", "cluster", "east", "fleet.dev/provider=own", "note="]
    assert annotate == ["kubectl", "annotate", "cluster", "east", "owner=the team"]
    plain: dict[str, Any] = {"spec": {}}
    CLUSTER.rules.default(plain)
    gateway.answers[f"{CLUSTERS}/east"] = plain
    assert plain["spec"] and "kubectl patch" not in fleet("leave", "east").stderr


def test_a_dry_run_of_leave_lets_nobody_go(gateway: Gateway) -> None:
    gateway.answers[f"{CLUSTERS}/east"] = {}
    result = fleet("leave", "east", "--dry-run")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("east would leave\n")
    assert printed_commands(result)
    assert {method for method, _, _ in gateway.asked} == {"GET"}
    assert fleet("leave", "nope", "--dry-run").exit_code == 1


def test_leave_says_whose_parts_end_with_it(gateway: Gateway) -> None:
    def part(cluster: str, state: str, count: int) -> dict[str, Any]:
        return {"cluster": cluster, "state": state, "roles": [{"name": "worker", "count": count}]}

    def placed(
        name: str, *shards: dict[str, Any], kind: str = "Job", **status: str
    ) -> dict[str, Any]:
        return {
            "metadata": {"namespace": "shop"},
            "spec": {"workload": {"kind": kind, "name": name}},
            "status": {"lease": "10s", "shards": list(shards), **status},
        }

    gateway.answers["/fleet/leave"] = {"name": "east"}
    gateway.answers["/apis/fleet.dev/v1alpha1/placements"] = {
        "items": [
            placed("b", part("east", "Running", 4), part("west", "Running", 2)),
            placed("a", part("east", "Held", 1)),
            placed("over", part("east", "Succeeded", 3)),
            placed("elsewhere", part("west", "Running", 3)),
        ]
    }
    said = fleet("leave", "east").stderr.splitlines()
    assert said[:4] == [
        "Nothing in east is touched; what is its own goes on.",
        "Parts of the fleet's Jobs end with their lease, and are placed anew:",
        "  job/a in shop: 1 pod in east, lease 10s",
        "  job/b in shop: 4 pods in east, lease 10s",
    ]
    assert "Pods of the fleet" not in "\n".join(said)
    gateway.answers["/apis/fleet.dev/v1alpha1/placements"] = {
        "items": [
            placed("web", part("east", "Running", 1), kind="Pod", fencing="Confirmed"),
            placed("held", part("east", "Held", 1), kind="Pod", fencing="Confirmed"),
        ]
    }
    said = fleet("leave", "east").stderr.splitlines()
    assert said[1:4] == [
        "Pods of the fleet run on, out of its sight until the cluster joins again:",
        "  pod/web in shop: in east",
        "What the fleet made there stays. To remove it, put for FILE",
    ]
    gateway.answers["/apis/fleet.dev/v1alpha1/placements"] = {
        "items": [placed("sure", part("east", "Running", 2), fencing="Confirmed")]
    }
    assert fleet("leave", "east").stderr.splitlines()[2] == (
        "  job/sure in shop: 2 pods in east, lease 10s; fencing Confirmed: it waits until it was "
        "seen gone"
    )
    gateway.answers["/apis/fleet.dev/v1alpha1/placements"] = {"items": []}
    assert "Parts of" not in fleet("leave", "east").stderr
    gateway.answers["/apis/fleet.dev/v1alpha1/placements"] = Forbidden("nobody says")
    assert "are placed anew.\n" in fleet("leave", "east").stderr


def test_members_lists_clusters(gateway: Gateway) -> None:
    gateway.answers["/apis/fleet.dev/v1alpha1/clusters"] = table(
        [("east", "True")], "Name", "Ready"
    )
    assert fleet("members").output == "NAME   READY\neast   True\n"


def test_what_is_not_there_is_blank_as_kubectl_shows_it(gateway: Gateway) -> None:
    gateway.answers[CLUSTERS] = table([("east", None, "3d")], "Name", "Plane", "Age")
    assert fleet("members").output == "NAME   PLANE   AGE\neast           3d\n"


# -- the gateway itself


def test_kubeconfig_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "it's here.kubeconfig"
    monkeypatch.setenv("FLEET_KUBECONFIG", str(file))
    result = fleet("kubeconfig")
    assert result.exit_code == 1 and "`fleet run` writes it" in result.stderr
    file.write_text("kind: Config\n")
    assert fleet("kubeconfig").output == f"{file}\n"
    assert fleet("kubeconfig", "--raw").output == "kind: Config\n"
    assert fleet("kubeconfig", "--server", "https://fleet.example.com").exit_code == 2
    exported = fleet("kubeconfig", "--export").output
    shell = subprocess.run(["sh", "-c", f"{exported}\nprintenv KUBECONFIG"], capture_output=True)
    assert shell.stdout.decode() == f"{file}\n"


def test_kubeconfig_for_other_machines_has_the_address_they_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fleet.kubeconfig"
    monkeypatch.setenv("FLEET_KUBECONFIG", str(file))
    roots = ("", "/clusters/east")
    servers = [{"name": at, "cluster": {"server": f"https://127.0.0.1:7443{at}"}} for at in roots]
    users = [{"name": "admin", "user": {"client-key-data": "eA=="}}]
    file.write_text(yaml.safe_dump({"kind": "Config", "clusters": servers, "users": users}))
    made = yaml.safe_load(
        fleet("kubeconfig", "--raw", "--server", "https://fleet.example.com:8443/").output
    )
    assert [each["cluster"]["server"] for each in made["clusters"]] == [
        "https://fleet.example.com:8443", "https://fleet.example.com:8443/clusters/east",
    ]  # fmt: skip
    assert made["users"] == users
    wrongs = ("fleet.example.com", "http://a", "https://", "https://a:b", "https://:pw@a")
    for wrong in wrongs:
        refused = fleet("kubeconfig", "--raw", "--server", wrong)
        assert refused.exit_code == 2 and "https://HOST[:PORT]" in refused.output
    assert "127.0.0.1" in file.read_text()


def test_version_without_a_gateway_still_says_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_KUBECONFIG", str(tmp_path / "none"))
    result = fleet("version")
    assert result.exit_code == 1
    assert result.stdout.startswith("client: ") and "cannot be read" in result.stderr
    assert fleet("version", "--client").exit_code == 0


def test_version_of_both(gateway: Gateway) -> None:
    gateway.answers["/version"] = {"gitVersion": "v1.36.3+fleet-9"}
    assert json.loads(fleet("version", "-o", "json").output)["gateway"] == "v1.36.3+fleet-9"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--config", "/none.yaml"), "/none.yaml cannot be read"),
        (("--state-directory", "/dev/null/x"), "/dev/null/x"),
    ],
)
def test_run_refuses_a_wrong_configuration(args: tuple[str, ...], words: str) -> None:
    result = fleet("run", *args)
    assert result.exit_code == 1 and words in result.stderr


# -- the testbed


def test_the_testbed_is_described_as_it_is() -> None:
    from fleet.testbed import commands, layout

    assert testbed.PROVIDERS == commands.PROVIDERS
    assert layout.NETWORKS == testbed.MOST


def test_the_testbed_names_what_it_does_not_know(tmp_path: Path) -> None:
    home = ("--home", str(tmp_path / "home"))
    result = fleet("testbed", "down", "nosuch", *home)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no member nosuch; it has: none" in result.stderr
    result = fleet("testbed", "down", *home)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing to stop\n")
    assert fleet("testbed", "status", "nosuch", *home).exit_code == 1
    assert json.loads(fleet("testbed", "status", "-o", "json", *home).output) == {"items": []}
    assert "fleet testbed up -n 3" in fleet("testbed", "status", *home).output


# -- no bad input ends in a traceback

WRONG_FILES = {
    "missing": None,
    "empty": b"",
    "binary": b"\xff\xfe\x00\x80",
    "text": b"hello",
    "list": b"[1, 2]",
    "no YAML": b"{a: [",
    "numbers": b"contexts: 5\nclusters: 6\nusers: 7\ncurrent-context: 8\n",
    "texts": b"contexts: [a]\nclusters: [b]\nusers: [c]\ncurrent-context: a\n",
    "nothing": b"contexts: [{name: a}]\nclusters: []\ncurrent-context: a\n",
    "no address": b"contexts: [{name: a, context: {cluster: c}}]\ncurrent-context: a\n"
    b"clusters: [{name: c, cluster: {server: '/x'}}]\n",
    "no port": b"contexts: [{name: a, context: {cluster: c}}]\ncurrent-context: a\n"
    b"clusters: [{name: c, cluster: {server: 'https://h:99999x'}}]\n",
}
NEEDING_A_GATEWAY = [
    ("get", "pods"),
    ("get", "pods", "-o", "yaml"),
    ("logs", "web"),
    ("logs", "-f", "web"),
    ("explain", "job/train"),
    ("members",),
    ("leave", "east"),
    ("version",),
]


@pytest.mark.parametrize("what", WRONG_FILES)
@pytest.mark.parametrize("args", NEEDING_A_GATEWAY, ids=" ".join)
def test_a_kubeconfig_that_cannot_be_used_is_one_message(
    tmp_path: Path, args: tuple[str, ...], what: str
) -> None:
    file = tmp_path / "kubeconfig"
    if (content := WRONG_FILES[what]) is not None:
        file.write_bytes(content)
    ends_in_words(fleet(*args, "--kubeconfig", str(file)), str(file))


@pytest.mark.parametrize("what", WRONG_FILES)
def test_what_cannot_be_joined_is_one_message(gateway: Gateway, tmp_path: Path, what: str) -> None:
    file = tmp_path / "member"
    if (content := WRONG_FILES[what]) is not None:
        file.write_bytes(content)
    ends_in_words(fleet("join", str(file)), str(file))
    assert gateway.asked == []


@pytest.mark.parametrize("args", [*NEEDING_A_GATEWAY, ("join", "{kubeconfig}")], ids=" ".join)
def test_no_gateway_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{taken.getsockname()[1]}"
        file = tmp_path / "fleet.kubeconfig"
        file.write_text(
            json.dumps(
                {
                    "contexts": [{"name": "fleet", "context": {"cluster": "c"}}],
                    "clusters": [{"name": "c", "cluster": {"server": server}}],
                }
            )
        )
        monkeypatch.setenv("FLEET_KUBECONFIG", str(file))
        member = str(kubeconfig(tmp_path))
        result = fleet(*(each.format(kubeconfig=member) for each in args))
    ends_in_words(result, f"no gateway answers at {server}; start it with `fleet run`")


@pytest.mark.parametrize("args", NEEDING_A_GATEWAY, ids=" ".join)
def test_without_any_kubeconfig_it_says_how_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("KUBECONFIG", "FLEET_KUBECONFIG", "FLEET_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    ends_in_words(fleet(*args), "start a gateway with `fleet run`")


def test_a_home_that_cannot_be_used_is_one_message(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for command in (("up", "--provider", "embedded", "x"), ("down",), ("status",)):
        result = fleet("testbed", *command, "--home", str(file / "home"))
        if command[0] == "up":
            ends_in_words(result, f"{file}")
        assert "Traceback" not in result.output
    broken = tmp_path / "home" / "east" / "member.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    for command in (("up", "--provider", "embedded", "east"), ("down",), ("status",)):
        home = ("--home", str(tmp_path / "home"))
        ends_in_words(fleet("testbed", *command, *home), f"{broken} cannot be read")


def test_output_that_cannot_be_written_is_one_message(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    gateway.answers["/api/v1/nodes"] = {"items": []}
    monkeypatch.setattr(output, "document", full)
    ends_in_words(fleet("get", "nodes", "-o", "json"), "No space left on device")


def ends_in_words(result: Result, words: str) -> None:
    """Exit code 1 or 2 by intention, with one message on stderr."""
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("fleet: ") and words in result.stderr, result.stderr
    assert "Traceback" not in result.output


def commands_of(group: click.Group, *above: str) -> list[tuple[str, ...]]:
    context = click.Context(group)
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found.append((*above, name))
        if isinstance(command, click.Group):
            found += commands_of(command, *above, name)
    return found


@pytest.mark.parametrize("path", commands_of(cli), ids=" ".join)
def test_every_command_has_help_and_knows_its_options(path: tuple[str, ...]) -> None:
    for option in ("-h", "--help"):
        result = fleet(*path, option)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith(f"Usage: fleet {' '.join(path)}")
    result = fleet(*path, "--no-such-option")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "No such option '--no-such-option'" in result.stderr


@pytest.mark.parametrize("path", commands_of(cli), ids=" ".join)
def test_what_prints_in_forms_refuses_another(path: tuple[str, ...]) -> None:
    command = cli
    for name in path:
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found  # type: ignore[assignment]
    if any("--output" in each.opts for each in command.params):
        result = fleet(*path, "-o", "xml")
        assert result.exit_code == 2 and "'table', 'json', 'yaml'" in result.stderr
