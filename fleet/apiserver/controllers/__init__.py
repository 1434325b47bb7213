"""What a cluster does to its own objects beside the API: namespaces and garbage.

A controller follows the store, keeps a queue of keys and brings one key at a time to what it
should be. It reads the present state alone, so it does not matter which changes it saw, and a
second look at the same state writes nothing. What to do is decided by pure functions; writes are
conditional and go the way of any other write.

Invariant: nothing is deleted because of an absence that the store itself does not know of. Next
step: `fleet.app` runs `Controllers` beside the gateway's own store, embedded members beside theirs.
"""

from __future__ import annotations

from fleet.apiserver.controllers.running import Controllers

__all__ = ["Controllers"]
