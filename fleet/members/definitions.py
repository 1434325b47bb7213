"""What a member's CustomResourceDefinitions say beyond discovery: printer columns and
selectable fields; and a notice when they change what is served.

A `Tap` sits between the reflector of the CRDs and its sink, so nothing is watched twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet.kube.resources import GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fleet.members.sink import Sink

CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")


@dataclass(frozen=True, slots=True)
class Definition:
    """One served version of a custom resource."""

    columns: tuple[Mapping[str, Any], ...]
    """`additionalPrinterColumns` as they stand in the CRD."""
    selectable_fields: tuple[str, ...]
    """Dotted paths without the leading dot."""


class Definitions:
    """The custom resources of one member, by their coordinates."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[object, dict[GroupVersionResource, Definition]]] = {}
        self._by_gvr: dict[GroupVersionResource, Definition] = {}
        self.changed: Callable[[], None] = _nothing
        """Called after a change that discovery or tables will show."""

    def get(self, gvr: GroupVersionResource) -> Definition | None:
        """What the CRD says of a resource; None for one that no CRD of the member defines."""
        return self._by_gvr.get(gvr)

    def put(self, crd: Mapping[str, Any]) -> None:
        """A CRD is there as given."""
        name = crd["metadata"]["name"]
        mark, found = _read(crd)
        before = self._of.get(name)
        if before is not None and before[0] == mark:
            return
        self._of[name] = (mark, found)
        self._renew()

    def drop(self, name: str) -> None:
        """A CRD is gone."""
        if self._of.pop(name, None) is not None:
            self._renew()

    def keep(self, names: set[str]) -> None:
        """Only these CRDs are there."""
        gone = self._of.keys() - names
        for name in gone:
            del self._of[name]
        if gone:
            self._renew()

    def _renew(self) -> None:
        self._by_gvr = {
            gvr: definition for _, found in self._of.values() for gvr, definition in found.items()
        }
        self.changed()


class Tap:
    """A `Sink` that reads along for `definitions`."""

    def __init__(self, sink: Sink, definitions: Definitions) -> None:
        self._sink = sink
        self._definitions = definitions

    def replace(self, objects: Iterable[dict[str, Any]], revision: int) -> Iterator[None]:
        names: set[str] = set()

        def read_along() -> Iterator[dict[str, Any]]:
            for crd in objects:
                names.add(crd["metadata"]["name"])
                self._definitions.put(crd)
                yield crd

        yield from self._sink.replace(read_along(), revision) or ()
        self._definitions.keep(names)

    def upsert(self, obj: dict[str, Any]) -> None:
        self._definitions.put(obj)
        self._sink.upsert(obj)

    def remove(self, obj: dict[str, Any]) -> None:
        self._definitions.drop(obj["metadata"]["name"])
        self._sink.remove(obj)

    def progress(self, revision: int) -> None:
        self._sink.progress(revision)


def _read(crd: Mapping[str, Any]) -> tuple[object, dict[GroupVersionResource, Definition]]:
    """What is served, and a mark that differs whenever discovery or tables may."""
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    group, plural = spec.get("group") or "", names.get("plural") or ""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    established = any(
        c.get("type") == "Established" and c.get("status") == "True" for c in conditions
    )
    found: dict[GroupVersionResource, Definition] = {}
    served: list[object] = []
    for version in spec.get("versions") or ():
        if not version.get("served"):
            continue
        definition = Definition(
            columns=tuple(version.get("additionalPrinterColumns") or ()),
            selectable_fields=tuple(
                str(field.get("jsonPath", "")).removeprefix(".")
                for field in version.get("selectableFields") or ()
            ),
        )
        found[GroupVersionResource(group, version["name"], plural)] = definition
        served.append((version["name"], definition, version.get("subresources")))
    return (established, spec.get("scope"), names, served), found


def _nothing() -> None:
    """Nobody listens."""
