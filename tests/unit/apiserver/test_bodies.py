"""Bodies of answers: what may be compressed, and what is made anew and must not be."""

from __future__ import annotations

import gzip
import random
from datetime import UTC, datetime

import orjson
import pytest
import yaml

from fleet.apiserver.bodies import may_compress
from fleet.gateway import own
from fleet.kube.negotiation import Representation
from fleet.kube.wire import Request
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer

PATH = "/api/v1/namespaces/default/configmaps"


def now() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("offered", "may"),
    [
        ("gzip", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("GZIP", True),
        ("gzip;q=0.001", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("x-gzipped", False),
    ],
)
def test_who_gets_gzip(offered: str, may: bool) -> None:
    request = Request("GET", PATH, headers={"accept-encoding": offered})
    assert may_compress(request, Representation()) is may
    assert not may_compress(request, Representation(pretty=True))
    assert not may_compress(request, Representation(encoding="yaml"))


@pytest.mark.parametrize("accept", ["application/json", "application/yaml"])
@pytest.mark.parametrize("pretty", ["", "true"])
async def test_a_long_list_reads_the_same_however_it_is_asked_for(accept: str, pretty: str) -> None:
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as store:
        kernel = own.build(
            store,
            [],
            openapi=own.OwnOpenApi({}),
            now=now,
            uid=lambda: "uid",
            rng=random.Random(1),
            server_address="fleet",
        )
        await own.first_objects(store, now=now(), uid=lambda: "uid", rng=random.Random(1))
        body = orjson.dumps({"metadata": {"name": "long"}, "data": {"a": "x" * 200_000}})
        await kernel.handle(Request("POST", PATH, body=body))
        answer = await kernel.handle(
            Request(
                "GET",
                PATH,
                (("pretty", pretty),),
                headers={"accept": accept, "accept-encoding": "gzip"},
            )
        )
        whole = answer.body
        raw = whole if isinstance(whole, bytes) else b"".join(whole)  # type: ignore[arg-type]
        if answer.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        value = yaml.safe_load(raw) if accept.endswith("yaml") else orjson.loads(raw)
        assert [item["metadata"]["name"] for item in value["items"]] == ["long"]
