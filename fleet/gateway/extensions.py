"""Extensions beside the gateway: who hears of their faults, and what price sources say.

Filters and scores are asked by `fleet.scheduling.placement`. A price source is asked once a minute,
in a thread of its own, so that one that hangs holds nobody up, not even the gateway's end; what it
says is stored as a PriceBook of its name, and is looked at, compared and grows old as any other:
offers that say no time of their own are true as of when they were said.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import Counter

from fleet.errors import AlreadyExists, ApiError, StoreError
from fleet.scheduling.extension import Extensions
from policies import PRICE_BOOK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fleet.scheduling.extension import Books, Extension, PriceSource
    from fleet.store.objects import ObjectStore

log = logging.getLogger(__name__)

Object = dict[str, Any]

SOURCE_ANNOTATION: Final = "fleet.dev/price-source"
EVERY_S: Final = 60.0
_SAY_AGAIN_S: Final = 600.0

FAILURES = Counter(
    "fleet_extension_failures_total",
    "Failures of installed extensions, by kind (filter, score, price source) and name.",
    ["kind", "name"],
)


class Complaints:
    """Hears of extensions that fail: counts all, and logs what was not said for ten minutes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._said: dict[tuple[str, str], tuple[str, float]] = {}

    def __call__(self, kind: str, name: str, error: str) -> None:
        FAILURES.labels(kind, name).inc()
        before = self._said.get((kind, name))
        if before is None or before[0] != error or self._clock() - before[1] >= _SAY_AGAIN_S:
            self._said[kind, name] = error, self._clock()
            log.warning("the %s %s failed: %s", kind, name, error)


class PriceSources:
    """Keeps what the price sources say as PriceBooks."""

    def __init__(
        self,
        store: ObjectStore,
        extensions: Extensions,
        *,
        now: Callable[[], datetime],
        uid: Callable[[], str],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._extensions = extensions
        self._now = now
        self._uid = uid
        self._sleep = sleep

    async def run(self) -> None:
        """Ask them all, again and again, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self._extensions.prices:
                group.create_task(self._follow(each), name=f"price source {each}")

    async def _follow(self, source: Extension[PriceSource]) -> None:
        alone = Extensions(prices=(source,), failed=self._extensions.failed)
        while True:
            books = await _apart(alone.read_prices, name=f"price source {source}")
            for book in books.objects:
                try:
                    await self._keep(source, book)
                except (ApiError, StoreError) as error:
                    self._extensions.failed("price source", str(source), str(error))
            await self._sleep(EVERY_S)

    async def _keep(self, source: Extension[PriceSource], book: Object) -> None:
        """Store it, if it says anything new. Raises ApiError, StoreError."""
        stamp = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        offers = [{"asOf": stamp, **each} for each in book["spec"].get("offers") or ()]
        spec = {**book["spec"], "offers": offers}
        name = source.name

        def change(obj: Object) -> Object | None:
            metadata = obj["metadata"]
            if SOURCE_ANNOTATION not in (metadata.get("annotations") or {}):
                why = "there is a PriceBook of that name which is none of its own; rename one"
                self._extensions.failed("price source", str(source), why)
                return None
            if self._known(obj["spec"], book["spec"], stamped=spec):
                return None
            metadata["generation"] = int(metadata.get("generation", 1)) + 1
            return {**obj, "spec": spec}

        metadata = {
            "name": name,
            "uid": self._uid(),
            "creationTimestamp": stamp,
            "generation": 1,
            "annotations": {SOURCE_ANNOTATION: str(source)},
        }
        if self._store.get(PRICE_BOOK.resource, "", name) is None:
            try:
                await self._store.create(
                    PRICE_BOOK.resource, {**book, "metadata": metadata, "spec": spec}
                )
            except AlreadyExists:
                pass
            else:
                return
        await self._store.rewrite(PRICE_BOOK.resource, namespace="", name=name, change=change)

    def _known(self, before: Object, said: Object, *, stamped: Object) -> bool:
        """Whether what is stored says the same, and is young enough where we dated it."""
        if before == stamped:
            return True
        if PRICE_BOOK.problems({"spec": before}):
            return False  # an older form of it
        dated = _undated(before), _undated(said)
        if dated[0] != dated[1] or any("asOf" in each for each in said.get("offers") or ()):
            return False
        oldest = min(datetime.fromisoformat(each["asOf"]) for each in before["offers"])
        max_age = PRICE_BOOK.parse({"metadata": {}, "spec": before}).spec.max_age
        return (self._now() - oldest) * 4 < max_age


def _undated(spec: Object) -> Object:
    offers = [{k: v for k, v in each.items() if k != "asOf"} for each in spec.get("offers") or ()]
    return {**spec, "offers": offers}


async def _apart(ask: Callable[[], Books], *, name: str) -> Books:
    """What a function says, called in a thread that nobody waits for at the end."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Books] = loop.create_future()

    def tell(books: Books) -> None:
        if not answer.done():
            answer.set_result(books)

    def run() -> None:
        books = ask()
        try:
            loop.call_soon_threadsafe(tell, books)
        except RuntimeError:
            pass  # the gateway has ended meanwhile

    threading.Thread(target=run, name=name, daemon=True).start()
    return await answer
