"""Which form of an answer a request asks for, and the rendering that makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from fleet.apiserver.rendering import ObjectRendering, PartialRendering, TableRendering
from fleet.kube import negotiation
from fleet.kube.tables import printer_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fleet.apiserver.rendering import Rendering
    from fleet.kube.negotiation import Representation
    from fleet.kube.resources import GroupVersionResource, Resource
    from fleet.kube.tables import Printer
    from fleet.kube.wire import Request
    from fleet.store.entry import Entry


class Representations:
    """The representations that one server gives of its objects."""

    def __init__(
        self,
        *,
        now: Callable[[], float],
        columns_of: Callable[[GroupVersionResource], Sequence[Mapping[str, Any]] | None],
        cluster_of: Callable[[Entry], str] | None = None,
        plain_groups: frozenset[str] = frozenset(),
    ) -> None:
        """`now` is wall-clock time; `columns_of` gives a custom resource's printer columns, None
        for a built-in one. With `cluster_of` Tables have a CLUSTER column filled by it, but not
        those of `plain_groups`."""
        self._now = now
        self._columns_of = columns_of
        self._cluster_of = cluster_of
        self._plain_groups = plain_groups
        # one printer for as long as the columns stay the same: rows are kept by it
        self._printers: dict[tuple[str, str], tuple[bytes, Printer]] = {}

    @staticmethod
    def asked(
        request: Request, *, listing: bool | None = None, watch: bool = False
    ) -> Representation:
        """Raises NotAcceptable, BadRequest."""
        return negotiation.representation(
            request.headers.get("accept"),
            listing=listing,
            watch=watch,
            include=request.param("includeObject"),
            pretty=request.param("pretty") in ("1", "true"),
        )

    def rendering(self, shown: Representation, resource: Resource) -> Rendering:
        if shown.form == "object":
            return ObjectRendering(resource)
        if shown.form in ("partial", "partiallist"):
            return PartialRendering(shown.version)
        return TableRendering(
            self._printer(resource.gvr),
            now=self._now,
            include=shown.include,
            version=shown.version,
            cluster_of=self._cluster_of or _nowhere,
        )

    def _printer(self, gvr: GroupVersionResource) -> Printer:
        columns: Any = self._columns_of(gvr)
        told = b"" if columns is None else orjson.dumps(list(columns))
        key = (gvr.group_resource, gvr.version)
        known = self._printers.get(key)
        if known is not None and known[0] == told:
            return known[1]
        printer = printer_for(group=gvr.group, resource=gvr.resource, crd_columns=columns)
        if self._cluster_of is not None and gvr.group not in self._plain_groups:
            printer = printer.with_cluster()
        self._printers[key] = (told, printer)
        return printer


def _nowhere(_: Entry) -> str:
    return ""
