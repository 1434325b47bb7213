"""Placements, each with the workload it is of, as scheduling reads them off the store.

What an object says is kept beside the very entry it was read from, so that a thousand Placements
are not read a thousand times; what is gone from the store is gone from here with the next `read`.
Next step: `placing` brings the engine in line with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.kube import builtin
from fleet.scheduling import standing
from fleet.scheduling.ledger import Ledger
from fleet.scheduling.lending.record import loan_of
from fleet.scheduling.planner import Urgency, promises_of
from policies import PLACEMENT

if TYPE_CHECKING:
    from fleet.scheduling.standing import Expectation, Standing, Wish
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore

Object = dict[str, Any]


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
        self.by_key: dict[tuple[str, str], Reading] = {}
        self.by_uid: dict[str, Reading] = {}
        """By UID of the workload."""

    def read(self) -> None:
        """Take in what is stored."""
        before, self.by_key = self.by_key, {}
        for entry in self._store.collection(PLACEMENT.resource).snapshot().entries():
            self.by_key[entry.key] = self._reading(entry, before.get(entry.key))
        self.by_uid = {each.uid: each for each in self.by_key.values()}

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
        return self._store.get(resource, namespace, told["name"]) if resource is not None else None
