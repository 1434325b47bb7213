"""The reference of all kinds as Markdown, and the schemas for editors, made from the models.

`scripts/generate-reference` writes them to docs/reference; a test compares what stands there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from policies.registry import kinds
from policies.scalars import (
    AMOUNT_PATTERN,
    DURATION_PATTERN,
    MONEY_PATTERN,
    RATE_PATTERN,
    SHARE_PATTERN,
)
from policies.schema import GROUP_VERSION, for_editors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kind import Kind

Object = dict[str, Any]

_WORDS: Final = {
    DURATION_PATTERN: "duration",
    RATE_PATTERN: "price",
    MONEY_PATTERN: "sum",
    AMOUNT_PATTERN: "amount",
    SHARE_PATTERN: "share",
}
_INTRODUCTION: Final = f"""\
# Policy kinds

The kinds of `{GROUP_VERSION}`, field by field. This page is made from the models in `policies/` by
`scripts/generate-reference`; `kubectl explain` shows the same.

A field that is left out has the default given here. A field that is not listed is an error.
Durations are written `30s`, `10m`, `1h30m`; prices `"120 USD/h"`; sums of money `"2000 USD"`, and
amounts whose currency stands elsewhere `"98.32"`; shares `80%`; quantities and selectors as
everywhere in Kubernetes.

Editors check files against [the schemas](schemas): begin a file with
`# yaml-language-server: $schema=PATH/placementpolicy.json`.
"""


def files() -> dict[str, str]:
    """Path below docs/reference to content."""
    found = {"policies.md": page()}
    for kind in kinds():
        schema = for_editors(kind.model, kind.name)
        text = json.dumps(schema, indent=2, ensure_ascii=False)
        found[f"schemas/{kind.name.lower()}.json"] = f"{text}\n"
    return found


def page() -> str:
    """The reference page."""
    contents = "\n".join(f"- [{kind.name}](#{kind.name.lower()})" for kind in kinds())
    return "\n".join([_INTRODUCTION, contents, *map(_kind, kinds())])


def _kind(kind: Kind[Any]) -> str:
    scope = "namespaced" if kind.namespaced else "cluster-scoped"
    names = ", ".join(f"`{name}`" for name in (kind.plural, *kind.short_names))
    author = "" if kind.written_by_users else " Written by the fleet; users read it."
    lines = [f"\n## {kind.name}\n", f"{kind.schema['description']}{author}\n"]
    lines.append(f"Resource {names}, {scope}.\n")
    for part in ("spec", "status"):
        if part in kind.schema["properties"]:
            lines += _table(kind.schema["properties"][part], part)
    return "\n".join(lines)


def _table(schema: Object, name: str) -> Iterator[str]:
    shown = name != "status"
    yield f"### {name}\n"
    yield "| Field | Type | Default | Meaning |" if shown else "| Field | Type | Meaning |"
    yield "| --- | --- | --- | --- |" if shown else "| --- | --- | --- |"
    for path, field, required in _fields(schema, ""):
        cells = [f"`{path}`", _type(field)]
        if shown:
            cells.append("required" if required else _default(field))
        cells.append(str(field.get("description", "")))
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _fields(schema: Object, prefix: str) -> Iterator[tuple[str, Object, bool]]:
    needed: Iterable[str] = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield path, field, name in needed
        inner = field.get("items", field)
        if "properties" in inner:
            yield from _fields(inner, f"{path}[]." if "items" in field else f"{path}.")


def _type(field: Object) -> str:
    if "enum" in field:
        return ", ".join(f"`{each}`" if each else "empty" for each in field["enum"])
    if "items" in field:
        inner = field["items"]
        return "list" if "properties" in inner else f"list of {_type(inner)}"
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map to {_type(field['additionalProperties'])}"
    if field.get("pattern") in _WORDS:
        return _WORDS[field["pattern"]]
    if field.get("format") == "date-time":
        return "time"
    kind = str(field.get("type", ""))
    bounds = [
        f"{word} {field[key]}"
        for key, word in (("minimum", "from"), ("maximum", "to"))
        if key in field
    ]
    return " ".join([kind, *bounds])


def _default(field: Object) -> str:
    default = field.get("default")
    if default is None or isinstance(default, dict | list):
        return ""
    return f"`{json.dumps(default)}`" if isinstance(default, bool | int) else f"`{default}`"
