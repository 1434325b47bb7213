"""From what people type – `po`, `deploy`, `pods.metrics.k8s.io` – to what is served."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet.errors import NotFound
from fleet.kube.paths import path_of
from fleet.kube.resources import GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.cli.client import Client

_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json"
)


@dataclass(frozen=True, slots=True)
class Served:
    """One resource of a server, at its preferred version, with every name it answers to."""

    gvr: GroupVersionResource
    kind: str
    namespaced: bool
    names: tuple[str, ...]

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        return path_of(
            self.gvr,
            namespace=namespace if self.namespaced else "",
            name=name,
            subresource=subresource,
        )


def find(client: Client, text: str) -> Served:
    """The resource that `text` names: plural, singular, short name or kind, also with its group.

    Raises NotFound, with what was probably meant.
    """
    wanted, _, group = text.lower().partition(".")
    served = [*_served(client, "/api"), *_served(client, "/apis")]
    for resource in served:
        if wanted in resource.names and (not group or resource.gvr.group.startswith(group)):
            return resource
    known = sorted({name for resource in served for name in resource.names})
    near = difflib.get_close_matches(wanted, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise NotFound(f'the server has no resource type "{text}"{hint}')


def read(client: Client, resource: Served, *, name: str, namespace: str) -> dict[str, Any]:
    """The object of this name. Raises NotFound, with the namespaces that have one."""
    try:
        found: dict[str, Any] = client.get(resource.path(namespace=namespace, name=name))
    except NotFound as error:
        everywhere = client.get(resource.path(), [("fieldSelector", f"metadata.name={name}")])
        spaces = sorted({each["metadata"]["namespace"] for each in everywhere.get("items") or ()})
        hint = f"What there is:  fleet get {resource.gvr.resource} -n {namespace}"
        if spaces:
            hint = f"There is one in:  {'  '.join(f'-n {each}' for each in spaces)}"
        raise NotFound(
            f'{resource.gvr.group_resource} "{name}" not found in namespace {namespace}\n  {hint}'
        ) from error
    return found


def _served(client: Client, path: str) -> Iterator[Served]:
    document = client.get(path, accept=_AGGREGATED)
    for group in document.get("items") or ():
        seen: set[str] = set()
        for version in group.get("versions") or ():
            for row in version.get("resources") or ():
                if row["resource"] not in seen:
                    seen.add(row["resource"])
                    yield _resource(group["metadata"].get("name", ""), version["version"], row)


def _resource(group: str, version: str, row: dict[str, Any]) -> Served:
    kind = row["responseKind"]["kind"]
    names = (
        row["resource"],
        row.get("singularResource") or kind.lower(),
        kind.lower(),
        *(row.get("shortNames") or ()),
    )
    return Served(
        GroupVersionResource(group, version, row["resource"]),
        kind,
        row.get("scope") == "Namespaced",
        tuple(dict.fromkeys(names)),
    )
