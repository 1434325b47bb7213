"""Part of the placement bench: decisions against the best there is, as CP-SAT proves it.

Single gangs: of each seeded instance the optimum and what was decided – where others may go for it,
by the engine –, both as the vector of the lexicographic objective; what was chosen is valued by the
same model with the choice held, so it is checked at the same time. Batches: what was reached
against what no placement could beat.
"""

from __future__ import annotations

import importlib
import random
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import placement_instances
from asking import decided
from placement_instances import Batch, Instance

from fleet.scheduling.batch import place_batch
from fleet.scheduling.decisions import Admit, Preempt
from fleet.scheduling.exact import batch as exact_batch
from fleet.scheduling.exact.gang import Infeasible, Objective, Optimum, Unproven, solve
from fleet.scheduling.exact.neighbourhood import Neighbourhoods
from fleet.scheduling.exact.question import question_of
from fleet.scheduling.exact.solver import Limits
from fleet.scheduling.exact.verdict import shares_of
from fleet.scheduling.placement import Plan, place

if TYPE_CHECKING:
    from collections.abc import Iterable

FAMILIES = ("single-role", "multi-role", "victims", "crowded")
QUICK = 80
PROOF = Limits(work=40.0)
"""Enough for every instance."""


@dataclass(frozen=True)
class Compared:
    """One instance: what is best and what was decided; None: nothing, or nothing possible."""

    instance: Instance
    best: Objective | None
    reached: Objective | None
    exact_s: float
    place_s: float

    @property
    def refused_feasible(self) -> bool:
        return self.best is not None and self.reached is None

    @property
    def equal(self) -> bool:
        return self.best == self.reached

    @property
    def gap(self) -> float:
        """Relative difference at the first level that differs; 1 for a possible gang refused."""
        if self.equal:
            return 0.0
        if self.best is None or self.reached is None:
            return 1.0
        best, reached = next((b, r) for b, r in zip(self.best, self.reached, strict=True) if b != r)
        return (reached - best) / max(abs(best), abs(reached))

    @property
    def level(self) -> str:
        if self.best is None or self.reached is None:
            return "" if self.equal else "refused"
        levels = zip(Objective._fields, self.best, self.reached, strict=True)
        return next((name for name, b, r in levels if b != r), "")


def compare(instance: Instance) -> Compared:
    """Raises AssertionError for a plan that breaks a hard constraint or claims in vain that there
    is no better, and for an optimum that was not proven.
    """
    question = question_of(
        instance.demand,
        instance.clusters,
        victims=instance.victims,
        size=instance.size,
        **instance.question,
    )
    began = time.perf_counter()
    best = solve(question, limits=PROOF)
    assert not isinstance(best, Unproven), (instance.number, best)
    proven = time.perf_counter()
    ours = decide(instance)
    done = time.perf_counter()
    reached = None
    if ours is not None:
        worth = solve(question, limits=PROOF, shares=ours.shares, victims=ours.victims)
        told = f"instance {instance.number}: {ours}"
        assert isinstance(worth, Optimum), f"no such placement: {told}"
        assert isinstance(best, Optimum), f"not to be placed: {told}"
        assert best.objective <= worth.objective, f"better than the best: {told}"
        assert not ours.exact or best.objective == worth.objective, f"not exact: {told}"
        reached = worth.objective
    return Compared(
        instance,
        None if isinstance(best, Infeasible) else best.objective,
        reached,
        exact_s=proven - began,
        place_s=done - proven,
    )


Shares = dict[tuple[str, str, str], int]


class Decided(NamedTuple):
    """What was chosen: pods by (role, cluster, block), who goes, and whether it claims the best."""

    shares: Shares
    victims: tuple[str, ...]
    exact: bool


