"""The policy kinds of `fleet.dev/v1alpha1`: typed models, and everything that follows from them.

A model is the single source of its kind – CRD schema, defaults, validation, explain text, editor
schema and reference page are made from it. Stands on `fleet.kube` and `fleet.errors` alone; the
composition root gives the kinds to the kernel, `fleet.scheduling` reads the typed objects.
"""

from __future__ import annotations

from policies.documents import openapi_document
from policies.kind import Kind
from policies.registry import (
    CLUSTER,
    FLEET_QUOTA,
    LENDING_POLICY,
    PLACEMENT,
    PLACEMENT_POLICY,
    PRICE_BOOK,
    kinds,
)

__all__ = [
    "CLUSTER",
    "FLEET_QUOTA",
    "LENDING_POLICY",
    "PLACEMENT",
    "PLACEMENT_POLICY",
    "PRICE_BOOK",
    "Kind",
    "kinds",
    "openapi_document",
]
