"""`fleet quota` and `fleet plan`: what they ask for, what they show, and how they end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from fleet.cli.client import Client
from fleet.cli.main import cli

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """What the gateway answers by path; what it was sent is in "sent"."""
    file = tmp_path / "fleet.kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "https://fleet"}}
    context = {"name": "fleet", "context": {"cluster": "c", "namespace": "research"}}
    file.write_text(json.dumps({"contexts": [context], "clusters": [cluster]}))
    monkeypatch.setenv("FLEET_KUBECONFIG", str(file))
    found: dict[str, Any] = {}

    def post(_: Client, path: str, body: Any, **__: Any) -> Any:
        found["sent"] = body
        return found[path]

    monkeypatch.setattr(Client, "get", lambda _, path, *more, **how: found[path])
    monkeypatch.setattr(Client, "post", post)
    return found


def run(*args: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli, args, prog_name="fleet", input=given)


def node(name: str, parent: str = "", *, waiting: int = 0, over: str = "", **summary: str) -> Any:
    conditions = [{"type": "Overcommitted", "status": "True", "message": over}] if over else []
    return {
        "metadata": {"name": name},
        "spec": {"parent": parent, "resources": [{"name": "gpu", "guaranteed": "8"}]},
        "status": {"summary": summary, "waiting": waiting, "conditions": conditions},
    }


QUOTAS = "/apis/fleet.dev/v1alpha1/fleetquotas"


@pytest.fixture
def tree(gateway: dict[str, Any]) -> None:
    gateway[QUOTAS] = {
        "items": [
            node("serving", "root", guaranteed="24", used="12", lent="12"),
            node("nlp", "research", waiting=1, guaranteed="24", limit="40", used="38"),
            node("root", guaranteed="64", limit="64", used="58"),
            node("cv", "research", waiting=2, over="2 above its limit", guaranteed="16"),
            node("research", "root", guaranteed="40"),
        ]
    }


def test_the_tree_with_what_each_node_uses(tree: None) -> None:
    assert run("quota").stdout.splitlines() == [
        "NODE         GUARANTEED   LIMIT   USED   BORROWED   LENT   WAITING",
        "root         64           64      58     –          –      –",
        "├ research   40           –       –      –          –      –",
        "│ ├ cv       16           –       –      –          –      2 gangs   2 above its limit",
        "│ └ nlp      24           40      38     –          –      1 gang",
        "└ serving    24           –       12     –          12     –",
    ]


def test_one_node_with_those_below_it(tree: None) -> None:
    shown = run("quota", "research").stdout.splitlines()
    assert [line.split()[:2] for line in shown[1:]] == [
        ["research", "40"], ["├", "cv"], ["└", "nlp"],
    ]  # fmt: skip
    missing = run("quota", "nobody")
    assert missing.exit_code == 1
    assert "there is no FleetQuota nobody" in missing.stderr


def test_the_tree_for_programs(tree: None) -> None:
    items = json.loads(run("quota", "-o", "json").stdout)["items"]
    assert [(each["name"], each["depth"], each.get("parent")) for each in items[:3]] == [
        ("root", 0, None), ("research", 1, "root"), ("cv", 2, "research"),
    ]  # fmt: skip
    assert items[0]["guaranteed"] == [{"name": "gpu", "guaranteed": "8"}]


def test_no_quotas(gateway: dict[str, Any]) -> None:
    gateway[QUOTAS] = {"items": []}
    shown = run("quota")
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "nothing limits" in shown.stderr


PLAN = "/fleet/plan"
SPEC = {"workload": {"name": "big"}}


def test_what_would_become_of_a_file(gateway: dict[str, Any], tmp_path: Path) -> None:
    shard = {
        "cluster": "idc-a",
        "state": "Planned",
        "roles": [{"name": "w", "first": 0, "count": 2}],
    }
    starts = {"spec": SPEC, "status": {"phase": "QuotaHeld", "shards": [shard]}}
    waits = {"spec": SPEC, "status": {"phase": "Queued", "message": "24 of 32 are free."}}
    gateway[PLAN] = {
        "items": [
            {"kind": "Job", "name": "one", "verdict": "Starts", "placement": starts},
            {"kind": "Job", "name": "two", "verdict": "Evicts", "evicts": ["job nlp/crawl"],
             "placement": starts},
            {"kind": "Job", "name": "big", "verdict": "Waits", "placement": waits,
             "evicts": ["job nlp/crawl"], "startsAt": "2026-11-29T16:20:00Z"},
            {"kind": "Pod", "name": "web", "verdict": "Runs"},
        ],
        "overcommitted": [{"quota": "nlp", "name": "gpu", "accelerator": "h200", "by": "2"}],
    }  # fmt: skip
    file = tmp_path / "all.yaml"
    file.write_text(
        "kind: Job\nmetadata: {name: one}\n---\nkind: FleetQuota\nmetadata: {name: q}\n"
    )
    shown = run("plan", "-f", str(file))
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert lines[0] == "one: would start"
    assert "idc-a" in lines[1]
    assert "two: would start once job nlp/crawl has ended, which would be told to" in lines
    at = lines.index("big: would wait. 24 of 32 are free.")
    assert lines[at + 1].startswith("  fits at about 2026-11-29 ")
    assert lines[at + 2] == "  or if it were the most urgent: job nlp/crawl would be ended for it"
    assert "web: runs already; fleet explain pod/web says where" in lines
    assert lines[-1].startswith("quota nlp: would be 2 gpu (h200) above its limit")
    assert gateway["sent"]["objects"] == [
        {"kind": "Job", "metadata": {"namespace": "research", "name": "one"}},
        {"kind": "FleetQuota", "metadata": {"name": "q"}},
    ]


def test_from_standard_input_for_programs(gateway: dict[str, Any]) -> None:
    gateway[PLAN] = {"items": [], "overcommitted": []}
    given = json.dumps({"kind": "List", "items": [{"kind": "Pod"}, {"kind": "Job"}]})
    shown = run("plan", "-f", "-", "-n", "payments", "-o", "json", given=given)
    assert json.loads(shown.stdout) == gateway[PLAN]
    assert [each["metadata"] for each in gateway["sent"]["objects"]] == [
        {"namespace": "payments"}, {"namespace": "payments"},
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["a: [", "- 1"])
def test_a_file_that_holds_no_objects(gateway: dict[str, Any], text: str) -> None:
    shown = run("plan", "-f", "-", given=text)
    assert shown.exit_code == 1
    assert shown.stderr.startswith("fleet: ")
