"""What a write to the kernel does that a list of requests cannot show: races, hooks, restarts."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from fleet.apiserver.kernel import Kernel
from fleet.apiserver.kinds import CustomKind, Kinds
from fleet.apiserver.writing import Writer
from fleet.errors import Cause, Forbidden, Invalid, StoreError
from fleet.gateway import own
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource, Resource, Subresource
from fleet.kube.wire import Request, UserInfo
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer
from fleet.store.sqlite import SqliteBackend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path
    from types import ModuleType

    from fleet.store.backend import Record

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


@pytest.fixture
async def api(harness: ModuleType) -> AsyncIterator[Any]:
    async with harness.serving() as found:
        yield found


def collection(api: Any, resource: str = "configmaps") -> Any:
    row = next(row for row in api.kernel.resources if row.gvr.resource == resource)
    return api.store.collection(row)


# -- at the same time


async def test_patches_of_one_object_at_once_are_all_made(api: Any) -> None:
    await api.must("POST", MAPS, {"metadata": {"name": "m"}})
    await asyncio.gather(
        *(
            api.must("PATCH", MAPS + "/m", {"data": {f"k{n}": "v"}}, content_type=MERGE)
            for n in range(40)
        )
    )
    found = await api.must("GET", MAPS + "/m")
    assert found["data"] == {f"k{n}": "v" for n in range(40)}


async def test_of_puts_based_on_the_same_revision_one_is_made(api: Any) -> None:
    made = await api.must("POST", MAPS, {"metadata": {"name": "m"}})
    answers = await asyncio.gather(
        *(api.call("PUT", MAPS + "/m", {**made, "data": {"by": str(n)}}) for n in range(6))
    )
    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409, 409, 409]
    assert {a.body["reason"] for a in answers if a.status == 409} == {"Conflict"}
    blind = await asyncio.gather(
        *(
            api.call("PUT", MAPS + "/m", {"metadata": {"name": "m"}, "data": {"by": str(n)}})
            for n in range(40)
        )
    )
    assert {answer.status for answer in blind} == {200}


async def test_of_creates_of_one_name_one_is_made(api: Any) -> None:
    body = {"metadata": {"name": "m"}}
    answers = await asyncio.gather(*(api.call("POST", MAPS, body) for _ in range(6)))
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409, 409, 409]


async def test_of_deletes_of_one_object_one_answers_that_it_is_gone(api: Any) -> None:
    await api.must("POST", MAPS, {"metadata": {"name": "m"}})
    answers = await asyncio.gather(*(api.call("DELETE", MAPS + "/m") for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [200, 404, 404, 404, 404]


# -- events


async def test_what_changes_nothing_is_no_event(api: Any) -> None:
    made = await api.must("POST", MAPS, {"metadata": {"name": "m", "labels": {"a": "b"}}})
    cursor = collection(api).cursor(api.store.sequencer.current)
    await api.must("PUT", MAPS + "/m", made)
    await api.must("PATCH", MAPS + "/m", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    await api.must("PATCH", MAPS + "/m?dryRun=All", {"data": {"x": "y"}}, content_type=MERGE)
    await api.must("DELETE", MAPS + "/m?dryRun=All")
    await api.must("DELETE", MAPS + "?dryRun=All")
    await api.must("POST", MAPS + "?dryRun=All", {"metadata": {"name": "n"}})
    assert collection(api).read(cursor) == []


async def test_a_collection_is_deleted_object_by_object(api: Any) -> None:
    for name in "abc":
        finalizers = ["example.com/a"] if name == "b" else []
        await api.must("POST", MAPS, {"metadata": {"name": name, "finalizers": finalizers}})
    cursor = collection(api).cursor(api.store.sequencer.current)
    listed = await api.must("DELETE", MAPS)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b", "c"]
    assert "deletionTimestamp" not in listed["items"][1]["metadata"]  # as they were
    events = [(e.entry.name, e.deleted) for e in collection(api).read(cursor)]
    assert events == [("a", True), ("b", False), ("c", True)]


# -- names


class Repeating(random.Random):
    """Gives the same suffix `times` times, then others."""

    def __init__(self, times: int) -> None:
        super().__init__(1)
        self.left = times * 5

    def choice(self, seq: Any) -> Any:
        self.left -= 1
        return "x" if self.left >= 0 else super().choice(seq)


@pytest.mark.parametrize(("collisions", "status"), [(1, 201), (7, 201), (8, 409)])
async def test_a_generated_name_that_is_taken_is_generated_again(
    api: Any, monkeypatch: pytest.MonkeyPatch, collisions: int, status: int
) -> None:
    await api.must("POST", MAPS, {"metadata": {"name": "m-xxxxx"}})
    monkeypatch.setattr(api.kernel.writer, "_random", Repeating(collisions))
    answer = await api.call("POST", MAPS, {"metadata": {"generateName": "m-"}})
    assert answer.status == status
    if status == 409:
        assert answer.body["message"] == (
            'configmaps "m-xxxxx" already exists, the server was not able to generate a unique '
            "name for the object"
        )
        assert answer.body["details"]["retryAfterSeconds"] == 1


@pytest.mark.parametrize("name", [*own.FIRST_NAMESPACES])
async def test_the_fleets_own_namespaces_cannot_be_deleted(api: Any, name: str) -> None:
    answer = await api.call("DELETE", f"/api/v1/namespaces/{name}")
    assert answer.status == 403
    assert answer.body["message"] == (
        f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    )


@pytest.mark.parametrize(
    ("name", "fine"),
    [("reader", True), ("reader.east", False), ("a.b.east", False), ("reader.west", True)],
)
async def test_a_fleet_object_is_not_named_like_a_members(
    harness: ModuleType, name: str, fine: bool
) -> None:
    async with harness.serving(admission=(own.NotAMembers(lambda: {"east"}),)) as api:
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        answer = await api.call("POST", roles, {"metadata": {"name": name}, "rules": []})
        assert (answer.status == 201) is fine
        if not fine:
            assert answer.status == 422
            assert "names an object of member east" in answer.body["message"]
            put = await api.call("PUT", f"{roles}/{name}", {"metadata": {"name": name}})
            assert put.status == 422
        # parts of fleet workloads appear in the fleet's namespaces under such names
        pod = {
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        created = await api.call("POST", "/api/v1/namespaces/default/pods", pod)
        assert (created.status == 201) is fine
        assert fine or "create it there (-n default.east)" in created.body["message"]
        # of other kinds there is nothing to be mistaken in a namespace
        assert (await api.call("POST", MAPS, {"metadata": {"name": name}})).status == 201


# -- admission


class Watchful:
    """Notes what it is shown; sets a label, refuses the name `bad`."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool, str]] = []

    async def admit(
        self,
        resource: Resource,
        obj: dict[str, Any],
        old: dict[str, Any] | None,
        user: UserInfo,
    ) -> dict[str, Any]:
        await asyncio.sleep(0)
        metadata = obj["metadata"]
        self.seen.append((metadata["name"], old is None, user.name))
        if metadata["name"] == "bad":
            raise Forbidden("not that")
        return {**obj, "metadata": {**metadata, "labels": {"admitted": "yes"}}}


