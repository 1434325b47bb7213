"""CustomResourceDefinitions: a kind is served as soon as its names are accepted, and goes with
its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from fleet.apiserver import definitions
from fleet.kube.wire import Request
from fleet.store.sqlite import SqliteBackend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from types import ModuleType

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["colour"],
            "properties": {
                "colour": {"type": "string", "enum": ["red", "blue"]},
                "replicas": {"type": "integer", "default": 2},
            },
        },
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
        },
    },
}


def version(name: str = "v1", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": SCHEMA},
        **more,
    }


def definition(
    plural: str = "widgets", kind: str = "Widget", scope: str = "Namespaced", **spec: Any
) -> dict[str, Any]:
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": kind + "List"}
    return {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "names": names,
            "scope": scope,
            "versions": [version()],
            **spec,
        },
    }


def widget(name: str, colour: str = "red", **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "Widget",
        "apiVersion": "example.com/v1",
        "metadata": {"name": name, **metadata},
        "spec": {"colour": colour},
    }


@pytest.fixture
async def api(harness: ModuleType) -> AsyncIterator[Any]:
    async with harness.serving() as found, harness.controlled(found):
        yield found


async def define(api: Any, harness: ModuleType, **options: Any) -> Any:
    made = await api.must("POST", CRDS, definition(**options))
    await harness.at_rest(api)
    return await api.must("GET", f"{CRDS}/{made['metadata']['name']}")


def conditions(found: Any) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in found["status"]["conditions"]}


async def test_a_defined_kind_is_served(api: Any, harness: ModuleType) -> None:
    assert (await api.call("GET", WIDGETS)).status == 404
    found = await define(api, harness)
    assert conditions(found) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert found["status"]["storedVersions"] == ["v1"]
    assert found["status"]["acceptedNames"] == found["spec"]["names"]

    made = await api.must("POST", WIDGETS, {**widget("w"), "unknown": 1})
    assert made["spec"] == {"colour": "red", "replicas": 2}
    assert made["metadata"]["generation"] == 1
    assert "unknown" not in made
    wrong = await api.call("POST", WIDGETS, widget("x", colour="green"))
    assert wrong.status == 422
    assert wrong.body["details"]["causes"][0]["field"] == "spec.colour"
    listed = await api.must("GET", "/apis/example.com/v1/widgets")
    assert listed["kind"] == "WidgetList"
    assert [item["metadata"]["name"] for item in listed["items"]] == ["w"]
    changed = await api.must("PATCH", WIDGETS + "/w", {"spec": {"colour": "blue"}},
                             content_type=MERGE)  # fmt: skip
    assert changed["metadata"]["generation"] == 2


async def test_discovery_and_openapi_tell_of_it(api: Any, harness: ModuleType) -> None:
    await define(api, harness)
    groups = await api.must("GET", "/apis")
    assert "example.com" in [group["name"] for group in groups["groups"]]
    rows = (await api.must("GET", "/apis/example.com/v1"))["resources"]
    assert rows[0]["name"] == "widgets"
    assert rows[0]["kind"] == "Widget"
    index = (await api.must("GET", "/openapi/v3"))["paths"]
    first = index["apis/example.com/v1"]["serverRelativeURL"]
    document = await api.must("GET", first)
    name = "com.example.v1.Widget"
    schema = document["components"]["schemas"][name]
    assert schema["properties"]["spec"] == SCHEMA["properties"]["spec"]
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "version": "v1", "kind": "Widget"}
    ]
    item = document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]
    assert "application/merge-patch+json" in item["patch"]["requestBody"]["content"]
    assert "fieldValidation" in [p["name"] for p in item["patch"]["parameters"]]
    # a change of the schema is another document
    patch = {"spec": {"versions": [version(subresources={"status": {}})]}}
    await api.must("PATCH", f"{CRDS}/widgets.example.com", patch, content_type=MERGE)
    await harness.at_rest(api)
    index = (await api.must("GET", "/openapi/v3"))["paths"]
    assert index["apis/example.com/v1"]["serverRelativeURL"] != first


async def test_subresources_columns_and_selectable_fields(api: Any, harness: ModuleType) -> None:
    columns = [{"name": "Colour", "type": "string", "jsonPath": ".spec.colour"}]
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    await define(
        api,
        harness,
        versions=[
            version(
                subresources={"status": {}, "scale": scale},
                additionalPrinterColumns=columns,
                selectableFields=[{"jsonPath": ".spec.colour"}],
            )
        ],
    )
    await api.must("POST", WIDGETS, {**widget("w"), "status": {"replicas": 7}})
    await api.must("POST", WIDGETS, widget("v", colour="blue"))
    assert "status" not in await api.must("GET", WIDGETS + "/w")
    status = {"status": {"replicas": 3, "selector": "a=b"}, "spec": {"colour": "blue"}}
    told = await api.must("PATCH", WIDGETS + "/w/status", status, content_type=MERGE)
    assert told["status"] == status["status"]
    assert told["spec"]["colour"] == "red"
    found = await api.must("GET", WIDGETS + "/w/scale")
    assert found["spec"] == {"replicas": 2}
    assert found["status"] == {"replicas": 3, "selector": "a=b"}
    scaled = await api.must("PUT", WIDGETS + "/w/scale",
                            {"metadata": {"name": "w"}, "spec": {"replicas": 5}})  # fmt: skip
    assert scaled["spec"] == {"replicas": 5}
    assert (await api.must("GET", WIDGETS + "/w"))["spec"]["replicas"] == 5
    listed = await api.must("GET", WIDGETS + "?fieldSelector=spec.colour%3Dblue")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["v"]
    table = await api.call(
        "GET", WIDGETS + "/v", accept="application/json;as=Table;v=v1;g=meta.k8s.io"
    )
    assert [c["name"] for c in table.body["columnDefinitions"]] == ["Name", "Colour"]
    assert table.body["rows"][0]["cells"] == ["v", "blue"]


async def test_a_definition_goes_after_its_objects(api: Any, harness: ModuleType) -> None:
    await define(api, harness)
    await api.must("POST", WIDGETS, widget("w"))
    await api.must("POST", WIDGETS, widget("held", finalizers=["example.com/a"]))
    path = f"{CRDS}/widgets.example.com"
    marked = await api.must("DELETE", path)
    assert marked["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert conditions(marked)["Terminating"] == ("True", "InstanceDeletionPending")
    await harness.at_rest(api)
    listed = await api.must("GET", WIDGETS)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["held"]
    refused = await api.call("POST", WIDGETS, widget("new"))
    assert refused.status == 405
    assert "terminating" in refused.body["message"]
    await api.must(
        "PATCH", WIDGETS + "/held", {"metadata": {"finalizers": None}}, content_type=MERGE
    )
    await harness.at_rest(api)
    assert (await api.call("GET", path)).status == 404
    assert (await api.call("GET", WIDGETS)).status == 404
    assert (await api.call("GET", "/apis/example.com/v1")).status == 404
    assert "apis/example.com/v1" not in (await api.must("GET", "/openapi/v3"))["paths"]
    # and the name is free, for a kind that is another
    await define(api, harness, scope="Cluster")
    await api.must("POST", "/apis/example.com/v1/widgets", widget("w"))


async def test_objects_of_a_defined_kind_are_garbage_and_content_like_any_other(
    api: Any, harness: ModuleType
) -> None:
    await define(api, harness)
    lab = "/apis/example.com/v1/namespaces/lab/widgets"
    await api.must("POST", "/api/v1/namespaces", {"metadata": {"name": "lab"}})
    root = await api.must("POST", lab, widget("root"))
    reference = {
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "root",
        "uid": root["metadata"]["uid"],
    }  # fmt: skip
    maps = "/api/v1/namespaces/lab/configmaps"
    await api.must("POST", maps, {"metadata": {"name": "leaf", "ownerReferences": [reference]}})
    await api.must("POST", lab, widget("other"))
    await api.must("DELETE", lab + "/root")
    await harness.at_rest(api)
    assert (await api.call("GET", maps + "/leaf")).status == 404
    await api.must("DELETE", "/api/v1/namespaces/lab")
    await harness.at_rest(api)
    assert (await api.call("GET", "/api/v1/namespaces/lab")).status == 404
    assert (await api.must("GET", "/apis/example.com/v1/widgets"))["items"] == []


async def test_a_name_that_is_taken_waits_until_it_is_free(api: Any, harness: ModuleType) -> None:
    await define(api, harness)
    second = await define(api, harness, plural="gadgets", kind="Widget")
    assert conditions(second) == {
        "NamesAccepted": ("False", "ListKindConflict"),
        "Established": ("False", "NotAccepted"),
    }
    gadgets = "/apis/example.com/v1/namespaces/default/gadgets"
    assert (await api.call("GET", gadgets)).status == 404
    await api.must("DELETE", f"{CRDS}/widgets.example.com")
    await harness.at_rest(api)
    assert (await api.call("GET", gadgets)).status == 200


@pytest.mark.parametrize(
    ("plural", "kind", "reason"),
    [
        ("deployments", "Deployment", "ListKindConflict"),
        ("deployments", "Rollout", "PluralConflict"),
        ("rollouts", "Deployment", "ListKindConflict"),
    ],
)
async def test_a_kind_the_fleet_has_anyway_is_not_replaced(
    api: Any, harness: ModuleType, plural: str, kind: str, reason: str
) -> None:
    body = definition(plural=plural, kind=kind, group="apps")
    body["metadata"]["name"] = f"{plural}.apps"
    await api.must("POST", CRDS, body)
    await harness.at_rest(api)
    found = await api.must("GET", f"{CRDS}/{plural}.apps")
    assert conditions(found)["NamesAccepted"] == ("False", reason)
    assert conditions(found)["Established"] == ("False", "NotAccepted")
    rows = (await api.must("GET", "/apis/apps/v1"))["resources"]
    assert "replicasets" in [row["name"] for row in rows]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metadata": {"name": "gadgets.example.com"}}, "metadata.name"),
        ({"spec": {"scope": "Everywhere"}}, "spec.scope"),
        ({"spec": {"group": ""}}, "spec.group"),
        ({"spec": {"versions": []}}, "spec.versions"),
        ({"spec": {"versions": [version("v1"), version("v2")]}}, "spec.versions"),
        (
            {"spec": {"versions": [version(), version(storage=False)]}},
            "spec.versions",
        ),
        (
            {"spec": {"versions": [{"name": "v1", "served": True, "storage": True}]}},
            "spec.versions[0].schema.openAPIV3Schema",
        ),
        (
            {"spec": {"versions": [version(schema={"openAPIV3Schema": {"type": "string"}})]}},
            "spec.versions[0].schema.openAPIV3Schema.type",
        ),
    ],
)
async def test_a_definition_that_nothing_could_be_served_by_is_refused(
    api: Any, change: dict[str, Any], field: str
) -> None:
    body = definition()
    for part, values in change.items():
        body[part] = {**body[part], **values}
    answer = await api.call("POST", CRDS, body)
    assert answer.status == 422
    assert field in [cause["field"] for cause in answer.body["details"]["causes"]]


async def test_what_objects_are_stored_by_stays_while_there_are_any(
    api: Any, harness: ModuleType
) -> None:
    await define(api, harness)
    await api.must("POST", WIDGETS, widget("w"))
    path = f"{CRDS}/widgets.example.com"
    patch = {"spec": {"versions": [version("v2")]}}
    refused = await api.call("PATCH", path, patch, content_type=MERGE)
    assert refused.status == 422
    assert "delete them first" in refused.body["message"]
    await api.must("DELETE", WIDGETS + "/w")
    await api.must("PATCH", path, patch, content_type=MERGE)
    await harness.at_rest(api)
    assert (await api.call("GET", WIDGETS)).status == 404
    v2 = WIDGETS.replace("v1", "v2")
    await api.must("POST", v2, {**widget("w"), "apiVersion": "example.com/v2"})
    found = await api.must("GET", path)
    assert found["status"]["storedVersions"] == ["v1", "v2"]


async def test_only_the_storage_version_is_served(api: Any, harness: ModuleType) -> None:
    await define(api, harness, versions=[version("v1beta1", storage=False), version("v1")])
    assert (await api.call("GET", WIDGETS)).status == 200
    assert (await api.call("GET", WIDGETS.replace("v1", "v1beta1"))).status == 404
    found = next(
        g for g in (await api.must("GET", "/apis"))["groups"] if g["name"] == "example.com"
    )
    assert [v["version"] for v in found["versions"]] == ["v1"]


async def test_a_storage_version_that_is_not_served_serves_nothing(
    api: Any, harness: ModuleType
) -> None:
    await define(api, harness, versions=[version("v1", served=False), version("v2", storage=False)])
    assert (await api.call("GET", "/apis/example.com/v1")).status == 404
    assert (await api.call("GET", "/apis/example.com/v2")).status == 404


async def test_what_is_established_stays_so(api: Any, harness: ModuleType) -> None:
    await define(api, harness)
    await define(api, harness, plural="gadgets", kind="Gadget")
    path = f"{CRDS}/gadgets.example.com"
    patch = {"spec": {"names": {"shortNames": ["widget"]}}}
    await api.must("PATCH", path, patch, content_type=MERGE)
    await harness.at_rest(api)
    assert conditions(await api.must("GET", path)) == {
        "NamesAccepted": ("False", "ShortNamesConflict"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert (await api.call("GET", WIDGETS.replace("widgets", "gadgets"))).status == 200


async def test_a_kind_defined_anew_is_selected_by_its_new_fields(
    api: Any, harness: ModuleType
) -> None:
    await define(api, harness)
    await api.must("POST", WIDGETS, widget("w"))
    await api.must("DELETE", f"{CRDS}/widgets.example.com")
    await harness.at_rest(api)
    fields = [{"jsonPath": ".spec.colour"}]
    await define(api, harness, versions=[version(selectableFields=fields)])
    await api.must("POST", WIDGETS, widget("r"))
    await api.must("POST", WIDGETS, widget("b", colour="blue"))
    listed = await api.must("GET", WIDGETS + "?fieldSelector=spec.colour%3Dblue")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["b"]


def test_a_conditions_time_changes_only_with_its_status() -> None:
    first = {"type": "Established", "status": "False", "reason": "NotAccepted"}
    before = definitions.merged((), [first], now="2024-01-01T00:00:00Z")
    again = definitions.merged(before, [first], now="2024-01-02T00:00:00Z")
    assert again == before
    changed = definitions.merged(before, [{**first, "status": "True"}], now="2024-01-03T00:00:00Z")
    assert changed[0]["lastTransitionTime"] == "2024-01-03T00:00:00Z"


async def test_what_is_defined_is_served_after_a_restart(
    harness: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "objects.db"
    async with harness.serving(SqliteBackend(path), epoch=1) as api:
        controllers = harness.controllers(api)
        controllers.start()
        name = "widgets.example.com"
        await api.must("POST", CRDS, definition())
        await controllers._definitions.reconcile(name)
        made = await api.must("POST", WIDGETS, widget("w"))
    async with harness.serving(SqliteBackend(path), epoch=2) as api:
        assert (await api.call("GET", WIDGETS)).status == 404
        harness.controllers(api).start()
        assert await api.must("GET", WIDGETS + "/w") == made


async def test_a_second_look_at_definitions_writes_nothing(api: Any, harness: ModuleType) -> None:
    await define(api, harness)
    await define(api, harness, plural="gadgets", kind="Widget")
    before = api.store.sequencer.current
    async with harness.controlled(api):
        pass
    assert api.store.sequencer.current == before


async def test_a_watch_of_a_defined_kind(api: Any, harness: ModuleType) -> None:
    await define(api, harness)
    made = await api.must("POST", WIDGETS, widget("w"))
    response = await api.kernel.handle(
        Request("GET", WIDGETS, query=(("watch", "true"), ("timeoutSeconds", "1")))
    )
    stream = aiter(response.body)
    event = orjson.loads(await anext(stream))
    await response.aclose()
    assert event == {"type": "ADDED", "object": made}
