"""Pods of several kinds on the same nodes, against all ways to deal them out."""

from __future__ import annotations

from itertools import product

from asking import capacity_of
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.capacity import PodKind
from fleet.scheduling.mixing import Mixing
from fleet.scheduling.requests import vector

WORKER = PodKind(vector({"nvidia.com/gpu": 2, "cpu": 3_000, "pods": 1}))
LOADER = PodKind(vector({"cpu": 2_000, "pods": 1}))
NODES = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 8)), min_size=1, max_size=3)


def block(build, nodes):
    made = [build.node(f"n{at}", gpus, cpu=str(cpu)) for at, (gpus, cpu) in enumerate(nodes)]
    return capacity_of(made, [], as_of_s=0.0).blocks[""]


def holds(nodes, workers, loaders):
    """Whether any way to deal them out node by node holds so many."""
    ways = [
        [(w, n) for w in range(gpus // 2 + 1) for n in range(cpu // 2 + 1) if 3 * w + 2 * n <= cpu]
        for gpus, cpu in nodes
    ]
    return any(
        sum(w for w, _ in chosen) >= workers and sum(n for _, n in chosen) >= loaders
        for chosen in product(*ways)
    )


@given(NODES, st.integers(0, 5), st.integers(0, 6))
@settings(deadline=None)
def test_a_block_holds_what_some_way_of_dealing_out_holds(build, nodes, workers, loaders):
    there = block(build, nodes)
    mixing = Mixing(there, [WORKER, LOADER], [workers, loaders])
    seats = mixing.seats((workers, loaders))
    assert mixing.known
    assert (seats is not None) == holds(nodes, workers, loaders)
    assert (mixing.most((loaders,)) >= workers) == holds(nodes, workers, loaders)
    if seats is None:
        return
    assert [sum(pods for _, pods in each) for each in seats] == [workers, loaders]
    after = there.seated(WORKER.request, seats[0]).seated(LOADER.request, seats[1])
    for position in range(len(nodes)):
        assert all(value >= 0 for value in after.free(position).values())


def test_kinds_that_only_fit_together_in_one_way_are_seated_so(build):
    """One after the other fails in either order; dealt out node by node both fit."""
    nodes = [build.node("n0", 2, cpu="5"), build.node("n1", 2, cpu="3")]
    capacity = capacity_of(nodes, [], as_of_s=0.0)
    for kinds in ([(WORKER, 2), (LOADER, 1)], [(LOADER, 1), (WORKER, 2)]):
        wanted = [(kind, {"": pods}) for kind, pods in kinds]
        left, taken = capacity.take_together(wanted)
        assert [each.pods for each in taken] == [pods for _, pods in kinds]
        assert all(value >= 0 for node in left.nodes for value in node.free.values())
        for each in taken:
            left = left.give(each)
        assert left.nodes == capacity.nodes
