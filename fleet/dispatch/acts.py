"""What may be done in a member, as values. `decisions` asks for it, `acting` does it.

Each names the very object that was seen, so that an act that comes late meets that one or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.dispatch.record import Shard
    from fleet.dispatch.sight import ShardView


@dataclass(frozen=True, slots=True)
class Hold:
    """Create the shard's object, with a deadline where it lapses, and what it needs; its gate stays
    shut."""

    shard: Shard
    deadline_s: int


@dataclass(frozen=True, slots=True)
class Renew:
    """Move the shard's deadline to `seconds` from now."""

    shard: Shard
    view: ShardView
    seconds: float


@dataclass(frozen=True, slots=True)
class Resize:
    """Have the shard of an elastic workload be of as many ranks as it is to have: the last ones
    come or go."""

    shard: Shard
    view: ShardView


@dataclass(frozen=True, slots=True)
class Meet:
    """See that the addresses of all ranks are known in the shard's member."""

    shard: Shard
    view: ShardView


@dataclass(frozen=True, slots=True)
class Open:
    """See that the shard's gate is there and says what is so."""

    shard: Shard
    view: ShardView


@dataclass(frozen=True, slots=True)
class Stop:
    """End the shard where it is; what has ended of it stays to be looked at."""

    shard: Shard
    view: ShardView


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a shard's object with all that belongs to it, within `grace_s` where that is said."""

    cluster: str
    shard: str
    view: ShardView
    grace_s: int | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Take our marks and the lease off a shard's object: from then on it is the member's own."""

    cluster: str
    shard: str
    view: ShardView


Act = Hold | Renew | Resize | Meet | Open | Stop | Remove | Release
