from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import pytest

from fleet.errors import BadRequest, Invalid
from fleet.kube import builtin
from fleet.kube.options import (
    CreateOptions,
    DeleteOptions,
    ListOptions,
    PatchOptions,
    UpdateOptions,
    WatchOptions,
    pretty,
    request_timeout_s,
)
from fleet.kube.resources import GroupVersionResource, Resource
from fleet.kube.wire import Request


def request(query: str = "", **headers: str) -> Request:
    pairs = tuple(parse_qsl(query, keep_blank_values=True))
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return Request("POST", "/x", pairs, named)


def pods() -> Resource:
    found = builtin.resource(GroupVersionResource("", "v1", "pods"))
    assert found is not None
    return found


def problems(error: Invalid) -> list[tuple[str, str]]:
    assert error.details is not None
    return [(cause.field, cause.message) for cause in error.details.causes]


def test_write_options_default_to_a_real_write_that_warns() -> None:
    options = CreateOptions.parse(request(user_agent="kubectl/v1.36.3 (linux/amd64) kubernetes"))
    assert options == CreateOptions(dry_run=False, field_manager="kubectl", field_validation="Warn")


@pytest.mark.parametrize(
    ("agent", "manager"),
    [
        ("kubectl/v1", "kubectl"),
        ("", "unknown"),
        ("/v1", "unknown"),
        ("a\tb/1", "ab"),
        ("x" * 200, "x" * 128),
        ("é" * 100, "é" * 64),
    ],
)
def test_a_manager_that_does_not_name_itself_is_named_by_its_agent(
    agent: str, manager: str
) -> None:
    assert UpdateOptions.parse(request(user_agent=agent)).field_manager == manager


def test_write_options_as_given() -> None:
    options = UpdateOptions.parse(
        request("dryRun=All&dryRun=All&fieldManager=me&fieldValidation=Strict&unknown=1")
    )
    assert options == UpdateOptions(dry_run=True, field_manager="me", field_validation="Strict")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("dryRun=all", [("dryRun", 'Unsupported value: ["all"]: supported values: "All"')]),
        ("dryRun=", [("dryRun", 'Unsupported value: [""]: supported values: "All"')]),
        (
            "dryRun=All&dryRun=x",
            [("dryRun", 'Unsupported value: ["All","x"]: supported values: "All"')],
        ),
        (
            "fieldValidation=strict",
            [
                (
                    "fieldValidation",
                    'Unsupported value: "strict": supported values: "", "Ignore", "Strict", "Warn"',
                )
            ],
        ),
        (
            f"fieldManager={'x' * 129}",
            [("fieldManager", "Too long: may not be more than 128 bytes")],
        ),
        (
            "fieldManager=a%09b",
            [
                (
                    "fieldManager",
                    r'Invalid value: "a\tb": invalid character U+0009 (at position 1)',
                )
            ],
        ),
        (
            "fieldManager=%C3%A9%00",
            [
                (
                    "fieldManager",
                    r'Invalid value: "é\x00": invalid character U+0000 (at position 2)',
                )
            ],
        ),
    ],
)
@pytest.mark.parametrize("options", [CreateOptions, UpdateOptions])
def test_write_options_that_are_refused(
    options: type[CreateOptions] | type[UpdateOptions],
    query: str,
    expected: list[tuple[str, str]],
) -> None:
    with pytest.raises(Invalid) as caught:
        options.parse(request(query))
    assert problems(caught.value) == expected
    assert caught.value.message.startswith(f'{options.__name__}.meta.k8s.io "" is invalid: ')


def test_128_bytes_of_manager_are_fine() -> None:
    assert CreateOptions.parse(request(f"fieldManager={'é' * 64}")).field_manager == "é" * 64


def test_an_apply_needs_a_manager_and_may_force() -> None:
    options = PatchOptions.parse(request("fieldManager=me&force=true"), apply=True)
    assert options.force
    assert not PatchOptions.parse(request("fieldManager=me&force=false"), apply=True).force
    with pytest.raises(Invalid) as caught:
        PatchOptions.parse(request("force=true&dryRun=x"), apply=True)
    assert problems(caught.value) == [
        ("fieldManager", "Required value: is required for apply patch"),
        ("dryRun", 'Unsupported value: ["x"]: supported values: "All"'),
    ]


@pytest.mark.parametrize("value", ["true", "false", ""])
def test_only_an_apply_may_say_force(value: str) -> None:
    with pytest.raises(Invalid) as caught:
        PatchOptions.parse(request(f"fieldManager=me&force={value}"), apply=False)
    assert problems(caught.value) == [
        ("force", "Forbidden: may not be specified for non-apply patch")
    ]
    assert not PatchOptions.parse(request("fieldManager=me"), apply=False).force


