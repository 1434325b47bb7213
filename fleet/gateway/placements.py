"""Placements, each with the workload it is of, as scheduling reads them off the store.

What an object says is kept beside the very entry it was read from, and looked at again when the
store's journal says that it or its workload has changed. Where the journal does not reach back, all
are looked at: the outcome is the same. Next step: `placing` brings the engine in line with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.gateway.changes import Changes
from fleet.kube import builtin
from fleet.scheduling import standing
from fleet.scheduling.ledger import Ledger, Promises
from fleet.scheduling.lending.record import loan_of
from fleet.scheduling.planner import Urgency, promises_of
from fleet.scheduling.returning import MARK, tier_of
from policies import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.kube.resources import Resource
    from fleet.scheduling.lending.loans import Loan
    from fleet.scheduling.standing import Expectation, Standing, Wish
    from fleet.store.entry import Entry
    from fleet.store.index import Key
    from fleet.store.objects import ObjectStore

Object = dict[str, Any]

Named = tuple[str, str, str]
"""A workload: its resource with its group, its namespace, its name."""


class Reading:
    """What a Placement says as long as it and its workload are these entries."""

    __slots__ = (
        "_standing", "expectation", "loan", "placement", "promises", "sequence", "status", "told",
        "urgency", "whole", "wish", "workload",
    )  # fmt: skip

    def __init__(
        self,
        placement: Entry,
        workload: Entry | None,
        told: Object,
        status: Object,
        promises: Ledger,
        wish: Wish | None,
        urgency: Urgency | None,
        expectation: Expectation | None = None,
    ) -> None:
        self.placement = placement
        self.workload = workload
        self.told = told
        self.status = status
        self.promises = promises
        self.wish = wish
        self.urgency = urgency
        self.expectation = expectation
        queued_s = standing.seconds_of(status.get("queuedAt")) or 0.0
        self.sequence = standing.sequence_of(queued_s, int(status.get("arrival") or 0))
        self.whole = wish.whole if wish is not None else {}
        self.loan = loan_of(status, self.uid)
        self._standing = self._standing_at(0.0)

    @property
    def uid(self) -> str:
        """Of the workload."""
        return str(self.told.get("uid", ""))

    @property
    def named(self) -> Named | None:
        """The workload; None for a kind that the release has not."""
        resource = builtin.by_kind(self.told["apiVersion"], self.told["kind"])
        if resource is None:
            return None
        return resource.gvr.group_resource, self.placement.namespace, str(self.told["name"])

    def standing(self, now: float) -> Standing | None:
        """Time changes nothing but what is still to be gone."""
        return self._standing_at(now) if self.status.get("owed") else self._standing

    def _standing_at(self, now: float) -> Standing | None:
        if self.wish is None:
            return None
        return standing.standing_of(self.status, self.wish, now=now)


class Placements:
    """All of them."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._changes = Changes(store)
        self._kinds: dict[str, Resource] = {}
        """Of the workloads that Placements are of."""
        self._of_workload: dict[Named, Key] = {}
        self._by_key: dict[Key, Reading] = {}
        self._leaving: set[Key] = set()
        self._lent: set[Key] = set()
        self._late: set[Key] = set()
        self._back: set[Key] = set()
        self._sets = self._leaving, self._lent, self._late, self._back
        self.by_uid: dict[str, Reading] = {}
        """By UID of the workload."""
        self.promises = Promises()
        """What all of them promise, by their namespaces and names."""

    def read(self) -> set[str] | None:
        """Take in what is stored. By UID, whose Placement or workload is otherwise than before;
        None: anybody's may be."""
        changed = self._changed()
        if changed is None:
            self._read_all()
            return None
        touched: set[str] = set()
        for key in sorted(changed):
            entry, before = self._store.get(PLACEMENT.resource, *key), self._by_key.get(key)
            after = self._reading(entry, before) if entry is not None else None
            if after is not before:
                touched |= {each.uid for each in (before, after) if each is not None}
                self._put(key, after)
        return touched

    def forget(self) -> None:
        """Have all be read anew the next time."""
        self._changes.forget()

    def leaving(self) -> Iterator[str]:
        """UIDs of those that owe something to be gone, which time alone may bring about."""
        return (self._by_key[key].uid for key in self._leaving)

    def loans(self) -> Iterator[Loan]:
        """What is on loan, in the order of the Placements."""
        for key in sorted(self._lent):
            loan = self._by_key[key].loan
            if loan is not None:
                yield loan

    def in_later_tiers(self) -> list[Reading]:
        """Those that run in a later tier than the first, in the order of the Placements."""
        return [self._by_key[key] for key in sorted(self._late)]

    def going_back(self) -> list[Reading]:
        """Those that were told to go back to an earlier tier and have no place there yet."""
        return [self._by_key[key] for key in sorted(self._back)]

    def _changed(self) -> set[Key] | None:
        """The Placements that are to be looked at."""
        changed = self._changes.of(PLACEMENT.resource)
        for kind, resource in [*self._kinds.items()]:
            workloads = self._changes.of(resource)
            if changed is None or workloads is None:
                changed = None
                continue
            of = (self._of_workload.get((kind, *each)) for each in workloads)
            changed.update(key for key in of if key is not None)
        return changed

    def _read_all(self) -> None:
        before, self._by_key = self._by_key, {}
        for each in (self._of_workload, self.by_uid, *self._sets):
            each.clear()
        self.promises.clear()
        for entry in self._store.collection(PLACEMENT.resource).snapshot().entries():
            self._put(entry.key, self._reading(entry, before.get(entry.key)))

    def _put(self, key: Key, after: Reading | None) -> None:
        before = self._by_key.pop(key, None)
        for within in self._sets:
            within.discard(key)
        if before is not None:
            if self.by_uid.get(before.uid) is before:
                del self.by_uid[before.uid]
            if (named := before.named) is not None:
                self._of_workload.pop(named, None)
        self.promises.put(key, after.promises if after is not None else Ledger())
        if after is None:
            return
        self._by_key[key] = self.by_uid[after.uid] = after
        if (named := after.named) is not None:
            self._of_workload[named] = key
        if after.status.get("owed"):
            self._leaving.add(key)
        if after.loan is not None:
            self._lent.add(key)
        if tier_of(after.status) > 1:
            self._late.add(key)
        if (after.status.get("preemptedFor") or {}).get("kind") == MARK:
            self._back.add(key)

    def _reading(self, placement: Entry, before: Reading | None) -> Reading:
        """A Placement, read only if it or its workload is not as it was."""
        same = before is not None and before.placement is placement
        obj: Object = {} if same else placement.parse()
        told = before.told if before is not None and same else obj["spec"]["workload"]
        workload = self._workload(placement.namespace, told)
        if before is not None and same and before.workload is workload:
            return before
        obj = obj or placement.parse()
        status: Object = obj.get("status") or {}
        if workload is None or workload.uid != told.get("uid"):
            # What is left of it stays what it was, until nothing of it can run.
            wish = before.wish if before is not None else None
            return Reading(placement, None, told, status, Ledger(), wish, None)
        parsed = workload.parse()
        return Reading(
            placement,
            workload,
            told,
            status,
            promises_of(obj, parsed),
            standing.wish_of(parsed),
            Urgency.of(parsed),
            standing.expectation_of(parsed, obj),
        )

    def _workload(self, namespace: str, told: Object) -> Entry | None:
        resource = builtin.by_kind(told["apiVersion"], told["kind"])
        if resource is None:
            return None
        kind = resource.gvr.group_resource
        if kind not in self._kinds:
            self._kinds[kind] = resource
            self._changes.of(resource)  # from here on
        return self._store.get(resource, namespace, told["name"])
