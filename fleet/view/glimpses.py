"""Fleet revisions of objects that are seen in passing: read from or written to a member, not kept.

Whoever reads such an object twice and finds it unchanged gets the same number both times, and a
number given out stands for the member's revision that it was given for. What is forgotten (the
least lately seen go first) gets the present number when it is seen again; the old one is then a
conflict, as for an object that has changed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cachetools import LRUCache

if TYPE_CHECKING:
    from fleet.kube.resources import GroupVersionResource
    from fleet.kube.revision import Revision
    from fleet.store.sequencer import Sequencer

_KEPT = 16384

Key = tuple["GroupVersionResource", str, str]
"""Resource, namespace and name as the merged world has them."""


class Glimpses:
    """What was seen of objects that no collection holds."""

    def __init__(self, sequencer: Sequencer) -> None:
        self._sequencer = sequencer
        self._seen: LRUCache[Key, tuple[str, Revision]] = LRUCache(_KEPT)

    async def revision(self, key: Key, told: str) -> Revision:
        """The fleet revision of an object that its member has at revision `told`."""
        seen = self._seen.get(key)
        if seen is not None and seen[0] == told:
            return seen[1]
        revision = self._sequencer.current
        if seen is not None and seen[1] >= revision:
            # two states of one object must not have one number
            revision = await self._number()
        self._seen[key] = (told, revision)
        return revision

    async def _number(self) -> Revision:
        """A number that nothing else has."""
        numbered: asyncio.Future[Revision] = asyncio.get_running_loop().create_future()

        def take(given: Revision) -> None:
            if not numbered.done():
                numbered.set_result(given)

        self._sequencer.submit(take)
        return await numbered

    def member_revision(self, key: Key, revision: Revision) -> str | None:
        """The member's revision that `revision` was given out for; None when it was not."""
        seen = self._seen.get(key)
        return seen[0] if seen is not None and seen[1] == revision else None
