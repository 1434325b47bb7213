"""Which work may share nodes: the lending classes of a quota tree.

Where a policy wants exclusive nodes, its donor and each of its borrowers are a class, and all work
below such a quota is of it; of two on the way up the nearest counts. Work of no class is nobody's
business here. Next step: `isolation` says it in a member's language.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.scheduling.lending.loans import Loan
    from fleet.scheduling.lending.terms import Terms
    from fleet.scheduling.quota.tree import Tree


@dataclass(frozen=True, slots=True)
class Isolation:
    """How work is kept apart from others."""

    work: str
    """Its lending class."""
    exclusive: bool
    """Its nodes run nothing of others."""
    walled: bool
    """A NetworkPolicy goes with it."""


def isolation_of(
    quota: str, tree: Tree, terms: Sequence[Terms], loan: Loan | None
) -> Isolation | None:
    """Of work that counts at a quota, and runs on `loan` if that is not None."""
    classed = class_of(quota, tree, terms)
    policy = next((each for each in terms if loan is not None and each.name == loan.policy), None)
    walled = policy is not None and policy.network_policy
    if not classed and not walled:
        return None
    return Isolation(classed or quota, exclusive=bool(classed), walled=walled)


def class_of(quota: str, tree: Tree, terms: Sequence[Terms]) -> str:
    """The class of a quota's work, "" for none."""
    named = {name for each in terms if each.exclusive for name in (each.donor, *each.borrowers)}
    if quota not in tree.nodes:
        return ""
    return next((node.name for node in tree.path(quota) if node.name in named), "")
