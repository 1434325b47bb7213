"""A scenario: a fleet with its rules, the work that comes, and what runs already when it begins.

Made of documents, each checked as a write of it would be: by its kind's rules, and by what else
there is. Time begins at `start`: as given, else when the first work arrived, else when the newest
price was true; never at the time of the clock, so that equal files give equal outcomes. Prices keep
the age that they have then. Next step: `course` plays it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson

from fleet.errors import ApiError, Invalid
from fleet.kube.defaults.validation.policies import SYSTEM_PRIORITIES
from fleet.kube.schema import FieldValidation, decode
from fleet.kube.schema.documents import structural_schema
from fleet.scheduling.lending.terms import terms_of
from fleet.scheduling.mentions import known_of, unknown_names
from fleet.scheduling.planner import Fleet
from fleet.scheduling.price import prices_of
from fleet.scheduling.quota_objects import tree_of
from fleet.scheduling.selection import policy_of
from fleet.scheduling.simulation import inventory, works
from fleet.scheduling.simulation.documents import Problems
from policies import (
    CLUSTER,
    FLEET_QUOTA,
    LENDING_POLICY,
    PLACEMENT,
    PLACEMENT_POLICY,
    PRICE_BOOK,
    builtin,
    kinds,
)
from policies.quota_tree import claims_of, specs_of
from policies.schema import GROUP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from fleet.kube.resources import GroupVersionResource
    from fleet.scheduling.clusters import Cluster
    from fleet.scheduling.lending.terms import Terms
    from fleet.scheduling.quota.tree import Tree
    from fleet.scheduling.selection import Policy
    from fleet.scheduling.simulation.documents import Document
    from fleet.scheduling.simulation.works import Work
    from policies.kind import Kind
    from policies.parts import Budget

Object = dict[str, Any]

LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
_POLICIES: Final[tuple[Kind[Any], ...]] = (
    CLUSTER, PLACEMENT_POLICY, FLEET_QUOTA, LENDING_POLICY, PRICE_BOOK,
)  # fmt: skip
_OF_THE_RELEASE: Final = frozenset(
    {("", "Node"), ("", "Namespace"), ("scheduling.k8s.io", "PriorityClass")}
)
_AGES: Final = frozenset({PRICE_BOOK.name})
"""Kinds whose relation judges how old something is when it is written, which nobody does here."""


@dataclass(frozen=True, slots=True)
class Scenario:
    start: datetime
    fleet: Fleet
    """Policies, prices, priorities; the clusters are in `inventory`."""
    inventory: inventory.Inventory
    tree: Tree
    terms: tuple[Terms, ...]
    quota_of: Mapping[str, str]
    """By namespace."""
    budgets: Mapping[str, Budget]
    parents: Mapping[str, str]
    works: tuple[Work, ...]
    placements: Mapping[str, Object]
    """By uid of the work, what was decided before the start."""
    unsplittable: Callable[[Object], str]
    warnings: tuple[str, ...] = ()

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        return self.inventory.clusters

    @property
    def has_budgets(self) -> bool:
        return bool(self.budgets) or any(
            each.spec.objective.budget is not None for each in self.fleet.policies
        )


def scenario_of(
    documents: Sequence[Document],
    *,
    start: datetime | None = None,
    unsplittable: Callable[[Object], str] = lambda obj: "",
) -> Scenario:
    """Raises ConfigError naming everything that is wrong."""
    problems = Problems()
    parts = _Parts.of(documents, problems)
    for each in _POLICIES:
        parts.check(each, problems)
    parts.check_placements(problems)
    found = works.works_of(parts.works, problems)
    problems.raise_if_any()
    there = inventory.inventory_of(parts.of_kind(CLUSTER), parts.nodes, parts.pods, problems)
    problems.raise_if_any()
    if not there.clusters:
        problems.add("nothing to simulate", "there is no Cluster among the objects")
    if not found:
        problems.add("nothing to simulate", "there is no Job or Pod, and no table of work")
    priorities, never = _priorities(parts)
    problems.raise_if_any()
    books = [each.obj for each in parts.of_kind(PRICE_BOOK)]
    start = (start or _first(found) or _newest(books) or LONG_AGO).astimezone(UTC)
    quotas = [each.obj for each in parts.of_kind(FLEET_QUOTA)]
    namespaces = _namespaces(parts.namespaces, found)
    claims = claims_of(quotas, namespaces)
    specs = specs_of(quotas)
    prices = prices_of(books, now=start)
    fleet = Fleet(
        clusters=(),
        policies=_policies(each.obj for each in parts.of_kind(PLACEMENT_POLICY)),
        prices=prices,
        priorities=priorities,
        never_preempt=never,
    )
    warnings = [
        *there.warnings,
        *prices.warnings,
        *parts.warnings(),
        *_outdated(len(prices.outdated)),
        *_uncounted(quotas, claims.quota, found),
    ]
    return Scenario(
        start=start,
        fleet=fleet,
        inventory=there,
        tree=tree_of(quotas),
        terms=tuple(terms_of(each.obj for each in parts.of_kind(LENDING_POLICY))),
        quota_of=claims.quota,
        budgets={n: spec.budget for n, spec in specs.items() if spec.budget is not None},
        parents={name: spec.parent for name, spec in specs.items() if spec.parent},
        works=tuple(found),
        placements=parts.placements(),
        unsplittable=unsplittable,
        warnings=tuple(warnings),
    )


class _Parts:
    """The documents by what they are to a simulation."""

    def __init__(self) -> None:
        self.policies: dict[str, list[Document]] = {kind.name: [] for kind in kinds()}
        self.nodes: list[Document] = []
        self.pods: list[Document] = []
        """Those that run in members."""
        self.works: list[Document] = []
        self.namespaces: list[Document] = []
        self.classes: list[Document] = []
        self.others: list[Document] = []

    @classmethod
    def of(cls, documents: Sequence[Document], problems: Problems) -> _Parts:
        found = cls()
        placed = {
            _workload_key(each.obj)
            for each in documents
            if (each.group, each.kind) == (GROUP, PLACEMENT.name)
        }
        for document in documents:
            each = document
            if (document.group, document.kind) in _OF_THE_RELEASE:
                try:
                    each = replace(document, obj=works.sound(document))
                except ApiError as error:
                    problems.add(document, error)
                    continue
            place = found._place(each, placed)
            if place is None:
                known = ", ".join(found.policies)
                why = f"kind: {each.obj['apiVersion']} has no {each.kind}, it has {known}"
                problems.add(each, why)
            else:
                place.append(each)
        return found

    def _place(
        self, document: Document, placed: set[tuple[str, str, str]]
    ) -> list[Document] | None:
        obj, group, kind = document.obj, document.group, document.kind
        if group == GROUP:
            return self.policies.get(kind)
        if (group, kind) == ("", "Node"):
            return self.nodes
        if (group, kind) == ("", "Namespace"):
            return self.namespaces
        if (group, kind) == ("scheduling.k8s.io", "PriorityClass"):
            return self.classes
        if not works.is_workload(obj):
            return self.others
        on_a_node = kind == "Pod" and bool((obj.get("spec") or {}).get("nodeName"))
        if on_a_node and (document.namespace, kind, document.name) not in placed:
            return self.pods
        return self.works

    def of_kind(self, kind: Kind[Any]) -> list[Document]:
        return self.policies[kind.name]

    def check(self, kind: Kind[Any], problems: Problems) -> None:
        """Fill in the defaults, then judge each alone, and beside all others."""
        for each in self.of_kind(kind):
            obj = copy.deepcopy(each.obj)
            try:
                _check_metadata(kind, obj)
                kind.rules.default(obj)
                kind.rules.validate(obj, None)
                if "status" in obj:
                    kind.rules.validate_status(obj)
            except ApiError as error:
                problems.add(each, error)
            else:
                each.obj.clear()
                each.obj.update(obj)
        if kind.relations is None or kind.name in _AGES or problems.lines:
            return
        for each in self.of_kind(kind):
            try:
                kind.relations.validate(each.obj, None, self._others, now=LONG_AGO)
            except ApiError as error:
                problems.add(each, error)

    def _others(self, gvr: GroupVersionResource) -> Iterator[Object]:
        rows = {kind.resource.gvr: self.of_kind(kind) for kind in kinds()}
        for each in rows.get(gvr, self.namespaces if gvr.resource == "namespaces" else []):
            yield each.obj

    def check_placements(self, problems: Problems) -> None:
        for each in self.of_kind(PLACEMENT):
            try:
                PLACEMENT.parse(each.obj)
            except Invalid as error:
                problems.add(each, error)

    def placements(self) -> dict[str, Object]:
        return {
            f"{namespace}/{kind.lower()}/{name}": each.obj
            for each in self.of_kind(PLACEMENT)
            for namespace, kind, name in [_workload_key(each.obj)]
        }

    def warnings(self) -> Iterator[str]:
        known = known_of(each.obj for each in self.of_kind(CLUSTER))
        for kind in _POLICIES:
            for each in self.of_kind(kind):
                for told in unknown_names(kind.name, each.obj.get("spec") or {}, known):
                    yield f"{each}: {told}"
        if self.others:
            names = ", ".join(f"{each.kind} {each.name}" for each in self.others[:5])
            more = len(self.others) - 5
            rest = f" and {more} more" if more > 0 else ""
            yield f"no part of a simulation: {names}{rest}"


def _check_metadata(kind: Kind[Any], obj: Object) -> None:
    """Raises BadRequest for what no object has in its `metadata`; of the rest its rules judge. What
    some server has let in is sound."""
    if obj["metadata"].get("uid"):
        return
    gvr = kind.resource.gvr
    told = {name: obj[name] for name in ("apiVersion", "kind", "metadata")}
    decode(
        orjson.dumps(told),
        schema=structural_schema(kind.openapi),
        kind=(gvr.group, gvr.version, kind.name),
        validation=FieldValidation.STRICT,
    )


def _workload_key(placement: Object) -> tuple[str, str, str]:
    told = (placement.get("spec") or {}).get("workload") or {}
    namespace = str(placement["metadata"].get("namespace", ""))
    return namespace, str(told.get("kind", "")), str(told.get("name", ""))


def _priorities(parts: _Parts) -> tuple[dict[str, int], frozenset[str]]:
    values, never = dict(SYSTEM_PRIORITIES), set[str]()
    for each in parts.classes:
        values[each.name] = int(each.obj.get("value", 0))
        if each.obj.get("preemptionPolicy") == "Never":
            never.add(each.name)
    return values, frozenset(never)


def _namespaces(documents: Iterable[Document], found: Iterable[Work]) -> list[Object]:
    """Those that are given, and those that work is in."""
    given = {each.name: each.obj for each in documents}
    for work in found:
        name = work.obj["metadata"]["namespace"]
        given.setdefault(name, {"metadata": {"name": name, "labels": {}}})
    return [
        {
            **obj,
            "metadata": {
                **obj["metadata"],
                "labels": {
                    "kubernetes.io/metadata.name": name, **(obj["metadata"].get("labels") or {})
                },
            },
        }
        for name, obj in sorted(given.items())
    ]  # fmt: skip


def _policies(objects: Iterable[Object]) -> tuple[Policy, ...]:
    """Those that are given, and those that every fleet has."""
    shipped = (each for each in builtin.objects() if each["kind"] == PLACEMENT_POLICY.name)
    found = {
        (policy.namespace, policy.name): policy for policy in map(policy_of, (*shipped, *objects))
    }
    return tuple(found.values())


def _first(found: Iterable[Work]) -> datetime | None:
    return min((e.arrives for e in found if isinstance(e.arrives, datetime)), default=None)


def _newest(books: Iterable[Object]) -> datetime | None:
    offers = [offer for book in books for offer in PRICE_BOOK.parse(book).spec.offers]
    return max((each.as_of for each in offers if each.as_of is not None), default=None)


def _outdated(count: int) -> Iterator[str]:
    if count:
        offers = "offer is" if count == 1 else "offers are"
        yield f"{count} {offers} older at the start than the PriceBook allows: the price is unknown"


def _uncounted(
    quotas: Sequence[Object], quota_of: Mapping[str, str], found: Iterable[Work]
) -> Iterator[str]:
    """Where there are quotas, work that none counts is rarely what was meant."""
    if not quotas:
        return
    names = sorted({work.obj["metadata"]["namespace"] for work in found} - quota_of.keys())
    if names:
        yield (
            f"no FleetQuota counts namespace {', '.join(names)}: nothing limits its work (a quota "
            "selects namespaces by their labels; give the Namespace objects)"
        )