@pytest.mark.parametrize(
    ("query", "body", "expected"),
    [
        ("", None, DeleteOptions()),
        ("gracePeriodSeconds=0", None, DeleteOptions(grace_period_s=0)),
        ("gracePeriodSeconds=-1", None, DeleteOptions(grace_period_s=1)),
        ("dryRun=All", None, DeleteOptions(dry_run=True)),
        ("propagationPolicy=Orphan", None, DeleteOptions(propagation="Orphan")),
        (
            "orphanDependents=true",
            None,
            DeleteOptions(propagation="Orphan", orphan_dependents=True),
        ),
        (
            "",
            {"orphanDependents": False},
            DeleteOptions(propagation="Background", orphan_dependents=False),
        ),
        (
            "gracePeriodSeconds=5&propagationPolicy=Orphan",
            {"gracePeriodSeconds": 0, "propagationPolicy": "Foreground"},
            DeleteOptions(grace_period_s=0, propagation="Foreground"),
        ),
        (
            "gracePeriodSeconds=5&dryRun=All&propagationPolicy=Orphan",
            {},
            DeleteOptions(grace_period_s=5, dry_run=True, propagation="Orphan"),
        ),
        # A policy in the body replaces whichever form the query uses.
        (
            "orphanDependents=true",
            {"propagationPolicy": "Foreground"},
            DeleteOptions(propagation="Foreground"),
        ),
        (
            "",
            {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "preconditions": {"uid": "u", "resourceVersion": "7"},
                "dryRun": ["All"],
                "gracePeriodSeconds": None,
            },
            DeleteOptions(dry_run=True, uid="u", resource_version="7"),
        ),
    ],
)
def test_delete_options_from_query_and_body(
    query: str, body: dict[str, Any] | None, expected: DeleteOptions
) -> None:
    assert DeleteOptions.parse(request(query), body) == expected


@pytest.mark.parametrize(
    ("query", "body", "expected"),
    [
        (
            "propagationPolicy=x",
            None,
            [
                (
                    "propagationPolicy",
                    'Unsupported value: "x": supported values: "Foreground", "Background", '
                    '"Orphan", "nil"',
                )
            ],
        ),
        (
            "",
            {"orphanDependents": True, "propagationPolicy": "Orphan"},
            [
                (
                    "propagationPolicy",
                    'Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be '
                    "both set",
                )
            ],
        ),
        (
            "",
            {"dryRun": ["all"]},
            [("dryRun", 'Unsupported value: ["all"]: supported values: "All"')],
        ),
    ],
)
def test_delete_options_that_are_refused(
    query: str, body: dict[str, Any] | None, expected: list[tuple[str, str]]
) -> None:
    with pytest.raises(Invalid) as caught:
        DeleteOptions.parse(request(query), body)
    assert problems(caught.value) == expected


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("gracePeriodSeconds=x", None),
        ("gracePeriodSeconds=" + "9" * 5000, None),
        ("", {"kind": "Pod"}),
        ("", {"gracePeriodSeconds": "5"}),
        ("", {"gracePeriodSeconds": True}),
        ("", {"dryRun": "All"}),
        ("", {"preconditions": []}),
        ("", {"preconditions": {"uid": 5}}),
        ("", {"orphanDependents": "yes"}),
    ],
)
def test_delete_options_of_the_wrong_type(query: str, body: dict[str, Any] | None) -> None:
    with pytest.raises(BadRequest):
        DeleteOptions.parse(request(query), body)


def test_selectors_are_checked_against_the_resource() -> None:
    query = "fieldSelector=spec.host%3Dn1&labelSelector=a%3Db"
    for options in (ListOptions, WatchOptions):
        parsed = options.parse(request(query), resource=pods())
        assert str(parsed.field) == "spec.nodeName=n1"
        assert str(parsed.label) == "a=b"
        with pytest.raises(BadRequest) as caught:
            options.parse(request("fieldSelector=spec.x%3D1"), resource=pods())
        assert caught.value.message == "field label not supported: spec.x"


def test_the_name_of_a_legacy_watch_path_becomes_a_selector() -> None:
    assert str(WatchOptions.parse(request(), name="web").field) == "metadata.name=web"
    same = WatchOptions.parse(request("fieldSelector=metadata.name%3Dweb"), name="web")
    assert str(same.field) == "metadata.name=web"
    with pytest.raises(BadRequest, match="doesn't match requested name"):
        WatchOptions.parse(request("fieldSelector=metadata.name%3Dother"), name="web")


@pytest.mark.parametrize(
    ("query", "agent", "expected"),
    [
        ("", "", False),
        ("", "kubectl/v1", False),
        ("", "curl/8", True),
        ("", "Mozilla/5.0 (X11)", True),
        ("pretty=true", "", True),
        ("pretty=1", "", True),
        ("pretty=0", "curl/8", False),
        ("pretty=yes", "", False),
        ("pretty=", "curl/8", True),
    ],
)
def test_pretty(query: str, agent: str, expected: bool) -> None:
    assert pretty(request(query, user_agent=agent)) is expected


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("", 60.0),
        ("timeout=", 60.0),
        ("timeout=32s", 32.0),
        ("timeout=7m58s", 60.0),
        ("timeout=0s", 60.0),
        ("timeout=-1s", 60.0),
    ],
)
def test_request_timeouts_are_capped(query: str, seconds: float) -> None:
    assert request_timeout_s(request(query)) == seconds


def test_a_timeout_that_is_no_duration() -> None:
    with pytest.raises(BadRequest, match="invalid timeout specified in the request URL"):
        request_timeout_s(request("timeout=5"))
