"""What members count; served by the gateway's `/metrics`."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

RELISTS = Counter(
    "fleet_member_lists_total",
    "Whole lists taken in from a member, by how they were asked for (watchlist or list).",
    ["member", "resource", "form"],
)
WATCH_FAILURES = Counter(
    "fleet_member_watch_failures_total",
    "Watches of a member that ended otherwise than by a clean end.",
    ["member", "resource"],
)
EVENTS = Counter(
    "fleet_member_events_total",
    "Watch events taken in from a member.",
    ["member", "resource"],
)
PROBES = Counter(
    "fleet_member_freshness_probes_total",
    "Probes that asked a member for its current revision, by outcome.",
    ["member", "resource", "outcome"],
)
READY = Gauge(
    "fleet_member_ready",
    "1 when the member's condition Ready is True.",
    ["member"],
)
