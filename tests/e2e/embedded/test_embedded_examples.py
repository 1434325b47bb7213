"""What README, examples and the demo say to try works: over embedded members, with processes."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from fleet.cli.main import cli
from fleet.dispatch import remains
from fleet.kube import paths
from fleet.testbed.demo.objects import NAMESPACE
from fleet.testbed.demo.story import what_to_try
from fleet.testbed.embedded import EmbeddedCluster
from fleet.testbed.shape import ACCELERATOR, NodeShape

ROOT = Path(__file__).parents[3]
CLUSTERS = "/apis/fleet.dev/v1alpha1/clusters"
RBAC = "rbac.authorization.k8s.io"
POLICIES = "/apis/fleet.dev/v1alpha1/namespaces/{}/placementpolicies"


@pytest.fixture
async def stage(gateway_over):
    """(a gateway, its two members of one plane, with four accelerators and with two)"""
    async with contextlib.AsyncExitStack() as stack:
        members = []
        for name, nodes in (("idc-a", 2), ("idc-b", 1)):
            shape = NodeShape(count=nodes, capacity={"cpu": "4", ACCELERATOR: "2"})
            members.append(await stack.enter_async_context(EmbeddedCluster(name, nodes=[shape])))
        gateway = await stack.enter_async_context(gateway_over(*members))
        yield gateway, members


@pytest.fixture
def gateway(stage):
    return stage[0]


async def test_the_example_of_a_gang_runs_in_two_clusters(stage, over_tls):
    gateway, members = stage
    policy, job = yaml.safe_load_all((ROOT / "examples" / "gang.yaml").read_text())
    async with over_tls(gateway.kubeconfig, namespace="research") as door:
        headers = {"content-type": "application/merge-patch+json"}
        for member in ("idc-a", "idc-b"):
            spec = {"spec": {"networks": {"parameterPlane": "roce-1"}}}
            await door.call("PATCH", f"{CLUSTERS}/{member}", spec, headers=headers)
        await door.call("POST", "/api/v1/namespaces", {"metadata": {"name": "research"}})
        await door.call("POST", POLICIES.format("research"), policy)
        await door.create("jobs", job)
        pods = await door.until("pods", lambda found: len(found) == 6 and all(map(_is_over, found)))
        names = {each["metadata"]["name"] for each in pods}
        assert {name.rpartition(".")[2] for name in names} == {"idc-a", "idc-b"}
        said = sorted([await door.logs(name) for name in names])
        assert said == [f"rank {rank} of 6\n" for rank in range(6)]
        name = job["metadata"]["name"]
        told = await asyncio.to_thread(of_all_ranks, gateway, f"job/{name}")
        assert [line.rpartition("] ")[2] for line in told] == [f"rank {r} of 6" for r in range(6)]
    made = {resource for member in members for resource in made_by_the_fleet(member)}
    assert {"jobs.batch", "namespaces", "services", "rolebindings." + RBAC} <= made
    removed = {each for removal in remains.REMOVALS for each in removal.resources}
    assert made <= removed, "what `fleet leave` says is left is not all"


def of_all_ranks(gateway, job):
    """What `fleet logs` shows of a Job, line by line."""
    environment = {"FLEET_KUBECONFIG": str(gateway.kubeconfig)}
    done = CliRunner().invoke(cli, ["logs", job, "-n", "research"], env=environment)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def made_by_the_fleet(member):
    """The resources of what the fleet created in a member; questions create nothing."""
    for each in member.cluster.audit.records:
        if each.method == "POST" and each.user.startswith(("admin", "fleet:dispatcher:")):
            target = paths.parse_target("POST", each.path, ())
            if target is not None and not target.gvr.resource.endswith("reviews"):
                yield target.gvr.group_resource


def _is_over(pod):
    return pod["status"].get("phase") == "Succeeded"


def suggestions():
    """The `kubectl run` of the README and that of `scripts/demo --keep`, as words."""
    demo = what_to_try(Path("/k"), kubectl=True)
    readme = (ROOT / "README.md").read_text()
    for where, text in (("demo", demo), ("README", readme)):
        for line in re.findall(r"^ *(kubectl .*\brun .*--command -- .*)$", text, re.MULTILINE):
            yield pytest.param(shlex.split(line), id=where)


def test_both_suggest_a_pod():
    assert [each.id for each in suggestions()] == ["demo", "README"]


def test_what_the_readme_says_to_apply_meets_nothing_of_the_demos():
    """Whoever keeps the demo and reads on makes a namespace that is not there yet."""
    made = set(re.findall(r"kubectl create\s+namespace (\w+)", (ROOT / "README.md").read_text()))
    assert made and NAMESPACE not in made


@pytest.mark.parametrize("words", list(suggestions()))
async def test_the_pod_that_is_suggested_runs(gateway, over_tls, pod, words):
    options, command = words[: words.index("--")], words[words.index("--") + 1 :]
    namespace = options[options.index("-n") + 1]
    name = options[options.index("run") + 1]
    async with over_tls(gateway.kubeconfig, namespace=namespace) as door:
        await door.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        await door.create("pods", pod(name, *command))
        await door.until_one("pods", name, lambda each: each["status"].get("phase") == "Running")
        await door.delete("pods", name, gracePeriodSeconds=1)
        await door.until_gone("pods")


async def test_what_a_warning_says_to_do_works(gateway, over_tls, pod):
    async with over_tls(gateway.kubeconfig, namespace="team") as door:
        await door.call("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        template = {"metadata": {"labels": {"app": "d"}}, "spec": pod()["spec"]}
        template["spec"]["restartPolicy"] = "Always"
        spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
        deployment = {"metadata": {"name": "d"}, "spec": spec}
        answer = await door.send("POST", door.place("deployments"), deployment)
        (warning,) = answer.warnings
        create, label = re.findall(r"kubectl (create|label) namespace (\S+)", warning)
        assert create[1] == label[1] == "team.MEMBER"
        labels = {"fleet.dev/accept": "true"}
        inside = {"metadata": {"name": "team.idc-a", "labels": labels}}
        await door.call("POST", "/api/v1/namespaces", inside)
    async with over_tls(gateway.kubeconfig, namespace="team.idc-a") as there:
        await there.create("deployments", deployment)


async def test_a_name_that_means_nothing_is_warned_about(gateway, over_tls):
    offers = [{"cluster": "idc_a", "billing": "Owned"}]
    book = {"metadata": {"name": "current"}, "spec": {"offers": offers}}
    async with over_tls(gateway.kubeconfig) as door:
        answer = await door.send("POST", "/apis/fleet.dev/v1alpha1/pricebooks", book)
        assert answer.status == 201
        (warning,) = answer.warnings
        assert "did you mean idc-a?" in warning


def test_a_story_that_is_interrupted_was_not_told(tmp_path):
    told = subprocess.Popen(
        [Path(sys.executable).with_name("fleet"), "demo", "--directory", tmp_path],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert told.stdout is not None
    first = told.stdout.readline()
    assert "✓" in first
    told.send_signal(signal.SIGINT)
    rest, _ = told.communicate(timeout=60)
    assert rest.rstrip().endswith("✗ interrupted")
    assert told.returncode == 1
