"""Texts that several kinds show the same way: labels, selectors, containers, cut-off lists.

Each equals its namesake upstream (apimachinery `labels` and `meta/v1`, kubernetes `printers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fleet.kube.tables.reading import Object, items, string_map, strings, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NONE: Final = "<none>"
UNSET: Final = "<unset>"


def labels(pairs: Mapping[str, str]) -> str:
    """`a=1,b=2`, sorted; `<none>` when there are none."""
    return ",".join(sorted(f"{key}={value}" for key, value in pairs.items())) or NONE


def label_selector(parent: Object, key: str) -> str | None:
    """The selector at `key` as text, "" when it is empty or absent; None when it is not valid."""
    selector = parent.get(key)
    if not isinstance(selector, dict):
        return ""
    requirements = [
        (name, f"{name}={v}") for name, v in string_map(selector, "matchLabels").items()
    ]
    for expression in items(selector, "matchExpressions"):
        name, values = text(expression, "key"), strings(expression, "values")
        match text(expression, "operator"):
            case ("In" | "NotIn") as operator if values:
                shown = f"{name} {operator.lower()} ({','.join(sorted(values))})"
            case "Exists" if not values:
                shown = name
            case "DoesNotExist" if not values:
                shown = f"!{name}"
            case _:
                return None
        requirements.append((name, shown))
    requirements.sort(key=lambda requirement: requirement[0])
    return ",".join(shown for _, shown in requirements)


def selector_cell(parent: Object, key: str = "selector") -> str:
    """The selector as most kinds show it: `<none>` when empty, `<error>` when not valid."""
    shown = label_selector(parent, key)
    return "<error>" if shown is None else shown or NONE


def selector_debug(selector: Object) -> str:
    """A selector as Go's generated String method writes it, which some policies show."""
    matched = "".join(f"{k}: {v}," for k, v in sorted(string_map(selector, "matchLabels").items()))
    expressions = "".join(
        "LabelSelectorRequirement{"
        f"Key:{text(each, 'key')},Operator:{text(each, 'operator')},"
        f"Values:[{' '.join(strings(each, 'values'))}],}},"
        for each in items(selector, "matchExpressions")
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{matched}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def containers(pod_spec: Object) -> tuple[str, str]:
    """The names and the images of the containers of a pod template, comma-joined."""
    each = items(pod_spec, "containers")
    return ",".join(text(c, "name") for c in each), ",".join(text(c, "image") for c in each)


def first_three(values: Iterable[str]) -> str:
    """`a,b,c + 2 more...`; `<unset>` when there is nothing to show."""
    shown = list(values)
    joined = ",".join(shown[:3])
    return f"{joined} + {len(shown) - 3} more..." if len(shown) > 3 else joined or UNSET


def count(value: object) -> int:
    """How many entries a map or list has."""
    return len(value) if isinstance(value, (dict, list)) else 0
