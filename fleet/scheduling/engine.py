"""The one scheduling engine: a state machine from events to decisions.

Events change what waits, what runs, the quota tree or what members have; `step` then decides until
nothing more can start. Who may is `quota` and `queue`, where is the Placer, for whom something must
go is `preemption`. Every decision is written into the book and the Placer before the next is made,
so no two see the same room (karmada#1385, kueue#14570). Time and sequences are passed in; the order
of events between two steps changes nothing. What ends by the platform's will is queued again where
it stood (jobset#1117), and nothing is given up for having been tried often (kueue#15255).

Invariant, checked on line every few decisions: the book's sums are its charges'. Next step: the
gateway, `simulation` and the benches feed it and act on what it says.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from heapq import heappop
from typing import TYPE_CHECKING, Final

from fleet.errors import InternalError
from fleet.scheduling.decisions import Admit, Wait
from fleet.scheduling.queue import asking, evicting, holding, settled
from fleet.scheduling.queue.deciding import Turn
from fleet.scheduling.queue.rules import Rules
from fleet.scheduling.queue.running import Run
from fleet.scheduling.queue.state import State
from fleet.scheduling.quota.book import apply, blocked, level
from fleet.scheduling.quota.report import lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fleet.scheduling.decisions import Decision, Preempt, Why
    from fleet.scheduling.placer import Item, Placed, Placer
    from fleet.scheduling.quota.book import Book
    from fleet.scheduling.quota.report import Line
    from fleet.scheduling.quota.tree import Key, Tree

_VERIFY_EVERY: Final = 1000


class Engine:
    def __init__(self, tree: Tree, placer: Placer, *, rules: Rules | None = None) -> None:
        self._state = State(tree, placer, rules or Rules())
        self._adopted: dict[str, set[str]] = {}
        """Preemptors and their victims, from before the state was made anew."""
        self._earmarked: dict[str, float] = {}
        """Those for whom room was held, from before the state was made anew."""
        self._unverified = 0
        self._tries_all = False
        self.settled_s: float | None = None
        """Until when another step over the same members would decide nothing else, if no event
        comes before; None where the next one may."""

    @property
    def book(self) -> Book:
        return self._state.book

    # Events

    def submit(self, item: Item, now: float, *, earmarked_s: float | None = None) -> None:
        """Also what changed while it waits. Of what runs, only its priority, its run time and how
        often it saves count.

        `earmarked_s`: since when room was held for it before the state was made anew.
        """
        state = self._state
        run = state.runs.by_uid.get(item.uid)
        if run is not None:
            if _told_of(run.item) != _told_of(item):
                self.settled_s = None
                state.runs.change(run, item, state.root_name(run.item.quota))
                state.root(run.item.quota).marks.changed()  # they are foreseen by when it ends
                state.stir(run.item.quota)
                state.stir_capacity(changed=True)
            return
        self.settled_s = None
        if item.uid in state.lines.of:
            state.unqueue(item.uid)
        state.since.setdefault(item.uid, now)
        state.queue(item)
        if earmarked_s is not None:
            self._earmarked[item.uid] = earmarked_s

    def withdraw(self, uid: str) -> None:
        """It was deleted while it waited."""
        if uid in self._state.lines.of:
            self.settled_s = None
            self._state.stir(self._state.unqueue(uid).quota)
        self._state.forget(uid)

    def finish(self, uid: str) -> None:
        """It has ended by itself, or was deleted; what it had is free."""
        if uid in self._state.runs.by_uid:
            self.settled_s = None
            self._state.ended(uid)
        self._state.forget(uid)

    def spare(self, uid: str) -> None:
        """It was to go, was not told yet, and need not: who it was for waits no more."""
        run = self._state.runs.by_uid.get(uid)
        if run is not None and run.leaving_for not in self._state.lines.of:
            run.leaving_for = ""
            self.settled_s = None
            self._state.stir(run.item.quota)

    def evicted(self, uid: str, now: float) -> None:
        """The platform ended it, or a member did: it waits again, in the place it had."""
        state = self._state
        if uid not in state.runs.by_uid:
            return
        self.settled_s = None
        run = state.ended(uid)
        state.evictions[uid] = run.evictions + 1
        state.since[uid] = now
        state.queue(replace(run.whole, generation=run.item.generation + 1))

    def resize(self, uid: str, generation: int, requests: Mapping[Key, int]) -> bool:
        """One change of what a running gang holds, e.g. without its finished indexes.

        False if as new a generation is known, or it needs more than is available: nothing changed.
        """
        state = self._state
        run = state.runs.by_uid.get(uid)
        if run is None or generation <= state.book.charges[uid].generation:
            return False
        asked = state.asked(run.item, requests)
        apply(run.asked, -1)
        grows = any(amount > run.item.requests.get(key, 0) for key, amount in requests.items())
        fits = not grows or blocked(asked) is None
        apply(run.asked)
        if not fits:
            return False
        self.settled_s = None
        state.book.charge(uid, generation, run.item.quota, requests)
        run.item = replace(run.item, generation=generation, requests=requests)
        run.asked = asked
        run.weight = state.weight(run.item, asked)
        state.stir(run.item.quota)
        return True

    def affords(self, uid: str, requests: Mapping[Key, int]) -> bool:
        """Whether a running gang could hold that much, and borrow no more than it does if it
        borrows nothing: a borrower may have to go."""
        state = self._state
        run = state.runs.by_uid.get(uid)
        if run is None:
            return False
        asked = state.asked(run.item, requests)
        apply(run.asked, -1)
        own = level(run.asked) == 0
        fits = blocked(asked) is None and not (own and level(asked) > 0)
        apply(run.asked)
        return fits

    def gives_way(self, uid: str, now: float) -> bool:
        """Whether what a running gang has of a quota might go to others that wait for it, if it
        waited too: they come before it, or it is not certain that they do not."""
        state = self._state
        run = state.runs.by_uid[uid]
        root = state.root_name(run.item.quota)
        apply(run.asked, -1)
        mine = level(run.asked), True, -run.item.priority, run.item.sequence
        before = any(
            state.turn(line, run.item.quota, now) < mine
            for node, waiting in state.lines.nodes.items()
            if state.root_name(node) == root
            for line in waiting.values()
            if line.why is not None and line.why.reason == "Quota"
        )
        apply(run.asked)
        return before

    def saved(self, uid: str, at: float | None) -> None:
        """When its last checkpoint was complete; None where nobody says."""
        run = self._state.runs.by_uid.get(uid)
        if run is not None and run.saved_s != at:
            run.saved_s = at  # whoever is weighed against it is never at rest
            marks = self._state.root(run.item.quota).marks.by_uid.values()
            if any(mark.saves for mark in marks):  # or somebody else loses less than those
                self._state.stir(run.item.quota)

    def lets_save(self) -> bool:
        """Whether anybody waits until others have saved: what those say is news then."""
        return any(
            mark.saves for root in self._state.roots.values() for mark in root.marks.by_uid.values()
        )

    def quota_changed(self, tree: Tree) -> None:
        """What runs stays charged, wherever limits are put; earmarks collect anew, and keep age."""
        self.settled_s = None
        self._earmarked = self.earmarks() | self._earmarked
        self._state.change_tree(tree)

    def lend(self, node: str, lent: Mapping[Key, int]) -> None:
        """What of a node's is on loan, of which it lends by loans only (`Share.lent`)."""
        changed = [self._state.book.lend(node, key, amount) for key, amount in lent.items()]
        if any(changed):
            self.settled_s = None
            self._state.root(node).marks.changed()
            self._state.stir(node)

    def capacity_changed(self) -> None:
        """Members have more or less than before, or another search may find what one did not."""
        self._tries_all, self.settled_s = True, None
        self._state.stir_capacity(changed=True)

    def set_unmanaged(self, node: str, source: str, amounts: Mapping[Key, int]) -> None:
        if self._state.book.set_unmanaged(node, source, amounts):
            self.settled_s = None
            self._state.stir(node)

    def lose(self, uid: str, shard: str, amounts: Mapping[Key, int]) -> None:
        """A shard is out of reach: what it had is in the failover reserve until `fenced`."""
        run = self._state.runs.by_uid.get(uid)
        if run is None or (uid, shard) in self._state.book.lost:
            return
        self.settled_s = None
        self._state.book.lose(uid, shard, amounts)
        charge = self._state.book.charges[uid]
        run.item = replace(run.item, requests=dict(charge.amounts))
        run.asked = self._state.book.asked(uid)
        self._state.stir(run.item.quota)

    def fenced(self, uid: str, shard: str) -> None:
        charge = self._state.book.lost.get((uid, shard))
        if charge is not None and self._state.book.fenced(uid, shard):
            self.settled_s = None
            self._state.stir(charge.node)

    def adopt(
        self,
        item: Item,
        placed: Placed,
        started_s: float,
        *,
        requests: Mapping[Key, int] | None = None,
        evictions: int = 0,
        saved_s: float | None = None,
        leaving_for: str = "",
    ) -> None:
        """It runs already: how the state is made anew from what there is.

        `requests`: what it holds, where that is not all that was asked for.
        """
        self.settled_s = None
        held = item if requests is None else replace(item, requests=requests)
        run = Run(held, placed, (), 0, started_s, evictions, saved_s, leaving_for)
        run.whole = item
        self._state.placer.take(item.uid, placed)
        self._state.run(run)
        self._state.since.setdefault(item.uid, started_s)
        self._state.evictions[item.uid] = evictions
        if leaving_for:
            self._adopted.setdefault(leaving_for, set()).add(item.uid)

    def taken_back(self) -> dict[str, list[tuple[float, int]]]:
        """What nodes with a bound on that took back from others in the last minute: when, and how
        many accelerators (pods, of work without). To be given to `took_back` after a restart.
        """
        return {node: [*recent] for node, recent in self._state.reclaimed.items() if recent}

    def took_back(self, node: str, recent: Iterable[tuple[float, int]]) -> None:
        """It was so before the state was made anew."""
        self._state.reclaimed[node] = deque(sorted(recent))

    def fork(self, placer: Placer) -> Engine:
        """An engine with the same work, quota and earmarks over another Placer, which knows the
        members but nothing of what runs: for asking without acting.
        """
        state = self._state
        other = Engine(state.book.tree, placer, rules=state.rules)
        for run in sorted(state.runs.by_uid.values(), key=lambda run: run.started_s):
            other.adopt(
                replace(run.whole, generation=run.item.generation),
                run.placed,
                run.started_s,
                requests=run.item.requests,
                evictions=run.evictions,
                saved_s=run.saved_s,
                leaving_for=run.leaving_for,
            )
        for (node, source), charge in state.book.unmanaged.items():
            other.set_unmanaged(node, source, dict(charge.amounts))
        for (node, key), amount in state.book.lent.items():
            other.book.lend(node, key, amount)
        other.book.lose_again(state.book)
        other._state.failed = dict(state.failed)
        for node, recent in self.taken_back().items():
            other.took_back(node, recent)
        earmarks = self.earmarks()
        for item, _ in self.waiting():
            other.submit(item, state.since[item.uid], earmarked_s=earmarks.get(item.uid))
        return other

    # Answers

    def ask(self, item: Item, now: float) -> Admit | Preempt | None:
        """What would be decided about one that need not be there, after a step that left nothing
        to decide; None where it would wait. Nothing is changed by it: see `queue.asking`."""
        return asking.ask(self._state, item, now)

    def step(self, now: float) -> list[Decision]:
        """Decide until nothing more can start. Everything returned is in the state already."""
        state = self._state
        out: list[Decision] = []
        before = settled.earmarks_of(state)
        adopted, self._adopted = self._adopted, {}
        self._adopted = evicting.resume(state, adopted, now)
        earmarked, self._earmarked = self._earmarked, {}
        holding.resume(state, earmarked, now)
        evicting.expire(state, now)
        while state.timers and state.timers[0][0] <= now:
            state.stir(heappop(state.timers)[1])
        for _ in range(2):
            # Once more for what a dropped earmark left; anything else waits for an event.
            for name in sorted(n for n, root in state.roots.items() if root.stirred or root.awake):
                Turn(state, name, now, out).decide()
        quiet = all(isinstance(each, Wait) for each in out) and not self._adopted
        tries_all, self._tries_all = self._tries_all, False
        if not quiet or settled.earmarks_of(state) != before:
            self.settled_s = None
        elif tries_all:
            self.settled_s = settled.until(state, now)
        self._unverified += len(out)
        if self._unverified > max(_VERIFY_EVERY, len(state.book.charges)):
            self.verify()
        return out

    def start(self, uid: str, placed: Placed, now: float) -> Admit | None:
        """Start one that waits, out of its turn: on what was made available for it alone.

        None where quota stands against it, or something is evicted for it. `placed` is the
        Placer's answer, with nothing decided since.
        """
        state = self._state
        line = state.lines.of.get(uid)
        if line is None:
            return None
        item, root = line.items[uid], state.root(line.node)
        own = root.marks.by_uid.get(uid)
        if own is not None and own.preempts:
            return None
        held = own.holding if own is not None else ()
        apply(held, -1)
        if blocked(line.asked) is not None:
            apply(held)
            return None
        self.settled_s = None
        lifted = [own] if own is not None else []
        charged = state.admit(root, item, placed, line.asked, lifted, now)
        return Admit(charged, placed, charged.requests)

    def next_s(self) -> float | None:
        """When `step` should be asked again even if nothing happens."""
        times = [self._state.timers[0][0]] if self._state.timers else []
        for root in self._state.roots.values():
            times += [mark.expires_s for mark in root.marks.preemptors() if mark.expires_s]
        return min(times, default=None)

    def waiting(self) -> Iterator[tuple[Item, Why | None]]:
        """All that wait, by node, in order; with why, once it was tried."""
        nodes = self._state.lines.nodes
        for node in sorted(nodes):
            in_order = sorted(
                nodes[node].values(), key=lambda line: (-line.priority, line.first.sequence)
            )
            for line in in_order:
                for item in line:
                    yield item, line.why

    def waits(self, uid: str) -> Item | None:
        """One that waits."""
        line = self._state.lines.of.get(uid)
        return None if line is None else line.items[uid]

    def why(self, uid: str) -> Why | None:
        """Why one waits, once it was tried."""
        return self._state.lines.of[uid].why

    def since(self, uid: str) -> float:
        """When one that waits began to."""
        return self._state.since[uid]

    def running(self) -> Mapping[str, Run]:
        return self._state.runs.by_uid

    def earmarks(self) -> dict[str, float]:
        """Since when room is held for whom: to be given to `submit` after a restart."""
        marks = [mark for root in self._state.roots.values() for mark in root.marks.ordered()]
        return {mark.item.uid: mark.since_s for mark in marks if not mark.preempts}

    def foreseen(self) -> dict[str, float]:
        """When those for whom something is held start, where that is known."""
        marks = [mark for root in self._state.roots.values() for mark in root.marks.ordered()]
        return {mark.item.uid: mark.starts_s for mark in marks if mark.starts_s is not None}

    def report(self) -> list[Line]:
        """The lines of `fleet quota`."""
        return lines(self.book, ((item.quota, item.requests) for item, _ in self.waiting()))

    def verify(self) -> None:
        """Raises InternalError where sums and charges differ: nothing decided after is worth it."""
        self._unverified = 0
        if found := self.book.verify():
            raise InternalError("the quota book does not add up: " + "; ".join(found))


def _told_of(item: Item) -> tuple[object, ...]:
    """What may be another of work that runs."""
    return item.priority, item.run_time_s, item.saves_every_s, item.restart_s
