"""What the FleetQuota objects say of use: written from the accounts, when they have changed.

The accounts are made of Placements (see `placing`); nothing is read back from here but what a node
took back in the last minute, after a restart. When is `statuses`' to say.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fleet.errors import NotFound
from fleet.gateway import queue_metrics as metrics
from fleet.gateway.statuses import Statuses
from fleet.scheduling.quota_objects import status_of, taken_back_told
from fleet.scheduling.reasons import reason_of
from policies import FLEET_QUOTA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.scheduling.quota.report import Line
    from fleet.scheduling.quota.tree import Key
    from fleet.scheduling.quota_objects import Wrong

Object = dict[str, Any]


class Quotas(Statuses):
    what = "the use of quotas"

    async def write(self) -> None:
        engine = self._placing.engine
        by_node: dict[str, list[Line]] = {name: [] for name in engine.book.tree.nodes}
        for line in engine.report():
            by_node[line.node].append(line)
        admitted: Counter[str] = Counter()
        for run in engine.running().values():
            if run.item.quota in engine.book.tree.nodes:
                admitted.update(node.name for node in engine.book.tree.path(run.item.quota))
        self._measure(by_node)
        contested: dict[str, dict[str, Sequence[str]]] = {}
        for namespace, others in self._placing.claims.contested.items():
            owner = self._placing.claims.quota[namespace]
            for name in (owner, *others):
                rest = tuple(each for each in (owner, *others) if each != name)
                contested.setdefault(name, {})[namespace] = rest
        rules = self._placing.rulebook.rules(FLEET_QUOTA)
        unread = {rule.name: rule.wrong for rule in rules}
        for name, lines in by_node.items():
            wrong = unread.get(name) or self._placing.wrong_with(name)
            await self._write(name, lines, admitted[name], contested.get(name, {}), wrong)

    async def _write(
        self,
        name: str,
        lines: Sequence[Line],
        admitted: int,
        contested: dict[str, Sequence[str]],
        wrong: Wrong | None,
    ) -> None:
        def change(obj: Object) -> Object | None:
            before: Object = obj.get("status") or {}
            told = status_of(
                lines, now=self._now(), contested=contested, wrong=wrong, before=before
            )
            spent = (before.get("summary") or {}).get("spent")
            if spent:
                told["summary"]["spent"] = spent
            status = {**before, **told, "admitted": admitted}
            status.pop("takenBack", None)
            if recent := self._placing.engine.taken_back().get(name):
                status["takenBack"] = taken_back_told(recent, self._now())
            return None if status == before else {**obj, "status": status}

        resource = FLEET_QUOTA.resource
        try:
            await self._store.rewrite(resource, namespace="", name=name, change=change)
        except NotFound:
            return  # deleted meanwhile

    def _measure(self, by_node: dict[str, list[Line]]) -> None:
        metrics.WAITING.clear()
        engine = self._placing.engine
        for item, why in engine.waiting():
            reason = reason_of(why, item, engine.book) if why is not None else "New"
            metrics.WAITING.labels(item.quota, reason).inc()
        metrics.USED.clear()
        metrics.OVERCOMMITTED.clear()
        for name, lines in by_node.items():
            for line in lines:
                labels = (name, line.key.resource, line.key.accelerator)
                unit = unit_of(line.key)
                metrics.USED.labels(*labels).set((line.used - line.earmarked) / unit)
                metrics.OVERCOMMITTED.labels(*labels).set(line.overcommitted / unit)


def unit_of(key: Key) -> int:
    """Smallest units in one of the resource."""
    return 1000 if key.resource == "cpu" else 1
