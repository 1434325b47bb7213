"""The policy kinds beside a real API server, and under a real kubectl.

A real API server is given the CustomResourceDefinitions: it takes their schemas as structural, and
what it publishes of them is what the fleet's own kernel publishes. A real kubectl explains,
applies, edits and lists them at that kernel.
"""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import policies
from fleet.apiserver.http import Options, Server
from fleet.apiserver.incoming import Open
from fleet.apiserver.kinds import CustomKind
from fleet.gateway import own
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from policies.kind import custom_resource_definition

pytestmark = pytest.mark.controlplane

PATH = "apis/fleet.dev/v1alpha1"
SKETCHES = Path(__file__).parents[1] / "unit" / "policies" / "sketches.yaml"
# Parameters that API servers list and the kernel does not know; and server-side apply, which
# objects of the fleet do not take.
UNKNOWN = {"shardSelector", "ignoreStoreReadErrorWithClusterBreakingPotential"}
UNTAKEN = {"application/apply-patch+yaml"}


@pytest.fixture(scope="module")
def definitions(east, kubectl):
    """The definitions in a real member, taken away afterwards."""
    objects = [custom_resource_definition(kind) for kind in policies.kinds()]
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    run = kubectl()
    made = run(east.kubeconfig, "apply", "-f", "-", stdin=body)
    assert made.code == 0, made.err
    run(east.kubeconfig, "wait", "--for=condition=Established", "-f", "-", stdin=body)
    yield objects
    run(east.kubeconfig, "delete", "-f", "-", stdin=body)


def conditions(kubectl, east, name):
    found = kubectl()(east.kubeconfig, "get", "crd", name, "-o", "json")
    return {each["type"]: each for each in json.loads(found.out)["status"]["conditions"]}


def test_schemas_are_structural_to_a_real_api_server(definitions, east, kubectl):
    for definition in definitions:
        found = conditions(kubectl, east, definition["metadata"]["name"])
        assert found["Established"]["status"] == "True"
        assert "NonStructuralSchema" not in found


async def published(kubectl, east) -> dict[str, Any]:
    """The document once it has all kinds: it follows the definitions by a moment. The test's own
    time is the limit."""
    while True:
        raw = await asyncio.to_thread(
            kubectl(), east.kubeconfig, "get", "--raw", f"/openapi/v3/{PATH}"
        )
        if raw.code == 0:
            document = json.loads(raw.out)
            if all(
                f"dev.fleet.v1alpha1.{kind.name}" in document["components"]["schemas"]
                for kind in policies.kinds()
            ):
                return document
        await asyncio.sleep(0.2)


def operations(document):
    """(path, method) → everything kubectl goes by."""
    found = {}
    for path, item in document["paths"].items():
        shared = {each["name"] for each in item["parameters"]}
        for method, operation in item.items():
            if method == "parameters":
                continue
            own_parameters = {each["name"] for each in operation.get("parameters", ())}
            body = operation.get("requestBody", {})
            found[path, method] = {
                "id": operation["operationId"],
                "action": operation["x-kubernetes-action"],
                "kind": operation["x-kubernetes-group-version-kind"],
                "parameters": (shared | own_parameters) - UNKNOWN,
                "bodies": set(body.get("content", ())) - UNTAKEN,
                "answers": {
                    code: response.get("content")
                    for code, response in operation["responses"].items()
                },
            }
    return found


async def test_what_is_published_is_what_a_real_api_server_publishes(definitions, east, kubectl):
    theirs = await published(kubectl, east)
    ours = json.loads(policies.openapi_document()[PATH])
    assert operations(ours) == operations(theirs)
    for kind in policies.kinds():
        name = f"dev.fleet.v1alpha1.{kind.name}"
        mine, other = ours["components"]["schemas"][name], theirs["components"]["schemas"][name]
        for part in ("spec", "status"):
            if part in mine["properties"]:
                assert mine["properties"][part] == other["properties"][part], f"{name}.{part}"
        assert mine.get("required") == other.get("required")
        assert mine["x-kubernetes-group-version-kind"] == other["x-kubernetes-group-version-kind"]
        listed = f"{name}List"
        assert set(ours["components"]["schemas"][listed]["properties"]) == set(
            theirs["components"]["schemas"][listed]["properties"]
        )


def test_the_sketches_are_taken_by_a_real_api_server_too(definitions, east, kubectl):
    """The published schema accepts what the rules accept."""
    run = kubectl()
    run(east.kubeconfig, "create", "namespace", "research")
    done = run(east.kubeconfig, "apply", "--dry-run=server", "-f", str(SKETCHES))
    assert done.code == 0, done.err


# -- kubectl at the fleet's own kernel


