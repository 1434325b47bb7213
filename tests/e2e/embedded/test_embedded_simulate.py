"""What a gateway has now is played on, and its decisions are held against the optimum.

The whole product, over an embedded member with real processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from click.testing import CliRunner

from fleet.cli.main import cli
from fleet.testbed.shape import ACCELERATOR

PATIENCE_S = 40
HOUR_S = 3600


@pytest.fixture
def gateway(gateway_of_four):
    return gateway_of_four


@pytest.fixture
async def door(gateway, over_tls):
    async with over_tls(gateway.kubeconfig) as made:
        await made.call("POST", "/api/v1/namespaces", {"metadata": {"name": "nlp"}})
        yield made


def job(name, ranks, runs="1h"):
    requests = {"limits": {ACCELERATOR: "1"}}
    command = ["sleep", "73993"]
    container = {"name": "main", "image": "any", "command": command, "resources": requests}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": {"fleet.dev/run-time": runs}},
        "spec": {
            "completions": ranks, "parallelism": ranks, "completionMode": "Indexed",
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }  # fmt: skip


@pytest.fixture
def fleet(gateway):
    async def run(*arguments):
        done = await asyncio.to_thread(
            CliRunner().invoke, cli, [*arguments, "--kubeconfig", str(gateway.kubeconfig)]
        )
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


async def until(door, name, holds):
    """Ask until it is so: these are states to come, and stay."""
    path = f"/apis/fleet.dev/v1alpha1/namespaces/nlp/placements/job-{name}"
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


async def test_what_there_is_now_is_played_on(door, fleet, tmp_path):
    jobs = "/apis/batch/v1/namespaces/nlp/jobs"
    await door.call("POST", jobs, job("crawl", 3))
    await until(door, "crawl", lambda status: status["phase"] == "Running")
    await door.call("POST", jobs, job("next", 3))
    await until(door, "next", lambda status: status.get("reason") == "NoRoom")
    file = tmp_path / "more.csv"
    file.write_text(f"name,namespace,runs,pods,{ACCELERATOR}\nsmall,nlp,30m,1,1\nhuge,nlp,1h,9,1\n")

    told = json.loads(await fleet("simulate", "--from-gateway", "-f", str(file), "-o", "json"))
    assert told["workloads"] == {
        "arrived": 4, "started": 3, "ended": 3, "running": 0, "waiting": 1, "refused": 0,
        "invalid": 0, "later": 0,
    }  # fmt: skip
    assert HOUR_S < told["makespanSeconds"] <= 2 * HOUR_S
    assert [each["name"] for each in told["neverStarted"]] == ["huge"]
    (cluster,) = told["clusters"]
    gpus = next(each for each in cluster["resources"] if each["name"] == ACCELERATOR)
    assert (gpus["total"], gpus["peak"]) == ("4", "4")

    waiting = tmp_path / "wide.yaml"
    waiting.write_text(json.dumps(job("wide", 3)))
    starting = tmp_path / "one.yaml"
    starting.write_text(json.dumps(job("one", 1, runs="1m")))
    files = ["-f", str(starting), "-f", str(waiting)]
    shown = (await fleet("plan", *files, "-n", "nlp", "--exact")).splitlines()
    assert shown[0] == "one: would start"
    assert "  proven: no other place is better" in shown, shown
    assert "  proven: there is no place for it now" in shown
