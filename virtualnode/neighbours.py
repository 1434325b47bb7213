"""Pods that are not to be beside others: required pod anti-affinity, of both sides. Pure.

As the plugin InterPodAffinity of kube-scheduler has it: a pod goes to no node in whose domain a
pod runs that one of its terms matches, nor to one in whose domain a pod runs a term of which
matches it. Next step: `scheduling` asks after room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.kube.selectors import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Object = dict[str, Any]

OWN: Final = "node(s) didn't match pod anti-affinity rules"
THEIRS: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_UNKNOWN: Final = ("matchLabelKeys", "mismatchLabelKeys")


@dataclass(frozen=True, slots=True)
class Term:
    """Pods that are kept away, and how far."""

    key: str
    """The node label whose values are domains."""
    labels: LabelSelector
    namespaces: frozenset[str] | None
    """None: all."""

    def matches(self, neighbour: Neighbour) -> bool:
        there = self.namespaces is None or neighbour.namespace in self.namespaces
        return there and self.labels.matches(neighbour.labels)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A pod as others see it."""

    namespace: str
    labels: Mapping[str, str]
    terms: tuple[Term, ...] = ()

    @classmethod
    def of(cls, pod: Object) -> Neighbour:
        metadata = pod["metadata"]
        namespace = metadata.get("namespace", "")
        terms = tuple(_term(each, namespace) for each in required(pod) if not _unknown(each))
        return cls(namespace, metadata.get("labels") or {}, terms)


def required(pod: Object) -> Sequence[Object]:
    """The terms of a pod's required anti-affinity."""
    anti: Object = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    return anti.get(_REQUIRED) or ()


def unsupported(pod: Object) -> str:
    """What of it is not known here, "" for nothing."""
    return next(filter(None, map(_unknown, required(pod))), "")


def why_not(
    pod: Neighbour,
    node: Mapping[str, str],
    there: Iterable[tuple[Mapping[str, str], Sequence[Neighbour]]],
) -> str:
    """What speaks against a node with those labels, "" where nothing does. `there` are the labels
    and the pods of each node."""
    for labels, pods in there:
        mine = [term for term in pod.terms if _together(node, labels, term.key)]
        if any(term.matches(each) for term in mine for each in pods):
            return OWN
    for labels, pods in there:
        for each in pods:
            for term in each.terms:
                if _together(node, labels, term.key) and term.matches(pod):
                    return THEIRS
    return ""


def _together(one: Mapping[str, str], other: Mapping[str, str], key: str) -> bool:
    return key in one and one[key] == other.get(key)


def _term(term: Object, namespace: str) -> Term:
    named = frozenset(term.get("namespaces") or ())
    selector = term.get("namespaceSelector")
    everywhere = selector is not None and not any(selector.values())
    return Term(
        key=term["topologyKey"],
        labels=LabelSelector.from_object(term.get("labelSelector")),
        namespaces=None if everywhere else named or frozenset({namespace}),
    )


def _unknown(term: Object) -> str:
    if any((term.get("namespaceSelector") or {}).values()):
        return "a namespaceSelector of podAntiAffinity that is not empty"
    known = next((each for each in _UNKNOWN if term.get(each)), "")
    return f"{known} of podAntiAffinity" if known else ""
