"""Names: what Kubernetes accepts as a label's key and value, a DNS label, a DNS subdomain.

Each function returns what is wrong, in the words of apimachinery `validation`; an empty list
means that the name is fine.
"""

from __future__ import annotations

import re

_NAME_FORM = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME = re.compile(_NAME_FORM)
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_FORM = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FORM = rf"{_LABEL_FORM}(\.{_LABEL_FORM})*"
_SUBDOMAIN = re.compile(_SUBDOMAIN_FORM)


def _breaks(rule: str, form: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples).removesuffix(", ")
    return f"{rule} (e.g. {shown}, regex used for validation is '{form}')"


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def dns_subdomain_problems(name: str) -> list[str]:
    """Why `name` is no DNS subdomain (RFC 1123): most kinds' names."""
    problems = [_too_long(253)] if len(name.encode()) > 253 else []
    if not _SUBDOMAIN.fullmatch(name):
        rule = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character"
        )
        problems.append(_breaks(rule, _SUBDOMAIN_FORM, "example.com"))
    return problems


def label_key_problems(key: str) -> list[str]:
    """Why `key` is no label or annotation key: `[SUBDOMAIN/]NAME`."""
    prefix, slash, name = key.rpartition("/")
    malformed = _breaks(_NAME_RULE, _NAME_FORM, "MyName", "my.name", "123-abc")
    if "/" in prefix:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {malformed} {optional}"]
    problems: list[str] = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {problem}" for problem in dns_subdomain_problems(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        problems.append(f"name part {_too_long(63)}")
    if not _NAME.fullmatch(name):
        problems.append(f"name part {malformed}")
    return problems


def label_value_problems(value: str) -> list[str]:
    """Why `value` is no label value; "" is one."""
    problems = [_too_long(63)] if len(value.encode()) > 63 else []
    if value and not _NAME.fullmatch(value):
        rule = f"a valid label must be an empty string or {_NAME_RULE.removeprefix('must ')}"
        problems.append(_breaks(rule, f"({_NAME_FORM})?", "MyValue", "my_value", "12345"))
    return problems
