"""Numbers are published in the order in which they were given."""

from __future__ import annotations

import pytest

from fleet.store.sequencer import Sequencer


def test_changes_during_a_reservation_follow_it_in_order() -> None:
    sequencer, seen = Sequencer(epoch=1), []
    with sequencer.reserve() as number:
        sequencer.submit(lambda r: seen.append(("b", r)))
        sequencer.submit(lambda r: seen.append(("c", r)))
        assert sequencer.current == number - 1
        seen.append(("a", number))
    assert [name for name, _ in seen] == ["a", "b", "c"]
    assert [r for _, r in seen] == [number, number + 1, number + 2]
    assert sequencer.current == number + 2


def test_a_failed_reservation_leaves_a_gap_and_never_repeats_a_number() -> None:
    sequencer = Sequencer(epoch=1)
    with pytest.raises(ZeroDivisionError), sequencer.reserve() as number:
        raise ZeroDivisionError
    assert sequencer.next() == number + 1


def test_numbering_directly_is_refused_while_reserved() -> None:
    sequencer = Sequencer(epoch=1)
    with sequencer.reserve(), pytest.raises(RuntimeError):
        sequencer.next()
