"""A member that takes the dispatcher's rights away: said at once, and nothing half done."""

from __future__ import annotations

import pytest

from fleet.dispatch.reconciler import Key
from fleet.errors import Forbidden

BACK = "to let the fleet in again: kubectl create rolebinding fleet:dispatcher -n payments.west"


class Rights:
    """Whether `west` lets the fleet's dispatcher act."""

    def __init__(self, member) -> None:
        self.given = True
        self._handle = member.handle
        member.handle = self.handle

    async def handle(self, request):
        user = request.headers.get("impersonate-user", "")
        if user and not self.given:
            assert user == "fleet:dispatcher:payments"
            raise Forbidden(f'jobs.batch is forbidden: User "{user}" cannot get resource "jobs"')
        return await self._handle(request)


@pytest.fixture
async def west(fleet):
    await fleet.join("east", room=4)
    west = await fleet.join("west", room=4)
    marks = {"annotations": {"fleet.dev/dispatcher": "bound"}}
    accept = {"labels": {"fleet.dev/accept": "true"}}
    await west.put("namespaces", {"metadata": {"name": "payments", **marks, **accept}})
    return west


async def test_a_member_without_its_binding_holds_nothing_and_says_what_to_do(fleet, west):
    Rights(west).given = False
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().reason == "NotBound")
    assert BACK in fleet.record().message
    await fleet.wait(40)
    assert fleet.starts == []
    assert fleet.left_over() == []
    assert west.writes == []


async def test_rights_that_come_back_within_a_lease_cost_nothing(fleet, west):
    rights = Rights(west)
    await fleet.run_job(ranks=6)
    await fleet.until(lambda: fleet.record().phase == "Running")
    rights.given = False
    await fleet.until(lambda: any(BACK in shard.message for shard in fleet.record().shards))
    rights.given = True
    await fleet.wait(30)
    assert fleet.record().phase == "Running"
    assert fleet.record().generation == 1
    assert len(fleet.starts) == 6


async def test_a_pod_that_leaves_a_member_without_rights_says_so_and_ends_when_they_are_back(
    fleet, west
):
    fleet.members.pop("east")
    rights = Rights(west)
    await fleet.run_pod()
    await fleet.until(lambda: fleet.record("pod-web").phase == "Running")
    rights.given = False
    await fleet.delete_pod()
    told = {}

    def is_told():
        for each in fleet.pod()["status"].get("conditions", ()):
            told[each["type"]] = each
        return "fleet.dev/Reachable" in told

    await fleet.until(is_told)
    assert told["fleet.dev/Reachable"]["reason"] == "NotBound"
    assert BACK in told["fleet.dev/Reachable"]["message"]
    assert "does not answer" not in told["fleet.dev/Reachable"]["message"]
    outcome = await fleet.reconciler.reconcile(Key("Pod", "payments", "web"))
    assert outcome.again_s is not None
    assert outcome.again_s <= 60  # nobody tells when the rights are back
    rights.given = True
    await fleet.until(lambda: fleet.pod() is None)
    assert fleet.left_over() == []
