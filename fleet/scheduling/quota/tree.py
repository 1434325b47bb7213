"""The nodes of a quota tree as values, and the faults that make a tree none.

Amounts are integers of the smallest unit, by resource and kind of accelerator. A node's guaranteed
amount includes its children's; what is left beyond theirs is a pool that all of them may borrow. A
node that says nothing of a resource has what its children have of it. `book` counts use against a
tree; `policies.quota_tree` makes the nodes of FleetQuota objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from fleet.errors import Cause, Invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Key(NamedTuple):
    """What is counted: a resource, of one kind of accelerator or (empty) of any other kind."""

    resource: str
    accelerator: str = ""

    def __str__(self) -> str:
        return f"{self.resource} ({self.accelerator})" if self.accelerator else self.resource


@dataclass(frozen=True, slots=True)
class Share:
    """What a node has of one key. `limit` None: only the limits above; `lendable` None: all.

    `lent`: what of the lendable amount others have by loans, where it is lent by loans only.
    """

    guaranteed: int = 0
    limit: int | None = None
    lendable: int | None = None
    lent: int | None = None


@dataclass(frozen=True, slots=True)
class Preemption:
    """Which running work may be ended for that of a node.

    `within` is work of the node itself and of those below it, `reclaim` that of others which use
    what is guaranteed to this node. `min_run_time_s` protects the node's own work from others.
    """

    within: Literal["Never", "LowerPriority"] = "LowerPriority"
    reclaim: Literal["Never", "LowerPriority", "Any"] = "Any"
    min_run_time_s: float = 0
    max_reclaim_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    parent: str = ""
    shares: Mapping[Key, Share] = field(default_factory=lambda: MappingProxyType({}))
    reserve: Mapping[Key, int] = field(default_factory=lambda: MappingProxyType({}))
    """Kept free of the guaranteed amount, for work whose cluster was lost."""
    preemption: Preemption = Preemption()


_NOTHING: Final = Share()
_NOT_COUNTED: Final = Share(limit=0)


@dataclass(frozen=True, slots=True)
class Tree:
    """Sound nodes, parents before children, each level by name; any number of roots."""

    nodes: Mapping[str, Node] = field(default_factory=lambda: MappingProxyType({}))
    children: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    shares: Mapping[tuple[str, Key], Share] = field(default_factory=lambda: MappingProxyType({}))
    """Of every node, every key that its tree counts, said or derived."""
    keys: Mapping[str, tuple[Key, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """What the tree counts, by the name of its root."""

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Tree:
        """Raises Invalid, which names every fault's field and node."""
        given = sorted(nodes, key=lambda node: node.name)
        if found := faults(given):
            raise Invalid.of(group="fleet.dev", kind="FleetQuota", name=found[0][0], causes=[
                Cause("FieldValueInvalid", message, where) for _, where, message in found
            ])  # fmt: skip
        by_name = {node.name: node for node in given}
        children = _children(given)
        ordered: dict[str, Node] = {}
        keys: dict[str, tuple[Key, ...]] = {}
        shares: dict[tuple[str, Key], Share] = {}
        for root in children.get("", ()):
            below = list(_below(root, children))
            ordered.update((name, by_name[name]) for name in below)
            keys[root] = tuple(sorted({key for name in below for key in by_name[name].shares}))
            for name in reversed(below):
                for key in keys[root]:
                    shares[name, key] = _share(by_name[name], key, children, shares)
        return cls(
            MappingProxyType(ordered),
            MappingProxyType(children),
            MappingProxyType(shares),
            MappingProxyType(keys),
        )

    def path(self, name: str) -> tuple[Node, ...]:
        """The node and those above it, up to its root."""
        found = []
        while name:
            node = self.nodes[name]
            found.append(node)
            name = node.parent
        return tuple(found)

    def under(self, root: str) -> tuple[str, ...]:
        """The node and all below it, parents before children."""
        return tuple(_below(root, self.children))

    def counted(self, name: str, key: Key) -> Key | None:
        """Under which key the node's tree counts what is asked for; None where it does not.

        A kind that no node of the tree names is counted with the others of its resource, by the
        line that names none. Where there is no such line, it is what nobody was given any of.
        """
        keys = self.keys[self.path(name)[-1].name]
        if key in keys:
            return key
        rest = Key(key.resource)
        if rest in keys:
            return rest
        return key if any(each.resource == key.resource for each in keys) else None


