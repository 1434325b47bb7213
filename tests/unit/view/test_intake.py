"""Intake: a member's events, lists and what the gateway itself wrote, in whatever order they come
and however long a write of the fleet's own holds back the numbers."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.store.collection import Collection
from fleet.store.sequencer import Sequencer
from fleet.view.intake import Intake
from fleet.view.projection import Projector


class Taking:
    """An intake of member `east` and what is seen of it."""

    def __init__(self) -> None:
        row = builtin.resource(GroupVersionResource("", "v1", "configmaps"))
        assert row is not None
        self.now_s = 0.0
        self.sequencer = Sequencer(epoch=1)
        self.collection = Collection(row, self.sequencer)
        self.intake = Intake(Projector("east", row), self.collection, clock=lambda: self.now_s)

    def replace(self, objects: list[dict[str, Any]], revision: int) -> None:
        for _ in self.intake.replace(iter(objects), revision):
            pass

    def seen(self) -> dict[str, int]:
        """Names and the member's revisions."""
        return {e.name: e.member_revision for e in self.collection.snapshot().entries()}


def obj(name: str, revision: int, *, uid: str = "u1") -> dict[str, Any]:
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": uid,
            "resourceVersion": str(revision),
        },
    }


@pytest.fixture
def taking() -> Taking:
    return Taking()


async def test_a_write_is_seen_when_it_is_answered_even_behind_a_write_of_the_fleets_own(
    taking: Taking,
) -> None:
    with taking.sequencer.reserve():
        writing = asyncio.create_task(taking.intake.written(obj("a", 5)))
        await asyncio.sleep(0)
        assert not writing.done()
        assert taking.seen() == {}
    entry = await writing
    assert entry is not None
    assert (entry.member_revision, taking.seen()) == (5, {"a": 5})


async def test_a_removal_is_seen_when_it_is_answered_even_behind_a_write_of_the_fleets_own(
    taking: Taking,
) -> None:
    taking.intake.upsert(obj("a", 5))
    with taking.sequencer.reserve():
        removing = asyncio.create_task(taking.intake.gone("ns.east", "a", uid="u1"))
        await asyncio.sleep(0)
        assert not removing.done()
    await removing
    assert taking.seen() == {}


async def test_what_came_late_does_not_undo_what_was_written(taking: Taking) -> None:
    with taking.sequencer.reserve():
        writing = asyncio.create_task(taking.intake.written(obj("a", 6)))
        await asyncio.sleep(0)
        taking.intake.upsert(obj("a", 5))
        taking.intake.remove(obj("a", 4))
    await writing
    assert taking.seen() == {"a": 6}


async def test_the_echo_of_what_was_before_a_removal_is_ignored(taking: Taking) -> None:
    taking.intake.upsert(obj("a", 5))
    await taking.intake.gone("ns.east", "a", uid="u1")
    taking.intake.upsert(obj("a", 6))
    assert taking.seen() == {}
    taking.intake.upsert(obj("a", 8, uid="u2"))
    assert taking.seen() == {"a": 8}


async def test_a_removal_does_not_take_the_object_that_followed(taking: Taking) -> None:
    taking.intake.upsert(obj("a", 5))
    with taking.sequencer.reserve():
        removing = asyncio.create_task(taking.intake.gone("ns.east", "a", uid="u1"))
        await asyncio.sleep(0)
        taking.intake.upsert(obj("a", 9, uid="u2"))
        await asyncio.sleep(0)
    await removing
    assert taking.seen() == {"a": 9}


async def test_a_list_from_before_a_write_does_not_undo_it(taking: Taking) -> None:
    taking.intake.upsert(obj("a", 5))
    await taking.intake.written(obj("a", 9))
    await taking.intake.written(obj("b", 10))
    taking.replace([obj("a", 5)], revision=8)
    assert taking.seen() == {"a": 9, "b": 10}


async def test_a_member_that_was_put_back_counts_in_full(taking: Taking) -> None:
    taking.replace([obj("a", 50), obj("b", 60)], revision=60)
    taking.replace([obj("a", 7)], revision=9)
    assert taking.seen() == {"a": 7}


async def test_a_failing_change_does_not_hold_up_its_writer(taking: Taking) -> None:
    broken = obj("a", 5)
    with taking.sequencer.reserve():
        writing = asyncio.create_task(taking.intake.written(broken))
        await asyncio.sleep(0)
        del broken["metadata"]["name"]
    assert await asyncio.wait_for(writing, timeout=5) is None


async def test_leaving_takes_everything(taking: Taking) -> None:
    taking.replace([obj("a", 5), obj("b", 6)], revision=6)
    taking.intake.forget()
    assert taking.seen() == {}


async def test_leaving_takes_what_waits_for_its_number_and_what_comes_in_late(
    taking: Taking,
) -> None:
    taking.intake.upsert(obj("a", 5))
    with taking.sequencer.reserve():
        taking.intake.upsert(obj("b", 6))
        taking.intake.forget()
    await taking.intake.written(obj("c", 7))
    assert taking.seen() == {}


async def test_a_list_takes_what_it_lacks_though_it_waited_for_its_number(taking: Taking) -> None:
    with taking.sequencer.reserve():
        taking.intake.upsert(obj("gone", 5))
        taking.replace([obj("a", 6)], revision=7)
        taking.intake.upsert(obj("b", 8))
    assert taking.seen() == {"a": 6, "b": 8}


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "echo", "hold", "release"]), st.sampled_from("abc")
    ),
    max_size=40,
)


@given(EVENTS)
def test_holding_numbers_back_changes_when_things_are_seen_but_not_what(
    events: list[tuple[str, str]],
) -> None:
    held, free = Taking(), Taking()
    last: dict[str, int] = {}
    with ExitStack() as stack:
        for revision, (what, name) in enumerate(events, start=1):
            if what == "hold" and not last.get("held"):
                stack.enter_context(held.sequencer.reserve())
                last["held"] = 1
            elif what == "release":
                stack.pop_all().close()
                last["held"] = 0
            for taking in (held, free):
                if what == "put":
                    taking.intake.upsert(obj(name, revision))
                elif what == "echo" and name in last:
                    taking.intake.upsert(obj(name, last[name]))
                elif what == "remove":
                    taking.intake.remove(obj(name, revision))
            if what == "put":
                last[name] = revision
            elif what == "remove":
                last.pop(name, None)
    assert held.seen() == free.seen()
