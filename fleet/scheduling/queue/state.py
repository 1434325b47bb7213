"""What the engine knows: what waits, what runs, what is held for whom.

Small moves that keep its parts in step: each changes book, Placer, lines and runs together.
`deciding`, `holding` and `evicting` decide over it, `fleet.scheduling.engine` brings the events.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappush
from typing import TYPE_CHECKING, Final

from fleet.scheduling.queue.lines import Line, Lines
from fleet.scheduling.queue.marks import Mark, Marks
from fleet.scheduling.queue.running import Run, Runs
from fleet.scheduling.quota.book import Book, apply, level, most_ever

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Mapping

    from fleet.scheduling.placer import Item, Placed, Placer
    from fleet.scheduling.queue.marks import InNode
    from fleet.scheduling.queue.rules import Rules
    from fleet.scheduling.quota.book import Ask
    from fleet.scheduling.quota.tree import Key, Node, Tree


_BEFORE_ALL: Final = 1 << 160
"""Taken off the sequence of what has to start now for its deadline; sequences are smaller."""


class Root:
    """One tree's part of the state; work that no tree counts has one of its own."""

    __slots__ = ("awake", "marks", "stirred", "version", "wants_room")

    def __init__(self, outlook: int) -> None:
        self.marks = Marks(outlook)
        self.awake: dict[str, dict[Line, None]] = {}
        self.stirred = True
        """Something may have become free: all of its lines are tried."""
        self.wants_room = False
        """Something of it waits for capacity of members."""
        self.version = 0
        """Goes up with each admission: what was computed before may be wrong."""


