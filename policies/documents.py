"""The OpenAPI v3 document of `apis/fleet.dev/v1alpha1`, as the gateway publishes it."""

from __future__ import annotations

from functools import cache

from fleet.kube.schema.publishing import Published, published
from policies.registry import kinds


@cache
def openapi_document() -> dict[str, bytes]:
    """Path (`apis/fleet.dev/v1alpha1`) to document."""
    return published(Published(kind.resource, kind.schema) for kind in kinds())
