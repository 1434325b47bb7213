"""One block of a member – a rack, a rail, the nodes under one switch – as counts of like nodes.

A `Site` is what does not change of it: its nodes. A `Block` is a site with the state of each node,
a small number that stands for a kind of node with so much free. So what is taken off a block costs
that block alone, and a count costs its different states, not its nodes. Blocks are values; members
that are built alike may share a site. `capacity` puts the blocks of a member together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from fleet.scheduling.nodes import ANY_NODE, untolerated
from fleet.scheduling.requests import accelerators

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fleet.scheduling.nodes import Node, NodeSelector, Toleration
    from fleet.scheduling.requests import Amounts, Vector


@dataclass(frozen=True, slots=True)
class PodKind:
    """Pods that fit on the same nodes."""

    request: Vector
    tolerations: tuple[Toleration, ...] = ()
    selector: NodeSelector = ANY_NODE
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Counted once: it is the key that rooms are remembered by.
        counted = hash((self.request, self.tolerations, self.selector))
        object.__setattr__(self, "_hash", counted)

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class Room:
    """How many pods of a kind fit on the nodes of one shape in one block."""

    block: str
    accelerator: str
    instance_type: str
    billing: str
    shape: Vector
    pods: int
    pods_if_empty: int


Seats = tuple[tuple[int, int], ...]
"""(position of the node in its site, pods), by position."""


class _State(NamedTuple):
    """Nodes that are alike but for name and labels, with equal amounts free."""

    node: Node
    """One of them, for what they have in common."""
    free: Amounts


class _Fit(NamedTuple):
    """What nodes of one state are to a kind of pod."""

    pods: int
    pods_if_empty: int
    idle: int
    """Accelerators free on the node that the kind has no use for."""
    room: tuple[str, str, str, Vector]
    """Which of the rooms of its block it counts for."""


_NO_FIT = _Fit(0, 0, 0, ("", "", "", ()))


class Site:
    """The nodes of one block of one or more members. Remembers what kinds of pods ask of them.
    Threads may share it: what they remember is the same whoever does."""

    __slots__ = ("_fits", "_ids", "_masks", "_numbering", "name", "nodes", "states")

    def __init__(self, name: str, nodes: Sequence[Node]) -> None:
        self.name = name
        self.nodes = tuple(nodes)
        self.states: list[_State] = []
        self._ids: dict[tuple[object, ...], int] = {}
        self._numbering = Lock()
        self._fits: dict[PodKind, dict[int, _Fit]] = {}
        self._masks: dict[str, tuple[bool, ...]] = {}

    def block(self) -> Block:
        """As the nodes are."""
        return Block(self, tuple(self.state_of(node, node.free) for node in self.nodes))

    def state_of(self, node: Node, free: Amounts) -> int:
        key = (
            node.accelerator, node.instance_type, node.billing, node.taints, node.unusable,
            *node.allocatable.items(), None, *free.items(),
        )  # fmt: skip
        found = self._ids.get(key)
        if found is None:
            with self._numbering:
                found = self._ids.get(key)
                if found is None:
                    found = len(self.states)
                    self.states.append(_State(node, free))
                    self._ids[key] = found
        return found

    def changed(self, state: int, request: Vector, pods: int) -> int:
        """The state of such a node with `pods` more pods on it; less, where negative."""
        node, free = self.states[state]
        left = dict(free)
        for name, need in request:
            left[name] = left.get(name, 0) - need * pods
        return self.state_of(node, left)

    def fit(self, state: int, kind: PodKind) -> _Fit:
        """For a node that the kind's selector matches."""
        fits = self._fits.get(kind)
        if fits is None:
            fits = self._fits[kind] = {}
        found = fits.get(state)
        if found is None:
            found = fits[state] = self._fit(self.states[state], kind)
        return found

    def _fit(self, state: _State, kind: PodKind) -> _Fit:
        node, free = state
        if node.unusable or untolerated(node.taints, kind.tolerations) is not None:
            return _NO_FIT
        idle = 0 if accelerators(kind.request) else max(0, accelerators(free))
        empty = fitting(node.allocatable, kind.request)
        if not empty:
            return _NO_FIT
        shape = tuple((name, node.allocatable.get(name, 0)) for name, _ in kind.request)
        room = node.accelerator, node.instance_type, node.billing, shape
        return _Fit(fitting(free, kind.request), empty, idle, room)

    def mask(self, selector: NodeSelector) -> tuple[bool, ...]:
        """Which nodes match."""
        found = self._masks.get(selector.text)
        if found is None:
            found = tuple(selector.matches(node) for node in self.nodes)
            self._masks[selector.text] = found
        return found


