"""Resources and kinds: what a group-version serves, and how it is named.

A `Resource` is one row of discovery. `fleet.kube.builtin` lists those that Kubernetes itself
serves; members and CRDs add theirs at run time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class GroupVersionResource(NamedTuple):
    """The coordinates of a resource in URLs: (`apps`, `v1`, `deployments`); core's group is ""."""

    group: str
    version: str
    resource: str

    @property
    def group_version(self) -> str:
        """`apps/v1`, or `v1` for the core group: the `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """`deployments.apps`, or `pods`: how upstream messages name it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True, slots=True)
class Subresource:
    """`pods/log`, `deployments/scale`: its own kind and verbs."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource as discovery describes it.

    `selectable_fields` are the field selectors beyond `metadata.name` and `metadata.namespace`,
    dotted paths; for custom resources those of the CRD version.
    """

    gvr: GroupVersionResource
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    custom: bool = False

    @property
    def api_version(self) -> str:
        return self.gvr.group_version

    @property
    def list_kind(self) -> str:
        return self.kind + "List"

    def subresource(self, name: str) -> Subresource | None:
        for sub in self.subresources:
            if sub.name == name:
                return sub
        return None
