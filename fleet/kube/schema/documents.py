"""The shipped OpenAPI v3 documents of the pinned release, one per group version.

Made by `scripts/generate-openapi`; read from package data on first use and kept. They hold the
structure only: a member's own documents, prose included, are served while one is up.
"""

from __future__ import annotations

import gzip
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from fleet.kube.schema.model import Schema, SchemaSet

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

_SUFFIX = ".json.gz"
_GO_FIELDS = "go-fields"


class DocumentMissing(LookupError):
    """The release serves no such group version."""


class GoField(NamedTuple):
    """How the Go struct behind a definition encodes one field.

    `type` is the Go type as reflection prints it, without the pointer (`[]v1.Container`);
    `embedding` names the inlined structs the field comes from (`ProbeHandler`).
    """

    type: str
    pointer: bool
    omit_empty: bool
    omit_zero: bool
    embedding: str


def _data() -> Traversable:
    return resources.files(__package__) / "data"


@cache
def group_versions() -> tuple[str, ...]:
    """The group versions that are shipped, as `apiVersion` writes them: `apps/v1`, `v1`."""
    names = sorted(
        entry.name.removesuffix(_SUFFIX)
        for entry in _data().iterdir()
        if entry.name.endswith(_SUFFIX)
    )
    return tuple(name.replace("__", "/") for name in names if name != _GO_FIELDS)


def openapi_path(group_version: str) -> str:
    """Where `/openapi/v3` lists the document: `api/v1`, `apis/apps/v1`."""
    return f"apis/{group_version}" if "/" in group_version else f"api/{group_version}"


@cache
def document(group_version: str) -> bytes:
    """The OpenAPI v3 document of one group version, as JSON.

    Raises DocumentMissing when the release serves no such group version.
    """
    if group_version not in group_versions():
        raise DocumentMissing(
            f"no OpenAPI document for {group_version!r}; one of {', '.join(group_versions())}"
        )
    return _read(group_version.replace("/", "__"))


def schema_for(group: str, version: str, kind: str) -> Schema | None:
    """The schema of a built-in kind, or None when the release does not have it."""
    group_version = f"{group}/{version}" if group else version
    if group_version not in group_versions():
        return None
    return schema_set(group_version).for_kind(group, version, kind)


def structural_schema(schema: Mapping[str, Any]) -> Schema:
    """The schema of a custom resource from its CRD version's `openAPIV3Schema`."""
    return SchemaSet.structural(schema, metadata=object_meta)


@cache
def schema_set(group_version: str) -> SchemaSet:
    return SchemaSet(orjson.loads(document(group_version)))


def object_meta() -> Schema:
    """The schema of `metadata`, which custom resources share with built-in kinds."""
    found = schema_set("v1").definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    assert found is not None
    return found


def go_fields(definition: str) -> Mapping[str, GoField]:
    """Field name → encoding for a built-in definition; empty for anything else."""
    return _go_fields().get(definition, {})


@cache
def _go_fields() -> dict[str, dict[str, GoField]]:
    return {
        definition: {
            name: GoField(go_type, "p" in flags, "o" in flags, "z" in flags, embedding)
            for name, (go_type, flags, embedding) in fields.items()
        }
        for definition, fields in orjson.loads(_read(_GO_FIELDS)).items()
    }


def _read(name: str) -> bytes:
    return gzip.decompress((_data() / f"{name}{_SUFFIX}").read_bytes())
