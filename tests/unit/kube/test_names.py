from __future__ import annotations

import pytest

from fleet.kube.names import (
    dns_subdomain_problems,
    label_key_problems,
    label_value_problems,
)


@pytest.mark.parametrize(
    ("key", "fine"),
    [
        ("a", True),
        ("A.b_c-1", True),
        ("example.com/a", True),
        ("/a", False),
        ("a/", False),
        ("", False),
        ("a/b/c", False),
        ("Example.com/a", False),
        (f"{'a' * 253}/b", True),
        (f"{'a' * 254}/b", False),
        ("x" * 63, True),
        ("x" * 64, False),
        ("a\n", False),
        ("é", False),
    ],
)
def test_label_keys(key: str, fine: bool) -> None:
    assert (label_key_problems(key) == []) is fine


def test_label_values() -> None:
    assert label_value_problems("") == []
    assert label_value_problems("payments.east") == []
    assert label_value_problems("x" * 63) == []
    assert label_value_problems("x" * 64) == ["must be no more than 63 bytes"]
    assert label_value_problems("web@east") != []
    assert label_value_problems("a\n") != []


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("payments", True),
        ("payments.east", True),
        ("-a", False),
        ("a-", False),
        ("A", False),
        ("", False),
        ("a..b", False),
        ("a" * 63, True),
        ("a" * 64, True),
        ("a" * 254, False),
        ("a\n", False),
    ],
)
def test_dns_names(name: str, right: bool) -> None:
    assert (dns_subdomain_problems(name) == []) is right


def test_dns_problems_in_upstreams_words() -> None:
    assert label_key_problems("x/y/z") == [
        "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must "
        "start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
        "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') "
        "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
    ]
    assert label_key_problems("-/a") == [
        "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
        "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
        "'example.com', regex used for validation is "
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    ]
