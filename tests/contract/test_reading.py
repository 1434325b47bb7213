"""LIST and WATCH over a collection: what a Kubernetes client may rely on."""

from __future__ import annotations

import gzip
import random
from typing import Any

import orjson
import pytest

from fleet.apiserver.reading import Scope, list_response, watch_response
from fleet.apiserver.rendering import ObjectRendering, PartialRendering
from fleet.errors import BadRequest, Expired, RevisionTooLarge
from fleet.kube.options import ListOptions, WatchOptions
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.kube.wire import Request, Response
from fleet.store import collection as collections
from fleet.store.collection import Collection
from fleet.store.entry import Entry
from fleet.store.sequencer import Sequencer

THINGS = Resource(
    GroupVersionResource("", "v1", "things"),
    "Thing",
    True,
    ("list", "watch"),
    selectable_fields=("status.phase",),
    custom=True,
)
PATH = "/api/v1/things"


@pytest.fixture
def things() -> Collection:
    return Collection(THINGS, Sequencer(epoch=5))


def put(
    target: Collection, key: str, *, phase: str = "Running", size: int = 0, **labels: str
) -> int:
    namespace, name = key.split("/")
    revision = target.sequencer.next()
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "resourceVersion": str(revision),
    }
    if labels:
        metadata["labels"] = labels
    obj = {"kind": "Thing", "apiVersion": "v1", "metadata": metadata, "status": {"phase": phase}}
    if size:
        obj["data"] = "x" * size
    target.put(Entry(obj, revision=revision, fields=(phase,)))
    return revision


def remove(target: Collection, key: str) -> int:
    present = target.get(*key.split("/"))
    assert present is not None
    revision = target.sequencer.next()
    target.remove(present.restated(revision))
    return revision


def listed(
    target: Collection, *, scope: Scope | None = None, compressed: bool = False, **query: str
) -> dict[str, Any]:
    request = Request("GET", PATH, tuple(query.items()))
    options = ListOptions.parse(request, resource=THINGS)
    response = list_response(
        target, options, ObjectRendering(THINGS), scope=scope or Scope(), path=PATH, gzip=compressed
    )
    raw = b"".join(response.body)  # type: ignore[arg-type]
    if compressed:
        assert response.headers["content-encoding"] == "gzip"
        raw = gzip.decompress(raw)
    document: dict[str, Any] = orjson.loads(raw)
    return document


def names(document: dict[str, Any]) -> list[str]:
    return [f"{i['metadata']['namespace']}/{i['metadata']['name']}" for i in document["items"]]


def opened(target: Collection, *, scope: Scope | None = None, **query: str) -> Response:
    query = {"watch": "true", "timeoutSeconds": "1"} | query
    options = WatchOptions.parse(Request("GET", PATH, tuple(query.items())), resource=THINGS)
    return watch_response(
        target,
        options,
        ObjectRendering(THINGS),
        scope=scope or Scope(),
        rng=random.Random(1),
    )


async def events(response: Response, count: int) -> list[tuple[str, str]]:
    """The next `count` events as (type, name), or (type, code) of an error; ends the watch."""
    found: list[tuple[str, str]] = []
    async for piece in response.body:  # type: ignore[union-attr]
        for line in piece.splitlines():
            event = orjson.loads(line)
            obj = event["object"]
            found.append((event["type"], obj["metadata"].get("name") or str(obj.get("code", ""))))
        if len(found) >= count:
            break
    await response.aclose()
    return found


def test_an_empty_list_has_items_and_a_revision(things: Collection) -> None:
    document = listed(things)
    assert document["items"] == []
    assert document["metadata"] == {"resourceVersion": str(things.sequencer.current)}
    assert document["kind"] == "ThingList"