def decide(instance: Instance) -> Decided | None:
    """By the engine over the gateway's Placer, where running gangs may be evicted for it."""
    if not instance.victims:
        plan = place(instance.demand, instance.clusters, generation=1, **instance.question)
        return Decided(shares_of(plan), (), plan.exact) if isinstance(plan, Plan) else None
    told = decided(
        instance.demand,
        instance.clusters,
        instance.victims,
        prices=instance.prices,
        waited_s=instance.waited_s,
    )
    if not isinstance(told, Admit | Preempt):
        return None
    plan = told.placed.plan
    assert isinstance(plan, Plan)
    gone = told.victims if isinstance(told, Preempt) else ()
    return Decided(shares_of(plan), gone, plan.exact and not gone)


def summary(found: Iterable[Compared]) -> dict[str, float]:
    found = list(found)
    feasible = [each for each in found if each.best is not None]
    return {
        "exact_equal_share": sum(each.equal for each in found) / len(found),
        "refused_feasible": sum(each.refused_feasible for each in found),
        "mean_gap": statistics.mean(each.gap for each in feasible) if feasible else 0.0,
    }


# -- batches

BATCHES = tuple((number, asked) for number, asked in enumerate((0.8, 0.8, 1.0, 1.0, 1.2, 1.2)))


def batch_gap(batch: Batch, *, work: float) -> tuple[exact_batch.Gap, int, float]:
    """The gap of what was placed, how many gangs were, and the seconds that placing took."""
    began = time.perf_counter()
    placed = place_all(batch)
    took = time.perf_counter() - began
    found = exact_batch.gap(
        batch.demands,
        placed,
        batch.clusters,
        now_s=0.0,
        prices=batch.prices,
        limits=Limits(work=work, workers=2),
    )
    return found, len(placed), took


def place_all(batch: Batch) -> dict[int, list[exact_batch.Share]]:
    """Shares by position in the batch."""
    done = place_batch(
        batch.demands, batch.clusters, now_s=0.0, chance=random.Random(0), prices=batch.prices,
        polish=Neighbourhoods().improve,
    )  # fmt: skip
    return {
        at: [
            exact_batch.Share(
                piece.cluster, each.seating.answer.tier, sum(piece.pods), piece.per_hour
            )
            for piece in each.seating.answer.pieces
        ]
        for at, each in done.admitted.items()
    }


# -- the part


def run(quick: bool) -> dict[str, float]:
    """Raises ModuleNotFoundError where OR-tools is not installed."""
    importlib.import_module("ortools.sat.python.cp_model")
    count = QUICK if quick else placement_instances.COUNT
    found = [compare(placement_instances.instance(number)) for number in range(count)]
    print("gangs against CP-SAT   instances  feasible  equal    refused  mean gap  CP-SAT    place")
    for family in FAMILIES:
        _print(family, [each for each in found if family in each.instance.families])
    _print("all", found)
    gaps = []
    print("batches against their bound   placed  in      first level that differs     gap")
    for number, asked in BATCHES[1:2] if quick else BATCHES:
        size = {"gangs": 30, "clusters": 6} if quick else {}
        batch = placement_instances.batch(number, asked=asked, **size)
        gap, placed, took = batch_gap(batch, work=1.0 if quick else 4.0)
        gaps.append(gap.relative)
        title = f"{len(batch.demands)} gangs, {asked:.0%} of what is free"
        level = f"{gap.level} {gap.reached}, bound {gap.bound}" if gap.relative else "none"
        print(f"{title:29} {placed:6}  {took:4.1f} s  {level:28} {gap.relative:.2%}")
    return {**summary(found), "batch_gap": statistics.mean(gaps)}


def _print(title: str, found: list[Compared]) -> None:
    if not found:
        return
    told = summary(found)
    feasible = sum(each.best is not None for each in found)
    exact_ms = 1000 * statistics.mean(each.exact_s for each in found)
    place_ms = 1000 * statistics.mean(each.place_s for each in found)
    print(
        f"{title:22} {len(found):9} {feasible:9}  {told['exact_equal_share']:7.2%} "
        f"{told['refused_feasible']:8}  {told['mean_gap']:8.3%} "
        f"{exact_ms:6.1f} ms {place_ms:5.1f} ms"
    )


if __name__ == "__main__":
    print(run(quick="--quick" in sys.argv))
