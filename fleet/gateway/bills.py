"""The bill of `fleet.dispatch`: what work costs, kept in Placements and in the months' records.

`fleet.scheduling.cost` says what stands in them; here it is read from the store and written to it.
A month's record is a ConfigMap in the fleet's own namespace (docs/decisions/0004); it is written
before the Placement goes, so that a gateway that dies in between has lost nothing, and holds the
Placement's UID, so that nothing counts twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import AlreadyExists, Conflict, StoreError
from fleet.gateway.rulebook import Rulebook
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.scheduling.cost import months
from fleet.scheduling.cost.ceilings import NO_CEILINGS, Ceilings
from fleet.scheduling.cost.intervals import carried, month_of
from fleet.scheduling.cost.showback import account_of, spending
from fleet.scheduling.selection import policy_of
from fleet.store.objects import MODIFIED_MEANWHILE
from policies import FLEET_QUOTA, PLACEMENT, PLACEMENT_POLICY
from policies.quota_tree import claims_of, specs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from fleet.kube.resources import Resource
    from fleet.store.entry import Entry
    from fleet.store.objects import ObjectStore
    from policies.quota_tree import Claims

Object = dict[str, Any]

CONFIG_MAPS: Final = GroupVersionResource("", "v1", "configmaps")
NAMESPACES: Final = GroupVersionResource("", "v1", "namespaces")
_ATTEMPTS: Final = 5
_FORGET_EVERY: Final = 64


class Bills:
    """Keeps what work costs. See `fleet.dispatch.billing.Bill`."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        now: Callable[[], datetime],
        uid: Callable[[], str],
        rulebook: Rulebook | None = None,
    ) -> None:
        """`rulebook` are the policies, shared with others who act on them."""
        self._store = store
        self._rulebook = rulebook or Rulebook(store)
        self._now = now
        self._uid = uid
        self._config_maps = _row(CONFIG_MAPS)
        self._namespaces = _row(NAMESPACES)
        self._one = asyncio.Lock()  # of this gateway's writes: they all concern the same record
        self._settled = 0

    def carry(self, before: Mapping[str, Any], after: Object) -> Object:
        return carried(before, after, now=self._now())

    async def settle(self, placement: Object) -> None:
        quota = self._quota_of(placement)
        async with self._one:
            for _ in range(_ATTEMPTS):
                entries = self._entries()
                changed = self._absorbed(entries, placement, quota)
                try:
                    for month, record in changed.items():
                        await self._write(record, entries.get(month))
                except (AlreadyExists, Conflict):
                    continue
                break
            else:
                name = months.record_name(month_of(self._now()))
                raise Conflict.of(
                    group="", resource="configmaps", name=name, why=MODIFIED_MEANWHILE
                )
            self._settled += 1
            if self._settled % _FORGET_EVERY == 0:
                await self._forget()

    def _absorbed(
        self, entries: Mapping[str, Entry], placement: Object, quota: str
    ) -> dict[str, Object]:
        records = {month: entry.parse() for month, entry in entries.items()}
        try:
            return months.absorbed(records, placement, quota=quota, now=self._now())
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            named = ", ".join(f"{months.NAMESPACE}/{each.name}" for each in entries.values())
            what = "{namespace}/{name}".format_map(placement["metadata"])
            raise StoreError(
                f"what Placement {what} cost cannot be kept: one of the ConfigMaps {named}, or the "
                f"Placement, cannot be read ({error}); mend it, or delete that ConfigMap"
            ) from error

    def ceilings(self, claims: Claims, rules: Sequence[Object] = ()) -> Ceilings:
        """What was spent this month and is to come, and what may be, with `rules` as given. Nothing
        is read where nobody has a budget."""
        kinds = {
            kind.name: [each for each in rules if each["kind"] == kind.name]
            for kind in (FLEET_QUOTA, PLACEMENT_POLICY)
        }
        stored = [rule.left for rule in self._rulebook.rules(FLEET_QUOTA)]
        specs = specs_of([*stored, *kinds[FLEET_QUOTA.name]])  # of two of one name the last
        budgets = {name: spec.budget for name, spec in specs.items() if spec.budget is not None}
        stored = [rule.left for rule in self._rulebook.rules(PLACEMENT_POLICY)]
        policies = (policy_of(each).spec for each in (*stored, *kinds[PLACEMENT_POLICY.name]))
        if not budgets and not any(each.objective.budget for each in policies):
            return NO_CEILINGS
        now = self._now()
        accounts = [
            account_of(each, now=now, quotas=claims.quota, promised=True)
            for each in self._all(PLACEMENT.resource)
        ]
        month = self._entries().get(month_of(now))
        past = months.read(month.parse()) if month is not None else ()
        return Ceilings(
            by_policy=spending(accounts, past, by="policy", now=now),
            by_quota=spending(accounts, past, by="team", now=now),
            budgets=budgets,
            parents={name: spec.parent for name, spec in specs.items() if spec.parent},
            quota_of=claims.quota,
        )

    async def _forget(self) -> None:
        """Drop the UIDs of Placements that are gone: nobody will bring them again."""
        entries = self._store.collection(PLACEMENT.resource).snapshot().entries()
        present = {entry.uid for entry in entries}
        for entry in self._entries().values():
            left = months.forgotten(entry.parse(), present)
            try:
                if left is not None:
                    await self._write(left, entry)
            except Conflict:
                continue  # another time

    async def _write(self, record: Object, before: Entry | None) -> None:
        if before is not None:
            await self._store.update(self._config_maps, record, expected=before.revision)
            return
        stamp = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata = {**record["metadata"], "uid": self._uid(), "creationTimestamp": stamp}
        await self._store.create(self._config_maps, {**record, "metadata": metadata})

    def _entries(self) -> dict[str, Entry]:
        """The months' records as they are stored."""
        there = self._store.collection(self._config_maps).snapshot().namespace(months.NAMESPACE)
        return {
            entry.name.removeprefix(months.PREFIX): entry
            for entry in there.entries()
            if months.LABEL in entry.labels
        }

    def _quota_of(self, placement: Object) -> str:
        counted = str((placement.get("status") or {}).get("quota") or "")
        if counted:
            return counted
        rules = self._rulebook.rules(FLEET_QUOTA)
        wide = {rule.name for rule in rules if rule.wide}
        left = (rule.left for rule in rules)
        quotas = claims_of(left, self._all(self._namespaces), last=wide).quota
        return quotas.get(placement["metadata"]["namespace"], "")

    def _all(self, resource: Resource) -> Iterator[Object]:
        for entry in self._store.collection(resource).snapshot().entries():
            yield entry.parse()


def _row(gvr: GroupVersionResource) -> Resource:
    row = builtin.resource(gvr)
    if row is None:
        raise LookupError(f"the release has no {gvr}")
    return row