async def test_admission_sees_the_whole_object_and_may_change_or_refuse_it(
    harness: ModuleType,
) -> None:
    watchful = Watchful()
    async with harness.serving(admission=(watchful,)) as api:
        made = await api.must("POST", MAPS, {"metadata": {"name": "m"}})
        assert made["metadata"]["labels"] == {"admitted": "yes"}
        dry = await api.must("POST", MAPS + "?dryRun=All", {"metadata": {"generateName": "g-"}})
        assert dry["metadata"]["labels"] == {"admitted": "yes"}
        await api.must("PATCH", MAPS + "/m", {"data": {"a": "b"}}, content_type=MERGE)
        await api.must("DELETE", MAPS + "/m")
        refused = await api.call("POST", MAPS, {"metadata": {"name": "bad"}})
        assert refused.status == 403
        assert len(collection(api)) == 0
    assert watchful.seen == [
        ("m", True, "admin"),
        (dry["metadata"]["name"], True, "admin"),
        ("m", False, "admin"),
        ("bad", True, "admin"),
    ]


# -- bodies


def field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


async def test_protobuf_bodies_are_taken(api: Any) -> None:
    pair = field(1, b"k") + field(2, b"v")
    config = field(1, field(1, b"proto")) + field(2, pair)
    kind = field(1, b"v1") + field(2, b"ConfigMap")
    body = b"k8s\0" + field(1, kind) + field(2, config)
    request = Request(
        "POST",
        MAPS,
        headers={
            "content-type": "application/vnd.kubernetes.protobuf",
            "accept": "application/json",
        },
        body=body,
    )
    response = await api.kernel.handle(request)
    assert response.status == 201
    made = orjson.loads(response.body)
    assert made["metadata"]["name"] == "proto"
    assert made["data"] == {"k": "v"}
    options = field(1, b"v1") + field(2, b"DeleteOptions")
    delete = Request(
        "DELETE",
        MAPS + "/proto",
        headers={"content-type": "application/vnd.kubernetes.protobuf"},
        body=b"k8s\0" + field(1, options) + field(2, field(4, b"Foreground")),
    )
    marked = orjson.loads((await api.kernel.handle(delete)).body)
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_server_side_apply_is_refused_with_what_is_taken(api: Any) -> None:
    answer = await api.call(
        "PATCH",
        MAPS + "/m?fieldManager=me",
        {"metadata": {"name": "m"}},
        content_type="application/apply-patch+yaml",
    )
    assert answer.status == 415
    assert answer.body["message"].endswith(
        "accepted media types include: application/json-patch+json, application/merge-patch+json, "
        "application/strategic-merge-patch+json"
    )


