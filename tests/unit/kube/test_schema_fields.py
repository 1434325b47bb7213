from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import BadRequest, Invalid
from fleet.kube.schema import FieldValidation, decode, schema_for
from fleet.kube.schema.documents import structural_schema
from fleet.kube.schema.fields import conform
from fleet.kube.schema.reading import Unreadable, parse_json, parse_yaml, repeated_fields

POD = ("", "v1", "Pod")


def pod(body: Any, **how: Any) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decode(raw, schema=schema_for(*POD), kind=POD, **how)


def container(**fields: Any) -> Any:
    return pod({"spec": {"containers": [fields]}}).object["spec"]["containers"][0]


def refused(body: Any, **how: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        pod(body, **how)
    return caught.value.message


def test_kind_and_version_are_filled_in() -> None:
    assert pod({}).object["kind"] == "Pod"
    assert pod(b"null").object["apiVersion"] == "v1"


def test_zero_values_go_or_stay_as_the_go_structs_have_it() -> None:
    held = container(
        name="", args=[], env=[{"name": "A", "value": ""}], stdin=False,
        livenessProbe={"grpc": {"port": 1}},
    )  # fmt: skip
    assert held["name"] == ""
    assert "args" not in held and "stdin" not in held
    assert held["env"] == [{"name": "A"}]
    assert held["resources"] == {}
    assert held["livenessProbe"]["grpc"] == {"port": 1, "service": None}


def test_nulls_become_what_the_field_makes_of_nothing() -> None:
    held = container(name=None, args=[None, "x"], resources=None, securityContext=None)
    assert held["name"] == ""
    assert held["args"] == ["", "x"]
    assert held["resources"] == {}
    assert "securityContext" not in held


def test_quantities_keep_the_text_of_numbers() -> None:
    body = b'{"spec":{"containers":[{"resources":{"limits":{"a":1e3,"b":0.50,"c":2}}}]}}'
    held = pod(body).object["spec"]["containers"][0]["resources"]["limits"]
    assert held == {"a": "1e3", "b": "500m", "c": "2"}


def test_times_are_written_in_utc() -> None:
    lease = decode(
        b'{"spec":{"renewTime":"2024-01-01T01:00:00.500000+01:00"}}',
        schema=schema_for("coordination.k8s.io", "v1", "Lease"),
        kind=("coordination.k8s.io", "v1", "Lease"),
    )
    assert lease.object["spec"]["renewTime"] == "2024-01-01T00:00:00.500000Z"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"spec": {"containers": {}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type "
            "[]v1.Container",
        ),
        (
            {"spec": {"hostNetwork": "x"}},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type "
            "bool",
        ),
        (
            {"spec": {"activeDeadlineSeconds": 1.5}},
            "json: cannot unmarshal number 1.5 into Go struct field "
            "PodSpec.spec.activeDeadlineSeconds of type int64",
        ),
        (
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type "
            "string",
        ),
        (
            {"spec": {"containers": [{"livenessProbe": {"exec": 1}}]}},
            "json: cannot unmarshal number into Go struct field "
            "Probe.spec.containers.livenessProbe.ProbeHandler.exec of type v1.ExecAction",
        ),
        (
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}},
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ],
)
def test_a_wrong_type_is_worded_as_upstream_words_it(body: Any, message: str) -> None:
    assert refused(body) == f'Pod in version "v1" cannot be handled as a Pod: {message}'


UNKNOWN = b'{"spec":{"containers":[{"nmae":"x"}],"spce":1},"spec":{"spce":2}}'


def test_undeclared_and_repeated_fields_are_reported_once_and_in_order() -> None:
    decoded = pod(UNKNOWN)
    assert decoded.warnings == (
        'unknown field "spec.containers[0].nmae"',
        'unknown field "spec.spce"',
        'duplicate field "spec"',
    )
    assert "spce" not in decoded.object["spec"]
    assert pod(UNKNOWN, validation=FieldValidation.IGNORE).warnings == ()
    assert refused(UNKNOWN, validation=FieldValidation.STRICT) == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.containers[0].nmae", unknown field "spec.spce", '
        'duplicate field "spec"'
    )


