"""OpenAPI documents: fetched once for all members that serve the same."""

from __future__ import annotations

from cachetools import LRUCache

from fleet.kube.wire import Response
from fleet.members.openapi import OpenAPI
from tests.unit.members.conftest import FakeCluster


def serving(uid: str, hash_: str) -> FakeCluster:
    cluster = FakeCluster(uid)
    url = f"/openapi/v3/api/v1?hash={hash_}"
    cluster.routes["/openapi/v3"] = {"paths": {"api/v1": {"serverRelativeURL": url}}}
    cluster.routes["/openapi/v3/api/v1"] = {"openapi": "3.0.0", "of": uid}
    return cluster


async def test_equal_documents_are_fetched_from_one_member():
    cache: dict[str, bytes] = {}
    east, west, north = serving("e", "A"), serving("w", "A"), serving("n", "B")
    documents = [OpenAPI(cluster, cache) for cluster in (east, west, north)]
    for each in documents:
        assert await each.refresh()
    got = [await each.document("api/v1") for each in documents]
    assert got[0] == got[1] != got[2]
    assert west.asked("/openapi/v3/api/v1") == 0
    assert await documents[0].document("api/v1") is got[0]
    assert east.asked("/openapi/v3/api/v1") == 1
    assert dict(east.requests[-1].query) == {"hash": "A"}
    assert await documents[0].document("apis/none/v1") is None


async def test_the_index_is_asked_for_by_its_tag():
    cluster = serving("e", "A")
    documents = OpenAPI(cluster, {})
    first = cluster.routes["/openapi/v3"]
    cluster.routes["/openapi/v3"] = Response(
        200, {"Etag": '"x"'}, b'{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1"}}}'
    )
    assert await documents.refresh()
    cluster.routes["/openapi/v3"] = Response(304)
    assert not await documents.refresh()
    assert cluster.requests[-1].headers["if-none-match"] == '"x"'
    cluster.routes["/openapi/v3"] = first
    assert await documents.refresh()


async def test_a_document_beyond_the_cache_is_served_all_the_same():
    documents = OpenAPI(serving("e", "A"), LRUCache(maxsize=4, getsizeof=len))
    await documents.refresh()
    assert b"3.0.0" in (await documents.document("api/v1") or b"")


async def test_the_document_of_what_is_still_served_stays_known():
    cluster = serving("e", "A")
    documents = OpenAPI(cluster, {})
    url = "/openapi/v3/apis/example.com/v1?hash=B"
    whole = cluster.routes["/openapi/v3"]["paths"]
    cluster.routes["/openapi/v3"] = {
        "paths": {**whole, "apis/example.com/v1": {"serverRelativeURL": url}}
    }
    await documents.refresh()
    cluster.routes["/openapi/v3"] = {"paths": whole}
    assert not await documents.refresh(served=["api/v1", "apis/example.com/v1", "apis/none/v1"])
    assert documents.index["apis/example.com/v1"] == url
    assert await documents.refresh(served=["api/v1"])
    assert list(documents.index) == ["api/v1"]
