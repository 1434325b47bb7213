"""A gateway that is started again over what an earlier release let in."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from click.testing import CliRunner

from fleet.cli.main import cli
from fleet.gateway.state import StateDirectory
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from fleet.store.sqlite import SqliteBackend
from policies import FLEET_QUOTA, PLACEMENT_POLICY, PRICE_BOOK

API = "/apis/fleet.dev/v1alpha1"
PATIENCE_S = 40
OLDER = {"fromAnEarlierRelease": True}


def named(kind, name, spec, **metadata):
    head = {"apiVersion": "fleet.dev/v1alpha1", "kind": kind}
    return {**head, "metadata": {"name": name, **metadata}, "spec": spec}


def job(name):
    container = {"name": "main", "image": "any", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    head = {"apiVersion": "batch/v1", "kind": "Job"}
    return {**head, "metadata": {"name": name}, "spec": {"template": template}}


async def until(door, path, holds):
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(LookupError):  # it is not there yet
                found = await door.call("GET", path)
                if holds(found):
                    return found
            await asyncio.sleep(0.1)


def is_unreadable(obj):
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any((c["type"], c["reason"]) == ("Valid", "Unreadable") for c in conditions)


async def made_older(state_directory):
    """Each policy with a field that this release knows nothing of."""

    def change(obj):
        return {**obj, "spec": {**obj["spec"], **OLDER}}

    with StateDirectory.open(state_directory) as state:
        sequencer = Sequencer(epoch=state.next_epoch())
        async with ObjectStore(SqliteBackend(state.objects), sequencer) as store:
            for kind, namespace in ((FLEET_QUOTA, ""), (PRICE_BOOK, ""), (PLACEMENT_POLICY, "cv")):
                await store.rewrite(kind.resource, namespace=namespace, name="old", change=change)


@pytest.mark.parametrize("mended", [False, True])
async def test_only_what_cannot_be_read_any_more_stops(tmp_path, gateway_over, over_tls, mended):
    quota = {"namespaces": {"matchLabels": {"team": "nlp"}}}
    async with gateway_over() as gateway, over_tls(gateway.kubeconfig) as door:
        for name in ("nlp", "cv", "free"):
            body = {"metadata": {"name": name, "labels": {"team": name}}}
            await door.call("POST", "/api/v1/namespaces", body)
        await door.call("POST", f"{API}/fleetquotas", named("FleetQuota", "old", quota))
        await door.call("POST", f"{API}/pricebooks", named("PriceBook", "old", {}))
        policy = named("PlacementPolicy", "old", {"workloads": {}})
        await door.call("POST", f"{API}/namespaces/cv/placementpolicies", policy)
    await made_older(tmp_path / "state")
    async with gateway_over() as gateway, over_tls(gateway.kubeconfig) as door:
        for path in ("fleetquotas", "pricebooks", "namespaces/cv/placementpolicies"):
            await until(door, f"{API}/{path}/old", is_unreadable)
        if mended:
            for path in ("fleetquotas", "pricebooks", "namespaces/cv/placementpolicies"):
                await door.call(
                    "PATCH", f"{API}/{path}/old", {"spec": dict.fromkeys(OLDER)},
                    headers={"content-type": "application/merge-patch+json"},
                )  # fmt: skip
                await until(door, f"{API}/{path}/old", lambda found: not is_unreadable(found))
        for name in ("nlp", "cv", "free"):
            await door.call("POST", f"/apis/batch/v1/namespaces/{name}/jobs", job("train"))
            placement = await until(
                door,
                f"{API}/namespaces/{name}/placements/job-train",
                lambda found: (found.get("status") or {}).get("message"),
            )
            stops = name != "free" and not mended
            assert (placement["status"]["reason"] == "Invalid") is stops, placement["status"]
            assert (
                "cannot be read: spec.fromAnEarlierRelease" in placement["status"]["message"]
            ) is (stops)
        arguments = ["quota", "--kubeconfig", str(gateway.kubeconfig)]
        said = await asyncio.to_thread(CliRunner().invoke, cli, arguments)
        assert ("spec.fromAnEarlierRelease: unknown field" in said.output) is not mended
