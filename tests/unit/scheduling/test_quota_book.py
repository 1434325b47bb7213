"""The quota tree: what may be admitted where, and what it all adds up to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.errors import Invalid
from fleet.scheduling.quota.book import Book, blocked, level, room
from fleet.scheduling.quota.report import lines
from fleet.scheduling.quota.tree import Key, Node, Share, Tree, faults

GPU = Key("nvidia.com/gpu", "h200")
CPU = Key("cpu")


def node(name: str, parent: str = "", reserve: int = 0, **share: int | None) -> Node:
    return Node(
        name,
        parent,
        {GPU: Share(**share)} if share else {},  # type: ignore[arg-type]
        {GPU: reserve} if reserve else {},
    )


def research(**more: Node) -> Book:
    """root 64 = research 40 (nlp 24, cv 16) + serving 24."""
    nodes = {
        "root": node("root", guaranteed=64),
        "research": node("research", "root", guaranteed=40, limit=64),
        "nlp": node("nlp", "research", guaranteed=24, limit=40),
        "cv": node("cv", "research", guaranteed=16, limit=40),
        "serving": node("serving", "root", guaranteed=24, limit=24),
    }
    return Book(Tree.of({**nodes, **more}.values()))


def admits(book: Book, name: str, amount: int) -> bool:
    return blocked(book.ask(name, [(GPU, amount)])) is None


def of(book: Book, name: str) -> Any:
    return next(line for line in lines(book) if line.node == name)


def test_a_node_uses_its_own_then_what_others_leave_idle_up_to_its_limit() -> None:
    book = research()
    assert book.available("nlp", GPU) == 40
    book.charge("a", 1, "nlp", {GPU: 38})
    book.charge("b", 1, "cv", {GPU: 8})
    assert book.available("nlp", GPU) == 2
    assert book.available("cv", GPU) == 18, "its own 16 less 8, and what is left of the root's 64"
    book.charge("c", 1, "serving", {GPU: 12})
    assert book.available("cv", GPU) == 6
    assert [(line.node, line.used, line.borrowed, line.lent) for line in lines(book)] == [
        ("root", 58, 0, 0),
        ("research", 46, 6, 0),
        ("cv", 8, 0, 8),
        ("nlp", 38, 14, 0),
        ("serving", 12, 0, 6),
    ]


def test_what_a_node_keeps_to_itself_nobody_can_borrow() -> None:
    book = research(serving=node("serving", "root", guaranteed=24, lendable=4))
    assert book.available("nlp", GPU) == 40
    book.charge("a", 1, "nlp", {GPU: 40})
    assert book.available("cv", GPU) == 4
    book.charge("b", 1, "cv", {GPU: 4})
    assert book.available("cv", GPU) == 0
    assert book.available("serving", GPU) == 20


def test_a_limit_leaves_room_for_what_those_below_keep_to_themselves() -> None:
    book = research(
        research=node("research", "root", guaranteed=40, limit=44),
        cv=node("cv", "research", guaranteed=16, lendable=0),
    )
    assert book.available("nlp", GPU) == 28, "44 less the 16 that only cv may have"
    book.charge("a", 1, "nlp", {GPU: 28})
    assert book.available("cv", GPU) == 16
    book.charge("b", 1, "cv", {GPU: 16})
    assert book.overcommitted() == {}


def test_what_a_parent_has_beyond_its_children_is_a_pool_for_all() -> None:
    book = Book(
        Tree.of([node("root", guaranteed=10), node("a", "root", guaranteed=2), node("b", "root")])
    )
    assert (book.available("a", GPU), book.available("b", GPU)) == (10, 10)
    book.charge("x", 1, "b", {GPU: 9})
    assert of(book, "a").lent == 1
    assert level(book.ask("b", [(GPU, 1)])) == 1


def test_work_of_a_resource_nobody_speaks_of_is_not_limited() -> None:
    book = research()
    assert book.available("nlp", CPU) is None
    assert blocked(book.ask("nlp", [(CPU, 1 << 80)])) is None


def test_kinds_of_accelerator_that_no_line_counts_cannot_be_used() -> None:
    other = Key("nvidia.com/gpu", "b200")
    assert research().available("nlp", other) == 0
    both = Tree.of(
        [
            Node("root", "", {GPU: Share(8), Key("nvidia.com/gpu"): Share(4)}),
            Node("a", "root", {GPU: Share(8)}),
            Node("b", "root"),
        ]
    )
    book = Book(both)
    assert book.available("b", other) == 4, "any other kind"
    assert book.available("a", other) == 0, "has a line for one kind only"
    book.charge("x", 1, "b", {other: 1, Key("nvidia.com/gpu", "a100"): 2})
    assert book.available("b", other) == 1


def test_children_guaranteed_more_than_their_parent_are_refused_with_their_names() -> None:
    with pytest.raises(Invalid) as told:
        research(cv=node("cv", "research", guaranteed=17))
    assert told.value.details is not None
    assert [cause.field for cause in told.value.details.causes] == [
        "spec.resources[nvidia.com/gpu (h200)].guaranteed"
    ]
    assert "41 nvidia.com/gpu (h200) guaranteed below node research (cv 17, nlp 24)" in str(
        told.value
    )


def test_a_node_that_says_nothing_has_what_its_children_have() -> None:
    given = [node("root", guaranteed=10), node("mid", "root"), node("a", "mid", guaranteed=11)]
    assert [(name, field) for name, field, _ in faults(given)] == [
        ("root", "spec.resources[nvidia.com/gpu (h200)].guaranteed")
    ]
    book = Book(Tree.of([node("mid"), node("a", "mid", guaranteed=11)]))
    assert book.cell("mid", GPU).guaranteed == 11


@pytest.mark.parametrize(
    ("nodes", "field", "told"),
    [
        ([node("a", "b"), node("b", "c"), node("c", "a")], "spec.parent", "a → b → c → a is a"),
        ([node("a", "a")], "spec.parent", "a → a is a ring"),
        ([node("a", "x")], "spec.parent", "x of node a is no FleetQuota"),
        ([node("a"), node("a")], "metadata.name", "'a' is there twice"),
        ([node("a", guaranteed=-1)], f"spec.resources[{GPU}].guaranteed", "negative"),
        ([node("a", guaranteed=3, limit=2)], f"spec.resources[{GPU}].limit", "less than"),
        (
            [node("a", guaranteed=3, lendable=4)],
            "spec.resources[nvidia.com/gpu (h200)].lendable",
            "more than its guaranteed 3",
        ),
        ([node("a", guaranteed=3, reserve=4)], "spec.failoverReserve", "between 0 and"),
    ],
)  # fmt: skip
def test_what_is_no_tree_is_refused_with_field_and_node(
    nodes: list[Node], field: str, told: str
) -> None:
    found = faults(nodes)
    assert (found[0][1], told in found[0][2]) == (field, True)
    with pytest.raises(Invalid):
        Tree.of(nodes)


def test_a_charge_is_written_once_and_a_late_one_changes_nothing() -> None:
    book = research()
    assert book.charge("a", 2, "nlp", {GPU: 4})
    assert not book.charge("a", 2, "nlp", {GPU: 4})
    assert not book.charge("a", 2, "nlp", {GPU: 9}), "the same generation says the same"
    assert not book.charge("a", 1, "nlp", {GPU: 9})
    assert not book.release("a", generation=1), "the end of an older generation"
    assert of(book, "nlp").used == 4
    assert book.release("a", generation=2)
    assert of(book, "nlp").used == 0


def test_a_resize_is_one_change_ordered_by_generation_not_by_clock() -> None:
    """kueue#11195, kueue#11553: the old slice went before the new one came, or out of order."""
    book = research()
    book.charge("a", 1, "nlp", {GPU: 4})
    for generation, size in [(3, 8), (2, 40), (4, 6), (3, 8)]:
        book.charge("a", generation, "nlp", {GPU: size})
    assert of(book, "nlp").used == 6
    assert book.verify() == []