def test_reports_are_bounded() -> None:
    body = {"spec": {f"x{i}": 1 for i in range(300)}}
    assert len(pod(body).warnings) == 100


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "unexpected end of JSON input (<empty>)"),
        (b'{"a":', 'unexpected end of JSON input ({"a":)'),
        (b"{a: 1}", "invalid character 'a' looking for beginning of object key string"),
        (b"[]", "cannot unmarshal array into Go value"),
        (b'{"kind":"Job","apiVersion":"batch/v1"}', "(core.Pod): unknown conversion"),
        (b'{"kind":"Nope"}', 'no kind "Nope" is registered for version "v1"'),
        (b'{"spec":NaN}', "invalid character 'N' looking for beginning of value"),
    ],
)
def test_a_body_that_is_no_such_object_is_a_bad_request(body: bytes, words: str) -> None:
    assert words in refused(body)


def test_another_version_of_the_kind_is_told_apart_from_no_version() -> None:
    kind = ("autoscaling", "v2", "HorizontalPodAutoscaler")
    with pytest.raises(BadRequest, match="does not match the expected API version"):
        decode(b'{"apiVersion":"autoscaling/v1"}', schema=schema_for(*kind), kind=kind)


def test_field_validation_has_three_words() -> None:
    assert FieldValidation.of(None) is FieldValidation.WARN
    assert FieldValidation.of("Strict") is FieldValidation.STRICT
    with pytest.raises(Invalid, match="PatchOptions"):
        FieldValidation.of("strict", options="PatchOptions")


def test_yaml_reads_scalars_as_kubernetes_does() -> None:
    value, repeats = parse_yaml(
        b"a: yes\nb: 0x10\nc: 2024-01-01\nd: 1:30\ne: 0777\nf: 1e3\n1: x\ntrue: word\ng: null\n"
        b"h: &x {k: 1}\ni: {<<: *x, l: 2}\nj: .5\nk: 1_000\nl: '5'\n"
    )
    assert repeats == ""
    assert value == {
        "a": True, "b": 16, "c": "2024-01-01", "d": "1:30", "e": 511, "f": 1000.0, "1": "x",
        "true": "word", "g": None, "h": {"k": 1}, "i": {"k": 1, "l": 2}, "j": 0.5, "k": 1000,
        "l": "5",
    }  # fmt: skip


def test_yaml_names_repeated_keys_and_broken_lines() -> None:
    _, repeats = parse_yaml(b"a: 1\nb: 2\na: 3\n")
    assert repeats == 'yaml: unmarshal errors:\n  line 3: key "a" already set in map'
    with pytest.raises(Unreadable, match="yaml: line 2"):
        parse_yaml(b"a: [\n")
    with pytest.raises(Unreadable):
        parse_yaml(b"!!python/object:os.system x")


def test_repeated_keys_of_untyped_values_are_found_at_any_depth() -> None:
    value = parse_json(b'{"a":[{"b":1,"b":2}],"c":{"d":1},"c":3}')
    assert repeated_fields(value) == ['duplicate field "a[0].b"', 'duplicate field "c"']


def test_deep_nesting_is_unreadable_and_no_crash() -> None:
    with pytest.raises(Unreadable):
        parse_json(b"[" * 100_000)


def test_custom_resources_are_pruned_by_their_schema_alone() -> None:
    root = structural_schema(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        "list": {
                            "type": "array",
                            "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                        },
                    },
                }
            },
        }
    )
    held, problems = conform(
        {
            "kind": "Thing",
            "metadata": {"name": "x", "odd": 1},
            "spec": {"free": {"a": None}, "list": [{"k": "", "x": 1}], "gone": 1},
        },
        root,
    )
    assert held == {
        "kind": "Thing",
        "metadata": {"name": "x"},
        "spec": {"free": {"a": None}, "list": [{"k": ""}]},
    }
    assert problems == (
        'unknown field "metadata.odd"',
        'unknown field "spec.list[0].x"',
        'unknown field "spec.gone"',
    )


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["name", "spec", "labels", "x"]), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status", "x"]), values))
def test_any_body_is_held_or_refused_and_what_is_held_stays(body: Any) -> None:
    try:
        held = pod(body).object
    except BadRequest:
        return
    assert pod(held).object == held
    assert pod(held).warnings == ()
