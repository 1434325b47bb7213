"""The policies of the examples are taken by the fleet as they stand, beside each other."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
import yaml

import policies
from fleet.apiserver.kinds import CustomKind
from fleet.errors import Forbidden, Invalid
from fleet.gateway import own
from fleet.kube.paths import path_of
from fleet.kube.wire import Request, UserInfo
from fleet.scheduling.price import prices_of
from fleet.scheduling.quota.tree import Key
from fleet.scheduling.quota_objects import tree_of
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer

EXAMPLES = Path(__file__).parents[3] / "examples"
FILES = ("quota/tree.yaml", "cost/prices.yaml")
LENDING = ("lending/quotas.yaml", "lending/policy.yaml")
NOW = datetime(2026, 11, 29, tzinfo=UTC)
GPU = Key("nvidia.com/gpu", "h200")


def objects(files=FILES):
    for name in files:
        found = yaml.safe_load_all((EXAMPLES / name).read_text(encoding="utf-8"))
        yield from (obj for obj in found if obj["apiVersion"] == "fleet.dev/v1alpha1")


@pytest.fixture
async def send():
    uids = (f"uid-{number}" for number in range(1000))
    rng = random.Random(1)
    by_name = {kind.name: kind for kind in policies.kinds()}
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as store:
        await own.first_objects(store, now=NOW, uid=lambda: next(uids), rng=rng)
        kernel = own.build(
            store,
            [
                CustomKind(
                    k.resource, k.openapi, k.columns, k.status, k.rules, relations=k.relations
                )
                for k in policies.kinds()
            ],
            openapi=own.OwnOpenApi(policies.openapi_document()),
            now=lambda: NOW,
            uid=lambda: next(uids),
            rng=rng,
            server_address="",
        )

        async def call(method, obj):
            metadata = obj["metadata"]
            path = path_of(
                by_name[obj["kind"]].resource.gvr,
                namespace=metadata.get("namespace", ""),
                name=metadata["name"] if method == "DELETE" else "",
            )
            headers = {"content-type": "application/json"}
            body = b"" if method == "DELETE" else orjson.dumps(obj)
            return await kernel.handle(
                Request(method, path, headers=headers, user=UserInfo("admin"), body=body)
            )

        yield call


@pytest.mark.parametrize("files", [FILES, LENDING])
async def test_the_files_are_taken_as_they_stand(send, files):
    for obj in objects(files):
        assert (await send("POST", obj)).status == 201


async def test_what_makes_no_sense_beside_them_is_refused(send):
    for obj in objects():
        await send("POST", obj)
    more = {
        "apiVersion": "fleet.dev/v1alpha1", "kind": "FleetQuota", "metadata": {"name": "one-more"},
        "spec": {"parent": "sciences", "resources": [
            {"name": GPU.resource, "accelerator": GPU.accelerator, "guaranteed": 1}
        ]},
    }  # fmt: skip
    with pytest.raises(Invalid, match=r"guaranteed 41 nvidia\.com/gpu of kind h200 together"):
        await send("POST", more)
    with pytest.raises(Forbidden, match="below it there is cv, nlp"):
        await send("DELETE", {**more, "metadata": {"name": "sciences"}})


def test_the_tree_and_the_prices_are_what_the_files_say():
    quotas = [obj for obj in objects() if obj["kind"] == "FleetQuota"]
    tree = tree_of(quotas)
    assert list(tree.nodes) == ["academy", "sciences", "cv", "nlp", "website"]
    assert tree.shares["academy", GPU].guaranteed == 64
    books = [obj for obj in objects() if obj["kind"] == "PriceBook"]
    assert set(prices_of(books, now=NOW).offers) == {"idc-a", "idc-b", "cloud-c"}
