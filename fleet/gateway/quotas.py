"""What the FleetQuota objects say of use: written from the accounts, when they have changed.

One task, told after each round of the planner, writes what differs and at most once in a while; so
a crowd of decisions makes one write of each quota. The accounts are made of Placements (see
`placing`); nothing is read back from here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from fleet.errors import ApiError, NotFound, StoreError
from fleet.gateway import queue_metrics as metrics
from fleet.scheduling.quota_objects import status_of
from fleet.scheduling.reasons import reason_of
from policies import FLEET_QUOTA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from fleet.gateway.placing import Placing
    from fleet.scheduling.quota.report import Line
    from fleet.scheduling.quota.tree import Key
    from fleet.store.objects import ObjectStore

log = logging.getLogger(__name__)

Object = dict[str, Any]

_SETTLE_S: Final = 1.0


class Quotas:
    def __init__(
        self,
        store: ObjectStore,
        placing: Placing,
        *,
        now: Callable[[], datetime],
        settle_s: float = _SETTLE_S,
    ) -> None:
        self._store = store
        self._placing = placing
        self._now = now
        self._settle_s = settle_s
        self._news = asyncio.Event()
        placing.on_round(self._news.set)

    async def run(self) -> None:
        """Write what has changed, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self.write()
            except (ApiError, StoreError) as error:
                log.warning("the use of quotas was not written: %s", error)
                self._news.set()
            except Exception:
                log.exception("the use of quotas was not written")
            await asyncio.sleep(self._settle_s)

    async def write(self) -> None:
        """Once, for all quotas. A second time with nothing new writes nothing."""
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
        for name, lines in by_node.items():
            await self._write(name, lines, admitted[name], contested.get(name, {}))

    async def _write(
        self,
        name: str,
        lines: Sequence[Line],
        admitted: int,
        contested: dict[str, Sequence[str]],
    ) -> None:
        def change(obj: Object) -> Object | None:
            before: Object = obj.get("status") or {}
            told = status_of(lines, now=self._now(), contested=contested, before=before)
            spent = (before.get("summary") or {}).get("spent")
            if spent:
                told["summary"]["spent"] = spent
            status = {**before, **told, "admitted": admitted}
            return None if status == before else {**obj, "status": status}

        resource = FLEET_QUOTA.resource
        try:
            await self._store.rewrite(resource, namespace="", name=name, change=change)
        except NotFound:
            return  # deleted meanwhile

    def _measure(self, by_node: dict[str, list[Line]]) -> None:
        metrics.WAITING.clear()
        for item, why in self._placing.engine.waiting():
            reason = reason_of(why) if why is not None else "New"
            metrics.WAITING.labels(item.quota, reason).inc()
        metrics.USED.clear()
        metrics.OVERCOMMITTED.clear()
        for name, lines in by_node.items():
            for line in lines:
                labels = (name, line.key.resource, line.key.accelerator)
                unit = _unit(line.key)
                metrics.USED.labels(*labels).set((line.used - line.earmarked) / unit)
                metrics.OVERCOMMITTED.labels(*labels).set(line.overcommitted / unit)


def _unit(key: Key) -> int:
    """Smallest units in one of the resource."""
    return 1000 if key.resource == "cpu" else 1