def test_pages_are_in_key_order_at_one_revision_whatever_is_written_between(
    things: Collection,
) -> None:
    keys = sorted(f"{ns}/n{i}" for ns in ("a", "a.east", "b") for i in range(7))
    for key in random.Random(2).sample(keys, len(keys)):
        put(things, key)
    found: list[str] = []
    page = listed(things, limit="5")
    revision = page["metadata"]["resourceVersion"]
    while True:
        found += names(page)
        assert page["metadata"]["resourceVersion"] == revision
        left = page["metadata"].get("remainingItemCount", 0)
        assert len(found) + left == len(keys)
        put(things, f"a/new{len(found)}")
        if things.get("b", "n6"):
            remove(things, "b/n6")
        if "continue" not in page["metadata"]:
            break
        page = listed(things, limit="5", **{"continue": page["metadata"]["continue"]})
    assert found == [f"{ns}/{name}" for ns, name in sorted(tuple(key.split("/")) for key in keys)]


def test_no_count_is_given_with_a_selector(things: Collection) -> None:
    for i in range(6):
        put(things, f"a/n{i}", app="x")
    page = listed(things, limit="2", labelSelector="app=x")
    assert names(page) == ["a/n0", "a/n1"]
    assert "remainingItemCount" not in page["metadata"]
    assert page["metadata"]["continue"]


def test_the_last_full_page_has_no_token(things: Collection) -> None:
    for i in range(4):
        put(things, f"a/n{i}", app="x")
    for query in ({}, {"labelSelector": "app=x"}):
        page = listed(things, limit="4", **query)
        assert "continue" not in page["metadata"]


def test_selectors_filter_by_labels_and_by_fields(things: Collection) -> None:
    put(things, "a/x", app="web", phase="Running")
    put(things, "a/y", app="web", phase="Pending")
    put(things, "b/z", phase="Pending")
    assert names(listed(things, labelSelector="app=web")) == ["a/x", "a/y"]
    assert names(listed(things, fieldSelector="status.phase=Pending")) == ["a/y", "b/z"]
    assert names(listed(things, fieldSelector="metadata.namespace=b")) == ["b/z"]
    both = listed(things, labelSelector="app", fieldSelector="status.phase!=Running")
    assert names(both) == ["a/y"]
    with pytest.raises(BadRequest, match="field label not supported"):
        listed(things, fieldSelector="spec.nothing=1")


def test_a_scope_reads_its_namespaces_only(things: Collection) -> None:
    for key in ("a/1", "a.east/1", "a-b/1", "aa/1"):
        put(things, key)
    assert names(listed(things, scope=Scope(("a",)))) == ["a/1"]
    assert names(listed(things, scope=Scope(("a", "a.east")))) == ["a/1", "a.east/1"]


def test_a_token_is_no_key_to_another_list(things: Collection) -> None:
    for i in range(4):
        put(things, f"a/n{i}", app="x")
    token = listed(things, limit="2")["metadata"]["continue"]
    with pytest.raises(BadRequest, match="continue key is not valid"):
        listed(things, labelSelector="app=x", **{"continue": token})


def test_an_expired_token_comes_with_one_that_goes_on_from_the_same_key(
    things: Collection,
) -> None:
    for i in range(6):
        put(things, f"a/n{i}")
    token = listed(things, limit="2")["metadata"]["continue"]
    for _ in range(collections.MAX_EVENTS + 1):
        put(things, "a/n5")
    with pytest.raises(Expired) as expired:
        listed(things, **{"continue": token})
    rest = listed(things, **{"continue": expired.value.continue_token})
    assert names(rest) == [f"a/n{i}" for i in range(2, 6)]


def test_exact_reads_the_past_and_never_invents_the_future(things: Collection) -> None:
    first = put(things, "a/1")
    put(things, "a/2")
    exact = listed(things, resourceVersion=str(first), resourceVersionMatch="Exact")
    assert names(exact) == ["a/1"]
    assert exact["metadata"]["resourceVersion"] == str(first)
    assert names(listed(things, resourceVersion=str(first))) == ["a/1", "a/2"]
    with pytest.raises(RevisionTooLarge):
        listed(things, resourceVersion=str(things.sequencer.current + 10**6))
    with pytest.raises(Expired):
        listed(things, resourceVersion="7", resourceVersionMatch="Exact")


def test_a_compressed_list_is_the_same_list(things: Collection) -> None:
    for i in range(500):
        put(things, f"a/n{i:03}", size=400)
    plain = listed(things)
    assert listed(things, compressed=True) == plain
    put(things, "a/n250", size=10)
    assert listed(things, compressed=True) == listed(things)
    page = listed(things, compressed=True, limit="450")
    assert page["items"] == listed(things)["items"][:450]


