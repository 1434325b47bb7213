"""Whose a request is: a member's by the last part of one coordinate, else the fleet's own."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from fleet.errors import (
    BadRequest,
    Invalid,
    MethodNotAllowed,
    NotFound,
    ServerTimeout,
    TransportError,
    Unavailable,
)
from fleet.gateway.roots import MemberRoot
from fleet.kube.wire import Request, UserInfo
from fleet.members.health import Condition

JANE = UserInfo("jane", ("dev",))
OPEN_API = "/openapi/v2"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.fixture
def east(stage):
    return stage.member("east", "configmaps", "pods", "nodes", REVIEW[6:])


def named(name: str, kind: str = "Node") -> dict:
    return {"kind": kind, "apiVersion": "v1", "metadata": {"name": name}}


def paths(asked) -> list[str]:
    return [f"{each.method} {each.path}" for each in asked]


# -- members and the fleet


async def test_a_namespace_says_whose_it_is(stage, east):
    east.answer("POST", "/api/v1/namespaces/a/configmaps", east.object("configmaps", "x"), 201)
    for namespace in ("a.east", "a"):
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        assert (await stage.call("POST", path, named("x", "ConfigMap"))).code == 201
    assert paths(east.asked) == ["POST /api/v1/namespaces/a/configmaps"]
    assert paths(stage.own.asked) == ["POST /api/v1/namespaces/a/configmaps"]


async def test_a_namespace_of_no_member_is_not_found_with_who_was_meant(stage, east):
    path = "/api/v1/namespaces/a.aest/configmaps/x"
    with pytest.raises(NotFound, match=r'no member "aest"; did you mean "a\.east"'):
        await stage.call("GET", path)


async def test_a_cluster_scoped_name_says_whose_it_is(stage, east):
    east.answer("DELETE", "/api/v1/nodes/n1", east.object("nodes", "n1"))
    await stage.call("DELETE", "/api/v1/nodes/n1.east")
    east.answer("DELETE", "/api/v1/namespaces/a", east.object("namespaces", "a"))
    await stage.call("DELETE", "/api/v1/namespaces/a.east")
    assert paths(east.asked) == ["DELETE /api/v1/nodes/n1", "DELETE /api/v1/namespaces/a"]
    with pytest.raises(NotFound):
        await stage.call("DELETE", "/api/v1/namespaces/a")
    assert paths(stage.own.asked) == ["DELETE /api/v1/namespaces/a"]


async def test_the_name_in_the_body_says_where_a_cluster_scoped_object_is_made(stage, east):
    east.answer("POST", "/api/v1/namespaces", east.object("namespaces", "a"), 201)
    made = await stage.call("POST", "/api/v1/namespaces", named("a.east", "Namespace"))
    assert made.value["metadata"]["name"] == "a.east"
    assert orjson.loads(east.asked[-1].body)["metadata"]["name"] == "a"
    await stage.call("POST", "/api/v1/namespaces", named("a", "Namespace"))
    assert paths(stage.own.asked) == ["POST /api/v1/namespaces"]


@pytest.mark.parametrize("path", ["/api/v1/gadgets", "/apis/apps/v1/deployments", "/api/v1/pods/x"])
async def test_what_nobody_serves_is_no_path(stage, east, path):
    with pytest.raises(NotFound):
        await stage.call("GET", path)


# -- kinds that only members have


async def test_outside_of_a_member_a_write_to_its_kind_names_one(stage, east):
    with pytest.raises(Invalid, match=r"has no nodes of its own; name a member: n1\.east"):
        await stage.call("POST", "/api/v1/nodes", named("n1"))
    with pytest.raises(Invalid, match=r"name a member: -n a\.east"):
        await stage.call("POST", "/api/v1/namespaces/a/pods", named("p", "Pod"))
    with pytest.raises(NotFound, match='nodes "n1" not found'):
        await stage.call("DELETE", "/api/v1/nodes/n1")
    with pytest.raises(BadRequest, match=r"name a member: NAME\.east"):
        await stage.call("DELETE", "/api/v1/nodes")
    assert east.asked == stage.own.asked == []


async def test_a_kind_that_only_the_fleet_has_is_not_made_in_a_member(stage, east):
    path = "/api/v1/namespaces/a.east/secrets"
    said = r'"a\.east": east has no secrets, they are the fleet\'s own; .* in the fleet: -n a$'
    with pytest.raises(Invalid, match=said):
        await stage.call("POST", path, named("x", "Secret"))
    assert east.asked == stage.own.asked == []


@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH", "PUT", "GET"])
async def test_a_union_is_for_lists_and_watches_alone(stage, east, method):
    path = "/api/v1/namespaces/a.*/configmaps" + ("" if method == "POST" else "/x")
    with pytest.raises(MethodNotAllowed, match=r"read-only: name one of them, a or a\.MEMBER"):
        await stage.call(method, path, named("x", "ConfigMap"))
    assert east.asked == stage.own.asked == []


async def test_a_missing_object_of_the_fleet_says_where_there_is_one(stage, east):
    east.holds("configmaps", "x", metadata={"namespace": "a"})
    with pytest.raises(NotFound, match=r"east has one: -n a\.east"):
        await stage.call("GET", "/api/v1/namespaces/a/configmaps/x")


# -- reviews


@pytest.mark.parametrize("what", ["web/log", "web/exec", "https:web:80/proxy/a"])
async def test_a_stream_of_a_missing_pod_says_that_it_is_missing(stage, east, what):
    stage.own_rows.append(next(each for each in east.kinds if each.gvr.resource == "pods"))
    stage.world.own_changed()
    with pytest.raises(NotFound, match='pods "web" not found'):
        await stage.send("GET", f"/api/v1/namespaces/payments/pods/{what}")
    assert stage.own.asked == []


async def test_a_review_is_asked_of_whoever_decides_about_its_namespace(stage, east):
    def review(**attributes):
        spec = {"resourceAttributes": attributes} if attributes else {}
        return {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "spec": spec,
        }

    stage.own_rows.append(next(each for each in east.kinds if "review" in each.gvr.resource))
    stage.world.own_changed()
    east.answer("POST", REVIEW, review(namespace="a"), 201)
    await stage.call("POST", REVIEW, review(namespace="a.east"))
    [asked] = east.asked
    assert orjson.loads(asked.body)["spec"]["resourceAttributes"]["namespace"] == "a"
    assert asked.headers["impersonate-user"] == "fleet:jane"
    for spec in (review(), review(namespace="a"), review(namespace="")):
        await stage.call("POST", REVIEW, spec)
    assert len(stage.own.asked) == 3
    assert len(east.asked) == 1


# -- documents


async def test_the_old_document_is_that_of_the_first_member_that_has_one(stage, east):
    stage.member("north").answer("GET", OPEN_API, TransportError("no route", sent=False))
    west = stage.member("west")
    west.answer("GET", OPEN_API, b'{"swagger":"2.0"}')
    answer = await stage.send("GET", OPEN_API, accept="application/json", cookie="x")
    assert answer.body == b'{"swagger":"2.0"}'
    assert set(west.asked[-1].headers) == {"accept", "impersonate-user", "impersonate-group"}
    await stage.world.dismiss("west")
    answer = await stage.send("GET", OPEN_API)
    assert orjson.loads(answer.body)["swagger"] == "2.0"


# -- one member as it is


def at(path: str, method: str = "GET", **headers: str) -> Request:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, path, (("limit", "1"),), told, b"body", user=JANE)


async def test_below_clusters_every_byte_crosses_but_who_asks(stage, east):
    root = MemberRoot(stage.world.members.get)
    east.answer("PUT", "/api/v1/namespaces/a.b/pods/p", b"as it is")
    answer = await root.handle(
        at("/east/api/v1/namespaces/a.b/pods/p", "PUT",
           impersonate_user="admin", impersonate_uid="0", x_other="kept")
    )  # fmt: skip
    assert answer.body == b"as it is"
    [asked] = east.asked
    assert (asked.query, asked.body) == ((("limit", "1"),), b"body")
    assert dict(asked.headers) == {
        "x-other": "kept",
        "impersonate-user": "fleet:jane",
        "impersonate-group": "fleet:dev\nsystem:authenticated",
    }


async def test_below_clusters_no_answer_says_what_is_known(stage, east):
    root = MemberRoot(stage.world.members.get)
    with pytest.raises(NotFound, match=r'clusters\.fleet\.dev "west" not found'):
        await root.handle(at("/west/api/v1/pods"))
    lost = TransportError("broke off", sent=True)
    east.answer("GET", "/", lost)
    east.answer("POST", "/", lost)
    with pytest.raises(Unavailable, match="member east"):
        await root.handle(at("/east"))
    with pytest.raises(ServerTimeout, match="member east"):
        await root.handle(at("/east", "POST"))


async def test_below_clusters_a_member_is_asked_whatever_is_thought_of_it_and_holds_nobody(
    stage, east
):
    """Who looks there wants to see for himself: it may have come back a moment ago."""
    root = MemberRoot(stage.world.members.get)
    east.hangs = True
    asked = replace(at("/east/api/v1/pods"), query=(("timeout", "1ms"),))
    with pytest.raises(ServerTimeout, match=r"east has not answered within 0\.001 s"):
        await root.handle(asked)
    east.hangs = False
    east.conditions["Reachable"] = Condition("Reachable", "False", "NoAnswer", "no answer in 3 s")
    assert (await root.handle(at("/east/api/v1/pods"))).status == 404  # as the member says
    assert len(east.asked) == 2
