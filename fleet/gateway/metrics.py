"""`/metrics`: what the gateway counts about requests, with all that other parts register.

Labels come from requests and are kept few: a resource is named only once it was answered
successfully, so that guesses at paths cannot grow the series without bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from fleet.gateway.routes import route_of
from fleet.kube.paths import parse_target
from fleet.kube.wire import Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.apiserver.http import Exchange

REQUESTS = Counter(
    "fleet_requests_total",
    "Requests answered, by root (merged, member, objects), verb, resource and HTTP code "
    "(0: the client left before there was one).",
    ["root", "verb", "resource", "code"],
)
DURATION = Histogram(
    "fleet_request_duration_seconds",
    "Time from a request's headers to the last byte of its answer; watches, followed logs and "
    "tunnels are left out.",
    ["root", "verb", "resource"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
SENT_BYTES = Counter(
    "fleet_sent_bytes_total",
    "Bytes of answers' bodies.",
    ["root", "verb"],
)
FAULTS = Counter(
    "fleet_request_faults_total",
    "Requests that met an error nobody expected; the log has each with its audit id.",
)
LONG_RUNNING = Gauge(
    "fleet_long_running_requests",
    "Watches, followed logs and tunnels that are open.",
)

MAX_RESOURCES = 500
OTHER = "other"
NONE = ""


class RequestMetrics:
    """Counts exchanges; give `observe` to the HTTP server."""

    def __init__(self) -> None:
        self._resources: set[str] = set()

    def observe(self, exchange: Exchange) -> None:
        route = route_of(exchange.path)
        target = parse_target(exchange.method, route.path, exchange.query)
        if target is None:
            verb, resource = exchange.method.lower(), NONE
        else:
            verb = target.verb or exchange.method.lower()
            resource = self._label(
                f"{target.gvr.group_resource}/{target.subresource}"
                if target.subresource
                else target.gvr.group_resource,
                exchange.status,
            )
        REQUESTS.labels(route.root, verb, resource, str(exchange.status)).inc()
        SENT_BYTES.labels(route.root, verb).inc(exchange.sent_bytes)
        if not exchange.long_running:
            DURATION.labels(route.root, verb, resource).observe(exchange.seconds)
        if exchange.fault is not None:
            FAULTS.inc()

    def _label(self, resource: str, status: int) -> str:
        if resource in self._resources:
            return resource
        if (200 <= status < 300 or status == 101) and len(self._resources) < MAX_RESOURCES:
            self._resources.add(resource)
            return resource
        return OTHER


def watch_long_running(count: Callable[[], int]) -> None:
    """Let the gauge ask `count` whenever it is read."""
    LONG_RUNNING.set_function(count)


def response() -> Response:
    return Response(200, {"Content-Type": CONTENT_TYPE_LATEST}, generate_latest(REGISTRY))