async def test_the_answer_to_a_write_has_the_form_that_was_asked_for(api: Any) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    answer = await api.call("POST", MAPS, {"metadata": {"name": "m"}}, accept=table)
    assert answer.status == 201
    assert answer.body["kind"] == "Table"
    assert answer.body["rows"][0]["cells"][0] == "m"
    answer = await api.call("DELETE", MAPS, accept=table)
    assert answer.body["kind"] == "Table"
    assert len(answer.body["rows"]) == 1
    pretty = await api.kernel.handle(
        Request("GET", "/api/v1/namespaces/default", query=(("pretty", "true"),))
    )
    assert b"\n  " in pretty.body


# -- the store


async def test_a_store_that_cannot_write_is_an_internal_error_that_says_so(
    harness: ModuleType,
) -> None:
    class Full(MemoryBackend):
        full = False

        def commit(self, changes: Sequence[Record]) -> asyncio.Future[None]:
            if not self.full:
                return super().commit(changes)
            refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            refused.set_exception(StoreError("the disk is full; nothing was changed"))
            return refused

    backend = Full()
    async with harness.serving(backend) as api:
        await api.must("POST", MAPS, {"metadata": {"name": "m"}})
        backend.full = True
        for method, target, body in (
            ("POST", MAPS, {"metadata": {"name": "n"}}),
            ("PUT", MAPS + "/m", {"metadata": {"name": "m"}, "data": {"a": "b"}}),
            ("DELETE", MAPS + "/m", None),
            ("DELETE", MAPS, None),
        ):
            answer = await api.call(method, target, body)
            assert answer.status == 500
            assert answer.body["reason"] == "InternalError"
            assert answer.body["message"] == (
                "Internal error occurred: the disk is full; nothing was changed"
            )
        # reading goes on, and shows nothing of it
        listed = await api.must("GET", MAPS)
        assert [item["metadata"]["name"] for item in listed["items"]] == ["m"]
        assert (await api.call("PATCH", MAPS + "/m", {}, content_type=MERGE)).status == 200


async def test_everything_is_there_after_a_restart(harness: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    async with harness.serving(SqliteBackend(path), epoch=1) as api:
        await api.must("POST", MAPS, {"metadata": {"name": "m", "labels": {"a": "b"}}})
        made = await api.must("GET", MAPS + "/m")
        listed = await api.must("GET", MAPS)
    async with harness.serving(SqliteBackend(path), epoch=2) as api:
        assert await api.must("GET", MAPS + "/m") == made
        assert len((await api.must("GET", MAPS + "?labelSelector=a%3Db"))["items"]) == 1
        # a revision of before is a precondition that holds, and nothing to watch from
        old = listed["metadata"]["resourceVersion"]
        answer = await api.call("GET", f"{MAPS}?watch=true&resourceVersion={old}")
        assert (answer.status, answer.body["reason"]) == (410, "Expired")
        changed = await api.must("PUT", MAPS + "/m", {**made, "data": {"k": "v"}})
        assert int(changed["metadata"]["resourceVersion"]) > int(old)
        stale = await api.call("PUT", MAPS + "/m", {**made, "data": {"k": "w"}})
        assert stale.status == 409


# -- custom kinds

THINGS = Resource(
    GroupVersionResource("example.com", "v1", "things"),
    "Thing",
    True,
    ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    singular="thing",
    subresources=(Subresource("status", "Thing", ("get", "patch", "update")),),
    custom=True,
)
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1, "default": 3},
                "colour": {"type": "string"},
            },
        },
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    },
}


