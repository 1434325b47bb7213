"""What decisions are made over: policies, prices, priority classes and members, as they are stored.

An object is read once for each of its revisions: what `fleet` gives is the very same as before
where nothing has changed, so whoever compares it knows at once. A policy that cannot be read stops
only itself (`rulebook`). Prices age: they are read again when the next of them becomes too old.
`fleet.gateway.placing` asks at the beginning of a round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.planner import Fleet
from fleet.scheduling.price import prices_of
from fleet.scheduling.selection import policy_of
from policies import PLACEMENT_POLICY, PRICE_BOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from fleet.gateway.books import Books
    from fleet.gateway.rulebook import Rule, Rulebook
    from fleet.kube.resources import Resource
    from fleet.scheduling.extension import Extensions
    from fleet.scheduling.price import Prices
    from fleet.scheduling.selection import Policy
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore

Object = dict[str, Any]
T = TypeVar("T")

PRIORITY_CLASSES: Final = GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses")


class Givens:
    """See the module."""

    def __init__(
        self,
        store: ObjectStore,
        books: Books,
        *,
        now: Callable[[], datetime],
        lease: timedelta,
        extensions: Extensions,
        rulebook: Rulebook,
    ) -> None:
        self._books = books
        self._now = now
        self._lease = lease
        self._extensions = extensions
        self._rulebook = rulebook
        self._classes = _Kept(store, row(PRIORITY_CLASSES), _classes)
        self._ruled: tuple[object, tuple[Policy, ...]] = (None, ())
        self._priced: tuple[object, Prices] | None = None

    def fleet(self, given: Sequence[Object] = ()) -> Fleet:
        """`given` are policies and price books as they would be."""
        priorities, never = self._classes.value()
        return Fleet(
            clusters=tuple(self._books.clusters()),
            policies=self._policies_with(given),
            prices=self._prices_with(given),
            priorities=priorities,
            never_preempt=never,
            lease=self._lease,
            extensions=self._extensions,
        )

    def _policies_with(self, given: Sequence[Object]) -> tuple[Policy, ...]:
        instead = [policy_of(each) for each in given if each["kind"] == PLACEMENT_POLICY.name]
        if not instead:
            return self._policies()
        named = {(each.namespace, each.name): each for each in (*self._policies(), *instead)}
        return tuple(named.values())

    def _policies(self) -> tuple[Policy, ...]:
        rules = self._rulebook.rules(PLACEMENT_POLICY)
        if self._ruled[0] is not rules:
            self._ruled = rules, tuple(map(_policy, rules))
        return self._ruled[1]

    def _prices_with(self, given: Sequence[Object]) -> Prices:
        instead = {each["metadata"]["name"]: each for each in given if _is_book(each)}
        if not instead:
            return self._prices()
        stored = self._rulebook.rules(PRICE_BOOK)
        books = [each.left for each in stored if not each.closed and each.name not in instead]
        return prices_of((*books, *instead.values()), now=self._now())

    def _prices(self) -> Prices:
        books, now = self._rulebook.rules(PRICE_BOOK), self._now()
        if self._priced is not None and self._priced[0] is books:
            found = self._priced[1]
            if found.until is None or now <= found.until:
                return found
        found = prices_of((each.left for each in books if not each.closed), now=now)
        self._priced = books, found
        return found


class _Kept(Generic[T]):
    """What is read of all objects of a kind, until one of them changes."""

    def __init__(
        self, store: ObjectStore, resource: Resource, read: Callable[[Sequence[Entry]], T]
    ) -> None:
        self._store = store
        self._resource = resource
        self._read = read
        self._entries: list[Entry] | None = None
        self._value: T | None = None

    def value(self) -> T:
        entries = self._store.collection(self._resource).snapshot().entries()
        if (
            self._value is None
            or self._entries is None
            or len(entries) != len(self._entries)
            or any(new is not old for new, old in zip(entries, self._entries, strict=True))
        ):
            self._value = self._read(entries)
            self._entries = entries
        return self._value


def _is_book(obj: Object) -> bool:
    return bool(obj["kind"] == PRICE_BOOK.name)


def _policy(rule: Rule) -> Policy:
    if not rule.closed:
        return policy_of(rule.left)
    return policy_of(rule.left, unread=rule.words)


def _classes(entries: Sequence[Entry]) -> tuple[dict[str, int], frozenset[str]]:
    objects = {each.name: each.parse() for each in entries}
    values = {name: int(obj.get("value", 0)) for name, obj in objects.items()}
    never = (name for name, obj in objects.items() if obj.get("preemptionPolicy") == "Never")
    return values, frozenset(never)


def row(gvr: GroupVersionResource) -> Resource:
    """Raises LookupError for a kind that is not served."""
    found = builtin.resource(gvr)
    if found is None:
        raise LookupError(f"the release has no {gvr}")
    return found
