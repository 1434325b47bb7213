"""What a donor has, needs and lends, read from the engine's books, and the tree that says so.

Of values alone: nothing is kept between two readings. `desk` asks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fleet.scheduling.lending.floor import Need
from fleet.scheduling.quota.tree import Key, Node, Tree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from fleet.scheduling.engine import Engine

_NONE: Final = Key("")


class Books:
    """Readings over one tree of quotas, that of the FleetQuotas."""

    def __init__(self, engine: Engine, tree: Tree) -> None:
        self._engine = engine
        self._tree = tree
        self._under: dict[str, frozenset[str]] = {}
        self._counts: dict[tuple[str, Key], Key | None] = {}

    def under(self, node: str) -> frozenset[str]:
        """The node and all below it; empty where there is no such node."""
        found = self._under.get(node)
        if found is None:
            names = self._tree.under(node) if node in self._tree.nodes else ()
            found = self._under[node] = frozenset(names)
        return found

    def beside(self, node: str, donor: str) -> bool:
        """Whether it may borrow of the donor: in its tree, and not below it."""
        if not {node, donor} <= self._tree.nodes.keys() or node in self.under(donor):
            return False
        return self._tree.path(node)[-1].name == self._tree.path(donor)[-1].name

    def keys_of(self, donor: str) -> list[Key]:
        """What it is guaranteed any of."""
        root = self._tree.path(donor)[-1].name
        return [key for key in self._tree.keys[root] if self._tree.shares[donor, key].guaranteed]

    def counted(self, node: str, key: Key, amounts: Mapping[Key, int]) -> int:
        """How much of the amounts the tree counts under the key."""
        return sum(amount for each, amount in amounts.items() if self.line(node, each) == key)

    def line(self, node: str, key: Key) -> Key | None:
        """Under which key the tree counts what is asked for at the node; None where nobody does."""
        where = (node, key)
        if where not in self._counts:
            known = node in self._tree.nodes
            self._counts[where] = self._tree.counted(node, key) if known else None
        return self._counts[where]

    def by_cluster(
        self, donor: str, clusters: Mapping[str, Mapping[Key, int]]
    ) -> dict[Key, Counter[str]]:
        """Amounts in clusters, of each of the donor's keys."""
        return {
            key: Counter({name: self.counted(donor, key, each) for name, each in clusters.items()})
            for key in self.keys_of(donor)
        }

    def needs(
        self,
        donor: str,
        keys: Collection[Key],
        expected: Mapping[Key, int] | None = None,
        *,
        clusters: int = 0,
    ) -> dict[Key, Need]:
        """What the donor needs, of each of the keys."""
        book, under = self._engine.book, self.under(donor)
        in_clusters: dict[Key, Counter[str]] = {key: Counter() for key in keys}
        charged, waits, held = Counter[Key](), Counter[Key](), Counter[Key]()

        def count(into: Counter[Key], node: str, amounts: Iterable[tuple[Key, int]]) -> None:
            for each, amount in amounts:
                if (line := self.line(node, each)) is not None:
                    into[line] += amount

        def place(node: str, cluster: str, amounts: Iterable[tuple[Key, int]]) -> None:
            for each, amount in amounts:
                if (there := in_clusters.get(self.line(node, each) or _NONE)) is not None:
                    there[cluster] += amount

        for run in self._engine.running().values():
            node = run.item.quota
            if node in under:
                count(charged, node, run.item.requests.items())
                for name, amounts in run.placed.clusters.items():
                    place(node, name, amounts.items())
        for (node, member), charge in book.unmanaged.items():
            if node in under:
                place(node, member, charge.amounts)
        for charge in book.charges.values():
            if charge.earmark and charge.node in under:
                count(held, charge.node, charge.amounts)
        for item, _ in self._engine.waiting():
            if item.quota in under:
                count(waits, item.quota, item.requests.items())
        found = {}
        for key in keys:
            cells = [book.cell(name, key) for name in under]
            reserve = sum(max(0, cell.reserve - cell.lost) for cell in cells)
            share, there = self._tree.shares[donor, key], in_clusters[key]
            used = book.cell(donor, key).used - held[key] - reserve
            found[key] = Need(
                guaranteed=share.guaranteed,
                lendable=share.guaranteed if share.lendable is None else share.lendable,
                in_clusters=there,
                elsewhere=max(0, max(charged[key], used) - there.total()),
                coming=waits[key] + (expected or {}).get(key, 0),
                reserve=reserve,
                clusters=clusters,
            )
        return found


def by_loans(
    tree: Tree, lent: Mapping[str, Mapping[Key, int]], *, ever: bool = True
) -> Tree:  # fmt: skip
    """The tree in which donors lend what is on loan and nothing else.

    A donor that is a leaf takes nothing back by evicting: that is what recall is for. Without
    `ever`, what is not on loan could never be.
    """
    nodes = []
    for node in tree.nodes.values():
        if node.name not in lent:
            nodes.append(node)
            continue
        shares = {}
        for key in tree.keys[tree.path(node.name)[-1].name]:
            share, amount = tree.shares[node.name, key], lent[node.name].get(key, 0)
            lends = share.lendable if ever else amount
            shares[key] = replace(share, lent=amount, lendable=lends)
        preemption = node.preemption
        if node.name not in tree.children:
            preemption = replace(preemption, reclaim="Never")
        nodes.append(Node(node.name, node.parent, shares, node.reserve, preemption))
    return Tree.of(nodes)
