"""What PlacementPolicies and PriceBooks say of themselves: whether they can be read.

Written where one cannot be, and again where it is mended; one that always could be says nothing.
FleetQuotas and LendingPolicies have more to say: `quotas`, `loans`. When is `statuses`' to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.errors import NotFound
from fleet.gateway.statuses import Statuses
from fleet.scheduling.quota_objects import VALID
from fleet.scheduling.record import with_condition
from policies import PLACEMENT_POLICY, PRICE_BOOK

if TYPE_CHECKING:
    from fleet.gateway.rulebook import Rule
    from fleet.kube.resources import Resource

Object = dict[str, Any]


class Validity(Statuses):
    what = "whether policies can be read"

    async def write(self) -> None:
        for kind in (PLACEMENT_POLICY, PRICE_BOOK):
            for rule in self._placing.rulebook.rules(kind):
                if rule.fault or (rule.stored.get("status") or {}).get("conditions"):
                    await self._write(kind.resource, rule)

    async def _write(self, resource: Resource, rule: Rule) -> None:
        wrong = rule.wrong

        def change(obj: Object) -> Object | None:
            before: Object = obj.get("status") or {}
            conditions = with_condition(
                before.get("conditions") or (),
                type=VALID,
                status="True" if wrong is None else "False",
                reason="Sound" if wrong is None else wrong.reason,
                message="" if wrong is None else wrong.message,
                now=self._now(),
            )
            status = {**before, "conditions": conditions}
            return None if status == before else {**obj, "status": status}

        namespace = str(rule.stored["metadata"].get("namespace") or "")
        try:
            await self._store.rewrite(resource, namespace=namespace, name=rule.name, change=change)
        except NotFound:
            return  # deleted meanwhile