def faults(nodes: Iterable[Node]) -> list[tuple[str, str, str]]:
    """(node, field, what is wrong with it) for everything that keeps the nodes from being trees."""
    given = sorted(nodes, key=lambda node: node.name)
    found: list[tuple[str, str, str]] = []
    by_name: dict[str, Node] = {}
    for node in given:
        if node.name in by_name or not node.name:
            found.append((node.name, "metadata.name", f"{node.name!r} is there twice or empty"))
        by_name[node.name] = node
        found += _faults_alone(node)
    for node in by_name.values():
        if node.parent and node.parent not in by_name:
            told = f"{node.parent} of node {node.name} is no FleetQuota; create it first"
            found.append((node.name, "spec.parent", told))
    found += _cycles(by_name)
    if found:
        return found
    return _beyond_parents(by_name)


def _faults_alone(node: Node) -> list[tuple[str, str, str]]:
    found = []
    for key, share in sorted(node.shares.items()):
        where, what = f"spec.resources[{key}]", f"{key} of node {node.name}"
        for name, value in (
            ("guaranteed", share.guaranteed),
            ("limit", share.limit),
            ("lendable", share.lendable),
        ):
            if value is not None and value < 0:
                found.append((node.name, f"{where}.{name}", f"{value} of {what} is negative"))
        if share.limit is not None and share.limit < share.guaranteed:
            told = f"{share.limit} of {what} is less than its guaranteed {share.guaranteed}"
            found.append((node.name, f"{where}.limit", told))
        if share.lendable is not None and share.lendable > share.guaranteed:
            told = f"{share.lendable} of {what} is more than its guaranteed {share.guaranteed}"
            found.append((node.name, f"{where}.lendable", told))
    for key, amount in sorted(node.reserve.items()):
        most = node.shares.get(key, _NOTHING).guaranteed
        if not 0 <= amount <= most:
            told = f"{amount} {key} of node {node.name} is not between 0 and its guaranteed {most}"
            found.append((node.name, "spec.failoverReserve", told))
    return found


def _cycles(by_name: Mapping[str, Node]) -> list[tuple[str, str, str]]:
    found = []
    sound: set[str] = set()
    for name in sorted(by_name):
        walked: list[str] = []
        while name in by_name and name not in sound and name not in walked:
            walked.append(name)
            name = by_name[name].parent
        if name in walked:
            ring = walked[walked.index(name) :]
            told = f"{' → '.join([*ring, name])} is a ring; a tree has an end"
            found.append((ring[0], "spec.parent", told))
        sound.update(walked)
    return found


def _beyond_parents(by_name: Mapping[str, Node]) -> list[tuple[str, str, str]]:
    found = []
    children = _children(by_name.values())
    keys = sorted({key for node in by_name.values() for key in node.shares})
    shares: dict[tuple[str, Key], Share] = {}
    for name in reversed(
        [each for root in children.get("", ()) for each in _below(root, children)]
    ):
        for key in keys:
            share = shares[name, key] = _share(by_name[name], key, children, shares)
            given = {each: shares[each, key].guaranteed for each in children.get(name, ())}
            if (total := sum(given.values())) > share.guaranteed:
                parts = ", ".join(f"{each} {given[each]}" for each in sorted(given) if given[each])
                told = f"{total} {key} guaranteed below node {name} ({parts}), which has only "
                where = f"spec.resources[{key}].guaranteed"
                found.append((name, where, f"{told}{share.guaranteed}"))
    return sorted(found)


def _share(
    node: Node,
    key: Key,
    children: Mapping[str, tuple[str, ...]],
    below: Mapping[tuple[str, Key], Share],
) -> Share:
    said = node.shares.get(key)
    if said is not None:
        return said
    if any(each.resource == key.resource for each in node.shares):
        return _NOT_COUNTED
    return Share(sum(below[name, key].guaranteed for name in children.get(node.name, ())))


def _children(nodes: Iterable[Node]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for node in nodes:
        found.setdefault(node.parent, []).append(node.name)
    return {name: tuple(sorted(below)) for name, below in found.items()}


def _below(root: str, children: Mapping[str, tuple[str, ...]]) -> Iterable[str]:
    """Parents before children."""
    waiting = [root]
    while waiting:
        name = waiting.pop()
        yield name
        waiting.extend(reversed(children.get(name, ())))
