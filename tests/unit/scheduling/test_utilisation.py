"""The bench of utilisation, two days of it: its bounds hold, and its books add up."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest
import utilisation_optimum as offline
from bench_utilisation import WAYS, missed, results_of
from utilisation_week import HOUR_S, Gang, Load, Told, play, week

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.timeout(300)


@functools.cache
def two_days() -> tuple[Load, Mapping[str, Told]]:
    load = week(days=2, more=1.2)
    return load, {way: play(load, way) for way in WAYS}


def test_lending_runs_more_of_the_fleet_and_breaks_no_floor() -> None:
    _, found = two_days()
    results = results_of(dict(found))
    assert missed(results) == []
    assert results["util_static"] < results["util_fleet"] < results["util_lending"]
    assert found["lending"].lent > 100


@pytest.mark.parametrize("way", WAYS)
def test_every_hour_of_work_is_counted_once(way: str) -> None:
    load, found = two_days()
    told = found[way]
    assert told.serving == pytest.approx(load.serving_h)
    # What was done and kept is what is not left of all that was asked for.
    kept = told.training - told.lost - told.overhead
    assert kept == pytest.approx(load.offered_h - told.left_h)
    assert told.goodput <= told.util <= told.busy <= 1
    assert sum(map(len, told.waits_s.values())) == len(load.gangs)


def test_the_same_day_is_played_in_the_same_way() -> None:
    load, found = two_days()
    assert play(load, "lending") == found["lending"]
    assert week(days=2, more=1.2) == load and week(days=1, seed=2) != week(days=1)


def gang(uid: str, size: int, hours: int, at: int = 0) -> Gang:
    return Gang(uid, "nlp", size, hours * HOUR_S, hours * HOUR_S, at * HOUR_S, 0, 0)


def test_the_optimum_is_what_can_be_seen_by_hand() -> None:
    # 64 accelerators; two instances have 8, and 4 in one cluster: 6 are spare, where each of four
    # holds as much.
    instances = [2] * 48
    load = Load(dict.fromkeys("abcd", 2), instances, [gang("a", 48, 3), gang("b", 32, 2, at=2)])
    assert offline.open_to_training(load) == [6 * (64 - 8 - 6)] * 8
    best = offline.optimum(load)
    # The large one runs for three hours; of the other one of its two is left.
    assert best.proven and best.bought_h == 32 == best.bound_h
    owned = 64 * 4 * offline.OWN_PER_H
    assert offline.cost(load, 32) == pytest.approx(owned + 32 * offline.BOUGHT_PER_H)