async def test_a_watch_starts_with_the_first_change_after_its_revision(
    things: Collection,
) -> None:
    put(things, "a/before")
    revision = things.sequencer.current
    put(things, "a/new")
    put(things, "a/before")
    remove(things, "a/new")
    watch = opened(things, resourceVersion=str(revision))
    assert await events(watch, 3) == [("ADDED", "new"), ("MODIFIED", "before"), ("DELETED", "new")]


async def test_initial_events_end_with_the_annotated_bookmark_even_when_there_are_none(
    things: Collection,
) -> None:
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    watch = opened(things, **query)
    first = orjson.loads(await anext(watch.body))  # type: ignore[arg-type]
    await watch.aclose()
    assert first["type"] == "BOOKMARK"
    assert first["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert first["object"]["metadata"]["resourceVersion"] == str(things.sequencer.current)
    put(things, "a/1")
    put(things, "b/2")
    assert [kind for kind, _ in await events(opened(things, **query), 3)] == [
        "ADDED",
        "ADDED",
        "BOOKMARK",
    ]


async def test_an_object_that_changes_into_or_out_of_the_selection_is_added_or_deleted(
    things: Collection,
) -> None:
    put(things, "a/x", app="web")
    put(things, "a/y")
    watch = opened(things, resourceVersion=str(things.sequencer.current), labelSelector="app=web")
    put(things, "a/y", app="web")
    put(things, "a/y", app="web", more="1")
    left = put(things, "a/x", app="other")
    put(things, "a/z")
    remove(things, "a/x")
    remove(things, "a/y")
    stream = [orjson.loads(line) async for piece in watch.body for line in piece.splitlines()]  # type: ignore[union-attr]
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in stream] == [
        ("ADDED", "y"),
        ("MODIFIED", "y"),
        ("DELETED", "x"),
        ("DELETED", "y"),
    ]
    out = stream[2]["object"]["metadata"]
    assert (out["labels"], out["resourceVersion"]) == ({"app": "web"}, str(left))


async def test_a_watch_of_one_namespace_hears_of_no_other(things: Collection) -> None:
    watch = opened(things, scope=Scope(("a",)), resourceVersion=str(things.sequencer.current))
    put(things, "b/1")
    put(things, "a/1")
    assert await events(watch, 1) == [("ADDED", "1")]


def test_too_old_and_too_new_are_told_before_the_first_byte(things: Collection) -> None:
    with pytest.raises(Expired):
        opened(things, resourceVersion="12345")
    with pytest.raises(RevisionTooLarge):
        opened(things, resourceVersion=str(things.sequencer.current + 1))


async def test_a_watcher_that_fell_behind_ends_with_410(things: Collection) -> None:
    watch = opened(things, resourceVersion=str(things.sequencer.current))
    for _ in range(collections.MAX_EVENTS * 2):
        put(things, "a/1")
    assert await events(watch, 1) == [("ERROR", "410")]


async def test_a_watch_ends_after_its_time_with_a_bookmark_before(things: Collection) -> None:
    watch = opened(
        things,
        resourceVersion=str(things.sequencer.current),
        allowWatchBookmarks="true",
        timeoutSeconds="1",
    )
    quiet = things.sequencer.next()
    found = [piece async for piece in watch.body]  # type: ignore[union-attr]
    assert len(found) == 1
    bookmark = orjson.loads(found[0])
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["resourceVersion"] == str(quiet)


def test_metadata_alone_is_a_slice_of_the_object(things: Collection) -> None:
    put(things, "a/1", app="x")
    options = ListOptions.parse(Request("GET", PATH))
    response = list_response(things, options, PartialRendering(), scope=Scope(), path=PATH)
    document = orjson.loads(b"".join(response.body))  # type: ignore[arg-type]
    assert document["kind"] == "PartialObjectMetadataList"
    assert document["items"] == [
        {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": listed(things)["items"][0]["metadata"],
        }
    ]
