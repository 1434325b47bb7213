"""Numbers of objects that are not kept."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from fleet.kube.resources import GroupVersionResource
from fleet.store.sequencer import Sequencer
from fleet.view.glimpses import Glimpses, Key

SECRETS = GroupVersionResource("", "v1", "secrets")


def key(name: str) -> Key:
    return (SECRETS, "ns.east", name)


async def test_an_unchanged_object_keeps_its_number() -> None:
    sequencer = Sequencer(epoch=1)
    glimpses = Glimpses(sequencer)
    first = await glimpses.revision(key("a"), "7")
    sequencer.next()
    assert await glimpses.revision(key("a"), "7") == first
    assert glimpses.member_revision(key("a"), first) == "7"


async def test_a_changed_object_gets_another_number_though_nothing_else_happened() -> None:
    glimpses = Glimpses(Sequencer(epoch=1))
    first = await glimpses.revision(key("a"), "7")
    second = await glimpses.revision(key("a"), "8")
    assert second > first
    assert glimpses.member_revision(key("a"), first) is None
    assert glimpses.member_revision(key("a"), second) == "8"


async def test_a_number_is_waited_for_behind_a_write_of_the_fleets_own() -> None:
    sequencer = Sequencer(epoch=1)
    glimpses = Glimpses(sequencer)
    first = await glimpses.revision(key("a"), "7")
    with sequencer.reserve():
        asking = asyncio.create_task(glimpses.revision(key("a"), "8"))
        await asyncio.sleep(0)
        assert not asking.done()
    assert await asking > first


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 4)), max_size=30))
def test_a_number_stands_for_one_state_of_an_object(seen: list[tuple[str, int]]) -> None:
    async def look() -> None:
        sequencer = Sequencer(epoch=1)
        glimpses = Glimpses(sequencer)
        given_out: dict[tuple[str, int], int] = {}
        newest = dict.fromkeys("ab", 0)
        for name, told in seen:
            number = await glimpses.revision(key(name), str(told))
            assert given_out.setdefault((name, number), told) == told
            assert number >= newest[name]
            newest[name] = number
            assert number <= sequencer.current

    asyncio.run(look())
