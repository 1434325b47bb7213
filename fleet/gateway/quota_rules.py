"""The quotas as they are stored: FleetQuotas, whose namespaces each counts, and LendingPolicies.

Read again only when one of those objects has changed. What cannot be read, and what is at odds with
the others, stops only itself: see `rulebook` and `sound_tree_of`. Next step: `placing` has the
engine and the desk decide by it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fleet.errors import Cause, Invalid
from fleet.gateway.givens import row
from fleet.gateway.lending import terms_in
from fleet.gateway.rulebook import KEPT, THEN, Rule
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.quota.tree import Tree
from fleet.scheduling.quota_objects import Wrong, sound_tree_of, taken_back_in
from policies import FLEET_QUOTA, LENDING_POLICY
from policies.quota_tree import Claims, claims_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from fleet.gateway.rulebook import Rulebook
    from fleet.kube.resources import Resource
    from fleet.scheduling.lending.terms import Terms
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore

log = logging.getLogger(__name__)

Object = dict[str, Any]

NAMESPACES: Final = GroupVersionResource("", "v1", "namespaces")


class Quotas(NamedTuple):
    """What the objects say together. `closed` are the quotas where nothing new starts, with why."""

    tree: Tree
    claims: Claims
    """Which quota counts which namespace."""
    terms: list[Terms]
    closed: Mapping[str, str]
    kept: Mapping[str, str]
    """Those that are what they were before, with why."""
    unread: frozenset[str]

    def admit(self, obj: Object) -> None:
        """Raises Invalid for work of a namespace whose quota nobody knows."""
        metadata = obj["metadata"]
        quota = self.claims.quota.get(str(metadata.get("namespace", "")), "")
        if (why := self.closed.get(quota)) is None:
            return
        told = "" if why.startswith(f"FleetQuota {quota} ") else f"FleetQuota {quota} is below: "
        raise Invalid.of(
            group=str(obj["apiVersion"]).rpartition("/")[0],
            kind=obj["kind"],
            name=metadata["name"],
            causes=[Cause("FieldValueInvalid", f"{told}{why}", "metadata.namespace")],
        )

    def wrong(self, name: str) -> Wrong | None:
        """Why a quota that can be read is not what its object says."""
        if name in self.kept:
            return Wrong("AtOdds", f"{self.kept[name]}; {KEPT} until it is mended")
        if name in self.unread or name not in self.closed:
            return None
        return Wrong("AtOdds", f"{self.closed[name]}; {THEN[FLEET_QUOTA.name]} until it is mended")


NO_QUOTAS: Final = Quotas(Tree(), Claims({}, {}), [], {}, {}, frozenset())


class QuotaRules:
    """See the module."""

    def __init__(
        self, store: ObjectStore, rulebook: Rulebook, *, donor_of: Callable[[str], str]
    ) -> None:
        """`donor_of` says who lends by a LendingPolicy, "" where nothing is on loan."""
        self._store = store
        self._rulebook = rulebook
        self._donor_of = donor_of
        self._seen: tuple[object, ...] | None = None
        self.quotas = NO_QUOTAS

    @property
    def unread(self) -> bool:
        return self._seen is None

    def read(self) -> bool:
        """Whether tree or terms are others than before."""
        quotas, policies = self._rulebook.rules(FLEET_QUOTA), self._rulebook.rules(LENDING_POLICY)
        namespaces = self._entries(row(NAMESPACES))
        revisions = [(each.name, each.revision) for each in namespaces]
        seen = self._seen
        if seen is not None and seen[0] is quotas and seen[1] is policies and seen[2] == revisions:
            return False
        self._seen = quotas, policies, revisions
        before = self.quotas
        found = self._read(quotas, policies, (each.parse() for each in namespaces))
        # Statuses are written often: what says the same is the very same, so that all can tell.
        same = {name: old for name, old in before._asdict().items() if old == getattr(found, name)}
        self.quotas = found._replace(**same)
        for name in self.quotas.tree.nodes:
            wrong = self.quotas.wrong(name)
            if wrong is not None and wrong != before.wrong(name):
                log.error("%s", wrong.message)
        return (self.quotas.tree, self.quotas.terms) != (before.tree, before.terms)

    def given(self, rules: Sequence[Object]) -> Quotas:
        """What they would say if some were as in `rules`."""
        by_kind: dict[str, dict[str, Object]] = {}
        for obj in rules:
            by_kind.setdefault(obj["kind"], {})[obj["metadata"]["name"]] = obj

        def with_given(kind: Any) -> list[Rule]:
            instead = by_kind.get(kind.name, {})
            stored = [each for each in self._rulebook.rules(kind) if each.name not in instead]
            return stored + [Rule(obj, obj) for obj in instead.values()]

        namespaces = {each.name: each.parse() for each in self._entries(row(NAMESPACES))}
        namespaces |= by_kind.get("Namespace", {})
        return self._read(with_given(FLEET_QUOTA), with_given(LENDING_POLICY), namespaces.values())

    def _read(
        self, quotas: Sequence[Rule], policies: Sequence[Rule], namespaces: Iterable[Object]
    ) -> Quotas:
        objects = [each.left for each in quotas]
        unread = {each.name: each.words for each in quotas if each.closed}
        wide = frozenset(each.name for each in quotas if each.wide)
        found = sound_tree_of(objects, unread, before=self.quotas.tree)
        return Quotas(
            found.tree,
            claims_of(objects, namespaces, last=wide),
            terms_in(policies, closed=found.closed, donor_of=self._donor_of),
            found.closed,
            found.kept,
            frozenset(unread),
        )

    def taken_back(self) -> Iterator[tuple[str, list[tuple[float, int]]]]:
        """What the status of each FleetQuota remembers that it took back lately: see
        `Engine.took_back`. Nothing, where that cannot be read."""
        for entry in self._entries(FLEET_QUOTA.resource):
            obj = entry.parse()
            if not FLEET_QUOTA.status_problems(obj):
                yield entry.name, taken_back_in(obj)

    def _entries(self, resource: Resource) -> list[Entry]:
        return self._store.collection(resource).snapshot().entries()
