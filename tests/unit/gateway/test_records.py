"""The fleet's books are not the clients' to write."""

from __future__ import annotations

import pytest

from fleet.errors import Forbidden
from fleet.gateway.records import Records
from fleet.kube.wire import Request, Response

PLACEMENTS = "/apis/fleet.dev/v1alpha1/namespaces/payments/placements"
CLUSTERS = "/apis/fleet.dev/v1alpha1/clusters"


class Own:
    async def handle(self, request):
        return Response(200, body=b"{}")


@pytest.fixture
def records():
    return Records(Own())


@pytest.mark.parametrize("method, path", [
    ("POST", PLACEMENTS), ("PUT", f"{PLACEMENTS}/job-train"), ("PATCH", f"{PLACEMENTS}/job-train"),
    ("PATCH", f"{PLACEMENTS}/job-train/status"), ("DELETE", f"{PLACEMENTS}/job-train"),
    ("DELETE", PLACEMENTS),
])  # fmt: skip
async def test_a_placement_is_written_by_the_fleet_alone(records, method, path):
    with pytest.raises(Forbidden, match="change or delete the workload instead"):
        await records.handle(Request(method, path))


@pytest.mark.parametrize("method, path", [
    ("GET", PLACEMENTS), ("GET", f"{PLACEMENTS}/job-train"), ("PATCH", f"{CLUSTERS}/east"),
    ("DELETE", f"{CLUSTERS}/east"), ("DELETE", "/api/v1/namespaces/payments/pods/web"),
    ("GET", "/version"),
])  # fmt: skip
async def test_all_else_passes(records, method, path):
    assert (await records.handle(Request(method, path))).status == 200
