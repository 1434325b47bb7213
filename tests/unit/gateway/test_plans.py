"""`POST /fleet/plan`: what would be decided, and that nothing is."""

from __future__ import annotations

from types import SimpleNamespace

import orjson
import pytest

from fleet.errors import AlreadyExists, BadRequest, Invalid
from fleet.gateway.plans import Plan
from fleet.kube.wire import Request, Response, UserInfo

GPU = "nvidia.com/gpu"


class Own:
    """The kernel of the fleet's own objects, as far as a dry run goes."""

    def __init__(self):
        self.requests = []
        self.present = set()
        self.refuses = None

    async def handle(self, request):
        self.requests.append(request)
        assert request.query == (("dryRun", "All"),)
        obj = orjson.loads(request.body)
        if self.refuses is not None:
            raise self.refuses
        if request.method == "POST" and obj["metadata"]["name"] in self.present:
            raise AlreadyExists("there is one")
        obj["metadata"].setdefault("uid", f"uid-{obj['metadata']['name']}")
        return Response(200, {}, orjson.dumps(obj))


@pytest.fixture
def own():
    return Own()


@pytest.fixture
def call(own):
    async def call(store, planner, *objects, body=None):
        plan = Plan(store, own, planner)
        sent = {"objects": list(objects)} if body is None else body
        user = UserInfo("me")
        request = Request("POST", "/fleet/plan", body=orjson.dumps(sent), user=user)
        return orjson.loads((await plan.handle(request)).body)

    return call


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "a plan needs objects"),
        ({"objects": [1]}, "a plan needs objects"),
        ({"objects": [{"apiVersion": "v1", "kind": "Secret"}]}, "v1 Secret has no part in a plan"),
        ({"objects": [{"apiVersion": "v9", "kind": "FleetQuota"}]}, "v9 FleetQuota has no part"),
        ({"objects": [{}] * 101}, "at most 100"),
    ],
)
async def test_what_it_is_not_for_is_refused(call, body, why):
    with pytest.raises(BadRequest, match=why):
        await call(SimpleNamespace(), SimpleNamespace(), body=body)


async def test_what_a_write_would_be_refused_with_is_what_it_says(call, own):
    own.refuses = Invalid("spec.parallelism: -1 is less than 0")
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}}
    with pytest.raises(Invalid, match="less than 0"):
        await call(SimpleNamespace(), SimpleNamespace(), job)
    assert own.requests[0].user == UserInfo("me")
