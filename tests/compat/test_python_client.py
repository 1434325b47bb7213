"""The `kubernetes` Python client over a member's whole life: it joins, stands still, is killed,
comes back, leaves – inside one open watch.

These tests have a gateway and members of their own, since they do them harm.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

kubernetes = pytest.importorskip("kubernetes")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fleet.testbed.local import LocalCluster

pytestmark = pytest.mark.controlplane

SPACE = "default"
LABEL = "suite=python"


@pytest.fixture(scope="module")
def members(
    bare_members: tuple[LocalCluster, LocalCluster],
) -> tuple[LocalCluster, LocalCluster]:
    return bare_members


@pytest.fixture(scope="module")
def gateway(start_gateway: Any, members: tuple[LocalCluster, LocalCluster]) -> Iterator[Any]:
    """`one` has joined, `two` has not."""
    with start_gateway(one=members[0]) as gateway:
        yield gateway


@pytest.fixture
def api(gateway: Any) -> Iterator[Any]:
    """The client's core API at the gateway."""
    with kubernetes.config.new_client_from_config(str(gateway.kubeconfig)) as client:
        yield kubernetes.client.CoreV1Api(client)


def direct(member: LocalCluster) -> Any:
    client = kubernetes.config.new_client_from_config(str(member.kubeconfig))
    return kubernetes.client.CoreV1Api(client)


class Follower:
    """A watch in a thread: what it was told, in order, and the state that makes."""

    def __init__(self, stream: Callable[[], Iterator[Any]]) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.state: dict[tuple[str, str], str] = {}
        self.revisions: list[int] = []
        self.ended = ""
        self._told: queue.Queue[None] = queue.Queue()
        self._stream = stream
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            for event in self._stream():
                obj = event["object"]
                key = (obj.metadata.namespace, obj.metadata.name)
                self.events.append((event["type"], *key))
                self.revisions.append(int(obj.metadata.resource_version))
                if event["type"] == "DELETED":
                    self.state.pop(key, None)
                else:
                    self.state[key] = (obj.data or {}).get("v", "")
                self._told.put(None)
        except Exception as error:  # the test reads it
            self.ended = repr(error)
        self.ended = self.ended or "closed"
        self._told.put(None)

    def until(self, holds: Callable[[], bool], *, within_s: float = 60) -> None:
        deadline = time.monotonic() + within_s
        while not holds():
            assert not self.ended, (self.ended, self.events)
            try:
                self._told.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"not told in {within_s:g} s: {self.events[-10:]}", pytrace=False)


def config_map(name: str, v: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": dict([LABEL.split("=")])},
        "data": {"v": v},
    }


def test_one_watch_lives_through_the_whole_life_of_a_member(
    gateway: Any, api: Any, members: tuple[LocalCluster, LocalCluster]
) -> None:
    one, two = members
    at_one, at_two = direct(one), direct(two)
    at_one.create_namespaced_config_map(SPACE, config_map("kept", "1"))
    at_two.create_namespaced_config_map(SPACE, config_map("there", "1"))

    listed = api.list_config_map_for_all_namespaces(label_selector=LABEL)
    assert [(i.metadata.namespace, i.metadata.name) for i in listed.items] == [
        (f"{SPACE}.one", "kept")
    ]
    watch = kubernetes.watch.Watch()
    seen = Follower(
        lambda: watch.stream(
            api.list_config_map_for_all_namespaces,
            label_selector=LABEL,
            resource_version=listed.metadata.resource_version,
        )
    )
    kept, there = (f"{SPACE}.one", "kept"), (f"{SPACE}.two", "there")

    # it joins: what it holds is added
    gateway.join("two", two)
    seen.until(lambda: there in seen.state)
    at_two.patch_namespaced_config_map("there", SPACE, {"data": {"v": "2"}})
    seen.until(lambda: seen.state[there] == "2")
    assert [e[0] for e in seen.events if e[1:] == there] == ["ADDED", "MODIFIED"]

    # it stands still: nothing is lost, nothing invented, the other one goes on
    asyncio.run(two.pause_api())
    before = len(seen.events)
    at_one.patch_namespaced_config_map("kept", SPACE, {"data": {"v": "2"}})
    seen.until(lambda: seen.state.get(kept) == "2")
    assert [e[1:] for e in seen.events[before:]] == [kept]
    asyncio.run(two.resume_api())
    at_two.patch_namespaced_config_map("there", SPACE, {"data": {"v": "3"}})
    seen.until(lambda: seen.state[there] == "3")

    # it is killed and comes back: what happened meanwhile arrives, as changes alone
    asyncio.run(two.stop_api())
    at_one.patch_namespaced_config_map("kept", SPACE, {"data": {"v": "3"}})
    seen.until(lambda: seen.state[kept] == "3")
    stale = api.list_config_map_for_all_namespaces(label_selector=LABEL)
    assert len(stale.items) == 2
    before = len(seen.events)
    asyncio.run(two.start_api())
    again = direct(two)
    again.patch_namespaced_config_map("there", SPACE, {"data": {"v": "4"}})
    again.create_namespaced_config_map(SPACE, config_map("late", "1"))
    late = (f"{SPACE}.two", "late")
    seen.until(lambda: seen.state[there] == "4" and late in seen.state)
    assert sorted(e for e in seen.events[before:]) == [("ADDED", *late), ("MODIFIED", *there)]

    # it leaves: everything of it is deleted, the rest stays
    gateway.leave("two")
    seen.until(lambda: there not in seen.state and late not in seen.state)
    assert sorted(e for e in seen.events[-2:]) == [("DELETED", *late), ("DELETED", *there)]
    assert set(seen.state) == {kept}

    # and joins again
    gateway.join("two", two)
    seen.until(lambda: seen.state.get(there) == "4" and late in seen.state)
    assert seen.revisions == sorted(set(seen.revisions))
    assert not seen.ended
    watch.stop()
    for client, names in ((at_one, ["kept"]), (again, ["there", "late"])):
        for name in names:
            client.delete_namespaced_config_map(name, SPACE)
    gateway.leave("two")


