"""What a workload costs, asked of whoever keeps the bill, so that no write of dispatch loses it.

A Placement's status says what its shards cost. Whoever replaces a status has `carry` put into it
what would be lost, in the same write; whoever removes a Placement has it `settle`d before.
Implemented over `fleet.scheduling.cost` and wired outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]


class Bill(Protocol):
    def carry(self, before: Mapping[str, Any], after: Object) -> Object:
        """The status `after`, which replaces `before`, with what shards have cost that it does not
        have any more; equal to `after` where there is nothing of the kind."""

    async def settle(self, placement: Object) -> None:
        """Keep what a Placement cost, which is about to go. A second time changes nothing.

        Raises StoreError, and Conflict where others write the record all the time.
        """
