"""Services: which pods answer for one, written down in EndpointSlices.

`endpoints` says what a pod is as an endpoint of a Service, `slices` how endpoints are spread over
EndpointSlices with as few changes as may be; both are pure. The `controller` reads the present
state, asks them, and writes the difference. Cluster addresses and node ports are given out when a
Service is written (`virtualnode.admission`, from the network that the composition names), so they
are there before anybody can read it.

Invariant: only slices that this controller manages are touched; a Service without a selector, and
what others manage, are theirs. Next step: whoever routes traffic reads the slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtualnode.services.controller import EndpointSliceController

if TYPE_CHECKING:
    from virtualnode.objects import Objects

__all__ = ["EndpointSliceController", "controllers"]


def controllers(objects: Objects) -> tuple[tuple[str, EndpointSliceController], ...]:
    """The controllers by name; each `run`s until cancelled. The store must be open."""
    return (("endpoint slices", EndpointSliceController(objects)),)
