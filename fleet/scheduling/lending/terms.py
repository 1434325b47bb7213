"""LendingPolicies as the terms of loans. `desk` lends by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.scheduling.quota.tree import Key
from policies import LENDING_POLICY
from policies.fleet_quota import smallest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.lending_policy import KeepFloor, RecallStep

Object = dict[str, Any]

IN_ORDER: Final[tuple[RecallStep, ...]] = ("Expired", "CheapestCheckpoint", "LowestPriority")


@dataclass(frozen=True, slots=True)
class Terms:
    name: str
    donor: str
    """The quota node that lends."""
    borrowers: tuple[str, ...]
    """Nodes that may borrow, and those below them, the first first."""
    keep_floor: KeepFloor = "SurvivesLossOfOneCluster"
    keep_percent: int = 0
    """Of its guaranteed amounts, never lent."""
    term_s: float = 4 * 3600
    renew: bool = True
    notice_s: float = 300
    recall_order: Sequence[RecallStep] = IN_ORDER
    exclusive: bool = False
    """No node of a member runs work of borrower and donor at a time."""
    network_policy: bool = False
    closed: bool = False
    """Its object cannot be read: nothing more is lent by it, and what is on loan stays to the end
    of its term."""
    expects: tuple[tuple[Key, int], ...] = ()
    """What the donor is about to need beyond what its work has and waits for."""


def terms_of(objects: Iterable[Object]) -> list[Terms]:
    """By name. Raises Invalid for an object that no write would have let in."""
    found = []
    for each in objects:
        policy = LENDING_POLICY.parse(each)
        spec = policy.spec
        found.append(
            Terms(
                name=str(each["metadata"]["name"]),
                donor=spec.from_.quota,
                borrowers=tuple(borrower.quota for borrower in spec.to),
                keep_floor=spec.from_.keep_floor,
                keep_percent=spec.from_.keep_share,
                term_s=spec.term.max.total_seconds(),
                renew=spec.term.renew,
                notice_s=spec.term.notice.total_seconds(),
                recall_order=spec.recall_order,
                exclusive=spec.isolation.node == "Exclusive",
                network_policy=spec.isolation.network_policy,
                expects=tuple(
                    (Key(each.name, each.accelerator), smallest(each.name, each.amount))
                    for each in spec.from_.expects
                ),
            )
        )
    return sorted(found, key=lambda terms: terms.name)


def closed_terms(obj: Object, left: Object, *, donor: str) -> Terms:
    """The terms of a LendingPolicy that cannot be read, of which `left` is what can be; `donor` is
    who lends where that does not say. Where how nodes are shared cannot be read, they are not."""
    spec: Object = left.get("spec") or {}
    isolation: Object = spec.get("isolation") or {}
    stated = obj["spec"].get("isolation") if isinstance(obj.get("spec"), dict) else None
    lends: Object = spec.get("from") or {}
    return Terms(
        name=str(obj["metadata"]["name"]),
        donor=str(lends.get("quota") or donor),
        keep_floor="None" if lends.get("keepFloor") == "None" else "SurvivesLossOfOneCluster",
        borrowers=tuple(str(each["quota"]) for each in spec.get("to") or ()),
        renew=False,
        exclusive=isolation.get("node") == "Exclusive" or (stated or {}) != isolation,
        network_policy=bool(isolation.get("networkPolicy")),
        closed=True,
    )