class Block:
    """A site with the states of its nodes at one time."""

    __slots__ = ("_counts", "_rooms", "site", "states")

    def __init__(self, site: Site, states: tuple[int, ...]) -> None:
        self.site = site
        self.states = states
        self._counts: Counter[int] | None = None
        self._rooms: dict[PodKind, tuple[Room, ...]] = {}

    @property
    def name(self) -> str:
        return self.site.name

    def free(self, position: int) -> Amounts:
        return self.site.states[self.states[position]].free

    def rooms(self, kind: PodKind) -> tuple[Room, ...]:
        """Sorted by shape."""
        known = self._rooms.get(kind)
        if known is None:
            known = self._rooms[kind] = tuple(self._count(kind))
        return known

    def kinds(self) -> Iterable[tuple[Node, Amounts, int]]:
        """One of each kind of like nodes, what such a one has free, and how many there are."""
        for state, count in self._counted(ANY_NODE).items():
            node, free = self.site.states[state]
            yield node, free, count

    def alike(self, selector: NodeSelector) -> list[Node]:
        """One of each kind of like nodes that match."""
        return [self.site.states[state].node for state in sorted(self._counted(selector))]

    def _count(self, kind: PodKind) -> Iterable[Room]:
        found: dict[tuple[str, str, str, Vector], list[int]] = {}
        for state, count in sorted(self._counted(kind.selector).items()):
            fit = self.site.fit(state, kind)
            if not fit.pods_if_empty:
                continue
            sums = found.setdefault(fit.room, [0, 0])
            sums[0] += fit.pods * count
            sums[1] += fit.pods_if_empty * count
        return (Room(self.name, *key, *sums) for key, sums in sorted(found.items()))

    def _counted(self, selector: NodeSelector) -> Counter[int]:
        """Nodes by state; those that match only."""
        if selector:
            mask = self.site.mask(selector)
            return Counter(s for s, match in zip(self.states, mask, strict=True) if match)
        if self._counts is None:
            self._counts = Counter(self.states)
        return self._counts

    def take(self, kind: PodKind, pods: int) -> tuple[Block, Seats]:
        """With up to `pods` more pods, and where they sit; fewer where no more fit.

        Nodes are filled one by one, those first whose loss hurts least: with the fewest
        accelerators that would lie idle, then the fullest, then in order.
        """
        alike: dict[tuple[int, int], set[int]] = {}
        for state in self._counted(kind.selector):
            fit = self.site.fit(state, kind)
            if fit.pods:
                alike.setdefault((fit.idle, fit.pods), set()).add(state)
        mask = self.site.mask(kind.selector) if kind.selector else None
        seats, left = [], pods
        for (_, fits), states in sorted(alike.items(), key=lambda each: each[0]):
            if left <= 0:
                break
            for position, state in enumerate(self.states):
                if state in states and (mask is None or mask[position]):
                    seats.append((position, min(left, fits)))
                    left -= fits
                    if left <= 0:
                        break
        seats.sort()
        return self.seated(kind.request, seats), tuple(seats)

    def seated(self, request: Vector, seats: Iterable[tuple[int, int]]) -> Block:
        """With pods on given nodes; negative numbers are pods that leave."""
        states = list(self.states)
        memo: dict[tuple[int, int], int] = {}
        for position, pods in seats:
            key = states[position], pods
            after = memo.get(key)
            if after is None:
                after = memo[key] = self.site.changed(*key[:1], request, pods)
            states[position] = after
        return Block(self.site, tuple(states))

    def released(self, kind: PodKind, pods: int) -> Block:
        """As if up to `pods` pods of a kind left it, wherever they are on its nodes.

        Which nodes they are on is not told: those with the least free give first.
        """
        request, order = kind.request, []
        mask = self.site.mask(kind.selector) if kind.selector else None
        for position, state in enumerate(self.states):
            node, free = self.site.states[state]
            fit = self.site.fit(state, kind)
            used = {name: node.allocatable.get(name, 0) - free.get(name, 0) for name, _ in request}
            held = fitting(used, request)
            if held and fit.pods_if_empty and (mask is None or mask[position]):
                order.append((fit.pods, -held, position))
        order.sort()
        seats, left = [], pods
        for _, held, position in order:
            if left <= 0:
                break
            seats.append((position, -min(left, -held)))
            left += held
        return self.seated(request, seats)


def fitting(free: Mapping[str, int], request: Vector) -> int:
    """How many pods of a request fit into what is free."""
    return max(0, min((free.get(name, 0) // need for name, need in request), default=0))
