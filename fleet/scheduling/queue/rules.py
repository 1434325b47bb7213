"""The bounds of queueing and preemption that are the fleet's, not one node's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    patience_s: float = 30
    """Nothing is evicted for work that would start within this time by itself."""
    worth: float | None = 1
    """Nothing is evicted where more work is lost than this times what waiting costs: the
    preemptor's size times how long it would wait. Work without a known end is not waited for. None:
    whatever is lost."""
    earmark_s: float = 600
    """How long what was freed for a preemptor is held for it."""
    aging_s: float = 6 * 3600
    """After this time nothing may start ahead of a gang on what is held for it, and it goes before
    newer work of its node whatever its priority."""
    damping_s: float = 60
    """Work that was evicted runs at least so long before the next time, twice that after two
    evictions, and so on: up to 2⁶ times."""
    outlook: int = 8
    """Of how many heads of one tree the start is foreseen."""
    searched: int = 4
    """For how many gangs that wait for capacity of members, quota being there, room is kept."""
