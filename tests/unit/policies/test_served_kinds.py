"""The kinds as the fleet's kernel serves them: defaults, refusals, status, tables, explain."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime

import orjson
import pytest

import policies
from fleet.apiserver.kinds import CustomKind
from fleet.apiserver.outgoing import error_response
from fleet.errors import ApiError
from fleet.gateway import own
from fleet.kube.wire import Request, UserInfo
from fleet.store.memory import MemoryBackend
from fleet.store.objects import ObjectStore
from fleet.store.sequencer import Sequencer

ROOT = "/apis/fleet.dev/v1alpha1"
POLICIES = f"{ROOT}/namespaces/default/placementpolicies"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
ADMIN = UserInfo("admin")


def now():
    return datetime(2026, 11, 29, tzinfo=UTC)


@pytest.fixture
async def call():
    custom = [
        CustomKind(
            k.resource,
            k.openapi,
            columns=k.columns,
            status=k.status,
            rules=k.rules,
            relations=k.relations,
        )
        for k in policies.kinds()
    ]
    uids = (f"uid-{number}" for number in range(1000))
    rng = random.Random(1)
    async with ObjectStore(MemoryBackend(), Sequencer(epoch=1)) as store:
        await own.first_objects(store, now=now(), uid=lambda: next(uids), rng=rng)
        kernel = own.build(
            store,
            custom,
            openapi=own.OwnOpenApi(policies.openapi_document()),
            now=now,
            uid=lambda: next(uids),
            rng=rng,
            server_address="",
        )

        async def send(method, path, body=None, *, query=(), accept="application/json", kind=""):
            headers = {"accept": accept, "content-type": kind or "application/json"}
            request = Request(
                method, path, tuple(query), headers=headers, user=ADMIN,
                body=b"" if body is None else orjson.dumps(body),
            )  # fmt: skip
            try:
                response = await kernel.handle(request)
            except ApiError as error:
                response = error_response(error)
            raw = response.body if isinstance(response.body, bytes) else b"".join(response.body)
            return response.status, orjson.loads(raw)

        yield send


def policy(name="gang", **spec):
    return {
        "apiVersion": "fleet.dev/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


async def test_a_policy_is_stored_with_its_defaults(call):
    status, made = await call("POST", POLICIES, policy(mode="Split"))
    assert status == 201
    assert made["spec"]["mode"] == "Split"
    assert made["spec"]["failover"]["tolerate"] == "5m"
    assert made["metadata"]["generation"] == 1


@pytest.mark.parametrize("validation", ["Ignore", "Warn", "Strict", None])
async def test_an_unknown_field_is_an_error_whatever_the_client_asks_for(call, validation):
    query = [("fieldValidation", validation)] if validation else []
    status, answer = await call("POST", POLICIES, policy(gang={"maxCluster": 3}), query=query)
    assert status == 422
    (cause,) = answer["details"]["causes"]
    assert cause == {
        "reason": "FieldValueInvalid",
        "message": "unknown field, did you mean maxClusters?",
        "field": "spec.gang.maxCluster",
    }


async def test_all_faults_come_in_one_answer_types_and_meaning_alike(call):
    wrong = policy(mode="split", gang={"unit": "3", "plane": "x"}, objective={"maxPrice": "12"})
    status, answer = await call("POST", POLICIES, wrong)
    assert status == 422
    assert [cause["field"] for cause in answer["details"]["causes"]] == [
        "spec.mode",
        "spec.gang.unit",
        "spec.objective.maxPrice",
    ]
    assert (await call("GET", f"{POLICIES}/gang"))[0] == 404


async def test_a_patch_is_judged_as_a_whole(call):
    await call("POST", POLICIES, policy())
    merge = "application/merge-patch+json"
    status, answer = await call(
        "PATCH", f"{POLICIES}/gang", {"spec": {"gang": {"unit": 0}}}, kind=merge
    )
    assert status == 422
    assert answer["message"].endswith("spec.gang.unit: must be at least 1, not 0")
    status, answer = await call(
        "PATCH", f"{POLICIES}/gang", {"spec": {"gang": {"unit": 4}}}, kind=merge
    )
    assert (status, answer["spec"]["gang"]["unit"]) == (200, 4)


async def test_a_field_taken_away_gets_its_default_again(call):
    await call("POST", POLICIES, policy(gang={"unit": 4}))
    body = {"spec": {"gang": {"unit": None}}}
    _, answer = await call("PATCH", f"{POLICIES}/gang", body, kind="application/merge-patch+json")
    assert answer["spec"]["gang"]["unit"] == 1


async def test_the_status_is_written_beside_the_spec(call):
    cluster = {
        "apiVersion": "fleet.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "idc-a"},
        "spec": {"networks": {"parameterPlane": "roce-1"}}, "status": {"version": "given"},
    }  # fmt: skip
    status, made = await call("POST", f"{ROOT}/clusters", cluster)
    assert (status, "status" in made) == (201, False)
    made["status"] = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "version": "v1.36.3",
        "summary": {"ready": "True", "api": "ok", "nodes": 2, "accelerators": "h200", "free": "4"},
    }
    made["spec"] = {}
    status, written = await call("PUT", f"{ROOT}/clusters/idc-a/status", made)
    assert status == 200
    assert written["spec"]["networks"] == {"parameterPlane": "roce-1"}
    assert written["status"]["summary"]["free"] == "4"
    _, table = await call("GET", f"{ROOT}/clusters", accept=TABLE)
    names = [column["name"] for column in table["columnDefinitions"]]
    (row,) = table["rows"]
    shown = dict(zip(names, row["cells"], strict=True))
    assert shown == {
        "Name": "idc-a", "Ready": "True", "API": "ok", "Data": None, "Fresh": None,
        "Version": "v1.36.3", "Nodes": 2, "Accelerators": "h200", "Free": "4", "Price/H": None,
        "Plane": "roce-1", "Age": "0s",
    }  # fmt: skip


async def test_a_status_that_nobody_could_read_is_refused(call):
    workload = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
    placements = f"{ROOT}/namespaces/default/placements"
    made = {
        "apiVersion": "fleet.dev/v1alpha1", "kind": "Placement",
        "metadata": {"name": "job-train"}, "spec": {"workload": workload},
    }  # fmt: skip
    status, made = await call("POST", placements, made)
    assert status == 201
    wrong = {"status": {"shards": [{"cluster": "east", "roles": [{"count": "x"}]}], "phase": "On"}}
    path, merge = f"{placements}/job-train/status", "application/merge-patch+json"
    status, answer = await call("PATCH", path, wrong, kind=merge)
    assert status == 422
    found = {cause["field"] for cause in answer["details"]["causes"]}
    assert {"status.phase", "status.shards[0].roles[0].count"} <= found
    status, answer = await call("PATCH", path, {"status": {"phase": "Queued"}}, kind=merge)
    assert (status, answer["status"]["phase"]) == (200, "Queued")


async def test_placements_can_be_found_by_their_workload(call):
    def placement(name, uid):
        workload = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}
        return {
            "apiVersion": "fleet.dev/v1alpha1", "kind": "Placement",
            "metadata": {"name": f"job-{name}"}, "spec": {"workload": workload},
        }  # fmt: skip

    where = f"{ROOT}/namespaces/default/placements"
    for name, uid in (("a", "u1"), ("b", "u2")):
        assert (await call("POST", where, placement(name, uid)))[0] == 201
    _, found = await call("GET", where, query=[("fieldSelector", "spec.workload.uid=u2")])
    assert [each["metadata"]["name"] for each in found["items"]] == ["job-b"]


# -- what objects must be in accord with

QUOTAS = f"{ROOT}/fleetquotas"


def quota(name, **spec):
    return {
        "apiVersion": "fleet.dev/v1alpha1", "kind": "FleetQuota", "metadata": {"name": name},
        "spec": spec,
    }  # fmt: skip


def h200(guaranteed):
    return [{"name": "nvidia.com/gpu", "accelerator": "h200", "guaranteed": guaranteed}]


async def causes(answering):
    status, answer = await answering
    assert status == 422, answer
    return {cause["field"]: cause["message"] for cause in answer["details"]["causes"]}


async def test_a_quota_is_judged_among_the_others(call):
    found = await causes(call("POST", QUOTAS, quota("nlp", parent="research")))
    assert found == {
        "spec.parent": 'no FleetQuota is called "research" (there is none); create it first'
    }
    assert (await call("POST", QUOTAS, quota("research", resources=h200(8))))[0] == 201
    assert (await call("POST", QUOTAS, quota("nlp", parent="research", resources=h200(5))))[
        0
    ] == 201
    found = await causes(call("POST", QUOTAS, quota("cv", parent="research", resources=h200(4))))
    assert list(found) == ["spec.resources[0].guaranteed"]
    merge = "application/merge-patch+json"
    path = f"{QUOTAS}/research"
    found = await causes(call("PATCH", path, {"spec": {"parent": "nlp"}}, kind=merge))
    assert list(found) == ["spec.parent"] and "research < nlp < research" in found["spec.parent"]
    dry = [("dryRun", "All")]
    body = {"spec": {"resources": h200(4)}}
    assert await causes(call("PATCH", path, body, kind=merge, query=dry))
    assert await causes(call("PUT", path, quota("research", resources=h200(4))))
    # the status is the fleet's own, and is not judged so
    status, _ = await call("PATCH", f"{path}/status", {"status": {"waiting": 1}}, kind=merge)
    assert status == 200


async def test_two_quotas_written_at_once_cannot_both_have_the_same(call):
    await call("POST", QUOTAS, quota("research", resources=h200(8)))
    answers = await asyncio.gather(
        *(call("POST", QUOTAS, quota(name, parent="research", resources=h200(5))) for name in "abc")
    )
    assert sorted(status for status, _ in answers) == [201, 422, 422]


async def test_two_moves_at_once_make_no_cycle(call):
    for name in "ab":
        await call("POST", QUOTAS, quota(name))
    merge = "application/merge-patch+json"
    answers = await asyncio.gather(
        call("PATCH", f"{QUOTAS}/a", {"spec": {"parent": "b"}}, kind=merge),
        call("PATCH", f"{QUOTAS}/b", {"spec": {"parent": "a"}}, kind=merge),
    )
    assert sorted(status for status, _ in answers) == [200, 422]


async def test_a_namespace_is_counted_by_one_quota(call):
    space = {"kind": "Namespace", "metadata": {"name": "n", "labels": {"team": "nlp", "x": "y"}}}
    await call("POST", "/api/v1/namespaces", space)
    by_team = {"matchLabels": {"team": "nlp"}}
    assert (await call("POST", QUOTAS, quota("nlp", namespaces=by_team)))[0] == 201
    found = await causes(call("POST", QUOTAS, quota("b", namespaces={"matchLabels": {"x": "y"}})))
    assert found == {"spec.namespaces": "namespace n is counted by nlp already"}


async def test_a_quota_with_others_below_it_is_not_deleted(call):
    await call("POST", QUOTAS, quota("research"))
    await call("POST", QUOTAS, quota("nlp", parent="research"))
    status, answer = await call("DELETE", f"{QUOTAS}/research")
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert answer["message"] == (
        'fleetquotas.fleet.dev "research" is forbidden: below it there is nlp; delete that first, '
        "or set another spec.parent there"
    )
    assert (await call("DELETE", f"{QUOTAS}/nlp"))[0] == 200
    assert (await call("DELETE", f"{QUOTAS}/research"))[0] == 200


async def test_a_whole_tree_is_deleted_at_once_from_below(call):
    for name, parent in (("a", ""), ("b", "a"), ("c", "b")):
        await call("POST", QUOTAS, quota(name, parent=parent))
    assert (await call("DELETE", QUOTAS))[0] == 200
    assert (await call("GET", QUOTAS))[1]["items"] == []


async def test_of_a_part_of_a_tree_what_others_hang_on_stays(call):
    for name, parent in (("a", ""), ("b", "a"), ("c", "b")):
        made = quota(name, parent=parent)
        made["metadata"]["labels"] = {"old": "no" if name == "c" else "yes"}
        await call("POST", QUOTAS, made)
    status, answer = await call("DELETE", QUOTAS, query=[("labelSelector", "old=yes")])
    assert status == 403 and '"a" is forbidden' in answer["message"]
    assert len((await call("GET", QUOTAS))[1]["items"]) == 3


async def test_a_parent_that_goes_as_its_child_comes(call):
    await call("POST", QUOTAS, quota("research"))
    (gone, _), (made, _) = await asyncio.gather(
        call("DELETE", f"{QUOTAS}/research"),
        call("POST", QUOTAS, quota("nlp", parent="research")),
    )
    assert (gone, made) in {(200, 422), (403, 201)}


async def test_a_stale_price_is_refused_at_the_write(call):
    def book(as_of):
        offer = {"cluster": "a", "perHour": "1", "asOf": as_of}
        return {
            "apiVersion": "fleet.dev/v1alpha1", "kind": "PriceBook",
            "metadata": {"name": "current"}, "spec": {"offers": [offer]},
        }  # fmt: skip

    found = await causes(call("POST", f"{ROOT}/pricebooks", book("2026-11-27T00:00:00Z")))
    assert found == {
        "spec.offers[0].asOf": "the price is 48h old, and one older than 24h (spec.maxAge) counts "
        "as unknown; ask for it anew"
    }
    assert (await call("POST", f"{ROOT}/pricebooks", book("2026-11-28T12:00:00Z")))[0] == 201


async def test_the_columns_of_quotas(call):
    await call("POST", QUOTAS, quota("root"))
    await call("POST", QUOTAS, quota("nlp", parent="root", budget={"perMonth": "5 USD"}))
    summary = {"guaranteed": "24 h200", "limit": "40 h200", "used": "38 h200", "borrowed": "14"}
    merge = "application/merge-patch+json"
    status = {"summary": summary, "waiting": 1}
    await call("PATCH", f"{QUOTAS}/nlp/status", {"status": status}, kind=merge)
    _, table = await call("GET", QUOTAS, accept=TABLE)
    names = [column["name"] for column in table["columnDefinitions"]]
    row, _ = table["rows"]
    shown = dict(zip(names, row["cells"], strict=True))
    assert shown == {
        "Name": "nlp", "Parent": "root", "Guaranteed": "24 h200", "Limit": "40 h200",
        "Used": "38 h200", "Borrowed": "14", "Lent": None, "Waiting": 1, "Spent": None,
        "Budget": "5 USD", "Age": "0s",
    }  # fmt: skip


async def test_the_document_is_served(call):
    _, index = await call("GET", "/openapi/v3")
    url = index["paths"]["apis/fleet.dev/v1alpha1"]["serverRelativeURL"]
    path, _, query = url.partition("?")
    status, document = await call("GET", path, query=[tuple(query.split("="))] if query else ())
    assert status == 200
    assert "dev.fleet.v1alpha1.Cluster" in document["components"]["schemas"]


async def test_discovery_lists_the_kinds(call):
    _, found = await call("GET", ROOT)
    names = {row["name"]: row for row in found["resources"]}
    assert {"clusters", "clusters/status", "placementpolicies", "pricebooks", "placements"} <= set(
        names
    )
    assert names["placementpolicies"]["shortNames"] == ["pp"]
    assert names["clusters"]["categories"] == ["fleet"]
