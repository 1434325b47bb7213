"""What Kubernetes objects look like: schemas, and the decoding and pruning that follow from them.

`documents` ships the structure of the pinned release's OpenAPI documents and answers `schema_for`;
`model` navigates any OpenAPI v3 schema, a CRD's as well; `reading` parses bodies; `fields` makes of
a parsed body what an API server would hold: unknown fields dropped and reported, types checked,
zero values kept or left out as the Go structs do.

Invariant: nothing in here knows a kind by name. `fleet.kube.patch` takes merge keys from these
schemas; `fleet.kube.defaults` fills in and validates what the schemas cannot say.
"""

from __future__ import annotations

from fleet.kube.schema.documents import (
    DocumentMissing,
    document,
    group_versions,
    openapi_path,
    schema_for,
)
from fleet.kube.schema.fields import FieldValidation, decode
from fleet.kube.schema.model import Schema, SchemaSet

__all__ = [
    "DocumentMissing",
    "FieldValidation",
    "Schema",
    "SchemaSet",
    "decode",
    "document",
    "group_versions",
    "openapi_path",
    "schema_for",
]
