"""The garbage collector's decisions, and the graph they rest on."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.apiserver.controllers import owners
from fleet.apiserver.controllers.objects import Key
from fleet.apiserver.controllers.owners import (
    NOTHING,
    Await,
    Decision,
    Delete,
    Forget,
    Graph,
    Orphan,
    Owner,
    Reference,
    Release,
    Standing,
)

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


def key(name: str) -> Key:
    return Key("configmaps", "lab", name)


def reference(uid: str, *, blocks: bool = False) -> Reference:
    return Reference("v1", "ConfigMap", f"name-of-{uid}", uid, blocks)


def decide(
    standing: Standing,
    dependents: dict[Key, Reference] | None = None,
    *,
    waiting: tuple[Key, ...] = (),
    **known: Owner,
) -> Decision:
    return owners.decide(
        standing,
        dependents or {},
        look=lambda found: known[found.uid],
        waits=lambda found: found in waiting,
    )


def owned(*uids: str, **more: Any) -> Standing:
    return Standing(owners=tuple(map(reference, uids)), **more)


DEPENDENT = {key("d"): reference("me")}


@pytest.mark.parametrize(
    ("standing", "known", "decision"),
    [
        (NOTHING, {}, None),
        (owned("a"), {"a": Owner.SOLID}, None),
        (owned("a"), {"a": Owner.ABSENT}, Delete("Background")),
        (owned("a"), {"a": Owner.WAITING}, Delete("Background")),
        (owned("a"), {"a": Owner.UNKNOWN}, None),
        (owned("a", "b"), {"a": Owner.ABSENT, "b": Owner.UNKNOWN}, None),
        (owned("a", "b"), {"a": Owner.SOLID, "b": Owner.UNKNOWN}, None),
        (owned("a", "b"), {"a": Owner.SOLID, "b": Owner.ABSENT}, Forget(("b",))),
        (owned("a", "b"), {"a": Owner.WAITING, "b": Owner.SOLID}, Forget(("a",))),
        (owned("a", "b"), {"a": Owner.SOLID, "b": Owner.SOLID}, None),
        (owned("a", "b"), {"a": Owner.ABSENT, "b": Owner.ABSENT}, Delete("Background")),
        (owned("a", finalizers=(ORPHAN,)), {"a": Owner.ABSENT}, Delete("Orphan")),
        (owned("a", finalizers=(FOREGROUND,)), {"a": Owner.ABSENT}, Delete("Foreground")),
        (owned("a", marked=True), {"a": Owner.ABSENT}, None),
    ],
)
def test_by_its_owners(standing: Standing, known: dict[str, Owner], decision: Decision) -> None:
    assert decide(standing, **known) == decision


def test_with_dependents_of_its_own_it_goes_after_them() -> None:
    assert decide(owned("a"), DEPENDENT, a=Owner.WAITING) == Delete("Foreground")
    assert decide(owned("a"), DEPENDENT, a=Owner.ABSENT) == Delete("Background")


def test_a_circle_is_broken() -> None:
    decision = decide(owned("a"), DEPENDENT, waiting=(key("d"),), a=Owner.WAITING)
    assert decision == Delete("Foreground", unblock=True)


def test_in_foreground_deletion_it_waits_for_what_blocks_it() -> None:
    standing = Standing(marked=True, finalizers=(FOREGROUND,))
    blocking = {key("b"): reference("me", blocks=True), key("d"): reference("me")}
    assert decide(standing) == Release(FOREGROUND)
    assert decide(standing, DEPENDENT) == Release(FOREGROUND)
    assert decide(standing, blocking) == Await((key("b"),))
    # one that waits itself needs no look, but is waited for
    assert decide(standing, blocking, waiting=(key("b"),)) == Await(())


def test_an_orphaning_deletion_lets_every_dependent_go() -> None:
    standing = Standing(marked=True, finalizers=(ORPHAN,))
    assert decide(standing, DEPENDENT) == Orphan((key("d"),))
    assert decide(standing) == Orphan(())


def test_the_finalizers_matter_only_in_deletion() -> None:
    assert decide(Standing(finalizers=(FOREGROUND,)), DEPENDENT) is None
    assert decide(Standing(finalizers=(ORPHAN,)), DEPENDENT) is None


def test_what_counts_of_metadata() -> None:
    standing = Standing.of(
        {
            "name": "x",
            "finalizers": ["a/b", ORPHAN],
            "deletionTimestamp": "2024-01-01T00:00:00Z",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
            ],
        }
    )
    assert standing == Standing(
        owners=(Reference("v1", "Pod", "p", "u", False),), marked=True, finalizers=(ORPHAN,)
    )
    assert not standing.waits
    assert Standing.of({"name": "x", "labels": {"a": "b"}}) == NOTHING


def test_the_graph_knows_dependents_by_uid() -> None:
    graph = Graph()
    assert graph.put(key("a"), owned("u", "v")) == NOTHING
    graph.put(key("b"), owned("u"))
    assert set(graph.dependents("u")) == {key("a"), key("b")}
    assert graph.put(key("a"), owned("v")) == owned("u", "v")
    assert set(graph.dependents("u")) == {key("b")}
    graph.put(key("b"), NOTHING)
    assert graph.dependents("u") == {}
    assert set(graph.dependents("v")) == {key("a")}


def test_an_owner_named_twice_is_one_owner() -> None:
    graph = Graph()
    graph.put(key("a"), Standing(owners=(reference("u"), reference("u", blocks=True))))
    assert set(graph.dependents("u")) == {key("a")}
    graph.put(key("a"), NOTHING)
    assert graph.dependents("u") == {}


def test_the_graph_knows_who_waits() -> None:
    graph = Graph()
    graph.put(key("a"), Standing(marked=True, finalizers=(FOREGROUND,)))
    assert graph.waits(key("a"))
    graph.put(key("a"), Standing(finalizers=(FOREGROUND,)))
    assert not graph.waits(key("a"))
    assert not graph.waits(key("b"))


def test_changes_to_an_object() -> None:
    obj: dict[str, Any] = {
        "metadata": {
            "name": "x",
            "finalizers": ["a/b", ORPHAN],
            "ownerReferences": [
                {"uid": "u", "blockOwnerDeletion": True},
                {"uid": "v", "controller": True},
            ],
        }
    }
    assert owners.without_owners(obj, ("u",))["metadata"]["ownerReferences"] == [
        {"uid": "v", "controller": True}
    ]
    assert "ownerReferences" not in owners.without_owners(obj, ("u", "v"))["metadata"]
    assert owners.without_finalizer(obj, ORPHAN)["metadata"]["finalizers"] == ["a/b"]
    bare = owners.without_finalizer(owners.without_finalizer(obj, ORPHAN), "a/b")
    assert "finalizers" not in bare["metadata"]
    unblocked = owners.unblocked(obj)["metadata"]["ownerReferences"]
    assert [r["blockOwnerDeletion"] for r in unblocked] == [False, False]
    assert obj["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] is True
