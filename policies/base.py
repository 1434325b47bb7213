"""What every policy model is made of: one base class, one way to declare a field.

A model is the single source of its kind: the CRD schema, defaults, validation, `kubectl explain`
text, editor schema and reference page are read off it. So every field has a one-sentence
description, and either a default or the mark that it must be given. Names are written as
Kubernetes writes them (camelCase); a field nobody declared is an error.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict
from pydantic.alias_generators import to_camel

REQUIRED: Any = ...
LATER = "Recorded, not acted on yet."
"""Ends the description of a field that says something nobody does yet."""

T = TypeVar("T")
Items = Annotated[tuple[T, ...], Strict(False)]
"""A list; models are values, so it is read as a tuple."""


class Model(BaseModel):
    """A part of a policy object. Built by validation only, from what a user wrote."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        strict=True,
        validate_default=True,
        use_attribute_docstrings=False,
    )


def setting(default: Any, description: str, **more: Any) -> Any:
    """A field: what it is when left out (`REQUIRED`: an error), and one sentence about it.

    A part with fields of its own has the default `{}`: all of its defaults. None means absent.
    `more` are pydantic's constraints and `json_schema_extra`.
    """
    return Field(default, description=description, **more)


def by_key(*keys: str) -> dict[str, Any]:
    """The mark of a list whose elements are known by `keys`, for patches and uniqueness."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