def test_lost_work_is_in_the_reserve_until_it_is_fenced() -> None:
    book = research(research=node("research", "root", guaranteed=40, limit=64, reserve=4))
    assert book.available("nlp", GPU) == 40
    book.charge("a", 1, "nlp", {GPU: 40})
    book.charge("b", 1, "cv", {GPU: 20})
    assert book.available("nlp", GPU) == 0, "4 of 64 are kept for failover"
    assert (of(book, "research").used, of(book, "research").reserved) == (60, 4)
    book.lose("a", "idc-b", {GPU: 4})
    assert book.available("nlp", GPU) == 4, "the replacement is admitted before the old is fenced"
    book.charge("a", 2, "nlp", {GPU: 40})
    assert (of(book, "research").used, of(book, "research").reserved) == (64, 0)
    assert of(book, "nlp").used == 40
    assert (of(book, "research").lost, of(book, "nlp").lost) == (4, 0)
    assert book.overcommitted() == {}
    assert book.fenced("a", "idc-b")
    assert not book.fenced("a", "idc-b")
    assert (of(book, "research").used, of(book, "research").reserved) == (60, 4)
    assert book.verify() == []


def test_lost_work_beyond_the_reserve_still_counts() -> None:
    book = research(nlp=node("nlp", "research", guaranteed=24, limit=40, reserve=2))
    book.charge("a", 1, "nlp", {GPU: 38})
    book.lose("a", "idc-b", {GPU: 10})
    assert book.available("nlp", GPU) == 2
    assert of(book, "nlp").used == 38


