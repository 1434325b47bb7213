"""What a workload mentions that the fleet does not have: a policy, a class of priority, a key.

It is kept, and waits until the policy or class is there; a label or annotation that nobody reads
has no effect. Whoever wrote it is told so at once (`workload_warnings`). Where the names are looked
up when it is placed: `fleet.scheduling.selection` and `fleet.scheduling.demand`; all keys are in
`keys`.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from fleet.gateway import keys
from fleet.gateway.givens import PRIORITY_CLASSES, row
from fleet.scheduling.selection import POLICY_LABEL, SHARED_NAMESPACE
from fleet.scheduling.workloads import read
from fleet.view.naming import CLUSTER_LABEL
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


def unread_keys(obj: Object, store: ObjectStore) -> Iterator[str]:
    """A sentence for each label and annotation of the fleet's domain that has no effect on a
    workload; labels that a policy selects by have one."""
    metadata: Object = obj.get("metadata") or {}
    made = keys.MADE if obj.get("kind") == "Pod" else keys.MADE - {CLUSTER_LABEL}
    known = {"labels": keys.LABELS | made, "annotations": keys.ANNOTATIONS | made}
    told = {
        where: [
            key
            for key in metadata.get(where) or ()
            if key.startswith(keys.DOMAIN) and key not in known[where]
        ]
        for where in known
    }
    # Asked for last: most writes have nothing that a policy would have to be read for.
    selected = _selected_by(metadata.get("namespace", ""), store) if told["labels"] else frozenset()
    told["labels"] = [key for key in told["labels"] if key not in selected]
    for where, found in told.items():
        for key in found:
            yield f"metadata.{where}[{key}]: nobody reads this{_instead(key, where, obj)}"


def _instead(key: str, where: str, obj: Object) -> str:
    if key == CLUSTER_LABEL:
        return f" of a {obj.get('kind')}; where it may run a PlacementPolicy says (spec.clusters)"
    if key in keys.ELSEWHERE:
        return f" of a {obj.get('kind')}; it is {keys.ELSEWHERE[key]}"
    readable = [*keys.LABELS, *keys.ANNOTATIONS]
    names = {each.removeprefix(keys.DOMAIN): each for each in readable}
    near = get_close_matches(key.removeprefix(keys.DOMAIN), [*names], n=1)
    if not near:
        return f"; the fleet reads {', '.join(sorted(readable))}"
    meant = names[near[0]]
    kind = "label" if meant in keys.LABELS else "annotation"
    return (
        f"; did you mean {meant}?" if where == f"{kind}s" else f"; did you mean the {kind} {meant}?"
    )


def _selected_by(namespace: str, store: ObjectStore) -> frozenset[str]:
    """The labels that policies select the work of a namespace by: its own, since a shared one has
    to be named."""
    found: set[str] = set()
    policies = store.collection(PLACEMENT_POLICY.resource).snapshot()
    for entry in policies.namespace(namespace).entries():
        selector: Object = (entry.parse().get("spec") or {}).get("workloads") or {}
        found |= set(selector.get("matchLabels") or ())
        found |= {each.get("key", "") for each in selector.get("matchExpressions") or ()}
    return frozenset(found)


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
