"""What a kernel serves: its resources, and what is known of each kind beyond the built-in tables.

Built-in kinds have schemas, defaults and validation in `fleet.kube`. A custom kind brings its
schema, its printer columns and whether it has a status subresource; it comes from a typed model
(`policies`) or from a CRD object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fleet.kube import builtin
from fleet.kube.resources import GroupVersionResource
from fleet.kube.schema import schema_for
from fleet.kube.schema.documents import structural_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from fleet.apiserver.scales import ScalePaths
    from fleet.kube.resources import Resource
    from fleet.kube.schema import Schema


@dataclass(frozen=True, slots=True)
class CustomKind:
    """A kind that Kubernetes does not have of its own.

    `rules` say what a schema cannot, `relations` what one object cannot. `ending` kinds are being
    removed: their objects may go, and none may come.
    """

    resource: Resource
    openapi: Mapping[str, Any]
    columns: Sequence[Mapping[str, Any]] = ()
    status: bool = True
    rules: Rules | None = None
    scale: ScalePaths | None = None
    ending: bool = False
    relations: Relations | None = None

    @property
    def schema(self) -> Schema:
        return structural_schema(self.openapi)


class Rules(Protocol):
    """Defaults and validation of a custom kind."""

    def default(self, obj: dict[str, Any]) -> None:
        """Fill in what was left out, in place."""

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
        """Raises Invalid naming each wrong field; `old` is None for a create."""

    def validate_status(self, obj: dict[str, Any]) -> None:
        """Raises Invalid naming each wrong field of the status that was written."""


Others = Callable[[GroupVersionResource], Iterable[dict[str, Any]]]
"""Lists the objects there are of a resource, as they are when a write is made."""


class Relations(Protocol):
    """What objects of a custom kind must be in accord with: others, of any kind, and the time."""

    def validate(
        self,
        obj: dict[str, Any],
        old: dict[str, Any] | None,
        others: Others,
        *,
        now: datetime,
    ) -> None:
        """Raises Invalid naming each wrong field; `obj` is sound by itself, and `old` is None for a
        create. Called again when the write's turn has come, so that two writes at once cannot
        contradict each other."""

    def release(self, obj: dict[str, Any], others: Others) -> None:
        """Raises an ApiError while the object may not be deleted."""


class Kinds:
    """The custom kinds of a kernel, by resource: those it is made with, and those defined later."""

    def __init__(self, custom: Sequence[CustomKind] = ()) -> None:
        self._fixed = tuple(custom)
        self._custom: dict[GroupVersionResource, CustomKind] = {}
        self._schemas: dict[GroupVersionResource, Schema] = {}
        self.define(())

    def define(self, defined: Sequence[CustomKind]) -> None:
        """These kinds are defined besides, and no others."""
        self.defined = tuple(defined)
        kinds = (*defined, *self._fixed)
        self._custom = {kind.resource.gvr: kind for kind in kinds}
        self._schemas = {kind.resource.gvr: kind.schema for kind in kinds}

    def custom(self, gvr: GroupVersionResource) -> CustomKind | None:
        return self._custom.get(gvr)

    def row(self, gvr: GroupVersionResource) -> Resource | None:
        """The row of a resource, custom or built in."""
        kind = self._custom.get(gvr)
        return builtin.resource(gvr) if kind is None else kind.resource

    def schema(self, resource: Resource) -> Schema | None:
        """The schema of a resource's objects; None when nothing is known of them."""
        found = self._schemas.get(resource.gvr)
        if found is not None:
            return found
        return schema_for(resource.gvr.group, resource.gvr.version, resource.kind)

    def columns(self, gvr: GroupVersionResource) -> Sequence[Mapping[str, Any]] | None:
        """Printer columns of a custom kind; None for a built-in one."""
        kind = self._custom.get(gvr)
        return None if kind is None else kind.columns
