"""What the gateway writes to its log: one line an event, and one a request where asked for.

Requests are logged at `debug`, failures of the gateway's own (5xx) at `warning`. Bodies and query
values stay out of it; a request is found again by its audit id.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.apiserver.http import Exchange

access = logging.getLogger("fleet.access")


def configure(level: str) -> None:
    """Send the log to standard error, from `level` up."""
    logging.basicConfig(
        stream=sys.stderr,
        level=getattr(logging, level.upper()),
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
    )
    if level != "debug":
        # aiohttp and asyncio speak of clients that left; that is no event here
        logging.getLogger("aiohttp").setLevel(logging.WARNING)
        logging.getLogger("asyncio").setLevel(logging.WARNING)


def log_exchange(exchange: Exchange) -> None:
    level = logging.WARNING if exchange.status >= 500 else logging.DEBUG
    if not access.isEnabledFor(level):
        return
    access.log(
        level,
        "%s %s %d %.1fms %dB %s %s %s",
        exchange.method,
        exchange.path,
        exchange.status,
        exchange.seconds * 1000,
        exchange.sent_bytes,
        exchange.user.name,
        exchange.address,
        exchange.audit_id,
    )
