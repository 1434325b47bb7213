"""What is charged to the nodes of a quota tree, and what may be charged yet.

A charge counts at its node and all above it. What a node keeps to itself (its guaranteed amount
less what it lends) is used up before anything is taken from the node above; so each cell has, next
to the `used` total, the `flow` that it draws from its own share and its parent's. Semantics are
those of Kueue's hierarchical cohorts (KEP-79), with limits as totals instead of additions.

Sums are kept as charges come and go, and compared with the charges by `verify`. Nothing is refused
here: `charge` writes down what was decided, `blocked` says beforehand what stands against it.
Next step: `report` makes lines of it, `fleet.scheduling.engine` decides by it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fleet.scheduling.quota.tree import Share, Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fleet.scheduling.placer import Item
    from fleet.scheduling.quota.tree import Key

UNLIMITED: Final = 1 << 256
_SCALE: Final = 1 << 32


class Cell:
    """One key at one node."""

    __slots__ = (
        "direct",
        "flow",
        "guaranteed",
        "key",
        "lends",
        "limit",
        "local",
        "lost",
        "most",
        "node",
        "once",
        "pool",
        "reserve",
        "subtree",
        "used",
    )

    def __init__(
        self,
        node: str,
        key: Key,
        share: Share,
        *,
        pool: int,
        subtree: int,
        root: bool,
        once: int | None = None,
    ) -> None:
        self.node = node
        self.key = key
        self.guaranteed = share.guaranteed
        self.pool = pool
        """What the node has beyond its children's guaranteed amounts."""
        self.subtree = subtree
        """What it has to distribute: guaranteed, less what nodes below keep to themselves."""
        self.lends = None if root else share.lendable if share.lent is None else share.lent
        self.local = 0
        """What it keeps to itself."""
        self.keep()
        limit = share.guaranteed if root else share.limit
        self.limit = UNLIMITED if limit is None else limit
        self.most = UNLIMITED if limit is None else limit - (share.guaranteed - subtree)
        once = subtree if once is None else once
        kept = 0 if share.lendable is None or root else max(0, once - share.lendable)
        most = UNLIMITED if limit is None else limit - (share.guaranteed - once)
        self.once = (once, kept, most)
        """What `subtree`, `local` and `most` are once all is lent that may be."""
        self.reserve = 0
        self.lost = 0
        self.direct = 0
        """Used at the node itself, not below it."""
        self.used = 0
        self.flow = 0

    def keep(self) -> None:
        self.local = 0 if self.lends is None else max(0, self.subtree - self.lends)

    @property
    def free(self) -> int:
        """What those below may still draw here without the node borrowing; below 0: borrowed."""
        return self.subtree - self.flow


Path = tuple[Cell, ...]
"""The cells of one key from a node up to its root."""
Ask = tuple[tuple[Path, int], ...]
"""What is asked of a node, key by key, made ready to be compared often."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What one workload has of one node. An earmark is held for work that has not started."""

    uid: str
    generation: int
    node: str
    amounts: tuple[tuple[Key, int], ...]
    earmark: bool = False


@dataclass(frozen=True, slots=True)
class Blocked:
    """The first cell that stands against a request, and by how much."""

    cell: Cell
    short: int


