"""Changes between a list that was not kept and a collection that began after it."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.apiserver.reading import Scope
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.store.collection import Collection
from fleet.store.entry import Entry
from fleet.store.sequencer import Sequencer
from fleet.view.recollections import KEPT_S, Recollections

A = Scope(("a.east",))
SECRETS = GroupVersionResource("", "v1", "secrets")


class Moment:
    """A sequencer, a collection that begins with it, and what was listed before."""

    def __init__(self) -> None:
        row = builtin.resource(SECRETS)
        assert row is not None
        self.now_s = 0.0
        self.sequencer = Sequencer(epoch=1)
        self.present = Collection(row, self.sequencer)
        self.recollections = Recollections(clock=lambda: self.now_s)
        self.listed = self.sequencer.next()
        self.synced = {"", "east"}

    def entry(self, name: str, told: int, *, uid: str = "u", namespace: str = "a.east") -> Entry:
        obj: dict[str, Any] = {
            "kind": "Secret",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid,
                "labels": {"l": name},
                "annotations": {"last-applied": "hunter2"},
                "resourceVersion": str(self.sequencer.current),
            },
            "data": {"password": "hunter2"},
        }
        return Entry(obj, revision=self.sequencer.next(), member="east", member_revision=told)

    def changes(self, *, scope: Scope | None = None) -> list[tuple[str, str]] | None:
        events = self.recollections.changes(
            SECRETS,
            self.listed,
            present=self.present,
            scope=scope or Scope(),
            known=self.synced.__contains__,
        )
        if events is None:
            return None
        assert [e.revision for e in events] == sorted(e.revision for e in events)
        kinds = {(True, False): "deleted", (False, True): "added", (False, False): "changed"}
        return sorted((kinds[(e.deleted, e.previous is None)], e.entry.name) for e in events)


@pytest.fixture
def moment() -> Moment:
    return Moment()


def test_the_difference_is_told(moment: Moment) -> None:
    moment.recollections.keep(
        SECRETS,
        moment.listed,
        [moment.entry(name, 5) for name in ("kept", "changed", "dropped", "remade")],
        scope=Scope(),
    )
    moment.present.put(moment.entry("kept", 5))
    moment.present.put(moment.entry("changed", 6))
    moment.present.put(moment.entry("new", 7))
    moment.present.put(moment.entry("remade", 5, uid="another"))
    assert moment.changes() == [
        ("added", "new"),
        ("changed", "changed"),
        ("changed", "remade"),
        ("deleted", "dropped"),
    ]


def test_only_what_was_watched_is_told(moment: Moment) -> None:
    moment.recollections.keep(
        SECRETS,
        moment.listed,
        [moment.entry("here", 5), moment.entry("there", 5, namespace="b.east")],
        scope=Scope(),
    )
    assert moment.changes(scope=Scope(("a.east",))) == [("deleted", "here")]


def test_what_is_not_remembered_is_not_guessed(moment: Moment) -> None:
    assert moment.changes() is None
    moment.recollections.keep(SECRETS, moment.listed, [moment.entry("a", 5)], scope=A)
    moment.synced.discard("east")
    assert moment.changes(scope=A) is None
    moment.synced.add("east")
    assert moment.changes(scope=A) == [("deleted", "a")]
    moment.now_s = KEPT_S + 1
    assert moment.changes(scope=A) is None


def test_lists_at_one_revision_add_up(moment: Moment) -> None:
    moment.recollections.keep(SECRETS, moment.listed, [moment.entry("a", 5)], scope=A)
    assert moment.changes(scope=Scope(("a.east", "b.east"))) is None  # never listed there
    assert moment.changes(scope=Scope()) is None
    other = moment.entry("b", 5, namespace="b.east")
    moment.recollections.keep(SECRETS, moment.listed, [other], scope=Scope(("b.east",)))
    assert moment.changes(scope=Scope(("a.east", "b.east"))) == [("deleted", "a"), ("deleted", "b")]
    assert moment.changes(scope=A) == [("deleted", "a")]


def test_nothing_secret_is_remembered(moment: Moment) -> None:
    moment.recollections.keep(SECRETS, moment.listed, [moment.entry("a", 5)], scope=A)
    [event] = (
        moment.recollections.changes(
            SECRETS, moment.listed, present=moment.present, scope=A, known=lambda _: True
        )
        or ()
    )
    assert b"hunter2" not in event.entry.raw
    assert event.entry.labels == {"l": "a"}
