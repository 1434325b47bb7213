"""Fields that are recorded and not acted on: which of them an object sets.

A model marks such a field with `LATER`. Whoever writes one is told at once, for nothing else would
show it. Next step: `fleet.gateway.policy_warnings` puts it beside the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.base import LATER, Model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def recorded_only(spec: Model, written: Mapping[str, Any], *, where: str = "spec") -> Iterator[str]:
    """A sentence for each marked field that does not have its default in `written`, which `spec`
    was read from."""
    for name, field in type(spec).model_fields.items():
        alias = field.alias or name
        value, raw = getattr(spec, name), written.get(alias)
        if raw is None:
            continue
        path = f"{where}.{alias}"
        if (field.description or "").endswith(LATER):
            if raw != field.default:
                yield f"{path}: it is recorded, and not acted on yet"
        elif isinstance(value, Model):
            yield from recorded_only(value, raw, where=path)
        elif isinstance(value, tuple):
            for index, (each, part) in enumerate(zip(value, raw, strict=True)):
                if isinstance(each, Model):
                    yield from recorded_only(each, part, where=f"{path}[{index}]")
