"""Documents of kinds that definitions define: whole, and as upstream makes them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from fleet.kube.resources import GroupVersionResource, Resource, Subresource
from fleet.kube.schema.publishing import Published, published

WIDGETS = Resource(
    GroupVersionResource("my-apps.example.com", "v1beta1", "widgets"),
    kind="Widget",
    namespaced=True,
    verbs=("get", "list"),
    singular="widget",
    subresources=(Subresource("status", "Widget", ("get",)),),
    selectable_fields=("spec.colour",),
)
SPEC = {"type": "object", "properties": {"colour": {"type": "string"}}}
SCHEMA = {"type": "object", "required": ["spec"], "properties": {"spec": SPEC}}


def document(**changes):
    (raw,) = published([Published(replace(WIDGETS, **changes), SCHEMA)]).values()
    return json.loads(raw)


def test_each_group_version_has_one_document():
    others = replace(WIDGETS, gvr=GroupVersionResource("my-apps.example.com", "v1beta1", "others"))
    newer = replace(WIDGETS, gvr=GroupVersionResource("my-apps.example.com", "v1", "widgets"))
    found = published(Published(each, SCHEMA) for each in (WIDGETS, others, newer))
    assert set(found) == {"apis/my-apps.example.com/v1", "apis/my-apps.example.com/v1beta1"}


def test_a_kind_is_published_with_its_list():
    schemas = document()["components"]["schemas"]
    one = schemas["com.example.my-apps.v1beta1.Widget"]
    assert one["properties"]["spec"] == SPEC
    assert one["required"] == ["spec"]
    assert set(one["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    gvk = {"group": "my-apps.example.com", "version": "v1beta1", "kind": "Widget"}
    assert one["x-kubernetes-group-version-kind"] == [gvk]
    assert one["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.colour"}]
    many = schemas["com.example.my-apps.v1beta1.WidgetList"]
    assert many["x-kubernetes-group-version-kind"] == [{**gvk, "kind": "WidgetList"}]
    bare = document(selectable_fields=())["components"]["schemas"]
    assert "x-kubernetes-selectable-fields" not in bare["com.example.my-apps.v1beta1.Widget"]


def test_nothing_it_refers_to_is_missing():
    text = json.dumps(document())
    wanted = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert wanted <= set(document()["components"]["schemas"])


def test_paths_follow_scope_and_subresources():
    base = "/apis/my-apps.example.com/v1beta1"
    inside = f"{base}/namespaces/{{namespace}}/widgets"
    assert set(document()["paths"]) == {
        f"{base}/widgets", inside, f"{inside}/{{name}}", f"{inside}/{{name}}/status",
    }  # fmt: skip
    wide = document(namespaced=False, subresources=())["paths"]
    assert set(wide) == {f"{base}/widgets", f"{base}/widgets/{{name}}"}


def test_operations_are_called_as_upstream_calls_them():
    item = document()["paths"][
        "/apis/my-apps.example.com/v1beta1/namespaces/{namespace}/widgets/{name}"
    ]
    assert item["patch"]["operationId"] == "patchMyAppsExampleComV1beta1NamespacedWidget"
    assert item["patch"]["tags"] == ["myAppsExampleCom_v1beta1"]
    assert "fieldValidation" in [each["name"] for each in item["patch"]["parameters"]]
    assert "application/merge-patch+json" in item["patch"]["requestBody"]["content"]
