"""Kueue's MultiKueue, with the fleet as its external dispatcher: who gets which Workload.

A manager cluster whose Kueue names a foreign `multiKueue.dispatcherName` waits, for each Workload
that has quota, until somebody writes `status.nominatedClusterNames`. `dispatcher` does, by the
fleet's own placement; it is the only module here that acts. `objects` reads what Kueue keeps,
`nominations` makes the write, `standing` says how a Workload stands in its clusters. Invariant:
nothing is remembered that Kueue's objects do not say, time limits apart, and nothing is written
that Kueue's own rules forbid. Next step: `fleet.gateway.guests`, which answers for the fleet.
"""

from __future__ import annotations

from adapters.kueue.dispatcher import Dispatcher

__all__ = ["Dispatcher"]
