"""The rules, one by one, are compared with a real apiserver in the e2e lane; this is their form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import Invalid
from fleet.kube.defaults import apply_defaults, validate_create, validate_update
from fleet.kube.defaults.validation import names
from fleet.kube.defaults.validation.cron import wrong_schedule
from fleet.kube.defaults.validation.problems import Problems

Object = dict[str, Any]


def job(**spec: Any) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a", "resources": {}}]}
    body = {
        "metadata": {"name": "x", "namespace": "default", "uid": "u"},
        "spec": {
            "manualSelector": True,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod},
            **spec,
        },
    }
    return apply_defaults("batch", "v1", "Job", body)


def faults(obj: Object, *, group: str = "batch", kind: str = "Job") -> dict[str, str]:
    try:
        validate_create(group, "v1", kind, obj, namespaced=True)
    except Invalid as error:
        assert error.details is not None
        return {cause.field: cause.message for cause in error.details.causes}
    return {}


def test_a_good_job_has_no_faults() -> None:
    assert faults(job()) == {}


def test_every_fault_is_named_at_once() -> None:
    assert faults(job(parallelism=-1, completions=-2)) == {
        "spec.parallelism": "Invalid value: -1: must be greater than or equal to 0",
        "spec.completions": "Invalid value: -2: must be greater than or equal to 0",
    }


def test_the_error_has_the_form_of_a_status() -> None:
    with pytest.raises(Invalid) as caught:
        validate_create("batch", "v1", "Job", job(parallelism=-1), namespaced=True)
    error = caught.value
    assert error.message == (
        'Job.batch "x" is invalid: spec.parallelism: Invalid value: -1: must be greater than or '
        "equal to 0"
    )
    assert error.details is not None
    assert (error.details.group, error.details.kind, error.details.name) == ("batch", "Job", "x")
    assert [cause.reason for cause in error.details.causes] == ["FieldValueInvalid"]


def test_a_running_jobs_template_stays_and_a_suspended_ones_may_be_steered() -> None:
    old = job()
    new = job()
    new["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    with pytest.raises(Invalid, match=r"spec\.template: .*field is immutable"):
        validate_update("batch", "v1", "Job", new, old, namespaced=True)
    old["spec"]["suspend"] = True
    validate_update("batch", "v1", "Job", new, old, namespaced=True)
    new["spec"]["template"]["spec"]["hostname"] = "x"
    with pytest.raises(Invalid, match=r"spec\.template\.spec: "):
        validate_update("batch", "v1", "Job", new, old, namespaced=True)


def test_a_deadline_may_be_moved_while_a_job_runs() -> None:
    validate_update(
        "batch", "v1", "Job", job(activeDeadlineSeconds=600), job(activeDeadlineSeconds=30),
        namespaced=True,
    )  # fmt: skip


def test_a_kind_without_rules_of_its_own_is_held_to_those_of_metadata() -> None:
    thing = {"metadata": {"name": "Bad Name", "namespace": "default"}}
    assert list(faults(thing, group="example.com", kind="Thing")) == ["metadata.name"]


def test_the_same_fault_counts_once_and_its_value_is_quoted_as_go_quotes() -> None:
    problems = Problems()
    for _ in range(2):
        problems.invalid("spec.x", 'a"\n', "bad")
    assert [cause.message for cause in problems.causes] == [r'Invalid value: "a\"\n": bad']


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (names.dns_label, ["a", "a-1", "1a", "a" * 63], ["", "A", "-a", "a-", "a.b", "a" * 64]),
        (names.dns_subdomain, ["a", "a.b", "a" * 253], ["", "A", "a..b", ".a", "a_b", "a" * 254]),
        (
            names.qualified_name,
            ["a", "A_b.c", "a.com/b", "a" * 63],
            ["", "a/b/c", "/a", "A.com/b", "a/", "-a", "a" * 64],
        ),
        (names.label_value, ["", "a", "A_b.c", "1"], ["-a", "a b", "é", "a" * 64]),
        (names.config_key, ["a", ".a", "A_b-c.d"], ["", "a b", ".", "..", "..a", "a/b"]),
        (names.variable_name, ["A", "a.b-c", "1 x"], ["", "a=b", "é", "\t"]),
        (names.port_name, ["http", "a-1", "1a"], ["", "A", "1", "a--b", "-a", "a" * 16]),
        (names.percent, ["0%", "150%"], ["", "%", "1", "-1%", "1.5%"]),
        (names.path_segment, ["a b", "é"], [".", "..", "a/b", "a%b"]),
    ],
)
def test_formats_of_names(rule: names.NameRule, good: list[str], bad: list[str]) -> None:
    assert [value for value in good if rule(value)] == []
    assert [value for value in bad if not rule(value)] == []


@pytest.mark.parametrize(
    "schedule",
    [
        "* * * * *",
        "*/5 0-6 1,15 jan-dec mon",
        "0 0 ? * SUN",
        "@daily",
        "@every 1h30m",
        "1-9/2 * * * *",
    ],
)
def test_schedules_that_fire(schedule: str) -> None:
    assert wrong_schedule(schedule) == ""


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("", "expected exactly 5 fields, found 0: []"),
        ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@never", "unrecognized descriptor: @never"),
    ],
)
def test_schedules_that_do_not(schedule: str, words: str) -> None:
    assert wrong_schedule(schedule) == words


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-1, 3), st.sampled_from(["", "a", "-", "1"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), values, values), max_size=5))
def test_immutability_is_symmetric_and_forgives_emptiness(fields: list[Any]) -> None:
    for name, left, right in fields:
        one, other = Problems(), Problems()
        one.immutable(name, left, right)
        other.immutable(name, right, left)
        assert bool(one) == bool(other)
        same = Problems()
        same.immutable(name, left, left)
        assert not same
