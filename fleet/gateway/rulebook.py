"""The policies as they can be acted on: one that cannot be read stops only itself.

Rules become stricter from one release to the next, and what is stored was let in by earlier ones.
An object that no write would let in is what it last was in this process; where it was nothing yet,
whoever acts on it gets what is left of it, to be careful with. It is logged once for each revision
of its spec, counted, and `validity`, `quotas` and `loans` say it in its status.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.gateway import queue_metrics as metrics
from fleet.scheduling.quota_objects import Wrong
from policies.salvage import salvaged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore
    from policies import Kind

log = logging.getLogger(__name__)

Object = dict[str, Any]
_Labels = tuple[str, str, str]

UNREADABLE: Final = "Unreadable"
THEN: Final[Mapping[str, str]] = {
    "FleetQuota": "nothing new starts in its namespaces",
    "PlacementPolicy": "work under it waits",
    "PriceBook": "its prices are unknown",
    "LendingPolicy": "nothing more is lent by it, and what is on loan stays to the end of its term",
}
_IN_PART: Final = frozenset({"FleetQuota", "PlacementPolicy", "LendingPolicy"})
"""What is left of the others is used for nothing."""
_WHOM: Final[Mapping[str, str]] = {"FleetQuota": "namespaces", "PlacementPolicy": "workloads"}
"""The selector that says whom an object is for."""
KEPT: Final = "what it said before goes on"


class Rule(NamedTuple):
    """An object as it can be acted on; `fault` says why that is not what is stored, "" where it is.
    Of one that is `closed` nothing but `left` can be read, and nobody knows what it said."""

    stored: Object
    left: Object
    fault: str = ""
    closed: bool = False

    @property
    def name(self) -> str:
        return str(self.stored["metadata"]["name"])

    @property
    def wide(self) -> bool:
        """Whether it may be for less than what is left of it says."""
        whom = _WHOM.get(str(self.stored["kind"]), "")
        return self.closed and _said(self.left, whom) != _said(self.stored, whom)

    @property
    def words(self) -> str:
        """The fault as a sentence about the object; "" for none."""
        metadata = self.stored["metadata"]
        place = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        return f"{self.stored['kind']} {place} cannot be read: {self.fault}" if self.fault else ""

    @property
    def wrong(self) -> Wrong | None:
        """The same for its status, with what follows from it."""
        return Wrong(UNREADABLE, f"{self.fault}; {self.then}") if self.fault else None

    @property
    def then(self) -> str:
        then = THEN[str(self.stored["kind"])] if self.closed else KEPT
        return f"{then} until it is mended"


class Rulebook:
    """See the module. What it gives is the very same as before where nothing has changed."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._kinds: dict[str, _Kept] = {}

    def rules(self, kind: Kind[Any]) -> Sequence[Rule]:
        """Of all objects of a kind."""
        kept = self._kinds.setdefault(kind.name, _Kept(kind))
        return kept.of(self._store.collection(kind.resource).snapshot().entries())


class _Kept:
    """The rules of one kind."""

    def __init__(self, kind: Kind[Any]) -> None:
        self._kind = kind
        self._entries: list[Entry] = []
        self._read: dict[tuple[str, str], tuple[Entry, Rule]] = {}
        self._sound: dict[tuple[str, str], tuple[str, Object]] = {}
        """What each was when it could be read, with its UID."""
        self._told: dict[_Labels, tuple[object, str]] = {}
        self._rules: Sequence[Rule] = ()

    def of(self, entries: list[Entry]) -> Sequence[Rule]:
        if len(entries) == len(self._entries) and all(
            new is old for new, old in zip(entries, self._entries, strict=True)
        ):
            return self._rules
        before, self._read = self._read, {}
        for entry in entries:
            known = before.get(entry.key)
            same = known is not None and known[0] is entry
            rule = known[1] if known is not None and same else self._rule(entry)
            self._read[entry.key] = entry, rule
        for key in self._sound.keys() - self._read.keys():
            del self._sound[key]
        self._entries = entries
        self._rules = tuple(rule for _, rule in self._read.values())
        self._tell()
        return self._rules

    def _rule(self, entry: Entry) -> Rule:
        obj, uid = entry.parse(), entry.uid
        spec = {name: value for name, value in obj.items() if name != "status"}
        causes = self._kind.problems(spec)
        if not causes:
            self._sound[entry.key] = uid, obj
            return Rule(obj, obj)
        fault = "; ".join(f"{each.field}: {each.message}" for each in causes)
        sound = self._sound.get(entry.key)
        if sound is not None and sound[0] == uid:
            return Rule(obj, sound[1], fault)
        return Rule(obj, self._left(spec), fault, closed=True)

    def _left(self, obj: Object) -> Object:
        """What is left of an object; whom it is for, where that cannot be read, is all there is."""
        if self._kind.name not in _IN_PART:
            return {}
        left = salvaged(self._kind, obj)
        whom = _WHOM.get(self._kind.name)
        if whom is None:
            return left
        if self._kind.problems(left):
            left["spec"] = {}
        if whom not in left["spec"] and _said(obj, whom) is not None:
            left["spec"][whom] = {}
        return left

    def _tell(self) -> None:
        """Log what is new; a status that is written makes no new revision of what is wrong."""
        told: dict[_Labels, tuple[object, str]] = {}
        for each in self._rules:
            if not each.fault:
                continue
            metadata = each.stored["metadata"]
            labels = self._kind.name, str(metadata.get("namespace") or ""), each.name
            told[labels] = metadata.get("generation"), each.fault
            metrics.UNREADABLE.labels(*labels).set(1)
            if self._told.get(labels) != told[labels]:
                log.error("%s; %s", each.words, each.then)
        for labels in self._told.keys() - told.keys():
            metrics.UNREADABLE.remove(*labels)
        self._told = told


def _said(obj: Object, field: str) -> Any:
    """A field of a spec; {} of a spec that is none."""
    spec = obj.get("spec", {})
    return spec.get(field) if isinstance(spec, dict) else {}
