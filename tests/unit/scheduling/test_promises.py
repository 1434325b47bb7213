"""Promises that are kept in step with each plan are those of all plans together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduling.capacity import PodKind, ShardKey
from fleet.scheduling.ledger import Ledger, Promises, Reservation

POD = PodKind((("pods", 1),))
CLUSTERS = st.sampled_from(["east", "north", "west"])
CHANGES = st.tuples(
    st.integers(0, 5), st.dictionaries(CLUSTERS, st.integers(1, 9), max_size=3)
)  # fmt: skip


def ledger_of(source: int, pods: dict[str, int]) -> Ledger:
    return Ledger(
        {ShardKey(f"uid-{source}", 1, name): (Reservation(n, POD),) for name, n in pods.items()}
    )


@given(st.lists(CHANGES, max_size=30))
def test_they_equal_the_ledger_of_all_after_every_change(changes):
    promises, present = Promises(), dict[int, Ledger]()
    for source, pods in changes:
        before = promises.by_cluster()
        was = present.get(source, Ledger())
        present[source] = ledger_of(source, pods)
        promises.put(source, present[source])
        after = promises.by_cluster()
        wanted = Ledger.of(present.values()).by_cluster()
        assert {name: dict(each.entries) for name, each in after.items()} == {
            name: dict(each.entries) for name, each in wanted.items()
        }
        touched = {key.cluster for key in (*was.entries, *present[source].entries)}
        for name in after.keys() - touched:
            assert after[name] is before[name], "what has not changed is the very same"
