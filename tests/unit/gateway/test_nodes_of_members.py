"""A Pod of the fleet that names its node has to name one that there can be."""

from __future__ import annotations

import pytest

from fleet.errors import Invalid
from fleet.gateway.own import NodesOfMembers
from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.kube.wire import UserInfo

PODS = builtin.resource(GroupVersionResource("", "v1", "pods"))


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ("n1", r"which calls them NODE\.MEMBER \(n1\.east\); or create the pod in the member"),
        ("n2.wst", r'is no node of the fleet \(no member "wst"; did you mean "n2\.west"\?\)'),
        ("n2.elsewhere", r"which calls them NODE\.MEMBER"),
    ],
)
async def test_a_node_that_no_member_has_is_refused_with_what_may_be_meant(node, told):
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": node}}
    with pytest.raises(Invalid, match=told):
        await NodesOfMembers(lambda: {"east", "west"}).admit(PODS, pod, None, UserInfo("jane"))


async def test_a_node_of_a_member_is_taken():
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "a.b.east"}}
    admission = NodesOfMembers(lambda: {"east", "west"})
    assert await admission.admit(PODS, pod, None, UserInfo("jane")) is pod