def test_what_members_run_by_themselves_is_a_line_of_its_own_and_may_overcommit() -> None:
    book = research()
    book.charge("a", 1, "serving", {GPU: 20})
    book.set_unmanaged("serving", "idc-a", {GPU: 9})
    assert book.overcommitted() == {("serving", GPU): 5}
    assert not admits(book, "serving", 1)
    assert (of(book, "serving").used, of(book, "serving").unmanaged) == (29, 9)
    book.set_unmanaged("serving", "idc-a", {GPU: 2})
    assert book.overcommitted() == {}
    assert admits(book, "serving", 2)
    book.set_unmanaged("serving", "idc-a", {})
    assert book.verify() == []
    assert of(book, "serving").unmanaged == 0


def test_lowered_limits_end_nothing_and_admit_nothing() -> None:
    book = research()
    book.charge("a", 1, "nlp", {GPU: 30})
    lower = Tree.of(
        [
            node("root", guaranteed=64),
            node("research", "root", guaranteed=40),
            node("nlp", "research", guaranteed=10, limit=20),
        ]
    )
    book = Book.over(lower, book)
    assert book.overcommitted() == {("nlp", GPU): 10}
    assert not admits(book, "nlp", 1)
    assert of(book, "nlp").used == 30


def test_a_node_that_was_deleted_takes_its_share_along_and_leaves_its_use() -> None:
    """kueue#5985: its quota stayed in the parent's cached sum."""
    book = research()
    book.charge("a", 1, "cv", {GPU: 8})
    smaller = Tree.of(
        each for each in book.tree.nodes.values() if each.name not in ("cv", "serving")
    )
    book = Book.over(smaller, book)
    assert book.verify() == []
    assert book.cell("research", GPU).used == 8
    assert book.available("nlp", GPU) == 40
    nowhere = Book.over(Tree.of([]), book)
    assert nowhere.outside == {"a"}
    assert Book.over(research().tree, nowhere).cell("root", GPU).used == 0, (
        "nobody says whose it is"
    )


def test_an_amount_of_any_size_is_counted_exactly() -> None:
    """kueue#11137: an overflow let a request pass."""
    book = research()
    for amount in (1 << 62, 1 << 63, (1 << 64) - 1, 1 << 64, 1 << 200):
        assert not admits(book, "nlp", amount)
    book.set_unmanaged("nlp", "idc-a", {GPU: 1 << 63})
    book.set_unmanaged("nlp", "idc-b", {GPU: 1 << 63})
    assert of(book, "root").used == 1 << 64
    assert not admits(book, "nlp", 1)


def test_what_is_guaranteed_is_there_to_the_last_piece_however_lending_rounds() -> None:
    """koordinator#2393: rounding gave 7 where 8 were guaranteed."""
    names = "abc"
    book = Book(
        Tree.of([node("root", guaranteed=24), *(node(n, "root", guaranteed=8) for n in names)])
    )
    book.charge("x", 1, "a", {GPU: 13})
    lent = {line.node: line.lent for line in lines(book)}
    assert lent == {"root": 0, "a": 0, "b": 3, "c": 2}
    book.release("x")
    for name in names:
        assert book.entitled(name, {GPU: 8})
        book.charge(name, 1, name, {GPU: 8})
        assert not book.entitled(name, {GPU: 1})
    assert [line.borrowed for line in lines(book)] == [0, 0, 0, 0]


