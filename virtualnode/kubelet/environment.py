"""The variables and the command of a container. Pure.

As a kubelet does it: `envFrom` first, then `env` in order, each seeing those before it; `$(NAME)`
is replaced where NAME is known and left alone where it is not, `$$` is a dollar sign.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from virtualnode.kubelet.references import (
    CONFIG_MAP,
    SECRET,
    Lacking,
    Ref,
    content,
    field_value,
    resource_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from virtualnode.kubelet.references import Lookup, Subject

Object = dict[str, Any]
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


def variables(subject: Subject, container: Object, lookup: Lookup) -> dict[str, str]:
    """The environment of a container. Raises Lacking, Refused."""
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        for kind, field in ((CONFIG_MAP, "configMapRef"), (SECRET, "secretRef")):
            chosen = source.get(field)
            if chosen is None:
                continue
            prefix = source.get("prefix") or ""
            values = _all(Ref(kind, chosen.get("name", "")), chosen, lookup)
            found.update({prefix + key: value for key, value in values.items()})
    for variable in container.get("env") or ():
        value = _value(subject, container, variable, found, lookup)
        if value is not None:
            found[variable["name"]] = value
    return found


def command(container: Object, env: Mapping[str, str]) -> list[str]:
    """The words to execute."""
    words: Iterable[str] = (*(container.get("command") or ()), *(container.get("args") or ()))
    return [expand(word, env) for word in words]


def expand(text: str, env: Mapping[str, str]) -> str:
    """`text` with its references to variables replaced (third_party/forked/golang/expansion)."""

    def one(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return env.get(name, match[0])

    return _REFERENCE.sub(one, text)


def _all(ref: Ref, chosen: Object, lookup: Lookup) -> dict[str, str]:
    obj = lookup(ref)
    if obj is None:
        if chosen.get("optional"):
            return {}
        raise Lacking(f'{ref.kind} "{ref.name}" not found')
    return {key: value.decode(errors="replace") for key, value in content(ref, obj).items()}


def _value(
    subject: Subject,
    container: Object,
    variable: Object,
    before: Mapping[str, str],
    lookup: Lookup,
) -> str | None:
    source = variable.get("valueFrom")
    if not source:
        return expand(variable.get("value") or "", before)
    if (reference := source.get("fieldRef")) is not None:
        return field_value(subject, reference.get("fieldPath", ""))
    if (reference := source.get("resourceFieldRef")) is not None:
        return resource_value(subject, container, reference)
    for kind, field in ((CONFIG_MAP, "configMapKeyRef"), (SECRET, "secretKeyRef")):
        if (chosen := source.get(field)) is None:
            continue
        ref = Ref(kind, chosen.get("name", ""))
        obj = lookup(ref)
        key = chosen.get("key", "")
        value = content(ref, obj).get(key) if obj is not None else None
        if value is not None:
            return value.decode(errors="replace")
        if chosen.get("optional"):
            return None
        if obj is None:
            raise Lacking(f'{kind} "{ref.name}" not found')
        namespace = subject.pod["metadata"]["namespace"]
        shown = "ConfigMap" if kind == CONFIG_MAP else "Secret"
        raise Lacking(f"couldn't find key {key} in {shown} {namespace}/{ref.name}")
    raise Lacking(f"variable {variable['name']} has a source that is not known here")