class Colours:
    """Rules beyond the schema."""

    def default(self, obj: dict[str, Any]) -> None:
        obj.setdefault("spec", {}).setdefault("colour", "grey")

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
        if old is not None and old["spec"]["colour"] != obj["spec"]["colour"]:
            cause = Cause("FieldValueForbidden", "Forbidden: it stays", "spec.colour")
            name = obj["metadata"]["name"]
            raise Invalid.of(group="example.com", kind="Thing", name=name, causes=[cause])

    def validate_status(self, obj: dict[str, Any]) -> None:
        if obj["status"].get("ready") is False:
            cause = Cause("FieldValueInvalid", "Invalid value: false", "status.ready")
            name = obj["metadata"]["name"]
            raise Invalid.of(group="example.com", kind="Thing", name=name, causes=[cause])


@pytest.fixture
async def things(harness: ModuleType) -> AsyncIterator[Any]:
    kind = CustomKind(THINGS, SCHEMA, rules=Colours())
    spaces = builtin.resource(own.NAMESPACES)
    assert spaces is not None
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as store:
        rng = random.Random(1)
        await own.first_objects(store, now=harness.now(), uid=harness.new_uid, rng=rng)
        kinds = Kinds((kind,))
        writer = Writer(
            store, kinds, now=harness.now, uid=harness.new_uid, random=rng, namespaces=spaces
        )
        kernel = Kernel(
            store,
            (spaces, THINGS),
            kinds=kinds,
            writer=writer,
            openapi=own.OwnOpenApi({}),
            wall_clock=lambda: 0.0,
            rng=rng,
        )
        yield harness.Api(store, kernel)


async def test_a_custom_kind_follows_its_schema_and_its_rules(things: Any) -> None:
    path = "/apis/example.com/v1/namespaces/default/things"
    body = {
        "kind": "Thing",
        "apiVersion": "example.com/v1",
        "metadata": {"name": "t"},
        "spec": {},
        "status": {"ready": True},
    }
    made = await things.must("POST", path, body)
    assert made["spec"] == {"size": 3, "colour": "grey"}
    assert made["metadata"]["generation"] == 1
    assert "status" not in made
    wrong = await things.call("POST", path, {**body, "spec": {"size": 0}})
    assert wrong.status == 422
    assert wrong.body["details"]["causes"][0]["field"] == "spec.size"
    fixed = await things.call("PATCH", path + "/t", {"spec": {"colour": "red"}}, content_type=MERGE)
    assert fixed.status == 422
    assert "it stays" in fixed.body["message"]
    blind = await things.call("PUT", path + "/t", body)
    assert blind.status == 422
    assert "must be specified for an update" in blind.body["message"]
    unready = await things.call(
        "PATCH", path + "/t/status", {"status": {"ready": False}}, content_type=MERGE
    )
    assert unready.status == 422
    assert unready.body["details"]["causes"][0]["field"] == "status.ready"
    status = await things.must(
        "PATCH",
        path + "/t/status",
        {"status": {"ready": True}, "spec": {"size": 9}},
        content_type=MERGE,
    )
    assert status["status"] == {"ready": True}
    assert status["spec"]["size"] == 3
    assert status["metadata"]["generation"] == 1
    sized = await things.must("PATCH", path + "/t", {"spec": {"size": 4}}, content_type=MERGE)
    assert sized["metadata"]["generation"] == 2
    strategic = await things.call(
        "PATCH", path + "/t", {}, content_type="application/strategic-merge-patch+json"
    )
    assert strategic.status == 415
