"""What a workload mentions that the fleet does not have: a policy, a class of priority.

It is kept, and waits until that is there; whoever wrote it is told so at once
(`workload_warnings`). Where the names are looked up when it is placed: `fleet.scheduling.selection`
and `fleet.scheduling.demand`.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from fleet.gateway.givens import PRIORITY_CLASSES, row
from fleet.scheduling.selection import POLICY_LABEL, SHARED_NAMESPACE
from fleet.scheduling.workloads import read
from policies import PLACEMENT_POLICY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fleet.store.objects import ObjectStore

Object = dict[str, Any]


def unknown_names(obj: Object, store: ObjectStore) -> Iterator[str]:
    """A sentence for each; `obj` is a sound workload, or {}."""
    if obj:
        yield from _unknown_policy(obj, store)
        yield from _unknown_classes(obj, store)


def policy_named(obj: Object) -> str:
    return str(((obj.get("metadata") or {}).get("labels") or {}).get(POLICY_LABEL, ""))


def _unknown_policy(obj: Object, store: ObjectStore) -> Iterator[str]:
    named = policy_named(obj)
    places = dict.fromkeys((obj["metadata"].get("namespace", ""), SHARED_NAMESPACE))
    kind = PLACEMENT_POLICY.resource
    if not named or any(store.get(kind, place, named) for place in places):
        return
    snapshot = store.collection(kind).snapshot()
    known = (each.name for each in snapshot.entries() if each.namespace in places)
    yield (
        f'metadata.labels[{POLICY_LABEL}]: no PlacementPolicy is called "{named}", neither in '
        f"{' nor in '.join(places)}: it waits until there is one{_meant(named, known)}"
    )


def _unknown_classes(obj: Object, store: ObjectStore) -> Iterator[str]:
    """Of what says its priority as a number the class is not asked for."""
    reading, classes = read(obj), row(PRIORITY_CLASSES)
    for part in reading.parts if reading is not None else ():
        spec: Object = part.template.get("spec") or {}
        named = spec.get("priorityClassName")
        if not named or spec.get("priority") is not None or store.get(classes, "", named):
            continue
        field = ".".join(filter(None, (part.template_field, "spec.priorityClassName")))
        known = (each.name for each in store.collection(classes).snapshot().entries())
        yield (
            f'{field}: no PriorityClass is called "{named}": it waits until there is one'
            f"{_meant(named, known)}"
        )


def _meant(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, [*known], n=1)
    return f"; did you mean {near[0]}?" if near else ""
