"""The quotas as they are stored: FleetQuotas, whose namespaces each counts, and LendingPolicies.

Read again only when one of those objects has changed. What makes no tree is not taken: what was
read before goes on. Next step: `placing` has the engine and the desk decide by it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import Invalid
from fleet.gateway.givens import row
from fleet.gateway.lending import terms_in
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.quota.tree import Tree
from fleet.scheduling.quota_objects import taken_back_in, tree_of
from policies import FLEET_QUOTA, LENDING_POLICY
from policies.quota_tree import Claims, claims_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.kube.resources import Resource
    from fleet.kube.revision import Revision
    from fleet.scheduling.lending.terms import Terms
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore

log = logging.getLogger(__name__)

Object = dict[str, Any]

NAMESPACES: Final = GroupVersionResource("", "v1", "namespaces")


class QuotaRules:
    """See the module."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._seen: list[tuple[str, Revision]] | None = None
        self.tree = Tree()
        self.terms: list[Terms] = []
        self.claims = Claims({}, {})
        """Which quota counts which namespace."""

    @property
    def unread(self) -> bool:
        return self._seen is None

    def read(self) -> bool:
        """Whether tree or terms are others than before."""
        quotas, namespaces = self._entries(FLEET_QUOTA.resource), self._entries(row(NAMESPACES))
        policies = self._entries(LENDING_POLICY.resource)
        seen = [(each.name, each.revision) for each in (*quotas, *namespaces, *policies)]
        if seen == self._seen:
            return False
        self._seen = seen
        objects = [each.parse() for each in quotas]
        self.claims = claims_of(objects, [each.parse() for each in namespaces])
        try:
            tree, terms = tree_of(objects), terms_in(self._store)
        except Invalid as error:
            log.error("the quotas make no tree, those from before go on: %s", error)
            return False
        if (tree, terms) == (self.tree, self.terms):
            return False
        self.tree, self.terms = tree, terms
        return True

    def taken_back(self) -> Iterator[tuple[str, list[tuple[float, int]]]]:
        """What the status of each FleetQuota remembers that it took back lately: see
        `Engine.took_back`."""
        for entry in self._entries(FLEET_QUOTA.resource):
            yield entry.name, taken_back_in(entry.parse())

    def _entries(self, resource: Resource) -> list[Entry]:
        return self._store.collection(resource).snapshot().entries()
