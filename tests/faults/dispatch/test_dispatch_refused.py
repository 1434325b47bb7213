"""Members that refuse what a shard needs after its commit, or lose it."""

from __future__ import annotations

import pytest

from fleet.errors import Unavailable


class Refusing:
    """Whatever of `resource` is written in a member is refused with `error`, while there is one."""

    def __init__(self, member, resource):
        self.error = None
        self._resource = f"/{resource}"
        self._handle = member.handle
        member.handle = self.handle

    async def handle(self, request):
        if self.error is not None and request.method != "DELETE" and self._resource in request.path:
            raise self.error
        return await self._handle(request)


@pytest.fixture
async def west(fleet):
    await fleet.join("east", room=4)
    return await fleet.join("west", room=4)


def gate_in(member):
    found = [
        each for each in member.all("configmaps") if each["metadata"]["name"].endswith("-gate")
    ]
    return found[0] if found else None


async def test_a_gate_that_is_deleted_is_put_back(fleet, west):
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    await west.drop("configmaps", gate_in(west))
    await fleet.wait(20)
    assert gate_in(west) is not None


async def test_a_gate_is_put_back_whatever_else_fails(fleet, west):
    services = Refusing(west, "services")
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    services.error = Unavailable("not at the moment")
    await fleet.wait(61)  # until all is looked at again
    await west.drop("configmaps", gate_in(west))
    await fleet.wait(20)
    assert gate_in(west) is not None
