"""The Cluster object of a member cannot be deleted beside it."""

from __future__ import annotations

import pytest

from fleet.errors import Forbidden
from fleet.gateway.membership import Membership
from fleet.kube.wire import Request, Response

CLUSTERS = "/apis/fleet.dev/v1alpha1/clusters"


class Own:
    async def handle(self, request):
        return Response(200, {}, b"{}")


def door(*members):
    return Membership(Own(), lambda: members)


@pytest.mark.parametrize("path", [f"{CLUSTERS}/east", CLUSTERS])
async def test_what_is_a_members_stays(path):
    with pytest.raises(Forbidden, match=r"clusters\.fleet\.dev.* is forbidden: .*`fleet leave "):
        await door("east").handle(Request("DELETE", path))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", f"{CLUSTERS}/gone"),
        ("GET", f"{CLUSTERS}/east"),
        ("PATCH", f"{CLUSTERS}/east"),
        ("DELETE", "/apis/fleet.dev/v1alpha1/pricebooks/east"),
        ("DELETE", "/api/v1/namespaces/east"),
    ],
)
async def test_all_else_is_passed_on(method, path):
    assert (await door("east").handle(Request(method, path))).status == 200


async def test_without_members_all_may_go():
    assert (await door().handle(Request("DELETE", CLUSTERS))).status == 200
