"""`fleet quota` and `fleet plan`: what they ask for, what they show, and how they end."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from fleet.cli.client import Client
from fleet.cli.main import cli
from fleet.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Iterator
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


def test_a_directory_is_planned_as_its_files(gateway: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    for name in ("b.yml", "a.yaml", "notes.md"):
        kind = "Job" if name != "notes.md" else "None"
        (folder / name).write_text(f"kind: {kind}\nmetadata: {{name: {name[0]}}}\n")
    gateway["/fleet/plan"] = {"items": [], "overcommitted": []}
    assert run("plan", "-f", str(folder)).exit_code == 0
    assert [each["metadata"]["name"] for each in gateway["sent"]["objects"]] == ["a", "b"]
    (empty := tmp_path / "empty").mkdir()
    done = run("plan", "-f", str(empty))
    assert (done.exit_code, done.stderr) == (
        1, f"fleet: {empty} has no file that ends in .json, .yaml, .yml\n"
    )  # fmt: skip


QUOTAS = "/apis/fleet.dev/v1alpha1/fleetquotas"
POLICIES = "/apis/fleet.dev/v1alpha1/lendingpolicies"


def loan(to: str, amount: str, until: str, *, ends: str = "", name: str = "gpu") -> dict[str, str]:
    told = {"to": to, "name": name, "amount": amount, "until": f"2026-03-01T{until}:00Z"}
    return told | ({"endsAt": f"2026-03-01T{ends}:00Z"} if ends else {})


def lending(name: str, donor: str, *loans: Any) -> Any:
    spec = {"from": {"quota": donor}}
    return {"metadata": {"name": name}, "spec": spec, "status": {"loans": list(loans)}}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def tree(gateway: dict[str, Any]) -> None:
    gateway[POLICIES] = {"items": []}
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
        "root         64           64      58     –          –      0",
        "├ research   40           –       –      –          –      0",
        "│ ├ cv       16           –       –      –          –      2 gangs   2 above its limit",
        "│ └ nlp      24           40      38     –          –      1 gang",
        "└ serving    24           –       12     –          12     0",
    ]


def test_what_a_node_has_on_loan_to_whom_and_until_when(
    tree: None, gateway: dict[str, Any]
) -> None:
    later = loan("nlp", "2", "22:00")
    gateway[POLICIES]["items"] = [
        lending("night", "serving", loan("nlp", "4", "18:00"), later),
        lending("day", "serving", loan("cv", "6", "19:00", ends="17:05")),
        {"metadata": {"name": "new"}, "spec": {"from": {"quota": "cv"}}},
    ]
    row = run("quota").stdout.splitlines()[-1]
    assert row == (
        "└ serving    24           –       12     –          12     0   "
        "6 called back from cv, ends 2026-03-01 17:05:00; "
        "6 on loan to nlp, until 2026-03-01 18:00:00"
    )
    items = json.loads(run("quota", "-o", "json").stdout)["items"]
    assert items[-1]["loans"][1] == {"policy": "night", **later}
    assert items[0]["loans"] == []


def test_each_resource_on_loan_is_named_where_there_are_several(
    tree: None, gateway: dict[str, Any]
) -> None:
    loans = loan("nlp", "500m", "18:00", name="cpu"), loan("nlp", "4", "18:00")
    gateway[POLICIES]["items"] = [lending("night", "serving", *loans)]
    assert "500m cpu, 4 gpu on loan to nlp" in run("quota", "serving").stdout


UNREADABLE = {
    "type": "Valid",
    "status": "False",
    "reason": "Unreadable",
    "message": "spec.x: unknown field; it waits until it is mended",
}


@pytest.mark.parametrize("spec", [{"from": {"quota": "serving"}}, {"from": "serving"}, "none"])
def test_policies_that_cannot_be_read_are_told_beside_their_donor(
    tree: None, gateway: dict[str, Any], spec: Any
) -> None:
    night = {"kind": "LendingPolicy", "metadata": {"name": "night"}, "spec": spec}
    gateway[POLICIES]["items"] = [{**night, "status": {"conditions": [UNREADABLE]}}]
    told = f"LendingPolicy night: {UNREADABLE['message']}"
    said = run("quota", "serving").stdout
    assert (told in said) is (spec == {"from": {"quota": "serving"}})


def test_a_quota_that_cannot_be_read_says_so(tree: None, gateway: dict[str, Any]) -> None:
    for each in gateway[QUOTAS]["items"]:
        each["status"]["conditions"] = [UNREADABLE] if each["metadata"]["name"] == "nlp" else []
    (line,) = [each for each in run("quota").stdout.splitlines() if "spec.x: unknown" in each]
    assert "nlp" in line


def test_who_may_not_see_the_policies_sees_the_tree(
    tree: None, monkeypatch: pytest.MonkeyPatch, gateway: dict[str, Any]
) -> None:
    def get(_: Client, path: str, *more: Any, **how: Any) -> Any:
        if path == POLICIES:
            raise Forbidden("may not list lendingpolicies")
        return gateway[path]

    monkeypatch.setattr(Client, "get", get)
    assert len(run("quota").stdout.splitlines()) == 6


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
    gateway[QUOTAS] = gateway[POLICIES] = {"items": []}
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
    full = {"name": "idc-b", "verdict": "Refused", "reason": "Full", "message": "is full"}
    starts = {
        "spec": SPEC, "status": {"phase": "QuotaHeld", "shards": [shard], "clusters": [full]}
    }  # fmt: skip
    waits = {"spec": SPEC, "status": {"phase": "Queued", "message": "24 of 32 are free."}}
    gateway[PLAN] = {
        "items": [
            {"kind": "Job", "name": "one", "verdict": "Starts", "placement": starts},
            {"kind": "Job", "name": "two", "verdict": "Evicts", "evicts": ["job nlp/crawl"],
             "placement": starts},
            {"kind": "Job", "name": "big", "verdict": "Waits", "placement": waits,
             "evicts": ["job nlp/crawl"], "startsAt": "2026-11-29T16:20:00Z"},
            {"kind": "Job", "name": "far", "verdict": "Waits", "placement": waits,
             "later": {"after": "5s", "verdict": "Starts", "placement": starts}},
            {"kind": "Job", "name": "dear", "verdict": "Refused", "placement": waits},
            {"kind": "Job", "name": "late", "verdict": "Waits", "placement": waits,
             "later": {"after": "5s", "verdict": "Refused", "placement": waits}},
            {"kind": "Pod", "name": "web", "verdict": "Runs"},
            {"kind": "Job", "name": "old", "verdict": "Ended", "message": "has ended"},
            {"kind": "Job", "name": "off", "verdict": "Suspended", "message": "it is suspended"},
        ],
        "starts": ["job cv/next"],
        "evictions": [{"workload": "job nlp/old", "evicts": ["job cv/a", "job cv/b"]}],
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
    assert lines[2].endswith(" is full") and "was placed" not in lines[2]
    assert "two: would start; job nlp/crawl would be ended for it" in lines
    at = lines.index("big: would wait. 24 of 32 are free.")
    assert lines[at + 1].startswith("  fits at about 2026-11-29 ")
    assert lines[at + 2] == "  or if it were the most urgent: job nlp/crawl would be ended for it"
    at = lines.index("far: would wait. 24 of 32 are free.")
    assert lines[at + 1] == "  in 5s, if nothing else changes, it would start:"
    assert lines[at + 2].startswith("    idc-a")
    assert "dear: would be refused, and be Failed at once. 24 of 32 are free." in lines
    at = lines.index("late: would wait. 24 of 32 are free.")
    assert lines[at + 1] == "  in 5s, if nothing else changes, it would be refused:"
    assert lines[at + 2] == "    24 of 32 are free."
    assert "web: runs already; fleet explain pod/web says where" in lines
    assert "job cv/next, which waits: would start" in lines
    assert "job nlp/old, which waits: job cv/a, job cv/b would be told to end for it" in lines
    assert "old: has ended; nothing would be decided about it" in lines
    assert "off: would wait: it is suspended" in lines
    assert lines[-1].startswith("quota nlp: would be 2 gpu (h200) above its limit")
    assert gateway["sent"]["objects"] == [
        {"kind": "Job", "metadata": {"namespace": "research", "name": "one"}},
        {"kind": "FleetQuota", "metadata": {"name": "q"}},
    ]


def test_what_a_policy_would_do(gateway: dict[str, Any]) -> None:
    told = {
        "donor": "serving", "to": "nlp", "until": "2026-11-29T18:00:00Z", "why": "serving needs it",
        "endsAt": "2026-11-29T17:05:00Z",
        "resources": [{"name": "gpu", "accelerator": "h200", "amount": "8"}],
    }  # fmt: skip
    donor = {
        "policy": "night", "quota": "serving", "name": "gpu", "accelerator": "h200",
        "guaranteed": "24", "floor": "10", "lendable": "12", "lent": "8",
    }  # fmt: skip
    verdicts = ("Lent", "job nlp/a"), ("Recalled", "job nlp/b"), ("Settled", "job nlp/c")
    gateway[PLAN] = {
        "items": [],
        "overcommitted": [],
        "loans": [{"verdict": v, "workload": name, "loan": told} for v, name in verdicts],
        "donors": [donor],
    }
    given = "kind: LendingPolicy\nmetadata: {name: night}\n"
    assert run("plan", "-f", "-", given=given).stdout.splitlines() == [
        "job nlp/a: would start, 8 gpu (h200) of serving on loan until 2026-11-29 18:00",
        "job nlp/b: would be called back (serving needs it), and end at 2026-11-29 17:05",
        "job nlp/c: quota nlp would cover the 8 gpu (h200) of serving that it has on loan",
        "quota serving: would keep 10 of the 24 gpu (h200) that it is guaranteed, and lend 12 at "
        "most; 8 would be on loan",
    ]
    assert gateway["sent"]["objects"] == [{"kind": "LendingPolicy", "metadata": {"name": "night"}}]
    shown = run("plan", "-f", "-", given="kind: Job\nmetadata: {name: a}\n").stdout
    assert "would keep" not in shown


@pytest.mark.parametrize(
    ("exact", "line"),
    [
        ({"verdict": "Optimal", "objective": {}}, "proven: no other place is better"),
        (
            {"verdict": "Worse", "level": "perHour", "gap": 0.25, "clusters": {"b": 2, "a": 4},
             "objective": {"perHour": "4"}, "optimum": {"perHour": "3"}},
            "the optimum is a 4 + b 2: price per hour 3 instead of 4, 25.0% less",
        ),
        ({"verdict": "Infeasible"}, "proven: there is no place for it now"),
        (
            {"verdict": "Possible", "clusters": {"a": 4}, "optimum": {}},
            "there would be a place, a 4, which the search did not find",
        ),
        (
            {"verdict": "Unproven", "level": "blocks", "bound": 3, "objective": {"blocks": 4}},
            "not proven in the time there was: blocks is at least 3",
        ),
        ({"verdict": "NotCompared", "message": "so"}, "not held against the optimum: so"),
    ],
)  # fmt: skip
def test_how_far_it_is_from_the_optimum(gateway: dict[str, Any], exact: Any, line: str) -> None:
    item = {"kind": "Pod", "name": "web", "verdict": "Runs", "exact": exact}
    gateway[PLAN] = {"items": [item], "overcommitted": []}
    shown = run("plan", "-f", "-", "--exact", given="{kind: Pod}")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines()[1] == f"  {line}"
    assert gateway["sent"]["exact"] is True
    assert "exact" not in (run("plan", "-f", "-", given="{kind: Pod}"), gateway["sent"])[1]


def test_what_would_start_placed_together(gateway: dict[str, Any]) -> None:
    together = {
        "starts": 1,
        "could": 2,
        "workloads": [
            {"kind": "Job", "namespace": "research", "name": "first", "clusters": {"b": 4}},
            {"kind": "Job", "namespace": "lab", "name": "last", "clusters": {"c": 2, "a": 6}},
        ],
    }
    gateway[PLAN] = {"items": [], "overcommitted": [], "together": together}
    shown = run("plan", "-f", "-", given="{kind: Job}")
    assert shown.stdout.splitlines()[:3] == [
        "one by one 1 would start; placed together 2 could:",
        "  research/first: b 4",
        "  lab/last: a 6 + c 2",
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


def test_plan_says_what_else_work_would_wait_for(gateway: dict[str, Any], tmp_path: Path) -> None:
    book = tmp_path / "book.yaml"
    book.write_text("{kind: PriceBook, apiVersion: fleet.dev/v1alpha1, metadata: {name: b}}")
    before = {"reason": "NoRoom", "message": "no room"}
    after = {"reason": "TooDear", "message": "9 USD/h is above 4 USD/h"}
    waits = [{"workload": "job a/b", "before": before, **after}]
    gateway["/fleet/plan"] = {"items": [], "overcommitted": [], "waits": waits}
    said = run("plan", "-f", str(book)).stdout
    assert said == (
        "job a/b, which waits (NoRoom), would wait: 9 USD/h is above 4 USD/h (TooDear)\n"
    )
    (sent,) = gateway["sent"]["objects"]
    assert "namespace" not in sent["metadata"]
