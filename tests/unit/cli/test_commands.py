"""The command line: what it says, what it loads, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from fleet.cli.client import Client
from fleet.cli.main import COMMANDS, cli
from fleet.errors import AlreadyExists, NotFound

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
                        }
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
        ("logs", "job/train"),
        ("logs", "p", "--tail", "-1"),
        ("explain", "train"),
        ("join",),
        ("leave",),
        ("kubeconfig", "--raw", "--export"),
        ("run", "--port", "x"),
        ("testbed", "up", "-n", "x"),
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
        "payments.east   web-1   1          <none>\n"
        "payments.east   db      0          true\n"
    )
    assert fleet("get", "po", "-A", "-o", "wide").output.splitlines()[2].endswith("true     b")
    assert fleet("get", "pods", "-A", "-o", "name").output == "pods/web-1\npods/db\n"


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
    assert result.output == "NAME\npods/web\nNAME\nnodes/n1.east\n"


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


def test_explain_shows_the_placement_of_a_workload(gateway: Gateway) -> None:
    base = "/apis/fleet.dev/v1alpha1/namespaces/shop/placements"
    gateway.answers["/api/v1/namespaces/shop/pods/train"] = {"metadata": {"uid": "7"}}
    placement = {"spec": {"workload": {"name": "train"}}, "status": {"phase": "Queued"}}
    gateway.answers[base] = {"items": [placement]}
    assert fleet("explain", "pod/train").output == "train  Queued  generation 0\n"
    assert gateway.asked[-1] == ("GET", base, [("fieldSelector", "spec.workload.uid=7")])
    assert json.loads(fleet("explain", "pod/train", "-o", "json").output) == placement
    gateway.answers[base] = {"items": []}
    result = fleet("explain", "pod/train")
    assert result.exit_code == 1 and "nothing has placed it yet" in result.stderr


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
    assert result.stderr == "fleet: west is no member\n"


def test_members_lists_clusters(gateway: Gateway) -> None:
    gateway.answers["/apis/fleet.dev/v1alpha1/clusters"] = table(
        [("east", "True")], "Name", "Ready"
    )
    assert fleet("members").output == "NAME   READY\neast   True\n"


# -- the gateway itself


def test_kubeconfig_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "it's here.kubeconfig"
    monkeypatch.setenv("FLEET_KUBECONFIG", str(file))
    result = fleet("kubeconfig")
    assert result.exit_code == 1 and "`fleet run` writes it" in result.stderr
    file.write_text("kind: Config\n")
    assert fleet("kubeconfig").output == f"{file}\n"
    assert fleet("kubeconfig", "--raw").output == "kind: Config\n"
    exported = fleet("kubeconfig", "--export").output
    shell = subprocess.run(["sh", "-c", f"{exported}\nprintenv KUBECONFIG"], capture_output=True)
    assert shell.stdout.decode() == f"{file}\n"


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
        (("--port", "70000"), "flag --port"),
        (("--log-level", "loud"), "debug, info, warning, error"),
    ],
)
def test_run_refuses_a_wrong_configuration(args: tuple[str, ...], words: str) -> None:
    result = fleet("run", *args)
    assert result.exit_code == 1 and words in result.stderr
