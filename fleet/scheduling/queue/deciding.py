"""One tree's turn: its lines in order, each tried until it does not fit.

Order across nodes: what is within somebody's guaranteed amount before what borrows (kueue#3405),
then priority, then who uses least of what is guaranteed to it, then who came first. In a node:
aged work, priority, what has to start now for its deadline, sequence. What does not fit holds up
nobody but by its earmark, so a lender's head never keeps others from borrowing (kueue#4809).

An item is tried in this order: quota, quota with the earmarks that give way, a smaller size, a
place, eviction. Nothing is charged before there is a place.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from fleet.scheduling.decisions import Admit, Refuse, Wait, Why
from fleet.scheduling.placer import Placed, Unplaced
from fleet.scheduling.queue import evicting, holding
from fleet.scheduling.quota.book import apply, blocked, level, most_ever

if TYPE_CHECKING:
    from fleet.scheduling.decisions import Decision
    from fleet.scheduling.placer import Item
    from fleet.scheduling.queue.lines import Line
    from fleet.scheduling.queue.marks import InNode, Mark, Order
    from fleet.scheduling.queue.state import State
    from fleet.scheduling.quota.book import Ask, Blocked

_PARTS: Final = 64
"""Sizes that are tried between the least and the whole of an elastic gang."""
Precedence = tuple[int, bool, int, int, int, str]
"""Level of entitlement, not yet aged, priority, share in use, sequence, uid."""


class Turn:
    def __init__(self, state: State, name: str, now: float, out: list[Decision]) -> None:
        self.state = state
        self.root = state.roots[name]
        self.name = name
        self.now = now
        self.out = out

    def decide(self) -> None:
        self.root.marks.top_up(self.state.book)
        for mark in [*self.root.marks.preemptors()]:
            if mark.full and not mark.victims:
                admitted = evicting.start(self.state, self.root, mark, self.now)
                if admitted is not None:
                    self.out.append(admitted)
        queues = self._awake()
        heads = [
            (self._precedence(line), node, self.root.version)
            for node, queue in queues.items()
            if (line := self._next(queue)) is not None
        ]
        heapify(heads)
        while heads:
            precedence, node, version = heappop(heads)
            queue = queues[node]
            line = queue[0][2]
            if version != self.root.version:
                again = self._precedence(line)
                if again > precedence and heads and (again, node) > heads[0][:2]:
                    heappush(heads, (again, node, self.root.version))
                    continue
                precedence = again
            if not self._try(line, precedence):
                heappop(queue)
            elif line.items:
                place = (self.state.in_node(line, self.now), queue[0][1], line)
                heappop(queue)
                heappush(queue, place)
            following = self._next(queue)
            if following is not None:
                heappush(heads, (self._precedence(following), node, self.root.version))

    def _awake(self) -> dict[str, list[tuple[InNode, int, Line]]]:
        root, state = self.root, self.state
        awake, root.awake = root.awake, {}
        if root.stirred:
            root.stirred = root.wants_room = False
            awake = {
                node: dict.fromkeys(lines.values())
                for node, lines in state.lines.nodes.items()
                if state.root_name(node) == self.name
            }
        queues: dict[str, list[tuple[InNode, int, Line]]] = {}
        for node, found in awake.items():
            queue = [
                (state.in_node(line, self.now), number, line)
                for number, line in enumerate(found)
                if line.items
            ]
            heapify(queue)
            queues[node] = queue
        return queues

    def _next(self, queue: list[tuple[InNode, int, Line]]) -> Line | None:
        while queue and (not queue[0][2].items or self._is_hopeless(queue[0][2], queue[0][0])):
            heappop(queue)
        return queue[0][2] if queue else None

    def _is_hopeless(self, line: Line, place: InNode) -> bool:
        """Whether it was short of quota and still is, whatever gives way, and is not next in turn.

        Saves most of the work where thousands of different gangs wait.
        """
        if line.why is None or line.why.reason != "Quota":
            return False
        marks = self.root.marks
        if line.first.uid in marks.by_uid or line.first.least is not None:
            return False
        height = level(line.asked)
        order: Order = (height, *place)
        if not any(mark.order < order for mark in holding.rivals_of(self.root, line, height)):
            return False
        for path, amount in line.asked:
            held = sum(
                held
                for mark in marks.holders()
                for (other, _), held in zip(mark.asked, mark.held, strict=True)
                if other[-1] is path[-1]
            )
            kept = sum(max(0, cell.local - cell.flow) for cell in path[:-1])
            if amount > path[-1].free + held + kept:
                return True
        return False

    def _precedence(self, line: Line) -> Precedence:
        young, priority, sequence, uid = self.state.in_node(line, self.now)
        own = self.root.marks.by_uid.get(uid)
        held = own.holding if own is not None else ()
        apply(held, -1)
        height = level(line.asked)
        share = self.state.book.share(line.node)
        apply(held)
        return height, young, priority, share, sequence, uid

    def _try(self, line: Line, precedence: Precedence) -> bool:
        """True if its first item was admitted or refused, and the next may be tried."""
        state, root = self.state, self.root
        item = line.first
        own = root.marks.by_uid.get(item.uid)
        if own is not None and own.preempts:
            return self._park(line, Why("Evicting", starts_s=own.starts_s))
        if item.quota and item.quota not in state.book.tree.nodes:
            return self._park(line, Why("NoSuchQuota", node=item.quota))
        if not line.possible:
            path = next(path for path, amount in line.asked if amount > most_ever(path))
            return self._no(line, Why("AboveLimit", node=item.quota, key=path[0].key))
        height, young, priority, _, sequence, uid = precedence
        place: Order = (height, young, priority, sequence, uid)
        lifted = [own] if own is not None else []
        if own is not None:
            apply(own.holding, -1)
        asked, ahead = line.asked, False
        against = blocked(asked)
        if against is not None:
            ahead = self._lift(lifted, item, place)
            if len(lifted) > (own is not None):
                against = blocked(asked)
            if against is not None and item.least is not None:
                item, asked, against = self._smaller(item, asked, against)
        stuck: Blocked | Unplaced | str
        if against is not None:
            stuck = against
        else:
            found = self._place(line, item, place)
            if isinstance(found, Placed):
                charged = state.admit(root, item, found, asked, lifted, self.now)
                self.out.append(Admit(charged, found, charged.requests, ahead))
                return True
            stuck = found
        for mark in reversed(lifted):
            apply(mark.holding)
        return self._stuck(line, stuck, place)

    def _place(self, line: Line, item: Item, place: Order) -> Placed | Unplaced | str:
        """A place; why there is none; or the uid of a gang that it would delay."""
        state = self.state
        if not state.searched:
            return state.placer.place(item)
        free, barriers = holding.open_to(state, item, place, self.now)
        found = state.placer.place(item, without=free)
        if isinstance(found, Placed):
            for uid in barriers:
                if holding.bars(state, uid, found):
                    return uid
            holding.passed(state, free, place)
            return found
        if line.why is not None and line.why.reason == "Behind":
            return line.why.text
        kept = [uid for uid in state.searched if uid not in free]
        if line.why is None and kept:
            anywhere = state.placer.place(item, without=[*free, *kept])
            if isinstance(anywhere, Placed):
                return kept[0]
        return found

    def _lift(self, lifted: list[Mark], item: Item, place: Order) -> bool:
        """Take out of the sums what gives way. True if that is held for somebody before it."""
        ahead = False
        for mark in self.root.marks.ordered():
            if (
                any(mark.held)
                and mark not in lifted
                and holding.gives_way(self.state, self.root, mark, item, place, self.now)
            ):
                apply(mark.holding, -1)
                lifted.append(mark)
                ahead = ahead or mark.order < place
        return ahead

    def _smaller(
        self, item: Item, asked: Ask, against: Blocked
    ) -> tuple[Item, Ask, Blocked | None]:
        """The largest size between the least and the whole that quota allows."""
        least = item.least or {}
        low, high = 0, _PARTS
        best: tuple[Item, Ask] | None = None
        while low < high:
            part = (low + high) // 2
            requests = {
                key: least.get(key, 0) + (whole - least.get(key, 0)) * part // _PARTS
                for key, whole in item.requests.items()
            }
            smaller = self.state.asked(item, requests)
            if blocked(smaller) is None:
                best = (replace(item, requests=requests), smaller)
                low = part + 1
            else:
                high = part
        return (*best, None) if best is not None else (item, asked, against)

    def _stuck(self, line: Line, against: Blocked | Unplaced | str, place: Order) -> bool:
        """Hold what becomes free for it, evict for it where that is right, or park it."""
        state, root, item = self.state, self.root, line.first
        for_room = isinstance(against, Unplaced)
        if isinstance(against, str):
            root.wants_room = True
            return self._park(line, Why("Behind", text=against))
        if isinstance(against, Unplaced):
            root.wants_room = True
            if not against.ever:
                state.drop_mark(root, item.uid)
                return self._park(line, Why("NoSuchCapacity", text=against.why))
            why = Why("Capacity", text=against.why)
        else:
            cell = against.cell
            why = Why("Quota", node=cell.node, key=cell.key, short=against.short)
        mark = holding.mark_for(state, root, line, place, for_room=for_room, now=self.now)
        if mark is not None:
            holding.foresee(state, root, mark, self.now)
            if mark.starts_s is not None:
                why = replace(why, starts_s=mark.starts_s)
            # What has no end in sight for want of capacity holds no quota (kueue#8602), until it
            # has waited so long that what takes the quota meanwhile would keep it waiting for ever.
            endless = for_room and mark.starts_s is None
            mark.collects = not endless or state.is_aged(item, self.now)
            if not mark.collects:
                root.marks.let_go_of(mark, state.book)
            root.marks.top_up(state.book)
            if mark.foreseen:
                told = evicting.preempt(state, root, mark, str(why), self.now)
                if told is not None:
                    self.out.append(told)
                    return self._park(line, Why("Evicting", starts_s=mark.starts_s))
                if mark.spared is not None:
                    uid, until_s = mark.spared
                    why = replace(why, spared=uid, spared_s=until_s, saves=bool(mark.saves))
        if not item.queues and not for_room:
            return self._no(line, why)
        return self._park(line, why)

    def _park(self, line: Line, why: Why) -> bool:
        """The first is told when its reason changes, those behind it once."""
        first = line.first
        told = line.why
        line.why = why
        if told is None or told.reason != why.reason or first.uid in line.untold:
            self.out.append(Wait(first, why))
        if line.untold:
            behind = [line.items[uid] for uid in {*line.untold} & line.items.keys()]
            line.untold = []
            behind.sort(key=lambda item: (item.sequence, item.uid))
            self.out += [Wait(item, why) for item in behind if item is not first]
        return False

    def _no(self, line: Line, why: Why) -> bool:
        item = line.first
        if item.queues:
            return self._park(line, why)
        self.state.unqueue(item.uid)
        self.state.forget(item.uid)
        self.out.append(Refuse(item, why))
        return True
