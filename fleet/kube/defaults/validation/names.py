"""Formats of names, labels, ports and keys; each answers what is wrong, in upstream's words.

From apimachinery's `util/validation` and `api/validate/content`. An empty answer means valid.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    NameRule = Callable[[str], list[str]]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_PERCENT: Final = "[0-9]+%"
_HEADER: Final = "[-A-Za-z0-9]+"
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_PORT_NAME: Final = "[-a-z0-9]+"

_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)
_QUALIFIED_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_LABEL_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)
_CONFIG_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
)


def _matches(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value, re.ASCII) is not None


def _pattern_error(text: str, pattern: str, *examples: str) -> str:
    if not examples:
        return f"{text} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(limit: int, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


def _size(value: str) -> int:
    return len(value.encode())


def dns_label(value: str) -> list[str]:
    """RFC 1123 label: most names that become part of a host name."""
    problems = [_too_long(63)] if _size(value) > 63 else []
    if not _matches(_LABEL, value):
        if _matches(_SUBDOMAIN, value):
            problems.append("must not contain dots")
        else:
            problems.append(_pattern_error(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))
    return problems


def dns_subdomain(value: str) -> list[str]:
    """RFC 1123 subdomain: most object names."""
    problems = [_too_long(253)] if _size(value) > 253 else []
    if not _matches(_SUBDOMAIN, value):
        problems.append(_pattern_error(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return problems


def path_segment(value: str) -> list[str]:
    """A name that may stand in a URL: the one rule for all names."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{bad}'" for bad in ("/", "%") if bad in value]


def qualified_name(value: str) -> list[str]:
    """Label keys, finalizers, resource names: an optional DNS prefix and a name."""
    examples = ("MyName", "my.name", "123-abc")
    parts = value.split("/")
    if len(parts) > 2:
        return [
            "a valid label key "
            + _pattern_error(_QUALIFIED_TEXT, _QUALIFIED, *examples)
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    problems: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {text}" for text in dns_subdomain(parts[0])]
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif _size(name) > 63:
        problems.append(f"name part {_too_long(63, 'bytes')}")
    if not _matches(_QUALIFIED, name):
        problems.append("name part " + _pattern_error(_QUALIFIED_TEXT, _QUALIFIED, *examples))
    return problems


def label_value(value: str) -> list[str]:
    problems = [_too_long(63, "bytes")] if _size(value) > 63 else []
    pattern = f"({_QUALIFIED})?"
    if not _matches(pattern, value):
        examples = ("MyValue", "my_value", "12345")
        problems.append(_pattern_error(_LABEL_VALUE_TEXT, pattern, *examples))
    return problems


def config_key(value: str) -> list[str]:
    """Keys of ConfigMaps and Secrets."""
    problems = [_too_long(253)] if _size(value) > 253 else []
    if not _matches(_CONFIG_KEY, value):
        examples = ("key.name", "KEY_NAME", "key-name")
        problems.append(_pattern_error(_CONFIG_KEY_TEXT, _CONFIG_KEY, *examples))
    if value in (".", ".."):
        problems.append(f"must not be '{value}'")
    elif value.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def variable_name(value: str) -> list[str]:
    """Environment variables: printable ASCII without the equals sign."""
    if not value:
        return ["environment variable name must be non-empty"]
    if all(" " <= character <= "~" and character != "=" for character in value):
        return []
    return [
        "a valid environment variable name must consist only of printable ASCII characters other "
        "than '='"
    ]


def port_number(value: int) -> list[str]:
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


def port_name(value: str) -> list[str]:
    """IANA service name in lower case."""
    problems = [_too_long(15)] if _size(value) > 15 else []
    if not _matches(_PORT_NAME, value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def percent(value: str) -> list[str]:
    if _matches(_PERCENT, value):
        return []
    text = "a valid percent string must be a numeric string followed by an ending '%'"
    return [_pattern_error(text, _PERCENT, "1%", "93%")]


def header_name(value: str) -> list[str]:
    if _matches(_HEADER, value):
        return []
    text = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [_pattern_error(text, _HEADER, "X-Header-Name")]


def http_path(value: str) -> list[str]:
    return [] if _matches(_HTTP_PATH, value) else [_pattern_error("Invalid path", _HTTP_PATH)]


def wildcard_subdomain(value: str) -> list[str]:
    pattern = rf"\*\.{_SUBDOMAIN}"
    problems = [_too_long(253)] if _size(value) > 253 else []
    if not _matches(pattern, value):
        text = (
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS "
            "subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and "
            "end with an alphanumeric character"
        )
        problems.append(_pattern_error(text, pattern, "*.example.com"))
    return problems


def user_or_group(value: int) -> list[str]:
    """Unix user and group ids."""
    return [] if 0 <= value < 2**31 else [f"must be between 0 and {2**31 - 1}, inclusive"]


def as_prefix(value: str) -> str:
    """A `generateName` as its rule sees it: a trailing dash will be followed by something."""
    return value[:-2] + "a" if len(value) > 1 and value.endswith("-") else value