class Book:
    """Charges against one tree. Changing hands means a new book: `Book.over(tree, old)`."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.charges: dict[str, Charge] = {}
        self.lost: dict[tuple[str, str], Charge] = {}
        """What runs, or may still run, where it was lost: by workload and shard."""
        self.unmanaged: dict[tuple[str, str], Charge] = {}
        """Use that members were given by others: by node and source."""
        self.outside: set[str] = set()
        """Uids of charges whose node is in no tree any more."""
        self.lent: dict[tuple[str, Key], int] = {}
        """What is on loan of nodes that lend by loans only."""
        self._asks: dict[str, Ask] = {}
        self._earmarks: dict[str, None] = {}
        self._paths: dict[tuple[str, Key], Path] = {}
        self._cells: dict[tuple[str, Key], Cell] = {}
        self._of: dict[str, tuple[Cell, ...]] = {}
        for root in tree.children.get("", ()):
            for key in tree.keys[root]:
                self._make_cells(root, key)
        for name, node in tree.nodes.items():
            for key, amount in node.reserve.items():
                self._cells[name, key].reserve = amount
                add(self._path(name, key), amount)

    @classmethod
    def over(cls, tree: Tree, old: Book) -> Book:
        """The same charges over another tree. One whose node is gone counts at the next above."""
        book = cls(tree)
        for (name, key), amount in old.lent.items():
            if (name, key) in tree.shares and tree.shares[name, key].lent is not None:
                book.lend(name, key, amount)

        def carried(charge: Charge) -> Charge:
            return Charge(
                charge.uid,
                charge.generation,
                _surviving(charge.node, old.tree, tree),
                charge.amounts,
                charge.earmark,
            )

        for uid, charge in old.charges.items():
            book._put(uid, carried(charge))
        for (_, shard), charge in old.lost.items():
            book._lose(carried(charge), shard)
        for (name, source), charge in old.unmanaged.items():
            node = _surviving(name, old.tree, tree)
            before = book.unmanaged.get((node, source))
            amounts = Counter(dict(charge.amounts))
            amounts.update(dict(before.amounts if before else ()))
            book.set_unmanaged(node, source, amounts)
        return book

    # Asking

    def ask(self, node: str, amounts: Iterable[tuple[Key, int]]) -> Ask:
        """Amounts that no node of the tree speaks of are left out: nobody limits them."""
        if node not in self.tree.nodes:
            return ()
        counted: dict[Key, int] = {}
        for key, amount in amounts:
            if amount and (under := self.tree.counted(node, key)) is not None:
                counted[under] = counted.get(under, 0) + amount
        return tuple((self._path(node, key), counted[key]) for key in sorted(counted))

    def cell(self, node: str, key: Key) -> Cell:
        return self._cells[node, key]

    def cells(self, node: str) -> tuple[Cell, ...]:
        """Of a node, by key."""
        return self._of.get(node, ())

    def available(self, node: str, key: Key) -> int | None:
        """The most that could be admitted at the node now; below 0 is 0, None is no limit."""
        asked = self.ask(node, [(key, 1)])
        return room(asked[0][0]) if asked else None

    def entitled(self, node: str, amounts: Mapping[Key, int]) -> bool:
        """Whether the node would stay within its guaranteed amount."""
        return level(self.ask(node, amounts.items())) == 0

    def share(self, node: str) -> int:
        """Use of a node's guaranteed amount, of the key it uses most; earmarks count."""
        most = 0
        for cell in self._of.get(node, ()):
            if cell.used > 0:
                most = max(most, cell.used * _SCALE // (cell.guaranteed or 1))
        return most

    def weight(self, asked: Ask) -> int:
        """How much of its root that is, of the key that counts most, in parts of 2³²."""
        return max((v * _SCALE // (path[-1].guaranteed or 1) for path, v in asked), default=0)

    def asked(self, uid: str) -> Ask:
        """What a charge counts for."""
        return self._asks[uid]

    def earmarks(self) -> dict[str, Ask]:
        """What is held for work that has not started, by uid."""
        return {uid: asked for uid in self._earmarks if (asked := self._asks[uid])}

    @contextmanager
    def as_if(self, without: Iterable[Ask]) -> Iterator[None]:
        """The sums without some of what they count."""
        left = list(without)
        for asked in left:
            apply(asked, -1)
        try:
            yield
        finally:
            for asked in reversed(left):
                apply(asked)

    def overcommitted(self) -> dict[tuple[str, Key], int]:
        """By how much nodes are above their limits, which only admits less, ends nothing."""
        return {
            where: cell.used - cell.limit
            for where, cell in self._cells.items()
            if cell.used > cell.limit
        }

    # Writing

    def charge(
        self,
        uid: str,
        generation: int,
        node: str,
        amounts: Mapping[Key, int],
        *,
        earmark: bool = False,
        asked: Ask | None = None,
    ) -> bool:
        """True if that changed anything. A newer generation replaces an older one at one stroke;
        an older one, or the same again, changes nothing. An earmark gives way to any real charge.
        `asked` is what `ask` said of it, where that is known.
        """
        old = self.charges.get(uid)
        new = Charge(uid, generation, node, tuple(sorted(amounts.items())), earmark)
        if old is not None and (
            old == new
            or old.generation > generation
            or (old.generation == generation and not old.earmark)
        ):
            return False
        if old is not None:
            self._drop(uid)
        self._put(uid, new, asked)
        return True

    def lend(self, node: str, key: Key, amount: int) -> bool:
        """So much of the node's is on loan, of which it keeps the rest; True if that is new.

        It is what the tree says the node has lent, and changes nothing that is charged or held.
        """
        path = self._path(node, key)
        if path[0].lends == amount:
            return False
        self.lent[node, key] = amount
        before = [(cell.subtree - cell.local, max(0, cell.flow - cell.local)) for cell in path]
        path[0].lends = amount
        path[0].keep()
        for below, cell, (gave, drew) in zip(path, path[1:], before, strict=False):
            more = below.subtree - below.local - gave
            cell.subtree += more
            if cell.limit < UNLIMITED:
                cell.most += more
            cell.flow += max(0, below.flow - below.local) - drew
            cell.keep()
        return True

    def note_earmark(self, item: Item, holding: Ask) -> None:
        """Write down what an earmark holds, which its sums say already."""
        held = tuple((path[0].key, amount) for path, amount in holding)
        self.charges[item.uid] = Charge(item.uid, item.generation, item.quota, held, earmark=True)
        self._asks[item.uid] = holding
        self._earmarks[item.uid] = None

    def release(self, uid: str, *, generation: int | None = None) -> bool:
        """False if there is no charge, or a newer one than was meant."""
        old = self.charges.get(uid)
        if old is None or (generation is not None and old.generation > generation):
            return False
        self._drop(uid)
        return True

    def lose(self, uid: str, shard: str, amounts: Mapping[Key, int]) -> None:
        """A shard's part goes over to the reserve of the nearest node that has one, until `fenced`.

        What replaces it is charged as a newer generation of the workload.
        """
        charge = self.charges.get(uid)
        if charge is None or (uid, shard) in self.lost:
            return
        left = dict(charge.amounts)
        moved = {key: min(left.get(key, 0), amount) for key, amount in amounts.items()}
        for key, amount in moved.items():
            left[key] = left.get(key, 0) - amount
        self._drop(uid)
        rest = tuple(sorted((key, amount) for key, amount in left.items() if amount))
        self._put(uid, Charge(uid, charge.generation, charge.node, rest, charge.earmark))
        gone = tuple(sorted(moved.items()))
        self._lose(Charge(uid, charge.generation, charge.node, gone), shard)

    def lose_again(self, other: Book) -> None:
        """What is lost by another book, which counts the same charges."""
        for (_, shard), charge in other.lost.items():
            self._lose(charge, shard)

    def fenced(self, uid: str, shard: str) -> bool:
        """What was lost is known to have ended."""
        charge = self.lost.pop((uid, shard), None)
        if charge is None:
            return False
        for path, amount in self._reserves(charge):
            _occupy(path, -amount)
        return True

    def set_unmanaged(self, node: str, source: str, amounts: Mapping[Key, int]) -> bool:
        """What `source`, a member, runs of the node's without the fleet: replaces what it said."""
        old = self.unmanaged.pop((node, source), None)
        new = tuple(sorted((key, amount) for key, amount in amounts.items() if amount))
        if old is not None:
            apply(self.ask(node, old.amounts), -1)
        if new:
            self.unmanaged[node, source] = Charge(source, 0, node, new)
            apply(self.ask(node, new))
        return (old.amounts if old else ()) != new

    # Checking

    def verify(self) -> list[str]:
        """Where sums differ from what the charges, lost shards and unmanaged use add up to."""
        fresh = Book(self.tree)
        for (name, key), amount in self.lent.items():
            fresh.lend(name, key, amount)
        for uid, charge in self.charges.items():
            fresh._put(uid, charge)
        for (_, shard), charge in self.lost.items():
            fresh._lose(charge, shard)
        for (name, source), charge in self.unmanaged.items():
            fresh.set_unmanaged(name, source, dict(charge.amounts))
        return [
            f"{name} {key}: used {cell.used} and drawn {cell.flow} in the book, "
            f"{other.used} and {other.flow} by its charges"
            for (name, key), cell in self._cells.items()
            if (cell.used, cell.flow)
            != ((other := fresh._cells[name, key]).used, other.flow)
        ]  # fmt: skip

    # Inside

    def _make_cells(self, root: str, key: Key) -> None:
        tree = self.tree
        for name in reversed(tree.under(root)):
            share = tree.shares[name, key]
            below = [self._cells[child, key] for child in tree.children.get(name, ())]
            own = share.guaranteed - sum(cell.guaranteed for cell in below)
            subtree = own + sum(cell.subtree - cell.local for cell in below)
            once = own + sum(cell.once[0] - cell.once[1] for cell in below)
            cell = Cell(name, key, share, pool=own, subtree=subtree, root=name == root, once=once)
            self._cells[name, key] = cell
            self._of[name] = (*self._of.get(name, ()), cell)

    def _path(self, node: str, key: Key) -> Path:
        path = self._paths.get((node, key))
        if path is None:
            nodes = self.tree.path(node)
            if (node, key) in self._cells:
                path = tuple(self._cells[each.name, key] for each in nodes)
            else:
                path = (Cell(nodes[-1].name, key, _NOBODYS, pool=0, subtree=0, root=True),)
            self._paths[node, key] = path
        return path

    def _put(self, uid: str, charge: Charge, asked: Ask | None = None) -> None:
        if asked is None:
            asked = self.ask(charge.node, charge.amounts)
        self.charges[uid] = charge
        self._asks[uid] = asked
        if charge.earmark:
            self._earmarks[uid] = None
        if charge.node not in self.tree.nodes:
            self.outside.add(uid)
        apply(asked)

    def _drop(self, uid: str) -> None:
        del self.charges[uid]
        self.outside.discard(uid)
        self._earmarks.pop(uid, None)
        apply(self._asks.pop(uid), -1)

    def _lose(self, charge: Charge, shard: str) -> None:
        self.lost[charge.uid, shard] = charge
        for path, amount in self._reserves(charge):
            _occupy(path, amount)

    def _reserves(self, charge: Charge) -> Iterator[tuple[Path, int]]:
        for path, amount in self.ask(charge.node, charge.amounts):
            at = next((i for i, cell in enumerate(path) if cell.reserve), 0)
            yield path[at:], amount


def add(path: Path, amount: int) -> None:
    flow = amount
    path[0].direct += amount
    for cell in path:
        cell.used += amount
        if flow:
            before = cell.flow - cell.local
            cell.flow += flow
            after = before + flow
            flow = (after if after > 0 else 0) - (before if before > 0 else 0)


def apply(asked: Ask, sign: int = 1) -> None:
    for path, amount in asked:
        add(path, sign * amount)


def blocked(asked: Ask) -> Blocked | None:
    """None if all of it may be admitted."""
    for path, amount in asked:
        need = amount
        for cell in path:
            over = cell.used + amount - cell.limit
            if over > 0:
                return Blocked(cell, over)
            if need > 0:
                over = cell.flow + need - cell.most
                if over > 0:
                    return Blocked(cell, over)
                kept = cell.local - cell.flow
                if kept > 0:
                    need -= kept
    return None


def room(path: Path) -> int:
    """The most that may be drawn at the start of the path; below 0 is 0."""
    most = drawn = path[-1].most - path[-1].flow
    for cell in reversed(path):
        if cell is not path[-1]:
            kept = max(0, cell.local - cell.flow)
            drawn = min(cell.most - cell.flow, kept + max(0, drawn))
        most = min(most, cell.limit - cell.used) if cell is not path[-1] else cell.limit - cell.used
    return max(0, min(most, drawn))


def most_ever(path: Path) -> int:
    """What could be drawn at the start of the path if nothing else were in use."""
    most = drawn = path[-1].once[2]
    for cell in reversed(path[:-1]):
        _, kept, own_most = cell.once
        drawn = min(own_most, kept + drawn)
        most = min(most, cell.limit)
    return min(most, drawn)


def level(asked: Ask) -> int:
    """How far up somebody's guaranteed amount covers it: 0 its own, 1 its parent's, and so on."""
    highest = 0
    for path, amount in asked:
        need, at = amount, 0
        for cell in path:
            if cell.flow + need <= cell.subtree:
                break
            kept = cell.local - cell.flow
            if kept > 0:
                need -= kept
            at += 1
        if at > highest:
            highest = at
    return highest


def _occupy(path: Path, amount: int) -> None:
    """Lost work first fills what is reserved for it, and counts beyond that."""
    cell = path[0]
    before = max(cell.reserve, cell.lost)
    cell.lost += amount
    add(path, max(cell.reserve, cell.lost) - before)


def _surviving(node: str, old: Tree, new: Tree) -> str:
    while node and node not in new.nodes:
        node = old.nodes[node].parent if node in old.nodes else ""
    return node


_NOBODYS: Final = Share()
