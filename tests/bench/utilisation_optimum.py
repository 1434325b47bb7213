"""Part of the utilisation bench: a shortened week against the offline optimum.

What a schedule costs: the fleet's own accelerators, which are paid for whether they run or not,
and what has to be bought on demand so that all that was asked for is done, because it was not done
on them by the end. The optimum knows everything beforehand – arrivals, run times, what serving will
need – and decides in slots of half an hour; it may interrupt gangs and move them at no cost, asks
no quota and knows no nodes. It keeps serving and the floor as the desk has to. CP-SAT proves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from utilisation_week import HOUR_S, INSTANCE, TICK_S, Load, week

from fleet.scheduling.exact.solver import Limits, cp_sat, solved_with

if TYPE_CHECKING:
    from utilisation_week import Told

SLOT_S = 1800
OWN_PER_H = 2.0
"""An hour of an accelerator of the fleet's own, all told; an assumption, in USD."""
BOUGHT_PER_H = 98.32 / 8
"""The same on demand: p5.48xlarge, as in the example of a PriceBook."""


@dataclass(frozen=True, slots=True)
class Optimum:
    bought_h: float
    bound_h: float
    """What the solver proved to be the least."""
    proven: bool


def shortened(*, hours: int, nodes: int, seed: int) -> Load:
    """The first hours of such a week, all times in whole slots."""
    load = week(days=1, nodes=nodes, seed=seed)
    lasts_s = hours * HOUR_S
    gangs = [
        replace(
            gang,
            work_s=max(SLOT_S, round(gang.work_s / SLOT_S) * SLOT_S),
            declared_s=max(gang.declared_s, SLOT_S, round(gang.work_s / SLOT_S) * SLOT_S),
            at_s=gang.at_s // SLOT_S * SLOT_S,
        )
        for gang in load.gangs
        if gang.at_s < lasts_s
    ]
    return replace(load, instances=load.instances[: lasts_s // TICK_S], gangs=gangs)


def open_to_training(load: Load) -> list[int]:
    """Accelerators times ticks that serving and its floor leave in each slot."""
    clusters = len(load.clusters)
    slots = []
    width = SLOT_S // TICK_S
    for begin in range(0, len(load.instances), width):
        left = 0
        for count in load.instances[begin : begin + width]:
            worst = -(-count // clusters) * INSTANCE
            spare = -(-worst * clusters // (clusters - 1))
            left += load.owned - count * INSTANCE - spare
        slots.append(left)
    return slots


def optimum(load: Load, *, work: float = 60.0) -> Optimum:
    model = cp_sat().CpModel()
    slots = open_to_training(load)
    in_slot: list[list[tuple[int, object]]] = [[] for _ in slots]
    done = []
    for gang in load.gangs:
        runs = [
            (slot, model.new_bool_var("")) for slot in range(gang.at_s // SLOT_S, len(slots))
        ]  # fmt: skip
        for slot, var in runs:
            in_slot[slot].append((gang.size, var))
        if len(runs) > (most := gang.work_s // SLOT_S):
            model.add(sum(var for _, var in runs) <= most)
        done += [(gang.size, var) for _, var in runs]
    for left, asked in zip(slots, in_slot, strict=True):
        model.add(sum(size * var for size, var in asked) <= left // (SLOT_S // TICK_S))
    model.maximize(sum(size * var for size, var in done))
    status, made = solved_with(model, Limits(work=work))
    per_slot_h = SLOT_S / HOUR_S
    return Optimum(
        bought_h=load.offered_h - made.objective_value * per_slot_h,
        bound_h=load.offered_h - made.best_objective_bound * per_slot_h,
        proven=made.status_name(status) == "OPTIMAL",
    )


def cost(load: Load, bought_h: float) -> float:
    own_h = load.owned * load.lasts_s / HOUR_S
    return own_h * OWN_PER_H + bought_h * BOUGHT_PER_H


def ratio(load: Load, told: Told, best: Optimum) -> float:
    return cost(load, told.left_h) / cost(load, best.bought_h)
