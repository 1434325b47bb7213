"""Work that a write leaves without a quota: it counts nowhere any more, and nothing limits it.

That happens when a FleetQuota is deleted or selects fewer namespaces, and when a namespace loses
the label it was selected by. None of it is a fault; `policy_warnings` tells whoever wrote.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fleet.dispatch.record import ENDED
from fleet.gateway.own import NAMESPACES
from fleet.kube import builtin
from policies import FLEET_QUOTA, PLACEMENT
from policies.quota_tree import claims_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.kube.resources import Resource
    from fleet.store.objects import ObjectStore

Object = dict[str, Any]

_ROW = builtin.resource(NAMESPACES)
_LISTED = 5


class Counted:
    """Which namespaces quotas count, as it is in the store now."""

    def __init__(self, store: ObjectStore) -> None:
        assert _ROW is not None
        self._store = store
        self.quotas = _by_name(store, FLEET_QUOTA.resource)
        self.namespaces = _by_name(store, _ROW)

    def left_by(self, quotas: Mapping[str, Object], namespaces: Mapping[str, Object]) -> str:
        """The sentence about work that no quota would count any more if these were all quotas and
        namespaces; "" where there is none."""
        before = claims_of(self.quotas.values(), self.namespaces.values()).quota
        after = claims_of(quotas.values(), namespaces.values()).quota
        left = {
            name
            for name in before.keys() - after.keys()
            if name in namespaces and not namespaces[name]["metadata"].get("deletionTimestamp")
        }
        found = list(self._work_in(left))
        if not found:
            return ""
        where = sorted({namespace for namespace, _ in found})
        names = ", ".join(where[:_LISTED])
        if len(where) > _LISTED:
            names += f" and {len(where) - _LISTED} more"
        counts = Counter(waits for _, waits in found)
        told = [
            f"{number} {'workload' if number == 1 else 'workloads'} {word if number > 1 else one}"
            for number, word, one in (
                (counts[False], "that run", "that runs"),
                (counts[True], "that wait", "that waits"),
            )
            if number
        ]
        plural = "namespace" if len(where) == 1 else "namespaces"
        return (
            f"no quota counts {plural} {names} any more, and none limits it: there "
            f"{'is' if len(found) == 1 else 'are'} {' and '.join(told)}"
        )

    def _work_in(self, namespaces: Iterable[str]) -> Iterable[tuple[str, bool]]:
        """The namespace of each workload that is not over, and whether it waits."""
        placements = self._store.collection(PLACEMENT.resource).snapshot()
        for namespace in namespaces:
            for entry in placements.namespace(namespace).entries():
                phase = (entry.parse().get("status") or {}).get("phase", "Queued")
                if phase not in ENDED:
                    yield namespace, phase == "Queued"


def _by_name(store: ObjectStore, row: Resource) -> dict[str, Object]:
    return {each.name: each.parse() for each in store.collection(row).snapshot().entries()}
