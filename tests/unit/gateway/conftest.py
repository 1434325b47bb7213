"""What several tests of the gateway stand on."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import policies
from fleet.apiserver.kinds import CustomKind
from fleet.gateway import own
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fleet.apiserver.kernel import Kernel

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def store() -> AsyncIterator[ObjectStore]:
    """A store that is gone with the test."""
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as opened:
        yield opened


@pytest.fixture
def own_kernel(store: ObjectStore) -> Kernel:
    """The API of the fleet's own objects, policies among them, over `store`."""
    return own.build(
        store,
        [
            CustomKind(kind.resource, kind.openapi, kind.columns, kind.status, kind.rules)
            for kind in policies.kinds()
        ],
        openapi=own.OwnOpenApi({}),
        now=lambda: NOW,
        uid=lambda: "uid",
        rng=random.Random(1),
        server_address="fleet",
    )
