"""Who may go for whom: every set of victims is legal, enough, and has nobody to spare."""

from __future__ import annotations

from asking import Anywhere
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.scheduling.placer import Item, Placed
from fleet.scheduling.preemption import NoVictims, Preemptor, Victims, choose
from fleet.scheduling.queue.running import Run, Runs
from fleet.scheduling.quota.book import Book, apply, blocked
from fleet.scheduling.quota.tree import Key, Node, Preemption, Share, Tree

GPU = Key("nvidia.com/gpu", "h200")
NODES = "abcd"
RUNS = st.lists(
    st.tuples(st.sampled_from(NODES), st.integers(1, 6), st.integers(0, 3), st.integers(0, 50)),
    max_size=16,
)


def build(
    guaranteed: tuple[int, ...], running: list[tuple[str, int, int, int]]
) -> tuple[Book, Runs]:
    nodes = [Node("root", "", {GPU: Share(sum(guaranteed))})]
    nodes += [
        Node(name, "root", {GPU: Share(own)}) for name, own in zip(NODES, guaranteed, strict=True)
    ]
    book, runs = Book(Tree.of(nodes)), Runs()
    for number, (name, size, priority, started) in enumerate(running):
        item = Item(f"r{number}", name, priority, number, {GPU: size}, size)
        asked = book.ask(name, item.requests.items())
        if blocked(asked) is None:
            book.charge(item.uid, 1, name, item.requests)
            run = Run(item, Placed(None), asked, book.weight(asked), started)
            runs.add(run, "root")
    return book, runs


def used(book: Book) -> dict[str, int]:
    return {name: book.cell(name, GPU).used for name in ("root", *NODES)}


@settings(max_examples=300)
@given(
    st.tuples(*[st.sampled_from([0, 4, 8])] * 4),
    RUNS,
    st.sampled_from(NODES),
    st.integers(1, 10),
    st.integers(0, 3),
    st.sampled_from(["Never", "LowerPriority", "Any"]),
)
def test_victims_are_legal_enough_and_none_is_dispensable(
    guaranteed: tuple[int, ...],
    running: list[tuple[str, int, int, int]],
    node: str,
    size: int,
    priority: int,
    reclaim: str,
) -> None:
    book, runs = build(guaranteed, running)
    own = dict(zip(NODES, guaranteed, strict=True))
    item = Item("asks", node, priority, 99, {GPU: size}, size)
    asked = book.ask(node, item.requests.items())
    if blocked(asked) is None:
        return
    policy = Preemption(reclaim=reclaim)  # type: ignore[arg-type]
    who = Preemptor(item, asked, book.weight(asked), policy, 60, lambda run: 0)
    before = used(book)
    found = choose(who, book, runs, Anywhere())
    assert used(book) == before, "nothing is changed by asking"
    within = before[node] + size <= own[node]
    if isinstance(found, NoVictims):
        # Then not even all that may go would do, or a bound forbids it.
        lower = sum(
            run.item.requests[GPU]
            for run in runs.nodes.get(node, {}).values()
            if run.item.priority < priority
        )
        if found.why == "nothing that runs may be evicted for it":
            assert lower == 0
            assert (
                reclaim != "Any"
                or not within
                or all(before[name] <= own[name] for name in NODES if name != node)
            )
        return
    assert isinstance(found, Victims)
    gone = [runs.by_uid[uid] for uid in found.uids]
    for run in gone:
        if run.item.quota == node or reclaim == "LowerPriority":
            assert run.item.priority < priority
        assert run.item.quota == node or reclaim != "Never"
    taken = {name: [r.item.requests[GPU] for r in gone if r.item.quota == name] for name in NODES}
    for name, sizes in taken.items():
        if sizes and name != node:
            assert before[node] - sum(taken[node]) + size <= own[node], "it would borrow itself"
            left = before[name] - sum(sizes)
            assert left + max(sizes) > own[name], "of what is guaranteed to others"
    for run in gone:
        apply(run.asked, -1)
    assert blocked(asked) is None, "not enough"
    for run in gone:
        apply(run.asked)
        assert blocked(asked) is not None, f"{run.item.uid} need not go"
        apply(run.asked, -1)
