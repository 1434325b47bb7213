"""Two teams share a member: one borrows what the other leaves idle, and gives it back when asked.

The whole product, over an embedded member with real processes.
"""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from click.testing import CliRunner

from fleet.cli.main import cli
from fleet.testbed.shape import ACCELERATOR

QUOTAS = "/apis/fleet.dev/v1alpha1/fleetquotas"
PLACEMENT = "/apis/fleet.dev/v1alpha1/namespaces/{}/placements/job-{}"
PATIENCE_S = 40


@pytest.fixture
def gateway(gateway_of_four):
    return gateway_of_four


@pytest.fixture
async def door(gateway, over_tls):
    """Namespaces and quotas of two teams: two accelerators each, of four."""
    async with over_tls(gateway.kubeconfig) as made:
        for team in ("nlp", "cv"):
            metadata = {"name": team, "labels": {"team": team}}
            await made.call("POST", "/api/v1/namespaces", {"metadata": metadata})
        for name, amount, spec in (
            ("lab", "4", {}),
            ("nlp", "2", {"parent": "lab", "namespaces": {"matchLabels": {"team": "nlp"}}}),
            ("cv", "2", {"parent": "lab", "namespaces": {"matchLabels": {"team": "cv"}}}),
        ):
            quota = {
                "apiVersion": "fleet.dev/v1alpha1",
                "kind": "FleetQuota",
                "metadata": {"name": name},
                "spec": {**spec, "resources": [{"name": ACCELERATOR, "guaranteed": amount}]},
            }
            await made.call("POST", QUOTAS, quota)
        yield made


def job(name, ranks, *command):
    requests = {"limits": {ACCELERATOR: "1"}}
    container = {"name": "main", "image": "any", "command": list(command), "resources": requests}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {
        "completions": ranks, "parallelism": ranks, "completionMode": "Indexed",
        "backoffLimit": 0, "template": template,
    }  # fmt: skip
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def until(door, path, holds):
    """Ask until it is so: these are states to come, and stay."""
    found = {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(LookupError):
                    found = await door.call("GET", path)
                    if holds(found.get("status") or {}):
                        return found["status"]
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"it never came to be: {found}") from None


async def test_what_was_borrowed_is_given_back_and_borrowed_again(gateway, door, tmp_path):
    jobs = "/apis/batch/v1/namespaces/{}/jobs"
    await door.call("POST", jobs.format("nlp"), job("crawl", 4, "sleep", "73991"))
    crawl, train = PLACEMENT.format("nlp", "crawl"), PLACEMENT.format("cv", "train")
    await until(door, crawl, lambda status: status["phase"] == "Running")
    nlp = await until(door, f"{QUOTAS}/nlp", lambda status: status.get("admitted") == 1)
    assert [(each["used"], each["borrowed"]) for each in nlp["resources"]] == [("4", "2")]
    cv = await until(door, f"{QUOTAS}/cv", lambda status: "resources" in status)
    assert [(each["used"], each["lent"]) for each in cv["resources"]] == [("0", "2")]

    asked = {
        "objects": [{**job("train", 2, "true"), "metadata": {"name": "train", "namespace": "cv"}}]
    }
    foretold = await door.call("POST", "/fleet/plan", asked)
    assert [(each["verdict"], each["evicts"]) for each in foretold["items"]] == [
        ("Evicts", ["job nlp/crawl"])
    ]
    dry = await door.send(
        "POST", jobs.format("cv"), job("train", 2, "true"), query={"dryRun": "All"}
    )
    told = "would start; job nlp/crawl would be ended for it"
    assert told in dict(dry.headers).get("warning", "") or told in dry.warnings
    go = tmp_path / "go"
    wait = f"until [ -e {go} ]; do sleep 0.1; done"
    await door.call("POST", jobs.format("cv"), job("train", 2, "sh", "-c", wait))
    await until(door, train, lambda status: status["phase"] == "Running")
    told = await until(door, crawl, lambda status: status.get("reason") == "QuotaExceeded")
    assert told["preemptedFor"]["name"] == "train"
    assert told["preemptions"] == 1
    found = await door.call("GET", f"{jobs.format('nlp')}/crawl")
    assert "failed" not in found["status"]
    events = await door.call("GET", "/api/v1/namespaces/nlp/events")
    assert "has to end for job cv/train" in {each["message"] for each in events["items"]}
    shown = await asyncio.to_thread(
        CliRunner().invoke, cli, ["quota", "--kubeconfig", str(gateway.kubeconfig)]
    )
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert lines[0] == ["NODE", "GUARANTEED", "LIMIT", "USED", "BORROWED", "LENT", "WAITING"]
    assert [line[:2] for line in lines[1:]] == [["lab", "4"], ["├", "cv"], ["└", "nlp"]]

    go.touch()
    await until(door, train, lambda status: status["phase"] == "Succeeded")
    again = await until(door, crawl, lambda status: status["phase"] == "Running")
    assert again["generation"] == 2
    await door.call("DELETE", f"{jobs.format('nlp')}/crawl", {"propagationPolicy": "Foreground"})
    await until(door, f"{QUOTAS}/nlp", lambda status: status.get("admitted") == 0)


async def test_a_namespace_of_another_quota_takes_along_what_runs_in_it(gateway, door):
    await door.call("POST", "/apis/batch/v1/namespaces/cv/jobs", job("train", 1, "sleep", "73991"))
    await until(door, PLACEMENT.format("cv", "train"), lambda each: each["phase"] == "Running")
    inside = await door.call("GET", "/api/v1/namespaces/cv")
    inside["metadata"]["labels"]["team"] = "nlp"
    await door.call("PUT", "/api/v1/namespaces/cv", inside)
    await until(door, f"{QUOTAS}/nlp", lambda status: status.get("admitted") == 1)
    args = ["explain", "job/train", "-n", "cv", "--kubeconfig", str(gateway.kubeconfig)]
    shown = await asyncio.to_thread(CliRunner().invoke, cli, args)
    assert shown.stdout.splitlines()[-1] == "  quota cv when it was placed; nlp counts it now"
    await door.call(
        "DELETE", "/apis/batch/v1/namespaces/cv/jobs/train", {"propagationPolicy": "Foreground"}
    )