NAMES = [f"n{i}" for i in range(7)]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    count = draw(st.integers(1, 7))
    parents = {f"n{i}": f"n{draw(st.integers(0, i - 1))}" if i else "" for i in range(count)}
    guaranteed: dict[str, int] = {}
    nodes = []
    for name in reversed(NAMES[:count]):
        below = sum(guaranteed[child] for child, parent in parents.items() if parent == name)
        guaranteed[name] = below + draw(st.integers(0, 6))
        limit = draw(st.none() | st.integers(guaranteed[name], guaranteed[name] + 20))
        lendable = draw(st.none() | st.integers(0, guaranteed[name]))
        reserve = draw(st.integers(0, 1)) if guaranteed[name] > below else 0
        nodes.append(
            node(
                name, parents[name], reserve,
                guaranteed=guaranteed[name], limit=limit, lendable=lendable,
            )
        )  # fmt: skip
    return Tree.of(nodes)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["admit", "admit", "admit", "release", "resize", "lose", "fence", "own"]),
        st.integers(0, 8),
        st.integers(0, 6),
        st.integers(1, 9),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(trees(), STEPS)
def test_admissions_keep_limits_and_sums_whatever_happens(
    tree: Tree, steps: list[tuple[str, int, int, int]]
) -> None:
    book = Book(tree)
    names = list(tree.nodes)
    unmanaged = False
    for number, (what, uid, at, amount) in enumerate(steps):
        name, work = names[at % len(names)], f"w{uid}"
        over = book.overcommitted()
        if what == "admit" and work not in book.charges:
            asked = book.ask(name, [(GPU, amount)])
            assert (blocked(asked) is None) == (amount <= room(asked[0][0]))
            if blocked(asked) is None:
                book.charge(work, number, name, {GPU: amount})
                assert book.overcommitted().keys() <= over.keys()
                assert all(v <= over[k] for k, v in book.overcommitted().items())
        elif what == "release":
            book.release(work)
        elif what == "resize" and work in book.charges:
            book.charge(work, number, book.charges[work].node, {GPU: 1})
        elif what == "lose":
            book.lose(work, "s", {GPU: amount})
        elif what == "fence":
            book.fenced(work, "s")
        elif what == "own":
            unmanaged = True
            book.set_unmanaged(name, "idc-a", {GPU: amount})
        assert book.verify() == []
        if not unmanaged:
            assert book.overcommitted() == {}
    _adds_up(book)


def _adds_up(book: Book) -> None:
    by_node = {line.node: line for line in lines(book)}
    for line in by_node.values():
        below = [by_node[name] for name in book.tree.children.get(line.node, ())]
        assert line.lent >= 0
        assert line.idle >= 0
        if below:
            pool = line.guaranteed - sum(each.guaranteed for each in below)
            lent = sum(each.lent for each in below)
            borrowed = sum(each.borrowed for each in below)
            assert lent <= max(0, borrowed + line.lent - line.borrowed + line.used + line.reserved)
            if line.used + line.reserved == sum(each.used + each.reserved for each in below):
                assert borrowed + line.lent <= lent + max(pool, 0) + line.borrowed
    assert Book.over(book.tree, book).verify() == []


@given(trees(), st.data())
def test_what_a_node_keeps_to_itself_is_always_there(tree: Tree, data: st.DataObject) -> None:
    book = Book(tree)
    names = list(tree.nodes)
    keeper = data.draw(st.sampled_from(names))
    below = set(tree.under(keeper))
    for number in range(12):
        name = data.draw(st.sampled_from(names))
        amount = data.draw(st.integers(1, 12))
        if name not in below and blocked(book.ask(name, [(GPU, amount)])) is None:
            book.charge(f"w{number}", 1, name, {GPU: amount})
    reserved = sum(tree.nodes[name].reserve.get(GPU, 0) for name in below)
    kept = book.cell(keeper, GPU).local - reserved
    if kept > 0:
        assert admits(book, keeper, kept)


def test_what_is_held_for_work_that_has_not_started_is_not_borrowed_and_not_to_be_had() -> None:
    book = research()
    book.charge("runs", 1, "nlp", {GPU: 24})
    book.charge("waits", 1, "nlp", {GPU: 12}, earmark=True)
    nlp, cv, serving = of(book, "nlp"), of(book, "cv"), of(book, "serving")
    assert (nlp.used - nlp.earmarked, nlp.borrowed) == (24, 0)
    assert (cv.lent, serving.lent) == (0, 0)
    assert cv.idle + serving.idle == 16 + 24 - 12
    assert book.verify() == []
    book.charge("waits", 1, "nlp", {GPU: 12})
    nlp, cv, serving = of(book, "nlp"), of(book, "cv"), of(book, "serving")
    assert (nlp.used - nlp.earmarked, nlp.borrowed) == (36, 12)
    assert cv.lent + serving.lent == 12
    assert not book.earmarks()
