"""One policy kind: its row of discovery, its schemas, its columns, and the rules of its objects.

`Kind` has the parts of which `fleet.apiserver.kinds.CustomKind` is made; the composition root puts
them there. `rules` fills in defaults and refuses what is wrong, naming every wrong field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pydantic import ValidationError

from fleet.errors import Cause, Forbidden, Invalid
from fleet.kube.resources import GroupVersionResource, Resource, Subresource
from fleet.kube.schema.defaulting import fill_declared_defaults
from fleet.kube.schema.documents import structural_schema
from policies import faults
from policies.base import Model
from policies.schema import GROUP, open_copy, row, structural

if TYPE_CHECKING:
    from datetime import datetime

Object = dict[str, Any]
M = TypeVar("M", bound=Model)
Check = Callable[[M, M | None], Sequence[Cause]]
Others = Callable[[GroupVersionResource], Iterable[Object]]
"""Lists the objects there are of a resource."""


class Relation(Protocol):
    """Judges a sound object by what else there is, at a time; one cause per wrong field."""

    def __call__(
        self, obj: Object, old: Object | None, others: Others, /, *, now: datetime
    ) -> Sequence[Cause]: ...


_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS = ("get", "patch", "update")
_HEAD = ("apiVersion", "kind", "metadata")
_STATUS_FIELD = re.compile(r"status($|[.\[])")


def column(name: str, path: str, description: str, **more: Any) -> dict[str, Any]:
    """A printer column; text unless `type` says otherwise, wide output only with `priority=1`."""
    return {"name": name, "type": "string", "jsonPath": path, "description": description, **more}


AGE = column("Age", ".metadata.creationTimestamp", "Time since it was made.", type="date")


@dataclass(frozen=True)
class Kind(Generic[M]):
    """A kind of `fleet.dev/v1alpha1`. `check` judges what a field alone cannot show."""

    model: type[M]
    plural: str
    namespaced: bool
    columns: tuple[dict[str, Any], ...]
    short_names: tuple[str, ...] = ()
    check: Check[M] | None = None
    relation: Relation | None = None
    in_use: Callable[[Object, Others], str] | None = None
    """Why an object cannot be deleted yet; "" when it can."""
    selectable_fields: tuple[str, ...] = ()
    written_by_users: bool = True
    rules: Rules[M] = field(init=False)
    relations: Relations | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", Rules(self))
        related = self.relation is not None or self.in_use is not None
        object.__setattr__(self, "relations", Relations(self) if related else None)

    @property
    def name(self) -> str:
        return self.model.__name__

    @property
    def status(self) -> bool:
        """Whether it has a status subresource."""
        return "status" in self.model.model_fields

    @cached_property
    def schema(self) -> Object:
        """The `openAPIV3Schema` that is published: CRD, explain, editors."""
        return structural(self.model)

    @cached_property
    def openapi(self) -> Object:
        """The schema for the kernel: shape and defaults; faults are left to `rules`."""
        return open_copy(self.schema)

    @property
    def resource(self) -> Resource:
        status = Subresource("status", self.name, _STATUS_VERBS)
        return Resource(
            row(self.plural),
            self.name,
            self.namespaced,
            _VERBS,
            singular=self.name.lower(),
            short_names=self.short_names,
            categories=("fleet",),
            subresources=(status,) if self.status else (),
            selectable_fields=self.selectable_fields,
            custom=True,
        )

    def parse(self, obj: Object) -> M:
        """The typed object. Raises Invalid naming every wrong field."""
        try:
            return self._validated(obj, status=True)
        except ValidationError as error:
            raise self.refusal(obj, faults.causes(error, self.schema)) from None

    def problems(self, obj: Object, old: Object | None = None) -> tuple[Cause, ...]:
        """Every wrong field of what a user may write; `old` is what `obj` replaces."""
        try:
            new = self._validated(obj)
        except ValidationError as error:
            return faults.causes(error, self.schema)
        if self.check is None:
            return ()
        return tuple(self.check(new, None if old is None else self._readable(old)))

    def status_problems(self, obj: Object) -> tuple[Cause, ...]:
        """Every wrong field of the status."""
        try:
            self._validated(obj, status=True)
        except ValidationError as error:
            found = faults.causes(error, self.schema)
            return tuple(cause for cause in found if _STATUS_FIELD.match(cause.field))
        return ()

    def _readable(self, obj: Object) -> M | None:
        try:
            return self._validated(obj)
        except ValidationError:
            return None

    def _validated(self, obj: Object, *, status: bool = False) -> M:
        skipped = _HEAD if status else (*_HEAD, "status")
        return self.model.model_validate({k: v for k, v in obj.items() if k not in skipped})

    def refusal(self, obj: Object, causes: Sequence[Cause]) -> Invalid:
        """The error that names `causes` in `obj`."""
        name = str((obj.get("metadata") or {}).get("name", ""))
        return Invalid.of(group=GROUP, kind=self.name, name=name, causes=causes)


class Rules(Generic[M]):
    """`fleet.apiserver.kinds.Rules` of one kind."""

    def __init__(self, kind: Kind[M]) -> None:
        self._kind = kind

    def default(self, obj: Object) -> None:
        """Fill in what was left out, in place; what has the wrong form is left to `validate`."""
        fill_declared_defaults(obj, structural_schema(self._kind.openapi))

    def validate(self, obj: Object, old: Object | None) -> None:
        """Raises Invalid with one cause per wrong field."""
        causes = self._kind.problems(obj, old)
        if causes:
            raise self._kind.refusal(obj, causes)

    def validate_status(self, obj: Object) -> None:
        """Raises Invalid with one cause per wrong field of the status."""
        causes = self._kind.status_problems(obj)
        if causes:
            raise self._kind.refusal(obj, causes)


class Relations:
    """`fleet.apiserver.kinds.Relations` of one kind."""

    def __init__(self, kind: Kind[Any]) -> None:
        self._kind = kind

    def validate(self, obj: Object, old: Object | None, others: Others, *, now: datetime) -> None:
        """Raises Invalid with one cause per field that is at odds with other objects."""
        judge = self._kind.relation
        causes = judge(obj, old, others, now=now) if judge is not None else ()
        if causes:
            raise self._kind.refusal(obj, causes)

    def release(self, obj: Object, others: Others) -> None:
        """Raises Forbidden while something needs the object."""
        why = self._kind.in_use(obj, others) if self._kind.in_use is not None else ""
        if why:
            name = str(obj["metadata"]["name"])
            raise Forbidden.of(group=GROUP, resource=self._kind.plural, name=name, why=why)


def custom_resource_definition(kind: Kind[Any]) -> Object:
    """The CustomResourceDefinition that a plain API server would need for the kind."""
    resource = kind.resource
    version: Object = {
        "name": resource.gvr.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": kind.schema},
        "additionalPrinterColumns": list(kind.columns),
    }
    if kind.status:
        version["subresources"] = {"status": {}}
    if kind.selectable_fields:
        version["selectableFields"] = [{"jsonPath": f".{f}"} for f in kind.selectable_fields]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.name,
                "listKind": resource.list_kind,
                "plural": kind.plural,
                "singular": resource.singular,
                "shortNames": list(kind.short_names),
                "categories": list(resource.categories),
            },
            "versions": [version],
        },
    }