@asynccontextmanager
async def served(tmp_path):
    """A kernel with the kinds on a port of loopback; gives a kubeconfig that leads there."""
    custom = [
        CustomKind(
            k.resource,
            k.openapi,
            columns=k.columns,
            status=k.status,
            rules=k.rules,
            relations=k.relations,
        )
        for k in policies.kinds()
    ]

    def now() -> datetime:
        return datetime(2026, 11, 29, 12, tzinfo=UTC)  # the prices of the sketches are of that day

    rng = random.Random(1)
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as store:
        await own.first_objects(store, now=now(), uid=lambda: str(uuid.uuid4()), rng=rng)
        kernel = own.build(
            store,
            custom,
            openapi=own.OwnOpenApi(policies.openapi_document()),
            now=now,
            uid=lambda: str(uuid.uuid4()),
            rng=rng,
            server_address="",
        )
        server = Server(kernel, Options(authenticator=Open()))
        host, port = await server.start("127.0.0.1", 0)
        file = tmp_path / "kubeconfig"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": f"http://{host}:{port}"}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "users": [{"name": "it", "user": {"token": "any"}}],
        }
        file.write_text(yaml.safe_dump(config))
        try:
            yield file
        finally:
            await server.stop(grace_s=0)


@pytest.mark.parametrize("version", ["1.32", "1.36"])
async def test_kubectl_explains_applies_edits_and_lists_the_kinds(kubectl, tmp_path, version):
    binary = kubectl(version)
    async with served(tmp_path) as kubeconfig:

        async def run(*arguments, stdin="", fails=False):
            done = await asyncio.to_thread(binary, kubeconfig, *arguments, stdin=stdin)
            assert (done.code != 0) is fails, done
            return done.err if fails else done.out

        text = await run("explain", "placementpolicy.spec.gang")
        assert "Which pods belong together." in text
        assert "maxClusters\t<integer>" in text
        assert "enum: ParameterPlane, DataPlane, None" in text
        assert "unit" in await run("explain", "pp", "--recursive")

        await run("create", "namespace", "research")
        assert "placementpolicy.fleet.dev/big-training created" in await run(
            "apply", "-f", str(SKETCHES)
        )
        assert "placementpolicy.fleet.dev/big-training unchanged" in await run(
            "apply", "-f", str(SKETCHES)
        )
        edited = SKETCHES.read_text().replace("maxClusters: 3", "maxClusters: 4")
        assert "placementpolicy.fleet.dev/big-training configured" in await run(
            "apply", "-f", "-", stdin=edited
        )
        assert "4" == await run(
            "get", "pp", "-n", "research", "big-training", "-o", "jsonpath={.spec.gang.maxClusters}"
        )

        lines = (await run("get", "clusters")).splitlines()
        assert lines[0].split() == [
            "NAME", "READY", "API", "DATA", "FRESH", "VERSION", "NODES", "ACCELERATORS", "FREE",
            "PRICE/H", "PLANE", "AGE",
        ]  # fmt: skip
        assert lines[1].split()[0] == "idc-a"
        assert "big-training" in await run("get", "fleet", "-A")
        assert "roce-1" in await run("describe", "cluster", "idc-a")

        text = await run("explain", "fleetquota.spec.resources")
        assert "What the node can always have" in text and "lendable\t<" in text
        assert "SurvivesLossOfOneCluster" in await run("explain", "lendingpolicy.spec.from")
        lines = (await run("get", "fleetquotas")).splitlines()
        assert lines[0].split() == [
            "NAME", "PARENT", "GUARANTEED", "LIMIT", "USED", "BORROWED", "LENT", "WAITING", "AGE",
        ]  # fmt: skip
        assert lines[1].split()[:2] == ["nlp", "research"]
        quota = yaml.safe_dump(
            {
                "apiVersion": "fleet.dev/v1alpha1", "kind": "FleetQuota",
                "metadata": {"name": "cv"},
                "spec": {"parent": "research", "resources": [
                    {"name": "nvidia.com/gpu", "accelerator": "h200", "guaranteed": 17}
                ]},
            }
        )  # fmt: skip
        refused = await run("apply", "-f", "-", stdin=quota, fails=True)
        assert refused.strip() == (
            'The FleetQuota "cv" is invalid: spec.resources[0].guaranteed: with it, those below '
            "research are guaranteed 41 nvidia.com/gpu of kind h200 together; research has 40 "
            "nvidia.com/gpu of kind h200"
        )
        refused = await run("delete", "fleetquota", "research", fails=True)
        assert "below it there is nlp; delete that first" in refused

        wrong = yaml.safe_dump(
            {
                "apiVersion": "fleet.dev/v1alpha1", "kind": "PlacementPolicy",
                "metadata": {"name": "gpu"},
                "spec": {"gang": {"unit": 0}, "objective": {"maxPrice": "12"}},
            }
        )  # fmt: skip
        refused = await run("apply", "-f", "-", stdin=wrong, fails=True)
        assert refused.strip().splitlines() == [
            'The PlacementPolicy "gpu" is invalid: ',
            "* spec.gang.unit: must be at least 1, not 0",
            '* spec.objective.maxPrice: "12" needs a currency, e.g. "12 USD/h"',
        ]
        unknown = yaml.safe_dump(
            {
                "apiVersion": "fleet.dev/v1alpha1", "kind": "PlacementPolicy",
                "metadata": {"name": "gpu"}, "spec": {"gang": {"maxCluster": 3}},
            }
        )  # fmt: skip
        refused = await run("apply", "-f", "-", stdin=unknown, fails=True)
        assert "spec.gang.maxCluster: unknown field, did you mean maxClusters?" in refused
