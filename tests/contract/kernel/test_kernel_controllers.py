"""Namespaces and garbage: what the controllers beside a kernel bring about."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from fleet.apiserver.controllers.objects import Key, Objects
from fleet.errors import StoreError
from fleet.store.memory import MemoryBackend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from types import ModuleType

    from fleet.store.backend import Record

MAPS = "/api/v1/namespaces/{}/configmaps"
NAMESPACES = "/api/v1/namespaces"
MERGE = "application/merge-patch+json"
SPEC = {"containers": [{"name": "c", "image": "i"}]}
NOBODY = "11111111-1111-1111-1111-111111111111"


@pytest.fixture
def started(harness: ModuleType) -> Callable[..., Any]:
    """A kernel with its controllers, at rest."""

    @asynccontextmanager
    async def start(*, backend: Any = None, epoch: int = 1, **options: Any) -> AsyncIterator[Any]:
        async with (
            harness.serving(backend, epoch=epoch) as api,
            harness.controlled(api, **options),
        ):
            yield api

    return start


def names(listed: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def names_in(api: Any, path: str) -> list[str]:
    return names(await api.must("GET", path))


async def namespace(api: Any, name: str, **metadata: Any) -> Any:
    return await api.must("POST", NAMESPACES, {"metadata": {"name": name, **metadata}})


async def config(api: Any, name: str, where: str = "lab", **metadata: Any) -> Any:
    body = {"metadata": {"name": name, **metadata}}
    return await api.must("POST", MAPS.format(where), body)


def owner(obj: Any, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        **more,
    }


# -- what a namespace has


async def test_every_namespace_has_an_account_and_the_root_certificate(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await namespace(api, "lab")
        await harness.at_rest(api)
        for name in ("default", "fleet-system", "lab"):
            assert await names_in(api, f"{NAMESPACES}/{name}/serviceaccounts") == ["default"]
            found = await api.must("GET", MAPS.format(name) + "/kube-root-ca.crt")
            assert found["data"] == {"ca.crt": harness.ROOT_CA}


@pytest.mark.parametrize("path", ["serviceaccounts/default", "configmaps/kube-root-ca.crt"])
async def test_what_a_namespace_must_have_comes_back(
    started: Callable[..., Any], harness: ModuleType, path: str
) -> None:
    async with started() as api:
        whole = f"{NAMESPACES}/default/{path}"
        before = await api.must("GET", whole)
        await api.must("DELETE", whole)
        await harness.at_rest(api)
        assert (await api.must("GET", whole))["metadata"]["uid"] != before["metadata"]["uid"]


async def test_the_certificate_is_put_right_and_what_users_add_stays(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        account = f"{NAMESPACES}/default/serviceaccounts/default"
        certificate = MAPS.format("default") + "/kube-root-ca.crt"
        wrong = {"metadata": {"labels": {"a": "b"}}, "data": {"ca.crt": "x"}}
        await api.must("PATCH", certificate, wrong, content_type=MERGE)
        await api.must("PATCH", account, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
        await harness.at_rest(api)
        found = await api.must("GET", certificate)
        assert found["data"] == {"ca.crt": harness.ROOT_CA}
        for path in (account, certificate):
            assert (await api.must("GET", path))["metadata"]["labels"] == {"a": "b"}


# -- how a namespace ends


async def filled(api: Any, name: str) -> None:
    """A namespace with one of many kinds in it."""
    await namespace(api, name)
    at = f"namespaces/{name}"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
    selector = {"matchLabels": {"a": "b"}}
    job = {"template": {"spec": {**SPEC, "restartPolicy": "Never"}}}
    for path, body in {
        f"/api/v1/{at}/configmaps": {},
        f"/api/v1/{at}/secrets": {},
        f"/api/v1/{at}/services": {"spec": {"ports": [{"port": 80}]}},
        f"/api/v1/{at}/pods": {"spec": SPEC},
        f"/apis/apps/v1/{at}/deployments": {"spec": {"selector": selector, "template": template}},
        f"/apis/batch/v1/{at}/jobs": {"spec": job},
        f"/apis/batch/v1/{at}/cronjobs": {
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
        },
        f"/apis/coordination.k8s.io/v1/{at}/leases": {"spec": {"leaseDurationSeconds": 9}},
        f"/apis/rbac.authorization.k8s.io/v1/{at}/roles": {"rules": []},
    }.items():
        await api.must("POST", path, {"metadata": {"name": "one"}, **body})


def contents(api: Any, name: str) -> dict[str, int]:
    return {
        row.gvr.group_resource: len(found)
        for row in api.kernel.resources
        if row.namespaced
        and (found := api.store.collection(row).snapshot().namespace(name).entries())
    }


async def test_deleting_a_namespace_deletes_everything_in_it_and_then_itself(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await filled(api, "lab")
        await filled(api, "kept")
        await harness.at_rest(api)
        assert len(contents(api, "lab")) == 10
        answer = await api.must("DELETE", f"{NAMESPACES}/lab")
        assert answer["status"]["phase"] == "Terminating"
        await harness.at_rest(api)
        assert (await api.call("GET", f"{NAMESPACES}/lab")).status == 404
        assert contents(api, "lab") == {}
        assert len(contents(api, "kept")) == 10
        # and the name is free for a new one
        await namespace(api, "lab")
        await harness.at_rest(api)
        assert contents(api, "lab") == {"configmaps": 1, "serviceaccounts": 1}


async def test_what_holds_content_back_holds_the_namespace_and_is_told(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await namespace(api, "lab")
        await config(api, "held", finalizers=["example.com/a"])
        await config(api, "loose")
        bound = {"spec": {**SPEC, "nodeName": "n1"}}
        pods = f"{NAMESPACES}/lab/pods"
        await api.must("POST", pods, {"metadata": {"name": "ending"}, **bound})
        await api.must("DELETE", f"{NAMESPACES}/lab")
        await harness.at_rest(api)
        assert await names_in(api, MAPS.format("lab")) == ["held"]
        found = await api.must("GET", f"{NAMESPACES}/lab")
        told = {c["type"]: (c["status"], c["message"]) for c in found["status"]["conditions"]}
        assert told["NamespaceContentRemaining"] == (
            "True",
            "Some resources are remaining: configmaps. has 1 resource instances, "
            "pods. has 1 resource instances",
        )
        assert told["NamespaceFinalizersRemaining"] == (
            "True",
            "Some content in the namespace has finalizers remaining: "
            "example.com/a in 1 resource instances",
        )
        assert told["NamespaceDeletionContentFailure"][0] == "False"

        await api.must("DELETE", f"{pods}/ending?gracePeriodSeconds=0")
        await harness.at_rest(api)
        found = await api.must("GET", f"{NAMESPACES}/lab")
        told = {c["type"]: c["message"] for c in found["status"]["conditions"]}
        assert "pods" not in told["NamespaceContentRemaining"]

        released = {"metadata": {"finalizers": None}}
        await api.must("PATCH", MAPS.format("lab") + "/held", released, content_type=MERGE)
        await harness.at_rest(api)
        assert (await api.call("GET", f"{NAMESPACES}/lab")).status == 404


async def test_nothing_is_furnished_in_a_namespace_that_goes(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await namespace(api, "lab")
        await config(api, "held", finalizers=["example.com/a"])
        await harness.at_rest(api)
        await api.must("DELETE", f"{NAMESPACES}/lab")
        await harness.at_rest(api)
        assert contents(api, "lab") == {"configmaps": 1}


async def test_finalizers_of_others_keep_the_namespace(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        body = {"metadata": {"name": "lab"}, "spec": {"finalizers": ["example.com/mine"]}}
        await api.must("POST", NAMESPACES, body)
        await config(api, "one")
        await api.must("DELETE", f"{NAMESPACES}/lab")
        await harness.at_rest(api)
        found = await api.must("GET", f"{NAMESPACES}/lab")
        assert found["spec"] == {"finalizers": ["example.com/mine"]}
        assert contents(api, "lab") == {}
        await api.must("PUT", f"{NAMESPACES}/lab/finalize", {**found, "spec": {}})
        assert (await api.call("GET", f"{NAMESPACES}/lab")).status == 404


@pytest.mark.parametrize("seed", range(10))
async def test_nothing_outlives_its_namespace(
    started: Callable[..., Any], harness: ModuleType, seed: int
) -> None:
    """Creates race the deletion: each is refused, or its object goes with the namespace."""
    rng = random.Random(seed)
    async with started() as api:
        await namespace(api, "lab")
        statuses: list[int] = []

        async def create(number: int) -> None:
            for _ in range(rng.randrange(40)):
                await asyncio.sleep(0)
            body = {"metadata": {"name": f"m{number}"}}
            statuses.append((await api.call("POST", MAPS.format("lab"), body)).status)

        async def delete() -> None:
            for _ in range(rng.randrange(40)):
                await asyncio.sleep(0)
            await api.must("DELETE", f"{NAMESPACES}/lab")

        async with asyncio.TaskGroup() as group:
            group.create_task(delete())
            for number in range(30):
                group.create_task(create(number))
        await harness.at_rest(api)
        assert set(statuses) <= {201, 403, 404}
        assert contents(api, "lab") == {}
        assert (await api.call("GET", f"{NAMESPACES}/lab")).status == 404


async def test_a_create_that_takes_long_meets_the_namespace_as_it_is_then(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    """The namespace was there when the create came, and is gone when it is to be stored."""
    arrived, go_on = asyncio.Event(), asyncio.Event()

    class Slow:
        async def admit(self, resource: Any, obj: Any, old: Any, user: Any) -> Any:
            if obj["metadata"]["name"] == "late":
                arrived.set()
                await go_on.wait()
            return obj

    async with (
        harness.serving(admission=(Slow(),)) as api,
        harness.controlled(api),
    ):
        await namespace(api, "lab")
        create = asyncio.create_task(
            api.call("POST", MAPS.format("lab"), {"metadata": {"name": "late"}})
        )
        await arrived.wait()
        await api.must("DELETE", f"{NAMESPACES}/lab")
        await harness.at_rest(api)
        go_on.set()
        assert (await create).status == 404
        assert contents(api, "lab") == {}


async def test_a_namespace_goes_on_ending_after_a_restart(
    harness: ModuleType, started: Callable[..., Any]
) -> None:
    backend = MemoryBackend()
    async with harness.serving(backend) as api:  # and no controllers
        await filled(api, "lab")
        await api.must("DELETE", f"{NAMESPACES}/lab")
    async with started(backend=backend, epoch=2) as api:
        assert (await api.call("GET", f"{NAMESPACES}/lab")).status == 404
        assert contents(api, "lab") == {}


async def test_what_cannot_be_deleted_now_is_deleted_later(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    class Full(MemoryBackend):
        """Takes no removals of ConfigMaps while `full`."""

        full = False

        def commit(self, changes: Sequence[Record]) -> asyncio.Future[None]:
            if self.full and any(c.deleted and c.kind == "configmaps" for c in changes):
                refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                refused.set_exception(StoreError("the disk is full"))
                return refused
            return super().commit(changes)

    backend = Full()
    async with started(backend=backend) as api:
        await namespace(api, "lab")
        await harness.at_rest(api)
        backend.full = True
        await api.must("DELETE", f"{NAMESPACES}/lab")
        await harness.at_rest(api)
        found = await api.must("GET", f"{NAMESPACES}/lab")
        told = {c["type"]: c for c in found["status"]["conditions"]}
        assert told["NamespaceDeletionContentFailure"]["message"] == (
            "Failed to delete all resource types, 1 remaining: the disk is full"
        )
        gone = asyncio.Event()
        spaces = next(r for r in api.kernel.resources if r.gvr.resource == "namespaces")
        api.store.collection(spaces).follow(lambda event: gone.set() if event.deleted else None)
        backend.full = False
        await asyncio.wait_for(gone.wait(), timeout=20)  # the retry has a delay of its own


# -- garbage


async def test_dependents_follow_their_owner(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await namespace(api, "lab")
        root = await config(api, "root")
        middle = await config(api, "middle", ownerReferences=[owner(root)])
        await config(api, "leaf", ownerReferences=[owner(middle)])
        await config(api, "other")
        await harness.at_rest(api)
        assert len(await names_in(api, MAPS.format("lab"))) == 5
        await api.must("DELETE", MAPS.format("lab") + "/root")
        await harness.at_rest(api)
        assert await names_in(api, MAPS.format("lab")) == ["kube-root-ca.crt", "other"]


@pytest.mark.parametrize(
    ("reference", "stays"),
    [
        ({"kind": "ConfigMap", "name": "none"}, False),
        ({"kind": "ConfigMap", "name": "there", "uid": NOBODY}, False),  # another one of that name
        ({"kind": "ConfigMap", "name": "elsewhere"}, False),  # lives in another namespace
        ({"kind": "Gadget", "apiVersion": "example.com/v1", "name": "g"}, True),
        ({"kind": "Node", "name": "n1"}, True),  # is served by members alone
        ({"kind": "ConfigMap", "apiVersion": "v2", "name": "none"}, True),
        ({"kind": "ConfigMap", "name": "pod.east"}, True),  # may live in a member
    ],
)
async def test_an_owner_is_absent_only_where_the_store_knows(
    started: Callable[..., Any], harness: ModuleType, reference: dict[str, Any], stays: bool
) -> None:
    async with started(elsewhere=lambda _, name: name.endswith(".east")) as api:
        await namespace(api, "lab")
        await config(api, "there")
        far = await config(api, "elsewhere", "default")
        uid = far["metadata"]["uid"] if reference["name"] == "elsewhere" else NOBODY
        whole = {"apiVersion": "v1", "uid": uid, **reference}
        await config(api, "it", ownerReferences=[whole])
        await harness.at_rest(api)
        assert ("it" in await names_in(api, MAPS.format("lab"))) is stays


async def test_a_cluster_scoped_object_cannot_be_owned_by_a_namespaced_one(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": NOBODY}
        await namespace(api, "lab", ownerReferences=[reference])
        await harness.at_rest(api)
        assert (await api.call("GET", f"{NAMESPACES}/lab")).status == 200


async def test_foreground_deletion_waits_for_what_blocks_it(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await namespace(api, "lab")
        root = await config(api, "root")
        block = owner(root, blockOwnerDeletion=True)
        await config(api, "free", ownerReferences=[owner(root)])
        await config(api, "blocking", ownerReferences=[block])
        await config(api, "slow", ownerReferences=[block], finalizers=["example.com/a"])
        await api.must("DELETE", MAPS.format("lab") + "/root?propagationPolicy=Foreground")
        await harness.at_rest(api)
        assert await names_in(api, MAPS.format("lab")) == [
            "free", "kube-root-ca.crt", "root", "slow",
        ]  # fmt: skip
        released = {"metadata": {"finalizers": None}}
        await api.must("PATCH", MAPS.format("lab") + "/slow", released, content_type=MERGE)
        await harness.at_rest(api)
        assert await names_in(api, MAPS.format("lab")) == ["kube-root-ca.crt"]


async def test_foreground_deletion_goes_down_the_whole_tree_bottom_first(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await namespace(api, "lab")
        parent = await config(api, "g0")
        for depth in range(1, 5):
            block = owner(parent, blockOwnerDeletion=True)
            parent = await config(api, f"g{depth}", ownerReferences=[block])
        await harness.at_rest(api)
        gone: list[str] = []
        collection = api.store.collection(
            next(r for r in api.kernel.resources if r.gvr.resource == "configmaps")
        )
        collection.follow(lambda event: gone.append(event.entry.name) if event.deleted else None)
        await api.must("DELETE", MAPS.format("lab") + "/g0?propagationPolicy=Foreground")
        await harness.at_rest(api)
        assert gone == ["g4", "g3", "g2", "g1", "g0"]


async def test_a_released_or_disowned_dependent_blocks_no_longer(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await namespace(api, "lab")
        root = await config(api, "root")
        block = owner(root, blockOwnerDeletion=True)
        await config(api, "slow", ownerReferences=[block], finalizers=["example.com/a"])
        await api.must("DELETE", MAPS.format("lab") + "/root?propagationPolicy=Foreground")
        await harness.at_rest(api)
        assert "root" in await names_in(api, MAPS.format("lab"))
        await api.must(
            "PATCH",
            MAPS.format("lab") + "/slow",
            {"metadata": {"ownerReferences": [owner(root, blockOwnerDeletion=False)]}},
            content_type=MERGE,
        )
        await harness.at_rest(api)
        assert await names_in(api, MAPS.format("lab")) == ["kube-root-ca.crt", "slow"]


async def test_orphans_keep_living_without_the_reference(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await namespace(api, "lab")
        root, other = await config(api, "root"), await config(api, "other")
        references = [owner(root, blockOwnerDeletion=True, controller=True), owner(other)]
        await config(api, "leaf", ownerReferences=references)
        await api.must("DELETE", MAPS.format("lab") + "/root?propagationPolicy=Orphan")
        await harness.at_rest(api)
        assert await names_in(api, MAPS.format("lab")) == ["kube-root-ca.crt", "leaf", "other"]
        leaf = await api.must("GET", MAPS.format("lab") + "/leaf")
        assert [r["name"] for r in leaf["metadata"]["ownerReferences"]] == ["other"]


async def test_the_mark_to_orphan_stays_until_those_who_orphan_first_let_go(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started(orphaned_first=("example.com/first",)) as api:
        await namespace(api, "lab")
        root = await config(api, "root", finalizers=["example.com/first"])
        await config(api, "leaf", ownerReferences=[owner(root)])
        path = MAPS.format("lab") + "/root"
        await api.must("DELETE", f"{path}?propagationPolicy=Orphan")
        await harness.at_rest(api)
        held = await api.must("GET", path)
        assert held["metadata"]["finalizers"] == ["example.com/first", "orphan"]
        let_go = {"metadata": {"finalizers": ["orphan"]}}
        await api.must("PATCH", path, let_go, content_type=MERGE)
        await harness.at_rest(api)
        assert await names_in(api, MAPS.format("lab")) == ["kube-root-ca.crt", "leaf"]


async def test_a_job_leaves_its_pods_unless_told_otherwise(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await namespace(api, "lab")
        jobs = "/apis/batch/v1/namespaces/lab/jobs"
        for number, query in enumerate(("", "?propagationPolicy=Background")):
            name = f"j{number}"
            spec = {"template": {"spec": {**SPEC, "restartPolicy": "Never"}}}
            job = await api.must("POST", jobs, {"metadata": {"name": name}, "spec": spec})
            pod = {"name": f"{name}-pod", "ownerReferences": [owner(job)]}
            await api.must("POST", f"{NAMESPACES}/lab/pods", {"metadata": pod, "spec": SPEC})
            await api.must("DELETE", f"{jobs}/{name}{query}")
        await harness.at_rest(api)
        assert await names_in(api, jobs) == []
        assert await names_in(api, f"{NAMESPACES}/lab/pods") == ["j0-pod"]


async def test_an_object_with_another_owner_only_loses_the_reference(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await namespace(api, "lab")
        one, two = await config(api, "one"), await config(api, "two")
        await config(api, "leaf", ownerReferences=[owner(one), owner(two)])
        await api.must("DELETE", MAPS.format("lab") + "/one")
        await harness.at_rest(api)
        leaf = await api.must("GET", MAPS.format("lab") + "/leaf")
        assert [r["name"] for r in leaf["metadata"]["ownerReferences"]] == ["two"]
        await api.must("DELETE", MAPS.format("lab") + "/two")
        await harness.at_rest(api)
        assert await names_in(api, MAPS.format("lab")) == ["kube-root-ca.crt"]


async def test_owners_in_a_circle_do_not_wait_for_each_other_for_ever(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await namespace(api, "lab")
        one = await config(api, "one")
        two = await config(api, "two", ownerReferences=[owner(one, blockOwnerDeletion=True)])
        await api.must(
            "PATCH",
            MAPS.format("lab") + "/one",
            {"metadata": {"ownerReferences": [owner(two, blockOwnerDeletion=True)]}},
            content_type=MERGE,
        )
        await api.must("DELETE", MAPS.format("lab") + "/one?propagationPolicy=Foreground")
        await harness.at_rest(api)
        assert await names_in(api, MAPS.format("lab")) == ["kube-root-ca.crt"]


async def test_an_owner_made_anew_is_another_owner(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await namespace(api, "lab")
        root = await config(api, "root")
        await config(api, "leaf", ownerReferences=[owner(root)])
        await api.must("DELETE", MAPS.format("lab") + "/root")
        await config(api, "root")
        await harness.at_rest(api)
        assert await names_in(api, MAPS.format("lab")) == ["kube-root-ca.crt", "root"]


class Gated(MemoryBackend):
    """Once `held`, each commit waits until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.held = False
        self._waiting: list[tuple[Sequence[Record], asyncio.Future[None]]] = []

    def commit(self, changes: Sequence[Record]) -> asyncio.Future[None]:
        if not self.held:
            return super().commit(changes)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((changes, future))
        return future

    def let_through(self) -> None:
        """The commit that waits, if there is one."""
        if self._waiting:
            changes, future = self._waiting.pop(0)
            super().commit(changes)
            future.set_result(None)