class State:
    def __init__(self, tree: Tree, placer: Placer, rules: Rules) -> None:
        self.rules = rules
        self.placer = placer
        self.book = Book(tree)
        self.runs = Runs()
        self.lines = Lines()
        self.roots: dict[str, Root] = {}
        self.since: dict[str, float] = {}
        """When work began to wait."""
        self.evictions: dict[str, int] = {}
        self.failed: dict[str, tuple[int, float]] = {}
        """Preemptors that did not start after all: how often, and when they may try again."""
        self.reclaimed: dict[str, deque[tuple[float, int]]] = {}
        """What a node took back lately: when, and how many accelerators."""
        self.timers: list[tuple[float, str]] = []
        """When a node's lines are to be tried again though nothing happened."""
        self.searched: dict[str, Mark] = {}
        """Gangs that have quota and wait for capacity, for which room is kept."""
        self._root_names: dict[str, str] = {}

    # Looking up

    def root_name(self, node: str) -> str:
        name = self._root_names.get(node)
        if name is None:
            tree = self.book.tree
            name = tree.path(node)[-1].name if node in tree.nodes else ""
            self._root_names[node] = name
        return name

    def root(self, node: str) -> Root:
        name = self.root_name(node)
        root = self.roots.get(name)
        if root is None:
            root = self.roots[name] = Root(self.rules.outlook)
        return root

    def node(self, name: str) -> Node | None:
        return self.book.tree.nodes.get(name)

    def asked(self, item: Item, requests: Mapping[Key, int] | None = None) -> Ask:
        return self.book.ask(item.quota, (requests or item.requests).items())

    def weight(self, item: Item, asked: Ask) -> int:
        """The size of a gang next to others of its tree; of those that no quota counts as well."""
        return self.book.weight(asked) if asked else item.pieces

    def is_aged(self, item: Item, now: float) -> bool:
        """Whether it has waited so long that nothing newer may pass it."""
        return now - self.since[item.uid] >= self.rules.aging_s

    def in_node(self, line: Line, now: float) -> InNode:
        item = line.first
        late = item.latest_s is not None and item.latest_s <= now
        sequence = item.sequence - _BEFORE_ALL if late else item.sequence
        return not self.is_aged(item, now), -line.priority, sequence, item.uid

    def turn(self, line: Line, node: str, now: float) -> tuple[int, bool, int, int]:
        """When its turn is, next to what a node has. Of another node, that has less of what is
        guaranteed to it perhaps."""
        first = line.first
        mark = self.root(line.node).marks.by_uid.get(first.uid)
        held = mark.holding if mark is not None else ()
        apply(held, -1)
        height = level(line.asked)
        apply(held)
        sequence = first.sequence if line.node == node else -1
        return height, not self.is_aged(first, now), -line.priority, sequence

    # Waking

    def stir(self, node: str) -> None:
        self.root(node).stirred = True

    def stir_capacity(self, *, changed: bool = False) -> None:
        """`changed`: not only by what ended, so places that were kept may be no more."""
        if changed:
            for mark in self.searched.values():
                mark.foreseen = False
        for root in self.roots.values():
            root.stirred = root.stirred or root.wants_room

    def wake_at(self, at_s: float, node: str) -> None:
        heappush(self.timers, (at_s, node))

    # Waiting

    def queue(self, item: Item) -> None:
        if item.latest_s is not None:
            self.wake_at(item.latest_s, item.quota)
        line = self.lines.add(item, self.asked(item))
        if len(line.items) == 1:
            least = self.asked(item, item.least) if item.least is not None else line.asked
            line.possible = all(amount <= most_ever(path) for path, amount in least)
        self.root(item.quota).awake.setdefault(item.quota, {})[line] = None

    def unqueue(self, uid: str) -> Item:
        item = self.lines.remove(uid)
        self.drop_mark(self.root(item.quota), uid)
        return item

    def forget(self, uid: str) -> None:
        for known in (self.since, self.evictions, self.failed):
            known.pop(uid, None)

    def drop_mark(self, root: Root, uid: str) -> None:
        mark = root.marks.by_uid.get(uid)
        if mark is None:
            return
        if any(mark.held):
            root.stirred = True
        root.marks.drop(uid, self.book)
        self.searched.pop(uid, None)
        self.give_place(mark)

    def give_place(self, mark: Mark) -> None:
        """The place that was kept for it, if any, is free."""
        if mark.placed is not None:
            self.placer.give(mark.item.uid)
            mark.placed = None

    # Running

    def run(self, run: Run) -> None:
        item = run.item
        run.asked = run.asked or self.asked(item)
        run.weight = self.weight(item, run.asked)
        self.book.charge(item.uid, item.generation, item.quota, item.requests, asked=run.asked)
        self.runs.add(run, self.root_name(item.quota))

    def admit(
        self, root: Root, item: Item, placed: Placed, asked: Ask, lifted: list[Mark], now: float
    ) -> Item:
        """What was charged. `lifted`: earmarks whose part of the book's sums was taken out."""
        if placed.amounts is not None:
            item = replace(item, requests=placed.amounts)
            asked = self.asked(item)
        if lifted:
            root.marks.let_go(lifted, self.book)
        self.drop_mark(root, item.uid)
        run = Run(item, placed, asked, 0, now, self.evictions.get(item.uid, 0))
        run.whole = self.lines.remove(item.uid)
        self.failed.pop(item.uid, None)
        self.run(run)
        self.placer.take(item.uid, placed)
        root.version += 1
        if root.marks.by_uid:
            root.marks.top_up(self.book)
        return item

    def ended(self, uid: str) -> Run:
        """It runs no more; what it had is free, for whom it left first."""
        run = self.runs.remove(uid, self.root_name(self.runs.by_uid[uid].item.quota))
        self.book.release(uid)
        self.placer.give(uid)
        if run.leaving_for and run.leaving_for in self.lines.of:
            node = self.lines.of[run.leaving_for].node
            mark = self.root(node).marks.by_uid.get(run.leaving_for)
            if mark is not None and mark.preempts:
                mark.victims.discard(uid)
                self.root(node).marks.hand_over(mark, run.asked, self.book)
            self.stir(node)
        self.stir(run.item.quota)
        self.stir_capacity()
        return run

    def change_tree(self, tree: Tree) -> None:
        """Everything is counted anew. Earmarks begin again, those of preemptors go on."""
        preemptors = []
        for root in self.roots.values():
            for mark in root.marks.ordered():
                self.book.release(mark.item.uid)
                if mark.preempts:
                    preemptors.append(mark)
                else:
                    self.give_place(mark)
        waiting = [item for line in {*self.lines.of.values()} for item in line.items.values()]
        self.book = Book.over(tree, self.book)
        old_runs, self.runs = self.runs, Runs()
        self.lines, self.roots, self._root_names, self.searched = Lines(), {}, {}, {}
        for run in old_runs.by_uid.values():
            run.asked = self.book.asked(run.item.uid)
            run.weight = self.weight(run.item, run.asked)
            self.runs.add(run, self.root_name(run.item.quota))
        for item in waiting:
            self.queue(item)
        for old in preemptors:
            mark = Mark(old.item, self.asked(old.item), old.order, old.since_s)
            mark.victims, mark.placed, mark.expires_s = old.victims, old.placed, old.expires_s
            self.root(old.item.quota).marks.put(mark)
