"""`fleet cost`: what it reads, what it shows, and how it ends."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from fleet.cli import cost
from fleet.cli.client import Client
from fleet.cli.main import cli
from fleet.errors import NotFound, Unavailable
from fleet.scheduling.cost import months
from fleet.scheduling.cost.showback import Row

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 30, 22, tzinfo=UTC)  # two hours before the month ends
ALL = "/apis/fleet.dev/v1alpha1/placements"
RECORDS = "/api/v1/namespaces/fleet-system/configmaps"


def placement(name: str, namespace: str = "nlp", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"job-{name}", "namespace": namespace, "uid": name},
        "spec": {"workload": {"apiVersion": "batch/v1", "kind": "Job", "name": name}},
        "status": status,
    }


def running(cluster: str, per_hour: str | None, **more: Any) -> dict[str, Any]:
    shard = {
        "cluster": cluster, "generation": 1, "state": "Running",
        "heldAt": "2026-11-30T20:00:00Z", **more,
    }  # fmt: skip
    if per_hour is not None:
        shard["perHour"] = per_hour
    return {"cost": {"currency": "USD"}, "shards": [shard]}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "fleet.kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "https://fleet"}}
    context = {"name": "fleet", "context": {"cluster": "c"}}
    file.write_text(json.dumps({"contexts": [context], "clusters": [cluster]}))
    monkeypatch.setenv("FLEET_KUBECONFIG", str(file))
    monkeypatch.setattr(cost, "_now", lambda: NOW)
    found: dict[str, Any] = {RECORDS: []}

    def get(_: Client, path: str, query: Any = (), **__: Any) -> Any:
        answer = found[path]
        if isinstance(answer, Exception):
            raise answer
        at = int(dict(query).get("continue", "0"))
        if path == RECORDS:
            assert ("labelSelector", months.LABEL) in query
        more = str(at + 1) if at + 1 < len(answer) else ""
        return {"metadata": {"continue": more}, "items": answer[at : at + 1]}

    monkeypatch.setattr(Client, "get", get)
    return found


def fleet(*args: str) -> Result:
    return CliRunner().invoke(cli, ["cost", *args], prog_name="fleet")


def test_workloads_dearest_first_with_a_total(answers: dict[str, Any]) -> None:
    answers[ALL] = [
        placement("small", **running("a", "0.5")),
        placement("big", "cv", **running("b", "98.321234")),
        placement("waiting"),
    ]
    result = fleet()
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "WORKLOAD        PER HOUR   SO FAR   FORECAST   CURRENCY\n"
        "cv/job/big      98.33      196.65   393.29     USD\n"
        "nlp/job/small   0.50       1.00     2.00       USD\n"
        "total           98.83      197.65   395.29     USD\n"
    )


def test_teams_are_quotas(answers: dict[str, Any]) -> None:
    answers[ALL] = [
        placement("a", **running("a", "1")),
        placement("b", "cv", **running("a", "2"), quota="vision"),
        placement("c", "other", **running("a", "4")),
    ]
    selector = {"matchLabels": {"team": "nlp"}}
    answers["/apis/fleet.dev/v1alpha1/fleetquotas"] = [
        {"metadata": {"name": "language"}, "spec": {"namespaces": selector}}
    ]
    answers["/api/v1/namespaces"] = [{"metadata": {"name": "nlp", "labels": {"team": "nlp"}}}]
    items = json.loads(fleet("--by", "team", "-o", "json").stdout)["items"]
    assert {item["name"]: item["soFar"] for item in items} == {
        "(no quota)": "8", "vision": "4", "language": "2",
    }  # fmt: skip


def test_deleted_workloads_are_in_the_sums(answers: dict[str, Any]) -> None:
    gone = placement("gone", **running("a", "3"))
    answers[RECORDS] = list(months.absorbed({}, gone, quota="", now=NOW).values())
    answers[ALL] = [placement("a", **running("a", "1"))]
    document = yaml.safe_load(fleet("--by", "cluster", "-o", "yaml").stdout)
    assert document["by"] == "cluster"
    (item,) = document["items"]
    assert item == {
        "name": "a", "currency": "USD", "perHour": "1", "soFar": "8", "forecast": "10",
    }  # fmt: skip


def test_a_namespace_and_a_month(answers: dict[str, Any]) -> None:
    gone = placement("gone", "cv", **running("a", "3"))
    answers[RECORDS] = list(months.absorbed({}, gone, quota="", now=NOW).values())
    path = "/apis/fleet.dev/v1alpha1/namespaces/nlp/placements"
    spent = [{"month": "2026-10", "cluster": "a", "currency": "USD", "amount": "7"}]
    answers[path] = [placement("a", **running("a", "1"), spent=spent)]
    items = json.loads(fleet("-n", "nlp", "--month", "2026-10", "-o", "json").stdout)["items"]
    assert [(item["name"], item["soFar"]) for item in items] == [("nlp/job/a", "7")]


def test_a_namespace_that_is_not_there(answers: dict[str, Any]) -> None:
    answers["/apis/fleet.dev/v1alpha1/namespaces/nope/placements"] = []
    answers["/api/v1/namespaces/nope"] = NotFound.of(group="", resource="namespaces", name="nope")
    result = fleet("-n", "nope")
    assert result.exit_code == 1 and 'namespaces "nope" not found' in result.stderr
    gone = placement("gone", "nope", **running("a", "1"))
    answers[RECORDS] = list(months.absorbed({}, gone, quota="", now=NOW).values())
    assert fleet("-n", "nope").exit_code == 0  # it was there, and has cost something


def test_what_is_not_known_is_said(answers: dict[str, Any]) -> None:
    answers[ALL] = [
        placement("dark", **running("a", None)),
        placement("lit", **running("a", "1")),
    ]
    lines = fleet().stdout.splitlines()
    assert lines[0].endswith("UNPRICED")
    assert "nlp/job/dark   unknown    unknown   unknown    unknown    2h" in lines


def test_nothing_costs_anything(answers: dict[str, Any]) -> None:
    answers[ALL] = []
    result = fleet()
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "Nothing has cost anything yet.\n"


@pytest.mark.parametrize(
    "args", [("--by", "planet"), ("--month", "2026-13"), ("--month", "November"), ("-o", "xml")]
)
def test_a_command_line_that_makes_no_sense_ends_with_2(
    answers: dict[str, Any], args: tuple[str, ...]
) -> None:
    result = fleet(*args)
    assert result.exit_code == 2
    assert "Usage: fleet cost" in result.stderr


def test_no_answer_is_one_line_and_exit_code_1(answers: dict[str, Any]) -> None:
    answers[ALL] = Unavailable("no gateway answers at https://fleet")
    result = fleet()
    assert result.exit_code == 1
    assert result.stderr == "fleet: no gateway answers at https://fleet\n"


def test_the_total_has_the_time_of_every_row_that_no_price_covers() -> None:
    def row(name: str, currency: str, seconds: int) -> Row:
        return Row(name, currency, 0, 0, 0, timedelta(seconds=seconds))

    def totals(*rows: Row) -> dict[str, float]:
        return {each.currency: each.unpriced.total_seconds() for each in cost._totals(rows)}

    assert totals(row("a", "USD", 54), row("b", "", 125)) == {"USD": 179}
    several = (row("a", "USD", 1), row("b", "EUR", 2), row("c", "", 4), row("d", "", 8))
    assert totals(*several) == {"USD": 1, "EUR": 2, "": 12}
    assert totals(row("a", "", 1), row("b", "", 2)) == {"": 3}


def test_what_was_deleted_costs_nothing_any_more_though_its_price_was_never_known() -> None:
    gone = Row("(deleted)", "", 0, 0, 0, timedelta(hours=2))
    assert cost._table([gone], "workload")[1] == [
        "(deleted)", "0.00", "unknown", "unknown", "unknown", "2h"
    ]  # fmt: skip
