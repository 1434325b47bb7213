"""What work costs, from a real Job to the month's record, with extensions installed beside."""

from __future__ import annotations

import asyncio
import json
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from fleet.cli.main import cli
from fleet.testbed.embedded import EmbeddedCluster

EXAMPLE = Path(__file__).parents[3] / "examples" / "extension"
POLICIES = "/apis/fleet.dev/v1alpha1"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The example extension, as an installer leaves it behind."""
    site = tmp_path / "site"
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = site / "fleet_house_rules-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fleet-house-rules\nVersion: 1.0\n")
    lines = []
    for group, named in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in named.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    (site / "house_rules.py").write_text((EXAMPLE / "house_rules.py").read_text())
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"fetched": "2026-11-29T06:00:00Z", "p5": "41.10"}))
    monkeypatch.setenv("HOUSE_PRICES", str(prices))
    monkeypatch.syspath_prepend(site)
    yield
    sys.modules.pop("house_rules", None)


@pytest.fixture
async def fleet(gateway_over, over_tls, installed):
    """(gateway, the fleet's namespace `simulation`), over two members; idc-a costs money."""
    async with (
        EmbeddedCluster("idc-a") as a,
        EmbeddedCluster("idc-b") as b,
        gateway_over(a, b) as gateway,
    ):
        async with over_tls(gateway.kubeconfig, namespace="simulation") as door:
            offers = [{"cluster": "idc-a", "perHour": "3600"}]
            book = {
                "metadata": {"name": "current"},
                "spec": {"currency": "USD", "offers": offers},
            }
            await door.call("POST", f"{POLICIES}/pricebooks", named("PriceBook", book))
            await door.call("POST", "/api/v1/namespaces", {"metadata": {"name": "simulation"}})
            yield gateway, door


def named(kind, obj):
    return {"apiVersion": "fleet.dev/v1alpha1", "kind": kind, **obj}


async def placement(door):
    path = f"{POLICIES}/namespaces/simulation/placements/job-train"
    return await door.call("GET", path)


async def command(gateway, *args):
    """What the command prints, as JSON."""
    kubeconfig = ["--kubeconfig", str(gateway.kubeconfig)]
    ran = await asyncio.to_thread(
        CliRunner().invoke, cli, ["cost", *kubeconfig, *args, "-o", "json"]
    )
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.output)["items"]


async def test_a_job_is_filtered_runs_costs_and_is_in_the_months_record(fleet):
    gateway, door = fleet
    licence = {"metadata": {"labels": {"example.com/licence-solver-9": "true"}}}
    container = {
        "name": "main", "image": "any", "command": ["sleep", "2"],
        "resources": {"requests": {"cpu": "100m"}},
    }  # fmt: skip
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": "train", "annotations": {"fleet.dev/run-time": "1h"}}
    await door.create("jobs", {"metadata": metadata, "spec": {"template": template}})

    # the filter of the example keeps it out everywhere, and says so
    def is_refused(job):
        return any(
            each["type"] == "fleet.dev/Placed" and each["status"] == "False"
            for each in job["status"].get("conditions") or ()
        )

    await door.until_one("jobs", "train", is_refused)
    async with asyncio.timeout(50):
        while True:
            verdicts = (await placement(door))["status"].get("clusters") or ()
            if {each["reason"] for each in verdicts} == {"Filtered"}:
                break
            await asyncio.sleep(0.1)
    for verdict in verdicts:
        assert verdict["message"] == "solver-9 is not licensed there (filter licences)"

    # what the price source says is a PriceBook
    book = await door.call("GET", f"{POLICIES}/pricebooks/price-list")
    assert book["spec"]["offers"][0]["perHour"] == "41.10"

    # licensed in idc-a it runs there, and costs
    await door.call(
        "PATCH", f"{POLICIES}/clusters/idc-a", licence,
        headers={"content-type": "application/merge-patch+json"},
    )  # fmt: skip
    await door.until_one("jobs", "train", lambda found: found["status"].get("succeeded") == 1)
    status = (await placement(door))["status"]
    (shard,) = status["shards"]
    assert (shard["cluster"], status["runTime"]) == ("idc-a", "1h")
    assert float(shard["perHour"]) > 0
    (row,) = await command(gateway)
    assert row["name"] == "simulation/job/train"
    assert float(row["soFar"]) > 0

    # deleted it is still paid for
    await door.delete("jobs", "train", propagationPolicy="Background")
    await door.until_gone("jobs")
    listed = await door.call("GET", "/api/v1/namespaces/fleet-system/configmaps")
    records = [each for each in listed["items"] if each["metadata"]["name"].startswith("cost-")]
    lines = [line for each in records for line in json.loads(each["data"]["amounts"])]
    assert len(records) == len(lines) in (1, 2)  # two where a month has begun meanwhile
    assert {(line["namespace"], line["cluster"], line["currency"]) for line in lines} == {
        ("simulation", "idc-a", "USD")
    }
    paid = pytest.approx(sum(float(line["amount"]) for line in lines), abs=1e-6)
    assert float(row["soFar"]) == paid
    (gone,) = await command(gateway)
    assert gone["name"] == "simulation/(deleted)"
    assert float(gone["soFar"]) == paid
    (cluster,) = await command(gateway, "--by", "cluster")
    assert cluster["name"] == "idc-a"
    assert float(cluster["soFar"]) == paid


async def test_how_long_work_runs_may_be_said_while_it_runs(fleet):
    _, door = fleet
    container = {"name": "main", "image": "any", "command": ["sleep", "600"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    await door.call(
        "PATCH", f"{POLICIES}/clusters/idc-a",
        {"metadata": {"labels": {"example.com/licence-solver-9": "true"}}},
        headers={"content-type": "application/merge-patch+json"},
    )  # fmt: skip
    await door.create("jobs", {"metadata": {"name": "train"}, "spec": {"template": template}})
    await door.until_one("jobs", "train", lambda found: found["status"].get("ready") == 1)
    assert "runTime" not in (await placement(door))["status"]

    async def say(run_time):
        await door.call(
            "PATCH", "/apis/batch/v1/namespaces/simulation/jobs/train",
            {"metadata": {"annotations": {"fleet.dev/run-time": run_time}}},
            headers={"content-type": "application/merge-patch+json"},
        )  # fmt: skip

    for said, written in (("6h", "6h"), ("90m", "1h30m"), (None, None)):
        await say(said)
        async with asyncio.timeout(50):
            while True:
                if (await placement(door))["status"].get("runTime") == written:
                    break
                await asyncio.sleep(0.1)
    with pytest.raises(LookupError, match="6parsecs"):
        await say("6parsecs")
