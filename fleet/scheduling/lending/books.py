"""What a donor has, needs and lends, read from the engine's books, and the tree that says so.

Of values alone: nothing is kept between two readings. `desk` asks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from fleet.scheduling.lending.floor import Need
from fleet.scheduling.quota.tree import Node, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.scheduling.engine import Engine
    from fleet.scheduling.quota.tree import Key


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

    def keys_of(self, donor: str) -> list[Key]:
        """What it is guaranteed any of."""
        root = self._tree.path(donor)[-1].name
        return [key for key in self._tree.keys[root] if self._tree.shares[donor, key].guaranteed]

    def counted(self, node: str, key: Key, amounts: Mapping[Key, int]) -> int:
        """How much of the amounts the tree counts under the key."""
        total = 0
        for each, amount in amounts.items():
            where = (node, each)
            if where not in self._counts:
                known = node in self._tree.nodes
                self._counts[where] = self._tree.counted(node, each) if known else None
            if self._counts[where] == key:
                total += amount
        return total

    def by_cluster(
        self, donor: str, clusters: Mapping[str, Mapping[Key, int]]
    ) -> dict[Key, Counter[str]]:
        """Amounts in clusters, of each of the donor's keys."""
        return {
            key: Counter({name: self.counted(donor, key, each) for name, each in clusters.items()})
            for key in self.keys_of(donor)
        }

    def needs(
        self, donor: str, expected: Mapping[Key, int] | None = None, *, clusters: int = 0
    ) -> dict[Key, Need]:
        """What the donor needs, of each key that it is guaranteed any of."""
        return {
            key: self._need(donor, key, (expected or {}).get(key, 0), clusters)
            for key in self.keys_of(donor)
        }

    def _need(self, donor: str, key: Key, expected: int, clusters: int) -> Need:
        book, under = self._engine.book, self.under(donor)
        in_clusters: Counter[str] = Counter()
        charged = waits = 0
        for run in self._engine.running().values():
            node = run.item.quota
            if node in under:
                charged += self.counted(node, key, run.item.requests)
                for name, amounts in run.placed.clusters.items():
                    in_clusters[name] += self.counted(node, key, amounts)
        for (node, member), charge in book.unmanaged.items():
            if node in under:
                in_clusters[member] += self.counted(node, key, dict(charge.amounts))
        held = sum(
            self.counted(charge.node, key, dict(charge.amounts))
            for charge in book.charges.values()
            if charge.earmark and charge.node in under
        )
        for item, _ in self._engine.waiting():
            if item.quota in under:
                waits += self.counted(item.quota, key, item.requests)
        cells = [book.cell(name, key) for name in under]
        reserve = sum(max(0, cell.reserve - cell.lost) for cell in cells)
        share = self._tree.shares[donor, key]
        used = book.cell(donor, key).used - held - reserve
        return Need(
            guaranteed=share.guaranteed,
            lendable=share.guaranteed if share.lendable is None else share.lendable,
            in_clusters=in_clusters,
            elsewhere=max(0, max(charged, used) - in_clusters.total()),
            coming=waits + expected,
            reserve=reserve,
            clusters=clusters,
        )


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