def test_an_informer_converges_however_its_member_fares(
    gateway: Any, api: Any, members: tuple[LocalCluster, LocalCluster]
) -> None:
    """List, then watch from there, as informers do; at the end the state is that of a new list."""
    one, two = members
    at_one, at_two = direct(one), direct(two)
    gateway.join("two", two)
    for n in range(20):
        at_one.create_namespaced_config_map(SPACE, config_map(f"i{n}", "0"))
        at_two.create_namespaced_config_map(SPACE, config_map(f"i{n}", "0"))
    listed = api.list_config_map_for_all_namespaces(label_selector=LABEL)
    watch = kubernetes.watch.Watch()
    seen = Follower(
        lambda: watch.stream(
            api.list_config_map_for_all_namespaces,
            label_selector=LABEL,
            resource_version=listed.metadata.resource_version,
            allow_watch_bookmarks=True,
        )
    )
    seen.state.update({(i.metadata.namespace, i.metadata.name): "0" for i in listed.items})
    assert len(seen.state) == 40
    for n in range(20):
        at_one.patch_namespaced_config_map(f"i{n}", SPACE, {"data": {"v": str(n)}})
        if n == 5:
            asyncio.run(two.stop_api())
        if n == 15:
            asyncio.run(two.start_api())
            at_two = direct(two)
    for n in range(0, 20, 2):
        at_two.delete_namespaced_config_map(f"i{n}", SPACE)
        at_one.delete_namespaced_config_map(f"i{n}", SPACE)
    at_two.create_namespaced_config_map(SPACE, config_map("last", "done"))
    at_one.create_namespaced_config_map(SPACE, config_map("last", "done"))
    seen.until(lambda: sum(name == "last" for _, name in seen.state) == 2)

    def fresh() -> dict[tuple[str, str], str]:
        items = api.list_config_map_for_all_namespaces(label_selector=LABEL).items
        return {(i.metadata.namespace, i.metadata.name): i.data["v"] for i in items}

    seen.until(lambda: seen.state == fresh())
    assert len(seen.state) == 22
    watch.stop()
    for client in (at_one, at_two):
        client.delete_collection_namespaced_config_map(SPACE, label_selector=LABEL)
    seen.until(lambda: not seen.state or bool(seen.ended))
    gateway.leave("two")


def test_writes_and_conflicts_as_the_client_makes_them(gateway: Any, api: Any) -> None:
    where = f"{SPACE}.one"
    made = api.create_namespaced_config_map(where, config_map("mine", "1"))
    assert made.metadata.namespace == where
    made.data["v"] = "2"
    written = api.replace_namespaced_config_map("mine", where, made)
    assert int(written.metadata.resource_version) > int(made.metadata.resource_version)
    with pytest.raises(kubernetes.client.ApiException) as refused:
        api.replace_namespaced_config_map("mine", where, made)
    assert refused.value.status == 409
    api.patch_namespaced_config_map("mine", where, {"data": {"w": "3"}})
    assert api.read_namespaced_config_map("mine", where).data == {"v": "2", "w": "3"}
    options = kubernetes.client.V1DeleteOptions(
        preconditions={"resourceVersion": written.metadata.resource_version}
    )
    with pytest.raises(kubernetes.client.ApiException) as stale:
        api.delete_namespaced_config_map("mine", where, body=options)
    assert stale.value.status == 409
    api.delete_namespaced_config_map("mine", where)
    with pytest.raises(kubernetes.client.ApiException) as gone:
        api.read_namespaced_config_map("mine", where)
    assert gone.value.status == 404


def test_the_dynamic_client_finds_every_kind(gateway: Any, api: Any) -> None:
    dynamic = kubernetes.dynamic.DynamicClient(api.api_client)
    nodes = dynamic.resources.get(api_version="v1", kind="Node")
    assert nodes.namespaced is False
    deployments = dynamic.resources.get(api_version="apps/v1", kind="Deployment")
    assert deployments.get(namespace=f"{SPACE}.one").items == []
    config_maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    made = config_maps.server_side_apply(
        body={
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dyn"}, "data": {"a": "1"}
        },
        namespace=f"{SPACE}.one",
        field_manager="test",
    )  # fmt: skip
    assert made.metadata.namespace == f"{SPACE}.one"
    config_maps.delete("dyn", f"{SPACE}.one")


def test_pages_by_the_client(
    gateway: Any, api: Any, members: tuple[LocalCluster, LocalCluster]
) -> None:
    at_one = direct(members[0])
    for n in range(7):
        at_one.create_namespaced_config_map(SPACE, config_map(f"page{n}", "0"))
    names: list[str] = []
    revisions = set()
    token = None
    while True:
        page = api.list_namespaced_config_map(
            f"{SPACE}.one", label_selector=LABEL, limit=3, _continue=token
        )
        names += [item.metadata.name for item in page.items]
        revisions.add(page.metadata.resource_version)
        token = page.metadata._continue
        if not token:
            break
        # written between the pages; a list is of one moment
        at_one.create_namespaced_config_map(SPACE, config_map(f"page9{len(names)}", "0"))
    assert names == [f"page{n}" for n in range(7)]
    assert len(revisions) == 1
    at_one.delete_collection_namespaced_config_map(SPACE, label_selector=LABEL)
