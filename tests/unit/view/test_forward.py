"""Calls that are carried to a member: what arrives there, what comes back, what is seen at once."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from fleet.apiserver.outgoing import error_response
from fleet.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    MemberStatus,
    NotFound,
    ServerTimeout,
    TransportError,
    Unavailable,
)
from fleet.kube.wire import Response, UserInfo
from fleet.members.health import Condition

HERE = "/api/v1/namespaces/payments.east/configmaps"
THERE = "/api/v1/namespaces/payments/configmaps"
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
FORBIDDEN = (
    'pods "p" is forbidden: User "fleet:jane" cannot get resource "pods/log" in API group "" in '
    'the namespace "payments"'
)


@pytest.fixture
def east(stage):
    return stage.member("east", "configmaps", "secrets", "pods")


@pytest.fixture
def kept(east):
    """ConfigMap `a` as the fleet sees it, which east has at revision 5."""
    east.holds("configmaps", "a", revision=5)
    return lambda stage: revision_of(stage, "a")


def revision_of(stage, name: str) -> str:
    merged = next(m for gvr, m in stage.world._merged.items() if gvr.resource == "configmaps")
    return str(merged.collection.get("payments.east", name).revision)


def config_map(name: str = "a", **metadata) -> dict:
    metadata = {"name": name, "namespace": "payments.east", **metadata}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}


def sent(member) -> dict:
    return orjson.loads(member.asked[-1].body)


async def listed(stage) -> list[str]:
    return (await stage.call("GET", "/api/v1/configmaps?resourceVersion=0")).names


# -- who asks


async def test_the_caller_crosses_under_a_prefix_and_brings_nothing_else(stage, east):
    east.answer("POST", THERE, east.object("configmaps", "a"), status=201)
    answer = await stage.call(
        "POST", HERE, config_map(), accept="application/yaml", user_agent="kubectl",
        authorization="Bearer x", impersonate_user="admin", cookie="x",
    )  # fmt: skip
    assert (answer.code, answer.value["metadata"]["namespace"]) == (201, "payments.east")
    assert dict(east.asked[-1].headers) == {
        "impersonate-user": "fleet:jane",
        "impersonate-group": "fleet:dev\nsystem:authenticated",
        "accept": "application/json", "content-type": "application/json", "user-agent": "kubectl",
    }  # fmt: skip
    assert sent(east)["metadata"] == {"name": "a", "namespace": "payments"}


async def test_nobody_crosses_by_a_name_with_a_line_break(stage, east):
    with pytest.raises(Forbidden):
        await stage.call(
            "POST", HERE, config_map(), user=UserInfo("jane", ("dev\nsystem:masters",))
        )
    assert east.asked == []


# -- repeated fields

TWICE = b'{"data":{"a":"b","a":"c"}}'


@pytest.mark.parametrize(
    ("method", "content_type", "body", "code", "why"),
    [
        (
            "POST", "application/json", b'{"metadata":{"name":"a"},' + TWICE[1:], 400,
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
            'strict decoding error: duplicate field "data.a"',
        ),
        (
            "PUT", "application/yaml", b"metadata: {name: a}\ndata:\n  a: b\n  a: c\n", 400,
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
            'yaml: unmarshal errors:\n  line 4: key "a" already set in map',
        ),
        ("PATCH", MERGE, TWICE, 422, 'strict decoding error: duplicate field "data.a"'),
        (
            "PATCH", JSON, b'[{"op":"add","path":"/data/a","value":"b","value":"c"}]', 422,
            'strict decoding error: json patch duplicate field "[0].value"',
        ),
        (
            "PATCH", "application/apply-patch+yaml", b"data:\n  a: b\n  a: c\n", 400,
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
            '  line 3: key "a" already set in map',
        ),
    ],
)  # fmt: skip
async def test_repeated_fields_are_refused_or_told_before_the_body_is_written_anew(
    stage, east, method, content_type, body, code, why
):
    path = "" if method == "POST" else "/a"
    east.answer(method, THERE + path, east.object("configmaps", "a"))
    with pytest.raises(ApiError) as refused:
        await stage.call(
            method, f"{HERE}{path}?fieldValidation=Strict", body, content_type=content_type
        )
    assert (refused.value.http_code, east.asked) == (code, [])
    assert str(refused.value).endswith(why)
    answer = await stage.call(method, HERE + path, body, content_type=content_type)
    (told,) = answer.warnings
    assert why.endswith(told)
    ignored = f"{HERE}{path}?fieldValidation=Ignore"
    assert (await stage.call(method, ignored, body, content_type=content_type)).warnings == ()


# -- revisions


async def test_a_revision_of_what_is_kept_becomes_the_members(stage, east, kept):
    east.answer("PUT", f"{THERE}/a", east.object("configmaps", "a", revision=6))
    await stage.call("PUT", f"{HERE}/a", config_map(resourceVersion=kept(stage)))
    assert sent(east)["metadata"]["resourceVersion"] == "5"


async def test_a_revision_that_has_passed_is_a_conflict_before_anything_is_sent(stage, east, kept):
    before = kept(stage)
    east.holds("configmaps", "a", revision=6)
    with pytest.raises(Conflict):
        await stage.call("PUT", f"{HERE}/a", config_map(resourceVersion=before))
    with pytest.raises(Conflict):
        await stage.call(
            "PATCH", f"{HERE}/a", {"metadata": {"resourceVersion": before}}, content_type=MERGE
        )
    assert east.asked == []


async def test_patches_carry_the_revision_they_are_made_for(stage, east, kept):
    east.answer("PATCH", f"{THERE}/a", east.object("configmaps", "a", revision=6))
    patch = {"metadata": {"resourceVersion": kept(stage)}, "data": {"x": "1"}}
    await stage.call("PATCH", f"{HERE}/a", patch, content_type=MERGE)
    assert sent(east) == {"metadata": {"resourceVersion": "5"}, "data": {"x": "1"}}
    assert east.asked[-1].headers["content-type"] == MERGE
    value = revision_of(stage, "a")
    test = [{"op": "test", "path": "/metadata/resourceVersion", "value": value}]
    await stage.call("PATCH", f"{HERE}/a", test, content_type=JSON)
    assert sent(east)[0]["value"] == "6"


@pytest.mark.parametrize("has", [None, {}, {"a": "1"}])
async def test_a_first_annotation_of_what_is_not_kept_gets_its_map(stage, east, has):
    here, there = (each.replace("configmaps", "secrets") for each in (HERE, THERE))
    secret = east.object("secrets", "s", revision=7)
    secret["metadata"] |= {} if has is None else {"annotations": has}
    east.answer("GET", f"{there}/s", secret)
    east.answer("PATCH", f"{there}/s", east.object("secrets", "s", revision=8))
    add = {"op": "add", "path": "/metadata/annotations/zz", "value": "1"}
    await stage.call("PATCH", f"{here}/s", [dict(add)], content_type=JSON)
    path = "/metadata/annotations"
    made = [
        {"op": "test", "path": path, "value": None},
        {"op": "add", "path": path, "value": {}},
    ]
    assert sent(east) == [*(made if has is None else ()), add]


async def test_who_may_patch_and_not_look_patches(stage, east, refusal):
    here, there = (each.replace("configmaps", "secrets") for each in (HERE, THERE))
    east.answer("GET", f"{there}/s", refusal(403, "Forbidden", FORBIDDEN), status=403)
    east.answer("PATCH", f"{there}/s", east.object("secrets", "s", revision=8))
    add = {"op": "add", "path": "/metadata/labels/zz", "value": "1"}
    await stage.call("PATCH", f"{here}/s", [dict(add)], content_type=JSON)
    assert sent(east) == [add]


async def test_a_patch_beside_the_maps_is_sent_without_a_look(stage, east):
    here, there = (each.replace("configmaps", "secrets") for each in (HERE, THERE))
    east.answer("PATCH", f"{there}/s", east.object("secrets", "s", revision=8))
    add = {"op": "add", "path": "/data/zz", "value": "MQ=="}
    await stage.call("PATCH", f"{here}/s", [add], content_type=JSON)
    assert [each.method for each in east.asked] == ["PATCH"]


async def test_a_deletion_has_the_members_preconditions(stage, east, kept):
    east.answer("DELETE", f"{THERE}/a", east.object("configmaps", "a"))
    options = {"preconditions": {"uid": "east-a", "resourceVersion": kept(stage)}}
    await stage.call("DELETE", f"{HERE}/a", {"propagationPolicy": "Foreground", **options})
    assert sent(east)["preconditions"] == {"uid": "east-a", "resourceVersion": "5"}
    assert sent(east)["propagationPolicy"] == "Foreground"


async def test_the_revision_of_what_was_only_read_is_good_for_a_write(stage, east):
    here, there = (each.replace("configmaps", "secrets") for each in (HERE, THERE))
    east.answer("GET", f"{there}/s", east.object("secrets", "s", revision=7))
    read = (await stage.call("GET", f"{here}/s")).value
    east.answer("PUT", f"{there}/s", east.object("secrets", "s", revision=8))
    written = (await stage.call("PUT", f"{here}/s", read)).value
    assert sent(east)["metadata"]["resourceVersion"] == "7"
    revisions = [each["metadata"]["resourceVersion"] for each in (read, written)]
    assert revisions[0] != revisions[1]
    east.answer("DELETE", f"{there}/s", east.object("secrets", "s", revision=8))
    await stage.call("DELETE", f"{here}/s", {"preconditions": {"resourceVersion": revisions[1]}})
    assert sent(east)["preconditions"]["resourceVersion"] == "8"
    with pytest.raises(Conflict):
        older = {"preconditions": {"resourceVersion": revisions[0]}}
        await stage.call("DELETE", f"{here}/s", older)


# -- what is seen at once


async def test_what_a_write_answers_is_in_the_next_list(stage, east, kept):
    east.answer("POST", THERE, east.object("configmaps", "b", revision=9), status=201)
    made = (await stage.call("POST", HERE, config_map("b"))).value
    assert await listed(stage) == ["payments.east/a", "payments.east/b"]
    assert made["metadata"]["resourceVersion"] == revision_of(stage, "b")
    east.answer(
        "DELETE",
        f"{THERE}/a",
        {"kind": "Status", "status": "Success", "details": {"uid": "east-a"}},
    )
    await stage.call("DELETE", f"{HERE}/a", content_type="application/yaml")
    assert "content-type" not in east.asked[-1].headers  # there is no body
    assert await listed(stage) == ["payments.east/b"]


async def test_what_waits_for_its_finalizers_is_shown_until_the_last_is_off(stage, east, kept):
    going = {"deletionTimestamp": "2026-11-29T00:00:00Z", "finalizers": ["x/y"]}
    waits = east.object("configmaps", "a", revision=6, metadata=going)
    east.answer("DELETE", f"{THERE}/a", waits)
    await stage.call("DELETE", f"{HERE}/a")
    shown = (await stage.call("GET", f"{HERE}/a?resourceVersion=0")).value
    assert shown["metadata"]["deletionTimestamp"] == going["deletionTimestamp"]
    ended = east.object("configmaps", "a", revision=7, metadata={**going, "finalizers": []})
    east.answer("PATCH", f"{THERE}/a", ended)
    await stage.call("PATCH", f"{HERE}/a", {"metadata": {"finalizers": []}}, content_type=MERGE)
    assert await listed(stage) == []


@pytest.mark.parametrize(
    ("method", "path", "status"), [("POST", "", 201), ("DELETE", "/a", 200), ("PUT", "/a", 200)]
)
async def test_a_dry_run_leaves_no_trace(stage, east, kept, method, path, status):
    before = kept(stage)
    answer = east.object("configmaps", "a" if path else "b", revision=9)
    east.answer(method, THERE + path, answer, status=status)
    body = None if method == "DELETE" else config_map("a" if path else "b")
    await stage.call(method, f"{HERE}{path}?dryRun=All", body)
    assert dict(east.asked[-1].query) == {"dryRun": "All"}
    assert await listed(stage) == ["payments.east/a"]
    assert kept(stage) == before


async def test_of_a_collections_deletion_what_is_gone_goes_and_what_waits_stays(stage, east, kept):
    east.holds("configmaps", "b")
    objects = [east.object("configmaps", name) for name in "ab"]
    left = east.object("configmaps", "b", revision=9)
    east.answer("DELETE", THERE, {"kind": "ConfigMapList", "items": objects})
    east.answer("GET", THERE, {"kind": "ConfigMapList", "items": [left]})
    query = (
        "labelSelector=fleet.dev/cluster=east,app&fieldSelector=metadata.namespace=payments.east"
    )
    answer = await stage.call("DELETE", f"{HERE}?{query}&propagationPolicy=Background")
    assert answer.names == ["payments.east/a", "payments.east/b"]
    deletion, listing = east.asked
    selected = [("labelSelector", "app"), ("fieldSelector", "metadata.namespace=payments")]
    assert list(deletion.query) == [*selected, ("propagationPolicy", "Background")]
    assert list(listing.query) == selected
    assert await listed(stage) == ["payments.east/b"]


# -- what goes wrong


async def test_a_refusal_speaks_of_the_object_as_the_caller_named_it(stage, east, refusal):
    told = refusal(403, "Forbidden", FORBIDDEN, name="a", kind="configmaps")
    east.answer("POST", THERE, told, status=403)
    with pytest.raises(MemberStatus) as refused:
        await stage.call("POST", HERE, config_map())
    assert refused.value.http_code == 403
    assert 'in the namespace "payments.east"' in str(refused.value)


@pytest.mark.parametrize(
    ("method", "was_sent", "error"),
    [
        ("PUT", False, Unavailable),
        ("PUT", True, ServerTimeout),
        ("GET", True, Unavailable),
        ("GET", False, Unavailable),
    ],
)
async def test_no_answer_says_what_is_known_of_its_effect(stage, east, method, was_sent, error):
    path = f"/a{'/status' if method == 'GET' else ''}"
    pods, there = (each.replace("configmaps", "pods") for each in (HERE, THERE))
    east.answer(method, there + path, TransportError("broke off", sent=was_sent))
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {}}
    with pytest.raises(error, match="member east") as refused:
        await stage.call(method, pods + path, pod if method == "PUT" else None)
    assert ("whether the change was made is not known" in str(refused.value)) == (
        error is ServerTimeout
    )
    # client-go repeats what says when to come back, ten times: the user would wait for that
    assert "Retry-After" not in error_response(refused.value).headers


@pytest.mark.parametrize(
    ("method", "effect"), [("GET", "nothing was changed"), ("PUT", "is not known")]
)
async def test_who_has_said_how_long_waits_no_longer(stage, east, method, effect):
    here = HERE.replace("configmaps", "secrets")
    east.hangs = True
    body = {"kind": "Secret", "metadata": {"name": "s"}} if method == "PUT" else None
    with pytest.raises(ServerTimeout, match=effect) as late:
        await stage.call(method, f"{here}/s?timeout=1ms", body)
    assert "member east has not answered within 0.001 s" in str(late.value)
    assert len(east.asked) == 1
    with pytest.raises(BadRequest, match="invalid timeout"):
        await stage.call(method, f"{here}/s?timeout=soon", body)


async def test_nobody_waits_for_ever(stage, east):
    east.hangs = True
    stage.forwarder._answer_s = 0.001
    with pytest.raises(ServerTimeout, match=r"within 0\.001 s"):
        await stage.call("PUT", f"{HERE}/a?timeout=1h", config_map())


@pytest.mark.parametrize("path", ["configmaps/a", "pods/p/log"])
async def test_a_member_that_is_known_to_be_silent_is_not_asked(stage, east, path):
    east.conditions["Reachable"] = Condition("Reachable", "False", "NoAnswer", "no answer in 3 s")
    east.hangs = True
    method, body = ("PUT", config_map()) if path.startswith("config") else ("GET", None)
    with pytest.raises(Unavailable, match=r"east cannot be reached: no answer in 3 s"):
        await stage.send(method, HERE.replace("configmaps", path), body)
    assert east.asked == []


async def test_a_log_is_waited_for_as_long_as_its_member_is_heard_of(stage, east):
    """That of a container which has said nothing yet has no head either."""
    east.hangs = True
    stage.forwarder._answer_s = 0.001
    log = HERE.replace("configmaps", "pods/p/log")
    waiting = asyncio.create_task(stage.send("GET", f"{log}?follow=true"))
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    east.conditions["Reachable"] = Condition("Reachable", "False", "NoAnswer", "no answer in 3 s")
    with pytest.raises(ServerTimeout, match="member east has not answered"):
        await waiting


async def test_an_answer_that_is_no_json_is_told_as_it_is(stage, east):
    east.answer("POST", THERE, b"<html>proxy error</html>", status=502)
    with pytest.raises(MemberStatus, match="proxy error") as refused:
        await stage.call("POST", HERE, config_map())
    assert refused.value.http_code == 502


async def test_a_body_for_another_object_is_refused_here(stage, east):
    with pytest.raises(BadRequest):
        await stage.call("PUT", f"{HERE}/a", config_map(namespace="payments.west"))
    assert east.asked == []


async def test_a_kind_that_the_member_lacks_is_not_found_and_one_of_a_silent_member_unavailable(
    stage, east
):
    west = stage.member("west")
    with pytest.raises(NotFound):
        await stage.call(
            "PUT", HERE.replace("east", "west") + "/a", config_map(namespace="payments.west")
        )
    west.kinds = ()
    await stage.world.refresh("west")
    with pytest.raises(Unavailable, match="member west cannot be reached: it has not been heard"):
        await stage.call(
            "POST", HERE.replace("east", "west"), config_map(namespace="payments.west")
        )
    assert west.asked == []


# -- streams


async def test_a_log_passes_as_it_is_and_its_refusal_in_the_callers_names(stage, east, refusal):
    log = "/api/v1/namespaces/payments/pods/p/log"
    east.answer("GET", log, b"line\n")
    answer = await stage.send("GET", f"{log.replace('payments', 'payments.east')}?follow=true")
    assert (answer.status, answer.body) == (200, b"line\n")
    assert dict(east.asked[-1].query) == {"follow": "true"}
    east.answer("GET", log, refusal(403, "Forbidden", FORBIDDEN, name="p", kind="pods"), status=403)
    refused = await stage.send("GET", log.replace("payments", "payments.east"))
    assert refused.status == 403
    assert orjson.loads(refused.body)["message"] == FORBIDDEN.replace("payments", "payments.east")
    east.answer("GET", log, b"bad gateway", status=502)
    broken = await stage.send("GET", log.replace("payments", "payments.east"))
    assert (broken.status, broken.body) == (502, b"bad gateway")


async def test_what_a_proxied_program_answers_is_never_touched(stage, east, refusal):
    proxy = "/api/v1/namespaces/payments/pods/p/proxy/metrics"
    told = refusal(403, "Forbidden", FORBIDDEN, name="p", kind="pods")
    east.answer("GET", proxy, told, status=403)
    answer: Response = await stage.send("GET", proxy.replace("payments", "payments.east"))
    assert (answer.status, orjson.loads(answer.body)) == (403, told)
