"""The apply that nominates: it repeats what Kueue's admission owns, and gives up none of it."""

from __future__ import annotations

from typing import Any

import orjson

from adapters.kueue.nominations import nominating

QUOTA = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "yes"}
OTHER = {"type": "PodsReady", "status": "False", "reason": "x", "message": ""}
STATUS: dict[str, Any] = {
    "admission": {
        "clusterQueue": "team",
        "podSetAssignments": [
            {
                "name": "main",
                "count": 2,
                "flavors": {"cpu": "default"},
                "resourceUsage": {"cpu": "4"},
            }
        ],
    },
    "conditions": [OTHER, QUOTA],
    "admissionChecks": [{"name": "mk", "state": "Pending", "message": ""}],
    "schedulingStats": {},
    "accumulatedPastExecutionTimeSeconds": 0,
}
KEY = 'k:{"type":"QuotaReserved"}'
OWNED = {
    "f:admission": {
        "f:clusterQueue": {},
        "f:podSetAssignments": {
            'k:{"name":"main"}': {".": {}, "f:name": {}, "f:count": {}, "f:flavors": {"f:cpu": {}}}
        },
    },
    "f:conditions": {KEY: {".": {}, "f:type": {}, "f:status": {}, "f:reason": {}, "f:message": {}}},
    "f:admissionChecks": {'k:{"name":"mk"}': {".": {}, "f:name": {}, "f:state": {}}},
    "f:schedulingStats": {".": {}},
}


def stored(fields: dict[str, Any] | None, status: dict[str, Any] = STATUS, **entry: str):
    mine = {
        "manager": "kueue-admission",
        "operation": "Apply",
        "subresource": "status",
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "fieldsV1": {"f:status": fields},
        **entry,
    }
    others = {
        "manager": "kueue",
        "operation": "Update",
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "fieldsV1": {"f:spec": {"f:podSets": {}}, "f:metadata": {"f:finalizers": {}}},
    }
    return {
        "metadata": {
            "namespace": "payments",
            "name": "w",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"a": "b"},
            "managedFields": [others, *([mine] if fields is not None else [])],
        },
        "spec": {"podSets": []},
        "status": status,
    }


def test_what_the_manager_owns_is_repeated_and_nothing_else():
    applied = nominating(stored(OWNED), ["east", "west"])
    assert applied["metadata"] == {
        "namespace": "payments", "name": "w", "uid": "u", "resourceVersion": "7",
    }  # fmt: skip
    assert "spec" not in applied
    assert applied["status"] == {
        "admission": {
            "clusterQueue": "team",
            "podSetAssignments": [{"name": "main", "count": 2, "flavors": {"cpu": "default"}}],
        },
        "conditions": [QUOTA],
        "admissionChecks": [{"name": "mk", "state": "Pending"}],
        "schedulingStats": {},
        "nominatedClusterNames": ["east", "west"],
    }


def test_an_earlier_nomination_is_replaced_or_given_up():
    owned = {**OWNED, "f:nominatedClusterNames": {}}
    status = {**STATUS, "nominatedClusterNames": ["east"]}
    assert nominating(stored(owned, status), ["west"])["status"]["nominatedClusterNames"] == [
        "west"
    ]
    assert "nominatedClusterNames" not in nominating(stored(owned, status), [])["status"]


def test_what_an_update_or_another_subresource_owns_is_not_the_applys():
    for other in ({"operation": "Update"}, {"subresource": ""}, {"manager": "kueue"}):
        applied = nominating(stored(OWNED, **other), ["east"])
        assert applied["status"] == {"nominatedClusterNames": ["east"]}


def test_without_any_managed_fields_the_nomination_stands_alone():
    assert nominating(stored(None), ["east"])["status"] == {"nominatedClusterNames": ["east"]}


def test_what_is_owned_and_gone_is_not_made_up():
    applied = nominating(stored(OWNED, {"conditions": [OTHER]}), ["east"])
    assert applied["status"] == {"conditions": [], "nominatedClusterNames": ["east"]}


def test_items_of_sets_are_told_by_their_value():
    fields = {"f:names": {f"v:{orjson.dumps('a').decode()}": {}}}
    applied = nominating(stored(fields, {"names": ["b", "a"]}), ["east"])
    assert applied["status"]["names"] == ["a"]