async def test_an_object_disowned_at_the_last_moment_is_not_deleted(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    """The collector decides while a user's write is under way, and its own comes after that."""
    backend = Gated()
    async with started(backend=backend) as api:
        await namespace(api, "lab")
        root = await config(api, "root")
        await config(api, "leaf", ownerReferences=[owner(root)])
        await harness.at_rest(api)
        backend.held = True
        delete = asyncio.create_task(api.call("DELETE", MAPS.format("lab") + "/root"))
        await harness.at_rest(api)
        disowned = {"metadata": {"ownerReferences": None}}
        patch = asyncio.create_task(
            api.call("PATCH", MAPS.format("lab") + "/leaf", disowned, content_type=MERGE)
        )
        await harness.at_rest(api)
        backend.let_through()  # the owner is gone, and seen to be gone
        await harness.at_rest(api)
        for _ in range(5):
            backend.let_through()
            await harness.at_rest(api)
        assert (await delete).status == (await patch).status == 200
        assert "leaf" in await names_in(api, MAPS.format("lab"))


async def test_a_controller_means_one_object_not_one_name(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        made = await config(api, "it", "default")
        objects = Objects(api.store, lambda: api.kernel.resources, api.kernel.writer)
        row = objects.row("configmaps")
        assert row is not None
        key = Key("configmaps", "default", "it")

        def label(obj: dict[str, Any]) -> dict[str, Any]:
            return {**obj, "metadata": {**obj["metadata"], "labels": {"a": "b"}}}

        await objects.change(row, key, label, uid=NOBODY)
        assert await api.must("GET", MAPS.format("default") + "/it") == made
        await objects.change(row, key, label, uid=made["metadata"]["uid"])
        found = await api.must("GET", MAPS.format("default") + "/it")
        assert found["metadata"]["labels"] == {"a": "b"}
        await objects.change(row, Key("configmaps", "default", "none"), label, uid=NOBODY)


async def test_a_second_look_writes_nothing(
    started: Callable[..., Any], harness: ModuleType
) -> None:
    async with started() as api:
        await filled(api, "lab")
        await filled(api, "held")
        root = await config(api, "root")
        block = owner(root, blockOwnerDeletion=True)
        await config(api, "slow", ownerReferences=[block], finalizers=["example.com/a"])
        await config(api, "stuck", "held", finalizers=["example.com/a"])
        await api.must("DELETE", MAPS.format("lab") + "/root?propagationPolicy=Foreground")
        await api.must("DELETE", f"{NAMESPACES}/held")
        await harness.at_rest(api)
        before = api.store.sequencer.current
        async with harness.controlled(api):
            await harness.at_rest(api)
        assert api.store.sequencer.current == before


@pytest.mark.parametrize("seed", range(30))
async def test_any_tree_ends_as_a_model_says(
    started: Callable[..., Any], harness: ModuleType, seed: int
) -> None:
    """What is left after background deletions: who has an owner that is left, or never had one."""
    rng = random.Random(seed)
    async with started() as api:
        await namespace(api, "lab")
        made: dict[str, Any] = {}
        parents: dict[str, list[str]] = {}
        for number in range(14):
            name = f"m{number:02}"
            chosen = rng.sample(sorted(made), k=min(len(made), rng.choice((0, 0, 1, 1, 2))))
            references = [
                owner(made[parent], blockOwnerDeletion=rng.random() < 0.5) for parent in chosen
            ]
            made[name] = await config(api, name, ownerReferences=references)
            parents[name] = chosen
        victims = rng.sample(sorted(made), k=4)
        for victim in victims:
            policy = rng.choice(("Background", "Foreground"))
            await api.call("DELETE", f"{MAPS.format('lab')}/{victim}?propagationPolicy={policy}")
            for _ in range(rng.randrange(30)):
                await asyncio.sleep(0)
        await harness.at_rest(api)
        left = {name for name in made if name not in victims}
        while gone := {n for n in left if parents[n] and not left.intersection(parents[n])}:
            left -= gone
        assert await names_in(api, MAPS.format("lab")) == ["kube-root-ca.crt", *sorted(left)]
