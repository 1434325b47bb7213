"""Go types that write themselves: quantities, times, IntOrString, raw JSON, schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fleet.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    Messages = Callable[[str], Any]
    Decoded = Callable[..., dict[str, Any]]

META = "k8s.io.apimachinery.pkg.apis.meta.v1"
CRD = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions"


def test_quantities_are_plain_text(message: Messages, decoded: Decoded) -> None:
    pod = message("core.v1.Pod")()
    container = pod.spec.containers.add()
    container.resources.requests["cpu"].string = "100m"
    container.resources.requests["unsaid"].SetInParent()
    pod.spec.volumes.add().volumeSource.emptyDir.sizeLimit.string = "1Gi"
    container.env.add().valueFrom.resourceFieldRef.resource = "limits.cpu"
    spec = decoded(pod, "v1", "Pod")["spec"]
    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "100m", "unsaid": "0"}}
    assert spec["volumes"][0]["emptyDir"] == {"sizeLimit": "1Gi"}
    # The divisor is no pointer: Go writes its zero.
    reference = spec["containers"][0]["env"][0]["valueFrom"]["resourceFieldRef"]
    assert reference == {"resource": "limits.cpu", "divisor": "0"}


@pytest.mark.parametrize(
    ("sent", "written"),
    [
        ({"type": 0, "intVal": 8080, "strVal": ""}, 8080),
        ({"type": 1, "intVal": 0, "strVal": "http"}, "http"),
        ({"type": 1, "strVal": ""}, ""),
        ({"intVal": -1}, -1),
        ({}, 0),
    ],
)
def test_int_or_string_is_the_one_its_type_names(
    message: Messages, decoded: Decoded, sent: dict[str, Any], written: int | str
) -> None:
    service = message("core.v1.Service")()
    service.spec.ports.add().targetPort.MergeFrom(
        message("k8s.io.apimachinery.pkg.util.intstr.IntOrString")(**sent)
    )
    (port,) = decoded(service, "v1", "Service")["spec"]["ports"]
    assert port["targetPort"] == written
    assert type(port["targetPort"]) is type(written)


def test_int_or_string_of_a_third_type_is_refused(message: Messages, decoded: Decoded) -> None:
    service = message("core.v1.Service")()
    service.spec.ports.add().targetPort.type = 7
    with pytest.raises(BadRequest, match=r"spec\.ports\[0\]\.targetPort: .*type 7"):
        decoded(service, "v1", "Service")


@pytest.mark.parametrize(
    ("seconds", "nanos", "written"),
    [
        (0, 0, "1970-01-01T00:00:00Z"),
        (1199149261, 0, "2008-01-01T01:01:01Z"),
        (1199149261, 999999999, "2008-01-01T01:01:01Z"),
        (-1, 0, "1969-12-31T23:59:59Z"),
        (-62135596799, 0, "0001-01-01T00:00:01Z"),
        (253402300799, 0, "9999-12-31T23:59:59Z"),
        (-62135596800, 0, None),
    ],
)
def test_time(
    message: Messages, decoded: Decoded, seconds: int, nanos: int, written: str | None
) -> None:
    pod = message("core.v1.Pod")()
    pod.metadata.deletionTimestamp.seconds = seconds
    pod.metadata.deletionTimestamp.nanos = nanos
    assert decoded(pod, "v1", "Pod")["metadata"] == {"deletionTimestamp": written}


@pytest.mark.parametrize("seconds", [253402300800, -62135596801, 2**63 - 1, -(2**63)])
def test_a_time_that_has_no_rfc_3339_form_is_refused(
    message: Messages, decoded: Decoded, seconds: int
) -> None:
    pod = message("core.v1.Pod")()
    pod.metadata.deletionTimestamp.seconds = seconds
    with pytest.raises(BadRequest, match=r"metadata\.deletionTimestamp: .*years 1 to 9999"):
        decoded(pod, "v1", "Pod")


@pytest.mark.parametrize(
    ("seconds", "nanos", "written"),
    [
        (1199149261, 0, "2008-01-01T01:01:01.000000Z"),
        (1199149261, 123456789, "2008-01-01T01:01:01.123456Z"),
        (0, 1999, "1970-01-01T00:00:00.000001Z"),
        (0, -1, "1970-01-01T00:00:00.000000Z"),
        (0, -1000, "1969-12-31T23:59:59.999999Z"),
        (-62135596800, 0, None),
    ],
)
def test_micro_time(
    message: Messages, decoded: Decoded, seconds: int, nanos: int, written: str | None
) -> None:
    lease = message("coordination.v1.Lease")()
    lease.spec.renewTime.seconds = seconds
    lease.spec.renewTime.nanos = nanos
    spec = decoded(lease, "coordination.k8s.io/v1", "Lease")["spec"]
    assert spec == {"renewTime": written}


@pytest.mark.parametrize(
    ("nanoseconds", "written"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1µs"),
        (2200000, "2.2ms"),
        (1500000000, "1.5s"),
        (60000000000, "1m0s"),
        (3600000000000, "1h0m0s"),
        (3661000000005, "1h1m1.000000005s"),
        (-90000000000, "-1m30s"),
        (2**63 - 1, "2562047h47m16.854775807s"),
        (-(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_duration(message: Messages, decoded: Decoded, nanoseconds: int, written: str) -> None:
    metrics = message("k8s.io.metrics.pkg.apis.metrics.v1beta1.PodMetrics")()
    metrics.window.duration = nanoseconds
    assert decoded(metrics, "metrics.k8s.io/v1beta1", "PodMetrics")["window"] == written


@pytest.mark.parametrize(
    ("raw", "value"),
    [(b'{"a":[1,null,1.5]}', {"a": [1, None, 1.5]}), (b"null", None), (b'"x"', "x"), (b"7", 7)],
)
def test_a_raw_extension_is_its_json(
    message: Messages, decoded: Decoded, raw: bytes, value: Any
) -> None:
    revision = message("apps.v1.ControllerRevision")(revision=3)
    kind = "apps/v1", "ControllerRevision"
    assert decoded(revision, *kind) == {"metadata": {}, "data": None, "revision": 3}
    revision.data.raw = raw
    assert decoded(revision, *kind)["data"] == value


@pytest.mark.parametrize("raw", [b"{", b"", b"k8s\x00\x0a\x00", b"NaN", b'"\xff"', b"[" * 5000])
def test_raw_bytes_that_are_no_json_are_refused(
    message: Messages, decoded: Decoded, raw: bytes
) -> None:
    revision = message("apps.v1.ControllerRevision")()
    revision.data.raw = raw
    with pytest.raises(BadRequest, match=r"ControllerRevision .*: data: the JSON in it"):
        decoded(revision, "apps/v1", "ControllerRevision")


def test_fields_v1_is_its_json(message: Messages, decoded: Decoded) -> None:
    pod = message("core.v1.Pod")()
    pod.metadata.managedFields.add(manager="kubectl").fieldsV1.Raw = b'{"f:spec":{}}'
    pod.metadata.managedFields.add().fieldsV1.SetInParent()
    pod.metadata.managedFields.add().fieldsV1.Raw = b""
    assert decoded(pod, "v1", "Pod")["metadata"]["managedFields"] == [
        {"manager": "kubectl", "fieldsV1": {"f:spec": {}}},
        {"fieldsV1": None},
        {"fieldsV1": None},
    ]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_json_and_schemas_of_custom_resource_definitions(
    message: Messages, decoded: Decoded, version: str
) -> None:
    props = message(f"{CRD}.{version}.JSONSchemaProps")
    schema = props(type="object", maximum=100.0, minimum=0.5, multipleOf=1e-7, minLength=0)
    schema.default.raw = b'{"a":1}'
    schema.example.SetInParent()
    schema.enum.add(raw=b'"x"')
    schema.enum.add(raw=b"null")
    schema.enum.add(raw=b"")
    schema.items.schema.type = "string"
    schema.additionalProperties.allows = True
    schema.additionalItems.allows = False
    schema.dependencies["strings"].property.extend(["a", "b"])
    schema.dependencies["schema"].schema.type = "integer"
    schema.dependencies["neither"].SetInParent()
    schema.properties["list"].items.jSONSchemas.add(type="string")
    schema.properties["neither"].items.SetInParent()
    schema.properties["nested"].additionalProperties.schema.format = "int32"
    schema.xKubernetesPreserveUnknownFields = True
    schema.xKubernetesListMapKeys.append("name")
    definition = message(f"{CRD}.{version}.CustomResourceDefinition")()
    definition.spec.versions.add(name="v1").schema.openAPIV3Schema.MergeFrom(schema)
    written = decoded(definition, f"apiextensions.k8s.io/{version}", "CustomResourceDefinition")
    got = written["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert got == {
        "type": "object",
        "default": {"a": 1},
        "maximum": 100,
        "minimum": 0.5,
        "multipleOf": 1e-7,
        "minLength": 0,
        "enum": ["x", None, None],
        "items": {"type": "string"},
        "additionalProperties": True,
        "additionalItems": False,
        "dependencies": {
            "neither": None,
            "schema": {"type": "integer"},
            "strings": ["a", "b"],
        },
        "properties": {
            "list": {"items": [{"type": "string"}]},
            "neither": {"items": None},
            "nested": {"additionalProperties": {"format": "int32"}},
        },
        "example": None,
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-list-map-keys": ["name"],
    }
    # encoding/json writes 100, not 100.0.
    assert isinstance(got["maximum"], int)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_a_float_that_json_cannot_say_is_refused(
    message: Messages, decoded: Decoded, value: float
) -> None:
    definition = message(f"{CRD}.v1.CustomResourceDefinition")()
    schema = definition.spec.versions.add().schema.openAPIV3Schema
    schema.properties["a"].maximum = value
    where = r'spec\.versions\[0\]\.schema\.openAPIV3Schema\.properties\["a"\]\.maximum: JSON has no'
    with pytest.raises(BadRequest, match=where):
        decoded(definition, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
